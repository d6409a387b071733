"""The one-way doors between the parts of the package, read from its source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src" / "seamark"

# Highest first. A module imports from its own layer and from lower ones.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__", "callbacks_factory", "cli", "ignite", "lightning"}),
    frozenset(
        {
            "",
            "attempts",
            "checkpoints",
            "container",
            "handler",
            "loggers",
            "place",
            "plots",
            "project",
            "ranked",
            "restarts",
            "run",
            "settings",
            "stragglers",
        }
    ),
    frozenset({"local", "capture"}),
    frozenset({"store"}),
    frozenset({"artifact", "content", "journal", "plots"}),
    frozenset(
        {
            "_png",
            "_render",
            "errors",
            "paths",
            "printing",
            "ranks",
            "reading",
            "timing",
            "types",
            "utils",
            "values",
        }
    ),
)
# Parts of one layer that stand side by side and never import each other.
SIDEWAYS = frozenset({"ignite", "lightning", "cli", "local", "capture"})
ADAPTERS = frozenset({"ignite", "lightning"})
HOSTS = frozenset(
    {"ignite", "lightning", "lightning_fabric", "neptune", "pytorch_lightning", "torch"}
)
HEAVY = frozenset({"numpy", "pandas", "rich", "sqlalchemy", "torch", "zstandard"})


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(module: str) -> str:
    """Return the part of the package that holds a dotted module: ``seamark.store.fold.fold`` is in
    ``store``.
    """
    return [*module.split("."), ""][1]


def imports_of(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield (module, imported name) of every import in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import at line {node.lineno}"
            yield from ((str(node.module), alias.name) for alias in node.names)


def own_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (part, dotted name) of everything a file takes from this package."""
    for module, name in imports_of(path):
        if module.split(".")[0] != "seamark":
            continue
        dotted = f"{module}.{name}" if name else module
        is_part = module == "seamark" and name and list(SOURCE.glob(f"{name}*"))
        yield (str(name) if is_part else part_of(module)), dotted


def layer_of(part: str) -> int:
    found = [number for number, parts in enumerate(LAYERS) if part in parts]
    assert found, f"{part!r} stands in no layer: add it to LAYERS in {Path(__file__).name}"
    return found[0]


def home_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return (
        ""
        if relative.name == "__init__.py" and len(relative.parts) == 1
        else relative.parts[0].removesuffix(".py")
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_imports_from_a_layer_above(path: Path) -> None:
    """Imports go down or stay; adapters, the command, the store and the captures never see each
    other.
    """
    home = home_of(path)
    for part, name in own_imports(path):
        assert layer_of(part) >= layer_of(home), f"{path} imports {name} from above"
        if home in SIDEWAYS and part in SIDEWAYS and layer_of(part) == layer_of(home):
            assert part == home, f"{path} imports {name} from beside itself"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_adapters_import_a_host(path: Path) -> None:
    """Nothing outside the adapters imports torch, Lightning, Ignite or neptune."""
    if home_of(path) in ADAPTERS:
        return
    for module, _ in imports_of(path):
        assert module.split(".")[0] not in HOSTS, f"{path} imports {module}"


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if home_of(path) in ADAPTERS],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_adapters_import_only_public_names(path: Path) -> None:
    """What an adapter needs of the core is public: no part of a name below ``seamark`` starts with
    ``_``.
    """
    home = home_of(path)
    for part, name in own_imports(path):
        if part != home:
            assert not any(piece.startswith("_") for piece in name.split(".")), (
                f"{path} imports {name}"
            )


def test_importing_seamark_stays_light() -> None:
    """``import seamark`` loads no NumPy, pandas, SQLAlchemy, rich, zstandard and no host."""
    code = f"import seamark, sys; print(*sorted(set(sys.modules) & {set(HEAVY | HOSTS)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_base_install_names_no_host() -> None:
    """The core and the command load in a process where every host and every extra is missing."""
    missing = sorted(HOSTS | {"PIL", "matplotlib", "pandas", "plotly"})
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        "import seamark.run, seamark.project, seamark.local.index, seamark.cli\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
