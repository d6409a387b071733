"""Real processes under a launcher and without one, compared with what each of them noted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import seamark

SCRIPT = str(Path(__file__).with_name("training.py"))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]


def launch(*words):
    return subprocess.run(
        [sys.executable, *words], check=False, capture_output=True, text=True, timeout=280
    )


def the_run():
    """Return the only run there is, for reading."""
    [folder] = [one for one in Path(".seamark/p").iterdir() if not one.name.startswith(".")]
    return seamark.init_run(project="p", with_id=folder.name, mode="read-only")


def test_two_processes_record_one_run_once():
    """What the main process noted is recorded, each point once; the other has no journal."""
    done = launch(*TORCHRUN)
    assert done.returncode == 0, done.stdout + done.stderr
    run = the_run()
    noted = [json.loads(Path(f"{rank}.json").read_text()) for rank in (0, 1)]
    assert noted[0] == noted[1]
    points = run["train/loss"].fetch_points()
    assert points.step.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert points.value.tolist() == pytest.approx(noted[0])
    assert len(run.folder.journals()) == 1
    assert run["parameters"].fetch() == {"lr": 0.1, "rank": 0}
    assert run["sys/tags"].fetch() == {"rank 0"}
    assert run["sys/state"].fetch() == "completed"
    facts = run["distributed"].fetch()
    assert (facts["strategy"], facts["world_size"]) == ("gloo", 2)


def test_an_exception_fails_the_run():
    """It is seen as without us, and recorded with what was logged before."""
    done = launch(SCRIPT, "raises")
    assert done.returncode == 1
    assert "ValueError: an odd batch" in done.stderr
    run = the_run()
    assert run["sys/state"].fetch() == "failed"
    assert "an odd batch" in run.errors[0].message
    assert run["train/loss"].fetch_points().value.tolist() == json.loads(Path("0.json").read_text())
