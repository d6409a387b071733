"""Several ranks, in real processes under each launcher, compared with a recorder on every rank."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import seamark
from seamark.journal.reader import JournalReader

SCRIPT = str(Path(__file__).with_name("ranks.py"))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]
HOROVODRUN = ["horovodrun", "-np", "2", "--gloo", sys.executable, SCRIPT]
COMMANDS = {
    **{name: [sys.executable, SCRIPT] for name in ("spawn", "fork", "horovod")},
    "torchrun": [sys.executable, *TORCHRUN],
    "horovodrun": [str(Path(sys.executable).with_name(HOROVODRUN[0])), *HOROVODRUN[1:]],
}
RESUMED = [sys.executable, str(Path(__file__).with_name("resumed_ranks.py"))]
FLOAT, TEXT = "float_series", "string_series"

pytestmark = pytest.mark.launches


def launch(command):
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def noted(name, rank):
    """Return what the script noted beside a logger: id, weight, and points by path."""
    found = json.loads(Path(f"{name}-{rank}.json").read_text())
    series = {}
    for path, step, value in found["seen"]:
        series.setdefault(path, []).append((step, value))
    return found["id"], found["weight"], series


def headers(run):
    """Return (rank, whether it owns the state) of each journal."""
    found = []
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            header = reader.header()
        found.append((header["rank"], header["owner"]))
    return sorted(found)


def recorded(run):
    """Return all points of a run by path, those of the profilers left out."""
    found = {}
    for one in run.session.recorded.attributes(""):
        if one.family == FLOAT and "profiling/" not in one.path:
            points = run[one.path].fetch_points()
            found[one.path] = list(zip(points.step.tolist(), points.value.tolist(), strict=True))
    return found


def check_what_rank_zero_says(name, run, backend, launcher):
    assert run["sys/state"].fetch() == "completed"
    assert run["sys/name"].fetch() == name
    assert run["sys/tags"].fetch() == {"rank 0"}
    assert run["parameters"].fetch() == {"lr": 0.1, "rank": 0}
    assert run["train/text"].fetch_values().value.tolist() == ["rank 0"] * 8
    facts = {
        "strategy": backend, "world_size": 2, "nodes": 1, "devices": 2, "accelerator": "cpu",
        "batch_size": 4, "accumulate_grad_batches": 1, "effective_batch_size": 8,
    }  # fmt: skip
    assert run["distributed"].fetch() == facts | {"launcher": launcher}
    assert len(run.session.recorded.view().histograms("weights/" + next(iter(weights(run))))) == 2
    for kind in ("events", "handlers"):
        assert run[f"profiling/{kind}/processing_s"].fetch_points().value.size > 0
        assert run.exists(f"profiling/{kind}/summary")
        assert "%" in run[f"profiling/{kind}/largest_cost"].fetch()


def weights(run):
    return sorted(
        one.path.partition("/")[2]
        for one in run.session.recorded.attributes("weights_norm")
        if one.family == FLOAT
    )


def check_files(name, run, weight):
    """One checkpoint is left of each handler, and it is the one of rank 0."""
    run["net_8.pt"].download("net.pt")
    saved = torch.load("net.pt", weights_only=True)
    assert saved[next(key for key in saved if key.endswith("weight"))][0][0].item() == weight
    assert not run.exists("net_4.pt")
    assert [path.name for path in Path(run.folder.path, "files/checkpoints").iterdir()] == [
        "net_8.pt"
    ]
    (kept,) = Path(f"kept-{name}").iterdir()
    files = [
        one for one in run.session.recorded.attributes("model/checkpoints") if one.family == "file"
    ]
    assert [Path(one.path).name for one in files] == [kept.stem]


@pytest.mark.parametrize(
    ("launcher", "backend", "said"),
    [
        ("spawn", "gloo", "env"),
        ("fork", "gloo", "env"),
        ("torchrun", "gloo", "torchrun"),
        pytest.param("horovod", "horovod", "horovod", marks=pytest.mark.horovod),
        pytest.param("horovodrun", "horovod", "horovod", marks=pytest.mark.horovod),
    ],
)
def test_one_run_for_all_ranks(launcher, backend, said):
    """Whether the logger was made in each worker or before: three loggers, three runs, each whole.

    What rank 0 noted beside is what is recorded, path by path, each point once and in order; rank 1
    has a journal only where every rank is asked to record.
    """
    launch([*COMMANDS[launcher], launcher])
    runs = {}
    for folder in Path(".seamark/p").iterdir():
        if not folder.name.startswith("."):
            run = seamark.init_run(project="p", with_id=folder.name, mode="read-only")
            runs[run["sys/name"].fetch()] = run
    assert sorted(runs) == ["everyone", "inside", "outside"]
    for name, run in runs.items():
        (ours, weight, series), (theirs, _, other_series) = noted(name, 0), noted(name, 1)
        assert ours == run.id
        if name == "everyone":
            assert theirs == run.id
            series |= {f"ranks/1/{path}": points for path, points in other_series.items()}
            texts = run["ranks/1/train/text"].fetch_values().value.tolist()
            assert texts == ["rank 1"] * 8
            for rank in ("", "ranks/1/"):
                whole = run[f"{rank}profiling/step_time_s"].fetch_points()
                own = run[f"{rank}profiling/own_time_s"].fetch_points()
                assert whole.step.tolist() == own.step.tolist()
                assert whole.step[-1] == 8
                assert (own.value > 0).all()
                assert (own.value < whole.value).all()
                assert run.exists(f"{rank}profiling/events/processing_s")
        assert recorded(run) == series
        assert len(series["train/loss"]) == 8
        check_what_rank_zero_says(name, run, backend, said)
        check_files(name, run, weight)
    assert headers(runs["outside"]) == [(0, True)]
    assert headers(runs["inside"]) == [(0, True)]
    assert headers(runs["everyone"]) == [(0, True), (1, False)]


@pytest.mark.parametrize("slow", ["0", "1"])
def test_every_rank_has_each_point_once_after_resuming(slow):
    """Though ranks do not save at the same moment: one is an iteration behind the other."""
    killed = subprocess.run(
        [*RESUMED, slow], check=False, capture_output=True, timeout=240, start_new_session=True
    )
    assert killed.returncode == -9, killed.stderr.decode()
    launch([*RESUMED, slow])
    (folder,) = (path for path in Path(".seamark/p").iterdir() if not path.name.startswith("."))
    run = seamark.init_run(project="p", with_id=folder.name, mode="read-only")
    for rank in ("", "ranks/1/"):
        for when in ("before", "after"):
            points = run[f"{rank}{when}/loss"].fetch_points()
            assert points.step.tolist() == list(range(1, 11)), rank + when
