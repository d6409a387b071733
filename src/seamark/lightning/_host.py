"""Lightning itself: ``lightning`` or ``pytorch_lightning``, or both in one process.

The two are the same code under two names, and their classes are unrelated. Ours derive from those
of each package that is imported already, because ``LightningCLI`` insists on subclasses of its own
package's classes, and nobody has to load the other package for our sake.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import Any, Final, TypeVar, get_type_hints

from seamark.errors import MissingExtraError
from seamark.paths import is_device

__all__ = [
    "PACKAGES",
    "VERSION",
    "Callback",
    "Profiler",
    "RunLogger",
    "configurable",
    "folder_name",
    "model_summary",
    "state_after",
]

_Class = TypeVar("_Class")
_NAMES: Final = ("lightning.pytorch", "pytorch_lightning")
_STOPPED_BY_SIGNAL: Final = frozenset({"SIGTERMException", "ExitGracefullyException"})


def _find_packages() -> list[str]:
    """Return the packages that are imported; if none is, the first that is installed.

    Raises:
        MissingExtraError: If none is installed.
    """
    loaded = [name for name in _NAMES if sys.modules.get(name) is not None]
    installed = [name for name in _NAMES if importlib.util.find_spec(name.partition(".")[0])]
    if not installed:
        msg = (
            "seamark.lightning needs PyTorch Lightning, which is not installed: "
            "pip install 'seamark[lightning]' (or the package lightning)"
        )
        raise MissingExtraError(msg)
    return loaded or installed[:1]


PACKAGES: Final = _find_packages()


def _base(module: str, name: str) -> Any:
    """Return a base class that derives from the class of this name of every imported package."""
    found = [getattr(importlib.import_module(f"{one}.{module}"), name) for one in PACKAGES]
    return found[0] if len(found) == 1 else type(name, tuple(found), {"__module__": __name__})


# Of type Any, so that types are checked without a host.
Callback = _base("callbacks.callback", "Callback")
Profiler = _base("profilers.profiler", "Profiler")
VERSION: Final = str(sys.modules[PACKAGES[0]].__version__)


class RunLogger(_base("loggers.logger", "Logger")):  # type: ignore[misc]
    """A logger that records into a run: `SeamarkLogger`, for callbacks and the profiler."""


def configurable(cls: type[_Class]) -> type[_Class]:
    """Evaluate the annotations of a constructor that ``LightningCLI`` reads.

    The jsonargparse that LightningCLI 1.9 uses does not evaluate those that are strings.
    """
    init = cls.__init__
    init.__annotations__.update(get_type_hints(init))
    return cls


def model_summary(model: Any, max_depth: int = -1) -> str:
    """Return Lightning's table of layers, for a ``LightningModule`` of either package."""
    summary: Any = importlib.import_module(f"{PACKAGES[0]}.utilities.model_summary")
    modes = [(module, module.training) for module in model.modules()]
    text = str(summary.ModelSummary(model, max_depth=max_depth))
    for module, mode in modes:  # with an example, 1.9 leaves all of them in that of the model
        module.training = mode
    return text


def folder_name(name: str) -> str:
    """Return free text as a name that every file system takes, at most 84 characters long."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:80].rstrip(".")
    return f"run-{safe}".rstrip("-") if not safe or is_device(safe) else safe


def state_after(
    status: str, error: BaseException | None
) -> tuple[str | None, BaseException | None]:
    """Return the run's state after a stage, and the exception that it ended with.

    Args:
        status: As Lightning hands it to ``finalize``.
        error: The exception in flight.

    Returns:
        The state is None for a status that Lightning itself does not use.
    """
    if status == "failed":
        names = {cls.__name__ for cls in type(error).__mro__}
        stopped = isinstance(error, KeyboardInterrupt) or names & _STOPPED_BY_SIGNAL
        return ("interrupted" if stopped else "failed"), error
    # A job that was put back into SLURM's queue is "finished".
    return {"success": "completed", "finished": "suspended"}.get(status), None
