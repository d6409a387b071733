"""The server: what it takes in, many that send at once, reading through it, its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, environment, middle, spread
from rows.series import new_folder
from rows.tables import RUNS
from servers import MLFLOW_PYTHON, Served, mlflow_server, postgresql, seamark_server
from timed_loop import cpu_s

METRICS = 10
SENDING_RUNS, CALLS, PEER_CALLS = 10, 100_000, 2000
PROCESSES, RUNS_EACH, LIVE_CALLS = 8, 8, 10_000
LONG = 100_000_000
CHARTS = 10
ONE_CORE = "million points a second and core"

Start = Callable[[Path], AbstractContextManager[Served]]


def seamark(command: str, *arguments: str, folder: Path, served: Served | None = None) -> Sample:
    """Run a command of ours, on a server if one is given, and return what it took."""
    env = environment(str(folder))
    if served is not None:
        env["SEAMARK_API_TOKEN"] = served.token
        where = ["--to" if command == "sync" else "--remote", served.url]
    else:
        where = []
    begun, cpu_begun = time.perf_counter(), cpu_s()
    done = subprocess.run(
        [sys.executable, "-m", "seamark", command, *arguments, *where],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert command == "sync" or done.stdout
    return {"wall_s": time.perf_counter() - begun, "cpu_s": cpu_s() - cpu_begun}


# ---------------------------------------------------------------- taking in


def points_taken_in(bench: Bench) -> Iterator[Result]:
    """Send finished runs, beside MLflow's server, on both databases."""
    calls, peer_calls = bench.count(CALLS), bench.count(PEER_CALLS)
    with postgresql() as fresh:

        def ours(where: str) -> Sample:
            database = fresh("bench") if where == "PostgreSQL" else None
            with new_folder() as folder:
                runs = child("writes.py", "metrics", SENDING_RUNS, calls, METRICS, folder=folder)
                with seamark_server(folder, database=database) as served:
                    return _taken_in(served, folder, runs["runs"], calls)

        def theirs(where: str) -> Sample:
            database = fresh("bench") if where == "PostgreSQL" else None
            with new_folder() as folder, mlflow_server(folder, database=database) as served:
                runs = child("send_mlflow.py", served.url, SENDING_RUNS, folder=folder)["runs"]
                before_s = served.cpu_s()
                sent = child(
                    "send_mlflow.py", served.url, peer_calls, METRICS, *runs, folder=folder
                )
                points = SENDING_RUNS * peer_calls * METRICS
                return {
                    "a_core": points / (served.cpu_s() - before_s) / 1e6,
                    "a_second": points / sent["wall_s"] / 1e6,
                }

        databases = ("SQLite", "PostgreSQL")
        taken = bench.interleaved({name: partial(ours, name) for name in databases})
        peers: dict[str, list[Sample]] = {}
        if MLFLOW_PYTHON:
            peers = bench.interleaved(
                {name: partial(theirs, name) for name in databases},
                rounds=bench.peer_rounds,
            )
    table, ratios = [], []
    for name in databases:
        for stage in ("acknowledged", "folded"):
            called = f"**Seamark**, {name}, {'acknowledged and ' * (stage == 'folded')}{stage}"
            figures = (spread(taken[name], f"{stage}_{what}") for what in ("a_core", "a_second"))
            table.append([called, f"{SENDING_RUNS * calls * METRICS:,}", *figures])
        if name in peers:
            ratios.append(middle(taken[name], "folded_a_core") / middle(peers[name], "a_core"))
            table.append(
                [
                    f"MLflow's server, {name}",
                    f"{SENDING_RUNS * peer_calls * METRICS:,}",
                    *(spread(peers[name], what, ".4f") for what in ("a_core", "a_second")),
                ]
            )
    said = " / ".join(f"{middle(taken[name], 'folded_a_core'):.2f}" for name in databases)
    beside = " / ".join(f"{ratio:.0f} x" for ratio in ratios)
    parts = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{part} {middle(taken[name], f'cpu_{part}'):.1f} s"
            for part in ("server", "fold worker", "database")
        )
        for name in databases
    )
    yield Result(
        "server-points",
        "Points into a server, sent by `seamark sync`, a second of its CPU",
        "more than MLflow's server on the same database",
        f"{said} {ONE_CORE} on {' / '.join(databases)}, folded"
        + (f"; {beside} MLflow's server" if beside else "; MLflow's server is not installed"),
        all(ratio > 1 for ratio in ratios),
        ["server", "points", f"{ONE_CORE} [min..max]", "million points a second [min..max]"],
        table,
        f"{SENDING_RUNS} runs, {METRICS} metrics a call. CPU of all processes of the server and of "
        "PostgreSQL, not of who sends. The fold worker stands still until all is acknowledged. "
        f"CPU of all ({parts}). MLflow is sent to by `log_batch` of 1,000 metrics on four threads.",
        bench.rounds,
    )


def _taken_in(served: Served, folder: Path, runs: list[str], calls: int) -> Sample:
    points = len(runs) * calls * METRICS / 1e6
    before, begun = served.cpu_parts(), time.perf_counter()
    with served.not_folding():
        seamark("sync", folder=folder, served=served)
        sent_s, sent_cpu_s = time.perf_counter() - begun, served.cpu_s() - sum(before.values())
    begun = time.perf_counter()
    served.wait_until_folded(runs)
    folded_s = time.perf_counter() - begun
    after = served.cpu_parts()
    return {
        "acknowledged_a_core": points / sent_cpu_s,
        "acknowledged_a_second": points / sent_s,
        "folded_a_core": points / (sum(after.values()) - sum(before.values())),
        "folded_a_second": points / (sent_s + folded_s),
        **{f"cpu_{part}": after[part] - before[part] for part in after},
    }


# ---------------------------------------------------------------- many at once


def many_at_once(bench: Bench) -> Iterator[Result]:
    """Have 64 runs of 8 processes recorded and sent at the same time."""
    calls = bench.count(LIVE_CALLS)

    def sent(start: Start) -> Sample:
        with new_folder() as folder, start(folder) as served:
            before_s = served.cpu_s()
            live = partial(
                child, "send_live.py", served.url, served.token, RUNS_EACH, calls, METRICS
            )
            with ThreadPoolExecutor(PROCESSES) as pool:
                found = [one.result() for one in [pool.submit(live) for _ in range(PROCESSES)]]
            positions = {run: at for one in found for run, at in one["positions"].items()}
            assert len(positions) == PROCESSES * RUNS_EACH
            served.wait_until_folded(list(positions))
            folded = time.time()
            took = sorted(each for one in found for each in one["took_ms"])
            begun = min(one["begun"] for one in found)
            return {
                "logged_s": max(one["logged"] for one in found) - begun,
                "acknowledged_s": max(one["acknowledged"] for one in found) - begun,
                "folded_s": folded - begun,
                "median_ms": took[len(took) // 2],
                "p99_ms": took[len(took) * 99 // 100],
                "most_ms": took[-1],
                "batches": len(took),
                "cpu_s": served.cpu_s() - before_s,
            }

    with postgresql() as fresh:
        taken = bench.interleaved(
            {
                "SQLite": partial(sent, seamark_server),
                "PostgreSQL": lambda: sent(
                    partial(seamark_server, database=fresh("bench")),
                ),
            }
        )
    points = PROCESSES * RUNS_EACH * calls * METRICS / 1e6
    behind_s = max(middle(own, "folded_s") - middle(own, "logged_s") for own in taken.values())
    yield Result(
        "server-many",
        f"{PROCESSES * RUNS_EACH} runs of {PROCESSES} processes recorded and sent at once",
        "all acknowledged and folded",
        f"{points:.1f} million points, "
        + " / ".join(f"{middle(own, 'folded_s'):.1f} s" for own in taken.values())
        + f" on {' / '.join(taken)}; at most {behind_s:.1f} s after the last call",
        met=True,
        columns=[
            "on",
            "last call, s",
            "all acknowledged, s [min..max]",
            "and folded, s [min..max]",
            "batches",
            "acknowledged after, median ms",
            "p99 ms",
            "most ms",
            "CPU of the server, s",
        ],
        table=[
            [
                name,
                f"{middle(own, 'logged_s'):.1f}",
                spread(own, "acknowledged_s", ".1f"),
                spread(own, "folded_s", ".1f"),
                f"{middle(own, 'batches'):,.0f}",
                *(f"{middle(own, each):.0f}" for each in ("median_ms", "p99_ms", "most_ms")),
                f"{middle(own, 'cpu_s'):.1f}",
            ]
            for name, own in taken.items()
        ],
        note=f"Each run has {calls:,} calls of {METRICS} metrics, without a pause, on the machine "
        "of the server. What a batch took is measured around the sender's request.",
        rounds=bench.rounds,
    )


# ---------------------------------------------------------------- reading


def reading_through(bench: Bench) -> Iterator[Result]:
    """Read 10,000 runs through a server, beside their folder."""
    runs = bench.count(RUNS)
    with new_folder() as folder:
        child("writes.py", "runs", runs, folder=folder)
        child("reads.py", "root", folder=folder)
        names = sorted(path.name for path in folder.glob(".seamark/default/*"))[:2]
        with seamark_server(folder) as served:
            sent = seamark("sync", folder=folder, served=served)
            begun = time.perf_counter()
            wait_for_all(served, runs)
            folded_s = time.perf_counter() - begun
            calls = {"table": "`fetch_runs_table`, first 100 by a metric", "one": "`fetch_last`"}
            commands = {
                "ls": ["ls", "--limit", "100", "--sort", "metrics/loss:min"],
                "show": ["show", names[0]],
                "compare": ["compare", *names],
            }
            taken = bench.interleaved(
                {
                    f"{what} {side}": partial(
                        child, "reads.py", "served", what, *at, names[0], folder=folder
                    )
                    for what in calls
                    for side, at in (("here", ("", "")), ("there", (served.url, served.token)))
                }
                | {
                    f"{name} {side}": partial(seamark, *command, folder=folder, served=at)
                    for name, command in commands.items()
                    for side, at in (("here", None), ("there", served))
                }
            )
    lines, met, said = [], True, []
    shown = {f"{what}": (text, "apart_ms", 1.0) for what, text in calls.items()}
    shown |= {name: (f"`seamark {name}`", "wall_s", 1e3) for name in commands}
    for name, (text, figure, factor) in shown.items():
        here, there = (
            [{"ms": one[figure] * factor} for one in taken[f"{name} {side}"]]
            for side in ("here", "there")
        )
        here_ms, there_ms = middle(here, "ms"), middle(there, "ms")
        allowed = 1.5 * here_ms + 20
        met &= there_ms <= allowed
        said.append(f"{there_ms:.0f} of {allowed:.0f} ms")
        lines.append(
            [text, spread(here, "ms", ".0f"), spread(there, "ms", ".0f"), f"{allowed:.0f}"]
        )
    yield Result(
        "server-reads",
        f"{runs:,} runs with 100 attributes through a server, beside their folder",
        "≤ 1.5 x the local call + 20 ms",
        "; ".join(said) + f" ({', '.join(shown)})",
        met,
        ["read", "from the folder, ms [min..max]", "from the server, ms [min..max]", "target, ms"],
        lines,
        f"SQLite, on this machine. Sending all runs took {sent['wall_s']:.0f} s, and folding the "
        f"rest of them {folded_s:.0f} s more. The first two are calls a second apart in a process "
        "that has made one, the others whole processes.",
        bench.rounds,
    )


def wait_for_all(served: Served, runs: int) -> None:
    """Wait until so many runs can be read."""

    def there() -> int:
        projects = json.loads(served.ask("read/projects", {})[0])["answer"]
        return sum(each["runs"] for each in projects)

    while there() < runs:
        time.sleep(0.2)


def chart(bench: Bench) -> Iterator[Result]:
    """Draw a very long series through a server."""
    points = bench.count(LONG)
    with new_folder() as folder:
        run = child("writes.py", "long", points, folder=folder)["run"]
        with seamark_server(folder) as served:
            begun = time.perf_counter()
            sent = seamark("sync", folder=folder, served=served)
            served.wait_until_folded([f"default/{run}"])
            folded_s = time.perf_counter() - begun
            asked = partial(_charts, served, run)
            read = partial(
                child, "reads.py", "served", "curve", served.url, served.token, run, folder=folder
            )
            taken = bench.interleaved({"chart": asked, "python": read})
    first, later = taken["chart"], taken["python"]
    ms = middle(first, "chart_ms")
    yield Result(
        "server-chart",
        f"A chart of 1,000 px of {points:,} points through a server",
        "≤ 200 ms",
        f"{ms:.0f} ms",
        ms <= 200,
        ["read by", "ms [min..max]", "CPU of the server, ms"],
        [
            *(
                [text, spread(first, f"{name}_ms", ".0f"), f"{middle(first, f'{name}_cpu_ms'):.0f}"]
                for text, name in (
                    ("`curve`, 1,000 points, the first of a round", "first"),
                    ("`curve`, 1,000 points, again", "chart"),
                    ("`drawing`, 1,000 px", "drawing"),
                )
            ),
            ["`fetch_points(points=1000)` a second apart", spread(later, "apart_ms", ".0f"), ""],
        ],
        f"One series, sent in {sent['wall_s']:.0f} s and folded {folded_s:.0f} s after the start "
        "on SQLite.",
        bench.rounds,
    )


def _charts(served: Served, run: str) -> Sample:
    """Ask for pictures; the clock of CPU time is coarse, so that several count together."""
    found = {}
    series = {"project": "default", "run": run, "path": "train/loss"}
    curve, drawing = {**series, "points": 1000}, {**series, "look": {"points": 1000}}
    for name, verb, question, times in (
        ("first", "curve", curve, 1),
        ("chart", "curve", curve, CHARTS),
        ("drawing", "drawing", drawing, CHARTS),
    ):
        begun, cpu_begun = time.perf_counter(), served.cpu_parts()["server"]
        for _ in range(times):
            body, _ = served.ask(f"read/{verb}", question)
            assert len(body) > 1000
        found[f"{name}_ms"] = (time.perf_counter() - begun) * 1e3 / times
        found[f"{name}_cpu_ms"] = (served.cpu_parts()["server"] - cpu_begun) * 1e3 / times
    return found


# ---------------------------------------------------------------- memory, and the sender


def memory(bench: Bench) -> Iterator[Result]:
    """Send run after run and look at the memory of the server's processes."""
    calls, turns = bench.count(CALLS), 10
    seen: list[dict[str, float]] = []
    with new_folder() as folder, seamark_server(folder) as served:
        for turn in range(turns):
            with new_folder() as source:
                runs = child("writes.py", "metrics", 2, calls, METRICS, folder=source)["runs"]
                seamark("sync", folder=source, served=served)
                served.wait_until_folded(runs)
            seen.append(served.resident_mb() | {"points": (turn + 1) * 2 * calls * METRICS / 1e6})
    grown = max(seen[-1][part] - seen[turns // 2][part] for part in ("worker", "fold worker"))
    yield Result(
        "server-memory",
        "Memory of a server that is sent run after run",
        "flat",
        f"{grown:+.0f} MB between {seen[turns // 2]['points']:.0f} and "
        f"{seen[-1]['points']:.0f} million points",
        grown <= 10,
        ["million points so far", "worker, MB", "fold worker, MB"],
        [[f"{one[name]:.0f}" for name in ("points", "worker", "fold worker")] for one in seen],
        "Resident memory, SQLite. Met means that neither grows by more than 10 MB in the second "
        "half.",
    )


def calls_with_a_remote(bench: Bench) -> Iterator[Result]:
    """Measure what a call of ``log_metrics`` costs while what it records is sent."""
    calls = bench.count(CALLS)
    with ExitStack() as stack:
        folder = stack.enter_context(new_folder())
        served = stack.enter_context(seamark_server(folder))
        told = {"BENCH_REMOTE": served.url, "BENCH_TOKEN": served.token}
        taken = bench.interleaved(
            {
                "without": partial(child, "log_calls.py", "seamark", calls, METRICS),
                "with": partial(child, "log_calls.py", "sent", calls, METRICS, env=told),
            }
        )
    without, with_one = taken["without"], taken["with"]
    ratio = middle(with_one, "median_us") / middle(without, "median_us")
    yield Result(
        "log-metrics-remote",
        "`log_metrics`, 10 metrics, while they are sent to a server on the same machine",
        "nothing added to a call",
        f"{middle(with_one, 'median_us'):.2f} µs, {ratio:.2f} x without a remote",
        ratio <= 1.1,
        ["remote", "calls", "median µs a call [min..max]", "p99 µs", "CPU µs a call, until sent"],
        [
            [
                name,
                f"{calls:,}",
                spread(own, "median_us"),
                f"{middle(own, 'p99_us'):.1f}",
                spread(own, "cpu_us"),
            ]
            for name, own in (("none", without), ("a server", with_one))
        ],
        "CPU of the process that trains: it includes reading, packing and sending. Met means at "
        "most 1.1 x.",
        bench.rounds,
    )
