"""The server as Neptune's client sees it: what a call costs, what it takes in, what it tells."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, Sample, child, middle, spread
from rows.series import new_folder
from servers import seamark_server

NEPTUNE_PYTHON = os.environ.get("NEPTUNE_PYTHON", "")
"""A Python that has the package neptune 1.14 installed."""
TURNS, BATCHES = 20, 50
SYNC = {
    "append": "`run[...].append(value)`",
    "assign": "`run[...] = value`",
    "read": "a call of the same library that writes nothing",
    "get": "a GET through the library's session",
}
KINDS = {
    "one series": "points of one series",
    "100 series": "points of 100 series in turn",
    "values": "the same 1,000 values again",
    "new values": "1,000 new values",
}


def client_calls(bench: Bench) -> Iterator[Result]:
    """Time the sync mode of the real client beside what the way there and back costs."""
    if not NEPTUNE_PYTHON:
        print("neptune-calls: NEPTUNE_PYTHON names no Python that has the package neptune")
        return

    def once() -> Sample:
        with new_folder() as folder, seamark_server(folder) as served:
            given = {"api_address": served.url, "api_key": served.token}
            env = {
                "NEPTUNE_API_TOKEN": base64.b64encode(json.dumps(given).encode()).decode(),
                "NEPTUNE_PROJECT": "bench/neptune",
                "OAUTHLIB_INSECURE_TRANSPORT": "1",
            }
            turns = bench.count(TURNS)
            return child("neptune_calls.py", turns, folder=folder, env=env, python=NEPTUNE_PYTHON)

    taken = bench.interleaved({"client": once})["client"]
    ratios = [middle(taken, f"{name}_ms") / middle(taken, "read_ms") for name in SYNC]
    yield Result(
        "neptune-calls",
        "A call of Neptune's client in sync mode, beside one that writes nothing",
        "≤ 1.3 x",
        f"{ratios[0]:.1f} x (points), {ratios[1]:.1f} x (values)",
        max(ratios[:2]) <= 1.3,
        ["call", "median ms [min..max]", "of that the client's own CPU, ms", "ratio"],
        [
            [
                text,
                spread(taken, f"{name}_ms"),
                f"{middle(taken, f'{name}_cpu_ms'):.2f}",
                f"{ratio:.2f}",
            ]
            for (name, text), ratio in zip(SYNC.items(), ratios, strict=True)
        ],
        "SQLite; the client, the server and its fold worker share this machine. What a call writes "
        "is on the disk before it is answered: that is one `fdatasync`.",
        bench.rounds,
    )


def requests(bench: Bench) -> Iterator[Result]:
    """Send batches as the client's async mode does, and read a run of 5,000 attributes."""
    batches = bench.count(BATCHES)

    def once(kind: str) -> Sample:
        with new_folder() as folder, seamark_server(folder) as served:
            before_s = served.cpu_parts()
            env = {"BENCH_URL": served.url, "BENCH_TOKEN": served.token}
            sample = child("neptune_requests.py", kind, batches, env=env)
            after_s = served.cpu_parts()
            return sample | {part: (after_s[part] - before_s[part]) * 1e3 for part in after_s}

    taken = bench.interleaved({kind: partial(once, kind) for kind in [*KINDS, "attributes"]})
    rates = [middle(taken[kind], "rate") for kind in KINDS]
    yield Result(
        "neptune-operations",
        "Operations of Neptune's client taken in a second, 1,000 in a request",
        "≥ 20,000",
        " / ".join(f"{rate:,.0f}" for rate in rates),
        min(rates) >= 20_000,
        ["operations", "a second [min..max]", "the server's CPU for 1,000, ms", "and to fold, ms"],
        [
            [
                text,
                spread(taken[kind], "rate", ",.0f"),
                *(f"{middle(taken[kind], x) / batches:.1f}" for x in ("server", "fold worker")),
            ]
            for kind, text in KINDS.items()
        ],
        "SQLite; one connection, each request once the last was answered, folding beside it.",
        bench.rounds,
    )
    found = middle(taken["attributes"], "ms")
    yield Result(
        "neptune-attributes",
        "`getExperimentAttributes` of 5,000 attributes",
        "≤ 200 ms",
        f"{found:.0f} ms",
        found <= 200,
        ["asked", "ms [min..max]"],
        [["a run with 2,500 values and 2,500 series", spread(taken["attributes"], "ms", ".0f")]],
        "SQLite; from before the request to after the last byte of its answer.",
        bench.rounds,
    )
