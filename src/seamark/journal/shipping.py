"""Batches of journals, made by a sender and checked by a receiver.

A batch is either complete valid frames or a declared gap: bytes that will never be a frame, by the
rules of all readers (`seamark.journal.reader`). The first batch of a journal begins with the 32
bytes of the file header, repaired if they are damaged. So a remote copy consists only of frames and
gaps, and needs no rules of its own for incomplete or corrupted bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from seamark.errors import SeamarkError
from seamark.journal.folder import split_journal_name
from seamark.journal.format import (
    FILE_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    MAJOR,
    MAX_PAYLOAD_BYTES,
    ZLIB,
    Kind,
    file_header,
    padded,
    parse_file_header,
    salt_of,
)
from seamark.journal.reader import (
    Block,
    JournalReader,
    RawFrame,
    Walk,
    header_in,
    payload_of,
    walk_plainly,
)
from seamark.paths import check_name

BATCH_BYTES: Final = 8 << 20
"""Target size of a sent batch, in bytes; a single frame may have 16 MiB."""
PLAIN_BYTES: Final = 64 << 20
"""Maximum number of journal bytes in a batch."""
INFLATED_BYTES: Final = 256 << 20
"""Maximum size of a batch's payloads after decompression, in bytes."""
GAP_BYTES: Final = 64 << 20
"""Maximum length of a declared gap, in bytes; a longer one is declared in parts."""
JOURNAL_BYTES: Final = 4 << 30
"""Maximum length of a journal on a remote, in bytes; writers begin another file after 1 GiB."""

_ALIGNED: Final = 8
_DEFAULT_BYTES: Final = 4 << 20
_MIN_READ_BYTES: Final = 4096
_PIECE_BYTES: Final = 1 << 19
"""Number of bytes processed in one step: columns stay in the cache, and other threads can run."""
_NO_KIND: Final = -1
_MAX_EXPANSION: Final = 1032
"""Maximum number of bytes that zlib decompresses from one byte."""


class Batch(NamedTuple):
    """``length`` bytes of a journal from ``offset``; ``data`` is empty for a declared gap."""

    offset: int
    length: int
    data: bytes

    @property
    def is_gap(self) -> bool:
        """Whether the batch is a declared gap."""
        return not self.data

    @property
    def end(self) -> int:
        """Offset of the end of the batch."""
        return self.offset + self.length


class BatchError(SeamarkError, ValueError):
    """A batch is invalid, and a retry is useless; ``slug`` is a code for programs."""

    slug = "not-a-journal"


class ForeignHeaderError(BatchError):
    """A HEADER names another run, project or writer than the one the batch was sent for."""

    slug = "foreign-header"


class TooLargeError(BatchError):
    """A batch exceeds the limit of ``allowed`` bytes; smaller batches may be accepted."""

    slug = "too-large"

    def __init__(self, message: str, limit: str, allowed: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed


# ---------------------------------------------------------------------- sending


def next_batch(reader: JournalReader, offset: int, limit: int = _DEFAULT_BYTES) -> Batch | None:
    """Return the next batch of a journal, at most ``limit`` bytes (or one frame), or None.

    ``offset`` is the number of bytes that the receiver has. Afterwards, ``stopped``, ``tail`` and
    ``closed`` of the reader describe its state; ``"newer"``: this version cannot send the rest.
    """
    start = max(offset, FILE_HEADER_BYTES)
    reader.block_bytes = min(limit, _PIECE_BYTES, max(_MIN_READ_BYTES, reader.size - start))
    blocks = reader.blocks(start, unknown=True)
    block = next(blocks, None)
    if block is None:
        return None
    if block.base > start:  # bytes were skipped
        if offset < FILE_HEADER_BYTES:
            return Batch(0, FILE_HEADER_BYTES, _file_header_of(reader))
        length = min(block.base - offset, GAP_BYTES)
        return Batch(offset, length, b"")
    opening = _file_header_of(reader) if offset < FILE_HEADER_BYTES else b""
    data = opening + _join_blocks(reader, block, blocks, limit - len(opening))
    return Batch(min(offset, start - len(opening)), len(data), data)


def _join_blocks(
    reader: JournalReader, block: Block | None, blocks: Iterator[Block], limit: int
) -> bytes:
    """Return the bytes of adjacent blocks for a batch; at least one frame of ``block``."""
    parts: list[bytes] = []
    size = inflated = 0
    while block is not None:
        end, most = _fitting_part(block, limit - size, INFLATED_BYTES - inflated, first=not parts)
        whole = end == block.end - block.base
        parts.append(block.data if whole and end == len(block.data) else block.data[:end])
        size, inflated, behind = size + end, inflated + most, block.end
        if not whole or limit - size < _MIN_READ_BYTES or reader.size <= behind:
            break
        reader.block_bytes = min(limit - size, _PIECE_BYTES)
        block = next(blocks, None)
        if block is not None and block.base != behind:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _file_header_of(reader: JournalReader) -> bytes:
    found = reader.bytes_at(FILE_HEADER_BYTES, 0)
    parsed = parse_file_header(found)
    sound = parsed is not None and parsed[0] == MAJOR and parsed[2] == reader.uid
    return found if sound else file_header(reader.uid)


def _fitting_part(block: Block, limit: int, room: int, *, first: bool) -> tuple[int, int]:
    # With ``first``, the first frame is always included.
    whole = block.end - block.base
    packed = block.frames.some(_NO_KIND, ZLIB)
    most = whole + sum(min(MAX_PAYLOAD_BYTES, frame[5] * _MAX_EXPANSION) for frame in packed)
    if whole <= limit and most <= room:
        return whole, most  # the usual case, without a loop over frames
    end = inflated = 0
    for frame in map(block.frames.raw, range(len(block.frames))):
        more = FRAME_HEADER_BYTES + padded(frame[5])
        following = frame[0] + more
        if frame[2] & ZLIB:
            more += _inflated_size(block.data, frame)
        if (end or not first) and (following > limit or inflated + more > room):
            break
        end, inflated = following, inflated + more
    return end, inflated


def _inflated_size(data: bytes, frame: RawFrame) -> int:
    # If the size cannot be determined within the memory limit of a payload, it is that limit.
    try:
        return len(payload_of(data, frame))
    except ValueError:
        return MAX_PAYLOAD_BYTES


# ---------------------------------------------------------------------- receiving


@functools.lru_cache(maxsize=4096)
def check_journal_name(journal: str) -> tuple[str, bytes]:
    """Return writer id and uid of a journal's file name; BatchError if it is invalid."""
    writer, uid = split_journal_name(journal)
    if uid is None:
        raise BatchError(
            f"expected the name of a journal, '<writer id>.<32 hex digits>', got {journal!r:.200}"
        )
    try:
        check_name(writer, "writer id")
    except ValueError as error:
        raise BatchError(str(error)) from error
    return writer, uid


def check_frames(
    run: str, journal: str, offset: int, data: bytes, walk: Walk = walk_plainly
) -> int:
    """Check that a batch is complete valid frames of this journal; unknown kinds are allowed.

    Return the time of the last frame, in nanoseconds since the Unix epoch by its writer's clock; 0
    if there is none. ``offset`` is the position of the first byte in the file.

    Raises:
        BatchError: If it is invalid, or a HEADER in it names another run or writer.
        TooLargeError: If it exceeds a limit.
    """
    writer, uid = check_journal_name(journal)
    _check_limit("plain_bytes", PLAIN_BYTES, len(data))
    _check_place(offset, len(data))
    start = 0
    if not offset:
        _check_opening(data, uid)
        start = FILE_HEADER_BYTES
    frames, stop, _ = walk(data[start:] if start else data, salt_of(uid))
    if start + stop != len(data):
        raise BatchError(
            f"expected whole valid frames of journal {journal!r}, "
            f"got invalid bytes at offset {offset + start + stop}"
        )
    if not len(frames):
        return 0
    _check_headers(data[start:] if start else data, frames, run, writer)
    return int(frames.raw(len(frames) - 1)[4])


def check_gap(journal: str, offset: int, length: int) -> None:
    """Check that a gap can be part of a journal; BatchError or TooLargeError if not."""
    check_journal_name(journal)
    if offset < FILE_HEADER_BYTES or length <= 0 or length % _ALIGNED:
        raise BatchError(
            f"expected a gap of a multiple of {_ALIGNED} bytes after the first "
            f"{FILE_HEADER_BYTES}, got {length} bytes at {offset}"
        )
    _check_limit("gap_bytes", GAP_BYTES, length)
    _check_place(offset, length)


def _check_place(offset: int, length: int) -> None:
    if offset < 0 or offset % _ALIGNED or 0 < offset < FILE_HEADER_BYTES or not length:
        raise BatchError(
            f"expected at least one frame at 0 or at a multiple of {_ALIGNED} from "
            f"{FILE_HEADER_BYTES} on, got {length} bytes at {offset}"
        )
    _check_limit("journal_bytes", JOURNAL_BYTES, offset + length)


def _check_opening(data: bytes, uid: bytes) -> None:
    found = parse_file_header(data[:FILE_HEADER_BYTES])
    if found is None or found[2] != uid:
        raise BatchError("expected the 32-byte header of a journal, with the uid in its name")
    if found[0] != MAJOR:
        raise BatchError(
            f"expected a journal of format {MAJOR}, got format {found[0]}: update the server"
        )


def _check_headers(data: bytes, frames: Any, run: str, writer: str) -> None:
    inflated = len(data)
    wanted = {"run": run, "writer": writer}
    for frame in frames.some(Kind.HEADER, ZLIB):
        if frame[2] & ZLIB:
            inflated += _inflated_size(data, frame)
            _check_limit("inflated_bytes", INFLATED_BYTES, inflated)
        if frame[1] != Kind.HEADER:
            continue
        for key, stated in header_in(data, frame).items():
            if key in wanted and stated is not None and stated != wanted[key]:
                raise ForeignHeaderError(
                    f"the journal was recorded as {key} {stated!r:.200}, but is sent as "
                    f"{wanted[key]!r}: a renamed folder is not accepted; restore its old name, "
                    "then send it again"
                )


def _check_limit(name: str, allowed: int, found: int) -> None:
    if found > allowed:
        raise TooLargeError(
            f"{name}: expected at most {allowed}, got {found}: send smaller batches", name, allowed
        )
