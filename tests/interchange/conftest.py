"""The command, and what a root holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import app

DATA = Path(__file__).parents[1] / "data" / "neptune_client"
HERE = "@HERE@"


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


@pytest.fixture
def training(tmp_path):
    """Return the folder of a training, with what the client left there."""
    place = tmp_path / "training"
    shutil.copytree(DATA, place)
    (place / "dot-neptune").rename(place / ".neptune")
    for log in place.glob(".neptune/*/*/*.log"):
        log.write_text(log.read_text().replace(HERE, str(place)))
    return place
