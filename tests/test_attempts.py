"""What a checkpoint keeps of a run, what readers see after it was loaded, and jobs that restart."""

from __future__ import annotations

from pathlib import Path

import journals
import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.run.run import make_run


def steps(run, path="a", attempt="latest"):
    return run[path].fetch_points(attempt=attempt).step.tolist()


def headers(run):
    found = [(header["attempt"], header["positions"]) for header in journals.headers(run)]
    return sorted(found, key=lambda one: one[0])


def went_on(run):
    run.log_metrics({"a": 1.0}, step=1)
    state = run.checkpoint_state()
    run.log_metrics({"a": 1.0}, step=2)
    return state


def resumed(state, **metrics):
    run = make_run(**QUIET).resumed(state)
    run.log_metrics(metrics or {"c": 1.0}, step=2)
    run.stop()
    return run


def test_loading_a_checkpoint_hides_what_came_after_it():
    with seamark.init_run(**QUIET) as first:
        state = went_on(first)
    begun = seamark.init_run(**QUIET)
    second = begun.resumed(state)  # what had only begun goes into the trash
    assert (second.id, begun.get_state()) == (first.id, "stopped")
    second.log_metrics({"a": 2.0}, step=2)
    later = second.checkpoint_state()
    second.log_metrics({"a": 2.0}, step=3)
    second.stop()
    assert seamark.init_project("default").fetch_runs_table()["sys/id"] == [first.id]
    assert steps(second) == [1, 2, 3]
    assert steps(second, attempt="all") == [1, 2, 2, 3]
    assert steps(second, attempt=0) == [1, 2]

    third = make_run(**QUIET).resumed(later)
    third.log_metrics({"a": 3.0}, step=3)
    third.stop()
    assert third["a"].fetch_points().value.tolist() == [1, 2, 3]
    assert third["a"].fetch_points().attempt.tolist() == [0, 1, 2]
    assert headers(third) == [(0, None), (1, state["positions"]), (2, later["positions"])]


@pytest.mark.parametrize("state", [None, 3, {}, {"run": 1, "project": "p", "positions": {}}])
def test_a_state_that_is_no_checkpoint_is_refused(state):
    with pytest.raises(ArgumentError, match="expected run, project and positions"):
        make_run(**QUIET).resumed(state)


def test_a_restarted_job_that_loads_a_checkpoint_begins_one_attempt(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with seamark.init_run(custom_run_id="job", **QUIET) as run:
        state = went_on(run)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with seamark.init_run(custom_run_id="job", **QUIET) as run:
        run.resumed(state)
        run.log_metrics({"a": 2.0}, step=2)
        state = run.checkpoint_state()
        run.log_metrics({"a": 2.0}, step=3)
        run.resumed(state)  # one of its own, however: what it recorded since is hidden too
        run.log_metrics({"a": 3.0}, step=3)
        assert [attempt for attempt, _ in headers(run)] == [0, 1, 1, 2]
        assert run["a"].fetch_points().value.tolist() == [1, 2, 3]


def test_the_step_in_which_a_checkpoint_was_saved_belongs_to_it():
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state(marked=True)
        run.log_metrics({"b": 1.0}, step=1)
        run.mark_checkpoint()
        run.log_metrics({"a": 1.0, "b": 1.0}, step=2)
        later = run.checkpoint_state(marked=True)
        run.log_metrics({"b": 1.0}, step=2)  # and here it is killed
    second = resumed(state)
    assert (steps(second), steps(second, "b")) == ([1], [1])
    assert steps(resumed(later), "b", attempt="all") == [1, 2, 2]


def test_journals_may_end_between_a_checkpoint_and_its_mark():
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state(marked=True)
        for path in ("b", "c", "d"):
            run.session.recorder.writer.rotate()
            run.log_metrics({path: 1.0}, step=1)
        run.mark_checkpoint()
        for path in ("a", "b"):
            run.log_metrics({path: 1.0}, step=2)
            run.session.recorder.writer.rotate()
    second = resumed(state, e=1.0)
    assert [steps(second, path) for path in "abcd"] == [[1]] * 4


def test_a_run_whose_checkpoint_is_of_a_run_not_found_names_its_origin(caplog):
    state = {"run": "gone0000", "project": "team/x", "positions": {}}
    run = make_run(**QUIET)
    assert run.resumed(state) is run
    assert "not found" in caplog.text
    run["a"] = 1
    run.stop()
    assert run["origin"].fetch() == {"run_id": "gone0000", "project": "team/x"}
    with pytest.raises(RunNotFoundError, match="gone0000"):
        make_run(resume="must", **QUIET).resumed(state)


def test_evaluating_a_checkpoint_is_no_attempt():
    """Also where it has to go over to the run of the checkpoint: nothing of that is hidden."""
    with seamark.init_run(**QUIET) as run:
        state = went_on(run)
        assert run.resumed(state, training=False) is run
    must = make_run(resume="must", **QUIET).resumed(state, training=False)
    must["b"] = 1
    must.stop()
    assert must.id == run.id
    assert [attempt for attempt, _ in headers(must)] == [0, 0]
    assert steps(must) == [1, 2]


PROGRAM = """
import os, signal
import seamark

run = seamark.init_run(capture=dict(git=False, packages=False, signals=False))
run.log_metrics({"a": 1.0}, step=int(os.environ["VALUE"]))
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SLURM = {"SLURM_JOB_ID": "17"}


@pytest.fixture
def start(forks):
    def start(environment, value, *arguments):
        more = {**environment, "VALUE": str(value)}
        (done,) = forks.run(PROGRAM, *arguments, name="train.py", environments=[more])
        return done.stdout.strip()

    return start


def again(count):
    return {**SLURM, "SLURM_RESTART_COUNT": str(count)}


def test_a_restarted_job_goes_on_with_its_run(start):
    """Nothing is hidden: no checkpoint says from where it goes on."""
    first = start(SLURM, 1)
    assert start(again(1), 2) == first
    assert start(again(2), 3) == first
    assert [one.name for one in Path(".seamark/default").iterdir()] == [first]
    run = seamark.init_run(with_id=first, mode="read-only")
    assert run["a"].fetch_points().step.tolist() == [1, 2, 3]
    assert sorted(header["attempt"] for header in journals.headers(run)) == [0, 1, 2]
    assert start(again(2), 3, "--fold=1") != first  # another command line
