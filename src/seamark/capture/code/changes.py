"""Changes in a working tree: a patch for ``git apply``, and the names of untracked files.

A patch is made of one part for each file. What does not fit, cannot be read or would need a filter
is left out part by part, so that what is kept still applies.
"""

# ruff: noqa: PTH112, PTH118, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from seamark.capture.code import beginning_of

__all__ = [
    "MAX_DIFF",
    "ChangedFile",
    "Diff",
    "Tree",
    "diff_of",
    "name_of",
    "parts_of",
    "untracked_of",
]

MAX_DIFF = 10_000_000
"""Bytes of a diff that are kept."""

_MAX_CHANGED: Final = 10_000
_MAX_RAW: Final = 4 << 20
_MAX_NAMES_ASKED: Final = 500
_MAX_ARGUMENTS: Final = 60_000
_MAX_UNTRACKED: Final = 10_000
_MAX_UNTRACKED_BYTES: Final = 1 << 20
_LISTED: Final = 20
_RAW: Final = ("--raw", "-z", "--no-renames", "--ignore-submodules=dirty")
# A file that was renamed is one that went and one that came: a part must not need another one.
_PATCH: Final = (
    *("--patch", "--binary", "--full-index", "--no-renames", "--no-color", "--unified=3"),
    *("--no-ext-diff", "--no-textconv", "--no-indent-heuristic", "--ignore-submodules=dirty"),
    *("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"),
)
_HEADER: Final = b"diff --git "
_UNMERGED: Final = re.compile(rb"^\* Unmerged path .*\n?", re.MULTILINE)
_ESCAPED: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES: Final = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))

Git = Callable[..., Any]
"""Asks git: `seamark.capture.code.git._Comparison._git`."""


class ChangedFile(NamedTuple):
    """A file to keep, if it has content; ``left_out`` says in words what is missing in it."""

    path: str
    extension: str
    content: bytes
    left_out: str


class Diff(NamedTuple):
    """Changes in the files that git tracks: their number, and the patch."""

    files: int
    taken: ChangedFile


# --------------------------------------------------------------------- files that git tracks


def diff_of(git: Git, top: Path, head: str, filters: Collection[str]) -> Diff | None:
    """Return what has changed since a commit or tree; None if nothing has, or git cannot tell."""
    raw = git("diff-index", *_RAW, head, "--", at_most=_MAX_RAW)
    changed = dict(_changed(raw.output)) if raw.code in (0, None) else {}
    if not changed:
        return None
    left_out: dict[bytes, str] = {}
    for name, status in changed.items():
        if why := ("unmerged" if status == b"U" else _unreadable(top, name)):
            left_out[name] = why
    names = [name for name in changed if name not in left_out]
    if len(names) > _MAX_CHANGED:
        left_out.update(dict.fromkeys(names[_MAX_CHANGED:], "too many files"))
        names = names[:_MAX_CHANGED]
    left_out.update(_filtered(git, names, filters))
    parts = _parts(git, head, [name for name in names if name not in left_out], left_out)
    unchanged = {name for name in names if name not in parts and name not in left_out}
    count = len(changed) - len(unchanged)
    if not count:
        return None
    content = b"".join(parts[name] for name in changed if name in parts)
    more = "" if raw.code == 0 else f"more than {len(changed):,} files have changed; "
    return Diff(
        count, ChangedFile("source_code/diff", "patch", content, more + _in_words(left_out))
    )


def _changed(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    # A last entry that was cut off is none.
    entries = raw.split(b"\0")[:-1]
    for head, name in zip(entries[::2], entries[1::2], strict=False):
        if head.startswith(b":"):
            yield name, head.rpartition(b" ")[2][:1]


def _unreadable(top: Path, name: bytes) -> str:
    """Return why git is not to read a file of the working tree; empty if it may."""
    try:
        found = os.lstat(os.path.join(os.fsencode(top), name))
    except OSError:
        return ""  # deleted
    if stat.S_ISREG(found.st_mode):
        return f"more than {MAX_DIFF // 10**6} MB" if found.st_size > MAX_DIFF else ""
    is_known = stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return "" if is_known else "no regular file"


def _filtered(git: Git, names: Sequence[bytes], filters: Collection[str]) -> dict[bytes, str]:
    """Return which files have a filter: what is in the repository is not what is on disk."""
    found: dict[bytes, str] = {}
    for some in _batches(names) if filters else ():
        told = git("check-attr", "-z", "filter", "--", *map(os.fsdecode, some))
        values = told.output.split(b"\0")[2::3] if told.code == 0 else []
        if len(values) != len(some):
            found.update(dict.fromkeys(some, "may have a filter"))
            continue
        for name, value in zip(some, values, strict=True):
            if (known := value.decode("utf-8", "replace")) in filters:
                found[name] = f"filter {known[:100]}"
    return found


def _batches(names: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for name in names:
        if batch and (len(batch) == _MAX_NAMES_ASKED or size + len(name) > _MAX_ARGUMENTS):
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += len(name) + 1
    if batch:
        yield batch


def _parts(
    git: Git, head: str, names: Sequence[bytes], left_out: dict[bytes, str]
) -> dict[bytes, bytes]:
    """Return the parts of a patch by file; note in ``left_out`` why a file has none."""
    found: dict[bytes, bytes] = {}
    room = MAX_DIFF
    for batch in _batches(names):
        asked = batch
        while asked:
            words = [*_PATCH, head, "--", *map(os.fsdecode, asked)]
            answer = git("diff-index", *words, at_most=room + 1)
            if answer.code not in (0, None):
                left_out.update(dict.fromkeys(asked, "git cannot compare it"))
                break
            parts = _split(answer.output)
            cut = next(reversed(parts), None) if answer.code is None else None
            for name, part in parts.items():
                if name != cut and _has_content(part):
                    found[name] = part
                    room -= len(part)
            if cut is None:
                break
            left_out[cut] = f"the diff has {MAX_DIFF // 10**6} MB already"
            asked = asked[asked.index(cut) + 1 :] if cut in asked else []
    return found


def _split(patch: bytes) -> dict[bytes, bytes]:
    # A file that became a link has two parts, which are one.
    parts: dict[bytes, bytes] = {}
    for part in parts_of(patch):
        if part.startswith(_HEADER):
            name = name_of(part)
            if b"\n* Unmerged path " in part:
                part = _UNMERGED.sub(b"", part)  # noqa: PLW2901 - what git says between two parts
            parts[name] = parts.get(name, b"") + part
    return parts


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


def _has_content(part: bytes) -> bool:
    return part.count(b"\n") > 1


# --------------------------------------------------------------------- files that it does not


def untracked_of(
    git: Git, top: Path, ignoring: Iterable[str], aside: Path | None
) -> ChangedFile | None:
    """Return the names of untracked files that are not ignored, one a line, quoted as git does.

    ``ignoring`` are further files with rules, ``aside`` is a folder whose files are not told.
    """
    patterns = [f"--exclude-from={place}" for place in ignoring]
    if aside is not None and (inside := _inside(aside, top)):
        patterns.append("--exclude=/" + re.sub(r"([*?\[\]\\!#])", r"\\\1", inside) + "/")
    listed = git(
        *("ls-files", "--others", "--exclude-standard", *patterns),
        at_most=_MAX_UNTRACKED_BYTES,
    )
    if listed.code not in (0, None):
        return None
    names = listed.output.split(b"\n")[:-1]
    is_cut = listed.code is None or len(names) > _MAX_UNTRACKED
    names = names[:_MAX_UNTRACKED]
    if not names:
        return None
    more = f"the first {len(names):,} files are listed, there are more" if is_cut else ""
    return ChangedFile("source_code/untracked", "txt", b"\n".join(names) + b"\n", more)


def _inside(folder: Path, top: Path) -> str:
    try:
        inside = os.path.relpath(os.path.realpath(folder), os.path.realpath(top))
    except ValueError:  # on another drive
        return ""
    inside = inside.replace(os.sep, "/")
    return "" if inside.partition("/")[0] in (".", "..") else inside


def _in_words(left_out: dict[bytes, str]) -> str:
    if not left_out:
        return ""
    named = [
        f"{os.fsencode(name).decode('utf-8', 'replace')} ({why})"
        for name, why in list(left_out.items())[:_LISTED]
    ]
    rest = len(left_out) - len(named)
    files = "file is" if len(left_out) == 1 else "files are"
    more = f", and {rest:,} more" if rest else ""
    return f"{len(left_out):,} {files} left out: {', '.join(named)}{more}"


_MAX_LINK: Final = 1 << 14
_GIT_PLACES: Final = ("HEAD", "packed-refs", "refs", "objects/info", "objects/pack")


class Tree:
    """A working tree with its git folder, which may be shared with others (``common``).

    Either may be a stranger's. A git folder may name any folder as its working tree, the home
    folder, say; a ``.git`` file or a link may name anybody's git folder, whose files would seem
    deleted. Both would put files into the record that the training has nothing to do with. So a git
    folder outside of the working tree has to point back at it, as git writes it for worktrees and
    submodules.
    """

    def __init__(self, top: str, own: str, common: str, work_tree: str) -> None:
        self._top, self._own, self._common = map(os.path.realpath, (top, own, common))
        self._work_tree = work_tree

    def holds(self, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder lies in the working tree, and both parts belong together."""
        if not _is_within(os.path.realpath(folder), self._top):
            return False
        link = os.path.join(self._top, ".git")
        if self._common != self._own:  # of several working trees
            shared = os.path.join(self._common, "worktrees")
            return os.path.dirname(self._own) == shared and self._is_named_by_worktree(link)
        if not self._is_led_to_by(link):
            return False
        return _is_within(self._own, self._top) or self._is_named_by_configuration()

    def keeps(self, files: Iterable[str], reference: str) -> bool:
        """Return whether what git reads lies in its folder: a link may lead to anybody's.

        What it reads is ``files`` (objects and index), the head and the branch (``reference``, if
        any).
        """
        named = [os.path.join(self._common, name) for name in (*_GIT_PLACES, reference)]
        read = (*files, os.path.join(self._own, "HEAD"), *named)
        return all(
            _is_within(real, self._own) or _is_within(real, self._common)
            for real in map(os.path.realpath, read)
        )

    def _is_led_to_by(self, link: str) -> bool:
        if os.path.isdir(link):
            return os.path.realpath(link) == self._own
        named = _named_in(link, b"gitdir: ")
        return bool(named) and os.path.realpath(os.path.join(self._top, named or "")) == self._own

    def _is_named_by_worktree(self, link: str) -> bool:
        # The folder of the named file, not the file: that may be what a stranger's link leads to.
        named = _named_in(os.path.join(self._own, "gitdir"), b"") or ""
        folder = os.path.dirname(os.path.join(self._own, named))
        return self._is_led_to_by(link) and bool(named) and os.path.realpath(folder) == self._top

    def _is_named_by_configuration(self) -> bool:
        named = os.path.join(self._own, os.path.expanduser(self._work_tree))  # noqa: PTH111
        return bool(self._work_tree) and os.path.realpath(named) == self._top


def _named_in(file: str, before: bytes) -> str | None:
    """Return the path that a file of git holds; None if it holds none."""
    content = beginning_of(file, _MAX_LINK, follow=True) or b""
    if not content.startswith(before) or b"\0" in content:
        return None
    return os.fsdecode(content.removeprefix(before).rstrip(b"\r\n")) or None


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
