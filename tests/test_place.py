from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seamark
from seamark.errors import ArgumentError, JournalError, RunNotFoundError


def test_a_root_that_cannot_be_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    """Whoever names a file as root reads so before the training starts, and nothing is made."""
    file = tmp_path / "file"
    file.write_text("x")
    for root in (file, file / "below"):
        with pytest.raises(JournalError, match="root: expected a folder that can be written"):
            seamark.init_run(root=root)
    assert file.read_text() == "x"


def test_a_root_that_is_no_path_is_refused(tmp_path: Path) -> None:
    """The message says what was expected and what was given."""
    with pytest.raises(ArgumentError, match="root: expected a path or None, got int: 5"):
        seamark.init_run(root=5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="NUL"):
        seamark.init_run(root="a\0b")


def test_a_root_of_somebody_else_is_refused_at_once(tmp_path: Path) -> None:
    """A folder without the right to write is the person's mistake, not a loss to be counted."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    script = (
        "import os, sys\n"
        "from seamark.errors import JournalError\n"
        "from seamark.run.run import init_run\n"
        "if os.getuid() == 0: os.setuid(65534)\n"  # root may write everywhere
        "try: init_run(root=sys.argv[1])\n"
        "except JournalError as error: print(error.errno)\n"
    )
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", script, str(closed)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "13", done.stderr


def test_a_purged_run_is_not_started_again(tmp_path: Path) -> None:
    """Its name stays taken; the error says what to do instead of losing every value."""
    run = seamark.init_run(custom_run_id="k", root=tmp_path)
    run.stop()
    run.folder.purged_mark.parent.mkdir()
    run.folder.purged_mark.touch()
    with pytest.raises(ArgumentError, match="was purged"):
        seamark.init_run(custom_run_id="k", root=tmp_path)


def test_a_run_that_does_not_exist_cannot_be_opened(tmp_path: Path) -> None:
    """With `with_id`, or read-only by a custom id, nothing is created."""
    with pytest.raises(RunNotFoundError, match="seamark ls"):
        seamark.init_run(with_id="nothing", root=tmp_path)
    with pytest.raises(RunNotFoundError):
        seamark.init_run(custom_run_id="nothing", mode="read-only", root=tmp_path)
    assert list(tmp_path.iterdir()) == []
