"""Lightning itself: ``lightning`` or ``pytorch_lightning``, or both in one process.

The two are the same code under two names, and their classes are unrelated. Ours derive from those
of each package that is imported already, because ``LightningCLI`` insists on subclasses of its own
package's classes, and nobody has to load the other package for our sake.
"""

from __future__ import annotations

import importlib
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from seamark.errors import MissingExtraError
from seamark.process import fork

__all__ = [
    "PACKAGES",
    "Callback",
    "Logger",
    "Profiler",
    "configurable",
    "dummy_experiments",
    "global_rank",
    "model_summary",
    "places_checkpoints",
    "trainer_that_asks",
    "version",
]

_Class = TypeVar("_Class")
_NAMES: Final = ("lightning.pytorch", "pytorch_lightning")
_PLACING: Final = "__resolve_ckpt_dir"
_ASKING: Final = frozenset({"_call_setup_hook", "log_dir"})


def _find_packages() -> list[str]:
    """Return the packages that are imported; import one if none is."""
    loaded = [name for name in _NAMES if sys.modules.get(name) is not None]
    for package in loaded or _NAMES:
        try:
            importlib.import_module(f"{package}.loggers.logger")
        except ModuleNotFoundError as error:
            # ``lightning`` before 1.9 has no such module either. If anything else is missing, the
            # error of the host says so best.
            if (error.name or "").partition(".")[0] != package.partition(".")[0]:
                raise
        else:
            return loaded or [package]
    msg = (
        "seamark.lightning needs PyTorch Lightning, which is not installed: "
        "pip install 'seamark[lightning]' (or the package lightning)"
    )
    raise MissingExtraError(msg)


PACKAGES: Final = _find_packages()


def _base(module: str, name: str) -> Any:
    """Return a base class that derives from the class of this name of every imported package."""
    found = [getattr(importlib.import_module(f"{one}.{module}"), name) for one in PACKAGES]
    return found[0] if len(found) == 1 else type(name, tuple(found), {"__module__": __name__})


if TYPE_CHECKING:
    # The parts that the adapter relies on, so that types are checked without a host.
    class Logger:
        """The base class that all loggers of Lightning share."""

        def finalize(self, status: str) -> None: ...

    class Callback:
        """The base class that all callbacks of Lightning share."""

    class Profiler:
        """The base class that all profilers of Lightning share."""

        dirpath: Any
        filename: str | None
        _stage: str | None
        _local_rank: int | None

        def __init__(self, dirpath: Any = None, filename: str | None = None) -> None: ...
        def describe(self) -> None: ...
        def setup(
            self, stage: str, local_rank: int | None = None, log_dir: str | None = None
        ) -> None: ...
        def teardown(self, stage: str | None) -> None: ...
        def _rank_zero_info(self, *args: object) -> None: ...

else:
    Logger = _base("loggers.logger", "Logger")
    Callback = _base("callbacks.callback", "Callback")
    Profiler = _base("profilers.profiler", "Profiler")


def configurable(cls: type[_Class]) -> type[_Class]:
    """Evaluate the annotations of a constructor that ``LightningCLI`` reads.

    The jsonargparse that LightningCLI 1.9 uses does not evaluate those that are strings.
    """
    init = cls.__init__
    init.__annotations__.update(get_type_hints(init))
    return cls


def version() -> str:
    """Return the version of Lightning."""
    return str(sys.modules[PACKAGES[0]].__version__)


def model_summary(model: Any, max_depth: int) -> str:
    """Return Lightning's table of layers, for a ``LightningModule`` of either package."""
    modules = [f"{cls.__module__}." for cls in type(model).__mro__]
    package = PACKAGES[0]
    for name in PACKAGES:
        if any(module.startswith(f"{name}.") for module in modules):
            package = name
    summary: Any = importlib.import_module(f"{package}.utilities.model_summary")
    modes = [(module, module.training) for module in model.modules()]
    text = str(summary.ModelSummary(model, max_depth=max_depth))
    for module, mode in modes:  # with an example, 1.9 leaves all of them in that of the model
        module.training = mode
    return text


def dummy_experiments() -> tuple[type, ...]:
    """Return the class of each imported package that stands for the experiment on other ranks."""
    modules = (importlib.import_module(f"{one}.loggers.logger") for one in PACKAGES)
    return tuple(module.DummyExperiment for module in modules)


def global_rank() -> int:
    """Return the rank that Lightning gave this process, 0-based; 0 as long as it gave none."""
    rank_zero: Any = sys.modules["lightning_utilities.core.rank_zero"]
    return int(getattr(rank_zero.rank_zero_only, "rank", 0) or 0)


def trainer_that_asks(frame: FrameType | None) -> Any:
    """Return the trainer that reads a property of a logger, None where somebody else does.

    Args:
        frame: Of a function that the getter calls.
    """
    for _ in range(4):  # that function, the getter, and perhaps one of a subclass
        if frame is None:
            break
        if frame.f_code.co_name in _ASKING:
            names = frame.f_locals
            found = names.get("trainer", names.get("self"))
            return found if hasattr(found, "loggers") and hasattr(found, "callbacks") else None
        frame = frame.f_back
    return None


def places_checkpoints(frame: FrameType | None) -> bool:
    """Return whether a ``ModelCheckpoint`` reads a property of a logger to find its folder.

    It joins the logger's ``save_dir``, ``name`` and ``version``.

    Args:
        frame: Of a function that the getter calls.
    """
    for _ in range(4):  # as above
        if frame is None:
            break
        if frame.f_code.co_name == _PLACING:
            return True
        frame = frame.f_back
    return False


forks = 0
"""How many forks lie between the process that imported this and the present one.

Tells a forked child from its parent at every step, without the system call that ``os.getpid`` is.
"""


def _count_fork() -> None:
    global forks  # noqa: PLW0603 - a fact of the process
    forks += 1


fork.register(_count_fork)
