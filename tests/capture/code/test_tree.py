"""Files are compared only where working tree and git folder say the same about each other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from git_repositories import git, make_repository

from seamark.capture.code.repository import GitProbe

if TYPE_CHECKING:
    from seamark.capture.code.changes import Diff

ELSEWHERE = "the repository's files lie elsewhere"


def taken(folder: Path) -> tuple[dict[str, object], dict[str, Diff]]:
    facts: dict[str, object] = {}
    kept: dict[str, Diff] = {}
    GitProbe(folder, timeout_s=60).find(
        facts.update, lambda one: kept.update({"source_code/diff": one})
    )
    return {path.removeprefix("source_code/git/"): value for path, value in facts.items()}, kept


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home folder with something private, a repository among it."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("export TOKEN=private\n")
    make_repository(home / "private")
    (home / "private" / "secret.py").write_text("private\n")
    git(home / "private", "add", ".")
    git(home / "private", "commit", "-q", "-m", "private")
    return home


def work_tree_of_home(home: Path, stranger: Path) -> None:
    make_repository(stranger)
    (home / ".bashrc").rename(stranger / ".bashrc")
    git(stranger, "add", ".bashrc")
    git(stranger, "commit", "-q", "-m", "the same name")
    (stranger / ".bashrc").unlink()
    (home / ".bashrc").write_text("export TOKEN=changed\n")
    git(stranger, "config", "core.worktree", "../../..")


def git_file(home: Path, stranger: Path) -> None:
    stranger.mkdir()
    (stranger / ".git").write_text("gitdir: ../../private/.git\n")


def link(home: Path, stranger: Path) -> None:
    stranger.mkdir()
    (stranger / ".git").symlink_to("../../private/.git")


def link_to_a_worktree(home: Path, stranger: Path) -> None:
    git(home / "private", "worktree", "add", "-q", "--detach", str(home / "second"))
    stranger.mkdir()
    (stranger / ".git").symlink_to("../../second/.git")


def file_to_a_worktree(home: Path, stranger: Path) -> None:
    git(home / "private", "worktree", "add", "-q", "--detach", str(home / "second"))
    stranger.mkdir()
    shutil.copy(home / "second" / ".git", stranger / ".git")


def file_to_a_submodule(home: Path, stranger: Path) -> None:
    add_submodule(home / "private", home)
    stranger.mkdir()
    (stranger / ".git").write_text("gitdir: ../../private/.git/modules/inner\n")
    git(home / "private", "config", "-f", ".git/modules/inner/config", "--unset", "core.worktree")


def shared_folder(home: Path, stranger: Path) -> None:
    make_repository(stranger)
    git(stranger, "symbolic-ref", "HEAD", "refs/heads/topic/one")
    (stranger / ".git" / "commondir").write_text("../../../private/.git\n")


def links_within(home: Path, stranger: Path) -> None:
    make_repository(stranger)
    for name in ("refs", "objects"):
        shutil.rmtree(stranger / ".git" / name)
        (stranger / ".git" / name).symlink_to(f"../../../private/.git/{name}")


def link_to_a_branch(home: Path, stranger: Path) -> None:
    make_repository(stranger)
    branch = stranger / ".git" / "refs" / "heads" / "topic" / "one"
    branch.unlink()
    branch.symlink_to(home / "private" / ".git" / "refs" / "heads" / "topic" / "one")
    alternates = stranger / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{home / 'private' / '.git' / 'objects'}\n")


def index_of_another(home: Path, stranger: Path) -> None:
    link_to_a_branch(home, stranger)
    git(stranger, "update-ref", "--no-deref", "HEAD", "HEAD")
    (stranger / ".git" / "index").unlink()
    (stranger / ".git" / "index").symlink_to(home / "private" / ".git" / "index")


HOSTILE = [
    work_tree_of_home,
    git_file,
    link,
    link_to_a_worktree,
    file_to_a_worktree,
    file_to_a_submodule,
    shared_folder,
    links_within,
    link_to_a_branch,
    index_of_another,
]


@pytest.mark.parametrize("arm", HOSTILE, ids=lambda arm: arm.__name__)
def test_files_outside_are_neither_compared_nor_listed(home, arm):
    """A stranger's repository may name anybody's files as its own, or anybody's repository."""
    (home / "downloads").mkdir()
    stranger = home / "downloads" / "stranger"
    arm(home, stranger)
    facts, kept = taken(stranger)
    assert (facts["dirty"], facts["dirty_unknown"]) == (None, ELSEWHERE)
    assert not kept


def add_submodule(folder: Path, tmp_path: Path) -> Path:
    inner = make_repository(tmp_path / "inner-origin")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "inner")
    git(folder, "commit", "-q", "-m", "submodule")
    return folder / "inner"


def worktree(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "repo")
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    return tmp_path / "other"


def submodule(tmp_path: Path) -> Path:
    return add_submodule(make_repository(tmp_path / "repo"), tmp_path)


def worktree_of_a_bare_repository_within(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--bare", str(repository), "all/.bare")
    git(tmp_path / "all" / ".bare", "worktree", "add", "-q", "--detach", "../main")
    return tmp_path / "all" / "main"


def through_a_link(tmp_path: Path) -> Path:
    make_repository(tmp_path / "repo")
    (tmp_path / "linked").symlink_to("repo")
    return tmp_path / "linked"


def folder_apart_that_points_back(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "repo")
    git(repository, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    git(repository, "config", "core.worktree", str(repository))
    return repository


def folder_apart_within(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "repo")
    git(repository, "init", "-q", "--separate-git-dir", str(repository / ".hidden"))
    return repository


def clone_that_shares_objects(tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", "--shared", str(make_repository(tmp_path / "repo")), "second")
    return tmp_path / "second"


REAL = [
    clone_that_shares_objects,
    folder_apart_that_points_back,
    folder_apart_within,
    submodule,
    through_a_link,
    worktree,
    worktree_of_a_bare_repository_within,
]


@pytest.mark.parametrize("make", REAL, ids=lambda make: make.__name__)
def test_what_git_makes_is_compared(tmp_path, make):
    """Worktrees and submodules point back at their files; from a folder below, too."""
    folder = make(tmp_path)
    assert taken(folder)[0]["dirty"] is False
    (folder / "train.py").write_text("changed\n")
    below = folder / "below"
    below.mkdir()
    for asked in (folder, below):
        facts, kept = taken(asked)
        assert (facts["dirty"], facts["files_changed"]) == (True, 1)
        assert b"+changed" in kept["source_code/diff"].content


def test_a_git_folder_apart_without_a_way_back_is_not_compared(tmp_path):
    """It looks as somebody else's does; the commit is told."""
    repository = make_repository(tmp_path / "repo")
    git(repository, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    facts, kept = taken(repository)
    assert facts["commit"] == git(repository, "rev-parse", "HEAD")
    assert (facts["dirty"], facts["dirty_unknown"]) == (None, ELSEWHERE)
    assert not kept
