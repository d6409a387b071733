"""Journal that hides a run until its transfer is complete, and requests with a time limit.

The first part of this journal is sent before all other journals. It moves the run to the trash, so
that no list shows it. The second part is sent last: it restores the run from the trash and sets its
name and origin. The first part is always the same, so an interrupted transfer can be continued.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from seamark.journal.folder import journal_name
from seamark.journal.format import Kind, close_frame, dump_json, file_header, frame_bytes, salt_of
from seamark.paths import kind_of
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.remote.protocol import Remote, RunKey, Settles, Unreachable

PATIENCE_S: Final = 5.0
"""Time limit for the answers of remotes while a run starts, in seconds."""
T = TypeVar("T")


def call_within(ask: Callable[[], T], name: str, seconds: float = PATIENCE_S) -> T:
    """Return the result of `ask`, called on a thread; raise `Unreachable` on a timeout."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(ask())
        except Exception as error:  # noqa: BLE001 - remotes may be third-party code
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    with quietly(only=RuntimeError):  # no threads can start while the interpreter ends
        thread.start()
        thread.join(seconds)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise Unreachable(f"no answer within {seconds:g} s")


def ask_remote(
    uri: str, token: str | None, ask: Callable[[Settles], T], seconds: float = PATIENCE_S
) -> T | None:
    """Return the answer of a remote that resolves conflicts between runs; None if it cannot."""

    def opened() -> T | None:
        with fork.delay_forks():  # modules are imported
            remote: Remote = open_remote(uri, token)
        with contextlib.closing(remote):
            return ask(remote) if isinstance(remote, Settles) else None

    from seamark.remote.schemes import open_remote

    return call_within(opened, "seamark-settling", seconds)


_TRASHED: Final[dict[str, Any]] = {"op": "assign", "atoms": {"sys/trashed": ["bool", True]}}


class ArrivalJournal:
    """Name and content of the journal; `begun_ns` is the time of the run's first record."""

    def __init__(self, key: RunKey, begun_ns: int) -> None:
        text = json.dumps(["arrival", key.project, key.run])
        uid = hashlib.sha256(text.encode()).digest()[:16]
        self._salt = salt_of(uid)
        self.name, self.begin = _begin_journal(key, "arrival", uid, begun_ns + 1)
        self.begin += frame_bytes(self._salt, Kind.OP, begun_ns + 2, dump_json(_TRASHED))

    def end(self, ops: Iterable[Mapping[str, Any]], t_ns: int) -> bytes:
        """Return the second part: the given ops, from the time `t_ns` on, and the closing frame."""
        data = b""
        for op in ops:
            data += frame_bytes(self._salt, Kind.OP, t_ns, dump_json(op))
            t_ns += 1
        return data + close_frame(self._salt, t_ns)


def trashing(key: RunKey, t_ns: int) -> tuple[str, bytes]:
    """Return name and content of a journal that moves a run to the trash at the time `t_ns`."""
    uid = secrets.token_bytes(16)
    name, data = _begin_journal(key, "replaced", uid, t_ns)
    salt = salt_of(uid)
    data += frame_bytes(salt, Kind.OP, t_ns + 1, dump_json(_TRASHED))
    return name, data + close_frame(salt, t_ns + 2)


def _begin_journal(key: RunKey, what: str, uid: bytes, t_ns: int) -> tuple[str, bytes]:
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
