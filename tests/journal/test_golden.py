"""A journal that was once written is read by every later version."""

from __future__ import annotations

import json
import math
import runpy
import shutil
import struct
from itertools import pairwise
from pathlib import Path

from seamark import init_run
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader, decode_json

GOLDEN = Path(__file__).parent / "golden"
V1 = GOLDEN / "golden-4711-00112233.00112233445566778899aabbccddeeff"
START_NS = 1_700_000_000_000_000_000


def test_golden_file_is_what_the_tables_say():
    made = runpy.run_path(str(GOLDEN / "generate_v1.py"))
    assert V1.read_bytes() == made["journal"]()
    assert V1.name == made["NAME"]


def test_version_1_frames():
    with JournalReader(V1) as reader:
        frames = list(reader.frames())
        assert (reader.gaps, reader.tail, reader.stopped, reader.closed) == ([], None, None, True)
        assert reader.offset == reader.size == V1.stat().st_size
        assert reader.uid == bytes.fromhex("00112233445566778899aabbccddeeff")
        assert reader.header()["project"] == "golden/one"
        assert not reader.damaged_header
    assert [frame.kind for frame in frames] == [
        *(1, 2, 2, 2, 2, 2, 3, 3, 4, 5, 5, 5, 3, 6, 6, 3, 7, 7, 8, 9, 10, 200, 10, 2, 2, 2, 11)
    ]
    assert [frame.t for frame in frames] == [START_NS + n * 10**9 for n in range(len(frames))]
    assert frames[0].offset == 32
    assert all(a.end == b.offset for a, b in pairwise(frames))

    assert decode_json(frames[3].payload)["atoms"]["many/199"] == ["int", 199]
    assert frames[6].payload == b"\0\0\0\0train/loss"
    assert struct.unpack("<III", frames[8].payload) == (1, 0, 1)
    assert (frames[9].aux, struct.unpack("<3d", frames[9].payload)) == (1, (0, 0.5, 1))
    assert frames[20].payload == b""
    assert json.loads(frames[-1].payload) == {"reason": "stop", "dropped": {"disk": 3}}
    assert frames[-1].kind == Kind.CLOSE


def test_version_1_is_read(tmp_path):
    folder = tmp_path / "root/golden/one/goldenrun0000001/journal"
    folder.mkdir(parents=True)
    shutil.copy(V1, folder)
    given = {"with_id": "goldenrun0000001", "mode": "read-only", "root": tmp_path / "root"}
    run = init_run("golden/one", **given)
    expected = {
        "parameters/lr": 0.001,
        "parameters/big": 2**70,
        "parameters/note": "Grüße \\udc80",
        "parameters/on": True,
        "parameters/worst": -math.inf,
        "many/007": 7,
        "sys/tags": {"a"},
        "sys/state": "completed",
        "log": "zweite",
        "train/Größe": 4.0,
    }
    assert {path: run[path].fetch() for path in expected} == expected

    loss = run["train/loss"].fetch_points()
    assert loss.step.tolist() == [0, 1, 1, 7.5]
    assert str(loss.value.tolist()) == "[0.5, nan, 0.25, 0.125]"
    assert loss.time_ns.tolist() == [
        START_NS + 9 * 10**9,
        START_NS + 10 * 10**9,
        1_500_000_000 * 10**9,
        START_NS + 13 * 10**9,
    ]
    accuracy = run["val/acc"].fetch_points()
    assert accuracy.step.tolist() == [7.5, 9]
    assert accuracy.value.tolist() == [0.9, 0.95]
    assert accuracy.time_ns.tolist()[1] == 1_600_000_000_123_456_789
    history = run["history"].fetch_points()
    assert sorted(zip(history.step, history.value, strict=True)) == [
        *[(0, 1.5), (0.5, math.inf), (1, -2.5), (1, 3.5), (2, 4.5)]
    ]
    assert not run.exists("parameters/none")
    layers = run["parameters/layers"].fetch()
    assert layers[:2] == [64, 128]
    assert math.isnan(layers[2])
