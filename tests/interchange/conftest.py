"""The command, and what a root holds."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from command import app


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty root that the command finds by SEAMARK_DIR."""
    place = tmp_path / "runs"
    monkeypatch.setenv("SEAMARK_DIR", str(place))
    return place


@pytest.fixture
def cli(root):
    """Call the command in this process."""
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], prog_name="seamark")


@pytest.fixture
def held(root):
    """Return every file below a root, with its bytes."""

    def call(place=root):
        files = (one for one in place.rglob("*") if one.is_file())
        return {one.relative_to(place).as_posix(): one.read_bytes() for one in files}

    return call
