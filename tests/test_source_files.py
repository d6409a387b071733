"""``source_files`` keeps code beside a run, bounded, and start-up does not wait for it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import seamark
from seamark.run import source_files
from seamark.run.source_files import SourceFiles

PATH = "source_code/files"


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"# {name}\n")


def names_of(run: seamark.Run) -> set[str]:
    again = seamark.init_run(with_id=run.id, mode="read-only")
    again[PATH].download("out")
    return {path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()}


def test_files_folders_and_patterns_are_kept():
    """Under their names relative to the working directory."""
    write("train.py", "lib/a.py", "lib/b.txt", "other/c.py")
    with seamark.init_run(source_files=["train.py", "lib", "oth*/*.py"]) as run:
        pass
    assert names_of(run) == {"train.py", "lib/a.py", "lib/b.txt", "other/c.py"}


def test_the_working_directory_is_that_of_the_start(tmp_path, monkeypatch):
    """Hydra changes it right after."""
    write("lib/a.py")
    begin = threading.Event()
    keep = SourceFiles._keep

    def later(self):
        begin.wait()
        keep(self)

    monkeypatch.setattr(SourceFiles, "_keep", later)
    run = seamark.init_run(source_files="lib", root=tmp_path / "root")
    monkeypatch.chdir(tmp_path)
    begin.set()
    run.stop()
    again = seamark.init_run(with_id=run.id, mode="read-only", root=tmp_path / "root")
    again[PATH].download("out")
    assert (tmp_path / "out" / "lib" / "a.py").is_file()


def test_start_up_waits_for_no_file(monkeypatch):
    """However many there are: a thread looks for them, and the end of the run waits."""
    write("a.py")
    begun, go_on = threading.Event(), threading.Event()
    keep = SourceFiles._keep

    def held_up(self):
        begun.set()
        go_on.wait()
        keep(self)

    monkeypatch.setattr(SourceFiles, "_keep", held_up)
    run = seamark.init_run(source_files="a.py")
    assert begun.wait(60)
    run.log_metrics({"loss": 1.0})
    go_on.set()
    run.stop()
    assert names_of(run) == {"a.py"}


@pytest.mark.parametrize(("limit", "most"), [("_MAX_FILES", 7), ("_MAX_BYTES", 7 * 9)])
def test_many_files_are_cut_off_and_that_is_said(monkeypatch, caplog, limit, most):
    """By count and by bytes; the run tells how many are kept."""
    for number in range(60):
        Path(f"f{number:02}.py").write_text("# 345678\n")
    monkeypatch.setattr(source_files, limit, most)
    with seamark.init_run(source_files="*.py") as run:
        pass
    assert len(names_of(run)) == 7
    again = seamark.init_run(with_id=run.id, mode="read-only")
    assert again["source_code/files_left_out"].fetch().startswith("7 files are kept, the rest")
    assert "source_files: 7 files are kept" in caplog.text


def test_a_folder_with_very_many_files_is_not_walked_to_its_end(monkeypatch):
    """As many as may be kept, and one more, to know that there are more."""
    write(*(f"big/{number:04}.py" for number in range(500)))
    monkeypatch.setattr(source_files, "_MAX_FILES", 10)
    looked = []
    real = os.path.isfile
    monkeypatch.setattr(os.path, "isfile", lambda path: looked.append(path) or real(path))
    with seamark.init_run(source_files="big", capture_packages=False) as run:
        pass
    assert len([path for path in looked if "big" in str(path)]) < 30
    assert len(names_of(run)) == 10


def test_runs_and_repositories_are_not_looked_into():
    """``source_files="."`` means the code."""
    write("train.py", ".git/objects/x", "lib/__pycache__/a.pyc", ".seamark/other/notes.txt")
    with seamark.init_run(source_files=".") as run:
        pass
    assert names_of(run) == {"train.py"}


def test_a_pattern_without_a_match_costs_a_warning(caplog):
    """And no training."""
    with seamark.init_run(source_files="missing/*.py") as run:
        run["a"] = 1
    assert "source_files could not be stored" in caplog.text
    assert seamark.init_run(with_id=run.id, mode="read-only")["a"].fetch() == 1
