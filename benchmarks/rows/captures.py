"""What captures cost while a training goes on: an idle one and one that prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, child, middle, spread

_SECONDS = 40
_KINDS = ("idle", "chatty")
_CAPTURES = {"off": "off", "on": "on", "fd": 'on, output at the descriptor ("fd")'}


def watched_training(bench: Bench) -> Iterator[Result]:
    """Measure CPU, `log_metrics` and `print` with every capture off and on."""
    seconds = max(5, bench.count(_SECONDS))
    taken = bench.interleaved(
        {
            f"{kind} {captures}": partial(child, "captured_training.py", kind, captures, seconds)
            for kind in _KINDS
            for captures in _CAPTURES
        },
        max(3, bench.rounds // 2),
    )
    table, more, slower = [], {}, {}
    for kind in _KINDS:
        off = taken[f"{kind} off"]
        for captures, words in _CAPTURES.items():
            own = taken[f"{kind} {captures}"]
            more[kind, captures] = middle(own, "share") - middle(off, "share")
            slower[kind, captures] = middle(own, "log_us") / middle(off, "log_us")
            table.append(
                [
                    kind,
                    words,
                    f"{100 * middle(own, 'share'):.2f}",
                    f"{100 * more[kind, captures]:+.2f}",
                    spread(own, "log_us", ".2f"),
                    spread(own, "print_us", ".2f") if kind == "chatty" else "",
                ]
            )
    most = {kind: max(more[kind, each] for each in ("on", "fd")) for kind in _KINDS}
    yield Result(
        "watched-training",
        "All captures on, while a training goes on: idle, and one that prints 100 lines a second",
        "≤ 1 % of one core more; no measurable change of `log_metrics`",
        ", ".join(f"{100 * most[kind]:.2f} % ({kind})" for kind in _KINDS)
        + f"; `log_metrics` {slower['idle', 'on']:.2f} and {slower['chatty', 'on']:.2f} times",
        max(most.values()) <= 0.01,
        [
            *("training", "captures", "% of one core", "more"),
            *("`log_metrics`, median µs [min..max]", "`print`, median µs [min..max]"),
        ],
        table,
        "After the first seconds, in which what is captured once is found out. The idle one logs "
        "10 rows a second; the other one logs, prints a line and draws a progress bar 100 times a "
        "second. CPU is that of all processes that belong to it, and met is about it alone.",
        max(3, bench.rounds // 2),
    )
