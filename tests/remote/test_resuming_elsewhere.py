"""A run that exists only on a server that returns no journals is continued like a local one."""

from __future__ import annotations

import math
import shutil
import time
from contextlib import closing

import msgspec
import pytest

import seamark
from seamark.errors import FamilyError
from seamark.journal.reader import JournalReader
from seamark.process.rank import job_key
from seamark.remote.protocol import RemoteError, RunKey
from seamark.remote.schemes import open_remote

RUN = "0123456789abcdef"


def opening(largest_t):
    return {
        "largest_t": largest_t,
        "journals": {"elsewhere-1-00": {"attempt": 2, "owner": True, "lineage": "x"}},
        "families": {"train/loss": "float_series", "note": "atom", "sys/name": "atom"},
        "last_steps": {"train/loss": 41.0},
    }


def header(run):
    with JournalReader(next(iter(run.folder.journals())).path) as reader:
        return reader.header()


def test_families_steps_attempt_and_times_continue(begin, keeper):
    pytest.importorskip("pandas")
    ahead = time.time_ns() + 60 * 10**9
    keeper.openings["p", RUN] = opening(ahead)
    run = begin(remote=keeper.url, with_id=RUN)
    run["train/loss"].append(0.5)
    with pytest.raises(FamilyError):
        run["note"].append("a text")
    run.stop()
    assert header(run)["attempt"] == 2
    assert header(run)["prior_t"] == ahead
    with JournalReader(next(iter(run.folder.journals())).path) as reader:
        assert all(frame.t > ahead for frame in reader.frames())
    again = begin(with_id=RUN, mode="read-only")
    assert list(again["train/loss"].fetch_values()["step"]) == [42]


@pytest.mark.parametrize(
    "odd",
    [
        {"largest_t": "soon"},
        {"journals": {"a": {"attempt": -5}, "b": 7}},
        {"families": {"x": ["atom"], "y": "float_series"}},
        {"last_steps": {"y": math.inf, "x": None}},
        {"trained": 3},
    ],
    ids="".join,
)
def test_odd_answers_are_ignored(begin, keeper, odd):
    keeper.openings["p", RUN] = opening(1) | odd
    run = begin(remote=keeper.url, with_id=RUN)
    run["y"].append(1.0)
    run.stop()
    assert header(run)["attempt"] == 0


def test_an_answer_that_lacks_a_fact_is_refused(keeper):
    """A run without journals would count as copied."""
    told = msgspec.msgpack.encode({"answer": opening(1)})
    keeper.openings["p", RUN] = opening(1)
    keeper.meddle = lambda _, path, __: (200, told, {}) if path.endswith("/opening") else None
    with (
        closing(open_remote(keeper.url, None)) as remote,
        pytest.raises(RemoteError, match="missing"),
    ):
        remote.opening(RunKey("p", RUN), 5)


def test_a_restart_on_an_empty_disk_begins_an_attempt(begin, keeper, monkeypatch):
    """The launcher started the job again on another machine."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    told = opening(1)
    told["journals"]["elsewhere-1-00"] |= {"job": job_key(), "restarts": 0}
    keeper.openings["p", RUN] = told
    run = begin(remote=keeper.url, custom_run_id="mine", with_id=None)
    run.stop()
    keeper.openings["p", run.id] = told
    keeper.journals.clear()  # of an older release, which does not return them
    shutil.rmtree(run.folder.path)
    again = begin(remote=keeper.url, custom_run_id="mine")
    again["a"] = 1
    again.stop()
    assert (again.id, header(again)["attempt"]) == (run.id, 3)
    # Somebody who only adds something is no restart of the training.
    added = begin(remote=keeper.url, with_id=RUN, owner=False)
    added["b"] = 1
    added.stop()
    assert header(added)["attempt"] is None


def test_a_checkpoint_continues_a_run_that_only_the_remote_has(begin, keeper):
    """As after a machine was replaced."""
    pytest.importorskip("pandas")
    keeper.openings["p", RUN] = opening(1)
    fresh = begin(remote=keeper.url)
    state = {"run": RUN, "project": "p", "positions": {"elsewhere-1-00": 5000}}
    run = fresh.resumed(state)
    run["train/loss"].append(0.5)
    run.stop()
    assert run.id == RUN
    assert header(run)["attempt"] == 3
    assert header(run)["positions"] == {"elsewhere-1-00": 5000}
    again = begin(with_id=RUN, mode="read-only")
    assert list(again["train/loss"].fetch_values()["step"]) == [42]
    # An unknown run is a new one.
    other = begin(remote=keeper.url)
    assert other.resumed({**state, "run": "fedcba9876543210"}) is other


def test_records_of_projects_are_sent(keeper, tmp_path):
    with seamark.init_project("p", root=tmp_path / "root", remote=keeper.url) as project:
        project["description"] = "what this is about"
    kept = keeper.journals["p", ".project"]
    assert len(kept) == 1
    assert b"what this is about" in bytes(next(iter(kept.values())))
    silent = seamark.init_project("q", root=tmp_path / "root", remote=keeper.url, mode="offline")
    silent["description"] = "x"
    silent.stop()
    assert ("q", ".project") not in keeper.journals
