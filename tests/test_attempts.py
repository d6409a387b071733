"""What a checkpoint keeps of a run, and what readers see after it was loaded."""

from __future__ import annotations

import pickle

import pytest

import seamark
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.reader import JournalReader
from seamark.run import Run

QUIET = dict.fromkeys(
    ("capture_git", "capture_packages", "capture_script", "capture_host", "capture_signals"), False
)


def steps(run, path="a", attempt="latest"):
    return run[path].fetch_points(attempt=attempt).step.tolist()


def headers(run):
    found = []
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            header = reader.header()
            found.append((header["attempt"], header["positions"]))
    return sorted(found, key=lambda one: one[0])


def test_loading_a_checkpoint_hides_what_came_after_it():
    """And a further one goes on from there; nothing is lost."""
    first = seamark.init_run(**QUIET)
    first.log_metrics({"a": 1.0}, step=1)
    state = first.checkpoint_state()
    first.log_metrics({"a": 1.0}, step=2)
    first.stop()

    second = Run._create(lazy=True, **QUIET).resumed(state)
    assert second.id == first.id
    second.log_metrics({"a": 2.0}, step=2)
    later = second.checkpoint_state()
    second.log_metrics({"a": 2.0}, step=3)
    second.stop()
    assert steps(second) == [1, 2, 3]
    assert steps(second, attempt="all") == [1, 2, 2, 3]
    assert steps(second, attempt=0) == [1, 2]

    third = Run._create(lazy=True, **QUIET).resumed(later)
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
    lazy = Run._create(lazy=True, **QUIET).resumed(state)
    copy = pickle.loads(pickle.dumps(lazy))
    copy.log_metrics({"a": 2.0}, step=2)
    copy.stop()
    assert copy["a"].fetch_points().value.tolist() == [1, 2]


def test_nothing_is_on_disk_for_having_resumed(tmp_path):
    """Only the first record opens a journal."""
    with seamark.init_run(**QUIET) as run:
        run["a"] = 1
    before = len(run.folder.journals())
    Run._create(lazy=True, **QUIET).resumed(run.checkpoint_state())
    assert len(run.folder.journals()) == before


def test_checkpoint_of_a_rank_that_does_not_record(monkeypatch):
    """It names the same positions where it sees the journals, and hides nothing where not."""
    with seamark.init_run(**QUIET) as run:
        run.log_metrics({"a": 1.0}, step=1)
        silent = pickle.loads(pickle.dumps(run))
        elsewhere = Run._create(lazy=True, **QUIET)
        with monkeypatch.context() as patch:
            patch.setenv("RANK", "1")
            assert silent.checkpoint_state() == run.checkpoint_state()
            assert elsewhere.checkpoint_state()["positions"] is None
        state = run.checkpoint_state() | {"positions": None}
        run.log_metrics({"a": 1.0}, step=2)
    later = Run._create(lazy=True, **QUIET).resumed(state)
    later.log_metrics({"a": 2.0}, step=2)
    later.stop()
    assert steps(later) == [1, 2, 2]


@pytest.mark.parametrize(
    ("given", "goes_over"),
    [({}, True), ({"resume": "never"}, False), ({"custom_run_id": "other"}, False)],
)
def test_which_run_goes_over(given, goes_over):
    """One that was chosen by an id, or is never to resume, stays as it is."""
    with seamark.init_run(**QUIET) as run:
        run["a"] = 1
    found = Run._create(lazy=True, **QUIET, **given).resumed(run.checkpoint_state())
    assert (found.id == run.id) is goes_over


def test_run_that_is_gone(caplog):
    """Is warned about, or refused where it has to be there."""
    state = {"run": "gone0000", "project": "default", "positions": {}}
    lazy = Run._create(lazy=True, **QUIET)
    assert lazy.resumed(state) is lazy
    assert "not found" in caplog.text
    with pytest.raises(RunNotFoundError, match="gone0000"):
        Run._create(lazy=True, resume="must", **QUIET).resumed(state)


@pytest.mark.parametrize("state", [None, 3, {}, {"run": 1, "project": "p", "positions": {}}])
def test_state_that_is_none_is_refused(state):
    """With what was expected."""
    with pytest.raises(ArgumentError, match="expected run, project and positions"):
        Run._create(lazy=True, **QUIET).resumed(state)
