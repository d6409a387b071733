"""The layers of the package and the rules about imports, checked in its source."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest
from recording import QUIET

SOURCE = Path(__file__).parents[1] / "src" / "seamark"

# Highest first. A package imports from itself and from lower layers, never from its own layer.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__", "new"}),
    frozenset({"accelerate", "cli", "ignite", "lightning", "testing"}),
    frozenset({""}),  # the public names, which are imported on first use
    frozenset({"page"}),
    frozenset({"handler", "integrations", "management", "typing"}),  # Neptune's names
    frozenset({"neptune"}),
    frozenset({"registry"}),
    frozenset({"run"}),
    frozenset({"opening"}),
    frozenset({"options"}),
    frozenset({"capture", "index", "interchange", "server"}),
    frozenset({"remote", "store"}),
    frozenset({"blobs"}),
    frozenset({"journal"}),
    frozenset({"profiling", "utils"}),
    frozenset({"types"}),
    frozenset({"pictures"}),
    frozenset({"reading"}),
    frozenset({"values"}),
    frozenset({"process"}),
    frozenset({"paths"}),
    frozenset({"constants", "envs", "exceptions", "substitutes", "version"}),
    frozenset({"errors"}),
)
ADAPTERS = frozenset({"accelerate", "ignite", "lightning", "neptune"})
HOSTS = ADAPTERS | {"lightning_fabric", "pytorch_lightning", "torch"}
HEAVY = frozenset({"numpy", "pandas", "pyarrow", "rich", "sqlalchemy", "torch", "zstandard"})


@functools.cache
def modules():
    return tuple(sorted(SOURCE.rglob("*.py")))


def package_of(module):
    """Return the subpackage of a dotted module: ``store`` for ``seamark.store.fold.fold``."""
    return [*module.split("."), ""][1]


@functools.cache
def nodes_of(path):
    """Return the imports and the attributes in a file; all of it would take much memory."""
    kinds = (ast.Import, ast.ImportFrom, ast.Attribute)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


@functools.cache
def imports_of(path):
    """Return (module, imported name) of every import in a file, wherever it stands."""
    found: list[tuple[str, str | None]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import at line {node.lineno}"
            found += ((str(node.module), alias.name) for alias in node.names)
    return tuple(found)


@functools.cache
def packages():
    """Return the names of all packages, and of the modules beside them."""
    return frozenset(path.name.removesuffix(".py") for path in SOURCE.iterdir())


def own_imports(path):
    """Yield (package, dotted name) of everything that a file imports from Seamark."""
    for module, name in imports_of(path):
        if module.split(".")[0] != "seamark":
            continue
        dotted = f"{module}.{name}" if name else module
        is_package = module == "seamark" and name and name in packages()
        yield (str(name) if is_package else package_of(module)), dotted


def layer_of(package):
    """Return the position of a package's layer in `LAYERS`; 0 is the highest."""
    found = [number for number, layer in enumerate(LAYERS) if package in layer]
    assert found, f"{package!r} is in no layer: add it to LAYERS in {Path(__file__).name}"
    return found[0]


def package_of_file(path):
    return package_of(module_of(path))


def test_a_package_imports_only_from_lower_layers():
    """Imports stay in a package or go down, also those that only type checkers see."""
    assert [
        f"{path} imports {name} from its own layer or a higher one"
        for path in modules()
        for package, name in own_imports(path)
        if package != package_of_file(path)
        and (package, name) != ("", "seamark.__version__")
        and layer_of(package) <= layer_of(package_of_file(path))
    ] == []


@pytest.mark.once
def test_no_module_is_in_an_import_cycle():
    """No import cycles, also not through imports that only type checkers see."""
    graph = {module_of(path): modules_imported_by(path) for path in modules()}
    graphlib.TopologicalSorter(graph).prepare()  # which raises an error that names a cycle


def test_the_root_holds_public_modules_only():
    """Everything that is not public is in a package."""
    at_the_root = {path.stem for path in SOURCE.glob("*.py")}
    assert at_the_root == {
        *("__init__", "__main__", "accelerate", "constants", "envs", "errors", "exceptions"),
        *("handler", "new", "paths", "substitutes", "types", "typing", "utils", "version"),
    }


def module_of(path):
    parts = ("seamark", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def known():
    return frozenset(module_of(each) for each in modules())


def modules_imported_by(path):
    names = known()
    found = set()
    for module, name in imports_of(path):
        for dotted in (f"{module}.{name}", module):
            if dotted in names:
                found.add(dotted)
                break
    return found - {module_of(path), "seamark"}


def test_only_adapters_import_a_host():
    """Nothing outside the adapters imports torch, Lightning, Ignite or neptune."""
    assert [
        f"{path} imports {module}"
        for path in modules()
        for module, _ in imports_of(path)
        if package_of_file(path) not in ADAPTERS and module.split(".")[0] in HOSTS
    ] == []


def test_adapters_import_only_public_names():
    """Adapters import no module or name of the core that begins with an underscore."""
    assert [
        f"{path} imports {name}"
        for path in modules()
        for package, name in own_imports(path)
        if package_of_file(path) in ADAPTERS
        and package != package_of_file(path)
        and any(piece.startswith("_") for piece in name.split("."))
    ] == []


@pytest.mark.once
def test_nothing_draws_from_the_random_numbers_of_a_training():
    """Seeded trainings are not changed: the package uses generators of its own, not ``random``."""
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = node.value.id == "random" and node.attr not in {"Random", "SystemRandom"}
                assert not used, f"{path}:{node.lineno} uses random.{node.attr}"
        drawn = [name for module, name in imports_of(path) if module == "random" and name]
        assert not drawn, f"{path} imports {drawn} from random"


def test_importing_seamark_stays_light():
    """``import seamark`` loads no NumPy, pandas, SQLAlchemy, rich, zstandard and no host."""
    code = f"import seamark, sys; print(*sorted(set(sys.modules) & {set(HEAVY | HOSTS)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("switched", ["off", "on"])
def test_a_run_loads_what_it_captures_and_nothing_before_it_is_needed(switched, tmp_path):
    """Switched off, captures load nothing; switched on, threads load the slow modules later."""
    off = QUIET if switched == "off" else {}
    code = (
        "import sys, threading, seamark\n"
        "threading.Thread.start = lambda self: None\n"  # what the training's thread loads itself
        f"run = seamark.init_run(root={str(tmp_path)!r}, **{off!r})\n"
        "run['a'] = 1\n"
        "import os; print(*sorted(sys.modules)); sys.stdout.flush(); os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    late = {"psutil", "pynvml", "amdsmi", "pathspec", "seamark.capture.environment"}
    late |= {"seamark.capture.code.code", "seamark.capture.hardware.machine"}
    parts = {f"seamark.capture.{part}" for part in ("facts", "hardware", "output")}
    assert loaded & late == set()
    assert loaded & parts == (parts if switched == "on" else set())


def test_base_install_names_no_host():
    """The core and the command load in a process where every host and every extra is missing."""
    missing = sorted(HOSTS | {"PIL", "matplotlib", "pandas", "plotly"})
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        "import seamark.run.run, seamark.registry.project, seamark.index.index, seamark.cli\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Modules that `docs/reference` names, and those that scripts written for Neptune import.
PUBLIC = {
    *("accelerate", "constants", "envs", "errors", "exceptions", "handler", "ignite"),
    *("integrations", "lightning", "management", "neptune", "new", "paths", "testing", "types"),
    *("typing", "__main__", "utils", "version"),
}
PACKAGES_WITH_INTERNAL_MODULES = {"ignite", "lightning", "management", "neptune", "testing"}
TESTS = Path(__file__).parent
DISOBEYING = TESTS / "data" / "internal_imports.txt"


def is_public(module):
    """Return whether users may import a module; modules of most public packages are not."""
    package, is_inside = package_of(module), module.count(".") > 1
    is_internal = is_inside and package in PACKAGES_WITH_INTERNAL_MODULES
    return package in {"", *PUBLIC} and not is_internal


def internal_modules(path):
    """Return the modules of the package that a test imports and users may not."""
    found = set()
    for module, name in imports_of(path):
        dotted = f"{module}.{name}" if name else module
        own = dotted if dotted in known() else module
        if own.split(".")[0] == "seamark" and not is_public(own):
            found.add(own)
    return found


def subject_of(path):
    """Return the dotted name of the module that a test is named after, which may not exist."""
    inside = path.relative_to(TESTS).with_suffix("").parts
    return ".".join(["seamark", *inside[:-1], inside[-1].removeprefix("test_")])


def obeys(path):
    """Return whether a test imports, of internal modules, its subject and what that imports."""
    subject = subject_of(path)
    source = SOURCE.joinpath(*subject.split(".")[1:]).with_suffix(".py")
    allowed = {subject} | (internal_modules(source) if source.is_file() else set())
    return {module.replace("._", ".") for module in internal_modules(path)} <= allowed


@pytest.mark.once
def test_tests_import_public_names_and_the_module_they_are_named_after():
    """Moving an internal module breaks only the tests of that module and of its callers.

    The list names the files that break the rule. It may only shrink: use the public API, or
    `journals` to look at what was written.
    """
    listed = DISOBEYING.read_text("utf-8").split()
    tests = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}
    found = {name for name, path in tests.items() if not obeys(path)}
    assert sorted(found - {*listed}) == [], "use public names, or `journals` from tests/support"
    assert sorted({*listed} - found) == [], f"take these out of {DISOBEYING.name}"
    assert listed == sorted({*listed})
