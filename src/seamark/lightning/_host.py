"""Which Lightning is running: ``lightning`` or ``pytorch_lightning``, or both in one process.

The two are the same code under two names, and their classes are unrelated. Ours derive from those
of the package that is already imported (so that nobody loads the other for our sake) and count as
subclasses of the other's where that is imported too, because ``LightningCLI`` insists on subclasses
of its own package's ``Logger``, ``Callback`` and ``Profiler``, and a ``Trainer`` takes a callback
without a list only if it is one of its own.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABCMeta
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from seamark.errors import MissingExtraError
from seamark.process import fork

__all__ = [
    "Callback",
    "Logger",
    "Profiler",
    "configurable",
    "dummy_experiments",
    "global_rank",
    "model_summary",
    "places_checkpoints",
    "register",
    "trainer_that_asks",
    "version",
]

_Class = TypeVar("_Class")
_PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")
_PLACING: Final = "__resolve_ckpt_dir"
_ASKING: Final = frozenset({"_call_setup_hook", "log_dir"})
_BASES: Final = {
    "loggers.logger": "Logger",
    "callbacks.callback": "Callback",
    "profilers.profiler": "Profiler",
}


def _import_first() -> str:
    """Import the logger base class of one package and return the package's name."""
    loaded = [name for name in _PACKAGES if sys.modules.get(name) is not None]
    for package in (*loaded, *_PACKAGES):
        top = package.partition(".")[0]
        try:
            importlib.import_module(f"{package}.loggers.logger")
        except ModuleNotFoundError as error:
            # Also ``lightning`` before 1.9 has no such module. What else is missing is for the
            # host to say.
            if (error.name or "").partition(".")[0] != top:
                raise
        else:
            return package
    msg = (
        "seamark.lightning needs PyTorch Lightning, which is not installed: "
        "pip install 'seamark[lightning]' (or the package lightning)"
    )
    raise MissingExtraError(msg)


PACKAGE: Final = _import_first()

forks = 0
"""How many forks lie between the process that imported this and the present one.

Tells a forked child from its parent at every step, without the system call that ``os.getpid`` is.
"""


def _count_fork() -> None:
    global forks  # noqa: PLW0603 - a fact of the process
    forks += 1


fork.register(_count_fork)

if TYPE_CHECKING:
    # What the adapter relies on, so that types are checked without a host.
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
    Logger = sys.modules[f"{PACKAGE}.loggers.logger"].Logger
    Callback = importlib.import_module(f"{PACKAGE}.callbacks.callback").Callback
    Profiler = importlib.import_module(f"{PACKAGE}.profilers.profiler").Profiler


def _loaded(module: str) -> list[Any]:
    """Return this module of each package that is imported, first the one we derive from."""
    packages = sorted(_PACKAGES, key=lambda name: name != PACKAGE)
    found = (sys.modules.get(f"{package}.{module}") for package in packages)
    return [module for module in found if module is not None]


def configurable(cls: type[_Class]) -> type[_Class]:
    """Evaluate the annotations of a constructor that ``LightningCLI`` reads.

    The jsonargparse that LightningCLI 1.9 uses does not evaluate those that are strings.
    """
    init = cls.__init__
    init.__annotations__.update(get_type_hints(init))
    return cls


def register(cls: type, module: str) -> None:
    """Make ``cls`` count as a subclass in the other package too, now or when it is imported.

    Args:
        cls: A class that derives from one of `Logger`, `Callback` and `Profiler`.
        module: Which of `_BASES` that is.
    """
    for package in _PACKAGES:
        name = f"{package}.{module}"
        if name in sys.modules:
            _register_with(getattr(sys.modules[name], _BASES[module]), cls)
        else:
            later = next(
                (one for one in sys.meta_path if isinstance(one, _Later) and one.name == name), None
            )
            if later is None:
                later = _Later(name, _BASES[module])
                sys.meta_path.insert(0, later)
            later.classes.append(cls)


def _register_with(base: type, cls: type) -> None:
    if issubclass(cls, base):
        return
    if isinstance(base, ABCMeta):
        base.register(cls)
    else:  # a plain class knows none but those that derive from it; of hooks ours come first
        cls.__bases__ = (*cls.__bases__, base)


class _Later(MetaPathFinder):
    """Registers classes with the base in a module as soon as that is imported, then goes."""

    def __init__(self, name: str, base: str) -> None:
        self.name = name
        self.classes: list[type] = []
        self._base = base

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module like everybody else, and have its loader register the class."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load: Any = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            for cls in self.classes:
                _register_with(getattr(module, self._base), cls)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def dummy_experiments() -> tuple[type, ...]:
    """Return the class of each imported package that stands for the experiment on other ranks."""
    return tuple(module.DummyExperiment for module in _loaded("loggers.logger"))


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


def version(model: object = None) -> str:
    """Return the version of the package that a module is of, or of the one we derive from."""
    return str(sys.modules[_package_of(model)].__version__)


def model_summary(model: object, max_depth: int) -> str:
    """Return Lightning's table of layers, for a ``LightningModule`` of either package."""
    summary: Any = importlib.import_module(f"{_package_of(model)}.utilities.model_summary")
    return str(summary.ModelSummary(model, max_depth=max_depth))


def _package_of(model: object) -> str:
    for cls in type(model).__mro__:
        for package in _PACKAGES:
            if cls.__module__.startswith(f"{package}."):
                return package
    return PACKAGE
