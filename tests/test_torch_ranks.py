"""`init_run` in plain torch trainings, without Lightning or Ignite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from journals import headers

import seamark

pytest.importorskip("torch")
SCRIPT = str(Path(__file__).with_name("torch_ranks.py"))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]


def noted(kind, rank):
    run, points = json.loads(Path(f"{kind}-{rank}.json").read_text())
    return run, [tuple(point) for point in points]


def points_of(run, path):
    found = run[path].fetch_points()
    return list(zip(found.step.tolist(), found.value.tolist(), strict=True))


def writers(run):
    return sorted(header["rank"] for header in headers(run))


@pytest.mark.timeout(300)
@pytest.mark.once
@pytest.mark.slow
def test_one_run_for_each_training_under_torchrun():
    """DDP, FSDP and fully_shard: rank 0 records, and no training asks which rank it is.

    With ``ranks="all"`` rank 1's series stand beside, and what both say once is rank 0's.
    """
    done = subprocess.run(
        [sys.executable, *TORCHRUN], check=False, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = {}
    for folder in Path(".seamark/p").iterdir():
        run = seamark.init_run("p", with_id=folder.name, mode="read-only")
        runs[run["sys/name"].fetch()] = run
    assert sorted(runs) == ["ddp", "everyone", "fsdp", "fully_shard"]
    for kind, run in runs.items():
        (ours, series), (theirs, other_series) = noted(kind, 0), noted(kind, 1)
        assert run.id == ours
        assert points_of(run, "train/loss") == series
        assert len(series) == 5
        assert [point.text for point in run.session.recorded.view().texts("train/text")] == [
            "rank 0"
        ] * 5
        assert run["parameters"].fetch() == {"lr": 0.1, "rank": 0}
        assert run["sys/tags"].fetch() == {kind}
        assert run["sys/state"].fetch() == "completed"
        assert run["distributed"].fetch() == {"launcher": "torchrun", "world_size": 2}
        run["note"].download("note.txt")
        assert Path("note.txt").read_text() == "rank 0"
        if kind == "everyone":
            assert theirs == ours
            assert points_of(run, "ranks/1/train/loss") == other_series
            assert writers(run) == [0, 1]
        else:
            assert not run.exists("ranks")
            assert writers(run) == [0]
