"""Notebooks without secrets: JSON in which each line of code is a literal of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from seamark.capture.secrets.configuration import Configuration
from seamark.capture.secrets.masking import MASK, MORE_NONE, More
from seamark.capture.secrets.source import Source

__all__ = ["Notebook"]

_STRING: Final = re.compile(r'"(?:[^"\\\n]+|\\.)*"')
_BETWEEN: Final = re.compile(r"\s*,\s*")
_KEYED: Final = re.compile(r'[ \t]*"[\w.-]{1,120}"[ \t]*:')
_NAMED: Final = re.compile(r"\s{0,8}:")


class Notebook:
    """Hides secrets in the file of a notebook, some lines at a time.

    Args:
        known: Values that are hidden wherever they stand; the environment is not looked at.
        more: What a person says is a secret.
    """

    def __init__(self, *, known: Iterable[str] = (), more: More = MORE_NONE) -> None:
        self._known, self._more = tuple(known), more
        self._metadata = Configuration(known=known, more=more, name="notebook.json")

    def mask(self, text: str) -> str:
        """Return the next lines without secrets."""
        parts: list[str] = []
        done = 0
        for strings in _runs(text):
            decoded = [_decoded(found[0]) for found in strings]
            hidden = self._code(decoded)
            for found, old, new in zip(strings, decoded, hidden, strict=True):
                if old != new:
                    parts += [text[done : found.start()], json.dumps(new, ensure_ascii=False)]
                    done = found.end()
        lines = ("".join(parts) + text[done:]).split("\n")
        return "\n".join(self._metadata.mask(x) if _KEYED.match(x) else x for x in lines)

    def _code(self, lines: list[str]) -> list[str]:
        """Return as many lines of code, each with the ends of lines that it has."""
        text = "\n".join(line.removesuffix("\n") for line in lines)
        source = Source(known=self._known, more=self._more)
        hidden = source.mask(text)
        if hidden == text:
            return lines
        rest = hidden.split("\n")
        if len(rest) != text.count("\n") + 1:  # a private key was cut out of it
            return [MASK + line[len(line.rstrip("\n")) :] for line in lines]
        found = []
        for line in lines:
            count = line.removesuffix("\n").count("\n") + 1
            found.append("\n".join(rest[:count]) + ("\n" if line.endswith("\n") else ""))
            del rest[:count]
        return found


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the literals that follow each other in a list, and each other one alone."""
    run: list[re.Match[str]] = []
    for found in _STRING.finditer(text):
        if run and not _BETWEEN.fullmatch(text, run[-1].end(), found.start()):
            yield run
            run = []
        if not _NAMED.match(text, found.end()):  # no key
            run.append(found)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _decoded(literal: str) -> str:
    try:
        value = json.loads(literal, strict=False)
    except ValueError:
        return literal[1:-1]
    return value if isinstance(value, str) else literal[1:-1]
