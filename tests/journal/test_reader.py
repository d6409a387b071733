"""Reading what a disk, a network file system or a dying process made of a journal."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.errors import JournalError
from seamark.journal.format import (
    FILE_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    SKIPPABLE,
    ZLIB,
    Kind,
    file_header,
    frame_bytes,
    salt_of,
)
from seamark.journal.reader import (
    SETTLE_NS,
    Frame,
    Gap,
    JournalReader,
    decode_json,
    payload_of,
    scan,
)
from seamark.process.liveness import process_facts

GOLDEN = Path(__file__).parent / "golden/golden-4711-00112233.00112233445566778899aabbccddeeff"
UID = bytes.fromhex(GOLDEN.name[-32:])
SALT = salt_of(UID)
START_NS = 1_700_000_000_000_000_000
LATER = 2**62
"""A time at which nothing of these files can be expected to change any more."""
HEADER = (Kind.HEADER, 0, b"{}")
OP = (Kind.OP, 0, b"{}")


def put(path, data):
    """Make a file hold ``data``. Not by truncating it first, which makes some disks wait."""
    with path.open("r+b" if path.exists() else "x+b", buffering=0) as file:
        file.write(data)
        file.truncate()


@pytest.fixture
def read(tmp_path):
    """Return a function that reads given bytes as a journal that grew just now, or long ago."""
    path = tmp_path / GOLDEN.name

    def read(data, *, live=False, offset=0, now_ns=None):
        put(path, data)
        grown = START_NS + 100 * 10**9
        os.utime(path, ns=(grown, grown))
        now = now_ns if now_ns is not None else grown + 10**9 if live else LATER
        with JournalReader(path, now_ns=lambda: now) as reader:
            frames = list(reader.frames(offset))
            names = ("gaps", "tail", "stopped", "closed", "offset")
            facts = {name: getattr(reader, name) for name in names}
            return SimpleNamespace(frames=frames, last=reader.last_frame(), **facts)

    return read


def journal(*frames, start=START_NS + 50 * 10**9):
    """Return a journal of (kind, flags, payload), one frame a nanosecond."""
    return file_header(UID) + b"".join(
        frame_bytes(SALT, kind, start + number, payload, flags=flags)
        for number, (kind, flags, payload) in enumerate(frames)
    )


def whole(data):
    """Return the frames of an undamaged journal."""
    raws: list[Any] = []
    end, bad = scan(data, SALT, raws, FILE_HEADER_BYTES)
    assert (end, bad) == (len(data), False)
    ends = [raw[0] for raw in raws[1:]] + [len(data)]
    return [
        Frame(raw[0], after, *raw[1:5], payload_of(data, raw))
        for raw, after in zip(raws, ends, strict=True)
    ]


@pytest.fixture(scope="module")
def golden():
    return GOLDEN.read_bytes()


@pytest.fixture(scope="module")
def open_golden(golden):
    """The golden journal without its CLOSE."""
    return golden[: whole(golden)[-1].offset]


@pytest.mark.once
def test_truncation_at_every_byte(open_golden, read):
    frames = whole(open_golden)
    for size in range(len(open_golden) + 1):
        kept = [frame for frame in frames if frame.end <= size]
        end = kept[-1].end if kept else FILE_HEADER_BYTES
        live = read(open_golden[:size], live=True)
        assert live.frames == kept
        assert (live.gaps, live.tail, live.offset) == ([], None, end)
        assert (live.stopped == "incomplete") == (size != end)
        assert read(open_golden, live=True, offset=live.offset).frames == frames[len(kept) :]
        late = read(open_golden[:size])
        assert (late.frames, late.gaps, late.last) == (kept, [], kept[-1] if kept else None)
        start = end if size >= FILE_HEADER_BYTES else 0
        assert late.tail == (None if size == end else Gap(start, size - start))


@pytest.mark.once
def test_a_flipped_bit_in_every_byte(golden, read):
    frames = whole(golden)
    for at in range(len(golden)):
        damaged = bytearray(golden)
        damaged[at] ^= 1 << (at * 5 % 8)
        found = read(bytes(damaged))
        hit = [frame for frame in frames if frame.offset <= at < frame.end]
        kept = [frame for frame in frames if frame not in hit]
        assert (found.frames, found.last) == (kept, kept[-1]), at
        lost = [Gap(frame.offset, frame.end - frame.offset) for frame in hit]
        if hit == frames[-1:]:
            assert (found.gaps, found.tail) == ([], lost[0])
        else:
            assert (found.gaps, found.tail) == (lost, None)
            assert found.closed


def test_damaged_file_header_is_mended_from_the_name(golden, tmp_path):
    """Whatever became of the first 32 bytes, the frames are read, and the damage is reported."""
    path = tmp_path / GOLDEN.name
    for head in (golden[:16] + bytes(16), os.urandom(32), b"\n" * 32, bytes(32)):
        put(path, head + golden[32:])
        with JournalReader(path, now_ns=lambda: LATER) as reader:
            assert list(reader.frames()) == whole(golden)
            assert reader.damaged_header
            assert reader.uid == UID
    renamed = path.rename(tmp_path / "renamed")
    with pytest.raises(JournalError, match="renamed"):
        JournalReader(renamed)
    put(renamed, golden)
    with JournalReader(renamed) as reader:
        assert list(reader.frames()) == whole(golden)


def test_a_header_may_be_long(tmp_path):
    record = {"positions": {f"host-{number}-01234567": number for number in range(1000)}}
    frame = frame_bytes(SALT, Kind.HEADER, START_NS, json.dumps(record).encode())
    path = tmp_path / GOLDEN.name
    for written, found in ((frame, record), (frame[:-8], {})):
        put(path, file_header(UID) + written)
        with JournalReader(path) as reader:
            assert reader.header() == found


@pytest.mark.parametrize("data", [b"", b"\x89SMK", b"text of another kind" * 100])
def test_files_that_are_no_journals_are_refused_or_empty(tmp_path, data):
    path = tmp_path / "some.file"
    path.write_bytes(data)
    if len(data) >= FILE_HEADER_BYTES:
        with pytest.raises(JournalError, match=r"some\.file"):
            JournalReader(path)
    else:
        with JournalReader(path) as reader:
            assert list(reader.frames()) == []
            assert (reader.header(), reader.last_frame()) == ({}, None)
    with pytest.raises(JournalError, match="missing"):
        JournalReader(tmp_path / "missing")


def test_zero_pages_are_waited_for(read):
    """A network file system shows zeros for pages not there yet; nothing is passed over."""
    rows = [(Kind.OP, 0, json.dumps({"op": n}).encode() * 20) for n in range(100)]
    data = journal(HEADER, *rows)
    holed = data[:4096] + bytes(4096) + data[8192:]
    found = read(holed, live=True)
    assert (found.gaps, found.stopped) == ([], "bad")
    rest = read(data, live=True, offset=found.offset)
    assert found.frames + rest.frames == whole(data)
    late = read(holed)
    assert late.gaps == [Gap(found.offset, late.frames[len(found.frames)].offset - found.offset)]
    assert late.frames == [f for f in whole(data) if f.end <= 4096 or f.offset >= 8192]


def test_a_live_journal_passes_over_old_damage(read):
    data = bytearray(journal(*[OP] * 5))
    frames = whole(bytes(data))
    data[frames[2].offset + 25] ^= 1
    fresh = read(bytes(data), live=True, now_ns=frames[3].t + SETTLE_NS - 10**9)
    assert (len(fresh.frames), fresh.stopped) == (2, "bad")
    old = read(bytes(data), live=True, now_ns=frames[3].t + SETTLE_NS + 1)
    assert (len(old.frames), old.gaps) == (4, [Gap(frames[2].offset, 32)])


def test_a_close_settles_a_journal_and_damage_before_it_is_passed_over(read):
    data = bytearray(journal(*[OP] * 5, (Kind.CLOSE, 0, b"{}")))
    data[100] ^= 1
    found = read(bytes(data), live=True)
    assert len(found.gaps) == 1
    assert (len(found.frames), found.closed, found.stopped) == (5, True, None)


def test_a_dead_process_settles_a_journal(read):
    facts = process_facts()
    alive = journal((Kind.HEADER, 0, json.dumps(facts).encode()), OP) + b"\x01" * 13
    found = read(alive, live=True)
    assert (len(found.frames), found.stopped, found.tail) == (2, "incomplete", None)
    gone = json.dumps(facts | {"start": facts["start"] - 1}).encode()
    found = read(journal((Kind.HEADER, 0, gone), OP) + b"\x01" * 13, live=True)
    assert (len(found.frames), found.tail) == (2, Gap(found.offset, 13))


@pytest.mark.parametrize("settles", ["a frame follows", "it is closed"])
def test_a_read_in_the_middle_of_a_write(tmp_path, monkeypatch, settles):
    last = Kind.CLOSE if settles == "it is closed" else Kind.OP
    data = journal(HEADER, *[(Kind.OP, 0, b"{}" * 99)] * 4, (last, 0, b"{}"))
    path = tmp_path / GOLDEN.name
    path.write_bytes(data)
    torn = whole(data)[3].offset + 60
    real = os.pread
    reads = 0

    def pread(fd, size, offset):
        nonlocal reads
        found = real(fd, size, offset)
        reads += 1
        return found[: max(0, torn - offset)] if reads == 2 else found

    monkeypatch.setattr(os, "pread", pread)
    with JournalReader(path) as reader:
        assert list(reader.frames()) == whole(data)
        assert (reader.gaps, reader.tail, reader.stopped) == ([], None, None)
    assert reads > 3


def test_unknown_kinds_that_may_be_skipped_and_a_newer_minor_version_are_read(read):
    data = bytearray(journal(HEADER, (99, SKIPPABLE, b"new"), OP))
    data[10] = 7
    found = read(bytes(data))
    assert [frame.kind for frame in found.frames] == [1, 99, 2]
    assert (found.stopped, found.gaps) == (None, [])


def test_unknown_kinds_that_may_not_be_skipped(read):
    data = journal(HEADER, (99, 0, b"new"), OP)
    for live in (True, False):
        found = read(data, live=live)
        assert [frame.kind for frame in found.frames] == [1]
        assert (found.stopped, found.gaps, found.tail) == ("newer", [], None)
        assert found.offset == whole(data)[1].offset
        again = read(data, live=live, offset=found.offset)
        assert (again.frames, again.stopped) == ([], "newer")


def test_a_newer_major_version_is_not_read_and_a_damaged_version_byte_is_mended(read):
    newer = bytearray(journal((Kind.HEADER, 0, b'{"format":2}'), OP))
    newer[8] = 2
    assert read(bytes(newer)).stopped == "newer"
    assert read(bytes(newer)).frames == []
    damaged = bytearray(journal((Kind.HEADER, 0, b'{"format":1}'), OP))
    damaged[8] = 2
    assert len(read(bytes(damaged)).frames) == 2


@pytest.mark.parametrize(
    ("kind", "length"),
    [(0, 8), (Kind.OP, 0), (Kind.OP, MAX_PAYLOAD_BYTES + 1), (Kind.OP, 2**32 - 1)],
)
def test_frames_of_kind_0_empty_or_too_long_are_damage(read, kind, length):
    body = struct.pack("<IBBHIq", length, kind, 0, 0x5EA3, 0, START_NS) + bytes(min(length, 64))
    odd = zlib.crc32(body, SALT).to_bytes(4, "little") + body
    good = frame_bytes(SALT, Kind.OP, START_NS, b"{}")
    found = read(journal(HEADER) + odd + bytes(-len(odd) % 8) + good)
    assert [frame.kind for frame in found.frames] == [1, 2]
    assert len(found.gaps) == 1


def test_the_longest_frame_is_read(read):
    data = journal(HEADER, (Kind.OP, 0, b"x" * MAX_PAYLOAD_BYTES), OP)
    assert [len(one.payload) for one in read(data).frames] == [2, MAX_PAYLOAD_BYTES, 2]
    torn = read(data[:-40])
    assert (len(torn.frames), torn.tail.offset) == (1, whole(data)[1].offset)


def test_a_damaged_long_frame_costs_only_itself(read):
    data = bytearray(journal(HEADER, (Kind.OP, 0, os.urandom(3 << 20)), *[OP] * 9))
    data[1 << 20] ^= 1
    found = read(bytes(data))
    assert len(found.frames) == 10
    assert found.gaps == [Gap(64, found.frames[1].offset - 64)]


def test_zlib_bombs_and_rubbish_have_an_empty_payload(read, tmp_path):
    bomb, text = zlib.compress(bytes(64 << 20), 9), zlib.compress(b"{}")
    packed = [bomb, b"no zlib at all", zlib.compress(b"{}" * 100)[:-5], text]
    found = read(journal(HEADER, *((Kind.OP, ZLIB, payload) for payload in packed)))
    assert [frame.payload for frame in found.frames] == [b"{}", b"", b"", b"", b"{}"]
    with JournalReader(tmp_path / GOLDEN.name) as reader:
        assert list(reader.frames_that_begin(b"no zlib")) == []


def nested(depth):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "payload",
    [
        nested(65),
        b"[" * 1_000_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b'["\\\\",' + nested(64) + b"]",
        b'["\\"",' + nested(64) + b"]",
        *(b"", b"\xff", b"{", b"nothing", b"9" * 5000),
    ],
    ids=lambda payload: f"{len(payload)}:{payload[:9]!r}",
)
def test_json_that_is_too_deep_or_none_is_a_value_error(payload):
    assert json.dumps(decode_json(nested(64))) == nested(64).decode()
    with pytest.raises(ValueError, match=r".*"):
        decode_json(payload)


@pytest.mark.parametrize("text", ["[" * 70, "{" * 70 + '"\\', '\\"' + "[" * 70, '"[' * 70])
def test_brackets_in_texts_do_not_count_as_depth(text):
    assert decode_json(json.dumps([text, {text: [text]}]).encode()) == [text, {text: [text]}]


def test_the_last_frame_is_found_before_rubbish(golden, tmp_path):
    frames = whole(golden)
    path = tmp_path / GOLDEN.name
    for rubbish in (b"", b"\xa3\x5e" * 7, os.urandom(100_000), bytes(1 << 20)):
        put(path, golden + rubbish)
        with JournalReader(path) as reader:
            assert reader.last_frame() == frames[-1]


PAYLOADS = st.lists(st.binary(min_size=1, max_size=120), max_size=12)
HARMS = st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=200)), max_size=4)


@settings(max_examples=2 * settings.default.max_examples)
@given(PAYLOADS, HARMS)
def test_any_frames_any_damage(tmp_path_factory, payloads, harms):
    """Each frame that is whole is read, and gaps and tail are all that is between them."""
    data = journal(HEADER, *((77, SKIPPABLE, payload) for payload in payloads))
    damaged = bytearray(data)
    for place, noise in harms:
        at = FILE_HEADER_BYTES + place % (len(data) - FILE_HEADER_BYTES)
        damaged[at : at + len(noise)] = noise[: max(0, len(damaged) - at)]
        if not noise:
            del damaged[at:]
    kept = [
        one for one in whole(data) if damaged[one.offset : one.end] == data[one.offset : one.end]
    ]
    path = tmp_path_factory.getbasetemp() / GOLDEN.name
    put(path, bytes(damaged))
    with JournalReader(path, now_ns=lambda: LATER) as reader:
        assert list(reader.frames()) == kept
        assert reader.last_frame() == (kept[-1] if kept else None)
        spans = [(one.offset, one.end) for one in kept]
        lost = [*reader.gaps, *([] if reader.tail is None else [reader.tail])]
        spans += [(gap.offset, gap.offset + gap.length) for gap in lost]
    end = FILE_HEADER_BYTES
    for begin, until in sorted(spans):
        assert begin == end
        end = until
    assert end == len(damaged)
