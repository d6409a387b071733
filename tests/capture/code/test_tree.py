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
    GitProbe(folder, timeout_s=60).find(facts.update, lambda one: kept.update(diff=one))
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


def link_to_a_worktree(home: Path, stranger: Path) -> None:
    git(home / "private", "worktree", "add", "-q", "--detach", str(home / "second"))
    stranger.mkdir()
    (stranger / ".git").symlink_to("../../second/.git")


def file_to_a_worktree(home: Path, stranger: Path) -> None:
    link_to_a_worktree(home, stranger)
    (stranger / ".git").unlink()
    shutil.copy(home / "second" / ".git", stranger / ".git")


def shared_folder(home: Path, stranger: Path) -> None:
    make_repository(stranger)
    git(stranger, "symbolic-ref", "HEAD", "refs/heads/topic/one")
    (stranger / ".git" / "commondir").write_text("../../../private/.git\n")


def file_to_a_submodule(home: Path, stranger: Path) -> None:
    add_submodule(home / "private", home)
    stranger.mkdir()
    (stranger / ".git").write_text("gitdir: ../../private/.git/modules/inner\n")
    git(home / "private", "config", "-f", ".git/modules/inner/config", "--unset", "core.worktree")


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


def git_file(home: Path, stranger: Path) -> None:
    stranger.mkdir()
    (stranger / ".git").write_text("gitdir: ../../private/.git\n")


def git_link(home: Path, stranger: Path) -> None:
    stranger.mkdir()
    (stranger / ".git").symlink_to("../../private/.git")


@pytest.mark.parametrize(
    "arm",
    [
        *(git_file, git_link, link_to_a_worktree, file_to_a_worktree, file_to_a_submodule),
        *(work_tree_of_home, shared_folder, links_within, link_to_a_branch, index_of_another),
    ],
    ids=lambda arm: arm.__name__,
)
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


def worktree(repository: Path) -> Path:
    git(repository, "worktree", "add", "-q", "--detach", "../other")
    return repository.parent / "other"


def submodule(repository: Path) -> Path:
    return add_submodule(repository, repository.parent)


def through_a_link(repository: Path) -> Path:
    (repository.parent / "linked").symlink_to("repo")
    return repository.parent / "linked"


def folder_apart_that_points_back(repository: Path) -> Path:
    git(repository, "init", "-q", "--separate-git-dir", "../apart")
    git(repository, "config", "core.worktree", str(repository))
    return repository


def folder_apart_within(repository: Path) -> Path:
    git(repository, "init", "-q", "--separate-git-dir", str(repository / ".hidden"))
    return repository


def worktree_of_a_bare_repository_within(repository: Path) -> Path:
    beside = repository.parent / "all"
    git(repository.parent, "clone", "-q", "--bare", str(repository), "all/.bare")
    git(beside / ".bare", "worktree", "add", "-q", "--detach", "../main")
    return beside / "main"


def clone_that_shares_objects(repository: Path) -> Path:
    git(repository.parent, "clone", "-q", "--shared", str(repository), "second")
    return repository.parent / "second"


@pytest.mark.parametrize(
    "make",
    [
        *(clone_that_shares_objects, folder_apart_that_points_back, folder_apart_within, submodule),
        *(through_a_link, worktree, worktree_of_a_bare_repository_within),
    ],
    ids=lambda make: make.__name__,
)
def test_files_are_compared_in_every_folder_that_git_makes(tmp_path, make):
    folder = make(make_repository(tmp_path / "repo"))
    assert taken(folder)[0]["dirty"] is False
    (folder / "train.py").write_text("changed\n")
    below = folder / "below"
    below.mkdir()
    for asked in (folder, below):
        facts, kept = taken(asked)
        assert (facts["dirty"], facts["files_changed"]) == (True, 1)
        assert b"+changed" in kept["diff"].content


def test_git_folder_apart_without_a_way_back_is_not_compared(tmp_path):
    repository = make_repository(tmp_path / "repo")
    git(repository, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    facts, kept = taken(repository)
    assert facts["commit"] == git(repository, "rev-parse", "HEAD")
    assert (facts["dirty"], facts["dirty_unknown"]) == (None, ELSEWHERE)
    assert not kept
