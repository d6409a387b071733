"""Import hook that provides Seamark's modules as ``neptune`` and its submodules."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from seamark.errors import LoadedAlreadyError

VERSION: Final = "1.14.0"
"""Version of Neptune's client that Seamark's names and arguments follow."""
_PACKAGE_NAMES: Final = ("neptune", "neptune-client")


class ClientDistribution(Distribution):
    """Package metadata of ``neptune``, also under its older name ``neptune-client``."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def by_name(cls, name: str | None) -> ClientDistribution | None:
        """Return the package of a name; None for other names and for listings of all packages.

        It is not listed among the installed packages, because it is not installed.
        """
        normal = re.sub(r"[-_.]+", "-", name or "").lower()
        return cls(normal) if normal in _PACKAGE_NAMES else None

    def read_text(self, filename: str) -> str | None:
        """Return the metadata, which is the only file."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return the path that a file would have."""
        return Path(__file__).parent / path


_NAME: Final = "NeptuneLogger"
_PACKAGES: Final = ("lightning.pytorch.loggers", "pytorch_lightning.loggers")
LOGGERS: Final = frozenset({*_PACKAGES, *(f"{each}.neptune" for each in _PACKAGES)})
"""Modules from which scripts import the logger."""


def replace_stub(module: ModuleType) -> None:
    """Add Seamark's logger to a module of Lightning that has no logger for Neptune.

    Lightning's own logger (up to 2.6.1) is not replaced: it works with the imported modules.
    """
    own = module.__dict__.get(_NAME)
    if own is not None and hasattr(own, "log_metrics"):
        return
    module.__dict__.pop(_NAME, None)
    otherwise = module.__dict__.get("__getattr__")

    def find(name: str) -> Any:
        if name == _NAME:  # only on access: Seamark's logger imports Lightning
            return getattr(import_module("seamark.lightning"), _NAME)
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__dict__["__getattr__"] = find


_ROOT: Final = "seamark"
_REPLACED_MODULES: Final = {
    "common": "seamark",
    "common.exceptions": "seamark.exceptions",
    "internal": "seamark.integrations.utils",
    "metadata_containers": "seamark",
    "project": "seamark",
    "types.atoms": "seamark.types",
    "types.file_set": "seamark.types",
    "types.mode": "seamark.types",
    "types.model_version_stage": "seamark.types",
    "types.namespace": "seamark.types",
    "types.series": "seamark.types",
    "types.sets": "seamark.types",
    "types.value_copy": "seamark.types",
}
"""Substitutes for modules of the client that Seamark does not have, and for their submodules."""
_INTEGRATIONS: Final = "integrations."
_LIGHTNING: Final = ("pytorch_lightning", "lightning")
_OTHER_PACKAGE_NAMES: Final = {"neptune_kedro": "kedro_neptune"}
"""Integrations that are not packages named ``neptune_<name>``."""


def install() -> None:
    """Make later imports of ``neptune`` in this process return Seamark's modules.

    ``neptune``, ``neptune.new`` and their submodules are then Seamark's modules, so that
    integrations that import ``neptune`` work unchanged and ``isinstance(run, neptune.Run)`` is
    true. A second call has no effect. In releases of Lightning without a logger for Neptune,
    ``loggers.NeptuneLogger`` is ``seamark.lightning.NeptuneLogger``.

    Child processes are not affected unless they call it themselves; use ``python -m
    seamark.neptune`` to include them.

    Raises:
        LoadedAlreadyError: If the package ``neptune`` has been imported already. Nothing is changed
            in this case.

    Example:
        ::

            import seamark.neptune

            seamark.neptune.install()
            import neptune
    """
    if any(isinstance(each, _ClientFinder) for each in sys.meta_path):
        return
    loaded = sys.modules.get("neptune")
    if loaded is not None:
        where = getattr(loaded, "__file__", None) or "an unknown place"
        raise LoadedAlreadyError(
            "seamark.neptune.install: expected to be called before anything imports neptune, "
            f"but it is loaded from {where}"
        )
    sys.meta_path.insert(0, _ClientFinder("neptune"))
    for name in LOGGERS:
        if name in sys.modules:
            replace_stub(sys.modules[name])


class Finder(MetaPathFinder):
    """Finder of the client's modules below a name, such as ``neptune``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a module of the client; None for other modules."""
        if not f"{fullname}.".startswith(f"{self._name}."):
            return None
        rest = fullname[len(self._name) + 1 :]
        while rest == "new" or rest.startswith("new."):
            rest = rest[4:]
        if (own_name := _own_module_name(rest)) is not None:
            return ModuleSpec(fullname, _SameModuleLoader(own_name), origin=own_name)
        return _alias_spec(rest, fullname)


def find_substitute(rest: str, fullname: str) -> ModuleSpec | None:
    """Return a substitute for a module of the client outside this package; None for others.

    `rest` is its name below ``neptune``. Raises `ModuleNotFoundError` for an integration; the
    message says what to do.
    """
    space, _, name = rest.rpartition(".")
    if space == "integrations" and name.isidentifier():
        lightning_hint = "use `from seamark.lightning import NeptuneLogger` for Lightning"
        other_hint = (
            f"import neptune_{name} or neptune.integrations.{name} as before, and start the "
            "script with `python -m seamark.neptune`"
        )
        raise ModuleNotFoundError(
            f"No module named {fullname!r}: {lightning_hint if name in _LIGHTNING else other_hint}",
            name=fullname,
        )
    return None if rest.startswith(_INTEGRATIONS) else _alias_spec(rest, fullname)


class _ClientFinder(Finder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname in LOGGERS:
            return self._find_and_patch(fullname, path, target)
        return super().find_spec(fullname, path, target)

    def _find_and_patch(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            found = getattr(finder, "find_spec", None)
            spec = None if finder is self or found is None else found(fullname, path, target)
            if spec is not None:
                _call_after_exec(spec.loader, replace_stub)
                return spec  # type: ignore[no-any-return]
        return None

    @staticmethod
    def find_distributions(
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - as its contract has it
    ) -> Iterator[Distribution]:
        if (known := ClientDistribution.by_name(context.name)) is not None:
            yield known


def _own_module_name(rest: str) -> str | None:
    if not rest:
        return _ROOT
    name = f"{_ROOT}.{rest}"
    try:
        return name if find_spec(name) is not None else None
    except ModuleNotFoundError:  # its parent is not a module of Seamark
        return None


def _alias_spec(rest: str, fullname: str) -> ModuleSpec | None:
    names = _substitute_name(rest)
    if names is None:
        return None
    return ModuleSpec(fullname, _AliasLoader(names), origin=names, is_package=True)


def _substitute_name(rest: str) -> str | None:
    parent = rest
    while parent:  # the longest matching name first
        if parent in _REPLACED_MODULES:
            return _REPLACED_MODULES[parent]
        parent = parent.rpartition(".")[0]
    if rest.startswith(_INTEGRATIONS):
        package = "neptune_" + rest.removeprefix(_INTEGRATIONS).partition(".")[0]
        package = _OTHER_PACKAGE_NAMES.get(package, package)
        return package if find_spec(package) is not None else None
    return None


class _SameModuleLoader(Loader):
    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self._spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._own_name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import has replaced the spec of the module.
        module.__spec__ = self._spec
        if not hasattr(module, "__path__"):
            module.__path__ = []  # it may be a package in the client


class _AliasLoader(Loader):
    def __init__(self, names: str) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        names = import_module(self._names)
        public = getattr(names, "__all__", ())
        module.__dict__["__all__"] = [*public]

        def look_up(name: str) -> Any:
            if name.startswith("__") and name not in public:  # attributes of the module itself
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return getattr(names, name)

        module.__dict__["__getattr__"] = look_up


def _call_after_exec(loader: Any, done: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        done(module)

    loader.exec_module = exec_module
