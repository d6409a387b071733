"""Source code and patches without secrets: line by line as many lines as there were.

They are kept without being asked, so what is hard-coded in them is hidden: in code literals and
comments, and nothing else; in other files (configurations, ``.env``) what stands after a name, or
below one. Known values are hidden wherever they stand.

All of it runs on a thread, in pieces: a regular expression holds the interpreter while it searches.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from seamark.capture.code.changes import name_of, parts_of
from seamark.capture.secrets.configuration import Configuration
from seamark.capture.secrets.masking import (
    KEY_BEGINS,
    KEY_END_SIGNS,
    KEY_ENDS,
    KEY_SIGNS,
    MASK,
    mask_known,
    mask_shapes,
    secret_values,
)
from seamark.capture.secrets.source import Notebook, Source

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets

__all__ = ["hide_in_code", "hide_in_patch"]

_PIECE: Final = 1 << 14
_PAUSE_S: Final = 0.001
_LONGEST_LINE: Final = 1 << 17
_OVERLAP: Final = 512
_MIN_LINE: Final = 16
_MOST_UNPACKED: Final = 16 << 20
_PACKED: Final = re.compile(rb"^(?:literal|delta) [0-9]+\n((?:[A-Za-z][^\n ]+\n)+)", re.MULTILINE)
_CODE: Final = re.compile(r"\.(?:c|cc|cpp|cuh?|go|h|hpp|ipynb|java|jl|js|pyi?|pyx|rs|ts)\Z")
_KEY_BEGINS: Final = re.compile(KEY_BEGINS)
_KEY_ENDS: Final = re.compile(KEY_ENDS)
_HUNK: Final = re.compile(r"(@@ -[0-9,]+ \+([0-9]+)[0-9,]* @@ ?)(.*)", re.DOTALL)


def hide_in_code(text: str, secrets: Secrets, name: str = "") -> str:
    """Return the text of a source file without secrets, with as many lines.

    Args:
        text: Any text.
        secrets: What is hidden.
        name: Of the file; it says whether it is code.
    """
    hidden = _Hidden(secrets, name)
    return "\n".join(hidden.lines(text.split("\n")))


def hide_in_patch(patch: bytes, secrets: Secrets, left_out: list[str] | None = None) -> bytes:
    """Return a patch without secrets.

    A hunk that adds one still applies; one that has one in a line that it removes, or in the lines
    around, does not. A binary file in which one is found is left out.

    Args:
        patch: As git prints it.
        secrets: What is hidden.
        left_out: Takes the names of files that are left out.
    """
    kept = []
    for part in parts_of(patch):
        if b"\nGIT binary patch\n" not in part:
            kept.append(_hide_in_part(part, secrets))
        elif not _binary_holds_secret(part, secrets):
            kept.append(part)
        elif left_out is not None:
            left_out.append(name_of(part).decode("utf-8", "replace"))
    return b"".join(kept)


def _binary_holds_secret(part: bytes, secrets: Secrets) -> bool:
    """Return whether a known value or a known shape stands in what a binary part packs."""
    values = [value.encode("utf-8", "surrogateescape") for value in _known_of(secrets)]
    for packed in _PACKED.findall(part):
        try:
            lines = (base64.b85decode(line[1:]) for line in packed.split(b"\n") if line)
            data = zlib.decompressobj().decompress(b"".join(lines), _MOST_UNPACKED)
        except (ValueError, zlib.error):
            return True  # it cannot be told
        if any(value in data for value in values):
            return True
        for start in range(0, len(data) if secrets.masked else 0, _PIECE):
            text = data[start : start + _PIECE + _OVERLAP].decode("latin-1")
            if mask_shapes(text, secrets.more) != text:
                return True
    return False


def _hide_in_part(part: bytes, secrets: Secrets) -> bytes:
    """Return what a patch says of one file, without secrets."""
    lines = part.decode("utf-8", "surrogateescape").split("\n")
    hidden = _Hidden(secrets, os.fsdecode(name_of(part)))
    begins = [at for at, line in enumerate(lines) if line.startswith("@@ ")]
    kept = lines[: begins[0]] if begins else lines
    for begin, end in itertools.pairwise([*begins, len(lines)]):
        kept += _hide_in_hunk(lines[begin:end], hidden)
    return "\n".join(kept).encode("utf-8", "surrogateescape")


def _hide_in_hunk(lines: list[str], hidden: _Hidden) -> list[str]:
    """Return a hunk without secrets, which is two texts: the file as it was and as it is.

    Behind its numbers stands a line from above, which belongs to both.
    """
    head = _HUNK.fullmatch(lines[0])
    start, above = (head[1], head[3]) if head else (lines[0], "")
    is_middle = head is not None and head[2] not in ("0", "1")
    texts = [above, *(line[1:] for line in lines[1:])]
    kept = texts.copy()
    for mark in "+-" if any(line.startswith("-") for line in lines) else "+":
        chosen = [at for at, line in enumerate(lines) if not at or line[:1] in (mark, " ")]
        of_mark = [texts[at] for at in chosen]
        for at, line in zip(chosen, hidden.lines(of_mark, is_middle=is_middle), strict=True):
            if line != texts[at]:  # what either text hides is hidden
                kept[at] = line
    marked = [line[:1] + text for line, text in zip(lines, kept, strict=True)]
    marked[0] = start + kept[0]
    return marked


def _known_of(secrets: Secrets) -> set[str]:
    """Return the values that are hidden wherever they stand."""
    of_environment = secret_values(os.environ, secrets.more) if secrets.masked else set[str]()
    return of_environment.union(secrets.known)


def _is_code(name: str) -> bool:
    return _CODE.search(name.lower()) is not None


class _Hidden:
    """Hides what is in lines.

    Args:
        secrets: What is hidden.
        name: Of the file; empty for Python.
    """

    def __init__(self, secrets: Secrets, name: str) -> None:
        self._is_masked, self._more = secrets.masked, secrets.more
        self._name = name
        # Of a value of several lines each is looked for by itself.
        self._known = {
            line
            for value in _known_of(secrets)
            for line in value.split("\n")
            if line == value or len(line) >= _MIN_LINE
        }

    def lines(self, lines: Sequence[str], *, is_middle: bool = False) -> list[str]:
        """Return as many lines.

        Args:
            lines: Of the file.
            is_middle: Whether others may stand before them.
        """
        rules = self._rules()
        is_code = not isinstance(rules, Configuration)
        if is_middle and isinstance(rules, Source):
            rules.begin_within(lines)
        of_keys = [False] * len(lines)
        for key in _keys_in(lines, ended=is_code) if self._is_masked else ():
            # Of a line that is no code, what stands before a key stays.
            begin = key.start if is_code else key.start + 1
            of_keys[begin : key.stop] = [True] * (key.stop - begin)
        found: list[str] = []
        for start, stop in _pieces(lines):
            begun = time.thread_time()
            piece = self._without_known(lines[start:stop])
            found += rules.mask(piece, of_keys[start:stop]) if self._is_masked else piece
            # Others come first: this takes half of one core at most, and lets go of the interpreter
            # though nobody has waited for it yet.
            time.sleep(max(_PAUSE_S, time.thread_time() - begun))
        return found

    def _rules(self) -> Source | Configuration | Notebook:
        if self._name.lower().endswith(".ipynb"):
            return Notebook(more=self._more)
        if not self._name or _is_code(self._name):
            return Source(more=self._more, name=self._name)
        return Configuration(more=self._more, name=self._name)

    def _without_known(self, lines: Sequence[str]) -> Sequence[str]:
        text = "\n".join(lines)
        if not self._is_masked:
            for value in self._known:
                text = text.replace(value, MASK)
            return text.split("\n")
        if len(text) > _LONGEST_LINE:
            return [MASK]  # one line, of a file that nobody wrote
        hidden = mask_known(text, self._known, self._more).split("\n")
        if len(hidden) == len(lines):
            return hidden
        return [mask_known(line, self._known, self._more) for line in lines]


def _keys_in(lines: Sequence[str], *, ended: bool) -> Iterator[range]:
    """Yield which lines private keys of several lines are made of.

    Args:
        lines: Of a file.
        ended: Whether one that does not end is none.
    """
    begin: int | None = None
    for at, line in enumerate(lines):
        if begin is None and (found := _key_mark(line, KEY_SIGNS, _KEY_BEGINS)):
            begin = at
            line = line[found.end() :]  # noqa: PLW2901 - where it may end
        if begin is not None and _key_mark(line, KEY_END_SIGNS, _KEY_ENDS):
            yield range(begin, at + 1)
            begin = None
    if begin is not None and not ended:
        yield range(begin, len(lines))


def _key_mark(line: str, signs: Sequence[str], marks: re.Pattern[str]) -> re.Match[str] | None:
    """Return where a key begins or ends in a line; signs say fast that it does not."""
    return marks.search(line) if any(map(line.__contains__, signs)) else None


def _pieces(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where lines begin and end that are looked at together; a long one is alone."""
    start = size = 0
    for at, line in enumerate(lines):
        if size and size + len(line) > _PIECE:
            yield start, at
            start, size = at, 0
        size += len(line) + 1
    yield start, len(lines)
