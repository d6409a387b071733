"""Journals about processes of this host that ended without recording their end.

A server cannot inspect processes, so it waits until a run has been silent for a while. The host of
a process can tell at once. It sends this observation as a small separate journal, which is closed
after its header and has the same content each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from seamark.journal.folder import JournalFile, journal_name, split_journal_name
from seamark.journal.format import Kind, close_frame, dump_json, file_header, frame_bytes, salt_of
from seamark.journal.reader import JournalReader
from seamark.process.interrupts import quietly
from seamark.process.liveness import LOST, Evidence


def observations_of(
    run: str, journals: Iterable[JournalFile], known: Mapping[str, int]
) -> dict[str, bytes]:
    """Return journals about ended processes of a run, except the ``known`` ones.

    Only processes of this host and boot are considered, and only if their journals were not closed.
    The keys are file names.
    """
    evidence, found = Evidence(), dict[str, bytes]()
    for file in journals:
        uid = split_journal_name(file.path.name)[1]
        if uid is None:
            continue
        ended_uid = hashlib.sha256(b"ended" + uid).digest()[:16]
        name = journal_name(f"{file.writer.rpartition('-')[0]}-{ended_uid.hex()[:8]}", ended_uid)
        if name in known:
            continue
        with quietly(), JournalReader(file.path) as reader:
            header = reader.header()
            if header.get("owner", True) is not True or header.get("pid_namespace") is None:
                continue
            if evidence.alive(header) is not False:
                continue
            last = reader.last_frame()  # the last record before it ended
            if last is None or last.kind == Kind.CLOSE:
                continue
            end_reason = evidence.crash(header, last.t).reason
            if end_reason != LOST:
                origin = {"run": run, "writer": name.rpartition(".")[0], "ended": file.path.name}
                observation = {
                    **_host_and_boot(header),
                    "ended_at": last.offset,
                    "ended_how": end_reason,
                }
                found[name] = _make_journal(ended_uid, last.t, {**origin, **observation})
    return found


def _host_and_boot(header: Mapping[str, Any]) -> dict[str, Any]:
    return {name: header.get(name) for name in ("host", "boot")}


def _make_journal(uid: bytes, t: int, header: Mapping[str, Any]) -> bytes:
    record = dump_json({"attempt": None, "owner": False, **header})
    salt = salt_of(uid)
    return file_header(uid) + frame_bytes(salt, Kind.HEADER, t, record) + close_frame(salt, t)
