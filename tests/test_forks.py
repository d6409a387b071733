"""Runs that were forked from others: one curve, of which the beginning is read through the fork."""

from __future__ import annotations

import numpy as np
import pytest
from command import output_of
from recording import QUIET

import seamark

P = "team/x"


def record(parent=None, step=0, **given):
    run = seamark.init_run(project=P, **QUIET, **given)
    if parent is not None:
        run["sys/forking/parent"], run["sys/forking/step"] = parent, step
    return run


def opened(run, **given):
    return seamark.init_run(
        P, with_id=run if isinstance(run, str) else run.id, mode="read-only", **given
    )


def values(run, path, **how):
    points = run[path].fetch_points(**how)
    return list(zip(points.step.tolist(), points.value.tolist(), strict=True))


@pytest.fixture
def parent():
    with record(custom_run_id="first") as run:
        for step in range(10):
            run.log_metrics({"loss": 10.0 - step, "only/here": float(step)}, step)
            run["note"].append(f"note {step}", step=step)
            run["h"].append(seamark.types.Histogram([0, 1], [step]), step=step)
        run["lr"] = 0.1
    return run


@pytest.fixture
def child(parent):
    with record("first", 5) as run:
        for step in (6, 7):
            run.log_metrics({"loss": 100.0 + step}, step)
        run["note"].append("own", step=7)
    return run


CURVE = [*((float(step), 10.0 - step) for step in range(6)), (6.0, 106.0), (7.0, 107.0)]


def test_a_fork_is_read_as_one_curve(child):
    """With what its parent had up to the step, whatever kind of series it is; values are its own.

    The parent is named by the id that a person gave it, or by its own. So it is in tables of
    series, reports, pictures and exports; a table of runs has what the run recorded.
    """
    pytest.importorskip("pandas")
    run = opened(child)
    assert values(run, "loss") == CURVE
    assert run["loss"].fetch_values()["value"].tolist() == [value for _, value in CURVE]
    assert values(run, "loss", attempt="all") == CURVE
    assert run["loss"].fetch_values(limit=3)["step"].tolist() == [5, 6, 7]
    assert run["loss"].fetch_values(limit=1)["step"].tolist() == [7]
    assert run["loss"].fetch_points(points=100).first_step.tolist() == [s for s, _ in CURVE]
    assert values(run, "only/here") == [(float(step), float(step)) for step in range(6)]
    assert run["only/here"].fetch_last() == 5
    notes = [*(f"note {step}" for step in range(6)), "own"]
    assert run["note"].fetch_values()["value"].tolist() == notes
    assert run["note"].fetch_last() == "own"
    assert [run.exists(path) for path in ("lr", "only/here", "only")] == [False, True, True]
    assert run.get_structure()["only"]["here"] is not None
    with record(id_of_parent(), 5) as by_id:
        by_id["lr"] = 0.2
    assert values(opened(by_id), "loss") == CURVE[:6]

    project = seamark.init_project(P)
    assert len(project.fetch_series(["loss", "only/*"], [child.id])) == len(CURVE) + 6
    assert run.report()["metrics"] == {"loss": 107.0, "only/here": 5.0}
    columns = ["loss:count", "only/here"]
    (row,) = project.fetch_runs_table(query=f'sys/id = "{child.id}"', columns=columns)
    assert row["loss:count"] == 2
    shown = output_of("show", child.id)
    assert [line.split()[-2:] for line in shown.splitlines() if " loss " in line] == [["8", "0…7"]]
    assert "only/here" in output_of("plot", child.id, "only/here")
    words = ("--what", "series", "--path", "loss", "--format", "csv")
    written = output_of("export", child.id, "--project", P, *words)
    assert len(written.splitlines()) == len(CURVE) + 1
    assert "only/here" in output_of("compare", child.id, id_of_parent())


def id_of_parent():
    table = seamark.init_project(P).fetch_runs_table(query='sys/custom_run_id = "first"')
    return str(table.refs[0][1])


def test_a_document_of_a_fork_shows_no_point_twice(child, tmp_path):
    document = opened(child).to_dict()
    assert len(document["series"]["loss"]["step"]) == len(CURVE)
    for place in ("alone", "beside"):
        root = tmp_path / place
        if place == "beside":
            seamark.from_dict(opened(id_of_parent()).to_dict(), root=root)
        seamark.from_dict(document, root=root)
        assert values(opened(child, root=root), "loss") == CURVE


def test_a_fork_of_a_fork_has_what_both_had_up_to_the_earliest_step(child):
    with record(child.id, 6) as late, record(child.id, 3) as early:
        late.log_metrics({"loss": 0.0}, 7)
    assert values(opened(late), "loss") == [*CURVE[:7], (7.0, 0.0)]
    assert values(opened(early), "loss") == CURVE[:4]
    with seamark.init_run(P, with_id=child.id, **QUIET) as again:
        again.log_metrics({"loss": 3.5}, 3.5)
        again.log_metrics({"new": 1.0}, 2)
    assert values(opened(early), "new") == [(2.0, 1.0)]
    # Own points that begin before the fork count from there.
    assert values(opened(child), "loss") == [*CURVE[:4], (3.5, 3.5), *CURVE[6:]]


def test_what_is_deleted_in_a_fork_stays_in_the_parent(child):
    with seamark.init_run(P, with_id=child.id, **QUIET) as again:
        del again["only"]
        again["loss"].clear()
        again.log_metrics({"loss": 1.0}, 9)
    run = opened(child)
    assert not run.exists("only/here")
    assert values(run, "loss") == [(9.0, 1.0)]
    assert len(values(opened(id_of_parent()), "only/here")) == 10


def test_a_fork_begins_once_parent_and_step_are_known(parent):
    with record() as run:
        run["sys/forking/parent"] = "first"
        run.log_metrics({"loss": 1.0}, 20)
        run.wait()
        for step in (None, "5", True, float("nan"), str(10**400)):
            if step is not None:
                run["sys/forking/step"] = step
            assert values(opened(run), "loss") == [(20.0, 1.0)], step
        run["sys/forking/step"] = 1
    assert values(opened(run), "loss") == [(0.0, 10.0), (1.0, 9.0), (20.0, 1.0)]
    with record("first", 0.0) as run:
        run.log_metrics({"loss": 1.0}, 20)
    assert values(opened(run), "loss") == [(0.0, 10.0), (20.0, 1.0)]


def test_runs_that_were_forked_from_each_other_are_read_once_each():
    with record(custom_run_id="a") as one:
        one.log_metrics({"loss": 1.0}, 1)
        one["sys/forking/parent"], one["sys/forking/step"] = "b", 100
    with record("a", 100, custom_run_id="b") as other:
        other.log_metrics({"loss": 2.0}, 2)
    with record(custom_run_id="c") as itself, record("../y/secret", 5) as elsewhere:
        itself["sys/forking/parent"], itself["sys/forking/step"] = itself.id, 5
        for run in (itself, elsewhere):
            run.log_metrics({"loss": 3.0}, 3)
    assert values(opened(other), "loss") == [(1.0, 1.0), (2.0, 2.0)]
    assert values(opened(one), "loss") == [(1.0, 1.0)]
    for run, parent in ((itself, itself.id), (elsewhere, "../y/secret")):
        assert values(opened(run), "loss") == [(3.0, 3.0)]
        told = " ".join(output_of("show", run.id).split())
        assert f"forked from a run that is not here, '{parent}'" in told


def test_a_line_of_forks_without_end_is_read_to_a_limit(monkeypatch):
    monkeypatch.setattr("seamark.store.read.inherited.GENERATIONS", 3)
    runs: list[str] = []
    for at in range(7):
        with record(runs[-1] if runs else None, at - 1) as run:
            run.log_metrics({"loss": float(at)}, at)
        runs.append(run.id)
    assert [step for step, _ in values(opened(runs[-1]), "loss")] == [3.0, 4.0, 5.0, 6.0]
    assert [step for step, _ in values(opened(runs[2]), "loss")] == [0.0, 1.0, 2.0]


def test_a_long_fork_is_read_like_a_run_that_recorded_all_of_it():
    pytest.importorskip("pandas")
    whole = np.random.default_rng(7).normal(size=60_000)
    with record(custom_run_id="long") as parent:
        parent["loss"].extend(whole[:50_000].tolist(), steps=range(50_000))
    with record("long", 39_999) as child:
        child["loss"].extend(whole[40_000:].tolist(), steps=range(40_000, 60_000))
    with record(custom_run_id="plain") as plain:
        plain["loss"].extend(whole.tolist(), steps=range(60_000))
    fork, one = opened(child), opened(plain)
    assert np.array_equal(fork["loss"].fetch_points().value, whole)
    for limit in (1, 20_000, 20_001, 50_000):
        ends = fork["loss"].fetch_values(limit=limit)
        assert ends["step"].tolist() == list(range(60_000 - limit, 60_000))
    for points in (2, 100, 5000):
        curves = [run["loss"].fetch_points(points=points) for run in (fork, one)]
        for name in ("width", "first_step", "last_step", "min", "max", "min_step", "count"):
            assert np.array_equal(*(getattr(curve, name) for curve in curves)), name
    read = [run.session.recorded.view().attribute("loss") for run in (fork, one)]
    assert read[0] == read[1]


def test_a_server_reads_a_fork_as_a_folder_does(child, near_server):
    first = id_of_parent()

    def there(run):
        return seamark.init_run(P, with_id=run, mode="read-only", remote=near_server.url)

    seamark.sync(child.id, near_server.url)
    run = there(child.id)
    assert values(run, "loss") == CURVE[6:]
    assert run.session.recorded.view().problems()["fork"] == {"lacking": "first"}
    with seamark.init_run(P, with_id=first, **QUIET) as again:
        again.log_metrics({"loss": 4.75}, 4.75)
    seamark.sync(first, near_server.url)
    whole = [*CURVE[:5], (4.75, 4.75), *CURVE[5:]]
    run = there(child.id)
    assert values(run, "loss") == whole
    assert run["loss"].fetch_points(points=50).first_step.tolist() == [step for step, _ in whole]
    assert run["note"].fetch_values()["value"].tolist()[-2:] == ["note 5", "own"]
    assert run["h"].fetch_last().counts == [5]
    assert "fork" not in run.session.recorded.view().problems()
    project = seamark.init_project(P, mode="read-only", remote=near_server.url)
    assert len(project.fetch_series(["loss", "only/*"], [child.id])) == len(whole) + 6
    drawn = project.fetch_curves(["only/here"], [child.id])
    assert [len(one.drawing.x) for one in drawn] == [6]
