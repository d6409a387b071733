"""Curves of many runs: from Python and the command, on a folder and through a server."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from recording import QUIET

from seamark import init_project, init_run
from seamark.run.run import make_run


@pytest.fixture
def project(tmp_path):
    return init_project(project="team", root=tmp_path)


def begin(root, **given):
    return init_run("team", root=root, **{"custom_run_id": "a", **QUIET, **given})


def record(root, values, steps=None, **given):
    with begin(root, **given) as run:
        for at, one in enumerate(values):
            step = at if steps is None else steps[at]
            run.log_metrics({"loss": float(one), "epoch": step // 10}, step=step)
        return run["sys/id"].fetch()


def noisy(count, seed=1):
    value = np.random.default_rng(seed).normal(size=count)
    value[count // 2] = math.nan
    return value


def test_several_series_of_several_runs_are_fetched_at_once(tmp_path, project):
    first, second = noisy(5000), noisy(50)
    ids = [record(tmp_path, first), record(tmp_path, second, custom_run_id="b")]
    found = project.fetch_curves(["loss", "none", "ep*"], ids, points=200)
    assert [(one.run, one.path) for one in found] == [
        (run, path) for run in ids for path in ("epoch", "loss")
    ]
    long, short = (one.drawing.curve for one in found if one.path == "loss")
    assert (long.width, int(long.nan_count.sum())) == (64, 1)
    assert short.value[np.isfinite(short.value)].tolist() == second[np.isfinite(second)].tolist()
    (whole,) = project.fetch_curves("loss", ids[0], smooth=100.0, points=10_000)
    (part,) = project.fetch_curves("loss", ids[0], smooth=100.0, low=1000, high=1099)
    assert part.drawing.curve.value.tolist() == first[1000:1100].tolist()
    assert part.drawing.mean == pytest.approx(whole.drawing.mean[1000:1100], rel=1e-12)


def test_the_order_of_recording_shows_each_pass(tmp_path, project):
    value = noisy(5000)
    run = record(tmp_path, value, [*range(3000), *range(1000, 3000)])
    (by_step,) = project.fetch_curves("loss", run, points=10_000)
    (by_order,) = project.fetch_curves("loss", run, x="order", points=10_000)
    assert (by_step.drawing.falls, by_order.drawing.falls) == (True, False)
    assert by_order.drawing.curve.first_step.tolist() == list(range(5000))
    assert np.array_equal(by_order.drawing.curve.min, value, equal_nan=True)
    (parts,) = project.fetch_curves("loss", run, x="order", points=100)
    assert parts.drawing.curve.first_step.tolist() == list(range(0, 5000, 128))
    assert int(parts.drawing.curve.count.sum()) == 5000


def test_steps_go_back_only_if_one_process_recorded_them_so(tmp_path, project):
    with begin(tmp_path) as one, begin(tmp_path, mode="async") as other:
        for step in range(400):
            paths = ["loss", "val/loss", "train/loss"] if step % 40 == 39 else ["loss"]
            for path in paths:
                one.log_metrics({path: 1.0, "epoch": step // 40}, step=step)
            other.log_metrics({"loss": 2.0}, step=step // 2)
        run = one.id
    for x in ("step", "relative", "time"):
        for path, count in (("epoch", 420), ("loss", 800)):
            (found,) = project.fetch_curves(path, run, x=x, points=5_000)
            assert not found.drawing.falls
            assert (np.diff(found.drawing.x) >= 0).all()
            (found,) = project.fetch_curves(path, run, x=x, points=20)
            assert int(found.drawing.curve.count.sum()) == count


def test_points_of_several_processes_are_in_the_order_of_time(tmp_path, project):
    with begin(tmp_path) as one, begin(tmp_path, mode="async") as other:
        for at in range(40):
            (one, other)[at % 2].log_metrics({"loss": float(at)}, step=100 - at)
        run = one["sys/id"].fetch()
    (found,) = project.fetch_curves("loss", run, x="order")
    assert found.drawing.curve.min.tolist() == list(map(float, range(40)))


def test_replaced_points_can_be_fetched(tmp_path, project):
    with begin(tmp_path) as run:
        run["loss"].extend(range(2000), steps=range(2000))
        kept = run.checkpoint_state()
        run["loss"].extend(range(2000, 3000), steps=range(2000, 3000))
    with make_run(project="team", root=tmp_path, **QUIET).resumed(kept) as again:
        again["loss"].extend(range(-500, 0), steps=range(2000, 2500))
    latest, every, replaced = (
        project.fetch_series("loss", run.id, attempt=which)["value"].tolist()
        for which in ("latest", "all", "replaced")
    )
    assert replaced == list(range(2000, 3000))
    assert sorted(latest + replaced) == sorted(every)
    (found,) = project.fetch_curves("loss", run.id, attempt="replaced", points=2000)
    assert found.drawing.curve.value.tolist() == replaced
    other = record(tmp_path, [1.0], custom_run_id="b")
    assert not project.fetch_curves("loss", other, attempt="replaced")


def test_curves_of_groups_are_mean_and_standard_deviation(tmp_path, project):
    values = {"a": [1.0, 2.0, 4.0], "b": [3.0, 6.0], "c": [math.nan, 7.0, 8.0]}
    for name, some in values.items():
        run = record(tmp_path, some, custom_run_id=name)
        with init_run(project="team", with_id=run, root=tmp_path, **QUIET) as again:
            again["lr"] = 0.1 if name < "c" else 0.2
    first, second = sorted(project.fetch_group_curves("loss", "lr"), key=lambda one: one.by["lr"])
    assert (first.by, len(first.runs), first.width) == ({"lr": 0.1}, 2, 0.0)
    assert first.x.tolist() == [0.0, 1.0, 2.0]
    assert first.n.tolist() == [2, 2, 1]
    assert first.mean.tolist() == [2.0, 4.0, 4.0]
    assert first.std[:2] == pytest.approx([statistics.stdev([1, 3]), statistics.stdev([2, 6])])
    assert math.isnan(first.std[2])
    assert (second.x.tolist(), second.mean.tolist()) == ([1.0, 2.0], [7.0, 8.0])
