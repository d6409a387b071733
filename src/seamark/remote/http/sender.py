"""A Seamark server as a remote that receives journals and files over HTTP."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from seamark.journal.shipping import Batch
from seamark.reading.attributes import Opening
from seamark.reading.codec import WireError, unpack
from seamark.reading.names import Arrival, Conflict
from seamark.reading.reader import Answer as ReadAnswer
from seamark.remote.http.connection import Answer, Connection, run_path
from seamark.remote.protocol import Missing, RemoteError, RemoteRun, RunKey, Sent, Unreachable

PART_BYTES: Final = 8 << 20
"""Size of the parts of a file upload, in bytes."""
_MAX_WAIT_S: Final = 60.0
_MAX_ANSWER: Final = 4 << 20
"""Maximum size of an answer to sent data, in bytes: counts, names of journals and files. It
protects the memory of the training process."""
_MAX_OPENING: Final = 64 << 20
"""Maximum size of an answer about the state of a run, which has all its paths; bytes."""
_MAX_BATCH: Final = 24 << 20
"""Maximum size of an answer with journal frames, in bytes: 4 MiB, and a single frame of 16 MiB."""
_READ_S: Final = 10.0
"""Time limit for silence while frames are read, in seconds: the start of a training waits for them.
"""
_NO_CONTENT: Final = 204
_MAX_DIGESTS: Final = 1000
_MAX_VERSIONS: Final = 10_000
"""Maximum number of versions of an artifact reported to a server."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class HttpRemote:
    """Remote on a Seamark server; see `seamark.remote.protocol.Remote`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        record = self.connection.ask("GET", run_path(run, "journals")).record().get("journals")
        if not isinstance(record, dict) or not all(map(_is_count, record.values())):
            raise RemoteError(
                f"{self.connection.address} answered without journals: is it a Seamark server?"
            )
        return record

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        from zstandard import ZstdCompressor

        packed = ZstdCompressor(level=1, write_content_size=True).compress(data)
        headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "zstd"}
        return self._parse_sent(
            self.connection.ask(
                "PUT",
                run_path(run, "journals", journal),
                query={"offset": offset},
                body=packed,
                headers=headers,
            )
        )

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`."""
        path, query = run_path(run, "journals", journal), {"offset": offset, "gap": length}
        return self._parse_sent(self.connection.ask("PUT", path, query=query))

    def read(self, run: RunKey, journal: str, offset: int) -> Batch | None:
        """See `seamark.remote.protocol.KeepsJournals.read`."""
        path = run_path(run, "journals", journal)
        answer = self.connection.ask(
            "GET", path, query={"offset": offset}, answer_s=_READ_S, most=_MAX_BATCH
        )
        if answer.status == _NO_CONTENT:
            return None
        start, gap = (answer.headers.get(f"Seamark-{name}", "") for name in ("Offset", "Gap"))
        if not start.isdecimal() or not (answer.body or gap.isdecimal()):
            raise RemoteError(
                f"{self.connection.address} answered without frames: is it a Seamark server?"
            )
        return Batch(int(start), len(answer.body) or int(gap), answer.body)

    def _parse_sent(self, answer: Answer) -> Sent:
        record = answer.record()
        offset, position, wait_s = (record.get(key) for key in ("offset", "position", "wait_s"))
        if not (_is_count(offset) and _is_count(position)):
            raise RemoteError(
                f"{self.connection.address} answered without an offset: is it a Seamark server?"
            )
        asked = isinstance(wait_s, (int, float)) and math.isfinite(wait_s)
        wait = min(_MAX_WAIT_S, max(0.0, float(wait_s))) if asked and wait_s is not None else 0.0
        return Sent(int(offset or 0), int(position or 0), wait)

    # ---------------------------------------------------------------- files

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """See `seamark.remote.protocol.Remote.missing_blobs`."""
        wanted = sorted(digests)
        missing: list[str] = []
        for start in range(0, len(wanted), _MAX_DIGESTS):
            asked = {"digests": wanted[start : start + _MAX_DIGESTS]}
            answer = self.connection.send_json("POST", run_path(run, "blobs"), asked)
            record = answer.record().get("missing")
            missing += record if isinstance(record, list) else asked["digests"]
        return set(missing) & set(wanted)

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """See `seamark.remote.protocol.Remote.put_blob`."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"digest: expected 64 hex digits, got {digest!r:.80}")
        path = run_path(run, "blobs", digest)
        record = self.connection.ask("GET", f"{path}/upload").record().get("offset")
        offset = record if isinstance(record, int) and 0 <= record <= size else 0
        while True:
            file.seek(offset)
            part = file.read(min(PART_BYTES, size - offset))
            if len(part) < min(PART_BYTES, size - offset):
                raise ValueError(f"file {digest}: expected {size} bytes, got {offset + len(part)}")
            self.connection.ask("PUT", path, query={"offset": offset, "size": size}, body=part)
            offset += len(part)
            if offset >= size:
                return

    def opening(self, run: RunKey, seconds: float) -> RemoteRun:
        """See `seamark.remote.protocol.KeepsJournals.opening`."""
        # Wait until all stored data is folded: another machine may have sent it a second ago.
        kept = self.connection.ask("GET", run_path(run, "journals"), answer_s=seconds).record()
        name, position = quote(f"{run.project}/{run.run}", safe=""), kept.get("position")
        headers = {"Seamark-Position": f"{name}={position}"} if _is_count(position) else {}
        try:
            answer = self.connection.send_json(
                "POST",
                "read/opening",
                {"project": run.project, "run": run.run},
                headers={"Accept": "application/msgpack", **headers},
                answer_s=seconds,
                most=_MAX_OPENING,
            )
        except Missing:
            if position:
                raise Unreachable(
                    f"{self.connection.address} has the run, but has not processed its records yet"
                ) from None
            raise
        try:
            record = unpack(answer.body, ReadAnswer[Opening]).answer
        except WireError as error:
            raise RemoteError(str(error)) from error
        if not isinstance(record, Opening):
            raise RemoteError(f"{self.connection.address} answered without the state of the run")
        return RemoteRun(**{one.name: getattr(record, one.name) for one in fields(Opening)})

    # ---------------------------------------------------------------- new runs

    def arrive(
        self,
        run: RunKey,
        name: str | None,
        conflict: Conflict,
        *,
        make_project: bool,
        versions: Sequence[str] = (),
    ) -> Arrival | None:
        """See `seamark.remote.protocol.Settles.arrive`."""
        asked = {
            **run._asdict(),
            "name": name,
            "conflict": conflict,
            "make_project": make_project,
            **({"versions": list(versions[:_MAX_VERSIONS])} if versions else {}),
        }
        try:
            record = self.connection.send_json("POST", "arrivals", asked).record()
        except Missing as error:
            if error.said:
                raise
            return None  # server of an earlier version
        others, t_ns = record.get("others"), record.get("t_ns")
        return Arrival(
            str(record.get("outcome")),
            record["name"] if isinstance(record.get("name"), str) else None,
            tuple(map(str, others)) if isinstance(others, list) else (),
            t_ns if isinstance(t_ns, int) else None,
        )

    def close(self) -> None:
        """See `seamark.remote.protocol.Remote.close`."""
        self.connection.close()


def open_remote(uri: str, token: str | None) -> HttpRemote:
    """Return a Seamark server as a remote; no request is sent yet."""
    # Import now: the thread that opens a remote blocks forks during this call.
    import zstandard  # noqa: F401

    import seamark.remote.http.connection  # noqa: F401

    return HttpRemote(Connection(uri, token, most=_MAX_ANSWER))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
