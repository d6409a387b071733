"""Interface to Ignite, and the run into which a logger records."""

from __future__ import annotations

import importlib
from typing import Any, Final

from seamark.errors import MissingExtraError, PathError
from seamark.options.checks import naming
from seamark.paths import check_path
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank
from seamark.run.handler import Handler
from seamark.run.run import Run

# Of type Any, because classes of any release are inherited from.
try:
    engine: Any = importlib.import_module("ignite.engine")
    idist: Any = importlib.import_module("ignite.distributed")
    checkpoint: Any = importlib.import_module("ignite.handlers.checkpoint")
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "ignite":
        raise
    raise MissingExtraError(
        "seamark.ignite needs pytorch-ignite, which is not installed: pip install 'seamark[ignite]'"
    ) from error
try:
    base: Any = importlib.import_module("ignite.handlers.base_logger")
except ModuleNotFoundError:  # before 0.5
    base = importlib.import_module("ignite.contrib.handlers.base_logger")
VERSION: Final = str(importlib.import_module("ignite").__version__)


def check_engine(given: Any, what: str) -> None:
    if not isinstance(given, engine.Engine):
        raise TypeError(f"Argument {what} should be ignite.engine.Engine, but given {type(given)}")


def idist_knows() -> bool:
    # Return whether ``idist`` can be called without other ranks. If a script created the process
    # group itself, the first call communicates with all ranks, and a single rank would block
    # forever.
    model = getattr(idist.utils, "_model", None)  # only it tells
    asks = model is None or type(model).__name__ == "_SerialModel"
    return not asks or current_rank().source != "torch.distributed"


def checked_tag(tag: Any, caller: str) -> str | None:
    """Return a tag if it is a valid namespace; None and the empty string mean none."""
    if tag is not None and not isinstance(tag, str):
        raise TypeError(
            f"{caller}: tag: expected a string or None, got {type(tag).__name__}: {tag!r:.80}"
        )
    with naming(f"{caller}: tag", PathError):
        return check_path(tag) if tag else tag


def target_of(logger: Any, caller: str) -> tuple[Run, str]:
    """Return the run and the namespace into which a logger records.

    The logger has a run or namespace as its ``experiment``, or is one itself; other objects raise
    TypeError.
    """
    for found in (getattr(logger, "experiment", None), logger):
        root = found.get_root_object() if isinstance(found, Handler) else found
        if isinstance(root, Run):
            return root, found.path if isinstance(found, Handler) else ""
    raise TypeError(
        f"Handler {caller} works only with SeamarkLogger (alias NeptuneLogger), "
        f"or an object whose 'experiment' is a seamark Run, got {type(logger)}"
    )


def dropping(run: Run, what: str, warning: str) -> quietly:
    """Return a context manager that counts and logs an error instead of raising it."""
    return quietly(lambda error: run.session.drop(what, warn=f"{warning}: {error!r}"))


def series_target_of(logger: Any, caller: str) -> tuple[Run, str]:
    """Return `target_of` for series, which have their own namespace on ranks above 0."""
    run, base = target_of(logger, caller)
    return run, run.session.series_base(base)
