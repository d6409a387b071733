"""What has changed in a repository is kept as a patch that applies, and nothing is run for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repositories import git, make_repository

from seamark.capture.code import changes
from seamark.capture.code.git import Git
from seamark.capture.code.masking import hide_in_patch
from seamark.capture.code.repository import record_repository
from seamark.capture.secrets import Secrets


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def commit(folder: Path, **files: str) -> None:
    write(folder, **files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def taken(folder: Path) -> tuple[dict[str, object], dict[str, changes.Diff]]:
    """Return the facts about a repository, and what is kept of its changes, by name."""
    facts: dict[str, object] = {}
    kept: dict[str, changes.Diff] = {}
    runner = Git(folder, 60)
    with runner:
        record_repository(runner, facts.update, lambda one: kept.update(diff=one))
    return facts, kept


def patch_of(folder: Path) -> bytes:
    return taken(folder)[1]["diff"].content


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


def applied(folder: Path, patch: bytes, target: Path) -> Path:
    """Return a clean checkout of the commit with a patch applied to it."""
    git(folder, "worktree", "add", "-q", "--detach", str(target), "HEAD")
    file = target.parent / "changes.patch"
    file.write_bytes(patch)
    git(target, "apply", "--whitespace=nowarn", str(file))
    return target


def change_modes_and_links(folder: Path) -> None:
    (folder / "dos.txt").chmod(0o755)
    (folder / "link").symlink_to("train.py")
    (folder / "train.py").unlink()
    (folder / "train.py").symlink_to("somewhere/else")
    git(folder, "add", "link")


def empty_and_stage(folder: Path) -> None:
    write(folder, **{"train.py": "", "empty": "", "new.py": "new\n"})
    git(folder, "add", "empty", "new.py")
    write(folder, **{"new.py": "newer\n"})


def change_bytes(folder: Path) -> None:
    (folder / "dos.txt").write_bytes(b"a\r\nchanged\r\nc\r\n")
    (folder / "train.py").write_bytes(b"caf\xe9\n\x0c\x85 a\x0bb\nno newline\r\nat the end")
    write(folder, patch="diff --git a/x b/x\n@@ -1 +1 @@\n--- a\n+++ b\n-- \n")
    git(folder, "add", "patch")


def give_odd_names(folder: Path) -> None:
    for name in ("a b.txt", "z\u00fcge.txt", "line\nfeed", 'quo"te\\d', "a b/c\td", "-x", "*[a]"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n")
    (folder / os.fsdecode(b"latin\xe9")).write_text("x\n")
    git(folder, "add", "-A")


def set_attributes(folder: Path) -> None:
    commit(folder, **{".gitattributes": "*.py text eol=crlf diff=evil\n*.x -text\n"})
    (folder / "train.py").write_bytes(b"some\r\nchanged\r\n")


CHANGES = {
    "deleted": lambda folder: (folder / "train.py").unlink(),
    "renamed": lambda folder: git(folder, "mv", "train.py", "fit.py"),
    "modes and links": change_modes_and_links,
    "empty and staged": empty_and_stage,
    "bytes": change_bytes,
    "odd names": give_odd_names,
    "attributes": set_attributes,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_diff_applied_to_the_commit_gives_the_executed_files(repository, tmp_path, change):
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


def test_there_is_no_diff_where_nothing_can_be_compared(repository, tmp_path):
    os.utime(repository / "train.py", (1, 1))
    facts, kept = taken(repository)
    assert kept == {}
    assert "source_code/git/files_changed" not in facts
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert taken(tmp_path / "bare.git")[1] == {}
    git(tmp_path, "init", "-q", "new")
    write(tmp_path / "new", **{"a.py": "a\n"})
    git(tmp_path / "new", "add", "a.py")
    facts, kept = taken(tmp_path / "new")
    assert facts["source_code/git/dirty"] is True
    assert kept == {}


def test_only_the_commit_of_a_submodule_is_in_the_diff(repository, tmp_path):
    """What has changed within it is not: git would run in it."""
    inner = make_repository(repository / "inner")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(repository, "commit", "-q", "-m", "submodule")
    write(inner, **{"train.py": "changed\n"})
    assert "diff" not in taken(repository)[1]
    commit(inner)
    subproject = b"+Subproject commit " + git(inner, "rev-parse", "HEAD").encode()
    assert subproject in patch_of(repository)
    write(repository, **{"train.py": "also\n"})
    clean = applied(repository, patch_of(repository), tmp_path / "clean")
    assert (clean / "train.py").read_text() == "also\n"


def test_files_that_do_not_fit_are_left_out_and_named(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "MAX_DIFF", 4000)
    lines = {"a.txt": 10, "b.txt": 3000, "c.txt": 20, "d.txt": 1900}
    commit(repository, **dict.fromkeys(lines, "x\n"))
    write(repository, **{name: "y\n" * count for name, count in lines.items()})
    facts, kept = taken(repository)
    assert facts["source_code/git/files_changed"] == 4
    assert "2 files are left out: b.txt (binary, or more than" in kept["diff"].left_out
    assert "d.txt (the diff exceeds" in kept["diff"].left_out
    clean = applied(repository, kept["diff"].content, tmp_path / "clean")
    found = [(clean / name).read_text() for name in lines]
    assert found == ["y\n" * 10, "x\n", "y\n" * 20, "x\n"]


def test_files_that_git_cannot_compare_are_left_out_and_named(repository, tmp_path):
    git(repository, "config", "filter.upper.clean", "tr a-z A-Z")
    write(repository, **{".gitattributes": "*.up filter=upper\n", "data.up": "abc\n"})
    for name in ("changed.bin", "gone.bin", "link.bin"):
        (repository / name).write_bytes(bytes(range(200)) * 2)
    commit(repository, **{"aaa.py": "x\n", "pipe.py": "x\n"})
    git(repository, "checkout", "-q", "-b", "other")
    commit(repository, **{"train.py": "other\n"})
    git(repository, "checkout", "-q", "topic/one")
    commit(repository, **{"train.py": "mine\n"})
    with pytest.raises(subprocess.CalledProcessError):  # a conflict
        git(repository, "merge", "-q", "other")
    write(repository, **{"data.up": "xyz\n", "aaa.py": "y\n"})
    (repository / "changed.bin").write_bytes(bytes(range(199)) * 2)
    for name in ("gone.bin", "link.bin", "pipe.py"):
        (repository / name).unlink()
    (repository / "link.bin").symlink_to("train.py")
    os.mkfifo(repository / "pipe.py")
    facts, kept = taken(repository)
    diff = kept["diff"]
    assert facts["source_code/git/files_changed"] == 7
    assert diff.left_out.startswith("6 files are left out: ")
    for said in (
        "data.up (filter upper)",
        "pipe.py (not a regular file)",
        "train.py (in conflict)",
    ):
        assert said in diff.left_out
    assert diff.left_out.count(".bin (binary, or more than") == 3
    assert b"xyz" not in diff.content
    clean = applied(repository, diff.content, tmp_path / "clean")
    assert (clean / "aaa.py").read_text() == "y\n"
    assert (clean / "gone.bin").exists()


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabcdef\n-----END RSA PRIVATE KEY-----\n"
PLANTED = {
    "train.py": 'import os\nAPI_KEY = "planted-1"\nconnect(password="planted-2", port=1)\n',
    "settings.yaml": "db:\n  password: planted-3\n  port: 5432\n",
    ".env": "HF_TOKEN=planted4\nDEBUG=1\n",
    "key.pem": KEY.replace("abcdef", "planted5"),
    "nb.ipynb": '{"cells": [{"source": ["token = \\"planted-6\\"\\n"]}]}\n',
    "known.py": 'print("seen planted-variable here")\n',
}


def test_planted_secrets_are_hidden_and_the_patch_still_applies(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_PASSWORD", "planted-variable")
    write(repository, **PLANTED)
    git(repository, "add", "-A")
    patch = patch_of(repository)
    assert patch.count(b"planted") == 7
    hidden = hide_in_patch(patch, Secrets())
    assert b"planted" not in hidden
    clean = applied(repository, hidden, tmp_path / "clean")
    assert (clean / "train.py").read_text() == (
        'import os\nAPI_KEY = "***"\nconnect(password="***", port=1)\n'
    )
    assert (clean / "settings.yaml").read_text() == "db:\n  password: ***\n  port: 5432\n"
    assert (clean / "key.pem").read_text().count("\n") == 4
    assert hide_in_patch(patch, Secrets(masked=False)) == patch


def test_secrets_that_are_removed_or_stand_beside_a_change_are_hidden(repository):
    lines = ['PASSWORD = "planted-0"', *(f" x{n} = {n}" for n in range(20)), 'token = "planted-1"']
    commit(repository, **{"train.py": "\n".join(lines) + "\n"})
    write(repository, **{"train.py": "\n".join([*lines[:19], "y = 1"]) + "\n"})
    patch = patch_of(repository)
    assert patch.count(b"planted") == 2
    assert b"planted" not in hide_in_patch(patch, Secrets())


def test_change_within_a_text_of_several_lines_leaves_code_as_it_is(repository):
    """A hunk is two texts, and may begin within a literal or below a key that holds secrets."""
    doc = [f"    Line {n} is the user's." for n in range(9)]
    files = {
        "a.py": ["def f(token):", '    """Do.', "", *doc, '    """', "    return g(token=token)"],
        "b.yaml": ["secrets:", *(f"  n{n}: planted{n}" for n in range(9))],
        "c.py": ['CONF = """', "user = x", '"""', "login(token=x)"],
    }
    commit(repository, **{name: "\n".join(lines) + "\n" for name, lines in files.items()})
    files["a.py"][10], files["b.yaml"][8] = "    Another.", "  n7: planted-new"
    files["c.py"][0] = 'TEXT = """'
    write(repository, **{name: "\n".join(lines) + "\n" for name, lines in files.items()})
    patch = patch_of(repository)
    hidden = hide_in_patch(patch, Secrets())
    assert patch.count(b"planted") > 4
    assert b"planted" not in hidden
    assert b"return g(token=token)" in hidden
    assert b"login(token=x)" in hidden
    parts = b"diff --git a/b.yaml"
    assert hidden.partition(parts)[0] == patch.partition(parts)[0]
