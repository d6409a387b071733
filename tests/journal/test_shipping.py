"""Journals in batches: both sides agree, whatever happened to the file."""

from __future__ import annotations

import random
import zlib

import pytest
from bytes_source import BytesSource
from hypothesis import given
from hypothesis import strategies as st
from journal_builder import START, JournalBuilder

from seamark.journal.format import (
    FILE_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    ZLIB,
    Kind,
    dump_json,
    file_header,
)
from seamark.journal.frames import walk
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.journal.shipping import (
    GAP_BYTES,
    BatchError,
    TooLargeError,
    check_frames,
    check_gap,
    check_journal_name,
    next_batch,
)

LATE = START + 10 * SETTLE_NS


class Live(BytesSource):
    """A journal that may still grow."""

    def quiet_since_ns(self) -> int:
        return START


def journal(rows=20, **facts):
    made = JournalBuilder("one", project="team/x", run="run1", **facts)
    for step in range(rows):
        made.row({"a": step, "b": -step}, step)
    return made


def reader_of(made, data=None, *, live=False, now=LATE, **found_by):
    source = (Live if live else BytesSource)(made.file, made.data if data is None else data)
    return JournalReader(source, now_ns=lambda: now, **found_by)


def shipped(reader, limit=300):
    offset, found = 0, []
    while (batch := next_batch(reader, offset, limit)) is not None:
        assert batch.offset == offset
        assert batch.is_gap or len(batch.data) == batch.length
        offset = batch.end
        found.append(batch)
    return found


def accepted(batches, name, run="run1"):
    data = b""
    for batch in batches:
        if batch.is_gap:
            check_gap(name, batch.offset, batch.length)
            data += bytes(batch.length)
        else:
            check_frames(run, name, batch.offset, batch.data)
            check_frames(run, name, batch.offset, batch.data, walk)
            data += batch.data
    return data


@pytest.mark.parametrize("limit", [1, 200, 300, 1000, 1 << 20])
def test_a_journal_is_shipped_whole(limit, monkeypatch):
    """Batches, one after the other, are the file; each fits into what was asked for, or is one
    frame. What fits into one is one, however it is read.
    """
    monkeypatch.setattr("seamark.journal.shipping._PIECE_BYTES", 200)
    made = journal()
    batches = shipped(reader_of(made), limit)
    assert accepted(batches, made.file) == made.data
    assert shipped(reader_of(made, walk=walk), limit) == batches
    frames = set(made.ends)
    for batch in batches:
        inside = [end for end in frames if batch.offset < end < batch.end]
        assert batch.length <= limit or not inside
    assert len(batches) == 1 or limit < len(made.data)


def flipped(made, at):
    data = bytearray(made.data)
    data[at] ^= 1
    return bytes(data)


def test_damage_is_a_declared_gap_and_bytes_that_may_turn_good_wait():
    made = journal()
    for live in (True, False):
        reader = reader_of(made, made.data[:-5], live=live, now=START)
        assert accepted(shipped(reader), made.file) == made.data[: made.ends[-2]]
    at, end = made.ends[7:9]
    batches = shipped(reader_of(made, flipped(made, at + 30)))
    assert [(gap.offset, gap.end) for gap in batches if gap.is_gap] == [(at, end)]
    assert accepted(batches, made.file) == made.data[:at] + bytes(end - at) + made.data[end:]
    reader = reader_of(made, flipped(made, at + 30), live=True, now=START + 1)
    assert accepted(shipped(reader), made.file) == made.data[:at]
    assert reader.stopped == "bad"
    for size in (0, 5, 32, 40):
        assert shipped(reader_of(made, made.data[:size], live=True, now=START)) == []


def test_a_damaged_file_header_is_mended_and_unknown_kinds_are_shipped():
    """Its salt is that of the name; who copies frames need not know them."""
    made = journal()
    batches = shipped(reader_of(made, b"x" * 32 + made.data[32:]))
    assert accepted(batches, made.file) == made.data
    batches = shipped(reader_of(made, flipped(made, 60)))  # its HEADER frame
    assert batches[0].data == file_header(made.uid)
    assert (batches[1].offset, batches[1].end) == (FILE_HEADER_BYTES, made.ends[0])
    accepted(batches, made.file)
    made = journal(3).frame(77, b"from the future").row({"a": 1.0}, 9)
    assert accepted(shipped(reader_of(made)), made.file) == made.data


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(100, 2000))
def test_both_sides_agree_on_any_damage(seed, flips, limit):
    made, chance = journal(), random.Random(seed)
    data = bytearray(made.data)
    for _ in range(flips):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with reader_of(made, bytes(data)) as original:
        kept = accepted(shipped(reader_of(made, bytes(data)), limit), made.file)
        with reader_of(made, kept) as copy:
            assert list(copy.frames()) == list(original.frames())
            assert copy.gaps == original.gaps


@pytest.mark.parametrize(("key", "value"), [("run", "run2"), ("writer", "host-2-one")])
def test_a_header_for_something_else_is_refused(key, value):
    """The project may be another one: `sync` may send a run there."""
    facts = {"project": "team/y", "run": "run1"}
    made = JournalBuilder("one", **facts).row({"a": 1.0}, 1)
    assert check_frames("run1", made.file, 0, made.data)
    second = made.offset
    made.frame(Kind.HEADER, dump_json({"run": "other"}))
    wrong = JournalBuilder("one", **facts | {key: value})
    for name, data, start, says in (
        (made.file, made.data, second, "other"),
        (wrong.file, wrong.data, 0, value),
    ):
        with pytest.raises(BatchError, match=says) as raised:
            check_frames("run1", name, start, data[start:])
        assert raised.value.slug == "foreign-header"


def test_other_bytes_are_refused():
    made, other = journal(), JournalBuilder("two").row({"a": 1.0}, 1)
    first = made.ends[0]
    for offset, data in (
        (0, b""),
        (0, made.data[:-3]),
        (0, made.data[:20]),
        (0, made.data[first:]),
        (0, other.data),
        (first, other.data[32:]),
        (first, b"x" * 64),
        (16, made.data[first:]),
        (first + 4, made.data[first:]),
        (-8, made.data[first:]),
    ):
        with pytest.raises(BatchError) as raised:
            check_frames("run1", made.file, offset, data)
        assert raised.value.slug == "not-a-journal"


@pytest.mark.parametrize(
    "name",
    ["", "x", "a.b", "../x.", "a/b.", ".", ".x.", "nul.", "x\0.", "x.0", "x.g", "x" * 101 + "."],
)
def test_names_that_are_no_journal_are_refused(name):
    with pytest.raises(BatchError):
        check_journal_name(name + "0" * 32 if name.endswith(".") else name)


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 8), (32, 0), (32, -8), (32, 7), (33, 8), (32, 2**62), (2**62, 8)]
)
def test_gaps_that_cannot_be_are_refused(offset, length):
    with pytest.raises(BatchError):
        check_gap("w." + "0" * 32, offset, length)
    check_gap("w." + "0" * 32, 32, GAP_BYTES)


def test_payloads_that_cannot_be_unpacked_count_as_the_most_that_they_could_become(monkeypatch):
    monkeypatch.setattr("seamark.journal.shipping.INFLATED_BYTES", 3 * MAX_PAYLOAD_BYTES)
    made = journal(1)
    for _ in range(2):
        made.frame(Kind.TEXT, b"not packed at all", flags=ZLIB)
    assert accepted(shipped(reader_of(made)), made.file) == made.data
    made.frame(Kind.TEXT, b"not packed at all", flags=ZLIB)
    with pytest.raises(TooLargeError):
        check_frames("run1", made.file, 0, made.data)


def test_a_zlib_bomb_is_split_by_the_sender_and_refused_otherwise(monkeypatch):
    """Packed payloads count as what they become."""
    made = journal(3)
    for _ in range(6):
        made.frame(Kind.OP, zlib.compress(bytes(1 << 20)), flags=ZLIB)
    monkeypatch.setattr("seamark.journal.shipping.INFLATED_BYTES", 3 << 20)
    with pytest.raises(TooLargeError) as raised:
        check_frames("run1", made.file, 0, made.data)
    assert (raised.value.limit, raised.value.allowed) == ("inflated_bytes", 3 << 20)
    for found_by in ({}, {"walk": walk}):
        batches = shipped(reader_of(made, **found_by), 1 << 20)
        assert len(batches) == 3
        assert accepted(batches, made.file) == made.data


def test_first_batch_may_become_as_large_as_the_receiver_allows(monkeypatch):
    """The file header, which the receiver checks apart, takes nothing of the limit."""
    made = journal(3)
    made.frame(Kind.OP, zlib.compress(bytes(1 << 20)), flags=ZLIB)
    allowed = len(made.data) - FILE_HEADER_BYTES + (1 << 20)
    monkeypatch.setattr("seamark.journal.shipping.INFLATED_BYTES", allowed)
    (batch,) = shipped(reader_of(made), 1 << 20)
    assert accepted([batch], made.file) == made.data
