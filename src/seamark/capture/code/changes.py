"""Changes in a working tree, as a patch for ``git apply``.

A patch has one part for each file. Files that are too large, cannot be read or need a filter are
left out as whole parts, so that the rest still applies.
"""

# ruff: noqa: PTH118 - paths are strings here, with any characters

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from seamark.capture.code.git import Answer, Git

MAX_DIFF = 10_000_000
"""Maximum size of a recorded diff, in bytes."""

_MAX_OUTPUT_BYTES: Final = 1 << 20
_MAX_NAMES_BYTES: Final = 1 << 14
_MAX_EXCLUDED: Final = 200
_MAX_NAMED_FILES: Final = 20
# Only the commits of submodules are compared, because git would use the configuration of a
# submodule. Not `git diff`, which writes the index despite GIT_OPTIONAL_LOCKS.
_STATUS: Final = (
    *("status", "--porcelain=v1", "-z", "--no-renames"),
    *("--untracked-files=no", "--ignore-submodules=dirty"),
)
# A renamed file is a deleted and an added file: no part may depend on another part.
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
    """Patch, possibly empty; ``left_out`` describes the missing files."""

    content: bytes
    left_out: str


class Changes:
    """Comparison of a working tree with its index and its commit.

    Args:
        git: Runner of isolated commands in the folder ``top``.
        top: The working tree.
        common: The git folder.
        filters: Names of filters that the repository configures.

    Attributes:
        unknown: Reason why the presence of changes is unknown.
    """

    def __init__(self, git: Git, top: str, common: str, filters: Collection[str]) -> None:
        self._git, self._top, self._filters = git, top, filters
        self._info = os.path.join(common, "info")
        self._names: list[bytes] = []
        self._left_out: dict[bytes, str] = {}
        self._more = ""
        self.unknown = "git cannot compare the files with the commit"

    def facts(self) -> dict[str, Any]:
        """Return whether and how many tracked files have changed, by path; empty if unknown."""
        status = self._run_git(*_STATUS)
        changed = {entry[3:]: entry[:2] for entry in status.output.split(b"\0")[:-1]}
        filtered = self._find_filters(changed)
        if status.code or filtered is None:
            return {}
        self._names = list(changed)
        if status.code is None:
            self._more = f"more than {len(changed):,} files have changed; "
        for name, state in changed.items():
            if why := filtered.get(name) or self._unreadable_reason(name, state):
                self._left_out[name] = why
        # A file with a filter always differs from the index; a staged file has changed.
        if changed and all(name in filtered and changed[name][:1] == b" " for name in changed):
            named = ", ".join(sorted({why.removeprefix("filter ") for why in filtered.values()}))
            what = "of the files can only be compared by running a filter"
            self.unknown = f"{len(changed)} {what}: {named[:200]}"
            return {}
        count = {"source_code/git/files_changed": len(changed)} if changed else {}
        return {"source_code/git/dirty": bool(changed), **count}

    def diff(self) -> Diff | None:
        """Return the patch of all changes; None without changes."""
        if not self._names:
            return None
        left_out = self._left_out
        parts, why = self._split_patch(list(left_out))
        left_out.update(dict.fromkeys(set(self._names) - parts.keys() - left_out.keys(), why))
        content = b"".join(parts[name] for name in self._names if name in parts)
        return Diff(content, self._more + _describe_omitted(left_out))

    def _run_git(
        self, *arguments: str, given: bytes = b"", at_most: int = _MAX_OUTPUT_BYTES
    ) -> Answer:
        attributes = os.path.join(self._info, "attributes")
        options = (
            "-c",
            f"core.attributesFile={attributes}",
            "-c",
            f"core.bigFileThreshold={MAX_DIFF}",
        )
        return self._git.ask(*options, *arguments, given=given, at_most=at_most)

    def _find_filters(self, names: Collection[bytes]) -> dict[bytes, str] | None:
        """Return the filter of each file that has one; None if git fails.

        The repository contains the filtered content of such a file.
        """
        if not self._filters or not names:
            return {}
        query = b"".join(name + b"\0" for name in names)
        answer = self._run_git(
            "check-attr", "-z", "--stdin", "filter", given=query, at_most=1 << 24
        )
        if answer.code != 0:
            return None
        fields = answer.output.split(b"\0")
        pairs = zip(
            fields[::3], (value.decode("utf-8", "replace") for value in fields[2::3]), strict=False
        )
        return {name: f"filter {value[:100]}" for name, value in pairs if value in self._filters}

    def _unreadable_reason(self, name: bytes, state: bytes) -> str:
        """Return the reason why git must not read a file of the working tree; else empty."""
        if b"U" in state or state in (b"AA", b"DD"):
            return "in conflict"
        try:
            mode = os.lstat(os.path.join(os.fsencode(self._top), name)).st_mode
        except OSError:
            return ""  # deleted
        is_known = stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
        return "" if is_known else "not a regular file"

    def _split_patch(self, excluded_names: list[bytes]) -> tuple[dict[bytes, bytes], str]:
        """Return the parts of a patch by file, and the reason why other files have none."""
        if len(excluded_names) > _MAX_EXCLUDED:
            return {}, "too many files cannot be read"
        excluded = [f":(exclude,top,literal){os.fsdecode(name)}" for name in excluded_names]
        patch = self._run_git(*_PATCH, *excluded, at_most=MAX_DIFF)
        parts: dict[bytes, bytes] = {}
        for part in parts_of(patch.output):
            name = name_of(part)
            parts[name] = parts.get(name, b"") + part  # a file that became a link has two parts
            if _BINARY.search(part, len(part) - _MAX_NAMES_BYTES):
                self._left_out[name] = f"binary, or more than {MAX_DIFF // 10**6} MB"
        if patch.code is None:
            parts.popitem()
        kept = {name: part for name, part in parts.items() if name not in self._left_out}
        is_cut = patch.code is None
        return (
            kept,
            f"the diff exceeds {MAX_DIFF // 10**6} MB" if is_cut else "git cannot compare it",
        )


def parts_of(patch: bytes) -> Iterator[bytes]:
    """Yield the parts of a patch, one for each file.

    Lines within a part begin differently. A regular expression would hold the GIL.
    """
    start = 0
    while start < len(patch):
        end = patch.find(b"\n" + _HEADER, start) + 1 or len(patch)
        yield patch[start:end]
        start = end


def name_of(part: bytes) -> bytes:
    """Return the name of the file of a patch part; old and new name are the same."""
    line = part[len(_HEADER) :].partition(b"\n")[0]
    if not line.startswith(b'"'):
        return line[2 : 2 + (len(line) - 5) // 2]
    quoted = line[3 : (len(line) - 1) // 2 - 1]
    return _ESCAPED.sub(_unescape, quoted)


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 255 if len(code) > 1 else _ESCAPES.get(code[0], code[0])])


def _describe_omitted(left_out: Mapping[bytes, str]) -> str:
    if not left_out:
        return ""
    named = [
        f"{name.decode('utf-8', 'replace')} ({why})"
        for name, why in list(left_out.items())[:_MAX_NAMED_FILES]
    ]
    rest = len(left_out) - len(named)
    files = "file is" if len(left_out) == 1 else "files are"
    more = f", and {rest:,} more" if rest else ""
    return f"{len(left_out):,} {files} left out: {', '.join(named)}{more}"
