"""Nothing that returned is lost when a process dies."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from kill_seed import SEED

from seamark import init_run
from seamark.journal.folder import RunFolder, hashed_run_id
from seamark.journal.reader import JournalReader, decode_json

KILLED = Path(__file__).with_name("killed.py")
# `nox -s kill` asks for 1,000.
KILLS = int(os.environ.get("SEAMARK_KILLS", "10"))


def recorded(root, run_id, paths):
    if not RunFolder(root, "killed", hashed_run_id("killed", run_id)).journal_dir.is_dir():
        return {"series": {}, "texts": [], "atoms": {}, "tags": set()}
    run = init_run("killed", root=root, custom_run_id=run_id, mode="read-only")
    there = {one.path: one for one in run.session.recorded.attributes()}
    series = {}
    for path in paths & set(there):
        points = run[path].fetch_points()
        series[path] = list(zip(points.step.tolist(), points.value.tolist(), strict=True))
    return {
        "series": series,
        "texts": [one.text for one in run.session.recorded.view().texts("log")],
        "atoms": {path: one.value for path, one in there.items() if path.startswith("params/")},
        "tags": run["sys/tags"].fetch() if "sys/tags" in there else set(),
    }


@pytest.mark.once
@pytest.mark.timeout(max(120, KILLS))
def test_sigkill_loses_no_call_that_returned(tmp_path):
    """SIGKILL at random moments: every call that returned is read back, and at most one more."""
    told = subprocess.run(
        [sys.executable, str(KILLED), str(tmp_path), str(KILLS), str(SEED)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=max(100, KILLS),
    ).stdout
    kills = [json.loads(line) for line in told.splitlines()]
    assert len(kills) == KILLS
    work = runpy.run_path(str(KILLED))
    paths = {*work["PATHS"], "history"}
    for kill in kills:
        model = work["Model"]()
        made = list(islice(work["calls"](kill["seed"]), kill["returned"] + 1))
        for call in made[:-1]:
            model.take(*call)
        found = recorded(tmp_path, kill["run"], paths)
        if found != model.state():
            # The call that was under way may be there, whole.
            model.take(*made[-1])
            assert found == model.state(), f"SEAMARK_KILL_SEED={SEED}: {kill}"
        check_journals(tmp_path, kill["run"])
    points = sum(kill["returned"] for kill in kills)
    print(f"\n{KILLS} kills, seed {SEED}: {points} calls that had returned were read back, 0 lost")  # noqa: T201


def check_journals(root, run_id):
    """Assert that journals of a killed process are whole but for a torn end of the last one."""
    folder = RunFolder(root, "killed", hashed_run_id("killed", run_id))
    torn = []
    for journal in folder.journals():
        with JournalReader(journal.path) as reader:
            times = [frame.t for frame in reader.frames()]
            assert reader.gaps == []
            assert times == sorted(set(times))
            if reader.tail is not None:
                torn.append(reader)
            elif times and not reader.closed:
                assert decode_json(next(reader.frames()).payload)["run"] == folder.run
    assert len(torn) <= 1
