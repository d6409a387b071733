"""What has changed in a repository is kept as a patch that applies, and nothing is run for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repositories import Hostile, git, make_repository

from seamark.capture.code import changes
from seamark.capture.code.hiding import hide_in_patch
from seamark.capture.code.repository import GitProbe
from seamark.capture.secrets import Secrets


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")


def taken(folder: Path, timeout_s: float = 60) -> tuple[dict[str, object], dict[str, changes.Diff]]:
    """Return the facts about a repository, and what is kept of its changes, by name."""
    facts: dict[str, object] = {}
    kept: dict[str, changes.Diff] = {}
    probe = GitProbe(folder, timeout_s=60)
    probe.find(facts.update, lambda one: kept.update(diff=one))
    return facts, kept


def tree_of(folder: Path) -> dict[str, object]:
    """Return what lies in a folder: contents, modes and links."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder))
        if name.split(b"/")[0] == b".git":
            continue
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = (path.read_bytes(), path.stat().st_mode & 0o111)
    return found


def applied(folder: Path, patch: bytes, target: Path, *options: str) -> Path:
    """Return a clean checkout of the commit with a patch applied to it."""
    git(folder, "worktree", "add", "-q", "--detach", str(target), "HEAD")
    file = target.parent / "changes.patch"
    file.write_bytes(patch)
    git(target, "apply", "--whitespace=nowarn", *options, str(file))
    return target


# --------------------------------------------------------------------- a patch that applies


def new_and_staged(folder: Path) -> None:
    (folder / "new.py").write_text("new\n")
    git(folder, "add", "new.py")
    (folder / "new.py").write_text("newer\n")


def deleted(folder: Path) -> None:
    (folder / "train.py").unlink()


def renamed(folder: Path) -> None:
    git(folder, "mv", "train.py", "fit.py")


def emptied(folder: Path) -> None:
    (folder / "train.py").write_text("")
    (folder / "empty").write_text("")
    git(folder, "add", "empty")


def mode(folder: Path) -> None:
    (folder / "train.py").chmod(0o755)


def line_ends(folder: Path) -> None:
    (folder / "dos.txt").write_bytes(b"a\r\nchanged\r\nc\r\n")
    (folder / "train.py").write_bytes(b"no newline\r\nat the end")


def odd_names(folder: Path) -> None:
    for name in ("a b.txt", "z\u00fcge.txt", "line\nfeed", 'quo"te\\d', "a b/c\td", "-x", "*[a]"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n")
    (folder / os.fsdecode(b"latin\xe9")).write_text("x\n")
    git(folder, "add", "-A")


def link(folder: Path) -> None:
    (folder / "link").symlink_to("train.py")
    (folder / "train.py").unlink()
    (folder / "train.py").symlink_to("somewhere/else")
    git(folder, "add", "link")


def content_like_a_patch(folder: Path) -> None:
    text = "diff --git a/x b/x\n@@ -1 +1 @@\n--- a\n+++ b\n-- \n"
    (folder / "train.py").write_text(text)


def not_utf8(folder: Path) -> None:
    (folder / "train.py").write_bytes("caf\u00e9\n".encode("latin-1") + b"\x0c\x85 a\x0bb\n")


def attributes(folder: Path) -> None:
    (folder / ".gitattributes").write_text("*.py text eol=crlf diff=evil\n*.x -text\n")
    commit(folder)
    (folder / "train.py").write_bytes(b"some\r\nchanged\r\n")


CHANGES = [
    attributes, content_like_a_patch, deleted, emptied, line_ends, link, mode,
    new_and_staged, not_utf8, odd_names, renamed,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_diff_applied_to_the_commit_is_what_was_executed(repository, tmp_path, change):
    (repository / "dos.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    commit(repository)
    change(repository)
    facts, kept = taken(repository)
    diff = kept["diff"]
    assert diff.left_out == ""
    assert facts["source_code/git/dirty"] is True
    clean = applied(repository, diff.content, tmp_path / "clean")
    assert tree_of(clean) == tree_of(repository)
    assert hide_in_patch(diff.content, Secrets()) == diff.content


def test_where_nothing_can_be_compared_there_is_no_diff(repository, tmp_path):
    """Nothing has changed but a time; there is no commit yet; there is no working tree."""
    os.utime(repository / "train.py", (1, 1))
    facts, kept = taken(repository)
    assert kept == {}
    assert "source_code/git/files_changed" not in facts
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert taken(tmp_path / "bare.git")[1] == {}
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q")
    (new / "a.py").write_text("a\n")
    git(new, "add", "a.py")
    facts, kept = taken(new)
    assert facts["source_code/git/dirty"] is True
    assert kept == {}


def test_of_a_submodule_the_commit_is_told(repository, tmp_path):
    """What has changed within it is not: git would run in it."""
    inner = make_repository(repository / "inner")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(repository, "commit", "-q", "-m", "submodule")
    (inner / "train.py").write_text("changed\n")
    assert "diff" not in taken(repository)[1]
    commit(inner)
    patch = taken(repository)[1]["diff"].content
    assert b"+Subproject commit " + git(inner, "rev-parse", "HEAD").encode() in patch
    (repository / "train.py").write_text("also\n")
    patch = taken(repository)[1]["diff"].content
    (tmp_path / "clean").mkdir()
    clean = applied(repository, patch, tmp_path / "clean" / "tree")
    assert (clean / "train.py").read_text() == "also\n"


# --------------------------------------------------------------------- what is left out


def test_what_does_not_fit_is_left_out(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "MAX_DIFF", 4000)
    names = ("a.txt", "b.txt", "c.txt", "d.txt")
    for name in names:
        (repository / name).write_text("x\n")
    commit(repository)
    for name, lines in zip(names, (10, 3000, 20, 1900), strict=True):
        (repository / name).write_text("y\n" * lines)
    facts, kept = taken(repository)
    assert facts["source_code/git/files_changed"] == 4
    assert "2 files are left out: b.txt (binary, or more than" in kept["diff"].left_out
    assert "d.txt (the diff has" in kept["diff"].left_out
    clean = applied(repository, kept["diff"].content, tmp_path / "clean")
    assert (clean / "a.txt").read_text() == "y\n" * 10
    assert (clean / "b.txt").read_text() == "x\n"
    assert (clean / "c.txt").read_text() == "y\n" * 20


def test_what_git_cannot_compare_is_left_out(repository, tmp_path):
    """Binary files, a file with a filter (git-lfs), a pipe, a conflict; the rest still applies."""
    git(repository, "config", "filter.upper.clean", "tr a-z A-Z")
    (repository / ".gitattributes").write_text("*.up filter=upper\n")
    (repository / "data.up").write_text("abc\n")
    for name in ("changed.bin", "gone.bin", "link.bin"):
        (repository / name).write_bytes(bytes(range(200)) * 2)
    for name in ("aaa.py", "pipe.py"):
        (repository / name).write_text("x\n")
    commit(repository)
    git(repository, "checkout", "-q", "-b", "other")
    (repository / "train.py").write_text("other\n")
    commit(repository)
    git(repository, "checkout", "-q", "topic/one")
    (repository / "train.py").write_text("mine\n")
    commit(repository)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "other"],
        cwd=repository, capture_output=True, check=False,
    )  # fmt: skip
    (repository / "data.up").write_text("xyz\n")
    (repository / "changed.bin").write_bytes(bytes(range(199)) * 2)
    for name in ("gone.bin", "link.bin", "pipe.py"):
        (repository / name).unlink()
    (repository / "link.bin").symlink_to("train.py")
    os.mkfifo(repository / "pipe.py")
    (repository / "aaa.py").write_text("y\n")
    facts, kept = taken(repository)
    diff = kept["diff"]
    assert facts["source_code/git/files_changed"] == 7
    assert diff.left_out.startswith("6 files are left out: ")
    assert "data.up (filter upper)" in diff.left_out
    assert "pipe.py (no regular file)" in diff.left_out
    assert "train.py (in conflict)" in diff.left_out
    assert diff.left_out.count(".bin (binary, or more than") == 3
    assert b"xyz" not in diff.content
    clean = applied(repository, diff.content, tmp_path / "clean")
    assert (clean / "aaa.py").read_text() == "y\n"
    assert (clean / "gone.bin").exists()


# --------------------------------------------------------------------- a stranger's repository


def test_variables_run_nothing_for_its_changes(repository, tmp_path, monkeypatch):
    hostile = Hostile(repository, tmp_path / "canary")
    hostile.attribute("*.py diff=evil filter=evil")
    hostile.change("PASS\n")
    names = (
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_SSH_COMMAND",
        "GIT_EDITOR",
        "PAGER",
        "GIT_ASKPASS",
    )
    for name in names:
        monkeypatch.setenv(name, str(hostile.program))
    settings = ["diff.external", "diff.evil.textconv", "diff.evil.command", "core.fsmonitor"]
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, key in enumerate(settings):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", str(hostile.program))
    assert b"+PASS" in taken(repository)[1]["diff"].content
    assert not hostile.canary.exists()


# --------------------------------------------------------------------- secrets


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabcdef\n-----END RSA PRIVATE KEY-----\n"
PLANTED = {
    "train.py": 'import os\nAPI_KEY = "planted-1"\nconnect(password="planted-2", port=1)\n',
    "settings.yaml": "db:\n  password: planted-3\n  port: 5432\n",
    ".env": "HF_TOKEN=planted4\nDEBUG=1\n",
    "key.pem": KEY.replace("abcdef", "planted5"),
    "nb.ipynb": '{"cells": [{"source": ["token = \\"planted-6\\"\\n"]}]}\n',
    "known.py": 'print("seen planted-variable here")\n',
}


def test_planted_secrets_are_hidden_and_what_is_added_still_applies(
    repository, tmp_path, monkeypatch
):
    monkeypatch.setenv("SOME_PASSWORD", "planted-variable")
    for name, text in PLANTED.items():
        (repository / name).write_text(text)
    git(repository, "add", "-A")
    patch = taken(repository)[1]["diff"].content
    assert patch.count(b"planted") == 7
    hidden = hide_in_patch(patch, Secrets())
    assert b"planted" not in hidden
    clean = applied(repository, hidden, tmp_path / "clean")
    assert (clean / "train.py").read_text() == (
        'import os\nAPI_KEY = "***"\nconnect(password="***", port=1)\n'
    )
    assert (clean / "settings.yaml").read_text() == "db:\n  password: ***\n  port: 5432\n"
    assert (clean / "key.pem").read_text().count("\n") == 4
    plain = hide_in_patch(patch, Secrets(masked=False))
    assert plain == patch


def test_secrets_that_are_removed_or_stand_beside_a_change_are_hidden(repository):
    """In the lines around, and behind the numbers of a hunk."""
    lines = ['PASSWORD = "planted-0"', *(f" x{n} = {n}" for n in range(20)), 'token = "planted-1"']
    (repository / "train.py").write_text("\n".join(lines) + "\n")
    commit(repository)
    (repository / "train.py").write_text("\n".join([*lines[:19], "y = 1"]) + "\n")
    patch = taken(repository)[1]["diff"].content
    assert patch.count(b"planted") == 2
    assert b"planted" not in hide_in_patch(patch, Secrets())


def test_a_change_within_a_text_of_several_lines_leaves_code_as_it_is(repository):
    """A hunk is two texts, and may begin within a literal or below a key that holds secrets."""
    doc = [f"    Line {n} is the user's." for n in range(9)]
    code = ["def f(token):", '    """Do.', "", *doc, '    """', "    return g(token=token)"]
    conf = ["secrets:", *(f"  n{n}: planted{n}" for n in range(9))]
    old = ['CONF = """', "user = x", '"""', "login(token=x)"]
    for name, lines in (("a.py", code), ("b.yaml", conf), ("c.py", old)):
        (repository / name).write_text("\n".join(lines) + "\n")
    commit(repository)
    code[10], conf[8], old[0] = "    Another.", "  n7: planted-new", 'TEXT = """'
    for name, lines in (("a.py", code), ("b.yaml", conf), ("c.py", old)):
        (repository / name).write_text("\n".join(lines) + "\n")
    patch = taken(repository)[1]["diff"].content
    hidden = hide_in_patch(patch, Secrets())
    assert patch.count(b"planted") > 4
    assert b"planted" not in hidden
    assert b"return g(token=token)" in hidden
    assert b"login(token=x)" in hidden
    parts = b"diff --git a/b.yaml"
    assert hidden.partition(parts)[0] == patch.partition(parts)[0]
