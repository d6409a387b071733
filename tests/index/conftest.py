"""Hand-made journals and an empty folder of a run, as in the tests of the store."""

from __future__ import annotations

import pytest
from journal_builder import JournalBuilder

from seamark.journal.folder import RunFolder


@pytest.fixture(scope="session")
def builder():
    return JournalBuilder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "runs", "team/x", "run0000000000000")
