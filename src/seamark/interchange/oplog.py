"""The logs in which the Neptune client keeps what it has not sent yet.

A log is JSON objects one behind the other, each with a number that rises by one: ``{"obj": ...,
"version": ..., "at": ...}``. It is read piece by piece; its last object may be cut off, where the
process was killed.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.safe import open_file

if TYPE_CHECKING:
    from seamark.interchange.found import Notes, Progress

__all__ = ["logs_in", "operations"]

_LOG: Final = re.compile(r"data-([0-9]{1,18})\.log")
_PIECE: Final = 1 << 20
_LONGEST: Final = 1 << 28
"""Characters of one operation at most; the client sends no picture above 32 MB."""
_NEXT: Final = re.compile(r"\n\s*\{")


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in a folder, in their order."""
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        match = _LOG.fullmatch(name)
        if match and not (folder / name).is_symlink():
            found.append((int(match[1]), folder / name))
    return [path for _, path in sorted(found)]


def operations(
    logs: Sequence[Path], notes: Notes, progress: Progress
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield number, time (ns since the Unix epoch; 0 for none) and operation, in their order.

    What is damaged is left out and noted.

    Raises:
        OSError: If a log cannot be read.
    """
    for log in logs:
        for found in _objects(log, notes, progress):
            try:
                version, at, operation = found["version"], found.get("at"), found["obj"]
                known = type(version) is int and isinstance(operation["type"], str)
            except (KeyError, TypeError):
                known = False
            if not known:
                notes.add("operations that are damaged", log.name)
                continue
            yield version, _ns(at), operation


def _ns(seconds: Any) -> int:
    good = isinstance(seconds, (int, float)) and 0 < seconds < 4e9  # noqa: PLR2004 - year 2096
    return round(seconds * 1e6) * 1000 if good else 0


def _objects(log: Path, notes: Notes, progress: Progress) -> Iterator[dict[str, Any]]:
    decode = json.JSONDecoder().raw_decode
    text = codecs.getincrementaldecoder("utf-8")("replace")
    waiting, wanted, is_end = "", _PIECE, False
    with os.fdopen(open_file(log, 1), "rb") as file:
        while True:
            data = file.read(wanted)
            progress(len(data))
            is_end = len(data) < wanted
            waiting += text.decode(data, is_end)
            at = 0
            while True:
                while at < len(waiting) and waiting[at].isspace():
                    at += 1
                try:
                    found, at = decode(waiting, at)
                except (ValueError, RecursionError):
                    left = len(waiting) - at
                    if not left or (not is_end and left < _LONGEST):
                        break
                    # Cut off at the end, or damaged: look for the next object.
                    notes.add("operations that are cut off or damaged", log.name)
                    match = _NEXT.search(waiting, at + 1)
                    at = len(waiting) if match is None else match.start()
                    continue
                yield found if isinstance(found, dict) else {}
            waiting = waiting[at:]
            if is_end:
                return
            # What is longer than a piece is tried again with twice as much.
            wanted = max(_PIECE, len(waiting))
