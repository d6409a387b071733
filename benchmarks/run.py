"""Measure the targets of the design: ``python benchmarks/run.py [ROW ...]``.

Prints each row's table, figure and target, and keeps them in ``results.json`` beside this file
(a row that is measured again replaces its earlier figure). ``--page`` writes ``docs/benchmarks.md``
from what is kept.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator

import harness
from harness import SOURCE, Bench, Result

sys.path.insert(0, str(SOURCE))

from rows import (
    artifacts,
    captures,
    claims,
    footprint,
    ignite_profilers,
    kills,
    lightning_steps,
    logging_calls,
    neptune,
    neptune_client,
    page,
    series,
    server,
    sizes,
    tables,
)

ROWS: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "log-metrics": logging_calls.cost_of_a_call,
    "watched-training": captures.watched_training,
    "other-numbers": logging_calls.other_numbers,
    "points-per-second": logging_calls.points_a_second,
    "sigkill": kills.lost_at_sigkill,
    "journal-bytes": sizes.bytes_in_the_journal,
    "folded-bytes": sizes.bytes_folded,
    "first-read": series.first_read,
    "read-series": series.one_long_series,
    "one-value": series.one_value,
    "new-row": series.new_row,
    "curve": series.curve,
    "many-series": series.many_series,
    "frame": series.one_frame,
    "open-index": tables.many_runs,
    "runs-table": tables.runs_table,
    "whole-table": tables.whole_table,
    "team-table": tables.team_table,
    "lightning": lightning_steps.added_time,
    "ignite-profilers": ignite_profilers.added_time,
    "server-points": server.points_taken_in,
    "server-many": server.many_at_once,
    "claims": claims.claims,
    "server-reads": server.reading_through,
    "server-chart": server.chart,
    "server-memory": server.memory,
    "log-metrics-remote": server.calls_with_a_remote,
    "neptune-calls": neptune.client_calls,
    "neptune-requests": neptune.requests,
    "neptune-client": neptune_client.same_script,
    "page": page.opened_in_a_browser,
    "page-charts": page.charts,
    "page-grid": page.grid,
    "page-live": page.live,
    "page-training": page.training_beside,
    "seal-artifact": artifacts.sealing,
    "memory": footprint.memory,
    "import": footprint.import_time,
}
ORDER = [
    "log-metrics", "log-metrics-remote", "captures", "watched-training", "other-numbers",
    "append", "points-per-second", "sigkill", "journal-bytes", "folded-bytes", "first-read",
    "first-read-sets", "read-series", "one-value", "new-row", "curve", "many-series", "frame",
    "open-index", "ls", "runs-table", "runs-table-written", "whole-table", "team-table",
    "lightning", "ignite-profilers", "server-points", "server-many", "server-reads", "claims",
    "server-chart", "server-memory", "neptune-calls", "neptune-operations", "neptune-attributes",
    "neptune-client", "page", "page-cold", "page-table", "page-idle", "page-curves",
    "page-charts", "page-grid", "page-live", "page-hour", "page-training", "seal-artifact",
    "memory", "import",
]  # fmt: skip
KEPT = harness.HERE / "results.json"
PAGE = harness.HERE.parent / "docs" / "benchmarks.md"


def facts() -> dict[str, str]:
    """Return on what was measured."""
    names = ("torch", "lightning", "pytorch-ignite", "tensorboard", "mlflow-skinny", "numpy",
             "pandas", "sqlalchemy", "zstandard")  # fmt: skip
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "software": f"Python {platform.python_version()}, {versions}",
        "last measured": time.strftime("%Y-%m-%d"),
    }


def measure(name: str, bench: Bench) -> list[Result]:
    """Measure one row and print it."""
    before = os.getloadavg()[0]
    begun = time.perf_counter()
    results = list(ROWS[name](bench))
    for result in results:
        if result.key not in ORDER:
            raise LookupError(f"{name}: {result.key!r} has no place in ORDER")
        result.load = (before, os.getloadavg()[0])
        print("\n" + harness.section(vars(result)), flush=True)
    print(f"({name}: {time.perf_counter() - begun:.0f} s)", flush=True)
    return results


def page_now() -> str:
    """Return ``docs/benchmarks.md`` as the kept results make it."""
    return harness.page(json.loads(KEPT.read_text()), ORDER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"any of: {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="do less; nothing is kept then")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    names = given.rows or ([] if given.page else list(ROWS))
    bench = Bench(given.rounds, given.scale)
    missed = []
    for name in names:
        results = measure(name, bench)
        missed += [result.key for result in results if not result.met]
        if given.scale == 1:
            harness.keep(results, KEPT, facts())
    if given.page:
        PAGE.write_text(page_now())
    if missed:
        print(f"\ntargets missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
