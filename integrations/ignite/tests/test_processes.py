"""Several ranks, in real processes that Ignite starts and that talk through gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import seamark

SCRIPT = Path(__file__).with_name("ranks.py")


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("save_on_rank", [0, 1])
def test_one_run_for_all_ranks(where, save_on_rank):
    """Whether the logger was made in each worker or handed to them, and whichever rank saves."""
    command = [sys.executable, str(SCRIPT), where, str(save_on_rank)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (folder,) = Path(".seamark/p").iterdir()
    if where == "outside":
        assert folder.name in done.stdout
    run = seamark.init_run(project="p", with_id=folder.name, mode="read-only")
    assert run["t/loss"].fetch_points().value.tolist() == [1, 2, 3, 4]
    assert run["t/text"].fetch_values().value.tolist() == ["rank 0"] * 4
    assert run["parameters/rank"].fetch() == 0
    assert run["sys/state"].fetch() == "completed"
    run["net_4.pt"].download("net.pt")
    assert torch.load("net.pt", weights_only=True)["weight"].item() == save_on_rank
    assert not run.exists("net_2.pt")
    assert [path.name for path in Path(folder, "files/checkpoints").iterdir()] == ["net_4.pt"]
