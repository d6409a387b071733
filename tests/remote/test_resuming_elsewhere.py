"""A run that exists only elsewhere is gone on with as if it were here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seamark.errors import FamilyError, RunNotFoundError
from seamark.journal.reader import JournalReader
from seamark.reading.wire import encode

Begin = Callable[..., Any]
RUN = "0123456789abcdef"
FAR = 1_900_000_000_000_000_000
"""A time some years ahead; nanoseconds since the Unix epoch."""


def opening(largest_t: int) -> dict[str, Any]:
    return {
        "largest_t": encode(largest_t),
        "journals": {"elsewhere-1-00": {"attempt": 2, "owner": True, "lineage": "x"}},
        "families": {"train/loss": "float_series", "note": "atom", "sys/name": "atom"},
        "last_steps": {"train/loss": 41},
        "failed": False,
    }


def header(run: Any) -> dict[str, Any]:
    with JournalReader(next(iter(run.folder.journals())).path) as reader:
        return reader.header()


def test_families_steps_attempt_and_times_go_on(begin: Begin, keeper: Any) -> None:
    """What is recorded now follows what is there."""
    import time

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


def test_a_clock_far_ahead_is_not_followed(
    begin: Begin, keeper: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As with journals on this disk: one machine's wrong clock stays its own."""
    keeper.openings["p", RUN] = opening(FAR)
    run = begin(remote=keeper.url, with_id=RUN)
    run["a"] = 1
    run.stop()
    assert header(run)["prior_t"] < FAR
    assert any("over an hour ahead" in each.getMessage() for each in caplog.records)


def test_a_run_that_nobody_knows_is_not_found(begin: Begin, keeper: Any) -> None:
    """A wrong id is a person's mistake, also with a remote."""
    with pytest.raises(RunNotFoundError):
        begin(remote=keeper.url, with_id=RUN)


def test_without_an_answer_recording_goes_on(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """Training comes first; one line says what is not known."""
    run = begin(remote="http://127.0.0.1:9", with_id=RUN)
    run["a"] = 1
    run.stop(seconds=0)
    told = [each for each in caplog.records if "exists elsewhere" in each.getMessage()]
    assert [each.levelno for each in told] == [logging.WARNING]
    assert run.id == RUN


def test_a_run_on_this_disk_asks_nobody(begin: Begin, keeper: Any, tmp_path: Path) -> None:
    """What lies here says it all."""
    first = begin(mode="offline")
    first.stop()
    run = begin(remote=keeper.url, with_id=first.id)
    run["a"] = 1
    run.stop()
    assert not any("opening" in path for _, path in keeper.asked)


def test_odd_answers_are_taken_for_nothing(begin: Begin, keeper: Any) -> None:
    """What comes from the wire is a stranger's."""
    keeper.openings["p", RUN] = {
        "largest_t": "soon",
        "journals": {"a": {"attempt": -5}, "b": 7},
        "families": {"x": ["atom"], "y": "float_series"},
        "last_steps": {"y": 1e400, "x": None},
    }
    run = begin(remote=keeper.url, with_id=RUN)
    run["y"].append(1.0)
    run.stop()
    assert header(run)["attempt"] == 0
