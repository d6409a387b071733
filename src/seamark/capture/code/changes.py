"""Changes in a working tree: a patch for ``git apply``.

A patch is made of one part for each file. What does not fit, cannot be read or would need a filter
is left out part by part, so that what is kept still applies.
"""

# ruff: noqa: PTH118 - names of files are texts here, and may be anything

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from seamark.capture.code.git import Answer, Git

__all__ = ["MAX_DIFF", "Changes", "Diff", "name_of", "parts_of"]

MAX_DIFF = 10_000_000
"""Maximum size of a recorded diff, in bytes."""

_MAX_NAMES: Final = 1 << 20
_LONGEST_NAMES: Final = 1 << 14
_MAX_LEFT_OUT: Final = 200
_LISTED: Final = 20
# Of submodules only the commits are compared: git would run itself in them, with their
# configuration. Not `git diff`, which writes the index whatever GIT_OPTIONAL_LOCKS says.
_STATUS: Final = (
    *("status", "--porcelain=v1", "-z", "--no-renames"),
    *("--untracked-files=no", "--ignore-submodules=dirty"),
)
# A file that was renamed is one that went and one that came: a part must not need another one.
_PATCH: Final = (
    *("diff-index", "--patch", "--full-index", "--no-renames", "--no-color", "--unified=3"),
    *("--no-ext-diff", "--no-textconv", "--no-indent-heuristic", "--ignore-submodules=dirty"),
    *("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "HEAD", "--"),
)
_HEADER: Final = b"diff --git "
_BINARY: Final = re.compile(rb"\nBinary files [^\n]* differ\n\Z")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES: Final = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


class Diff(NamedTuple):
    """A patch to keep, if it has content; ``left_out`` says in words what is missing in it."""

    content: bytes
    left_out: str


class Changes:
    """Compares a working tree with its index and its commit.

    Args:
        git: Isolated, in the folder ``top``.
        top: The working tree.
        common: The git folder.
        filters: Names of filters that the repository configures.

    Attributes:
        unknown: Why it is not known whether something has changed.
    """

    def __init__(self, git: Git, top: str, common: str, filters: Collection[str]) -> None:
        self._git, self._top, self._filters = git, top, filters
        self._info = os.path.join(common, "info")
        self._names: list[bytes] = []
        self._left_out: dict[bytes, str] = {}
        self._more = ""
        self.unknown = "git cannot compare the files with the commit"

    def facts(self) -> dict[str, Any]:
        """Return whether tracked files have changed, and how many; empty if that is unknown."""
        status = self._ask(*_STATUS)
        changed = {entry[3:]: entry[:2] for entry in status.output.split(b"\0")[:-1]}
        filtered = self._filtered(changed)
        if status.code or filtered is None:
            return {}
        self._names = list(changed)
        if status.code is None:
            self._more = f"more than {len(changed):,} files have changed; "
        for name, state in changed.items():
            if why := filtered.get(name) or self._unreadable(name, state):
                self._left_out[name] = why
        # A file with a filter differs anyway; staged, it has changed.
        if changed and all(name in filtered and changed[name][:1] == b" " for name in changed):
            named = ", ".join(sorted({why.removeprefix("filter ") for why in filtered.values()}))
            what = "of the files can only be compared by running a filter"
            self.unknown = f"{len(changed)} {what}: {named[:200]}"
            return {}
        count = {"source_code/git/files_changed": len(changed)} if changed else {}
        return {"source_code/git/dirty": bool(changed), **count}

    def diff(self) -> Diff | None:
        """Return the patch of all that has changed; None if nothing has."""
        if not self._names:
            return None
        left_out = self._left_out
        parts, why = self._parts(list(left_out))
        left_out.update(dict.fromkeys(set(self._names) - parts.keys() - left_out.keys(), why))
        content = b"".join(parts[name] for name in self._names if name in parts)
        return Diff(content, self._more + _in_words(left_out))

    def _ask(self, *arguments: str, given: bytes = b"", at_most: int = _MAX_NAMES) -> Answer:
        attributes = os.path.join(self._info, "attributes")
        options = (
            "-c",
            f"core.attributesFile={attributes}",
            "-c",
            f"core.bigFileThreshold={MAX_DIFF}",
        )
        return self._git.ask(*options, *arguments, given=given, at_most=at_most)

    def _filtered(self, names: Collection[bytes]) -> dict[bytes, str] | None:
        """Return which files have a filter; None if git cannot tell.

        Of such a file the repository has something else than the disk.
        """
        if not self._filters or not names:
            return {}
        asked = b"".join(name + b"\0" for name in names)
        told = self._ask("check-attr", "-z", "--stdin", "filter", given=asked, at_most=1 << 24)
        if told.code != 0:
            return None
        fields = told.output.split(b"\0")
        pairs = zip(
            fields[::3], (value.decode("utf-8", "replace") for value in fields[2::3]), strict=False
        )
        return {name: f"filter {value[:100]}" for name, value in pairs if value in self._filters}

    def _unreadable(self, name: bytes, state: bytes) -> str:
        """Return why git is not to read a file of the working tree; empty if it may."""
        if b"U" in state or state in (b"AA", b"DD"):
            return "in conflict"
        try:
            mode = os.lstat(os.path.join(os.fsencode(self._top), name)).st_mode
        except OSError:
            return ""  # deleted
        is_known = stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
        return "" if is_known else "no regular file"

    def _parts(self, unread: list[bytes]) -> tuple[dict[bytes, bytes], str]:
        """Return the parts of a patch by file, and why others have none."""
        if len(unread) > _MAX_LEFT_OUT:
            return {}, "too many files cannot be read"
        excluded = [f":(exclude,top,literal){os.fsdecode(name)}" for name in unread]
        patch = self._ask(*_PATCH, *excluded, at_most=MAX_DIFF)
        parts: dict[bytes, bytes] = {}
        for part in parts_of(patch.output):
            name = name_of(part)
            parts[name] = parts.get(name, b"") + part  # two, of a file that became a link
            if _BINARY.search(part, len(part) - _LONGEST_NAMES):
                self._left_out[name] = f"binary, or more than {MAX_DIFF // 10**6} MB"
        if patch.code is None:
            parts.popitem()
        kept = {name: part for name, part in parts.items() if name not in self._left_out}
        is_cut = patch.code is None
        return (
            kept,
            f"the diff has {MAX_DIFF // 10**6} MB already" if is_cut else "git cannot compare it",
        )


def parts_of(patch: bytes) -> Iterator[bytes]:
    """Yield the parts of a patch, one for each file.

    Lines within a part begin with other letters. A regular expression would hold the interpreter.
    """
    start = 0
    while start < len(patch):
        end = patch.find(b"\n" + _HEADER, start) + 1 or len(patch)
        yield patch[start:end]
        start = end


def name_of(part: bytes) -> bytes:
    """Return which file a part of a patch is about; on both sides it has the same name."""
    line = part[len(_HEADER) :].partition(b"\n")[0]
    if not line.startswith(b'"'):
        return line[2 : 2 + (len(line) - 5) // 2]
    quoted = line[3 : (len(line) - 1) // 2 - 1]
    return _ESCAPED.sub(_unescaped, quoted)


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 255 if len(code) > 1 else _ESCAPES.get(code[0], code[0])])


def _in_words(left_out: Mapping[bytes, str]) -> str:
    if not left_out:
        return ""
    named = [
        f"{name.decode('utf-8', 'replace')} ({why})"
        for name, why in list(left_out.items())[:_LISTED]
    ]
    rest = len(left_out) - len(named)
    files = "file is" if len(left_out) == 1 else "files are"
    more = f", and {rest:,} more" if rest else ""
    return f"{len(left_out):,} {files} left out: {', '.join(named)}{more}"
