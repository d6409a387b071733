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
    *(f"seamark.{name}" for name in ("errors", "paths", "types", "utils", "values")),
)
HOST_MODULES = ("seamark.accelerate", "seamark.ignite", "seamark.lightning")


def documented_names(module):
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md")))
    kinds = "function|class|exception|data|attribute"
    return re.findall(rf"^\.\. auto(?:{kinds}):: {re.escape(module)}\.(\w+)$", pages, re.MULTILINE)


@pytest.mark.parametrize("module", [*PUBLIC_MODULES, *HOST_MODULES])
def test_public_names_are_the_documented_names(module):
    if module in HOST_MODULES:
        pytest.importorskip("torch")
    names = importlib.import_module(module).__all__
    described = [name for name in names if name != "__version__"]
    described = [name for name in described if f"{module}.{name}" not in PUBLIC_MODULES]
    assert sorted(documented_names(module)) == sorted(described)


def test_dir_hides_no_public_name(tmp_path):
    """Adapters use ``session``, and a run and a project have no public name that is hidden."""
    run = seamark.init_run("p", mode="disabled", root=tmp_path)
    project = seamark.init_project("p", mode="disabled", root=tmp_path)
    for one in (run, project):
        assert dir(one) == sorted(object.__dir__(one))
        assert {name for name in vars(one) if not name.startswith("_")} == {"session"}
        assert not {"recorder", "recorded", "lifecycle", "after_fork", "record_facts"} & set(
            dir(one)
        )
    assert {"assign", "log_metrics", "fetch", "stop", "id", "state", "folder"} <= set(dir(run))
    assert "fetch_runs_table" in dir(project)


def test_type_checkers_find_the_marker():
    assert (importlib.resources.files("seamark") / "py.typed").is_file()


def test_metadata_names_no_torch_and_no_host_outside_extras():
    requires = importlib.metadata.requires("seamark") or []
    assert not [line for line in requires if line.startswith("torch")]
    base = {re.split(r"[^\w-]", line)[0] for line in requires if "extra ==" not in line}
    assert base == {
        *("click", "lark", "msgspec", "numpy", "nvidia-ml-py", "plotille", "psutil", "pyyaml"),
        *("rich", "sqlalchemy", "urllib3", "zstandard"),
    }


def test_version_is_said_once():
    assert seamark.__version__ == importlib.metadata.version("seamark")


def test_no_integration_folder_can_be_imported_as_its_host():
    """An ``__init__.py`` below ``integrations/lightning`` would shadow the real host."""
    assert list((ROOT / "integrations").rglob("__init__.py")) == []
