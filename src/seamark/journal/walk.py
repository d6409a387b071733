"""Frames of a part of a journal as columns, found and checked by vectorized operations.

`walk` gives what `seamark.journal.reader.scan` gives, which stays its oracle. Two things make it
quick:

* Frames begin where the mark is. The mark may also occur inside a payload by chance, so a frame
  only counts where the one before it ends.
* CRC-32 is linear: the CRCs of two frames of one size differ by what the bits contribute in which
  the frames differ, whatever the others and the salt are. So zlib computes the CRC of one frame,
  and tables give all others from it, word for word.
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

__all__ = ["BLOCK_BYTES", "Frames", "walk"]

_Bools = np.ndarray[Any, np.dtype[np.bool_]]
_Words = np.ndarray[Any, np.dtype[np.uint64]]
_Crcs = np.ndarray[Any, np.dtype[np.uint32]]

BLOCK_BYTES: Final = 1 << 20
"""Best size of one read, in bytes."""

_WORD: Final = 8
"""Word size in bytes; every frame begins and ends at a multiple of it."""
_HEADER: Final = FRAME_HEADER_BYTES // _WORD
"""Header words: length and crc; aux, mark, flags and kind; t (last named in the lowest bits)."""
_MARK_MASK: Final = 0xFFFF << 16
_MARK_BITS: Final = MARK << 16

# What follows was measured on one core with 2 MiB of cache; no result depends on it.
_STRETCH: Final = (1 << 20) // _WORD
"""Number of words processed in one step, so that intermediate results stay in the cache."""
_LONG: Final = 192 // _WORD
"""Frame length in words from which zlib computes CRCs as cheaply as the tables."""
_MANY: Final = 32
"""Frames per word of their size from which the tables are worth their calls."""
_FEW: Final = 192
"""Number of frames that the plain loop reads as quickly."""
_COLUMNS: Final = 6
_LITTLE: Final = 1 << 12
"""Number of bytes that the plain loop reads as quickly, whatever they hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Whole valid frames of a stretch of a journal, in order, an int64 (N,) column each.

    ``place`` is the start in the data and ``length`` that of the payload, bytes; ``aux`` is the
    schema number of a row, else 0; ``t`` is nanoseconds since the Unix epoch.
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
        """Return the kinds that there are."""
        return set(np.unique(self.kind).tolist())

    def raw(self, index: int) -> RawFrame:
        """Return one frame."""
        return (
            int(self.place[index]),
            int(self.kind[index]),
            int(self.flags[index]),
            int(self.aux[index]),
            int(self.t[index]),
            int(self.length[index]),
        )

    def raws(self, which: Ints) -> list[RawFrame]:
        """Return some frames one by one."""
        columns = (self.place, self.kind, self.flags, self.aux, self.t, self.length)
        return list(zip(*[column[which].tolist() for column in columns], strict=True))

    def upto(self, count: int) -> Frames:
        """Return the first frames."""
        return Frames(
            self.place[:count],
            self.kind[:count],
            self.flags[:count],
            self.aux[:count],
            self.t[:count],
            self.length[:count],
        )

    def some(self, kind: int, flag: int) -> list[RawFrame]:
        """Return the frames of a kind or with a flag."""
        return self.raws(np.flatnonzero((self.kind == kind) | (self.flags & flag != 0)))

    def before(self, end: int) -> Frames:
        """Return the frames that start before a place, bytes."""
        return self.upto(int(self.place.searchsorted(end)))

    def shapes(self, which: Ints) -> Ints:
        """Return one number for each of these frames, equal for rows that can be read alike."""
        return self.aux[which] | self.flags[which] << 32 | self.length[which] << 40


def walk(data: bytes, salt: int, start: int = 0) -> tuple[Frames, int, bool]:
    """Return the valid frames of ``data`` from ``start``, where one begins, on, each CRC checked.

    Return also where it stopped, and True if the bytes there are bad (False: too few).
    """
    parts: list[Ints] = []
    place, bad = start, None
    while bad is None:
        part, place, bad = _stretch(data, salt, place)
        if part.size or not parts:
            parts.append(part)
    return Frames(*(np.concatenate(parts, axis=1) if parts[1:] else parts[0])), place, bad


def _plain(data: bytes, salt: int, place: int) -> tuple[Ints, int, bool]:
    frames: list[RawFrame] = []
    stop, bad = scan(data, salt, frames, place)
    columns = np.fromiter(chain.from_iterable(frames), np.int64).reshape(-1, _COLUMNS).T
    return columns, stop, bad


def _stretch(data: bytes, salt: int, place: int) -> tuple[Ints, int, bool | None]:
    # Returned are the columns of `Frames` (6, N), where it stopped, and whether the bytes there are
    # bad; None where frames may follow.
    if len(data) - place < _LITTLE:
        return _plain(data, salt, place)
    # The last frame to be looked at may reach into the next stretch.
    within = min((len(data) - place) // _WORD, _STRETCH + max(_LONG, _HEADER))
    words: _Words = np.frombuffer(data, "<u8", within, place)
    marked = words[1 : min(_STRETCH, within - _HEADER + 1) + 1] & _MARK_MASK
    at = np.flatnonzero(marked == _MARK_BITS)
    if within < _STRETCH and len(at) < _FEW:
        return _plain(data, salt, place)

    lengths = words.take(at) >> 32
    sizes = (lengths + 7 >> 3).view(np.int64) + _HEADER
    real = _chain(at, at + sizes)
    at, length, sizes = at[real], lengths[real].view(np.int64), sizes[real]
    tags, t = words[1:].take(at), words[2:].take(at).view(np.int64)
    kind = (tags & 0xFF).view(np.int64)
    flags, aux = (tags >> 8 & 0xFF).view(np.int64), (tags >> 32).view(np.int64)
    places = at * _WORD + place
    columns = np.array((places, kind, flags, aux, t, length))

    legal = (length <= MAX_PAYLOAD_BYTES) & (kind != 0) & ((length > 0) | (kind == Kind.HEARTBEAT))
    ends = places + sizes * _WORD
    whole = _leading(legal & (ends <= len(data)))
    crcs = _crcs(data, salt, words, place, at[:whole], sizes[:whole])
    valid = _leading(crcs == words.take(at[:whole]).astype(np.uint32))
    if valid == len(at):
        return columns, int(ends[-1]) if valid else place, None if valid else True
    return columns[:, :valid], int(places[valid]), valid < whole or not legal[valid]


def _leading(flags: _Bools) -> int:
    return len(flags) if flags.all() else int(flags.argmin())


def _chain(at: Ints, ends: Ints) -> _Bools | slice:
    """Tell which marked places are frames: the first at 0, each where the one before ends."""
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


def _crcs(data: bytes, salt: int, words: _Words, place: int, at: Ints, sizes: Ints) -> _Crcs:
    """Return the CRC each frame must have; ``place`` in bytes, ``at`` and ``sizes`` in words."""
    crcs = np.empty(len(at), np.uint32)
    view, crc32 = memoryview(data), zlib.crc32
    for size, members in _groups(sizes):
        if size:
            crcs[members] = _crcs_of_size(words, at[members], size, salt)
        else:
            begins = at[members] * _WORD + place
            ends = begins + sizes[members] * _WORD
            bounds = zip((begins + 4).tolist(), ends.tolist(), strict=True)
            crcs[members] = [crc32(view[begin:end], salt) for begin, end in bounds]
    return crcs


def _groups(sizes: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Yield the sizes that the tables are worth with where they are, and the rest as of size 0."""
    capped = np.minimum(sizes, _LONG + 1)
    counts = np.bincount(capped, minlength=_LONG + 2)
    many = counts >= _MANY * np.arange(len(counts))
    many[_LONG + 1] = False
    for size in np.flatnonzero(many & (counts > 0)).tolist():
        yield size, np.flatnonzero(sizes == size) if counts[size] < len(sizes) else slice(None)
    if counts[~many].any():
        yield 0, np.flatnonzero(~many[capped])


def _crcs_of_size(words: _Words, at: Ints, size: int, salt: int) -> _Crcs:
    first = words[at[0] : at[0] + size].tobytes()
    crcs = np.zeros(len(at), np.uint32)  # how each differs from the first, up to the next word
    for number in range(size):
        column = words[number:].take(at, mode="clip")
        column ^= column[0]
        low = column.view("<u4")[::2]
        low ^= crcs if number else low  # the first four bytes are the CRC itself
        differing = int(np.bitwise_or.reduce(column))
        pairs = column.view("<u2")
        crcs[:] = 0
        for pair, table in enumerate(_tables()):
            if differing >> (16 * pair) & 0xFFFF:
                crcs ^= table.take(pairs[pair::4], mode="clip")
    crcs ^= zlib.crc32(first[4:], salt)
    return crcs


@lru_cache(1)
def _tables() -> tuple[_Crcs, ...]:
    # What each two bytes of a word contribute to the CRC behind it, by their value. One word a time
    # needs four tables, 1 MiB, for frames of any size. Tables for every place of a frame would do
    # with fewer look-ups, but not be quicker: they do not fit into the cache.
    nothing = zlib.crc32(bytes(_WORD))
    tables = []
    for pair in range(4):
        table = np.zeros(1 << 16, np.uint32)
        for bit in range(16):
            one = (1 << (16 * pair + bit)).to_bytes(_WORD, "little")
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ (zlib.crc32(one) ^ nothing)
        tables.append(table)
    return tuple(tables)
