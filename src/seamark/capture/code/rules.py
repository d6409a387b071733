"""The rules of a ``.gitignore`` file, read and matched as git does; no rule backtracks.

Whoever wrote a rule may be a stranger, so there is no regular expression. A rule is cut at slashes,
and what stands between two slashes at stars: such pieces have a fixed length, and each is taken
where it is found first. For ``**``, the places in the rule that a path may have reached are a set.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Rule", "rules_of"]

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

_Piece = bytes | tuple[frozenset[int], ...]
"""What has a fixed length: bytes as they are, or which ones may stand at each place."""

_Segment = tuple[_Piece, ...] | None
"""What stands between two slashes, cut at its stars; None for ``**``."""


class _NoRuleError(ValueError):
    """Git matches nothing with it: a bracket that is not closed, a backslash at the end."""


class Rule(NamedTuple):
    """Rule read from a line of a ``.gitignore`` file.

    Attributes:
        excludes: False for a rule that begins with ``!`` and cancels an earlier one.
        folders_only: Whether the rule ends with a slash.
        anywhere: Whether the rule has no slash and applies to names in any folder below.
        prefix: Beginning of the pattern, up to the first special character.
        segments: Rest of the pattern.
    """

    excludes: bool
    folders_only: bool
    anywhere: bool
    prefix: bytes
    segments: tuple[_Segment, ...]

    def matches(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Return whether the rule is about a path.

        Args:
            path: Relative to the folder of the file with the rule, with ``/``.
            name: Its last part.
            is_folder: Whether a folder is there.
        """
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
    """Yield the rules of a file, first ones first.

    Args:
        content: Of the file.
        longest: In bytes; a longer line is none.
    """
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
    """Return what stands between the slashes of a rule.

    Raises:
        _NoRuleError: If the rule matches nothing.
    """
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
    """Return which bytes a bracket allows, and where the rule goes on behind it.

    Args:
        rule: The rule.
        at: Behind the opening one.

    Raises:
        _NoRuleError: If it is not closed, or names a class that does not exist.
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
    """Return whether segments match the parts of a path."""
    reached = {0}
    for part in parts:
        after: set[int] = set()
        for at in _with_folders_passed(segments, reached):
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


def _with_folders_passed(segments: tuple[_Segment, ...], reached: set[int]) -> set[int]:
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
