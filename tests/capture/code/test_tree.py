"""Files are compared only where working tree and git folder say the same about each other."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from git_repositories import git, make_repository

from seamark.capture.code.git import Git
from seamark.capture.code.repository import record_repository

if TYPE_CHECKING:
    from seamark.capture.code.changes import Diff

ELSEWHERE = "files of the repository are outside of its folder"


def taken(folder: Path) -> tuple[dict[str, object], dict[str, Diff]]:
    facts: dict[str, object] = {}
    kept: dict[str, Diff] = {}
    runner = Git(folder, 60)
    with runner:
        record_repository(runner, facts.update, lambda one: kept.update(diff=one))
    return {path.removeprefix("source_code/git/"): value for path, value in facts.items()}, kept


@dataclass
class Arm:
    """What leads a stranger's folder, ``downloads/stranger``, to the files of a home."""

    before: tuple[str, ...] = ()
    """Commands of git that are executed in the home."""
    repository: bool = False
    """Whether the stranger's folder is a repository of its own at first."""
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    """Commands of git that are executed in the stranger's folder."""

    def apply(self, home: Path) -> Path:
        for command in self.before:
            git(home, *command.split())
        stranger = home / "downloads" / "stranger"
        stranger.parent.mkdir()
        if self.repository:
            make_repository(stranger)
        else:
            stranger.mkdir()
        for name, target in self.links.items():
            place = stranger / name
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            place.symlink_to(target)
        for name, text in self.files.items():
            (stranger / name).write_text(text)
        for command in self.then:
            git(stranger, *command.split())
        return stranger


WORKTREE = ("-C private worktree add -q --detach ../second",)
SUBMODULE = (
    "-C repo -c protocol.file.allow=always submodule add -q ../inner inner",
    "-C repo commit -q -m submodule",
)
OF_HOME = "../../../private/.git"
BRANCH = {".git/refs/heads/topic/one": f"../../../{OF_HOME}/refs/heads/topic/one"}
ALTERNATES = {".git/objects/info/alternates": f"../{OF_HOME}/objects\n"}
HOSTILE = {
    "a file": Arm(files={".git": "gitdir: ../../private/.git\n"}),
    "a link": Arm(links={".git": "../../private/.git"}),
    "a link to a worktree": Arm(WORKTREE, links={".git": "../../second/.git"}),
    "the file of a worktree": Arm(
        WORKTREE, files={".git": "gitdir: ../../private/.git/worktrees/second\n"}
    ),
    "a file to a submodule": Arm(
        (
            *(command.replace("-C repo", "-C private") for command in SUBMODULE),
            "-C private config -f .git/modules/inner/config --unset core.worktree",
        ),
        files={".git": "gitdir: ../../private/.git/modules/inner\n"},
    ),
    "the working tree": Arm(
        repository=True,
        files={".bashrc": "the same name\n"},
        then=("add .bashrc", "commit -q -m more", "config core.worktree ../../.."),
    ),
    "a shared folder": Arm(repository=True, files={".git/commondir": f"{OF_HOME}\n"}),
    "links within": Arm(
        repository=True, links={f".git/{name}": f"{OF_HOME}/{name}" for name in ("refs", "objects")}
    ),
    "a link to a branch": Arm(repository=True, links=BRANCH, files=ALTERNATES),
    "the index of another": Arm(
        repository=True,
        links=BRANCH | {".git/index": f"{OF_HOME}/index"},
        files=ALTERNATES,
        then=("update-ref --no-deref HEAD HEAD",),
    ),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_files_outside_are_neither_compared_nor_listed(tmp_path, how):
    """A stranger's repository may name anybody's files as its own, or anybody's repository."""
    (tmp_path / ".bashrc").write_text("export TOKEN=private\n")
    make_repository(tmp_path / "inner")
    make_repository(tmp_path / "private")
    (tmp_path / "private" / "secret.py").write_text("private\n")
    git(tmp_path / "private", "add", ".")
    git(tmp_path / "private", "commit", "-q", "-m", "private")
    stranger = HOSTILE[how].apply(tmp_path)
    facts, kept = taken(stranger)
    assert facts["commit"] == git(stranger, "rev-parse", "HEAD")
    assert (facts["dirty"], facts["dirty_unknown"]) == (None, ELSEWHERE)
    assert not kept


@pytest.mark.parametrize(
    ("folder", "commands"),
    [
        ("second", ["clone -q --shared repo second"]),
        (
            "repo",
            ["-C repo init -q --separate-git-dir ../apart", "-C repo config core.worktree ../repo"],
        ),
        ("repo", ["-C repo init -q --separate-git-dir .hidden"]),
        ("repo/inner", SUBMODULE),
        ("linked", []),
        ("other", ["-C repo worktree add -q --detach ../other"]),
        (
            "all/main",
            ["clone -q --bare repo all/.bare", "-C all/.bare worktree add -q --detach ../main"],
        ),
    ],
)
def test_files_are_compared_in_every_folder_that_git_makes(tmp_path, folder, commands):
    make_repository(tmp_path / "repo")
    make_repository(tmp_path / "inner")
    (tmp_path / "linked").symlink_to("repo")
    for command in commands:
        git(tmp_path, *command.split())
    folder = tmp_path / folder
    assert taken(folder)[0]["dirty"] is False
    (folder / "train.py").write_text("changed\n")
    (folder / "below").mkdir()
    for asked in (folder, folder / "below"):
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
