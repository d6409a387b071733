"""What the adapter takes from Ignite, 0.4.13 and later, and the types it relies on."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import MissingExtraError
from seamark.process.rank import current_rank

__all__ = [
    "BaseLogger",
    "BaseOptimizerParamsHandler",
    "BaseOutputHandler",
    "BaseSaveHandler",
    "BaseWeightsHandler",
    "BaseWeightsScalarHandler",
    "base",
    "engine",
    "handlers",
    "idist",
    "idist_knows",
    "version",
]


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
handlers: Final = _import("ignite.handlers")
idist: Final = _import("ignite.distributed")
# The older place is gone from 0.5 on, where a forwarding module warns about it.
base: Final = _import("ignite.handlers.base_logger", "ignite.contrib.handlers.base_logger")

if TYPE_CHECKING:
    # What the adapter relies on, so that types are checked without a host.
    class BaseLogger:
        """Attaches handlers to engines."""

        def attach_output_handler(
            self, engine: Any, event_name: Any, *args: Any, **kwargs: Any
        ) -> Any: ...
        def attach_opt_params_handler(
            self, engine: Any, event_name: Any, *args: Any, **kwargs: Any
        ) -> Any: ...

    class BaseSaveHandler:
        """Writes what a ``Checkpoint`` hands it."""

    class BaseOutputHandler:
        """Checks and keeps the arguments of handlers of metrics and outputs."""

        tag: str | None
        metric_names: str | list[str] | None
        output_transform: Callable[[Any], Any] | None
        global_step_transform: Callable[[Any, Any], Any]
        state_attributes: list[str] | None

        def __init__(self, *args: Any) -> None: ...

    class BaseOptimizerParamsHandler:
        """Checks and keeps the arguments of handlers of optimizers."""

        optimizer: Any
        param_name: str
        tag: str | None

        def __init__(self, *args: Any) -> None: ...

    class BaseWeightsHandler:
        """Checks and keeps the arguments of handlers of a model's parameters."""

        weights: Sequence[tuple[str, Any]]
        tag: str | None

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    class BaseWeightsScalarHandler(BaseWeightsHandler):
        """The same, with a reduction to one number."""

        reduction: Callable[[Any], Any]

else:
    BaseLogger = base.BaseLogger
    BaseOptimizerParamsHandler = base.BaseOptimizerParamsHandler
    BaseOutputHandler = base.BaseOutputHandler
    BaseSaveHandler = importlib.import_module("ignite.handlers.checkpoint").BaseSaveHandler
    BaseWeightsScalarHandler = base.BaseWeightsScalarHandler
    BaseWeightsHandler = base.BaseWeightsHandler


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
