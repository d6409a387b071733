"""Neptune's client logs to a server that is killed: what it was told is kept, is there.

On demand, ``nox -s kill_neptune``: the package has to be there, or interpreters that have it are
named, ``SEAMARK_NEPTUNE_PYTHON=/a/bin/python:/b/bin/python``.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from kill_seed import SEED
from killable import Place, refold
from neptune_client import Client

SCRIPT = Path(__file__).with_name("neptune_logging.py")
KILLS = int(os.environ.get("SEAMARK_SERVER_KILLS", "3"))
# It ends earlier after so many seconds, with as many as there were by then.
KILLING_S = float(os.environ.get("SEAMARK_KILL_S", "inf"))
PYTHONS = os.environ.get("SEAMARK_NEPTUNE_PYTHON", "").split(os.pathsep)
PROJECT = "faults/neptune"
MODES = ("sync", "async", "offline")
ENDS_S = 600.0

pytestmark = [pytest.mark.thorough, pytest.mark.once]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    store = None
    if request.param == "postgresql":
        store = request.getfixturevalue("postgresql_url")
    draw = random.Random(SEED)
    with contextlib.closing(Place(tmp_path / "server", store, draw)) as opened:
        yield opened


class Logging:
    """A process of the client, which begins one run after the other until it is told to stop.

    Args:
        place: The server.
        folder: Its own.
        python: Which has the client.
        mode: Of the client.
    """

    def __init__(self, place: Place, folder: Path, python: str, mode: str) -> None:
        folder.mkdir(parents=True)
        self.mode, self.folder = mode, folder
        self._notes, self._stop = folder / "notes", folder / "stop"
        words = ["token", "create", "--neptune", "--project", PROJECT, "--server", place.proxy.url]
        made = subprocess.run(
            [sys.executable, "-m", "seamark", *words],
            env={**os.environ, "SEAMARK_API_TOKEN": place.token},
            capture_output=True,
            text=True,
            check=True,
        )
        told = dict(line.split("=", 1) for line in made.stdout.splitlines() if "=" in line)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._out = (folder / "out").open("wb")
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(SCRIPT), mode, str(self._notes), str(self._stop)],
            cwd=folder,
            env={**env, **told},
            stdout=self._out,
            stderr=self._out,
        )

    def lives(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Have it end at once."""
        self.process.kill()
        self.process.wait()
        self._out.close()

    def end(self) -> None:
        """Have it end in order, which takes as long as it takes to send what is left."""
        self._stop.touch()
        assert self.process.wait(ENDS_S) == 0, (self.folder / "out").read_text()[-4000:]
        self._out.close()

    def noted(self) -> int:
        """Return how much it was told until now."""
        return self._notes.stat().st_size if self._notes.exists() else 0

    def _lines(self) -> list[list[Any]]:
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [json.loads(line) for line in lines]

    def told(self) -> tuple[dict[str, dict[str, int]], list[str]]:
        """Return what of each run was acknowledged, and why it gave up."""
        kept: dict[str, dict[str, int]] = {}
        gave_up = []
        for run, what, upto in self._lines():
            if what == "gave up":
                gave_up.append(upto)
            else:
                kept.setdefault(run, {})[what] = upto
        return kept, gave_up

    def abandoned(self) -> set[str]:
        """Return the runs in which it gave up, with one request that was never answered."""
        lines = self._lines()
        return {one[0] for one, after in itertools.pairwise(lines) if after[1] == "gave up"}


def noted(clients):
    """Return how much clients were told until now."""
    return sum(client.noted() for client in clients)


class Judge:
    """Compares what clients were told with what is there.

    Args:
        place: The server.
    """

    def __init__(self, place: Place) -> None:
        self._client = Client(place.server.url, place.token)
        self.counts: Counter[str] = Counter()
        self.lost: list[str] = []

    def _get(self, name: str, run: str, path: str, **query: Any) -> Any:
        status, found = self._client.call(
            name, experimentId=f"{PROJECT}/{run}", attribute=path, **query
        )
        assert status in (200, 404), (name, run, path, status, found)
        return found if status == 200 else None

    def _floats(self, run: str, path: str) -> list[tuple[float, float]]:
        found = self._get("getFloatSeriesValuesCSV", run, path)
        if found is None:
            return []
        text = found.decode() if isinstance(found, bytes) else str(found)
        return [(float(row[0]), float(row[2])) for row in csv.reader(io.StringIO(text))]

    def _lines(self, run: str) -> list[tuple[float, str]]:
        points: list[tuple[float, str]] = []
        while True:
            some = self._get(
                "getStringSeriesValues", run, "lines", limit=10_000, offset=len(points)
            )
            values = [] if some is None else some["values"]
            points += [(float(one["step"]), one["value"]) for one in values]
            if not values:
                return points

    def look(self, run: str, kept: dict[str, int], marked: dict[str, str]) -> Any:
        """Note what is lost or doubled of a run; return all that is there."""
        run = marked.get(run, run)
        steps, free, lines = self._floats(run, "steps"), self._floats(run, "free"), self._lines(run)
        for what, values in [
            ("steps", [int(value) for _, value in steps]),
            ("free", [int(value) for _, value in free]),
            ("lines", [int(text.partition(" ")[2]) for _, text in lines]),
        ]:
            seen, upto = Counter(values), kept.get(what, -1)
            missing = [number for number in range(upto + 1) if number not in seen]
            self.counts["acknowledged"] += upto + 1
            self.counts[f"doubled {what}"] += seen.total() - len(seen)
            self.lost += [f"{run} {what} {number}" for number in missing]
        assert all(step == value for step, value in steps)
        assert all(f"line {step:g}" == text for step, text in lines)
        last = (self._get("getIntAttribute", run, "last") or {"value": -1})["value"]
        if last < kept.get("last", -1):
            self.lost.append(f"{run} last {last} < {kept['last']}")
        file = self._get("downloadAttribute", run, "file")
        if (upto := kept.get("file")) is not None:
            text = b"" if file is None else file
            if int(text.partition(b" ")[2] or -1) < upto:
                self.lost.append(f"{run} file {text!r} < {upto}")
            self.counts["files"] += 1
        return [steps, free, lines, last, file]

    def marked(self) -> dict[str, str]:
        """Return the ids of runs that have a mark, by it: those recorded offline learn none."""
        found: dict[str, str] = {}
        while True:
            page = {"pagination": {"limit": 1000, "offset": len(found)}}
            given = {**page, "attributeFilters": [{"path": "mark"}, {"path": "sys/id"}]}
            given["query"] = {"query": '`mark`:string != ""'}
            told = self._client.ok(
                "searchLeaderboardEntries", given, projectIdentifier=PROJECT, type="run"
            )
            if not told["entries"]:
                return found
            for entry in told["entries"]:
                shown = {
                    one["name"]: one["stringProperties"]["value"] for one in entry["attributes"]
                }
                found[shown["mark"]] = shown["sys/id"]

    def all(self, clients: list[Logging]) -> Any:
        """Return all that is there of all runs that clients were told of."""
        marked = self.marked()
        return {
            run: self.look(run, kept, marked)
            for client in clients
            for run, kept in client.told()[0].items()
            if run
        }


@pytest.mark.timeout(max(1500, 40 * KILLS))
def test_what_clients_were_told_is_kept_is_there(tmp_path, place):
    """SIGKILL of a worker, a fold worker, the supervisor, or all, while all modes log.

    Every point is there once, also one without a step that the client sends again because its
    answer was lost. Folding everything anew gives the same, but for what clients gave up.
    """
    pythons = [one for one in PYTHONS if one]
    if not pythons and importlib.util.find_spec("neptune") is None:
        pytest.skip("no neptune here; SEAMARK_NEPTUNE_PYTHON names a Python that has it")
    place.troubles = False  # a client that is cut off half-way is not what is asked here
    pythons = pythons or [sys.executable]
    chosen = [(mode, pythons[0]) for mode in MODES]
    chosen += [(mode, python) for python in pythons[1:] for mode in ("sync", "async")]
    clients = [
        Logging(place, tmp_path / f"client{number}", python, mode)
        for number, (mode, python) in enumerate(chosen)
    ]
    place.trainings += clients
    killed: Counter[str] = Counter()
    pause, end = threading.Event(), time.monotonic() + KILLING_S
    for _ in range(KILLS):
        before = noted(clients)  # clients wait ever longer: nobody is hit who does nothing
        while noted(clients) <= before and time.monotonic() < end:
            pause.wait(0.05)
        if time.monotonic() > end:
            break
        pause.wait(place.draw.uniform(0.0, 1.5))  # the moment is random; nothing depends on it
        killed[place.kill()] += 1
        print(dict(killed), flush=True)  # noqa: T201
        assert all(client.lives() for client in clients), f"SEAMARK_KILL_SEED={SEED}"
    for client in clients:
        client.end()
    judge = Judge(place)
    before = judge.all(clients)
    gave_up = [why for client in clients for why in client.told()[1]]
    print(dict(killed), len(before), "runs", dict(judge.counts), len(judge.lost), "lost")  # noqa: T201
    print(len(gave_up), "times gave up:", Counter(why[:160] for why in gave_up))  # noqa: T201
    assert judge.counts["acknowledged"]
    assert judge.lost == [], f"SEAMARK_KILL_SEED={SEED}"
    assert sum(judge.counts[f"doubled {what}"] for what in ("steps", "free", "lines")) == 0
    refold(place)
    judge = Judge(place)
    after = judge.all(clients)
    assert (judge.lost, sorted(after)) == ([], sorted(before))
    differ = {run for run in before if after[run] != before[run]}
    # Bytes may have been written, but not taken, when a process died. If the client gave up and
    # never sent them again, who has nothing but the bytes takes them.
    assert differ <= {run for client in clients for run in client.abandoned()}
    for run in differ:
        *points, last, file = before[run]
        *now, last_now, file_now = after[run]
        assert [new[: len(old)] for old, new in zip(points, now, strict=True)] == points
        assert sum(map(len, now)) - sum(map(len, points)) + last_now - last == 1
        assert file_now == file
