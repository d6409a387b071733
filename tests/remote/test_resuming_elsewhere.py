"""A run that exists only on a server that returns no journals is continued like a local one."""

from __future__ import annotations

import math
import time
from contextlib import closing

import msgspec
import pytest

import seamark
from seamark.errors import FamilyError
from seamark.journal.reader import JournalReader
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


def test_a_clock_far_ahead_is_not_followed(begin, keeper, caplog):
    """As with journals on this disk."""
    far = 1_900_000_000 * 10**9
    keeper.openings["p", RUN] = opening(far)
    run = begin(remote=keeper.url, with_id=RUN)
    run["a"] = 1
    run.stop()
    assert header(run)["prior_t"] < far
    assert any("over an hour ahead" in each.getMessage() for each in caplog.records)


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
