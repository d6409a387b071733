"""What is kept of fast series in place of their points: `keep`, read from any process."""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from command import outcome_of
from journals import operations
from recording import QUIET

import seamark
from seamark import Last, Ring, Statistics
from seamark.errors import ArgumentError, FamilyError
from seamark.run.run import make_run

HEAD = f"import seamark, os, signal, sys; from seamark import *; quiet = {QUIET!r}\n"


@pytest.fixture
def script(forks):
    def script(code):
        (done,) = forks.run(HEAD + textwrap.dedent(code), environments=[{}])
        assert "Traceback" not in done.stderr, done.stderr
        return done.code

    return script


def test_every_verb_adds_to_what_is_kept():
    """Instead of points; the other paths of a call keep theirs."""
    with seamark.init_run(**QUIET) as run:
        assert run["gpu/power"].keep(Statistics(skip=1)).path == "gpu/power"
        run.log_metrics({"gpu/power": 900.0, "loss": 1.0}, step=0)
        run.log_metrics({"gpu/power": 1.0}, step=1)
        run["gpu"].log_metrics({"power": 2.0})
        run["gpu/power"].append(3.0)
        run["gpu/power"].append(4, step=7)
        run["gpu"].append({"power": 5.0, "clock": 1.0})
        run["gpu/power"].extend([6.0, 7.0])
        found = run["gpu/power"].fetch()
        assert (found.mean, found.count, found.skipped) == (4.0, 7, 1)
        assert run["loss"].fetch() == 1.0
        assert run["gpu/clock"].fetch() == 1.0
    again = seamark.init_run(with_id=run.id, mode="read-only")
    assert again["gpu/power"].fetch().to_dict() == found.to_dict()
    assert again.get_attribute_type("gpu/power") == "statistic"


def test_patterns_keep_paths_that_come_later_and_no_series(caplog):
    with seamark.init_run(**QUIET, keep={"gpu/*": Statistics(), "seen": Last()}) as run:
        run.log_metrics({"gpu/0": 1.0, "gpu/1": 2.0, "seen": 3.0, "loss": 0.5})
        run.log_metrics({"gpu/0": 3.0, "gpu/1": "hot", "loss": 0.5})
        assert run["gpu/0"].fetch().mean == 2.0
        assert run["gpu/1"].fetch().count == 1
        assert (run["seen"].fetch().last, run["loss"].fetch_points().value.size) == (3.0, 2)
        assert "'gpu/1' is left out" in caplog.text
    again = seamark.init_run(with_id=run.id, mode="read-only")
    assert again["monitoring/seamark/dropped"].fetch() == {"metrics": 1}
    # Also those of a run that is opened; a name of its own comes first.
    with seamark.init_run(**QUIET, keep={"new": Last()}) as run:
        run["gpu/power"].append(1.0)
        run["new"].append(1.0)
    with seamark.init_run(**QUIET, with_id=run.id, keep={"*": Statistics(), "new": Last()}) as run:
        run.log_metrics({"gpu/power": 2.0, "new": 2.0, "other": 2.0})
        with pytest.raises(FamilyError, match="'gpu/power' holds a float series"):
            run["gpu/power"].keep(Last())
    assert run["gpu/power"].fetch_points().value.tolist() == [1.0, 2.0]
    assert run["new"].fetch().to_dict() == {"last": 2.0, "count": 2}
    assert run["other"].fetch().count == 1


def test_path_keeps_one_kind_until_it_is_deleted():
    with seamark.init_run(**QUIET) as run:
        run["loss"].append(1.0)
        with pytest.raises(FamilyError, match="'loss' holds a float series"):
            run["loss"].keep(Last())
        run["a"].keep(Last())
        run["a"].keep(Last())
        with pytest.raises(FamilyError, match="'a' keeps last, not ring"):
            run["a"].keep(Ring(3))
        with pytest.raises(FamilyError, match="'a' holds a statistic"):
            run["a"] = 5
        run["a"].append(1.0)
        del run["a"]
        run["a"].append(2.0)
        assert run["a"].fetch_points().value.tolist() == [2.0]
        for wrong in (Statistics, "mean", None):
            with pytest.raises(ArgumentError, match=r"keep: expected Statistics\(\)"):
                run["b"].keep(wrong)
    with pytest.raises(ArgumentError, match=r"keep\['a'\]: expected Statistics"):
        seamark.init_run(**QUIET, keep={"a": 3})
    with pytest.raises(ArgumentError, match="keep: expected a mapping"):
        seamark.init_run(**QUIET, keep=Statistics())


def test_what_is_kept_is_cleared_copied_forked_and_stopped_as_a_series_is(caplog):
    run = seamark.init_run(**QUIET)
    run["a"].keep(Statistics())
    run["a"].append(1.0)
    run["a"].clear()
    assert run["a"].fetch().count == 0
    run["a"].append(1.0)
    if not (child := os.fork()):  # what a parent has seen is its own
        run["a"].append(2.0)
        run.stop()
        os._exit(0)
    os.waitpid(child, 0)
    copy = pickle.loads(pickle.dumps(run))
    copy.log_metrics({"a": 3.0})
    copy.stop()
    run["a"].append(4.0)
    found = run["a"].fetch()
    run.stop()
    assert (found.count, found.sum) == (4, 10.0)
    run["a"].append(2.0)
    run.log_metrics({"a": 2.0})
    assert caplog.text.count("nothing is recorded") == 1
    assert run["a"].fetch().count == 4


def test_loading_a_checkpoint_hides_what_came_after_it():
    """In the same process and in others; and nothing counts twice."""
    run = seamark.init_run(**QUIET, keep={"a": Statistics(skip=1)})
    for each in (100.0, 1.0, 2.0):
        run.log_metrics({"a": each})
    state = run.checkpoint_state()
    run.log_metrics({"a": 1000.0})
    assert run["a"].fetch().count == 3
    assert run.resumed(state) is run
    run.log_metrics({"a": 3.0})
    found = run["a"].fetch()
    assert (found.count, found.sum, found.skipped) == (3, 6.0, 1)
    second = run.checkpoint_state(marked=True)
    run.log_metrics({"a": 4.0})
    run.mark_checkpoint()
    run.log_metrics({"a": 1000.0})
    run.stop()
    third = make_run(**QUIET, keep={"a": Statistics()}).resumed(second)
    third.log_metrics({"a": 5.0})
    third.stop()
    found = seamark.init_run(with_id=third.id, mode="read-only")["a"].fetch()
    assert (found.count, found.sum, found.last) == (5, 15.0, 5.0)


def test_killed_process_loses_its_last_second_and_a_terminated_one_nothing(script):
    code = """
    import json
    run = seamark.init_run(**quiet, custom_run_id="killed", keep={"a": Statistics()})
    for at in range(100):
        run.log_metrics({"a": 1.0})
    open("state", "w").write(json.dumps(run.checkpoint_state()))
    for at in range(50):
        run.log_metrics({"a": 1000.0})
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert script(code) == -signal.SIGKILL
    killed = seamark.init_run(custom_run_id="killed", mode="read-only")
    assert 100 <= killed["a"].fetch().count <= 150
    given = {"custom_run_id": "killed", "keep": {"a": Statistics()}, **QUIET}
    with seamark.init_run(**given).resumed(json.loads(Path("state").read_text())) as run:
        for _ in range(10):
            run.log_metrics({"a": 3.0})
    found = killed["a"].fetch()
    assert (found.count, found.sum, found.max) == (110, 130.0, 3.0)
    code = """
    quiet["capture"]["signals"] = True
    run = seamark.init_run(**quiet, custom_run_id="ended")
    run["a"].keep(Statistics())
    for at in range(1000):
        run["a"].append(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
    """
    assert script(code) == -signal.SIGTERM
    assert seamark.init_run(custom_run_id="ended", mode="read-only")["a"].fetch().count == 1000


def test_process_that_ends_writes_what_is_kept_by_each_object(script):
    seamark.init_run(**QUIET, custom_run_id="added").stop()
    seamark.init_model(key="NET").stop()
    code = """
    twice = [seamark.init_run(**quiet, custom_run_id="twice") for at in range(2)]
    for opened in (
        *twice,
        seamark.init_run(**quiet, custom_run_id="added", owner=False),
        seamark.init_project(),
        seamark.init_model("NET"),
    ):
        opened["a"].keep(Statistics())
        opened["a"].extend([1.0] * 10)
    twice[0].stop()
    draft = seamark.init_artifact(name="data")
    draft.add_reference("s3://a/b")
    """
    assert script(code) == 0
    given = {"mode": "read-only"}
    twice = seamark.init_run(custom_run_id="twice", **given)
    assert (twice["a"].fetch().count, twice["sys/state"].fetch()) == (20, "completed")
    for opened in (
        seamark.init_run(custom_run_id="added", **given),
        seamark.init_project(**given),
        seamark.init_model("NET", **given),
    ):
        assert opened["a"].fetch().count == 10
    assert not list(Path(".seamark/default/.artifacts/data").iterdir())


def test_ranks_add_to_one_path(monkeypatch):
    """Those that record nothing take everything and keep nothing."""
    monkeypatch.setenv("WORLD_SIZE", "3")
    given = {"ranks": "all", "custom_run_id": "all", "keep": {"gpu/*": Statistics()}, **QUIET}
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with seamark.init_run(**given) as run:
            for _ in range(10):
                run.log_metrics({"gpu/power": float(rank), "loss": 1.0})
            run["own"].keep(Last())
            run["own"].append(5.0)
    with seamark.init_run(**QUIET, keep={"a": Statistics()}) as run:  # a silent rank
        run["b"].keep(Last())
        run["b"].append(1.0)
        run.log_metrics({"a": 1.0})
        assert run["b"].fetch() is None
    run = seamark.init_run(custom_run_id="all", mode="read-only")
    found = run["gpu/power"].fetch()
    assert (found.count, found.mean) == (30, 1.0)
    assert run["own"].fetch().count == 3
    assert run["ranks/2/loss"].fetch_points().value.size == 10
    assert not run.exists("ranks/2/gpu")


def test_kept_values_are_written_once_a_second_and_at_the_end(monkeypatch):
    now = [10**10]
    monkeypatch.setattr("seamark.run.aggregation.perf_counter_ns", lambda: now[0])
    run = seamark.init_run(**QUIET)
    run["a"].keep(Statistics())
    run["b"].keep(Last())
    run["b"].append(1.0)
    for _ in range(40):
        run["a"].append(1.0)
        now[0] += 100_000_000
    run.stop()
    written = [one["path"] for one in operations(run) if one["op"] == "statistic"]
    assert Counter(written) == {"a": 4, "b": 1}
    assert seamark.init_run(with_id=run.id, mode="read-only")["a"].fetch().count == 40


def test_tables_and_queries_have_kept_values():
    for name, numbers in (("low", [1.0, 3.0]), ("high", [5.0, 9.0]), ("odd", [math.nan])):
        with seamark.init_run(**QUIET, name=name) as run:
            run["power"].keep(Statistics() if name != "odd" else Last())
            run["power"].extend(numbers)
    project = seamark.init_project(mode="read-only")
    columns = ["sys/name", "power", *(f"power:{one}" for one in ("min", "max", "mean", "count"))]
    table = project.fetch_runs_table(columns=columns, sort_by="power:mean", ascending=True)
    rows = {row["sys/name"]: list(row.values())[2:] for row in table}
    assert rows["low"] == [3.0, 1.0, 3.0, 2.0, 2]
    assert rows["high"] == [9.0, 5.0, 9.0, 7.0, 2]
    assert math.isnan(rows["odd"][0])
    for query, wanted in (
        ("power:mean > 4", {"high"}),
        ("power = 3", {"low"}),
        ("power:count >= 1", {"low", "high", "odd"}),
        ("power:statistic < 100", {"low", "high"}),
    ):
        found = project.fetch_runs_table(query=query, columns=["sys/name"])
        assert {row["sys/name"] for row in found} == wanted


def test_commands_show_kept_values():
    with seamark.init_run(**QUIET, name="kept") as run:
        run["power"].keep(Statistics(skip=1))
        run["power"].extend([9.0, 1.0, 2.0])
        run["ring"].keep(Ring(2))
        run["ring"].extend([1.0, math.inf])

    shown = outcome_of("show", "kept").output
    assert "Statistics (2)" in shown
    assert "power   1.5  0.7071067811865476  1.0  2.0   2.0      2" in shown
    assert "values      1.0, inf" in outcome_of("show", "kept", "ring").output
    told = json.loads(outcome_of("show", "kept", "--json").output)["attributes"]
    assert told["power"]["value"]["mean"] == 1.5
    assert told["ring"]["value"]["values"] == [1.0, "inf"]
    rows = outcome_of("export", "kept", "-w", "attributes", "-p", "power").output
    assert '""count"": 2' in rows
