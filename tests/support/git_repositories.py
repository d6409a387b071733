"""Repositories for tests: plain ones, and such as name programs for git to run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass


def git(folder, *arguments):
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    command = ["git", "-C", str(folder), *map(str, arguments)]
    return subprocess.run(
        command, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(folder):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic/one")
    (folder / "train.py").write_text("pass\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@dataclass
class Arm:
    """What has git run the program of a hostile repository, and a command that would do so."""

    command: str = "status"
    attribute: str = ""
    settings: tuple[str, ...] = ()
    """Keys whose value is the program, or keys and values with a blank between."""
    changed: bool = False
    """Whether a tracked file changes but for its size, so that git has to look into it."""
    more: Callable[[Hostile], None] | None = None


class Hostile:
    """A repository whose configuration names a program, which leaves a file behind if it runs."""

    def __init__(self, folder, canary):
        self.folder = folder
        self.canary = canary
        self.program = folder.parent / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> {canary}\nexit 1\n")
        self.program.chmod(0o755)

    def arm(self, arm):
        if arm.attribute:
            self.write(".gitattributes", arm.attribute + "\n")
            git(self.folder, "add", ".gitattributes")
            git(self.folder, "commit", "-q", "-m", "attributes")
        if arm.more:
            arm.more(self)
        for setting in arm.settings:
            key, _, value = setting.partition(" ")
            git(
                self.folder,
                "config",
                key,
                value.replace("PROGRAM", str(self.program)) or self.program,
            )
        if arm.changed:
            self.write("train.py", "PASS\n")
        return arm.command.split()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def put_hooks(hostile):
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        hostile.write(f".git/hooks/{name}", hostile.program.read_text())
        (hostile.folder / ".git/hooks" / name).chmod(0o755)
    os.utime(hostile.folder / "train.py", (1, 1))


def put_filter(hostile):
    hostile.write(".git/info/attributes", "* filter=evil\n")


def remove_objects(hostile):
    tree = git(hostile.folder, "rev-parse", "HEAD^{tree}")
    (hostile.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()


def put_submodule(hostile):
    inner = make_repository(hostile.folder / "inner")
    git(hostile.folder, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(hostile.folder, "commit", "-q", "-m", "submodule")
    Hostile(inner, hostile.canary).arm(Arm(settings=FILTERS, changed=True, more=put_filter))


def move_folder(hostile):
    hostile.arm(Arm(settings=FILTERS, changed=True, more=put_filter))
    (hostile.folder / ".git").rename(hostile.folder.parent / "elsewhere")
    hostile.write(".git", f"gitdir: {hostile.folder.parent / 'elsewhere'}\n")


def move_tree(hostile):
    hostile.arm(Arm(settings=FILTERS, changed=True, more=put_filter))
    (hostile.folder.parent / "other").mkdir()
    (hostile.folder.parent / "other" / "train.py").write_text("PASS\n")
    git(hostile.folder, "config", "core.worktree", str(hostile.folder.parent / "other"))


def put_monitor(hostile):
    hostile.write(".git/config.worktree", f"[core]\n\tfsmonitor = {hostile.program}\n")


FILTERS = ("filter.evil.clean", "core.fsmonitor")
ALIASES = ("rev-parse", "symbolic-ref", "config", "diff", "diff-index", "check-attr", "mine")
MISSING = (
    *("core.repositoryformatversion 1", "extensions.partialClone evil"),
    *("remote.evil.promisor true", "protocol.ext.allow always", "protocol.allow always"),
)

ARMED = {
    "aliases": Arm("mine", settings=tuple(f"alias.{name} !PROGRAM" for name in ALIASES)),
    "clean filter": Arm(
        attribute="*.py filter=evil", settings=("filter.evil.clean",), changed=True
    ),
    "fsmonitor": Arm(settings=("core.fsmonitor",)),
    "diff driver": Arm(
        "diff", "*.py diff=evil", ("diff.evil.command", "diff.evil.textconv"), changed=True
    ),
    "hooks": Arm(more=put_hooks),
    "missing objects": Arm(
        "diff-index --cached HEAD",
        settings=(*MISSING, "remote.evil.url ext::PROGRAM"),
        more=remove_objects,
    ),
    "configuration of the working tree": Arm(
        settings=("extensions.worktreeConfig true",),
        more=put_monitor,
    ),
    "submodule": Arm(more=put_submodule),
    "directory elsewhere": Arm(more=move_folder),
    "tree elsewhere": Arm("--work-tree=. status", more=move_tree),
    "pagers": Arm(
        "--paginate config --list",
        settings=("core.pager", "pager.diff", "pager.config", "pager.rev-parse", "core.editor"),
    ),
}
"""Ways to arm a repository."""
