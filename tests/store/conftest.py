"""Hand-made journals, the oracle, stores on both engines, and helpers of tests of this folder."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
from journal_builder import JournalBuilder

from seamark.journal.folder import RunFolder
from seamark.store.database import Database

HERE = Path(__file__).parent
ENGINES = ("sqlite", "postgresql")


def _load(name):
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
    return JournalBuilder


@pytest.fixture(scope="session")
def oracle():
    """The module with which the fold must agree."""
    return importlib.import_module("oracle")


@pytest.fixture(scope="session")
def property_test():
    """Random histories, and how to write and compare them."""
    return _load("test_fold_property")


@pytest.fixture(scope="session")
def plain():
    """Curves in exact arithmetic, and how to compare with them."""
    return _load("test_reduce")


@pytest.fixture
def folder(tmp_path):
    """An empty run folder."""
    return RunFolder(tmp_path / "runs", "team/x", "run0000000000000")


@pytest.fixture
def set_groups(monkeypatch):
    """Return a function that sets how many rows a group has, and how few bytes make none."""

    def set_rows(rows, too_few_bytes=0):
        for name in ("SMALL_BYTES", "CHUNK_BYTES"):
            monkeypatch.setattr(f"seamark.store.ingest.{name}", too_few_bytes)
        for module in ("groups", "ingest"):
            monkeypatch.setattr(f"seamark.store.{module}.GROUP_ROWS", rows)

    return set_rows


@pytest.fixture
def questions(monkeypatch):
    """The questions that databases were asked so far."""
    asked = []

    def note(name):
        ask = getattr(Database, name)

        def noted(*given, **values):
            asked.append(name)
            return ask(*given, **values)

        monkeypatch.setattr(Database, name, noted)

    for name in ("rows", "stream"):  # what `query` returns is of `stream`
        note(name)
    return asked


@pytest.fixture(scope="session")
def engines():
    """The module that makes stores on SQLite and on PostgreSQL."""
    return _load("engines")


@pytest.fixture(params=ENGINES)
def tables(request, engines, postgresql, tmp_path):
    """URL of the empty tables of a store, once on each engine."""
    with engines.fresh_tables(request.param, tmp_path, postgresql) as url:
        yield url


@pytest.fixture
def open_store(engines, tables):
    """Open stores on the same tables, each with connections of its own."""
    opened = []

    def open_one(**options):
        opened.append(engines.open_store(tables, **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.database.engine.dispose()


@pytest.fixture
def store(open_store):
    """An empty store, once on each engine."""
    return open_store()
