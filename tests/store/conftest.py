"""Hand-made journals and the oracle, which lie beside this file and are no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from seamark.journal.folder import RunFolder

HERE = Path(__file__).parent


def _load(name: str) -> ModuleType:
    """Import a helper of these tests by its path: importlib mode puts no folder on sys.path."""
    full = f"seamark_tests_store_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def builder():
    """The class of hand-made journals."""
    return _load("journal_builder").JournalBuilder


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    """What the fold must agree with."""
    return _load("oracle")


@pytest.fixture(scope="session")
def property_test() -> ModuleType:
    """Random histories, how to write them, and how to compare what they end in."""
    return _load("test_fold_property")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """An empty run folder."""
    return RunFolder(tmp_path / "runs", "team/x", "run0000000000000")
