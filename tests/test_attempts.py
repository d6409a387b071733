"""What a checkpoint keeps of a run, and what readers see after it was loaded."""

from __future__ import annotations

import pickle

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


def test_loading_a_checkpoint_hides_what_came_after_it():
    """And a further one goes on from there; nothing is lost."""
    first = seamark.init_run(**QUIET)
    first.log_metrics({"a": 1.0}, step=1)
    state = first.checkpoint_state()
    first.log_metrics({"a": 1.0}, step=2)
    first.stop()

    second = make_run(**QUIET).resumed(state)
    assert second.id == first.id
    second.log_metrics({"a": 2.0}, step=2)
    later = second.checkpoint_state()
    second.log_metrics({"a": 2.0}, step=3)
    second.stop()
    assert steps(second) == [1, 2, 3]
    assert steps(second, attempt="all") == [1, 2, 2, 3]
    assert steps(second, attempt=0) == [1, 2]

    third = make_run(**QUIET).resumed(later)
    third.log_metrics({"a": 3.0}, step=3)
    third.stop()
    assert third["a"].fetch_points().value.tolist() == [1, 2, 3]
    assert [attempt for attempt, _ in headers(third)] == [0, 1, 2]


def test_one_process_may_go_back():
    """The journal that it was writing is closed, and a new one names the positions."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state()
        run.log_metrics({"a": 1.0}, step=2)
        assert run.resumed(state) is run
        run.log_metrics({"a": 2.0}, step=2)
        assert run["a"].fetch_points().value.tolist() == [1, 2]
        (_, none), (_, positions) = headers(run)
        assert none is None
        assert positions == state["positions"]


def test_copies_belong_to_the_attempt():
    """A spawned rank 0 opens the journal that names the positions."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state()
        run.log_metrics({"a": 1.0}, step=2)
    lazy = make_run(**QUIET).resumed(state)
    copy = pickle.loads(pickle.dumps(lazy))
    copy.log_metrics({"a": 2.0}, step=2)
    copy.stop()
    assert copy["a"].fetch_points().value.tolist() == [1, 2]


def test_nothing_is_on_disk_for_having_resumed(tmp_path):
    """Only the first record opens a journal."""
    with seamark.init_run(**QUIET) as run:
        run["a"] = 1
    before = len(run.folder.journals())
    make_run(**QUIET).resumed(run.checkpoint_state())
    assert len(run.folder.journals()) == before


def test_checkpoint_of_a_rank_that_does_not_record(monkeypatch):
    """It names the same positions where it sees the journals, and hides nothing where not."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        silent = pickle.loads(pickle.dumps(run))
        elsewhere = make_run(**QUIET)
        with monkeypatch.context() as patch:
            patch.setenv("RANK", "1")
            assert silent.checkpoint_state() == run.checkpoint_state()
            assert elsewhere.checkpoint_state()["positions"] is None
        state = run.checkpoint_state() | {"positions": None}
        run.log_metrics({"a": 1.0}, step=2)
    later = make_run(**QUIET).resumed(state)
    later.log_metrics({"a": 2.0}, step=2)
    later.stop()
    assert steps(later) == [1, 2, 2]


@pytest.mark.parametrize("state", [None, 3, {}, {"run": 1, "project": "p", "positions": {}}])
def test_state_that_is_none_is_refused(state):
    """With what was expected."""
    with pytest.raises(ArgumentError, match="expected run, project and positions"):
        make_run(**QUIET).resumed(state)


def test_checkpoint_of_a_restarted_job(monkeypatch):
    """The attempt that the restart began names the positions; it is not one more."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with seamark.init_run(custom_run_id="job", **QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state()
        run.log_metrics({"a": 1.0}, step=2)
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


def test_step_that_was_being_recorded():
    """What comes after a checkpoint was saved, and before the next step, belongs to it."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state(marked=True)
        run.log_metrics({"b": 1.0}, step=1)
        run.mark_checkpoint()
        run.log_metrics({"a": 1.0, "b": 1.0}, step=2)
        later = run.checkpoint_state(marked=True)
        run.log_metrics({"b": 1.0}, step=2)  # and here it is killed
    assert run["sys/id"].fetch() == run.id
    second = make_run(**QUIET).resumed(state)
    second["c"] = 1
    second.stop()
    assert (steps(second), steps(second, "b")) == ([1], [1])
    third = make_run(**QUIET).resumed(later)
    third["c"] = 1
    third.stop()
    assert steps(third, "b", attempt="all") == [1, 2, 2]


def test_mark_in_the_journal_that_goes_on():
    """A journal may reach its length between a checkpoint and the end of its step; so may more."""
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
    second = make_run(**QUIET).resumed(state)
    second["e"] = 1
    second.stop()
    assert [steps(second, path) for path in "abcd"] == [[1]] * 4


def test_run_that_does_not_go_over_names_its_origin(caplog):
    """Which is not found here; where it has to be there, nothing is recorded."""
    state = {"run": "gone0000", "project": "team/x", "positions": {}}
    run = make_run(**QUIET)
    assert run.resumed(state) is run
    assert "not found" in caplog.text
    run["a"] = 1
    run.stop()
    assert run["origin/run_id"].fetch() == "gone0000"
    assert run["origin/project"].fetch() == "team/x"
    with pytest.raises(RunNotFoundError, match="gone0000"):
        make_run(resume="must", **QUIET).resumed(state)


def test_evaluating_is_no_attempt():
    """Also where it has to go over to the run of the checkpoint: nothing of that is hidden."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        state = run.checkpoint_state()
        run.log_metrics({"a": 1.0}, step=2)
        assert run.resumed(state, training=False) is run
    must = make_run(resume="must", **QUIET).resumed(state, training=False)
    must["b"] = 1
    must.stop()
    assert must.id == run.id
    assert [attempt for attempt, _ in headers(must)] == [0, 0]
    assert steps(must) == [1, 2]
