"""Source code and patches without secrets: line by line as many lines as there were.

They are kept without being asked, so what is hard-coded in them is hidden: in code literals and
comments, and nothing else; in other files (configurations, ``.env``) what stands after a name, or
below one. Known values are hidden wherever they stand.

All of it runs on a thread, in pieces: a regular expression holds the interpreter while it searches.
"""

from __future__ import annotations

import base64
import difflib
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from seamark.capture.code.changes import name_of, parts_of
from seamark.capture.secrets.configuration import Configuration
from seamark.capture.secrets.masking import (
    KEY_END_SIGNS,
    KEY_SIGNS,
    MASK,
    mask_shapes,
    secret_values,
)
from seamark.capture.secrets.notebook import Notebook
from seamark.capture.secrets.source import Source

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets

__all__ = ["hide_in_code", "hide_in_patch"]

_PIECE: Final = 1 << 14
_PAUSE_S: Final = 0.001
_LONGEST_LINE: Final = 1 << 17
_LONGEST_KEY: Final = 1 << 15
_ALIGNED: Final = 500
_OVERLAP: Final = 512
_MOST_UNPACKED: Final = 16 << 20
_PACKED: Final = re.compile(rb"^(?:literal|delta) [0-9]+\n((?:[A-Za-z][^\n ]+\n)+)", re.MULTILINE)
_CODE: Final = re.compile(r"\.(?:c|cc|cpp|cuh?|go|h|hpp|ipynb|java|jl|js|pyi?|pyx|rs|ts)\Z")
_HUNK: Final = re.compile(r"(@@ -[0-9,]+ \+([0-9]+)[0-9,]* @@)(.*)", re.DOTALL)


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
    """Return whether the contents of a binary part have a known value or a known shape."""
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
    """Return the patch of one file without secrets."""
    lines = part.decode("utf-8", "surrogateescape").split("\n")
    hidden = _Hidden(secrets, os.fsdecode(name_of(part)))
    begins = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    kept = lines[:begins]
    while begins < len(lines):
        ends = begins + 1
        while ends < len(lines) and not lines[ends].startswith("@@ "):
            ends += 1
        kept += _hide_in_hunk(lines[begins:ends], hidden)
        begins = ends
    return "\n".join(kept).encode("utf-8", "surrogateescape")


def _hide_in_hunk(lines: list[str], hidden: _Hidden) -> list[str]:
    """Return a hunk without secrets, which is two texts: the file as it was and as it is."""
    head = _HUNK.fullmatch(lines[0])
    start, above = (head[1], head[3].removeprefix(" ")) if head else (lines[0], "")
    kept = [line[1:] for line in lines]
    kept[0] = above
    both = [{"+", " "}, {"-", " "}]
    if not any(line.startswith("-") for line in lines):
        del both[1]
    is_middle = head is not None and head[2] not in ("0", "1")
    for marks in both:
        chosen = [at for at, line in enumerate(lines) if at and line[:1] in marks]
        texts = [above, *(lines[at][1:] for at in chosen)]
        for at, line in zip([0, *chosen], hidden.lines(texts, is_middle=is_middle), strict=True):
            if line != lines[at][1:] or not at:  # what either text hides is hidden
                kept[at] = line
    marked = [line[:1] + text for line, text in zip(lines, kept, strict=True)]
    marked[0] = f"{start} {kept[0]}" if head and head[3] else lines[0]
    return marked


def _known_of(secrets: Secrets) -> set[str]:
    """Return the values that are hidden wherever they stand."""
    of_environment = secret_values(os.environ, secrets.more) if secrets.masked else set[str]()
    return of_environment.union(secrets.known)


def _is_code(name: str) -> bool:
    return _CODE.search(name.lower()) is not None


class _Hidden:
    """Hides secrets in lines.

    Args:
        secrets: What is hidden.
        name: Of the file; empty for Python.
    """

    def __init__(self, secrets: Secrets, name: str) -> None:
        self._secrets = secrets
        self._name = name
        self._known = _known_of(secrets)

    def lines(self, lines: list[str], *, is_middle: bool = False) -> list[str]:
        """Return as many lines.

        Args:
            lines: Of the file.
            is_middle: Whether others may stand before them.
        """
        masked = self._masked()
        found: list[str] = []
        for piece in _pieces(lines):
            if is_middle and isinstance(masked, Source):
                masked.begin_within("\n".join(piece))
                is_middle = False
            begun = time.thread_time()
            found += self._piece(piece, masked)
            # Others come first: this takes half of one core at most, and lets go of the interpreter
            # though nobody has waited for it yet.
            time.sleep(max(_PAUSE_S, time.thread_time() - begun))
        return found

    def _masked(self) -> Source | Configuration | Notebook:
        known, more = self._known, self._secrets.more
        if self._name.lower().endswith(".ipynb"):
            return Notebook(known=known, more=more)
        if not self._name or _is_code(self._name):
            return Source(known=known, more=more, name=self._name)
        return Configuration(known=known, more=more, name=self._name)

    def _piece(self, lines: list[str], masked: Source | Configuration | Notebook) -> list[str]:
        text = "\n".join(lines)
        if not self._secrets.masked:
            for value in self._known:
                text = text.replace(value, MASK)
            hidden = text
        elif len(text) > _LONGEST_LINE:
            return [MASK] * len(lines)  # one line, of a file that nobody wrote
        else:
            hidden = masked.mask(text)
        return _as_many(lines, hidden.split("\n"))


def _pieces(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lines a few at a time; a private key is not cut in two."""
    piece: list[str] = []
    size = 0
    in_key = False
    for line in lines:
        begins, ends = (max(map(line.rfind, signs)) for signs in (KEY_SIGNS, KEY_END_SIGNS))
        wanted = size + len(line) > _PIECE
        if piece and (
            len(line) > _PIECE
            or (wanted and (not in_key or size > _LONGEST_KEY))
            or (size > _PIECE * 3 // 4 and not line.strip() and not in_key)
        ):
            yield piece
            piece, size = [], 0
        if begins != ends:
            in_key = begins > ends
        piece.append(line)
        size += len(line) + 1
    if piece:
        yield piece


def _as_many(lines: list[str], hidden: list[str]) -> list[str]:
    """Return hidden lines at the places of the lines that they stand for.

    One that stands for several is followed by others, so that numbers of lines stay what they were.
    """
    if len(lines) == len(hidden):
        return hidden
    start = 0
    while start < len(hidden) and lines[start] == hidden[start]:
        start += 1
    lines, kept, hidden = lines[start:], hidden[:start], hidden[start:]
    if len(lines) > _ALIGNED:
        return kept + hidden + [MASK] * (len(lines) - len(hidden))
    found: list[str] = []
    matcher = difflib.SequenceMatcher(None, lines, hidden, autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        found += hidden[j1:j2]
        found += [MASK] * ((i2 - i1) - (j2 - j1))
    if len(found) != len(lines):  # a line of a hidden text taken for one of its own
        found = hidden + [MASK] * (len(lines) - len(hidden))
    return kept + found
