from __future__ import annotations

import struct
import zlib

import pytest

from seamark.journal.format import (
    MAX_PAYLOAD_BYTES,
    Kind,
    dump_json,
    file_header,
    frame_bytes,
    parse_file_header,
    salt_of,
)

UID = bytes(range(16))


def test_frame_over_the_limit_is_refused():
    """No frame is longer than 16 MiB, and the error says how long it would have been."""
    with pytest.raises(ValueError, match=str(MAX_PAYLOAD_BYTES + 1)):
        frame_bytes(0, Kind.OP, 1, bytes(MAX_PAYLOAD_BYTES + 1))


def test_file_header_bytes():
    """The first 32 bytes are those of table A: magic, version 1.0, zero, uid."""
    expected = bytes.fromhex("89534d4b0d0a1a0a0100000000000000") + UID
    assert file_header(UID) == expected
    assert parse_file_header(expected) == (1, 0, UID)


@pytest.mark.parametrize("at", [0, 4, 5, 7, 12, 15])
def test_damaged_file_header_is_seen(at):
    damaged = bytearray(file_header(UID))
    damaged[at] ^= 0x20
    assert parse_file_header(bytes(damaged)) is None
    assert parse_file_header(file_header(UID)[:31]) is None


def test_frame_bytes():
    """A frame is crc, length, kind, flags, mark, aux, t and the payload padded to 8 with zeros."""
    body = bytes.fromhex("030000000201a35e070000008877665544332211") + b"abc" + bytes(5)
    expected = struct.pack("<I", zlib.crc32(body, zlib.crc32(UID))) + body
    made = frame_bytes(salt_of(UID), 2, 0x1122334455667788, b"abc", flags=1, aux=7)
    assert made == expected
    assert len(made) == 32
    assert made != frame_bytes(salt_of(bytes(16)), 2, 0x1122334455667788, b"abc", flags=1, aux=7)
    assert [len(frame_bytes(0, 2, 1, bytes(length))) for length in (1, 7, 8, 9)] == [32, 32, 32, 40]


def test_json_is_strict_compact_utf8():
    assert dump_json({"a": [1, "ä\u2028"]}) == '{"a":[1,"ä\u2028"]}'.encode()
    with pytest.raises(ValueError, match=r".*"):
        dump_json(float("nan"))
