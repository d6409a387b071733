"""The run that a restarted job goes on with: one row for each sentence, of journals that it left.

The journals are written by hand; their headers name the job as `seamark.process.rank` does.
"""

# ruff: noqa: E501 - a row of a table is one line

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from journal_builder import START, JournalBuilder

from seamark.journal.folder import RunFolder
from seamark.opening.restarts import Attempt, JobRun, restart_of
from seamark.process.liveness import process_facts

FOLD, OTHER_FOLD, NEXT = "argv-0", "argv-1", {"restarts": 1, "attempt": 1}
MINE = JobRun(FOLD, "MainProcess", 0)
AGAIN = {"SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": "1"}
TWICE = {**AGAIN, "SLURM_RESTART_COUNT": "2"}
TASK = {**AGAIN, "SLURM_JOB_ID": "18", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}
ME = {fact: process_facts()[fact] for fact in ("host", "pid", "start")}
NOTHING = (None, None)

Left = tuple[str, dict[str, Any]]


def left(run, **facts):
    """Describe a journal of a run of this job, begun by the process that is restarted."""
    given = {"job": "slurm:17", "restarts": 0, "rank": 0, **MINE._asdict(), **facts}
    return run, given


# fmt: off
ROWS: tuple[tuple[str, dict[str, str], JobRun, list[Left], tuple[str | None, int | None]], ...] = (
    ("a restarted job goes on with the run that it recorded", AGAIN, MINE, [left("a")], ("a", 1)),
    ("a job that is restarted once more begins the attempt after the newest", TWICE, MINE, [left("a"), left("a", **NEXT)], ("a", 2)),
    ("a job that was not restarted begins a run", {"SLURM_JOB_ID": "17"}, MINE, [left("a")], NOTHING),
    ("another job begins a run", AGAIN, MINE, [left("a", job="slurm:18")], NOTHING),
    ("a task of an array goes on with its own run", TASK, MINE, [left("a", job="slurm:17_3"), left("b", job="slurm:17_4")], ("a", 1)),
    ("another task of the array, another array and the job itself are left alone",
        TASK, MINE, [left("a", job="slurm:17_4"), left("b", job="slurm:19_3"), left("c")], NOTHING),
    ("runs of one process are told apart by their order", AGAIN, MINE._replace(ordinal=1), [left("a"), left("b", ordinal=1), left("c", ordinal=2)], ("b", 1)),
    ("runs of a process and of its children are told apart", AGAIN, MINE._replace(process="Process-1"), [left("a"), left("b", process="Process-1")], ("b", 1)),
    ("scripts of one job are told apart by their command lines", AGAIN, MINE, [left("a"), left("b", argv=OTHER_FOLD)], ("a", 1)),
    ("a command line that changed goes on with its own run from then on", TWICE, MINE, [left("a", argv=OTHER_FOLD), left("b", restarts=1)], ("b", 1)),
    ("the newest run is the one that began last, whatever its id", AGAIN, MINE, [left("v"), left("a"), left("k")], ("k", 1)),
    ("a run that this restart goes on with already is not taken a second time", AGAIN, MINE, [left("a"), left("b"), left("b", **NEXT)], ("a", 1)),
    ("a run that this process itself goes on with already is found again", AGAIN, MINE, [left("a"), left("a", **NEXT, **ME)], ("a", 1)),
    ("once all are taken, another run begins", AGAIN, MINE, [left("a"), left("a", **NEXT)], NOTHING),
    ("a rank joins the attempt that another rank has begun", AGAIN, MINE, [left("a"), left("a", rank=1, **NEXT)], ("a", 1)),
)
# fmt: on


@pytest.mark.parametrize(
    ("environment", "job_run", "journals", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in ROWS],
)
def test_restart(environment, job_run, journals, expected, tmp_path, monkeypatch):
    """What is gone on with is what the sentence of its row promises."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    save(tmp_path, journals)
    run, attempt = expected
    folder = None if run is None else RunFolder(tmp_path, "p", run)
    found = restart_of(RunFolder(tmp_path, "p", "new"), job_run)
    assert found == (folder, None if attempt is None else Attempt(attempt, None))


def test_a_run_that_was_named_begins_an_attempt_if_the_job_recorded_it(tmp_path, monkeypatch):
    """By whatever command line; after all attempts that the run knows."""
    for name, value in AGAIN.items():
        monkeypatch.setenv(name, value)
    for run, journals, begun in (
        ("a", [left("a", argv=OTHER_FOLD)], Attempt(1, None)),
        ("b", [left("b", job="another"), left("b", job="another", attempt=1)], None),
        ("c", [left("c", job="another", attempt=4), left("c")], Attempt(5, None)),
    ):
        save(tmp_path, journals)
        folder = RunFolder(tmp_path, "p", run)
        assert restart_of(folder, None) == (folder, begun)


def save(root, journals):
    """Write journals, each a second later than the one before."""
    counts: dict[str, int] = defaultdict(int)
    for number, (run, facts) in enumerate(journals):
        counts[run] += 1
        builder = JournalBuilder(f"w{counts[run]}", t=START + number * 10**9, **facts)
        builder.save(RunFolder(root, "p", run))
