from __future__ import annotations

import pytest

from seamark.journal.format import MAX_PAYLOAD_BYTES, Kind, dump_json, frame_bytes


def test_a_frame_over_the_limit_is_refused_with_its_length():
    with pytest.raises(ValueError, match=str(MAX_PAYLOAD_BYTES + 1)):
        frame_bytes(0, Kind.OP, 1, bytes(MAX_PAYLOAD_BYTES + 1))


def test_json_is_strict_compact_utf8():
    assert dump_json({"a": [1, "ä\u2028"]}) == '{"a":[1,"ä\u2028"]}'.encode()
    with pytest.raises(ValueError, match=r".*"):
        dump_json(float("nan"))
