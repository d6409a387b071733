"""Commit and repository of the running code, and changes since the commit, read by ``git``."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH118, PTH120 - paths are strings here, with any characters

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from seamark.capture.code import Script, is_installed, read_beginning
from seamark.capture.code.changes import Changes, Diff
from seamark.capture.code.git import Git
from seamark.capture.secrets.masking import bare_url
from seamark.capture.switches import is_switched_off

log = logging.getLogger("seamark")

_MAX_TEXT_CHARS: Final = 2048
_MAX_LINK_BYTES: Final = 1 << 14
# Settings of a repository that control how its files are compared and run no program.
_SETTINGS: Final = (
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.trustctime",
    "extensions.objectformat",
)
_WORK_TREE: Final = "core.worktree"
_ORIGIN: Final = "remote.origin.url"
_CONFIG_KEYS: Final = (
    r"^(remote\..*\.url|filter\..*\.(clean|process)|"
    + "|".join(map(re.escape, (*_SETTINGS, _WORK_TREE)))
    + ")$"
)
_GIT_PATHS: Final = ("HEAD", "packed-refs", "refs", "objects", "objects/info", "objects/pack")

_warned_folders: set[Path] = set()


def repository_of(git_ref: Any, script: Script) -> Path | None:
    """Return the folder in which git runs, or None if git is disabled; call it on a thread.

    ``git_ref`` is a path, or an object with the path as ``repository_path`` (Neptune's ``GitRef``).
    False or Neptune's ``GitRef.DISABLED`` disables git. None or True is the repository of the
    script. For a script that is installed with Python (a console script, ``python -m``), the
    working directory is used instead.
    """
    if is_switched_off(git_ref):
        return None
    if path := _path_in(git_ref):
        given = Path(os.path.abspath(script.here / path))
        return given.parent if given.is_file() else given
    if script.file is None or is_installed(script.file):
        return script.here
    return script.file.parent


def warn_no_repository(git_ref: Any, folder: Path) -> None:
    """Warn that the folder given by the user has no repository, once for each folder."""
    if _path_in(git_ref) and folder not in _warned_folders:
        _warned_folders.add(folder)
        log.warning("seamark: git_ref: no readable git repository at %s", folder)


def _path_in(git_ref: Any) -> Any:
    is_path = isinstance(git_ref, (str, os.PathLike))
    return git_ref if is_path else getattr(git_ref, "repository_path", None)


def record_repository(
    git: Git,
    record: Callable[[Mapping[str, Any]], None],
    take: Callable[[Diff], None],
) -> bool:
    """Record facts by path about the repository of a folder as they are found.

    Whether tracked files have changed (``dirty``) is null if this cannot be determined without
    running a program named by the repository. The reason is then recorded as ``dirty_unknown``.
    ``take`` receives the diff of the files that git tracks. Raises `StoppedError` or OSError if git
    fails.

    Returns:
        Whether there is a repository.
    """
    ask = git.ask
    commit = ask("rev-parse", "--quiet", "--verify", "HEAD").text
    reference = ask("symbolic-ref", "--quiet", "HEAD").text
    if not commit and not reference:
        return False
    branch = reference.removeprefix("refs/heads/")[:_MAX_TEXT_CHARS]
    record({"source_code/git/commit": commit or None, "source_code/git/branch": branch or None})
    listed = ask("config", "-z", "--get-regexp", _CONFIG_KEYS)
    settings = _Settings(listed.output.decode("utf-8", "replace"))
    record({"source_code/git/remote": settings.remote})
    if listed.code is None:  # the filters are unknown
        record(_unknown("the configuration of the repository is too long"))
        return True
    places = ask("rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel").text
    if not places:  # without a working tree
        return True
    tree = Tree(git.folder, places.splitlines(), settings.work_tree)
    if not tree.is_consistent() or not tree.contains_files(reference):
        record(_unknown("files of the repository are outside of its folder"))
        return True
    with tempfile.TemporaryDirectory(prefix="seamark-") as own:
        git.folder = tree.top
        git.isolate(
            Path(own),
            tree.top,
            head=commit,
            objects=os.path.join(tree.common, "objects"),
            index=os.path.join(tree.own, "index"),
            settings={"core.repositoryformatversion": "1", **settings.plain},
        )
        changes = Changes(git, tree.top, tree.common, settings.filters)
        record(changes.facts() or _unknown(changes.unknown))
        if commit and (diff := changes.diff()):
            take(diff)
    return True


def _unknown(why: str) -> dict[str, Any]:
    return {"source_code/git/dirty": None, "source_code/git/dirty_unknown": why}


class _Settings:
    """Settings of a repository, parsed from the output of ``git config -z --get-regexp``.

    ``remote`` is the URL of ``origin`` or else of the first remote, without secrets. ``work_tree``
    may be empty.
    """

    def __init__(self, listed: str) -> None:
        # Not `git remote get-url`: it applies url.<base>.insteadOf, which often contains tokens.
        found = [entry.partition("\n") for entry in listed.split("\0")]
        entries = [(key, value) for key, _, value in found]
        urls = [value for key, value in entries if key == _ORIGIN]
        urls += [value for key, value in entries if key.startswith("remote.")]
        self.remote = bare_url(urls[0][:_MAX_TEXT_CHARS]) if urls else None
        self.work_tree = dict(entries).get(_WORK_TREE, "")
        filters = [key.removeprefix("filter.") for key, _ in entries if key.startswith("filter.")]
        self.filters = {name.rpartition(".")[0] for name in filters}
        self.plain = {
            key: value
            for key, value in entries
            if key in _SETTINGS and re.fullmatch("[A-Za-z0-9]{1,12}", value)
        }


class Tree:
    """Working tree with its git folder, which may be shared with other trees (``common``).

    Both are untrusted. A git folder may name any folder as its working tree, such as the home
    folder. A ``.git`` file or a link may name any git folder, whose files would seem deleted. Both
    would record files that are unrelated to the training. Therefore a git folder outside of the
    working tree must refer back to it, as git writes it for worktrees and submodules.
    """

    def __init__(self, folder: str, places: Iterable[str], work_tree: str) -> None:
        found = (os.path.realpath(os.path.join(folder, place)) for place in places)
        self.own, self.common, self.top = found
        self._folder = os.path.realpath(folder)
        self._work_tree = os.path.expanduser(work_tree)

    def is_consistent(self) -> bool:
        """Return whether the folder is in the working tree, and both parts refer to each other."""
        link = os.path.join(self.top, ".git")
        target = (
            link
            if os.path.isdir(link)
            else os.path.join(self.top, _path_from_file(link, b"gitdir: "))
        )
        if os.path.realpath(target) != self.own or not _is_within(self._folder, self.top):
            return False
        back = os.path.join(self.own, self._work_tree)
        if self.common != self.own:  # one of several working trees
            # The folder of the named file, not the file, which may be the target of an untrusted
            # link.
            back = os.path.join(
                self.own, os.path.dirname(_path_from_file(f"{self.own}/gitdir", b""))
            )
            if os.path.dirname(self.own) != os.path.join(self.common, "worktrees"):
                return False
        elif _is_within(self.own, self.top):
            return True
        return os.path.realpath(back) == self.top

    def contains_files(self, reference: str) -> bool:
        """Return whether all files that git reads are in its folder; a link may lead elsewhere."""
        read = [os.path.join(self.own, name) for name in ("HEAD", "index")]
        read += [os.path.join(self.common, name) for name in (*_GIT_PATHS, reference)]
        return all(
            _is_within(real, self.own) or _is_within(real, self.common)
            for real in map(os.path.realpath, read)
        )


def _path_from_file(file: str, before: bytes) -> str:
    """Return the path that a file of git contains; empty if there is none."""
    content = read_beginning(file, _MAX_LINK_BYTES, follow=True) or b""
    if not content.startswith(before) or b"\0" in content:
        return ""
    return os.fsdecode(content.removeprefix(before).rstrip(b"\r\n"))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
