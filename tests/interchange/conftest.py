"""The command, and what a root holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from command import app

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty root that the command finds by SEAMARK_DIR."""
    place = tmp_path / "runs"
    monkeypatch.setenv("SEAMARK_DIR", str(place))
    return place


@pytest.fixture
def cli(root: Path) -> Callable[..., Result]:
    """Call the command in this process."""
    del root

    def call(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="seamark")

    return call


@pytest.fixture
def held(root: Path) -> Callable[..., dict[str, bytes]]:
    """Return every file below a root, with its bytes."""

    def call(place: Path = root) -> dict[str, bytes]:
        files = (one for one in place.rglob("*") if one.is_file())
        return {one.relative_to(place).as_posix(): one.read_bytes() for one in files}

    return call
