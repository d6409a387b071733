"""What the built package promises to those who install it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import re
from pathlib import Path

import pytest

import seamark

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
PUBLIC_MODULES = (
    "seamark",
    "seamark.errors",
    "seamark.paths",
    "seamark.types",
    "seamark.utils",
    "seamark.values",
)
HOST_MODULES = ("seamark.ignite", "seamark.lightning")


def documented_names(module: str) -> list[str]:
    """Return the names of one module that the reference has an ``auto...`` directive for."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md")))
    directive = (
        rf"^\.\. auto(?:function|class|exception|data|attribute):: {re.escape(module)}\.(\w+)$"
    )
    return re.findall(directive, pages, re.MULTILINE)


def check_public_names(module: str) -> None:
    names = importlib.import_module(module).__all__
    described = [name for name in names if name != "__version__"]
    described = [name for name in described if f"{module}.{name}" not in PUBLIC_MODULES]
    assert sorted(documented_names(module)) == sorted(described)


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_public_names_are_the_documented_names(module: str) -> None:
    """The reference describes the names in ``__all__`` and no others."""
    check_public_names(module)


@pytest.mark.parametrize("module", HOST_MODULES)
def test_public_names_of_adapters_are_the_documented_names(module: str) -> None:
    """The same for the adapters, where their hosts are installed."""
    pytest.importorskip("torch")
    check_public_names(module)


def test_dir_shows_the_documented_verbs(tmp_path: Path) -> None:
    """Whoever asks a run or a project what there is sees no parts of the package."""
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    run = seamark.init_run("p", mode="disabled", root=tmp_path)
    project = seamark.init_project("p", mode="disabled", root=tmp_path)
    hidden = re.search(r"autoclass:: seamark\.Run\n.*?exclude-members: (.*?)\n", page, re.DOTALL)
    assert hidden is not None
    every = {name for name in object.__dir__(run) if not name.startswith("_")}
    shown = {name for name in dir(run) if not name.startswith("_")}
    attributes = {name for name in run.__dict__ if not name.startswith("_")}
    assert every - shown == set(hidden[1].split(", ")) | attributes
    assert {"assign", "log_metrics", "fetch", "stop", "id", "state"} <= shown
    assert "fetch_runs_table" in dir(project)
    assert not {"recorder", "lifecycle", "after_fork", "_internal"} & {*dir(run), *dir(project)}
    assert "__class__" in dir(run)


def test_type_checkers_find_the_marker() -> None:
    """The installed package carries ``py.typed``, so its annotations count for its users."""
    assert (importlib.resources.files("seamark") / "py.typed").is_file()


def test_metadata_names_no_torch_and_no_host_outside_extras() -> None:
    """Installing Seamark chooses no build of torch and brings no host that was not asked for."""
    requires = importlib.metadata.requires("seamark") or []
    assert not [line for line in requires if line.startswith("torch")]
    base = {re.split(r"[^\w-]", line)[0] for line in requires if "extra ==" not in line}
    assert base == {
        *("click", "lark", "numpy", "nvidia-ml-py", "plotille", "psutil", "pyyaml"),
        *("rich", "sqlalchemy", "urllib3", "zstandard"),
    }


def test_version_is_said_once() -> None:
    """``seamark.__version__`` is the version of the installed distribution."""
    assert seamark.__version__ == importlib.metadata.version("seamark")


def test_no_integration_folder_can_be_imported_as_its_host() -> None:
    """An ``__init__.py`` below ``integrations/lightning`` would shadow the real host."""
    assert list((ROOT / "integrations").rglob("__init__.py")) == []
