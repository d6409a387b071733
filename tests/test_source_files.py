"""Files that are kept together: ``source_files``, `upload_files`, their rules and limits."""

from __future__ import annotations

import glob
import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from recording import NOTHING, QUIET

import seamark
from seamark import init_run
from seamark.capture.code import walk as walk_module
from seamark.capture.code.walk import Walk
from seamark.errors import ArgumentError, FileMissingError
from seamark.run import uploads
from seamark.run.uploads import SourceFiles

PATH = "source_code/files"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(uploads, "_PATIENCE_S", 60.0)


def write(*names):
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"# {name}\n")


def names_of(run):
    again = seamark.init_run(with_id=run.id, mode="read-only")
    again[PATH].download("out")
    return {path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()}


def recorded(*targets, **given):
    with seamark.init_run(source_files=list(targets), **given) as run:
        pass
    return run


def kept(*targets):
    return names_of(recorded(*targets))


def left_out(run):
    return seamark.init_run(with_id=run.id, mode="read-only")["source_code/files_left_out"].fetch()


@pytest.fixture(params=["git", "no git"])
def either_way(request, monkeypatch):
    if request.param == "no git":
        monkeypatch.setenv("PATH", "")


def test_start_waits_for_no_file(tmp_path, monkeypatch):
    write("lib/a.py")
    begun, go_on = threading.Event(), threading.Event()
    keep = SourceFiles._keep

    def held_up(self):
        begun.set()
        go_on.wait()
        keep(self)

    monkeypatch.setattr(SourceFiles, "_keep", held_up)
    run = seamark.init_run(source_files="lib", root=tmp_path / "root")
    assert begun.wait(60)
    run.log_metrics({"loss": 1.0})
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")  # as Hydra does
    go_on.set()
    run.stop()
    again = seamark.init_run(with_id=run.id, mode="read-only", root=tmp_path / "root")
    again[PATH].download("out")
    assert Path("out/lib/a.py").is_file()


@pytest.mark.parametrize(("limit", "most"), [("_MAX_FILES", 7), ("_MAX_BYTES", 7 * 9)])
def test_number_and_bytes_of_files_are_limited_and_that_is_said(monkeypatch, caplog, limit, most):
    for number in range(60):
        Path(f"f{number:02}.py").write_text("# 345678\n")
    monkeypatch.setattr(uploads, limit, most)
    run = recorded("*.py")
    assert len(names_of(run)) == 7
    assert left_out(run).startswith("7 files are stored, the rest")
    assert "source_files: 7 files are stored" in caplog.text


def test_ignored_files_are_left_out():
    write("train.py", "lib/a.py", "lib/a.log", "lib/keep.log", "build/x.py", "data/big/one.py")
    write("lib/tmp/b.py", "top.txt", "lib/top.txt", "data/small.py")
    Path(".git/info").mkdir(parents=True)
    Path(".git/info/exclude").write_text("data/big\n")
    Path(".gitignore").write_text("# rules\n*.log\nbuild/\n/top.txt\n.gitignore\n")
    Path("lib/.gitignore").write_text("!keep.log\ntmp\n")
    assert kept(".") == {"train.py", "lib/a.py", "lib/keep.log", "lib/top.txt", "data/small.py"}


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (["**/*.py"], {"train.py", "lib/a.py"}),
        (["*.py"], {"train.py"}),
        (["train.py", "build/x.py"], {"train.py", "build/x.py"}),
        (["build"], {"build/x.py", "build/deep/y.py"}),
        (["build/*.py"], {"build/x.py"}),
        (["l*"], {"lib/a.py"}),
    ],
)
def test_file_or_folder_that_is_named_is_kept_even_if_it_is_ignored(targets, names):
    """A pattern takes what is not; ``**`` goes into folders."""
    write("train.py", "lib/a.py", "lib/b.log", "build/x.py", "build/deep/y.py", "build/z.log")
    Path(".git").mkdir()
    Path(".gitignore").write_text("build/\n*.log\n")
    Path("build/.gitignore").write_text("*.log\n.gitignore\n")
    assert kept(*targets) == names


def test_malformed_rules_ignore_nothing_else():
    write("a" * 200 + ".py")
    Path(".git").mkdir()
    Path(".gitignore").write_bytes(b"\xff\xfe\0\n[\n\\\n!\n/\n")
    assert kept("*.py") == {"a" * 200 + ".py"}


def test_without_git_folders_with_rules_are_left_out_and_that_is_said(monkeypatch, caplog):
    """What they name may be secret; what is named itself is kept."""
    write("lib/a.py", "lib/sub/.env", "ruled/sub/a.py", "ruled/b.py", "c.py")
    Path("lib/sub/.gitignore").write_text(".env\n")
    Path("ruled/.git/info").mkdir(parents=True)
    Path("ruled/.git/info/exclude").write_text("# none\n*.py\n")
    monkeypatch.setenv("PATH", "")
    run = recorded("lib", "ruled/sub", "ruled/b.py", "c.py")
    assert names_of(run) == {"lib/a.py", "ruled/b.py", "c.py"}
    said = "git was not found, so folders with ignore rules are left out"
    assert left_out(run) == f"{said}: lib/sub, ruled/sub"
    assert "expected an existing file" not in caplog.text


@pytest.mark.usefixtures("either_way")
def test_folder_is_kept_without_runs_compiled_files_and_those_of_git():
    write("lib/a.py", "lib/a.log", "lib/__pycache__/a.pyc", ".git/HEAD", ".seamark/x")
    run = recorded(".")
    assert names_of(run) == {"lib/a.py", "lib/a.log"}
    assert not run.exists("source_code/files_left_out")


def test_settings_of_a_hostile_repository_run_nothing(tmp_path):
    write("train.py", "a.log")
    subprocess.run(["git", "init", "-q"], check=True)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'canary'}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.untrackedCache", "core.hooksPath", "core.pager"):
        subprocess.run(["git", "config", key, str(program)], check=True)
    assert kept("*.py") == {"train.py"}
    assert not (tmp_path / "canary").exists()


def test_repository_within_is_searched_by_its_own_rules():
    write("train.py", "a.log", "inner/b.py", "inner/b.txt", "inner/b.log")
    Path(".gitignore").write_text("*.log\n.gitignore\n")
    Path("inner/.gitignore").write_text("*.txt\n.gitignore\n")
    for folder in (".", "inner"):
        subprocess.run(["git", "init", "-q", folder], check=True)
    assert kept(".") == {"train.py", "inner/b.py", "inner/b.log"}


@pytest.mark.parametrize("target", ["code", "code/**/*.py", "link"])
def test_links_to_folders_are_followed_only_if_they_are_named(target):
    """``ln -s / data`` would have the whole machine be looked at."""
    write("code/lib/a.py", "outside/b.py")
    Path("code/data").symlink_to(Path("outside").absolute())
    Path("code/lib/again").symlink_to(Path("code").absolute())
    Path("code/c.py").symlink_to("lib/a.py")
    Path("link").symlink_to("code")
    below = "link" if target == "link" else "code"
    assert kept(target) == {f"{below}/lib/a.py", f"{below}/c.py"}


@pytest.mark.parametrize("target", ["code", "code/*"])
def test_link_to_a_file_elsewhere_is_kept_only_if_it_is_named(target):
    """``src/shadow`` may lead to ``/etc/shadow``."""
    write("code/a.py", "code/.git/config", "code/.gitignore", "code/secret.txt", "outside.py")
    Path("code/.gitignore").write_text("secret.txt\n.gitignore\n")
    links = {"shadow": "../outside.py", "b.py": "a.py", "config": ".git/config"}
    for name, leads_to in (links | {"open.txt": "secret.txt", "broken": "missing"}).items():
        Path("code", name).symlink_to(leads_to)
    run = recorded(target)
    assert names_of(run) == {"code/a.py", "code/b.py"}
    assert left_out(run) == "links that point outside the given paths are left out: code/shadow"
    recorded("code/shadow")[PATH].download("named")
    assert Path("named/code/shadow").read_text() == "# outside.py\n"


@pytest.mark.parametrize(
    "pattern",
    [
        *("**", "*", "**/*.py", "a/**/*.py", "**/a/*", "a/**", "*/*", "**/**/x.py", "?/[ab]*"),
        *("**/.h/*", ".*", "a/*/x.py", "[!a]/*.py", "**/b/**/x.py", "a*/**/b"),
    ],
)
def test_patterns_mean_what_they_mean_to_glob(pattern):
    """But for links; folders that match are taken whole."""
    write("x.py", "a/x.py", "a/b/x.py", "a/b/b/x.py", "b/a/x.py", ".h/x.py", "a/.h/y.py", "ab/c/b")
    expected = set()
    here = Path.cwd()
    for match in glob.glob(str(here / pattern), recursive=True):  # noqa: PTH207 - knows hidden ones
        inner = [Path(match), *Path(match).rglob("*")]
        expected |= {path.relative_to(here).as_posix() for path in inner if path.is_file()}
    walk = Walk(str(here), str(here / ".seamark"), threading.Event(), lambda: True)
    assert {name for name, _ in walk.files(pattern)} == expected


def test_end_of_a_run_waits_for_no_disk(monkeypatch, caplog):
    """Nor is anything recorded once it hands out its files after all."""
    write("a.py", "lib/b.py", "lib/c.py")
    monkeypatch.setattr(uploads, "_PATIENCE_S", 0.0)
    reached, over, thread = threading.Event(), threading.Event(), []

    def held_up(*given, **more):
        thread.append(threading.current_thread())
        reached.set()
        over.wait()
        return real(*given, **more)

    real = walk_module.Search.names
    monkeypatch.setattr(walk_module.Search, "names", held_up)
    run = seamark.init_run(source_files=["a.py", "lib"])
    assert reached.wait(60)
    run.stop()
    over.set()
    thread[0].join()
    assert left_out(run) == "0 files are stored, the rest is left out (the run has ended)"
    assert "cannot be written" not in caplog.text


def test_missing_target_costs_a_warning_and_nothing_else(caplog, capfd):
    write("a.py")
    with seamark.init_run(source_files=["missing", "missing/*.py", "a.py"]) as run:
        run["a"] = 1
    assert names_of(run) == {"a.py"}
    assert caplog.text.count("source_files: expected an existing file") == 2
    assert "got 'missing'" in caplog.text
    assert "completed" in (said := capfd.readouterr().err)
    assert "lost" not in said


@pytest.mark.parametrize(("given", "got"), [(["a.py", 5], "int: 5"), ({"a": 1}, "dict: {'a': 1}")])
def test_target_that_names_no_files_is_refused_at_once(given, got):
    with pytest.raises(seamark.errors.ArgumentError) as caught:
        seamark.init_run(source_files=given)
    expected = f"source_files: expected a path, a list of paths or None, got {got}"
    assert str(caught.value) == expected


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
