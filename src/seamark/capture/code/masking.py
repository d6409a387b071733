"""Masking of secrets in source code, notebooks and patches; the number of lines stays the same.

These files are stored automatically, so hard-coded secrets are masked. In code, only literals and
comments are masked; in other files (configurations, ``.env``), text after or below a name. Known
values are masked everywhere.

This runs on a thread that pauses as long as it works.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from seamark.capture.code.changes import name_of, parts_of
from seamark.capture.secrets import Secrets
from seamark.capture.secrets.code import Change, apply_changes
from seamark.capture.secrets.masking import mask_code, mask_file
from seamark.capture.secrets.names import UserRules
from seamark.capture.secrets.shapes import MASK, mask_known

_MAX_WORK_S: Final = 0.005
_CODE_SUFFIX: Final = re.compile(r"\.(?:c|cc|cpp|cuh?|go|h|hpp|java|jl|js|pyi?|pyx|rs|ts)\Z")
_LONG_LINE: Final = re.compile(r"^[^\n]{131073,}", re.MULTILINE)
_HUNKS: Final = re.compile(r"(?<=\n)(?=@@ )")
_HUNK: Final = re.compile(r"(@@ -[0-9,]+ \+([0-9]+)[0-9,]* @@)(.*)", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?P<end>"(?P<key>\s{0,8}:)?)?')
"""A JSON string, possibly unterminated, so that each character is read once."""
_COMMA: Final = re.compile(r"\s*,\s*")
_KEY_LINE: Final = re.compile(r'^[ \t]*"[\w.-]{1,120}"[ \t]*:[^\n]*', re.MULTILINE)


def hide_in_code(text: str, secrets: Secrets, name: str = "", *, is_middle: bool = False) -> str:
    """Return the text of a source file with secrets masked; the number of lines is unchanged.

    Args:
        text: Any text.
        secrets: Secrets to mask.
        name: Name of the file, which decides whether it is code; empty for Python.
        is_middle: Whether lines before the text may be missing.
    """
    known, rules = secrets.values(), secrets.rules
    if not secrets.masked:
        return mask_known(text, known, by_line=True)
    text = _LONG_LINE.sub(MASK, text)  # generated text
    if name.lower().endswith(".ipynb"):
        return _mask_notebook(text, partial(mask_code, known=known, rules=rules, pace=_pace), rules)
    if not name or _CODE_SUFFIX.search(name.lower()):
        return mask_code(text, known=known, rules=rules, name=name, is_middle=is_middle, pace=_pace)
    return mask_file(text, known=known, rules=rules, name=name, pace=_pace)


def hide_in_patch(patch: bytes, secrets: Secrets) -> bytes:
    """Return a patch in git's format with secrets masked.

    A hunk that adds a secret still applies. A hunk with a secret in a removed line or a context
    line does not.
    """
    return b"".join(_mask_part(part, secrets) for part in parts_of(patch))


def _mask_part(part: bytes, secrets: Secrets) -> bytes:
    """Return the patch of one file with secrets masked."""
    head, *hunks = _HUNKS.split(part.decode("utf-8", "surrogateescape"))
    name = os.fsdecode(name_of(part))
    masked = [_mask_hunk(hunk, secrets, name) for hunk in hunks]
    return "".join([head, *masked]).encode("utf-8", "surrogateescape")


def _mask_hunk(hunk: str, secrets: Secrets, name: str) -> str:
    """Return a hunk with the secrets of both the old and the new text masked."""
    first, *lines = hunk.split("\n")
    head = _HUNK.fullmatch(first)
    above = head[3].removeprefix(" ") if head else ""
    masked = [above, *(line[1:] for line in lines)]
    is_middle = head is not None and head[2] not in ("0", "1")
    for marks in ("+ ", "- ") if any(line.startswith("-") for line in lines) else ("+ ",):
        chosen = [0, *(at for at, line in enumerate(lines, 1) if line[:1] and line[0] in marks)]
        text = "\n".join([above, *(lines[at - 1][1:] for at in chosen[1:])])
        new_lines = hide_in_code(text, secrets, name, is_middle=is_middle).split("\n")
        for at, line in zip(chosen, new_lines, strict=True):
            if not at or line != lines[at - 1][1:]:  # masked in one text or the other
                masked[at] = line
    if head and head[3]:
        first = f"{head[1]} {masked[0]}"
    return "\n".join(
        [first, *(line[:1] + new for line, new in zip(lines, masked[1:], strict=True))]
    )


def _mask_notebook(text: str, mask: Callable[[str], str], rules: UserRules) -> str:
    """Return the JSON of a notebook, or some lines of it, with secrets masked."""
    runs: list[list[re.Match[str]]] = [[]]
    end = 0
    for found in _STRING.finditer(text):
        if found["end"] and not found["key"]:
            if not _COMMA.fullmatch(text, end, found.start()):
                runs.append([])
            runs[-1].append(found)
            end = found.end()
    changes = [change for run in runs if run for change in _mask_run(run, mask)]
    text = apply_changes(text, changes)
    return _KEY_LINE.sub(lambda found: mask_file(found[0], rules=rules, name="notebook.json"), text)


def _mask_run(run: list[re.Match[str]], mask: Callable[[str], str]) -> Iterator[Change]:
    """Yield the changed literals of a run; adjacent literals are masked as one text."""
    lines = [_decode_literal(found[0]) for found in run]
    new_lines = mask("\n".join(line.removesuffix("\n") for line in lines)).split("\n")
    for found, line in zip(run, lines, strict=True):
        ending = "\n" if line.endswith("\n") else ""
        count = line.removesuffix("\n").count("\n") + 1
        masked, new_lines = "\n".join(new_lines[:count]) + ending, new_lines[count:]
        if masked != line:
            yield *found.span(), json.dumps(masked, ensure_ascii=False)


def _decode_literal(literal: str) -> str:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _pace(changes: Iterator[Change]) -> Iterator[Change]:
    """Yield changes with pauses between them.

    The training has priority: this uses at most half of one core, and releases the GIL without
    waiting for a request.
    """
    started = time.thread_time()
    for change in changes:
        yield change
        if (spent := time.thread_time() - started) > _MAX_WORK_S:
            time.sleep(spent)
            started = time.thread_time()
