"""Source code, notebooks and patches without secrets, with as many lines as there were.

They are kept without being asked, so what is hard-coded in them is hidden: in code literals and
comments, and nothing else; in other files (configurations, ``.env``) what stands after a name, or
below one. Known values are hidden wherever they stand.

All of it runs on a thread, which rests as long as it works.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from seamark.capture.code.changes import name_of, parts_of
from seamark.capture.secrets.code import Change, replaced
from seamark.capture.secrets.masking import mask_code, mask_file
from seamark.capture.secrets.shapes import MASK, mask_known

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets
    from seamark.capture.secrets.names import More

__all__ = ["hide_in_code", "hide_in_patch"]

_PACE_S: Final = 0.005
_CODE: Final = re.compile(r"\.(?:c|cc|cpp|cuh?|go|h|hpp|java|jl|js|pyi?|pyx|rs|ts)\Z")
_LONG_LINE: Final = re.compile(r"^[^\n]{131073,}", re.MULTILINE)
_HUNKS: Final = re.compile(r"(?<=\n)(?=@@ )")
_HUNK: Final = re.compile(r"(@@ -[0-9,]+ \+([0-9]+)[0-9,]* @@)(.*)", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?P<end>"(?P<key>\s{0,8}:)?)?')
"""A JSON string, possibly unterminated, so that each character is read once."""
_BETWEEN: Final = re.compile(r"\s*,\s*")
_KEYED: Final = re.compile(r'^[ \t]*"[\w.-]{1,120}"[ \t]*:[^\n]*', re.MULTILINE)


def hide_in_code(text: str, secrets: Secrets, name: str = "") -> str:
    """Return the text of a source file without secrets, with as many lines.

    Args:
        text: Any text.
        secrets: What is hidden.
        name: Of the file; it says whether it is code.
    """
    return _hidden(text, secrets, name)


def hide_in_patch(patch: bytes, secrets: Secrets) -> bytes:
    """Return a patch, as git prints it, without secrets.

    A hunk that adds one still applies; one that has one in a line that it removes, or in the lines
    around, does not.
    """
    return b"".join(_hide_in_part(part, secrets) for part in parts_of(patch))


def _hide_in_part(part: bytes, secrets: Secrets) -> bytes:
    """Return the patch of one file without secrets."""
    head, *hunks = _HUNKS.split(part.decode("utf-8", "surrogateescape"))
    name = os.fsdecode(name_of(part))
    kept = [_hide_in_hunk(hunk, secrets, name) for hunk in hunks]
    return "".join([head, *kept]).encode("utf-8", "surrogateescape")


def _hide_in_hunk(hunk: str, secrets: Secrets, name: str) -> str:
    """Return a hunk without secrets, which is two texts: the file as it was and as it is."""
    first, *lines = hunk.split("\n")
    head = _HUNK.fullmatch(first)
    above = head[3].removeprefix(" ") if head else ""
    kept = [above, *(line[1:] for line in lines)]
    is_middle = head is not None and head[2] not in ("0", "1")
    for marks in ("+ ", "- ") if any(line.startswith("-") for line in lines) else ("+ ",):
        chosen = [0, *(at for at, line in enumerate(lines, 1) if line[:1] and line[0] in marks)]
        text = "\n".join([above, *(lines[at - 1][1:] for at in chosen[1:])])
        hidden = _hidden(text, secrets, name, is_middle=is_middle).split("\n")
        for at, line in zip(chosen, hidden, strict=True):
            if not at or line != lines[at - 1][1:]:  # what either text hides is hidden
                kept[at] = line
    if head and head[3]:
        first = f"{head[1]} {kept[0]}"
    return "\n".join([first, *(line[:1] + new for line, new in zip(lines, kept[1:], strict=True))])


def _hidden(text: str, secrets: Secrets, name: str, *, is_middle: bool = False) -> str:
    """Return a text without secrets, with as many lines.

    Args:
        text: Of the file.
        secrets: What is hidden.
        name: Of the file; empty for Python.
        is_middle: Whether others may stand before it.
    """
    known, more = secrets.values(), secrets.more
    if not secrets.masked:
        return mask_known(text, known, by_line=True)
    text = _LONG_LINE.sub(MASK, text)  # of a file that nobody wrote
    if name.lower().endswith(".ipynb"):
        return _hidden_notebook(text, partial(mask_code, known=known, more=more, pace=_paced), more)
    if not name or _CODE.search(name.lower()):
        return mask_code(text, known=known, more=more, name=name, is_middle=is_middle, pace=_paced)
    return mask_file(text, known=known, more=more, name=name, pace=_paced)


def _hidden_notebook(text: str, mask: Callable[[str], str], more: More) -> str:
    """Return the JSON of a notebook, or some lines of it, without secrets."""
    runs: list[list[re.Match[str]]] = [[]]
    end = 0
    for found in _STRING.finditer(text):
        if found["end"] and not found["key"]:
            if not _BETWEEN.fullmatch(text, end, found.start()):
                runs.append([])
            runs[-1].append(found)
            end = found.end()
    changes = [change for run in runs if run for change in _hidden_run(run, mask)]
    text = replaced(text, changes)
    return _KEYED.sub(lambda found: mask_file(found[0], more=more, name="notebook.json"), text)


def _hidden_run(run: list[re.Match[str]], mask: Callable[[str], str]) -> Iterator[Change]:
    """Yield literals in which something is hidden; those that follow each other are one code."""
    lines = [_decoded(found[0]) for found in run]
    hidden = mask("\n".join(line.removesuffix("\n") for line in lines)).split("\n")
    for found, line in zip(run, lines, strict=True):
        ending = "\n" if line.endswith("\n") else ""
        count = line.removesuffix("\n").count("\n") + 1
        kept, hidden = "\n".join(hidden[:count]) + ending, hidden[count:]
        if kept != line:
            yield *found.span(), json.dumps(kept, ensure_ascii=False)


def _decoded(literal: str) -> str:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _paced(changes: Iterator[Change]) -> Iterator[Change]:
    """Yield changes, and rest in between.

    Others come first: this takes half of one core at most, and lets go of the interpreter though
    nobody has waited for it yet.
    """
    begun = time.thread_time()
    for change in changes:
        yield change
        if (spent := time.thread_time() - begun) > _PACE_S:
            time.sleep(spent)
            begun = time.thread_time()
