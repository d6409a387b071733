"""The page in a browser: how soon what a person waits for is there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, child, middle, spread
from rows.series import new_folder

RUNS, PEER_RUNS, POINTS = 10_000, 300, 100
THROTTLE = 4


def opened_in_a_browser(bench: Bench) -> Iterator[Result]:
    """Open the table of 10,000 runs, a four times slower browser, beside TensorBoard's charts."""
    runs, peers = bench.count(RUNS), bench.count(PEER_RUNS)
    with new_folder() as ours, new_folder() as theirs:
        child("write_runs.py", runs, folder=ours)
        child("write_tensorboard.py", peers, POINTS, folder=theirs)
        taken = bench.interleaved(
            {
                "seamark": partial(child, "open_page.py", "seamark", THROTTLE, folder=ours),
                "tensorboard": partial(
                    child, "open_page.py", "tensorboard", THROTTLE, folder=theirs
                ),
            }
        )
    page, peer = taken["seamark"], taken["tensorboard"]
    paint, table, chart, order = (
        middle(page, f"{what}_ms") for what in ("paint", "table", "chart", "sort")
    )
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
            [
                f"TensorBoard, {peers:,} runs of one series",
                spread(peer, "paint_ms", ".0f"),
                "-",
                spread(peer, "chart_ms", ".0f"),
                "-",
            ],
        ],
        "Chromium without a window. Each page is opened a second time, after its server has read "
        f"everything. The address is printed after {middle(page, 'address_s'):.2f} s, the first "
        f"rows of runs that nobody has read before are there after {page[0]['rows_s']:.1f} s.",
        bench.rounds,
    )
