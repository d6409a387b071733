"""Frames of a part of a journal as columns, found and checked by vectorized operations.

`walk` returns the same frames as `seamark.journal.reader.scan`, the reference implementation. It is
fast for two reasons:

* Each frame contains the mark at a fixed place. The mark may also occur inside a payload by chance,
  so a frame only counts if it begins at the end of the previous one.
* CRC-32 is linear: the difference of the CRCs of two frames of equal size depends only on the bits
  that differ, not on the other bits or the salt. So zlib computes the CRC of one frame, and tables
  give the differences of all others, word by word.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from seamark.journal.format import FRAME_HEADER_BYTES, MARK, MAX_PAYLOAD_BYTES, Kind
from seamark.journal.reader import RawFrame, scan

if TYPE_CHECKING:
    from seamark.values.arrays import Ints


_Bools = np.ndarray[Any, np.dtype[np.bool_]]
_Words = np.ndarray[Any, np.dtype[np.uint64]]
_Crcs = np.ndarray[Any, np.dtype[np.uint32]]

BLOCK_BYTES: Final = 1 << 20
"""Recommended size of one read, in bytes."""

_WORD: Final = 8
"""Word size in bytes; all frames begin and end at a multiple of it."""
_HEADER: Final = FRAME_HEADER_BYTES // _WORD
"""Number of header words: length, crc; aux, mark, flags, kind; t (from high to low bits)."""
_MARK_MASK: Final = 0xFFFF << 16
_MARK_BITS: Final = MARK << 16

# The following values were measured on one core with 2 MiB of cache; results do not depend on them.
_PART_WORDS: Final = (1 << 20) // _WORD
"""Number of words processed in one step, so that intermediate results stay in the cache."""
_MAX_TABLE_WORDS: Final = 192 // _WORD
"""Frame length in words from which zlib computes CRCs as fast as the tables."""
_MIN_FRAMES_PER_WORD: Final = 32
"""Number of frames of one size, per word of that size, from which the tables are faster."""
_MIN_FRAMES: Final = 192
"""Number of frames below which the plain loop is as fast."""
_COLUMNS: Final = 6
_MIN_BYTES: Final = 1 << 12
"""Number of bytes below which the plain loop is as fast, whatever they contain."""


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Valid frames of a part of a journal, in order, as int64 columns of shape (N,).

    ``place`` is the start of the frame in the data and ``length`` the length of its payload, in
    bytes. ``aux`` is the schema number of a row, else 0. ``t`` is nanoseconds since the Unix epoch.
    """

    place: Ints
    kind: Ints
    flags: Ints
    aux: Ints
    t: Ints
    length: Ints

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.place)

    def kinds(self) -> set[int]:
        """Return the kinds that occur."""
        return set(np.unique(self.kind).tolist())

    def raw(self, index: int) -> RawFrame:
        """Return the frame at an index."""
        return (
            int(self.place[index]),
            int(self.kind[index]),
            int(self.flags[index]),
            int(self.aux[index]),
            int(self.t[index]),
            int(self.length[index]),
        )

    def raws(self, which: Ints) -> list[RawFrame]:
        """Return the frames at some indices."""
        columns = (self.place, self.kind, self.flags, self.aux, self.t, self.length)
        return list(zip(*[column[which].tolist() for column in columns], strict=True))

    def upto(self, count: int) -> Frames:
        """Return the first ``count`` frames."""
        return Frames(
            self.place[:count],
            self.kind[:count],
            self.flags[:count],
            self.aux[:count],
            self.t[:count],
            self.length[:count],
        )

    def some(self, kind: int, flag: int) -> list[RawFrame]:
        """Return the frames that have a kind or a flag."""
        return self.raws(np.flatnonzero((self.kind == kind) | (self.flags & flag != 0)))

    def before(self, end: int) -> Frames:
        """Return the frames that start before a position in bytes."""
        return self.upto(int(self.place.searchsorted(end)))

    def shapes(self, which: Ints) -> Ints:
        """Return a number for each of these frames, equal for rows of the same layout."""
        return self.aux[which] | self.flags[which] << 32 | self.length[which] << 40


def walk(data: bytes, salt: int, start: int = 0) -> tuple[Frames, int, bool]:
    """Return the valid frames of ``data`` from ``start``, the start of a frame; check each CRC.

    Also return the end offset, and whether the bytes there are bad (False: incomplete).
    """
    parts: list[Ints] = []
    place, bad = start, None
    while bad is None:
        part, place, bad = _walk_part(data, salt, place)
        if part.size or not parts:
            parts.append(part)
    return Frames(*(np.concatenate(parts, axis=1) if parts[1:] else parts[0])), place, bad


def _walk_plainly(data: bytes, salt: int, place: int) -> tuple[Ints, int, bool]:
    frames: list[RawFrame] = []
    stop, bad = scan(data, salt, frames, place)
    columns = np.fromiter(chain.from_iterable(frames), np.int64).reshape(-1, _COLUMNS).T
    return columns, stop, bad


def _walk_part(data: bytes, salt: int, place: int) -> tuple[Ints, int, bool | None]:
    # Return the columns of `Frames` (6, N), the end offset, and whether the bytes there are bad
    # (None if frames may follow).
    if len(data) - place < _MIN_BYTES:
        return _walk_plainly(data, salt, place)
    # The last frame to check may extend into the next part.
    within = min((len(data) - place) // _WORD, _PART_WORDS + max(_MAX_TABLE_WORDS, _HEADER))
    words: _Words = np.frombuffer(data, "<u8", within, place)
    marked = words[1 : min(_PART_WORDS, within - _HEADER + 1) + 1] & _MARK_MASK
    at = np.flatnonzero(marked == _MARK_BITS)
    if within < _PART_WORDS and len(at) < _MIN_FRAMES:
        return _walk_plainly(data, salt, place)

    lengths = words.take(at) >> 32
    sizes = (lengths + 7 >> 3).view(np.int64) + _HEADER
    real = _select_frames(at, at + sizes)
    at, length, sizes = at[real], lengths[real].view(np.int64), sizes[real]
    tags, t = words[1:].take(at), words[2:].take(at).view(np.int64)
    kind = (tags & 0xFF).view(np.int64)
    flags, aux = (tags >> 8 & 0xFF).view(np.int64), (tags >> 32).view(np.int64)
    places = at * _WORD + place
    columns = np.array((places, kind, flags, aux, t, length))

    legal = (length <= MAX_PAYLOAD_BYTES) & (kind != 0) & ((length > 0) | (kind == Kind.HEARTBEAT))
    ends = places + sizes * _WORD
    whole = _count_leading(legal & (ends <= len(data)))
    crcs = _expected_crcs(data, salt, words, place, at[:whole], sizes[:whole])
    valid = _count_leading(crcs == words.take(at[:whole]).astype(np.uint32))
    if valid == len(at):
        return columns, int(ends[-1]) if valid else place, None if valid else True
    return columns[:, :valid], int(places[valid]), valid < whole or not legal[valid]


def _count_leading(flags: _Bools) -> int:
    return len(flags) if flags.all() else int(flags.argmin())


def _select_frames(at: Ints, ends: Ints) -> _Bools | slice:
    """Select the marks that start frames: the first at 0, others at the end of a frame."""
    if not len(at) or at[0]:
        return slice(0)
    breaks = np.flatnonzero(ends[:-1] != at[1:])
    if not len(breaks):
        return slice(None)
    follows = at.searchsorted(ends[breaks])
    real = np.zeros(len(at), np.bool_)
    begin = 0
    for last, follow in zip(breaks.tolist(), follows.tolist(), strict=True):
        if last < begin:
            continue  # a mark inside a payload
        real[begin : last + 1] = True
        begin = follow
        if follow == len(at) or at[follow] != ends[last]:
            return real
    real[begin:] = True
    return real


def _expected_crcs(
    data: bytes, salt: int, words: _Words, place: int, at: Ints, sizes: Ints
) -> _Crcs:
    """Return the expected CRC of each frame; ``place`` in bytes, ``at`` and ``sizes`` in words."""
    crcs = np.empty(len(at), np.uint32)
    view, crc32 = memoryview(data), zlib.crc32
    for size, members in _group_by_size(sizes):
        if size:
            crcs[members] = _crcs_of_size(words, at[members], size, salt)
        else:
            begins = at[members] * _WORD + place
            ends = begins + sizes[members] * _WORD
            bounds = zip((begins + 4).tolist(), ends.tolist(), strict=True)
            crcs[members] = [crc32(view[begin:end], salt) for begin, end in bounds]
    return crcs


def _group_by_size(sizes: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Yield each size for which tables are faster, with its indices; then size 0 with the rest."""
    capped = np.minimum(sizes, _MAX_TABLE_WORDS + 1)
    counts = np.bincount(capped, minlength=_MAX_TABLE_WORDS + 2)
    many = counts >= _MIN_FRAMES_PER_WORD * np.arange(len(counts))
    many[_MAX_TABLE_WORDS + 1] = False
    for size in np.flatnonzero(many & (counts > 0)).tolist():
        yield size, np.flatnonzero(sizes == size) if counts[size] < len(sizes) else slice(None)
    if counts[~many].any():
        yield 0, np.flatnonzero(~many[capped])


def _crcs_of_size(words: _Words, at: Ints, size: int, salt: int) -> _Crcs:
    first = words[at[0] : at[0] + size].tobytes()
    crcs = np.zeros(len(at), np.uint32)  # difference of each from the first, up to the current word
    for number in range(size):
        column = words[number:].take(at, mode="clip")
        column ^= column[0]
        low = column.view("<u4")[::2]
        low ^= crcs if number else low  # the first four bytes are the CRC itself
        differing = int(np.bitwise_or.reduce(column))
        pairs = column.view("<u2")
        crcs[:] = 0
        for pair, table in enumerate(_crc_tables()):
            if differing >> (16 * pair) & 0xFFFF:
                crcs ^= table.take(pairs[pair::4], mode="clip")
    crcs ^= zlib.crc32(first[4:], salt)
    return crcs


@lru_cache(1)
def _crc_tables() -> tuple[_Crcs, ...]:
    # Contribution of each pair of bytes of a word to the CRC after the word, by the value of the
    # pair. Word by word, four tables (1 MiB) are sufficient for frames of any size. Tables for each
    # position in a frame would need fewer look-ups but would not be faster, because they do not fit
    # into the cache.
    nothing = zlib.crc32(bytes(_WORD))
    tables = []
    for pair in range(4):
        table = np.zeros(1 << 16, np.uint32)
        for bit in range(16):
            one = (1 << (16 * pair + bit)).to_bytes(_WORD, "little")
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ (zlib.crc32(one) ^ nothing)
        tables.append(table)
    return tuple(tables)
