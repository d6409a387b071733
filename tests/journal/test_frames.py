"""Frames as columns: whatever the bytes are, what the plain loop finds in them."""

from __future__ import annotations

import zlib
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.journal import frames as frames_module
from seamark.journal.format import (
    FRAME_BODY,
    FRAME_HEADER_BYTES,
    MARK,
    MAX_PAYLOAD_BYTES,
    Kind,
    frame_bytes,
)
from seamark.journal.frames import Frames, walk
from seamark.journal.reader import scan

SALT = 0xC0FFEE
MARK_BYTES = MARK.to_bytes(2, "little")


def columns(frames):
    """Return the columns in order."""
    return [getattr(frames, name) for name in Frames.__slots__]


def agrees(data, salt=SALT, start=0):
    """Ask that both find the same, and return what it is: frames, where it stopped, if it is bad.

    One such call is the promise of nearly every test here.
    """
    frames = []
    stop, bad = scan(data, salt, frames, start)
    found, place, is_bad = walk(data, salt, start)
    assert [column.dtype for column in columns(found)] == [np.int64] * 6
    assert list(map(found.raw, range(len(found)))) == frames
    assert (place, is_bad) == (stop, bad)
    assert (type(place), type(is_bad)) == (int, bool)
    return found, place, is_bad


def raw_frame(kind, t, payload, *, length=None, flags=0, aux=0, salt=SALT):
    """Return a frame with a good CRC that need not be legal."""
    length = len(payload) if length is None else length
    body = FRAME_BODY.pack(length, kind, flags, MARK, aux, t) + payload + bytes(-len(payload) % 8)
    return zlib.crc32(body, salt).to_bytes(4, "little") + body


@pytest.fixture(params=["as it is", "all by columns", "short stretches"])
def effort(request, monkeypatch):
    """The share of columns: small journals go another way, so that they cost nothing."""
    limits = {"_MIN_BYTES": FRAME_HEADER_BYTES, "_MIN_FRAMES": 0, "_MIN_FRAMES_PER_WORD": 0}
    if request.param == "as it is":
        limits = {}
    if request.param == "short stretches":
        limits |= {"_PART_WORDS": 9, "_MAX_TABLE_WORDS": 6}
    for name, limit in limits.items():
        monkeypatch.setattr(frames_module, name, limit)


def false_mark(words):
    """Return a payload with marks where those of frames that begin inside it would be."""
    return b"".join(word[:2] + MARK_BYTES + word[4:] if marked else word for marked, word in words)


PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=70),
    st.integers(1, 40).map(lambda count: bytes(8 * count)),
    st.lists(st.tuples(st.booleans(), st.binary(min_size=8, max_size=8)), min_size=1).map(
        false_mark
    ),
    st.binary(min_size=1, max_size=40).map(lambda inner: frame_bytes(SALT, Kind.ROW, 5, inner)),
    st.integers(2000, 2100).map(lambda length: bytes(range(256)) * 9 + bytes(length - 2000)),
)
"""Short, alike, with marks, with whole frames inside, and longer than 2 KiB."""
LEGAL = st.builds(
    lambda payload, kind, flags, aux, t: frame_bytes(SALT, kind, t, payload, flags=flags, aux=aux),
    PAYLOADS,
    st.sampled_from(Kind) | st.integers(1, 255),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
HEARTBEATS = st.builds(
    lambda t: frame_bytes(SALT, Kind.HEARTBEAT, t, b""), st.integers(0, 2**63 - 1)
)
ILLEGAL = st.one_of(
    st.just(raw_frame(0, 1, b"kind 0 ")),
    st.just(raw_frame(Kind.ROW, 1, b"")),
    st.just(raw_frame(Kind.ROW, 1, bytes(16), salt=SALT + 1)),
    st.just(raw_frame(Kind.ROW, 1, bytes(16), length=MAX_PAYLOAD_BYTES + 1)),
    st.just(raw_frame(Kind.ROW, 1, bytes(16), length=2**32 - 1)),
    st.just(raw_frame(Kind.ROW, 1, bytes(16), length=MAX_PAYLOAD_BYTES)),
    st.just(bytes(64)),
)
JOURNALS = st.lists(LEGAL | HEARTBEATS, max_size=24)


FEW = settings(max_examples=40)  # each of them with three efforts


@pytest.mark.usefixtures("effort")
class TestAnyBytes:
    """The same frames, the same end and the same verdict as the plain loop."""

    @FEW
    @given(st.binary(max_size=400), st.integers(0, 60), st.integers(0, 2**32 - 1))
    def test_any_bytes(self, data, start, salt):
        agrees(data, salt, min(start, len(data)))

    @FEW
    @given(JOURNALS, st.binary(max_size=11), st.data())
    def test_journals_from_a_place_within_or_cut_short(self, frames, before, data):
        """All frames are found, whatever they hold: marks and whole frames inside others too.

        From any frame on, also where that is no multiple of 8; from anywhere else nothing. Cut at
        any byte, there are too few bytes, not bad ones.
        """
        journal = before + b"".join(frames)
        starts = [len(before) + end for end in accumulate(map(len, frames), initial=0)]
        number = data.draw(st.integers(0, len(frames)))
        found, stop, bad = agrees(journal, start=starts[number])
        assert (found.place.tolist(), stop, bad) == (starts[number:-1], len(journal), False)
        agrees(journal, start=data.draw(st.integers(0, len(journal))))
        cut = data.draw(st.integers(starts[number], len(journal)))
        _, stop, bad = agrees(journal[:cut], start=starts[number])
        assert (stop, bad) == (max(start for start in starts if start <= cut), False)

    @FEW
    @given(JOURNALS, ILLEGAL, JOURNALS)
    @pytest.mark.once
    def test_frames_before_one_that_is_not_valid_count(self, before, wrong, after):
        found, stop, _ = agrees(b"".join([*before, wrong, *after]))
        assert len(found.place) == len(before)
        assert stop == sum(map(len, before))

    @FEW
    @given(JOURNALS.filter(bool), st.data())
    def test_a_journal_with_flipped_bits(self, frames, data):
        journal = bytearray(b"".join(frames))
        for _ in range(data.draw(st.integers(1, 3))):
            bit = data.draw(st.integers(0, 8 * len(journal) - 1))
            journal[bit // 8] ^= 1 << bit % 8
        agrees(bytes(journal))

    def test_frames_of_a_journal_inside_frames_are_none(self):
        """Good ones, that follow each other to the very end of the frame that they are in."""
        one = frame_bytes(SALT, Kind.ROW, 5, bytes(8))
        copied = frame_bytes(SALT, Kind.ROW, 6, one) + one
        frame = frame_bytes(SALT, Kind.TEXT, 7, copied)
        assert len(agrees(frame * 300)[0]) == 300
