"""Record in a run folder of where the run was forwarded to, and of what could not be held there.

It is written to small journals of its own, which do not own the run. Their headers name the run on
the server, so that one that was deleted there is not created again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from seamark.journal.format import Kind
from seamark.journal.headers import header_of, headers
from seamark.journal.reader import JournalReader, decode_json
from seamark.journal.writer import JournalWriter
from seamark.neptune.forward.held import OWN
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.journal.folder import RunFolder

__all__ = ["recorded_counts", "recorded_id", "write_record"]


def recorded_id(folder: RunFolder, place: str) -> str | None:
    """Return which run of a place this one became; None if that is not known."""
    with quietly(only=OSError):
        for header in headers(folder):
            found = header.get("forwarded_id")
            if header.get("forwarded_to") == place and isinstance(found, str):
                return found
    return None


def recorded_counts(folder: RunFolder, place: str) -> dict[str, int]:
    """Return what was written down last of what could not be held at a place."""
    found: dict[str, int] = {}
    for journal in folder.journals():
        with quietly(only=(OSError, ValueError, AttributeError, TypeError)):
            if header_of(journal.path).get("forwarded_to") != place:
                continue
            with JournalReader(journal.path) as reader:
                for frame in reader.frames():
                    if frame.kind == Kind.OP:
                        atoms = decode_json(frame.payload).get("atoms", {})
                        found |= {
                            path.rpartition("/")[2]: max(
                                value, found.get(path.rpartition("/")[2], 0)
                            )
                            for path, (kind, value) in atoms.items()
                            if kind == "int"
                        }
    return found


def write_record(folder: RunFolder, place: str, container: str, lacking: Mapping[str, int]) -> None:
    """Write down where a run goes, and how often something could not be held there, by kind.

    A folder that cannot be written keeps nobody from sending.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.partition("://")[2])
    atoms: dict[str, Any] = {f"{OWN}/{name}/to": ["string", place]}
    atoms |= {f"{OWN}/{name}/{kind}": ["int", count] for kind, count in lacking.items()}
    header = {
        **process_facts(),
        "owner": False,
        "attempt": None,
        "forwarded_to": place,
        "forwarded_id": container,
    }
    with quietly():
        if folder.is_purged:
            return
        writer = JournalWriter(folder, lambda: header)
        try:
            writer.append_op({"op": "assign", "atoms": atoms})
        finally:
            writer.close()
