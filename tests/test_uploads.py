"""Files that are uploaded together: folders, modules, rules of what is left out, a limit."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recording import NOTHING, QUIET

from seamark import init_run
from seamark.errors import ArgumentError, FileMissingError


@pytest.fixture
def run(tmp_path):
    with init_run("p", root=tmp_path / "root", **QUIET) as run:
        yield run


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "lib" / "pack_of_a_test"
    (folder / "sub").mkdir(parents=True)
    for name in ("__init__.py", "sub/a.py", "sub/notes.txt"):
        (folder / name).write_text(f"# {name}\n")
    (folder / ".gitignore").write_text("*.txt\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    module = importlib.import_module(folder.name)
    del sys.modules[folder.name]
    return module


def members(run, path):
    return sorted(run.get_structure()[path])


def test_package_is_uploaded_without_its_compiled_files(run, package):
    run["code"].upload_files([package, json.decoder])
    names = [".gitignore", "__init__.py", "sub/a.py", "sub/notes.txt"]
    assert members(run, "code") == sorted(["decoder.py", *(f"pack_of_a_test/{n}" for n in names)])


def test_rules_of_git_say_what_is_left_out(run, package, caplog, monkeypatch):
    """By files of any name; what is named itself is taken, and ignored folders are not entered."""
    run["code"].upload_files(package, ignore=".gitignore")
    assert "pack_of_a_test/sub/notes.txt" not in members(run, "code")
    data = Path("data")
    (data / ".git").mkdir(parents=True)
    (data / "raw").mkdir()
    for name in (".git/HEAD", "raw/big.bin", "keep.csv", "drop.csv"):
        (data / name).write_text("x")
    (data / ".uploadignore").write_text("raw/\ndrop.*\n")
    (data / ".gitignore").write_text("keep.*\n")
    entered, scan = [], os.scandir
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda it: entered.append(str(it)) or scan(it))
        run["mine"].upload_files("data", ignore=".uploadignore")
    assert [one for one in entered if one.endswith("data")]
    assert not [one for one in entered if one.endswith(("raw", ".git"))]
    assert members(run, "mine") == [*("data/.gitignore", "data/.uploadignore", "data/keep.csv")]
    run["git"].upload_files("data/*", ignore=".gitignore")
    assert members(run, "git") == ["data/drop.csv", "data/raw/big.bin"]
    run["none"].upload_files("data/keep.*", ignore=".gitignore")
    assert "no file matches the pattern 'data/keep.*'" in caplog.text
    run["named"].upload_files("data/keep.csv", ignore=".gitignore")
    run["all"].upload_files("data")
    assert members(run, "named") == ["data/keep.csv"]
    assert len(members(run, "all")) == 6


def test_nothing_is_stored_where_rules_cannot_be_applied(run, monkeypatch, caplog):
    """What they name may be large, or secret; and nobody waits for git, which waits for a pipe."""
    monkeypatch.setattr("seamark.run.uploads._SEARCH_S", 0.3)
    Path("data").mkdir()
    Path("data/a.txt").write_text("x")
    os.mkfifo("data/.gitignore")
    run["some"].upload_files("data", ignore=".gitignore")
    assert "git takes too long" in caplog.text
    Path("data/.gitignore").unlink()
    monkeypatch.setenv("PATH", "")
    run["some"].upload_files("data", ignore=".gitignore")
    said = "nothing in 'data' is stored: ignore='.gitignore' cannot be applied: git is not found"
    assert said in caplog.text
    assert not run.exists("some")


def test_wrong_uploads_are_exact_errors_and_store_nothing(run):
    Path("a.txt").write_text("four")
    for given, error, message in (
        ({"value": sys}, FileMissingError, "expected a module stored in files, got str: 'sys'"),
        ({"value": "a.txt", "max_bytes": 3}, ArgumentError, "at most 3 bytes .*, got 4 in 1 files"),
        ({"value": "a.txt", "max_bytes": True}, ArgumentError, "max_bytes: expected a number"),
        ({"value": "a.txt", "max_bytes": -1}, ArgumentError, "max_bytes: expected a number"),
        ({"value": "a.txt", "ignore": "b/.gitignore"}, ArgumentError, "ignore: expected the name"),
        ({"value": "a.txt", "ignore": ["*.txt"]}, ArgumentError, "ignore: expected the name"),
        ({"value": "none"}, FileMissingError, "got 'none'"),
    ):
        with pytest.raises(error, match=message):
            run["files"].upload_files(**given)
        assert not run.exists("files")
    run["files"].upload_files("a.txt", max_bytes=4)
    assert members(run, "files") == ["a.txt"]


@pytest.mark.usefixtures("captured")
def test_code_version_is_a_text_or_what_a_function_returns(tmp_path):
    asked: list[int] = []

    def version():
        asked.append(1)
        return "2024.3"

    given: Any = {**QUIET, "root": tmp_path, "capture": {**NOTHING, "script": True}}
    with init_run("p", code_version=version, **given) as run:
        run.log_metrics({"loss": 1.0})
    assert run["source_code/version"].fetch() == "2024.3"
    with init_run("p", with_id=run.id, code_version="other", **given) as later:
        later["note"] = 1
    assert run["source_code/version"].fetch() == "2024.3"
    assert len(asked) == 1
    init_run(mode="disabled", code_version=version, root=tmp_path)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "expected a text of 1 to 1,000 characters, a function .*, got int: 3"),
        (" ", "expected a text of 1 to 1,000 characters"),
        (lambda: 1 / 0, "the function raised ZeroDivisionError: division by zero"),
        (lambda: None, "expected a function that returns a string, got the result None"),
    ],
)
def test_wrong_code_version_is_refused_and_nothing_recorded(tmp_path, given, message):
    with pytest.raises(ArgumentError, match=f"code_version: {message}"):
        init_run("p", root=tmp_path / "root", code_version=given, **QUIET)
    assert not (tmp_path / "root").exists()


KILLED = f"""
import os, signal, sys, threading
from seamark import init_run
from seamark.blobs.worker import Job
from seamark.types import File
run = init_run("p", root=sys.argv[1], custom_run_id="one", **{QUIET!r})
run["note"] = 1
run.session.recorder.contents.files._worker.submit(Job(threading.Event().wait))
run["model"].upload(File.from_content(b"x" * (5 << 20)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_owner_stores_files_that_a_killed_process_staged(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    with init_run("p", root=tmp_path, custom_run_id="one", owner=True, **QUIET) as run:
        assert run.folder.staging_dir.is_dir()
    assert run["model"].fetch_bytes() == b"x" * (5 << 20)
    assert "sha256" in run.session.recorded.attribute("model").value
