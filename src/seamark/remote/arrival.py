"""The journal that a run gets where it arrives, and that hides it until it is whole.

It is the first thing that is sent. Its beginning puts the run into the trash, where no list and no
name finds it; its end takes the run out again, and says what it is called there and where it came
from. It lies only there, as it says nothing about the run elsewhere. Its beginning is the same each
time, so that a transfer that was cut short goes on.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.folder import journal_name
from seamark.journal.format import Kind, dump_json, file_header, frame_bytes, salt_of
from seamark.paths import kind_of

if TYPE_CHECKING:
    from seamark.remote.protocol import RunKey

__all__ = ["ArrivalJournal", "trashing"]

_TRASHED: Final[dict[str, Any]] = {"op": "assign", "atoms": {"sys/trashed": ["bool", True]}}


class ArrivalJournal:
    """The bytes of the journal.

    Args:
        key: The run.
        begun_ns: Time of the first record of the run, nanoseconds since the Unix epoch.

    Attributes:
        name: Its file name.
        begin: Its beginning.
    """

    def __init__(self, key: RunKey, begun_ns: int) -> None:
        text = json.dumps(["arrival", key.project, key.run])
        uid = hashlib.sha256(text.encode()).digest()[:16]
        self._salt = salt_of(uid)
        self.name, self.begin = _new_journal(key, "arrival", uid, begun_ns + 1)
        self.begin += frame_bytes(self._salt, Kind.OP, begun_ns + 2, dump_json(_TRASHED))

    def end(self, ops: Iterable[Mapping[str, Any]], t_ns: int) -> bytes:
        """Return its end.

        Args:
            ops: What is recorded there alone.
            t_ns: After all that the run holds, nanoseconds since the Unix epoch.
        """
        data = b""
        for op in ops:
            data += frame_bytes(self._salt, Kind.OP, t_ns, dump_json(op))
            t_ns += 1
        return data + _closed(self._salt, t_ns)


def trashing(key: RunKey, t_ns: int) -> tuple[str, bytes]:
    """Return name and bytes of a journal that puts a run into the trash.

    Args:
        key: The run.
        t_ns: After all that the run holds, nanoseconds since the Unix epoch.
    """
    uid = secrets.token_bytes(16)
    name, data = _new_journal(key, "replaced", uid, t_ns)
    salt = salt_of(uid)
    data += frame_bytes(salt, Kind.OP, t_ns + 1, dump_json(_TRASHED))
    return name, data + _closed(salt, t_ns + 2)


def _new_journal(key: RunKey, what: str, uid: bytes, t_ns: int) -> tuple[str, bytes]:
    writer = f"{what}-{uid.hex()[:8]}"
    kind = kind_of(key.project, key.run)
    header = {
        "format": 1,
        **({} if kind == "run" else {"kind": kind}),
        "run": key.run,
        "project": key.project,
        "writer": writer,
        "continues": None,
        "prior_t": 0,
        "attempt": None,
        "owner": False,
    }
    frame = frame_bytes(salt_of(uid), Kind.HEADER, t_ns, dump_json(header))
    return journal_name(writer, uid), file_header(uid) + frame


def _closed(salt: int, t_ns: int) -> bytes:
    return frame_bytes(salt, Kind.CLOSE, t_ns, dump_json({"reason": "stop", "dropped": {}}))
