"""The page in a browser: how soon what a person waits for is there, and what an open page costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from harness import TRACKIO_PYTHON, Bench, Result, Sample, child, middle, spread
from rows.series import new_folder

RUNS, PEER_RUNS, POINTS = 10_000, 300, 100
THROTTLE = 4
TURNS = 5
TABS, IDLE_S = 5, 40
CURVES, CURVE_POINTS = 50, 10_000
CHARTS = 1_000
GRID = {10: 300, 100: 1_000}  # runs in each of six charts, and the most milliseconds
GRID_POINTS = 1_000
POLLS, DAY = 4_320, 43_200
BESIDE_S = 8


def opened_in_a_browser(bench: Bench) -> Iterator[Result]:
    """Open the table of 10,000 runs, a four times slower browser, beside the charts of others."""
    runs, peers = max(bench.count(RUNS), 200 * (TURNS + 1)), bench.count(PEER_RUNS)
    rounds = min(3, bench.rounds)
    with new_folder() as ours, new_folder() as theirs:
        with new_folder() as small:  # so that what the cold start imports is compiled, as it is
            child("writes.py", "runs", 1, folder=small)  # where somebody installed it
            child("pages.py", "opening", "seamark", 1, folder=small)
        child("writes.py", "runs", runs, folder=ours)
        child("writes.py", "tensorboard", peers, POINTS, folder=theirs)
        contestants = {
            "seamark": partial(child, "pages.py", "opening", "seamark", THROTTLE, folder=ours),
            "tensorboard": partial(
                child, "pages.py", "opening", "tensorboard", THROTTLE, folder=theirs
            ),
        }
        if TRACKIO_PYTHON:
            child("write_trackio.py", peers, POINTS, folder=theirs, python=TRACKIO_PYTHON)
            contestants["trackio"] = partial(
                child, "pages.py", "opening", "trackio", THROTTLE, folder=theirs
            )
        taken = bench.interleaved(contestants, rounds)
        turned = [child("pages.py", "table", TURNS, folder=ours)]
        idle = child("pages.py", "idle", TABS, IDLE_S, folder=ours)
    yield from _opened(taken, runs, peers, rounds)
    yield _turned(turned, runs)
    yield _idle(idle, runs)


def _opened(taken: dict[str, list[Sample]], runs: int, peers: int, rounds: int) -> Iterator[Result]:
    page = taken["seamark"]
    paint, table, chart, order = (
        middle(page, f"{what}_ms") for what in ("paint", "table", "chart", "sort")
    )
    others = {"tensorboard": "TensorBoard", "trackio": "Trackio"}
    peer_rows = [
        [
            f"{shown}, {peers:,} runs of one series",
            spread(taken[name], "paint_ms", ".0f"),
            "-",
            spread(taken[name], "chart_ms", ".0f"),
            "-",
        ]
        for name, shown in others.items()
        if name in taken
    ]
    yield Result(
        "page",
        f"The page of {runs:,} runs in a browser, its CPU slowed down {THROTTLE} x",
        "≤ 500 ms to the first paint, 1,000 to the table, 1,500 to a chart; sorted in 300",
        f"{paint:.0f}, {table:.0f}, {chart:.0f} ms; sorted in {order:.0f} ms",
        paint <= 500 and table <= 1_000 and chart <= 1_500 and order <= 300,
        ["page", "first paint, ms [min..max]", "table", "a chart", "sorted"],
        [
            [
                f"**`seamark ui`**, {runs:,} runs of 100 attributes",
                *(spread(page, f"{what}_ms", ".0f") for what in ("paint", "table", "chart")),
                spread(page, "sort_ms", ".0f"),
            ],
            *peer_rows,
        ],
        "Chromium without a window; the page's own clock, up to the frame that shows it. Each page "
        "is opened a second time, after its server has read everything.",
        rounds,
    )
    cold = page[0]
    yield Result(
        "page-cold",
        f"`seamark ui` on {runs:,} runs that nobody has read before",
        "≤ 1 s to the address, 3 s to the first rows",
        f"{cold['address_s']:.2f} s, {cold['rows_s']:.2f} s",
        cold["address_s"] <= 1 and cold["rows_s"] <= 3,
        note="From the start of the command; the browser runs already, at its own speed.",
    )


def _turned(taken: Sequence[Sample], runs: int) -> Result:
    shown = {"turn": "next page", "sort": "sorted by a column", "query": "a query"}
    worst = max(middle(taken, f"{name}_ms") for name in shown)
    cpu = max(middle(taken, f"{name}_cpu_ms") for name in shown)
    return Result(
        "page-table",
        f"The page's table of {runs:,} runs turned, sorted and queried, a browser at its own speed",
        "≤ 60 ms of CPU on the server, shown in 300 ms",
        f"{cpu:.0f} ms, {worst:.0f} ms, the slowest of the three",
        cpu <= 60 and worst <= 300,
        ["200 rows", "shown after, ms", "CPU of the server until then, ms", "with what follows"],
        [
            [
                words,
                f"{middle(taken, f'{name}_ms'):.0f}",
                f"{middle(taken, f'{name}_cpu_ms'):.0f}",
                f"{middle(taken, f'{name}_all_cpu_ms'):.0f}",
            ]
            for name, words in shown.items()
        ],
        f"Each {TURNS} times, each another one. After the rows the page asks for their curves, "
        "losses and attempts, which is in the last column.",
    )


def _idle(taken: Sample, runs: int) -> Result:
    return Result(
        "page-idle",
        f"{TABS} tabs open on {runs:,} runs of which none runs",
        "≤ 2 % of a core",
        f"{taken['share']:.1%}",
        taken["share"] <= 0.02,
        ["what", "share of a core"],
        [["answers, and looks at the folders", f"{taken['share']:.1%}"]],
        f"Over {taken['took_s']:.0f} s, in which {taken['requests']} requests came.",
    )


def charts(bench: Bench) -> Iterator[Result]:
    """Draw one series of many runs, and many charts of one run."""
    rounds = min(3, bench.rounds)
    with new_folder() as many, new_folder() as wide:
        child("writes.py", "runs", CURVES, bench.count(CURVE_POINTS), folder=many)
        run = child("writes.py", "wide", "series", CHARTS, folder=wide)["run"]
        taken = bench.interleaved(
            {
                "curves": partial(child, "pages.py", "curves", CURVES, folder=many),
                "charts": partial(child, "pages.py", "charts", run, folder=wide),
            },
            rounds,
        )
    curves, shown = taken["curves"], taken["charts"]
    size, after = curves[0]["bytes"], middle(curves, "after_ms")
    yield Result(
        "page-curves",
        f"One series of {CURVES} runs of {bench.count(CURVE_POINTS):,} points in one chart",
        "≤ 1 MB at 1,000 pixels; the first 10 within 500 ms",
        f"{size / 1e6:.2f} MB; {after:.0f} ms",
        size <= 1_000_000 and after <= 500,
        ["from", "the first 10 drawn after, ms [min..max]", "all"],
        [
            [
                "the page being opened",
                spread(curves, "first_ms", ".0f"),
                spread(curves, "all_ms", ".0f"),
            ],
            ["the curves being asked for", spread(curves, "after_ms", ".0f"), "-"],
        ],
        "At the browser's own speed. Bytes as they are sent, of all in one answer. The values are "
        "random numbers, which cannot be made smaller.",
        rounds,
    )
    opened, alive = middle(shown, "chart_ms"), max(one["alive"] for one in shown)
    tasks = max(one["long_tasks"] for one in shown)
    longest = max(max(one["opening_task_ms"], one["scrolling_task_ms"]) for one in shown)
    yield Result(
        "page-charts",
        f"A run of {CHARTS:,} series opened, and scrolled through to its last chart",
        "≤ 1.5 s; ≤ 24 charts alive; no task > 200 ms",
        f"{opened / 1e3:.2f} s; {alive} alive; {tasks} tasks > 200 ms",
        opened <= 1_500 and alive <= 24 and tasks == 0,
        ["opened, ms [min..max]", "places of charts", "most alive", "longest task, ms"],
        [
            [
                spread(shown, "chart_ms", ".0f"),
                f"{shown[0]['slots']:,}",
                str(alive),
                f"{longest:.0f}",
            ]
        ],
        "At the browser's own speed, to the first chart; four fifths of a screen each 60 ms.",
        rounds,
    )


def grid(bench: Bench) -> Iterator[Result]:
    """Draw six charts of few and of many runs, whose data are there."""
    rounds = min(3, bench.rounds)
    with new_folder() as folder:
        child("writes.py", "runs", max(GRID), bench.count(GRID_POINTS), folder=folder)
        taken = bench.interleaved(
            {str(runs): partial(child, "pages.py", "grid", runs, folder=folder) for runs in GRID},
            rounds,
        )
    drawn = {most: middle(taken[str(runs)], "drawn_ms") for runs, most in GRID.items()}
    yield Result(
        "page-grid",
        "Six charts in view, of 10 and of 100 runs, once their data are there",
        "; ".join(f"{runs} runs ≤ {most:,} ms" for runs, most in GRID.items()),
        "; ".join(f"{found:.0f} ms" for found in drawn.values()),
        all(found <= most for most, found in drawn.items()),
        ["runs in each chart", "drawn after, ms [min..max]", "after the page was opened, ms"],
        [
            [runs, spread(own, "drawn_ms", ".0f"), spread(own, "all_ms", ".0f")]
            for runs, own in taken.items()
        ],
        f"At the browser's own speed, {bench.count(GRID_POINTS):,} points a curve, from the last "
        "answer with curves to the frame that shows them all.",
        rounds,
    )


def live(bench: Bench) -> Iterator[Result]:
    """Leave the page open on a run that goes on, with a clock that is moved on."""
    polls = max(1_800, bench.count(POLLS))
    with new_folder() as folder:
        taken = child("pages.py", "live", polls, folder=folder)
    before, hour, after = taken["before"], taken["hour"], taken["after"]
    grown = {name: after[name] - before[name] for name in ("heap_mb", "nodes", "server_mb")}
    elements = after["elements"] - before["elements"]
    done, news = after["polls"] - before["polls"], after["news"] - before["news"]
    yield Result(
        "page-live",
        f"The page left open on a run that goes on, {done:,} of a day's {DAY:,} polls",
        "heap ≤ 5 MB more, no elements more, ≤ 20 MB more in the server",
        f"{grown['heap_mb']:+.1f} MB; {elements:+d}; {grown['server_mb']:+.1f} MB",
        grown["heap_mb"] <= 5 and elements <= 0 and grown["server_mb"] <= 20,
        ["after", "heap, MB", "elements", "nodes", "listeners", "server, MB"],
        [
            [
                words,
                f"{one['heap_mb']:.1f}",
                f"{one['elements']:,}",
                f"{one['nodes']:,}",
                f"{one['listeners']:,}",
                f"{one['server_mb']:.0f}",
            ]
            for words, one in (
                (f"{before['polls']:,} polls", before),
                (f"{hour['polls']:,} polls: an hour", hour),
                (f"{after['polls']:,} polls", after),
            )
        ],
        f"The page's clock is moved on to each poll; {news:,} of them brought something new, since "
        "the folder is looked at every two seconds of real time. After the garbage was collected.",
    )
    yield Result(
        "page-hour",
        "What the page holds after an hour of that",
        "≤ 60 MB of heap",
        f"{hour['heap_mb']:.1f} MB",
        hour["heap_mb"] <= 60,
    )


def training_beside(bench: Bench) -> Iterator[Result]:
    """Log with the page open on the folder, and without."""
    with new_folder() as folder:
        taken = bench.interleaved(
            {
                name: partial(child, "log_beside.py", name, BESIDE_S, folder=folder)
                for name in ("alone", "page")
            },
        )
    alone, page = taken["alone"], taken["page"]
    more = middle(page, "step_us") / middle(alone, "step_us") - 1
    yield Result(
        "page-training",
        "A training with the page open on its charts, beside without",
        "median step within 3 %",
        f"{more:+.1%} ({middle(page, 'step_us') / 1e3:.2f} ms)",
        more <= 0.03,
        [
            "steps of about 2 ms, 10 metrics each",
            "median step, µs [min..max]",
            "median `log_metrics`, µs",
            "its p99, µs",
        ],
        [
            [words, *(spread(own, f"{what}_us", ".1f") for what in ("step", "call", "late"))]
            for words, own in (("a process that only counts", alone), ("the page is open", page))
        ],
        f"Each {BESIDE_S} s, in which the page asked {page[0]['polls']} times; it, its server and "
        "its browser have the other core. Beside a core that sleeps a call takes longer than "
        "beside either, because it waits until that has woken.",
        bench.rounds,
    )
