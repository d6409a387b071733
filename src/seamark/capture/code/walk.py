"""Search for the files that named folders and patterns stand for; no others are looked at."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH113, PTH118, PTH119, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import string
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from seamark.capture.code import beginning_of, repository_top
from seamark.process.interrupts import let_pass

__all__ = ["Ignored", "Rule", "RuleTime", "RulesTooSlowError", "StoppedError", "Walk", "rules_of"]

_MAX_LOOKED: Final = 100_000
_MAX_TIME_S: Final = 60.0
_MAX_RULE_TIME_S: Final = 1.0
_MAX_DEPTH: Final = 200
_NO_SOURCES: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
_WORK_S: Final = 0.001
_REST_S: Final = 0.002


class StoppedError(Exception):
    """Looking for files has ended early; why, in words."""


class Walk:
    """Looks for files, in pieces: a thread that computes without a pause slows the training.

    Links to folders are not followed, unless they were named themselves; a link to a file counts as
    that file if it lies below the folder that was named. What is ignored is not entered, nor are
    the folder of all runs (``aside``), repositories' own folders and ``__pycache__``.

    Attributes:
        linked: The first links that lead out of what was named, by name.
    """

    def __init__(
        self, here: str, aside: str, hurry: threading.Event, may_go_on: Callable[[], bool]
    ) -> None:
        self._here, self._aside = here, os.path.realpath(aside)
        self._hurry, self._may_go_on = hurry, may_go_on
        self._rule_time = RuleTime(_MAX_RULE_TIME_S)
        self._looked = 0
        self._begun = self._rested = time.monotonic()
        self.linked: list[str] = []

    def files(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield name and path of the files that a path, folder or pattern (with ``**``) stands for.

        Names are relative to the working directory for what lies in it, else to the folder that was
        named or that the pattern begins at; a single file goes by its own name.

        Raises:
            StoppedError: If looking has ended early.
        """
        place = os.path.abspath(os.path.join(self._here, os.path.expanduser(target)))
        base, wanted = place, []
        if os.path.isfile(place):
            yield self._name(place, os.path.dirname(place)), place
            return
        if not os.path.isdir(place):
            while glob.has_magic(base):
                wanted.append(os.path.basename(base))
                base = os.path.dirname(base)
            if not wanted:
                return
        try:
            ignored = Ignored(place, self._rule_time)
            start = frozenset({0}) if wanted else None
            parts = [_ANY_FOLDERS if part == "**" else part for part in wanted[::-1]]
            for path in self._below(base, base, parts, start, ignored, 0):
                yield self._name(path, base), path
        except RulesTooSlowError:
            msg = "rules of .gitignore files take too long"
            raise StoppedError(msg) from None

    def _name(self, path: str, base: str) -> str:
        try:
            inside = os.path.relpath(path, self._here).replace(os.sep, "/")
        except ValueError:  # on another drive
            inside = ".."
        outside = inside.startswith("../") or inside == ".."
        return os.path.relpath(path, base).replace(os.sep, "/") if outside else inside

    def _below(
        self,
        base: str,
        folder: str,
        wanted: list[str | None],
        reached: frozenset[int] | None,
        ignored: Ignored,
        depth: int,
    ) -> Iterator[str]:
        """Yield files below a folder.

        ``wanted`` are the parts of a pattern; ``reached``: which of them the next name may be,
        None: everything is wanted.
        """
        if reached is not None:
            reached = frozenset(_past_any_folders(wanted, reached))
            if len(wanted) in reached:  # the folder itself is meant
                reached = None
        for entry in self._entries(folder):
            inner = None if reached is None else _reached(wanted, reached, entry.name)
            if inner is not None and not inner:
                continue
            kind = _kind(entry)
            if kind == "folder":
                if self._enters(entry, ignored):
                    if depth == _MAX_DEPTH:
                        msg = f"folders are searched to a depth of {_MAX_DEPTH}"
                        raise StoppedError(msg)
                    yield from self._below(base, entry.path, wanted, inner, ignored, depth + 1)
            elif (
                kind
                and (inner is None or len(wanted) in inner)
                and ignored.includes(entry.path, is_folder=False)
                and (kind == "file" or self._is_inside(entry.path, base, ignored))
            ):
                yield entry.path

    def _enters(self, entry: os.DirEntry[str], ignored: Ignored) -> bool:
        if entry.name in _NO_SOURCES or os.path.realpath(entry.path) == self._aside:
            return False
        return ignored.includes(entry.path, is_folder=True)

    def _is_inside(self, link: str, base: str, ignored: Ignored) -> bool:
        """Return whether a link leads to a file below the named folders that is stored itself."""
        real, top = os.path.realpath(link), os.path.realpath(base)
        if not os.path.isfile(real):
            return False
        if not _is_below(real, top):
            self.linked.append(self._name(link, base))
            return False
        inside = os.path.relpath(real, top)
        if _is_below(real, self._aside) or not _NO_SOURCES.isdisjoint(Path(inside).parts):
            return False
        return ignored.includes(os.path.join(base, inside), is_folder=False)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        found: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as listed:
                for entry in listed:
                    self._go_on()
                    found.append(entry)
        except OSError as error:
            let_pass(error)
        return sorted(found, key=lambda entry: entry.name)

    def _go_on(self) -> None:
        """Pause now and then; raise `StoppedError` if it is enough."""
        self._looked += 1
        if self._looked > _MAX_LOOKED:
            msg = f"at most {_MAX_LOOKED:,} files and folders are searched"
            raise StoppedError(msg)
        now = time.monotonic()
        if now - self._begun > _MAX_TIME_S:
            msg = f"looking for files ends after {_MAX_TIME_S:.0f} seconds"
            raise StoppedError(msg)
        if not self._may_go_on():
            msg = "the run has ended"
            raise StoppedError(msg)
        if now - self._rested > _WORK_S:
            self._hurry.wait(_REST_S)
            self._rested = time.monotonic()


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _kind(entry: os.DirEntry[str]) -> str:
    """Return "folder", "file" or "link" (to whatever); empty for anything else."""
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else ""
    except OSError as error:
        let_pass(error)
        return ""


def _reached(wanted: list[str | None], before: frozenset[int], name: str) -> frozenset[int]:
    """Return which parts of a pattern may come after a name; their number if it is complete.

    A name that begins with a dot is meant only by a part that does.
    """
    hidden = name.startswith(".")
    found: set[int] = set()
    for at in before:
        part = wanted[at] if at < len(wanted) else ""
        if part is _ANY_FOLDERS:
            if not hidden:
                found.add(at)
        elif part and (not hidden or part.startswith(".")) and fnmatch.fnmatchcase(name, part):
            found.add(at + 1)
    return frozenset(found)


_RULES_FILE: Final = ".gitignore"
_OF_REPOSITORY: Final = os.path.join(".git", "info", "exclude")
_MAX_RULES_BYTES: Final = 1 << 18
_MAX_RULE_BYTES: Final = 1024
_MAX_RULES: Final = 2_000
_AT_ONCE: Final = 8


class RulesTooSlowError(Exception):
    """Reading and matching rules took all the time that there is for it."""


class RuleTime:
    """The time that rules may cost in all, of the calling thread on a processor, in seconds."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._begun = 0.0

    def begin(self) -> None:
        """Let the time count."""
        self._begun = time.thread_time()

    def check(self) -> None:
        """Take off what has passed; raise `RulesTooSlowError` if nothing is left."""
        now = time.thread_time()
        self._left -= now - self._begun
        self._begun = now
        if self._left <= 0:
            raise RulesTooSlowError


class Ignored:
    """Ignore rules that apply below a path that the user named: a file, a folder or a pattern.

    Inside a repository, its rules apply from the top. Elsewhere, and where the path itself is
    ignored, only the rules at the path and below it apply. Raises `RulesTooSlowError` if the time
    is used up.
    """

    def __init__(self, target: str, allowed: RuleTime, name: str = _RULES_FILE) -> None:
        self._name = name
        base = os.path.abspath(target)
        while glob.has_magic(base):
            base = os.path.dirname(base)
        self._base = self._top = base
        self._allowed = allowed
        self._rules: dict[str, list[Rule]] = {}
        self._folders: dict[str, bool] = {}
        top = repository_top(base)
        if top is not None:
            self._top = top
            if not self.includes(base, is_folder=True):  # named nevertheless
                self._top = base
                self._rules.clear()
            self._folders.clear()

    def includes(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file, or a folder that is no link, is not ignored."""
        self._allowed.begin()
        found = self._is_ignored(path, is_folder)
        self._allowed.check()
        return not found

    def _is_ignored(self, path: str, is_folder: bool) -> bool:  # noqa: FBT001
        # Itself or with a folder above it.
        below: list[str] = []
        while len(path) > len(self._top) and path not in self._folders:
            below.append(path)
            path = os.path.dirname(path)
        found = self._folders.get(path, False)
        for each in reversed(below):  # no recursion: folders may lie very deep
            may_be_file = each == below[0] and not is_folder
            found = found or self._is_named(each, is_folder=not may_be_file)
            if not may_be_file:
                self._folders[each] = found
        return found

    def _is_named(self, path: str, *, is_folder: bool) -> bool:
        """Return the result of the nearest folder whose rules match a path."""
        folder = os.path.dirname(path)
        name = os.fsencode(os.path.basename(path))
        while len(folder) >= len(self._top):
            inside = os.fsencode(path[len(folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/"))
            for number, rule in enumerate(self._rules_of(folder), 1):
                if rule.matches(inside, name, is_folder=is_folder):
                    return rule.excludes
                if not number % _AT_ONCE:
                    self._allowed.check()
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
        return False

    def _rules_of(self, folder: str) -> list[Rule]:
        """Return the rules that lie in a folder, that which counts most first."""
        if folder not in self._rules:
            found = self._read(os.path.join(folder, self._name))
            if folder == self._top and self._name == _RULES_FILE:
                found += self._read(os.path.join(folder, _OF_REPOSITORY))
            self._rules[folder] = found
        return self._rules[folder]

    def _read(self, file: str) -> list[Rule]:
        # Last one first; a stranger may have put anything there.
        found: list[Rule] = []
        content = beginning_of(file, _MAX_RULES_BYTES) or b""
        for rule in itertools.islice(rules_of(content, _MAX_RULE_BYTES), _MAX_RULES):
            found.append(rule)
            if not len(found) % _AT_ONCE:
                self._allowed.check()
        return found[::-1]


_SPECIAL: Final = frozenset(b"*?[\\")
_ANY_BYTE: Final = frozenset(range(256))
_ANY_FOLDERS: Final = None
_STAR, _QUESTION, _OPEN, _CLOSE, _BACKSLASH, _DASH, _SLASH = b"*?[]\\-/"
_CLASSES: Final = {
    b"alnum": frozenset((string.ascii_letters + string.digits).encode()),
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset((*range(32), 127)),
    b"digit": frozenset(string.digits.encode()),
    b"graph": frozenset(range(33, 127)),
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": frozenset(range(32, 127)),
    b"punct": frozenset(string.punctuation.encode()),
    b"space": frozenset(b" \t\n\r\v\f"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}

# What has a fixed length: bytes as they are, or which ones may stand at each place.
_Piece = bytes | tuple[frozenset[int], ...]

# What stands between two slashes, cut at its stars; None for ``**``.
_Segment = tuple[_Piece, ...] | None


class _NoRuleError(ValueError):
    """Git matches nothing with it: a bracket that is not closed, a backslash at the end."""


class Rule(NamedTuple):
    """Rule read from a line of a ``.gitignore`` file.

    It begins with ``!`` unless it ``excludes``, and has no slash if it applies ``anywhere`` below.
    The ``prefix`` is the beginning of the pattern, up to the first special character.
    """

    excludes: bool
    folders_only: bool
    anywhere: bool
    prefix: bytes
    segments: tuple[_Segment, ...]

    def matches(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Return whether the rule is about a path, relative to its file, and its last part."""
        if self.folders_only and not is_folder:
            return False
        asked = name if self.anywhere else path
        if not asked.startswith(self.prefix):
            return False
        rest = asked[len(self.prefix) :]
        if len(self.segments) == 1 and self.segments[0] is not _ANY_FOLDERS:
            return b"/" not in rest and _matches(self.segments[0], rest)
        return _match_parts(self.segments, rest.split(b"/"))


def rules_of(content: bytes, longest: int) -> Iterator[Rule]:
    """Yield the rules of a file, first ones first; a line of more than so many bytes is none."""
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if 0 < len(line) <= longest and not line.startswith(b"#"):
            try:
                rule = _rule(_trimmed(line.removesuffix(b"\r").partition(b"\0")[0]))
            except _NoRuleError:
                continue
            if rule is not None:
                yield rule


def _trimmed(line: bytes) -> bytes:
    """Return a line without spaces at its end, of which one with a backslash is none."""
    kept = line.rstrip(b" ")
    slashes = len(kept) - len(kept.rstrip(b"\\"))
    return line[: len(kept) + 1] if slashes % 2 else kept


def _rule(line: bytes) -> Rule | None:
    excludes = not line.startswith(b"!")
    line = line.removeprefix(b"!")
    folders_only = line.endswith(b"/")
    line = line.removesuffix(b"/")
    if not line:
        return None
    anywhere = b"/" not in line
    line = line.removeprefix(b"/")
    plain = next((at for at, byte in enumerate(line) if byte in _SPECIAL), len(line))
    # Git compares the plain beginning by itself: for it, `a**/b` begins with `**/`.
    segments = _segments(line[plain:], is_name=anywhere)
    return Rule(excludes, folders_only, anywhere, line[:plain], segments)


# --------------------------------------------------------------------- reading


def _segments(  # noqa: C901, PLR0912 - a branch for each special character
    rule: bytes, *, is_name: bool
) -> tuple[_Segment, ...]:
    """Return the parts of a rule between its slashes."""
    segments: list[_Segment] = []
    pieces: list[list[frozenset[int]]] = [[]]
    at = 0
    while at < len(rule):
        byte = rule[at]
        if byte == _STAR:
            end = at
            while end < len(rule) and rule[end] == _STAR:
                end += 1
            begins = at == 0 or rule[at - 1] == _SLASH
            ends = rule[end : end + 1] in (b"", b"/") or rule[end : end + 2] == b"\\/"
            if end - at > 1 and begins and ends and not is_name:
                if rule[end : end + 1] == b"\\":  # at least one folder
                    segments.append((b"", b""))
                if segments[-1:] != [_ANY_FOLDERS]:  # two are as one
                    segments.append(_ANY_FOLDERS)
                if end == len(rule):
                    segments.append((b"", b""))  # whatever is in there
                    return tuple(segments)
                at = end + (2 if rule[end : end + 1] == b"\\" else 1)
                continue
            pieces.append([])
            at = end
        elif byte == _SLASH or rule[at : at + 2] == b"\\/":
            segments.append(_segment(pieces))
            pieces = [[]]
            at += 1 if byte == _SLASH else 2
        elif byte == _OPEN:
            allowed, at = _bracket(rule, at + 1)
            pieces[-1].append(allowed)
        elif byte == _QUESTION:
            pieces[-1].append(_ANY_BYTE)
            at += 1
        else:
            if byte == _BACKSLASH:
                at += 1
                if at == len(rule):
                    raise _NoRuleError
            pieces[-1].append(frozenset((rule[at],)))
            at += 1
    segments.append(_segment(pieces))
    return tuple(segments)


def _segment(pieces: list[list[frozenset[int]]]) -> _Segment:
    found: list[_Piece] = []
    for piece in pieces:
        is_plain = all(len(allowed) == 1 for allowed in piece)
        found.append(bytes(next(iter(each)) for each in piece) if is_plain else tuple(piece))
    return tuple(found)


def _bracket(rule: bytes, at: int) -> tuple[frozenset[int], int]:  # noqa: C901 - as git reads it
    """Return the bytes that a bracket matches, and the position after it.

    ``at`` is the place behind the opening one. Raises `_NoRuleError` if it is not closed, or names
    a class that does not exist.
    """
    ended = rule + b"\0"  # no rule has one
    negated = ended[at] in b"!^"
    at += negated
    allowed: set[int] = set()
    before = 0
    first = True
    while first or ended[at] != _CLOSE:
        first = False
        byte = ended[at]
        if byte == _BACKSLASH:
            at += 1
            byte = ended[at]
            allowed.add(byte)
        elif byte == _DASH and before and ended[at + 1 : at + 2] not in (b"\0", b"]"):
            at += 1
            if ended[at] == _BACKSLASH:
                at += 1
            allowed.update(range(before, ended[at] + 1))
            byte = 0 if ended[at] else -1
        elif byte == _OPEN and ended[at + 1] == ord(":"):
            end = ended.find(b"]", at + 2)
            if end < 0:
                raise _NoRuleError
            if end > at + 2 and ended[end - 1] == ord(":"):
                if (named := _CLASSES.get(ended[at + 2 : end - 1])) is None:
                    raise _NoRuleError
                allowed |= named
                at, byte = end, 0
            else:
                allowed.add(byte)
        else:
            byte = byte or -1
            allowed.add(byte)
        if byte < 0 or at >= len(rule):
            raise _NoRuleError
        before = byte
        at += 1
        if at >= len(ended):
            raise _NoRuleError
    found = frozenset(_ANY_BYTE - allowed if negated else allowed) - {_SLASH}
    return found, at + 1


# --------------------------------------------------------------------- matching


def _match_parts(segments: tuple[_Segment, ...], parts: list[bytes]) -> bool:
    reached = {0}
    for part in parts:
        after: set[int] = set()
        for at in _past_any_folders(segments, reached):
            if at < len(segments):
                segment = segments[at]
                if segment is _ANY_FOLDERS:
                    after.add(at)
                elif _matches(segment, part):
                    after.add(at + 1)
        reached = after
        if not reached:
            return False
    return len(segments) in reached


def _past_any_folders(segments: Sequence[object], reached: Iterable[int]) -> set[int]:
    """Add the places behind each ``**``, which may stand for no folder at all."""
    found = set(reached)
    for at in reached:
        behind = at
        while behind < len(segments) and segments[behind] is _ANY_FOLDERS:
            behind += 1
            found.add(behind)
    return found


def _matches(pieces: tuple[_Piece, ...], text: bytes) -> bool:
    """Return whether pieces, with anything between two of them, make up a text."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(first) == len(text) and _matches_at(first, text, 0)
    end = len(text) - len(last)
    if end < len(first) or not _matches_at(first, text, 0) or not _matches_at(last, text, end):
        return False
    at = len(first)
    for piece in pieces[1:-1]:
        at = _find(piece, text, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _matches_at(piece: _Piece, text: bytes, at: int) -> bool:
    if isinstance(piece, bytes):
        return text.startswith(piece, at)
    return all(text[at + number] in allowed for number, allowed in enumerate(piece))


def _find(piece: _Piece, text: bytes, start: int, end: int) -> int:
    """Return where a piece stands first between two places; -1 if it does not."""
    if isinstance(piece, bytes):
        return text.find(piece, start, end)
    places = range(start, end - len(piece) + 1)
    return next((at for at in places if _matches_at(piece, text, at)), -1)
