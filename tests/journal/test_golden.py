"""A journal that was once written is read by every later version."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from seamark import init_run

V1 = Path(__file__).parent / "golden/golden-4711-00112233.00112233445566778899aabbccddeeff"
START_NS = 1_700_000_000_000_000_000


def test_version_1_is_read(tmp_path):
    folder = tmp_path / "golden/one/goldenrun0000001/journal"
    folder.mkdir(parents=True)
    shutil.copy(V1, folder)
    run = init_run("golden/one", with_id="goldenrun0000001", mode="read-only", root=tmp_path)
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
