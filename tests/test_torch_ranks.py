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


def points_of(run, path):
    found = run[path].fetch_points()
    return [list(point) for point in zip(found.step.tolist(), found.value.tolist(), strict=True)]


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
    kinds = []
    for folder in Path(".seamark/p").iterdir():
        run = seamark.init_run("p", with_id=folder.name, mode="read-only")
        kind = run["sys/name"].fetch()
        kinds.append(kind)
        (ours, series), (theirs, other_series) = (
            json.loads(Path(f"{kind}-{rank}.json").read_text()) for rank in range(2)
        )
        assert run.id == ours
        assert points_of(run, "train/loss") == series
        assert len(series) == 5
        texts = [point.text for point in run.session.recorded.view().texts("train/text")]
        assert texts == ["rank 0"] * 5
        paths = ("parameters", "sys/tags", "sys/state", "distributed")
        assert [run[path].fetch() for path in paths] == [
            *({"lr": 0.1, "rank": 0}, {kind}, "completed"),
            {"launcher": "torchrun", "world_size": 2},
        ]
        run["note"].download("note.txt")
        assert Path("note.txt").read_text() == "rank 0"
        writers = sorted(header["rank"] for header in headers(run))
        assert (run.exists("ranks"), writers) == (
            (True, [0, 1]) if kind == "everyone" else (False, [0])
        )
        if kind == "everyone":
            assert theirs == ours
            assert points_of(run, "ranks/1/train/loss") == other_series
    assert sorted(kinds) == ["ddp", "everyone", "fsdp", "fully_shard"]
