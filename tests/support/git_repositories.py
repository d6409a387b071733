"""Repositories for tests: plain ones, and such as name programs for git to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic/one")
    (folder / "train.py").write_text("pass\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


HOOKS = ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout")


class Hostile:
    """A repository whose configuration names a program, which leaves a file behind if it runs."""

    def __init__(self, folder: Path, canary: Path) -> None:
        self.folder = folder
        self.canary = canary
        self.program = folder.parent / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> {canary}\nexit 1\n")
        self.program.chmod(0o755)

    def git(self, *arguments: str) -> None:
        git(self.folder, *arguments)

    def set(self, key: str, value: str | None = None) -> None:
        self.git("config", key, value or str(self.program))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, text: str) -> None:
        """Change a tracked file, so that git has to look into it: its size is the same."""
        assert len(text) == len("pass\n")
        self.write("train.py", text)

    def attribute(self, line: str) -> None:
        self.write(".gitattributes", line + "\n")
        self.git("add", ".gitattributes")
        self.git("commit", "-q", "-m", "attributes")


def clean_filter(hostile: Hostile) -> tuple[str, ...]:
    hostile.attribute("*.py filter=evil")
    hostile.set("filter.evil.clean")
    hostile.change("PASS\n")
    return ("status",)


def process_filter(hostile: Hostile) -> tuple[str, ...]:
    hostile.attribute("*.py filter=evil=one")
    for key in ("process", "smudge", "clean"):
        hostile.set(f"filter.evil=one.{key}")
    hostile.set("filter.evil=one.required", "true")
    hostile.change("PASS\n")
    return ("diff", "--raw", "--exit-code")


def filter_of_attributes_beside(hostile: Hostile) -> tuple[str, ...]:
    hostile.write(".git/info/attributes", "* filter=evil\n")
    hostile.set("filter.evil.clean")
    hostile.change("PASS\n")
    return ("status",)


def fsmonitor(hostile: Hostile) -> tuple[str, ...]:
    hostile.set("core.fsmonitor")
    return ("status",)


def external_diff(hostile: Hostile) -> tuple[str, ...]:
    hostile.set("diff.external")
    hostile.change("PASS\n")
    return ("diff",)


def diff_driver(hostile: Hostile) -> tuple[str, ...]:
    hostile.attribute("*.py diff=evil")
    hostile.set("diff.evil.command")
    hostile.set("diff.evil.textconv")
    hostile.change("PASS\n")
    return ("diff",)


def hooks(hostile: Hostile) -> tuple[str, ...]:
    for name in HOOKS:
        shutil.copy(hostile.program, hostile.folder / ".git" / "hooks" / name)
    os.utime(hostile.folder / "train.py", (1, 1))
    return ("status",)


def hooks_elsewhere(hostile: Hostile) -> tuple[str, ...]:
    for name in HOOKS:
        hostile.write(f"hooks/{name}", hostile.program.read_text())
        (hostile.folder / "hooks" / name).chmod(0o755)
    hostile.set("core.hooksPath", "hooks")
    os.utime(hostile.folder / "train.py", (1, 1))
    return ("status",)


def missing_objects(hostile: Hostile) -> tuple[str, ...]:
    tree = git(hostile.folder, "rev-parse", "HEAD^{tree}")
    (hostile.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    hostile.set("core.repositoryformatversion", "1")
    hostile.set("extensions.partialClone", "evil")
    hostile.set("remote.evil.promisor", "true")
    hostile.set("remote.evil.url", f"ext::{hostile.program}")
    hostile.set("protocol.ext.allow", "always")
    hostile.set("protocol.allow", "always")
    return ("diff-index", "--cached", "HEAD")


def missing_objects_over_ssh(hostile: Hostile) -> tuple[str, ...]:
    missing_objects(hostile)
    hostile.set("remote.evil.url", "ssh://host/repo")
    hostile.set("core.sshCommand")
    hostile.set("credential.helper", f"!{hostile.program}")
    hostile.set("core.askPass")
    return ("diff-index", "--cached", "HEAD")


def included(hostile: Hostile) -> tuple[str, ...]:
    hostile.write("hidden", f"[core]\n\tfsmonitor = {hostile.program}\n")
    hostile.set("includeIf.gitdir:**.path", "../hidden")
    return ("status",)


def configuration_of_the_working_tree(hostile: Hostile) -> tuple[str, ...]:
    hostile.set("extensions.worktreeConfig", "true")
    hostile.write(".git/config.worktree", f"[core]\n\tfsmonitor = {hostile.program}\n")
    return ("status",)


def submodule(hostile: Hostile) -> tuple[str, ...]:
    inner = hostile.folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x.py").write_text("pass\n")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "inner")
    hostile.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    hostile.git("commit", "-q", "-m", "submodule")
    (inner / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    git(inner, "config", "filter.evil.clean", str(hostile.program))
    git(inner, "config", "core.fsmonitor", str(hostile.program))
    (inner / "x.py").write_text("PASS\n")
    return ("status",)


def directory_elsewhere(hostile: Hostile) -> tuple[str, ...]:
    fsmonitor(hostile)
    filter_of_attributes_beside(hostile)
    (hostile.folder / ".git").rename(hostile.folder.parent / "elsewhere")
    hostile.write(".git", f"gitdir: {hostile.folder.parent / 'elsewhere'}\n")
    return ("status",)


def tree_elsewhere(hostile: Hostile) -> tuple[str, ...]:
    elsewhere = hostile.folder.parent / "other"
    elsewhere.mkdir()
    (elsewhere / "train.py").write_text("PASS\n")
    fsmonitor(hostile)
    filter_of_attributes_beside(hostile)
    hostile.set("core.worktree", str(elsewhere))
    return ("--work-tree=.", "status")


def aliases(hostile: Hostile) -> tuple[str, ...]:
    for name in ("rev-parse", "symbolic-ref", "config", "diff", "diff-index", "check-attr", "mine"):
        hostile.set(f"alias.{name}", f"!{hostile.program}")
    return ("mine",)


def pagers(hostile: Hostile) -> tuple[str, ...]:
    for key in ("core.pager", "pager.diff", "pager.config", "pager.rev-parse", "core.editor"):
        hostile.set(key)
    return ("--paginate", "config", "--list")


ARMED = [
    aliases,
    clean_filter,
    configuration_of_the_working_tree,
    diff_driver,
    directory_elsewhere,
    external_diff,
    filter_of_attributes_beside,
    fsmonitor,
    hooks,
    hooks_elsewhere,
    included,
    missing_objects,
    missing_objects_over_ssh,
    pagers,
    process_filter,
    submodule,
    tree_elsewhere,
]
"""What arms a repository; each returns a command of git that would run the program."""
