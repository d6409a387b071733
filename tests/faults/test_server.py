"""A server, its database, its clients and the way between them may all fail at any moment.

Afterwards every point that a training recorded is there once, the server never forgets what it
said that it has, and the same comes out when all is folded anew from the objects alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from databases import fresh_database, own_postgresql
from kill_seed import SEED
from killable import Place, refold
from recording import QUIET
from scripts import start_script
from server_waits import until

from seamark import init_run
from seamark.journal.folder import RunFolder, iter_runs
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader
from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import RemoteError, RunKey
from seamark.remote.sync import sync_run, unsent_data

SENDING = """
import sys, threading, time
from recording import QUIET
from seamark import init_run
from seamark.types import File

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
run = init_run("faults", root=sys.argv[1], remote=sys.argv[2], **QUIET)
print(run.id, flush=True)
step = 0
while not ended.is_set():
    run.log_metrics({"train/loss": 1 / (step + 1), "train/step": float(step)}, step=step)
    if step % 50 == 0:
        run[f"params/p{step % 7}"] = step
        run["log"].append(f"line {step}")
    if step % 100 == 0:
        run["files/last"].upload(File.from_content(f"file {step}\\n" * 100, "txt"))
    step += 1
    time.sleep(0.002)
run.stop()
"""
# Of the server, and as many of trainings; `nox -s kill_server` asks for 200.
KILLS = int(os.environ.get("SEAMARK_SERVER_KILLS", "2"))
PROJECT = "faults"


@pytest.fixture
def draw():
    return random.Random(SEED)


@pytest.fixture
def place(request, tmp_path, draw):
    is_sqlite = request.param == "sqlite"
    store = None if is_sqlite else request.getfixturevalue("postgresql_url")
    with contextlib.closing(Place(tmp_path / "server", store, draw)) as opened:
        yield opened


class Training:
    """A process that records, and sends until its standard input ends."""

    def __init__(self, root: Path, place: Place) -> None:
        words = [str(root), place.proxy.url]
        self.process = start_script(SENDING, *words, SEAMARK_API_TOKEN=place.token)
        place.trainings.append(self)
        self.run = self.process.stdout.readline().strip()
        assert self.run

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let it end by itself; it waits for what is left to be sent, but not for long."""
        self.process.communicate(timeout=120)

    def recorded(self, root: Path) -> int:
        folder = RunFolder(root, PROJECT, self.run)
        return sum(journal.path.stat().st_size for journal in folder.journals())

    def lives(self) -> bool:
        return self.process.poll() is None


def look(root, place, most):
    """Note how much of every journal the server has, which is never less than it was before."""
    with contextlib.closing(open_remote(place.server.url, place.token)) as remote:
        for run in [RunKey(folder.project, folder.run) for folder in iter_runs(root)]:
            for name, offset in remote.journals(run).items():
                assert offset >= most.get((run, name), 0), f"SEAMARK_KILL_SEED={SEED}: {run} {name}"
                most[run, name] = offset


def send_the_rest(root, place):
    with contextlib.closing(open_remote(place.server.url, place.token)) as remote:
        for folder in iter_runs(root):
            assert sync_run(unsent_data(folder, remote), remote).problems == []
            left = unsent_data(folder, remote)
            assert (left.journals, left.files, left.problems) == ({}, {}, [])


def check_kept(root, place):
    """Assert that every whole frame that was recorded is kept once; return positions of runs."""
    positions = {}
    with place.kept() as kept:
        for folder in iter_runs(root):
            known = kept.journals(folder.project, folder.run)
            recorded = {journal.path.name for journal in folder.journals()}
            assert recorded <= set(known)
            for name in set(known) - recorded:  # what was observed of a process that was killed
                with JournalReader(kept.source(folder.project, folder.run, name)) as reader:
                    assert reader.header()["ended"] in recorded
                    assert [frame.kind for frame in reader.frames()] == [Kind.HEADER, Kind.CLOSE]
            for journal in folder.journals():
                name = journal.path.name
                source = kept.source(folder.project, folder.run, name)
                with JournalReader(journal.path) as here, JournalReader(source) as there:
                    frames, others = (
                        [(frame.t, frame.kind, frame.payload) for frame in reader.frames()]
                        for reader in (here, there)
                    )
                assert frames == others, f"SEAMARK_KILL_SEED={SEED}: {name}"
            positions[folder.run] = sum(each.size for each in known.values())
    return positions


def check_folded(root, place, positions):
    """Assert that the server has every point of every run; return how many there are."""
    count = 0
    for folder in iter_runs(root):
        here = init_run(PROJECT, root=root, with_id=folder.run, mode="read-only", **QUIET)
        asked = {"project": PROJECT, "run": folder.run}
        position = f"{PROJECT}/{folder.run}", positions[folder.run]
        for path in ("train/loss", "train/step"):
            points = here[path].fetch_points()
            (there,) = place.read("points", position, **asked, paths=[path])
            there = there.points
            assert there.step.tolist() == points.step.tolist(), f"SEAMARK_KILL_SEED={SEED}"
            assert there.value.tolist() == points.value.tolist()
            count += len(points.step)
        lines = place.read("texts", position, **asked, path="log")
        assert len(lines) == len(here["log"].fetch_values())
        count += len(lines)
    return count


def check_all(root, place):
    place.troubles = False
    send_the_rest(root, place)
    return check_folded(root, place, check_kept(root, place))


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.timeout(max(600, 40 * KILLS))
@pytest.mark.parametrize(
    "place", ["postgresql", pytest.param("sqlite", marks=pytest.mark.thorough)], indirect=True
)
def test_killed_servers_and_trainings_lose_nothing(tmp_path, place, draw):
    """SIGKILL at random moments, of either while the other is there or not; cut connections."""
    root = tmp_path / "runs"
    running = [Training(root, place) for _ in range(2)]
    killed: Counter[str] = Counter()
    most: dict[tuple[RunKey, str], int] = {}
    pause = threading.Event()

    def kill_trainings():
        own = random.Random(SEED + 1)
        for _ in range(KILLS):
            pause.wait(own.uniform(0.1, 2.0))  # the moment is random; nothing depends on it
            victim = own.randrange(len(running))
            running[victim].kill()
            running[victim] = Training(root, place)
            killed["training"] += 1

    with ThreadPoolExecutor(1) as beside:
        trainings = beside.submit(kill_trainings)
        for _ in range(KILLS):
            pause.wait(draw.uniform(0.1, 1.0))
            with contextlib.suppress(RemoteError):  # a worker may still be missing
                look(root, place, most)
            killed[place.kill()] += 1
            print(dict(killed), flush=True)  # noqa: T201
        trainings.result()
    place.troubles = False
    for training in running:
        training.end()
    look(root, place, most)
    assert most
    points = check_all(root, place)
    look(root, place, most)
    refold(place)
    look(root, place, most)
    assert check_all(root, place) == points
    print(len(list(iter_runs(root))), "runs,", points, "points, all there once")  # noqa: T201


@pytest.mark.once
@pytest.mark.slow
def test_database_that_is_stopped_costs_no_record_and_no_restart(tmp_path, draw):
    """In order and as after a loss of power, while clients send."""
    with own_postgresql(tmp_path) as postgresql, fresh_database(postgresql.url) as url:
        place = Place(tmp_path / "server", url, draw)
        place.troubles = False
        root = tmp_path / "runs"

        def known():
            with contextlib.closing(open_remote(place.server.url, place.token)) as remote:
                keys = [RunKey(PROJECT, one.run) for one in running]
                with contextlib.suppress(RemoteError):  # the database is not back yet
                    return sum(sum(remote.journals(key).values()) for key in keys)
            return 0

        def more_comes():
            before = until(known)
            until(lambda: known() > before, 120)

        running = [Training(root, place) for _ in range(2)]
        processes = sorted(place.server.workers())
        for number in (signal.SIGQUIT, signal.SIGINT):
            more_comes()
            had = known()
            postgresql.stop(number)
            for training in running:  # recording goes on
                before = training.recorded(root)
                until(lambda one=training, was=before: one.recorded(root) > was)
            postgresql.start()
            assert until(known) >= had
        more_comes()
        assert all(training.lives() for training in running)
        for training in running:
            training.end()
            assert training.process.returncode == 0
        check_all(root, place)
        assert sorted(place.server.workers()) == processes
        place.close()
