"""The states of a run: who says them, when it begins and ends, what went wrong."""

from __future__ import annotations

import sys
import threading

import pytest
from journals import Kind, records

from seamark import Statistics, init_project, init_run
from seamark.errors import ArgumentError, InactiveRunError, ReadOnlyError
from seamark.types import Histogram


def state(run):
    return run["sys/state"].fetch()


def test_states_that_cannot_be_set_are_refused_and_nothing_is_written(start):
    run = start()
    for given, message in (
        ({"state": "error"}, "got 'error' .it is a group of states"),
        ({"state": "created"}, r"got 'created' .a run is created by init_run\(start=False"),
        ({"state": "crashed"}, "got 'crashed' .readers derive it"),
        ({"state": "Failed"}, "did you mean 'failed'"),
        ({"state": 202}, "expected one of running, .*, got 202"),
        ({"state": "failed", "detail": ""}, "detail: expected a text of 1 to 1,000"),
        ({"state": "failed", "error": "boom"}, "error: expected an exception or None, got str"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run.set_state(**given)
    assert (run.state, run.errors) == ("running", [])


def test_a_detail_stands_beside_the_state(start, root):
    """Until another state is said; queries, columns and tables know it, and secrets are hidden."""
    run = start()
    run.set_state("failed", detail="broken")
    run.stop()
    run.stop()
    assert (state(run), run["sys/state_detail"].fetch()) == ("failed", "broken")
    other = start()
    other.set_state("failed", detail="password=hunter2hunter2")
    assert "hunter2" not in other["sys/state_detail"].fetch()
    other.set_state("running")
    assert not other.exists("sys/state_detail")
    table = init_project("p", root=root, mode="read-only").fetch_runs_table

    def found(query):
        return [row["sys/id"] for row in table(query=query).to_rows()]

    assert found("sys/state_detail = broken") == found("sys/end_time > -1h") == [run.id]
    assert found("NOT sys/state_detail = broken") == found("sys/end_time IS MISSING") == [other.id]
    assert set(found("sys/start_time > -1h")) == {run.id, other.id}
    rows = {row["sys/id"]: row for row in table(sort_by="sys/end_time").to_rows()}
    assert rows[run.id]["sys/state_detail"] == "broken"
    assert rows[other.id].get("sys/end_time") is None
    with pytest.raises(ValueError, match="sys/state_detail"):
        run["sys/state_detail"] = "fine"


def test_groups_of_states_are_for_queries_only(start, root):
    for each in ("failed", "interrupted", "suspended", "completed"):
        start(name=each).set_state(each)
    start(name="created", start=False)
    table = init_project("p", root=root, mode="read-only").fetch_runs_table

    def names(group):
        return {row["sys/name"] for row in table(state=group).to_rows()}

    assert names("error") == {"failed", "interrupted"}
    assert names("finished") == {"suspended", "completed"}
    assert names("created") == {"created"}
    assert names("running") == set()


def test_a_created_run_waits_and_holds_nothing(start):
    """Parameters and tags are recorded; no heartbeat, no captures, and its end is no end of it."""
    threads = set(threading.enumerate())
    run = start(start=False, params={"lr": 0.1}, tags=["a"], capture_stdout=True)
    run["parameters/depth"] = 3
    sys.stdout.write("not captured\n")
    assert (run.state, state(run)) == ("created", "created")
    assert run.params.as_dict() == {"lr": 0.1, "depth": 3}
    assert (run["sys/tags"].fetch(), run["sys/running_time"].fetch()) == ({"a"}, 0)
    assert not run.exists("sys/start_time")
    assert not run.exists("monitoring")
    run.session.recorder.rest()  # as at the first heartbeat
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
    assert set(threading.enumerate()) <= threads
    run.stop()
    assert (state(run), records(run, Kind.HEARTBEAT)) == ("created", [])
    assert not run.exists("sys/end_time")
    with pytest.raises(InactiveRunError):
        run.start()


BEGINNINGS = {
    "start": lambda run: run.start(),
    "with": lambda run: run.__enter__(),
    "metrics": lambda run: run.log_metrics({"loss": 1.0}),
    "text": lambda run: run["note"].append("text"),
    "histogram": lambda run: run["h"].append(Histogram([0, 1], [1])),
    "extend": lambda run: run["loss"].extend([1.0, 2.0]),
    "keep": lambda run: run["fast"].keep(Statistics()).append(1.0),
    "chrono": lambda run: (
        run.chrono("block").__enter__() and run.chrono("block").__exit__(None, None, None)
    ),
    "set_state": lambda run: run.set_state("running"),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_created_run_begins_with_its_first_point_or_when_told(start, begin):
    run = start(start=False)
    run["value"] = 1
    run.fetch()  # whatever is seen a moment after it is written at the end at the latest
    run["fast"].keep(Statistics())
    assert state(run) == "created"
    begin(run)
    assert state(run) == "running"
    began = run["sys/start_time"].fetch()
    assert began > run["sys/creation_time"].fetch()
    run.log_metrics({"a": 1.0})
    run.start()
    assert run["sys/start_time"].fetch() == began
    run.stop()
    assert state(run) == "completed"
    assert run["sys/end_time"].fetch() >= run["sys/start_time"].fetch()


def test_another_process_begins_a_created_run(start, root):
    """It owns the run then; who only adds to it does not begin it."""
    run = start(start=False, params={"lr": 0.1})
    run.stop()
    with start(with_id=run.id) as other:
        other["note"] = "queued"
    assert state(run) == "created"
    with pytest.raises(ArgumentError, match="only the owner can set"):
        start(with_id=run.id, owner=False).start()
    with start(with_id=run.id) as worker:
        worker.start()
        assert state(run) == "running"
    assert state(run) == "completed"
    start(with_id=run.id).start()  # it was running once
    assert state(run) == "completed"
    with pytest.raises(ReadOnlyError):
        init_run("p", root=root, with_id=run.id, mode="read-only").set_state("failed")


def test_a_process_that_only_adds_changes_neither_state_nor_errors_nor_times(start):
    run = start()
    run.log_metrics({"loss": 1.0})
    run.set_state("failed", error=ValueError("diverged"), detail="broken")
    run.stop()
    before = [run[f"sys/{name}"].fetch() for name in ("state", "state_detail", "end_time")]
    evaluation = start(with_id=run.id)
    evaluation.log_metrics({"eval/acc": 0.5}, step=0)
    with pytest.raises(ArgumentError, match="open it with owner=True"):
        evaluation.set_state("completed")
    with pytest.raises(OSError, match="disk"), evaluation:
        raise OSError("disk")
    with start(with_id=run.id) as again:  # a series of an evaluation is none of the training
        again.log_metrics({"eval/acc": 0.6}, step=1)
    after = [run[f"sys/{name}"].fetch() for name in ("state", "state_detail", "end_time")]
    assert after == before
    assert [(one.type, one.message) for one in run.errors] == [("ValueError", "diverged")]
    with start(with_id=run.id, owner=True) as owner:
        owner.set_state("suspended")
    assert state(run) == "suspended"
    with start(with_id=run.id) as training:
        training.log_metrics({"loss": 0.5}, step=1)
    assert (state(run), run.exists("sys/state_detail")) == ("completed", False)


def test_every_error_is_listed_once_without_secrets(start):
    run = start(capture_traceback=True)
    for _ in range(2):
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            run.set_state("running", error=error)
    told = KeyError("password=hunter2hunter2")

    def twice():
        try:
            raise told
        except KeyError as error:
            run.set_state("failed", error=error)
            raise

    with pytest.raises(KeyError), run:
        twice()
    first, second, last = run.errors
    assert (first.type, first.message, first.rank) == ("ZeroDivisionError", "division by zero", 0)
    assert first.traceback is not None
    assert "1 / 0" in first.traceback
    assert first.time < second.time < last.time
    assert last.type == "KeyError"
    assert "hunter2" not in f"{last.message}{last.traceback}"
    assert state(run) == "failed"


def test_texts_of_that_name_are_no_errors(start):
    run = start()
    run["val/errors"].append("too many typos")
    run[f"monitoring/{run.writer}/errors"].append("{[")
    run.set_state("failed", error=ValueError("x"))
    assert [(one.type, one.message) for one in run.errors] == [("", "{["), ("ValueError", "x")]


def test_errors_of_all_ranks_and_attempts_are_listed(start, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "j")
    for restarts in range(2):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))
        for rank in range(2):
            monkeypatch.setenv("RANK", str(rank))
            run = start(custom_run_id="x", ranks="all")
            run.log_metrics({"loss": 1.0}, 0)
            message = f"rank {rank} of attempt {restarts}"
            with pytest.raises(ValueError, match=message), run:
                raise ValueError(message)
    found = [(one.rank, one.message) for one in run.errors]
    assert sorted(found) == [(r, f"rank {r} of attempt {a}") for r in range(2) for a in range(2)]
