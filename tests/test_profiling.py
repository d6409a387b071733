"""Statistics of durations, and what is made of them; no framework, no clock."""

from __future__ import annotations

import csv
import math
import statistics

import pytest

from seamark import init_run, profiling
from seamark.errors import ArgumentError


def empty(name="one", **given):
    return profiling.Durations("action", name, **given)


def filled(durations, *, epoch_length=10, **given):
    samples = empty(**given)
    for number, ns in enumerate(durations, start=1):
        samples.waiting.extend((profiling.position(1 + (number - 1) // epoch_length, number), ns))
    return samples


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([], {"count": 0, "total_s": 0, "mean_s": 0, "std_s": 0, "p99_s": 0, "max_iteration": 0}),
        ([5_000_000], {"count": 1, "min_s": 0.005, "max_s": 0.005, "mean_s": 0.005, "std_s": 0,
                       "p50_s": 0.005}),
        ([3, 1, 9, 9, 1], {"min_iteration": 2, "max_iteration": 3}),  # the first of equal ones
    ],
)  # fmt: skip
def test_statistics_of_few_durations(durations, expected):
    found = filled(durations).stat()
    assert {name: getattr(found, name) for name in expected} == expected


def test_statistics_are_those_of_all_durations_whatever_the_batches():
    durations = [(number * 7919) % 10_007 + 1 for number in range(5_000)]
    samples = empty()
    for number, ns in enumerate(durations):
        samples.waiting.extend((profiling.position(0, number), ns))
        if number % 617 == 0:
            samples.flush()
    found = samples.stat()
    assert found.count == 5_000
    assert found.total_s == sum(durations) / 1e9
    assert found.mean_s == pytest.approx(statistics.fmean(durations) / 1e9, rel=1e-12)
    assert found.std_s == pytest.approx(statistics.stdev(durations) / 1e9, rel=1e-12)
    assert found.min_iteration == durations.index(min(durations))
    assert found.max_iteration == durations.index(max(durations))
    assert found.p50_s == pytest.approx(statistics.median(durations) / 1e9)


def test_long_runs_keep_an_even_sample_with_true_positions():
    """Beyond the limit one of every two, four, ... rows stays; statistics stay exact."""
    size = 3 * profiling.SAMPLE_LIMIT
    samples = filled(range(1, size + 1), epoch_length=1000)
    _, positions, values = samples.rows()
    assert profiling.SAMPLE_LIMIT / 2 <= len(values) <= profiling.SAMPLE_LIMIT
    gaps = values[1:] - values[:-1]
    assert 1 <= min(gaps) <= max(gaps) <= 8
    assert len(values) == pytest.approx(size / 4, abs=3)
    assert all(
        profiling.position_parts(at)[1] == ns
        for at, ns in zip(positions[:9], values[:9], strict=True)
    )
    found = samples.stat()
    assert (found.count, found.max_iteration) == (size, size)
    assert found.total_s == size * (size + 1) / 2 / 1e9
    assert found.p95_s == pytest.approx(0.95 * size / 1e9, rel=1e-3)


def test_long_layout_has_a_row_for_each_duration(tmp_path):
    one = profiling.Durations("handler", "a,b", event="E")
    one.waiting.extend((profiling.position(1, 1), 1_000, profiling.position(1, 2), 2_000))
    profiling.write_long([one], tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == profiling.LONG_COLUMNS
    assert rows == [
        ["handler", "E", "a,b", "wall", "1", "1", "0.000001000"],
        ["handler", "E", "a,b", "wall", "1", "2", "0.000002000"],
    ]


def test_table_and_summary_show_every_thing():
    stats = [filled([10**9]).stat(), empty("two").stat()]
    assert "1.000000 (1/1)" in profiling.table(stats)
    assert len(profiling.table(stats).splitlines()) == 4
    rows = list(csv.DictReader(profiling.summary_csv(stats).splitlines()))
    assert [row["count"] for row in rows] == ["1", "0"]
    assert float(rows[0]["p95_s"]) == 1.0


def test_largest_cost_is_named_in_plain_words():
    def line(parts, epoch_s, epochs):
        return profiling.largest_cost(profiling.Breakdown(parts, epoch_s, epochs))

    waiting = line((("dataflow (waiting for data)", 3.0), ("processing", 1.0)), 5.0, 2)
    assert waiting.startswith("The largest cost is dataflow (waiting for data): 3 s of the 5 s")
    assert "60 %" in waiting
    assert line((), 0.0, 0) == "Nothing has been timed yet."
    small = line((("a", 3e-6),), 4e-6, 1)  # printed where there is only ASCII
    assert small == "The largest cost is a: 3 us of the 4 us of an epoch, 75 %."
    assert line((("a", 1.0),), 9.0, 1).startswith("The largest cost is everything")


def test_picture_is_a_png_whatever_the_names():
    pytest.importorskip("matplotlib")
    parts = tuple((f"_part $\\{number}$ " + "n" * 300, 0.1) for number in range(40))
    assert profiling.picture(profiling.Breakdown(parts, 4.5, 3)).startswith(b"\x89PNG")


def test_names_become_one_part_of_a_path():
    names = {"a/b": "a%2Fb", "50%": "50%25", "a\nb": "a%0Ab", "{'k': 1}": "{'k': 1}", "": "%00"}
    assert {name: profiling.path_part(name) for name in names} == names


def test_rows_and_summary_stand_in_the_run(tmp_path):
    """A row has means since the last one; a run that was stopped disturbs nobody."""
    with pytest.raises(ArgumentError, match="expected a Run or a namespace"):
        profiling.TimesInRun("profiling")
    run = init_run(root=tmp_path, capture={"git": False, "packages": False})
    samples = empty("step/one")
    times = profiling.TimesInRun(run)
    samples.waiting.extend((profiling.position(0, 1), 10**9))
    times.row(5 * 10**9, [samples], 1)
    samples.waiting.extend((profiling.position(0, 2), 2 * 10**9))
    samples.waiting.extend((profiling.position(0, 3), 4 * 10**9))
    times.row(6 * 10**9, [samples], 3)
    times.row(7 * 10**9, [samples], 4)  # nothing new
    points = run["profiling/step%2Fone_s"].fetch_points()
    assert points.value.tolist() == [1.0, 3.0]
    assert points.step.tolist() == [1.0, 3.0]
    assert times.due_ns == 8 * 10**9
    times.summary([samples], profiling.Breakdown((("a", 1.0),), 2.0, 1))
    run["profiling/summary"].download(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == profiling.summary_csv([samples.stat()])
    assert run["profiling/largest_cost"].fetch().startswith("The largest cost is a: 1 s")
    run.stop()
    samples.waiting.extend((profiling.position(0, 4), 1))
    times.row(9 * 10**9, [samples], 0)
    times.summary([samples], profiling.Breakdown((), math.nan, 0))
