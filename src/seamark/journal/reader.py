"""Reader of journals, which returns complete valid frames, even from damaged files.

A journal may be growing, incomplete at its end, damaged in the middle, or read through a network
file system that shows zeros for pages not yet flushed. The rules are in
``docs/explanation/journal.md``, "Reading". Only ``pread`` is used, because a mapped file that
shrinks kills the reader with SIGBUS.

* *Incomplete* (a legal length beyond the end of the file): stop and keep the offset. The bytes
  count as bad once a valid frame follows.
* *Bad* (mark, kind, length, CRC): stop and keep the offset while the bytes may still change. Once
  it is settled, or a valid frame older than `SETTLE_NS` follows, skip them and report a gap.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, NamedTuple

from seamark.errors import JournalError
from seamark.journal.folder import split_journal_name
from seamark.journal.format import (
    FILE_HEADER_BYTES,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    MAJOR,
    MARK,
    MAX_JSON_DEPTH,
    MAX_PAYLOAD_BYTES,
    SKIPPABLE,
    ZLIB,
    Kind,
    padded,
    parse_file_header,
    salt_of,
    sound_header,
)
from seamark.journal.safe import FileSource, Source
from seamark.process.interrupts import let_pass
from seamark.process.liveness import process_alive

SETTLE_NS: Final = 90 * 10**9
"""Time without change (three heartbeats) after which bytes count as final, in nanoseconds."""
MAX_AHEAD_NS: Final = 3600 * 10**9
"""Maximum time by which the record of another process may be ahead of the clock, in nanoseconds."""

_BLOCK_BYTES: Final = 1 << 20
_FRAME_LIMIT: Final = FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES
_MARK_BYTES: Final = MARK.to_bytes(2, "little")
_MARK_AT: Final = 10
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_KNOWN_KINDS: Final = frozenset(int(kind) for kind in Kind)

RawFrame = tuple[int, int, int, int, int, int]
"""Position in the block, kind, flags, aux, t (ns), payload length (bytes)."""


class Frame(NamedTuple):
    """Valid frame of a journal; ``offset`` and ``end`` (start of the next frame) in bytes.

    ``aux`` is the schema number of a row, else 0; ``t`` is nanoseconds since the Unix epoch.
    """

    offset: int
    end: int
    kind: int
    flags: int
    aux: int
    t: int
    payload: bytes


class Gap(NamedTuple):
    """Bytes of a journal without a valid frame: offset and length, both in bytes."""

    offset: int
    length: int


class FrameList(list[RawFrame]):
    """Frames of a part of a journal; `seamark.journal.frames.Frames` has the same methods."""

    def kinds(self) -> set[int]:
        """Return the kinds that occur."""
        return {frame[1] for frame in self}

    def raw(self, index: int) -> RawFrame:
        """Return the frame at an index."""
        return self[index]

    def upto(self, count: int) -> FrameList:
        """Return the first ``count`` frames."""
        return FrameList(self[:count])

    def some(self, kind: int, flag: int) -> list[RawFrame]:
        """Return the frames that have a kind or a flag."""
        return [frame for frame in self if frame[1] == kind or frame[2] & flag]


class Block(NamedTuple):
    """Adjacent frames in ``data``, which starts at offset ``base`` and may contain more bytes."""

    base: int
    data: bytes
    frames: Any
    end: int


Walk = Callable[[bytes, int], tuple[Any, int, bool]]
"""Function that takes bytes and a salt, and returns the frames, the end offset, and whether bad
bytes follow."""


_NO_FRAMES: Final[tuple[Any, int, bool]] = (FrameList(), 0, False)


def walk_plainly(data: bytes, salt: int) -> tuple[FrameList, int, bool]:
    """Return the valid frames of bytes that start at a frame; see `scan`."""
    frames = FrameList()
    stop, bad = scan(data, salt, frames)
    return frames, stop, bad


def scan(data: bytes, salt: int, frames: list[RawFrame], pos: int = 0) -> tuple[int, bool]:
    """Append the valid frames of ``data``, which starts at a frame, from ``pos`` on to ``frames``.

    Return the end offset in bytes, and whether the bytes there are bad (False: incomplete).
    """
    header, crc32, view, size, append = (
        FRAME_HEADER.unpack_from,
        zlib.crc32,
        memoryview(data),
        len(data),
        frames.append,
    )
    last = size - FRAME_HEADER_BYTES
    while pos <= last:
        crc, length, kind, flags, mark, aux, t = header(data, pos)
        if (
            mark != MARK
            or length > MAX_PAYLOAD_BYTES
            or not kind
            or (not length and kind != Kind.HEARTBEAT)
        ):
            return pos, True
        end = pos + FRAME_HEADER_BYTES + ((length + 7) & ~7)
        if end > size:
            return pos, False
        if crc32(view[pos + 4 : end], salt) != crc:
            return pos, True
        append((pos, kind, flags, aux, t, length))
        pos = end
    return pos, False


def payload_of(data: bytes, frame: RawFrame) -> bytes:
    """Return a raw frame's payload, decompressed; ValueError if invalid or above the limit."""
    start = frame[0] + FRAME_HEADER_BYTES
    payload = data[start : start + frame[5]]
    if not frame[2] & ZLIB:
        return payload
    try:
        inflater = zlib.decompressobj()
        plain = inflater.decompress(payload, MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise ValueError(f"frame: payload does not decompress: {error}") from error
    if not inflater.eof:
        raise ValueError(
            f"frame: payload decompresses to more than {MAX_PAYLOAD_BYTES} bytes, or is incomplete"
        )
    return plain


def _with_payload(base: int, data: bytes, raw: RawFrame) -> Frame:
    try:
        payload = payload_of(data, raw)
    except ValueError:
        payload = b""
    start = base + raw[0]
    return Frame(start, start + FRAME_HEADER_BYTES + padded(raw[5]), *raw[1:5], payload)


def decode_json(payload: bytes) -> Any:
    """Return the decoded JSON of a payload; ValueError if not strict, not UTF-8 or too deep."""
    if payload.count(b"[") + payload.count(b"{") > MAX_JSON_DEPTH:  # else it is not too deep
        texts_apart = payload.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        depth = deepest = 0
        for byte in b"".join(texts_apart[::2]).translate(None, _NO_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            deepest = max(deepest, depth)
        if deepest > MAX_JSON_DEPTH:
            raise ValueError(
                f"JSON: expected at most {MAX_JSON_DEPTH} levels of nesting, got {deepest}"
            )
    return _JSON.decode(payload.decode())


def header_in(data: bytes, frame: RawFrame) -> dict[str, Any]:
    """Return the valid part of a HEADER frame's record; an empty dict if it is unreadable."""
    try:
        record = decode_json(payload_of(data, frame))
    except ValueError:
        return {}
    return sound_header(record) if isinstance(record, dict) else {}


def _refuse_constant(token: str) -> None:
    raise ValueError(f"JSON: expected a number, got {token}")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""Strict decoder of UTF-8 only; `json.loads` guesses encodings and accepts lone surrogates."""


class JournalReader(contextlib.AbstractContextManager["JournalReader"]):
    """Reader of one journal from any offset; use it as a context manager.

    After `frames` or `blocks` is exhausted, `offset` is the position to continue from. `gaps` are
    the skipped bytes, and `tail` the bytes without a valid frame at the end of a finished journal.
    `closed` is whether the last frame was CLOSE. `stopped` is the reason why reading ended before
    the end of the file: None, ``"incomplete"``, ``"bad"`` or ``"newer"``. Raises JournalError if
    the source is not a journal.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Source,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        walk: Walk = walk_plainly,
        block_bytes: int = _BLOCK_BYTES,
    ) -> None:
        self._source: Source = (
            FileSource(source) if isinstance(source, (str, os.PathLike)) else source
        )
        self.name = self._source.name
        self._now_ns = now_ns
        self._walk = walk
        self.block_bytes = block_bytes
        self.offset = FILE_HEADER_BYTES
        self.gaps: list[Gap] = []
        self.tail: Gap | None = None
        self.closed = False
        self.stopped: str | None = None
        self._settled: bool | None = None
        try:
            self._open_header()
        except OSError as error:
            self.close()
            let_pass(error)
            if isinstance(error, JournalError):
                raise
            raise JournalError(
                error.errno, f"journal {self.name!r} cannot be read: {error.strerror}"
            ) from error

    def _open_header(self) -> None:
        self.damaged_header = False
        self.newer = False
        head = self._source.pread(FILE_HEADER_BYTES, 0)
        named = split_journal_name(self.name)[1]
        parsed = parse_file_header(head)
        if parsed is None and named is None and len(head) == FILE_HEADER_BYTES:
            raise JournalError(
                None,
                f"journal {self.name!r}: expected the header of a Seamark journal, got other bytes",
            )
        self.uid: bytes = named or (parsed[2] if parsed else bytes(16))
        self.salt = salt_of(self.uid)
        if len(head) < FILE_HEADER_BYTES:
            return
        if parsed is None or parsed[2] != self.uid or parsed[0] != MAJOR:
            # The file header has no CRC. The HEADER frame has one, and repeats the format version.
            stated = self.header().get("format")
            self.newer = stated != MAJOR and parsed is not None and parsed[0] > MAJOR
            self.damaged_header = not self.newer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._source.close()

    @property
    def size(self) -> int:
        """Current size of the file in bytes."""
        return self._source.size()

    def header(self) -> dict[str, Any]:
        """Return the valid part of the HEADER record; an empty dict if it is missing or damaged."""
        data = self._read_frame(FILE_HEADER_BYTES)
        frame = self._frame_at(data, 0)
        return {} if frame is None or frame[1] != Kind.HEADER else header_in(data, frame)

    def frames(self, offset: int = 0) -> Iterator[Frame]:
        """Yield valid frames from ``offset`` (bytes); payloads that do not decompress are empty."""
        for base, data, frames, _ in self.blocks(offset):
            for raw in map(frames.raw, range(len(frames))):
                yield _with_payload(base, data, raw)

    def blocks(self, offset: int = 0, *, unknown: bool = False) -> Iterator[Block]:
        """Yield blocks of valid frames, at least one in each, from ``offset`` (bytes) on.

        The reader's `offset` advances after each block. With ``unknown``, continue at frames that
        this version must not skip; callers that only copy frames need not understand them.
        """
        self.offset = max(offset, FILE_HEADER_BYTES)
        self.gaps, self.tail, self.stopped, self.closed, self._settled = [], None, None, False, None
        if self.newer:
            self.stopped = "newer"
            return
        want = self.block_bytes
        while True:
            data = self._source.pread(want, self.offset)
            frames, pos, bad = self._walk(data, self.salt) if data else _NO_FRAMES
            if len(frames):
                known, end = frames if unknown else self._known_frames(frames), self.offset + pos
                if newer := known is not frames:
                    end = self.offset + frames.raw(len(known))[0]
                if end > self.offset:
                    self.closed = known.raw(-1)[1] == Kind.CLOSE
                    yield Block(self.offset, data, known, end)
                self.offset = end
                if newer:
                    self.stopped = "newer"
                    return
                want = self.block_bytes
                continue
            if not bad and len(data) == want and want < _FRAME_LIMIT:
                want = min(2 * want, _FRAME_LIMIT)  # a frame longer than a block
                continue
            if not data:
                self._check_stub()
                return
            if not self._pass_over(bad=bad):
                return
            want = self.block_bytes

    def _check_stub(self) -> None:
        if self.offset == FILE_HEADER_BYTES and (size := self.size) < FILE_HEADER_BYTES:
            self.stopped = "incomplete"
            if self.is_finished():
                self.tail = Gap(0, size)

    @staticmethod
    def _known_frames(frames: Any) -> Any:
        if not _KNOWN_KINDS.issuperset(frames.kinds()):
            for index in range(len(frames)):
                frame = frames.raw(index)
                if frame[1] not in _KNOWN_KINDS and not frame[2] & SKIPPABLE:
                    return frames.upto(index)
        return frames

    def _pass_over(self, *, bad: bool) -> bool:
        """Move `offset` past bytes that never become a frame; return False if reading stops."""
        declared = self._source.gap_end(self.offset)
        if declared is not None:
            self.gaps.append(Gap(self.offset, declared - self.offset))
            self.offset = declared
            return True
        found = self._find_frame(self.offset + 8)
        if found is None:
            self.stopped = "bad" if bad else "incomplete"
            if not self.is_finished():
                return False
        # A frame after an incomplete one proves that the latter is bad. On a network file system,
        # bad bytes may still become valid for a while. So they are skipped once the journal is
        # settled or the frame after them is old.
        elif bad and not self.is_finished() and found[1] > self._now_ns() - SETTLE_NS:
            self.stopped = "bad"
            return False
        # The bytes may have been read in the middle of a write. That write is complete now: a later
        # one was seen, or none can follow. So the current bytes are final.
        if self._frame_at(self._read_frame(self.offset), 0) is not None:
            self.stopped = None
            return True
        if found is None:
            if (size := self.size) > self.offset:
                self.tail = Gap(self.offset, size - self.offset)
            return False
        self.gaps.append(Gap(self.offset, found[0] - self.offset))
        self.offset = found[0]
        return True

    def _read_frame(self, offset: int) -> bytes:
        head = self._source.pread(FRAME_HEADER_BYTES, offset)
        length = int.from_bytes(head[4:8], "little")
        if len(head) < FRAME_HEADER_BYTES or length > MAX_PAYLOAD_BYTES:
            return b""
        return self._source.pread(FRAME_HEADER_BYTES + padded(length), offset)

    def bytes_at(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes at an offset."""
        return self._source.pread(size, offset)

    def time_at(self, offset: int) -> int:
        """Return the time of the frame at an offset, ns since the Unix epoch, without a check."""
        return int.from_bytes(self._source.pread(8, offset + 16), "little", signed=True)

    def is_finished(self) -> bool:
        """Return whether the journal is complete: closed, process ended, or old (`SETTLE_NS`)."""
        if self._settled is None:
            quiet_since = self._source.quiet_since_ns()
            last = self.last_frame()
            self._settled = (
                (last is not None and last.kind == Kind.CLOSE)
                or quiet_since is None
                or quiet_since < self._now_ns() - SETTLE_NS
                or process_alive(self.header()) is False
            )
        return self._settled

    def last_frame(self) -> Frame | None:
        """Return the last valid frame, found by a backward search for its mark, or None."""
        size, span = self.size, 1 << 12
        while True:
            start = max(FILE_HEADER_BYTES, (size - span) & ~7)
            data = self._source.pread(size - start, start) if size > start else b""
            pos = len(data)
            while (pos := data.rfind(_MARK_BYTES, 0, pos)) >= 0:
                frame = self._frame_at(data, pos - _MARK_AT)
                if frame is not None:
                    return _with_payload(start, data, frame)
            if start <= FILE_HEADER_BYTES or span > 2 * _FRAME_LIMIT:
                return None
            span *= 16

    def frames_that_begin(self, payload: bytes) -> Iterator[Frame]:
        """Yield valid uncompressed frames whose payload starts with ``payload``, last first."""
        end = self.size
        while end > FILE_HEADER_BYTES:
            start = max(FILE_HEADER_BYTES, end - _BLOCK_BYTES)
            # A match begins before `end`, and may extend beyond it.
            data = self._source.pread(end - start + len(payload) - 1, start)
            pos = len(data)
            while (pos := data.rfind(payload, 0, pos + len(payload) - 1)) >= 0:
                offset = start + pos - FRAME_HEADER_BYTES
                if offset >= FILE_HEADER_BYTES and offset % 8 == 0:
                    whole = self._read_frame(offset)
                    raw = self._frame_at(whole, 0)
                    if raw is not None and not raw[2] & ZLIB:
                        yield _with_payload(offset, whole, raw)
            end = start

    def _find_frame(self, offset: int) -> tuple[int, int] | None:
        """Return (offset, t) of the first valid aligned frame at or after ``offset``, or None."""
        base, want = offset, _BLOCK_BYTES
        while True:
            data = self._source.pread(want, base)
            pos = -1
            while (pos := data.find(_MARK_BYTES, pos + 1)) >= 0:
                start = pos - _MARK_AT
                frame = self._frame_at(data, start)
                if frame is None and start >= 0 and not start % 8:  # it may reach past the data
                    frame = self._frame_at(self._read_frame(base + start), 0)
                if frame is not None:
                    return base + start, frame[4]
            if len(data) < want:
                return None
            base += (
                len(data) - FRAME_HEADER_BYTES
            )  # a header may lie across the border; stays a multiple of 8

    def _frame_at(self, data: bytes, start: int) -> RawFrame | None:
        if start < 0 or start % 8 or start + FRAME_HEADER_BYTES > len(data):
            return None
        length = int.from_bytes(data[start + 4 : start + 8], "little")
        end = start + FRAME_HEADER_BYTES + padded(length)
        if length > MAX_PAYLOAD_BYTES or end > len(data):
            return None
        frames: list[RawFrame] = []
        scan(data[start:end], self.salt, frames)
        return (start, *frames[0][1:]) if frames else None
