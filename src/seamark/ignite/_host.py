"""The parts of Ignite, 0.4.13 and later, that the adapter uses."""

from __future__ import annotations

import importlib
from typing import Any, Final

from seamark.errors import MissingExtraError
from seamark.process.rank import current_rank

__all__ = ["base", "check_engine", "checkpoint", "engine", "idist", "idist_knows", "version"]


def _import(*names: str) -> Any:
    """Import the first of these modules that exists."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "ignite":
                raise
    msg = (
        "seamark.ignite needs pytorch-ignite, which is not installed: pip install 'seamark[ignite]'"
    )
    raise MissingExtraError(msg)


engine: Final = _import("ignite.engine")
idist: Final = _import("ignite.distributed")
# The older place is gone from 0.5 on, where a forwarding module warns about it.
base: Final = _import("ignite.handlers.base_logger", "ignite.contrib.handlers.base_logger")

checkpoint: Final = _import("ignite.handlers.checkpoint")


def check_engine(given: Any, what: str) -> None:
    """Check that an argument is an engine.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(given, engine.Engine):
        msg = f"Argument {what} should be ignite.engine.Engine, but given {type(given)}"
        raise TypeError(msg)


def version() -> str:
    """Return Ignite's version."""
    return str(importlib.import_module("ignite").__version__)


def idist_knows() -> bool:
    """Tell whether ``idist`` can be asked without any other rank taking part.

    Where a script made the process group itself, the first question has all ranks talk to each
    other. A rank that asks alone would wait for ever.
    """
    model = getattr(idist.utils, "_model", None)  # only it tells
    asks = model is None or type(model).__name__ == "_SerialModel"
    return not asks or current_rank().source != "torch.distributed"
