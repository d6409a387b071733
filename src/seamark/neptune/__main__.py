"""``python -m seamark.neptune train.py``: run a script in which ``neptune`` is Seamark."""

from __future__ import annotations

import builtins
import io
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NoReturn

from seamark.neptune.finder import install

_USAGE: Final = """\
usage: python -m seamark.neptune [-m MODULE | SCRIPT] [ARGUMENT ...]

Run a script or a module as Python does. `import neptune`, by it or by a package that it uses, gives
Seamark, also in the processes that it starts.
"""
_CHILDREN: Final = Path(__file__).with_name("children")
"""What Python executes at the start of each process that is started by this one."""


def main(arguments: list[str]) -> None:
    """Run the script or module that the arguments name, in place of this module."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(_USAGE)
        return
    is_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if is_module else arguments
    if not rest or (not is_module and rest[0].startswith("-")):
        sys.stderr.write(_USAGE)
        sys.exit(2)
    install()
    _install_in_children()
    run_module(rest) if is_module else run_script(rest)


def _install_in_children() -> None:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_CHILDREN), before)))


def run_script(argv: list[str]) -> None:
    """Run a file as ``python file`` does, with the rest of its ``sys.argv``."""
    given, file = argv[0], os.path.abspath(argv[0])  # noqa: PTH100 - resolve() would follow links
    if os.path.isdir(file):  # noqa: PTH112
        file = os.path.join(file, "__main__.py")  # noqa: PTH118
    try:
        with io.open_code(file) as source:
            text = source.read()
    except OSError as error:
        _refuse(f"can't open file {given!r}: {error.strerror}")
    _first_on_path(os.path.dirname(os.path.realpath(file)))  # noqa: PTH120
    _run(
        compile(text, file, "exec", dont_inherit=True),
        argv,
        __file__=file,
        __loader__=SourceFileLoader("__main__", file),
        __package__=None,
        __spec__=None,
    )


def run_module(argv: list[str]) -> None:
    """Run a module as ``python -m module`` does, with the rest of its ``sys.argv``."""
    _first_on_path(os.getcwd())  # noqa: PTH109
    name = argv[0]
    sys.argv[:] = ["-m", *argv[1:]]  # which is what a package sees that is imported first
    spec = _spec_of(name)
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    if code is None:
        _refuse(f"no code object available for {name}")
    _run(
        code,
        [str(spec.origin), *argv[1:]],
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=loader,
        __package__=spec.parent,
        __spec__=spec,
    )


def _spec_of(name: str) -> ModuleSpec:
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that it imports
        spec = None
    if spec is None or not hasattr(spec.loader, "get_code"):
        _refuse(f"No module named {name}, or none that can be run")
    return spec


def _first_on_path(folder: str) -> None:
    if getattr(sys.flags, "safe_path", False):
        return
    sys.path[0] = folder


def _run(code: CodeType, argv: list[str], **facts: Any) -> None:
    # The module stays the main one until the process ends.
    module = ModuleType("__main__")
    module.__dict__.update(facts, __builtins__=builtins)
    sys.modules["__main__"] = module
    sys.argv[:] = argv
    exec(code, module.__dict__)  # noqa: S102 - which is what was asked for


def _refuse(why: str) -> NoReturn:
    sys.stderr.write(f"seamark.neptune: {why}\n")
    sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
