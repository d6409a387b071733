"""Reading points: the first time, again, for drawing, one value, of many runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, middle, spread

MLFLOW = "MLflow, SQLite store"
HOW = (
    "Every call is a whole public one: it looks for new records, and folds them if there are any. "
)
APART = "a second apart, ms [min..max]"
LOOP = "in a loop, ms [min..max]"


@contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as name:
        yield Path(name)


def _line(shown: str, own: list[Sample], *names: str, form: str = ".2f") -> list[str]:
    """Return a line of a table: each figure with its spread, and the CPU time of it."""
    cells = [shown]
    for name in names:
        cells += [spread(own, f"{name}_ms", form), f"{middle(own, f'{name}_cpu_ms'):{form}}"]
    return cells


def first_read(bench: Bench) -> Iterator[Result]:
    """Read a million rows of which nothing is folded yet."""
    rows = bench.count(1_000_000)
    with new_folder() as one, new_folder() as sets:
        run = child("writes.py", "series", rows, "one", "csv", folder=one)["run"]
        mixed = child("writes.py", "series", rows, "sets", folder=sets)["run"]
        theirs = child("writes.py", "mlflow", 1, 0, 1, rows, folder=one)["run"]
        taken = bench.interleaved(
            {
                "seamark": partial(child, "reads.py", "first", "seamark", run, rows, folder=one),
                "sets": partial(child, "reads.py", "first", "seamark", mixed, rows, folder=sets),
                "pandas": partial(child, "reads.py", "first", "pandas", "", rows, folder=one),
            },
            peers={
                "mlflow": partial(child, "reads.py", "first", "mlflow", theirs, rows, folder=one)
            },
        )
    columns = ["read by", "ms [min..max]", "CPU ms"]
    first_s, sets_s = (middle(taken[name], "first_ms") / 1e3 for name in ("seamark", "sets"))
    pandas_s = middle(taken["pandas"], "first_ms") / 1e3
    yield Result(
        "first-read",
        f"First `fetch_points` of {rows:,} rows of one metric, with no index",
        "≤ 0.5 s",
        f"{first_s:.2f} s, {first_s / pandas_s:.1f} x pandas reading CSV",
        first_s <= 0.5,
        columns,
        [
            _line("**Seamark**", taken["seamark"], "first", form=".0f"),
            _line("pandas, `read_csv` of the same points", taken["pandas"], "first", form=".0f"),
            _line(f"{MLFLOW}, `get_metric_history`", taken["mlflow"], "first", form=".0f"),
        ],
        (
            'From before `init_run(mode="read-only")` to the arrays, in a process that has NumPy '
            "and SQLAlchemy loaded and an empty cache: the index is made, every frame is checked "
            "and folded, and the points are read. Files are in the page cache. MLflow ran "
            f"{bench.peer_rounds} rounds."
        ),
        bench.rounds,
    )
    yield Result(
        "first-read-sets",
        f"The same of {rows:,} rows of 1, 3 and 10 metrics in turn",
        "≤ 0.7 s",
        f"{sets_s:.2f} s",
        sets_s <= 0.7,
        columns,
        [_line("**Seamark**", taken["sets"], "first", form=".0f")],
        f"The metric that is in all rows is read; all {rows * 14 // 3:,} points are folded.",
        bench.rounds,
    )


def one_long_series(bench: Bench) -> Iterator[Result]:
    """Read a million points of one series that is folded."""
    points = bench.count(1_000_000)
    with new_folder() as folder:
        run = child("writes.py", "series", points, folder=folder)["run"]
        read = partial(child, "reads.py", "series", run, points, folder=folder)
        taken = bench.interleaved({"read": read})["read"]
    warm_ms, memory_s = middle(taken, "loop_ms"), middle(taken, "memory_ms") / 1e3
    yield Result(
        "read-series",
        f"One series of {points:,} points into NumPy, folded before",
        "≤ 30 ms; ≤ 0.8 s where no index can be kept",
        f"{warm_ms:.1f} ms; {memory_s:.2f} s",
        warm_ms <= 30 and memory_s <= 0.8,
        ["`fetch_points`", "ms [min..max]", "CPU ms"],
        [
            _line("in a loop", taken, "loop", form=".1f"),
            _line("a second apart", taken, "apart", form=".1f"),
            _line("the first of a process, with `init_run`", taken, "opening", form=".1f"),
            _line("the first, into an index held in memory", taken, "memory", form=".1f"),
        ],
        HOW + "One metric a row, at steps 0, 1, 2, ...; files are in the page cache.",
        bench.rounds,
    )


def one_value(bench: Bench) -> Iterator[Result]:
    """Read the last point of a series, and one attribute, of large runs."""
    points, series, attributes = (bench.count(n) for n in (1_000_000, 1_000, 5_000))
    with new_folder() as long, new_folder() as wide, new_folder() as many:
        cases = {
            f"`fetch_last`, {points:,} points": (
                long,
                child("writes.py", "series", points, folder=long)["run"],
                "train/loss",
                child("writes.py", "mlflow", 1, 0, 1, points, folder=long)["run"],
                "loss",
            ),
            f"`fetch_last`, a run with {series:,} series": (
                wide,
                child("writes.py", "wide", "series", series, folder=wide)["run"],
                "series_7",
                child("writes.py", "mlflow", 1, 0, series, 20, folder=wide)["run"],
                "loss",
            ),
            f"`fetch`, a run with {attributes:,} attributes": (
                many,
                child("writes.py", "wide", "attributes", attributes, folder=many)["run"],
                "params/number_7",
                child("writes.py", "mlflow", 1, attributes, 0, 0, folder=many)["run"],
                "params/lr",
            ),
        }
        table, ours = [], []
        for case, (folder, run, path, theirs, their_path) in cases.items():
            read = partial(child, "reads.py", "value", folder=folder)
            own, peer = bench.interleaved(
                {"seamark": partial(read, "seamark", run, path)},
                peers={"mlflow": partial(read, "mlflow", theirs, their_path)},
            ).values()
            ours.append(own)
            stat = _line("`os.stat` of its journal", own, "stat_loop", "stat_apart", form=".3f")
            table += [
                [case, *_line("**Seamark**", own, "loop", "apart")],
                [case, *stat],
                [case, *_line(f"{MLFLOW}, `get_run`", peer, "loop", "apart")],
            ]
    loops, aparts = ([middle(own, f"{name}_ms") for own in ours] for name in ("loop", "apart"))
    yield Result(
        "one-value",
        "One value of a large run: the last of a series, an attribute",
        "≤ 1 ms each",
        f"{_listed(loops)} ms in a loop, {_listed(aparts)} ms a second apart",
        max(loops + aparts) <= 1,
        ["what", "read by", LOOP, "CPU ms", APART, "CPU ms"],
        table,
        HOW
        + "The runs are finished, and nothing is new. A second after anything else, the caches of "
        "the processor hold other things.",
        bench.rounds,
    )


def _listed(figures: list[float]) -> str:
    return " / ".join(f"{figure:.2f}" for figure in figures)


def new_row(bench: Bench) -> Iterator[Result]:
    """Read what another process has recorded just before."""
    attributes = bench.count(5_000)
    taken = bench.interleaved(
        {"seamark": partial(child, "reads.py", "new_row", "seamark", attributes)},
        peers={"mlflow": partial(child, "reads.py", "new_row", "mlflow", attributes)},
    )
    ours = taken["seamark"]
    loop_ms, apart_ms = middle(ours, "loop_ms"), middle(ours, "apart_ms")
    yield Result(
        "new-row",
        f"`fetch_last` of a row just recorded by another process, {attributes:,} attributes",
        "≤ 2 ms",
        f"{loop_ms:.2f} ms in a loop, {apart_ms:.2f} ms a second apart",
        max(loop_ms, apart_ms) <= 2,
        ["read by", LOOP, "CPU ms", APART, "CPU ms"],
        [
            _line("**Seamark**", ours, "loop", "apart"),
            _line(f"{MLFLOW}, `get_run`", taken["mlflow"], "loop", "apart"),
        ],
        (
            "Before each call another process records one row with `log_metrics` and says that it "
            "has returned; the call folds it, and what it returns is compared with what was "
            "recorded."
        ),
        bench.rounds,
    )


def curve(bench: Bench) -> Iterator[Result]:
    """Read a thousand representative points of a million, among them the one spike."""
    points = bench.count(1_000_000)
    table, ours, shown = [], [], []
    for kind, steps in (("one", "steps 0, 1, 2, ..."), ("apart", "steps 50 apart")):
        with new_folder() as folder:
            made = child("writes.py", "series", points, kind, folder=folder)
            given = (made["run"], points, made["spike"], made["spike_step"])
            taken = bench.interleaved(
                {
                    name: partial(child, "reads.py", "curve", name, *given, folder=folder)
                    for name in ("curve", "numpy")
                }
            )
        ours.append(taken["curve"])
        shown.append(f"{taken['curve'][0]['shown']:,} of {steps}")
        for name, who in (
            ("curve", "**`fetch_points(points=1000)`**"),
            ("numpy", "`fetch_points()` and the extremes of 500 parts, in NumPy"),
        ):
            table.append([steps, *_line(who, taken[name], "loop", "apart")])
    loops, aparts = ([middle(own, f"{name}_ms") for own in ours] for name in ("loop", "apart"))
    yield Result(
        "curve",
        f"1,000 representative points of {points:,}, folded before",
        "≤ 5 ms",
        f"{_listed(loops)} ms in a loop, {_listed(aparts)} ms a second apart",
        max(loops + aparts) <= 5,
        ["series", "read by", LOOP, "CPU ms", APART, "CPU ms"],
        table,
        HOW
        + f"Representative points: {', '.join(shown)}. Each call is checked: at most 1,000 points, "
        "and the one value of all that is a spike is among them, at its step.",
        bench.rounds,
    )


def many_series(bench: Bench) -> Iterator[Result]:
    """Read one path of a thousand small runs."""
    runs, points = bench.count(1_000), 30
    with new_folder() as folder:
        child("writes.py", "runs", runs, points, folder=folder)
        child("writes.py", "mlflow", runs, 88, 10, points, folder=folder)
        read = partial(child, "reads.py", "many", folder=folder)
        taken = bench.interleaved(
            {
                "**Seamark**": partial(read, "seamark", runs, points),
                "pandas, `read_csv` of a file a run": partial(read, "pandas", runs, points),
            },
            peers={
                f"{MLFLOW}, `get_metric_history` of each": partial(read, "mlflow", runs, points)
            },
        )
    ours = taken["**Seamark**"]
    first_s, loop_s, apart_s = (middle(ours, f"{n}_ms") / 1e3 for n in ("first", "loop", "apart"))
    yield Result(
        "many-series",
        f"`fetch_series` of one path of {runs:,} small runs",
        "≤ 0.1 s, folded before",
        f"{loop_s:.3f} s in a loop, {apart_s:.3f} s a second apart; {first_s:.1f} s the first time",
        max(loop_s, apart_s) <= 0.1,
        ["read by", "the first time, ms [min..max]", "CPU ms", LOOP, "CPU ms", APART, "CPU ms"],
        [_line(who, own, "first", "loop", "apart", form=".0f") for who, own in taken.items()],
        HOW
        + f"`fetch_series(...).to_numpy()`; each run has 100 attributes, of which 10 are series of "
        f"{points} points. The first time everything of all runs is folded, with no index before.",
        bench.rounds,
    )


def one_frame(bench: Bench) -> Iterator[Result]:
    """Bring 50 runs of 10 series of 10,000 points into one data frame."""
    points = bench.count(10_000)
    rounds = min(3, bench.rounds)
    with new_folder() as folder:
        child("writes.py", "runs", 50, points, folder=folder)
        read = partial(child, "reads.py", "frame", folder=folder)
        taken = bench.interleaved({"read": read}, rounds=rounds)["read"]
    first_s, apart_s = middle(taken, "first_ms") / 1e3, middle(taken, "apart_ms") / 1e3
    yield Result(
        "frame",
        f"50 runs of 10 series of {points:,} points into one frame",
        "≤ 2 s",
        f"{first_s:.2f} s the first time, {apart_s:.2f} s after that, a second apart",
        first_s <= 2,
        note=(
            f"{taken[0]['rows']:,.0f} rows through `fetch_series(...).to_pandas()` in a process "
            "that has pandas loaded; the first time with no index, so that everything is folded "
            f"(CPU: {middle(taken, 'first_cpu_ms') / 1e3:.2f} s)."
        ),
        rounds=rounds,
    )
