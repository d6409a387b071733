"""A place that keeps journals, on each engine."""

from __future__ import annotations

import contextlib

import pytest
from keeping import Place


@pytest.fixture
def place(account_url, tmp_path):
    with contextlib.closing(Place(account_url, tmp_path / "objects")) as made:
        yield made
