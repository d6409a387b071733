"""A server, its database, its clients and the way between them may all fail at any moment.

Afterwards every point that a training recorded is there once, nothing that was acknowledged is
lost, and the same comes out when everything is folded anew from the objects alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from databases import fresh_database, own_postgresql
from kill_seed import SEED
from killable import Place, refold
from recording import QUIET
from said import Heard, Said
from server_waits import until

from seamark import init_run
from seamark.journal.folder import RunFolder, iter_runs
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import next_batch
from seamark.remote.http.connection import Connection
from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import RemoteError, RunKey
from seamark.remote.sync import sync_run, unsent_data

SENDING = Path(__file__).with_name("sending.py")
SUPPORT = Path(__file__).parents[1] / "support"
SOURCE = Path(__file__).parents[2] / "src"
# Of the server, and as many of trainings; `nox -s kill_server` asks for 200.
KILLS = int(os.environ.get("SEAMARK_SERVER_KILLS", "2"))
# It ends earlier after so many seconds, with as many as there were by then.
KILLING_S = float(os.environ.get("SEAMARK_KILL_S", "inf"))
PROJECT = "faults"
STEPS = 100_000


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
    def __init__(self, root: Path, place: Place, said: Said) -> None:
        path = os.pathsep.join([str(SOURCE), str(SUPPORT)])
        words = [str(root), PROJECT, place.proxy.url, str(STEPS), str(said.path)]
        self.process = subprocess.Popen(
            [sys.executable, str(SENDING), *words],
            env={**os.environ, "PYTHONPATH": path, "SEAMARK_API_TOKEN": place.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        place.trainings.append(self)
        self.run = self.process.stdout.readline().strip()
        assert self.run

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let it end by itself; it waits for what is left to be sent, but not for long."""
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()

    def recorded(self, root: Path) -> int:
        folder = RunFolder(root, PROJECT, self.run)
        return sum(journal.path.stat().st_size for journal in folder.journals())

    def lives(self) -> bool:
        return self.process.poll() is None


class Witness:
    """Sends journals beside those who write them, as long as it is not stopped.

    So every journal has two senders, and those of a killed training go on to be sent.
    """

    def __init__(self, root: Path, place: Place, said: Said) -> None:
        self._root, self._place, self._said = root, place, said
        self._ended = threading.Event()
        self._draw = random.Random(SEED)
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        look(self._root, self._place, self._said)

    def _work(self) -> None:
        remote = Heard(Connection(self._place.proxy.url, self._place.token), self._said)
        while not self._ended.wait(0.05):
            folders = sorted(iter_runs(self._root), key=lambda folder: folder.path.stat().st_ctime)
            # Those that are written now, and one of the others.
            with contextlib.suppress(RemoteError, OSError):
                for folder in [*folders[-3:], *self._draw.sample(folders, min(1, len(folders)))]:
                    run = RunKey(folder.project, folder.run)
                    known = remote.journals(run)
                    for path in (journal.path for journal in folder.journals()):
                        with JournalReader(path) as reader:
                            batch = next_batch(reader, known.get(path.name, 0), 20_000)
                        if batch is not None and batch.data:
                            remote.send(run, path.name, batch.offset, batch.data)
        remote.close()


def look(root, place, said):
    with contextlib.closing(Heard(Connection(place.server.url, place.token), said)) as remote:
        for folder in iter_runs(root):
            remote.journals(RunKey(folder.project, folder.run))


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
    root, said = tmp_path / "runs", Said(tmp_path / "said")
    running = [Training(root, place, said) for _ in range(2)]
    witness = Witness(root, place, said)
    killed: Counter[str] = Counter()
    pause, end = threading.Event(), time.monotonic() + KILLING_S

    def kill_trainings():
        own = random.Random(SEED + 1)
        for _ in range(KILLS):
            if time.monotonic() > end:
                return
            pause.wait(own.uniform(0.1, 2.0))  # the moment is random; nothing depends on it
            victim = own.randrange(len(running))
            running[victim].kill()
            running[victim] = Training(root, place, said)
            killed["training"] += 1

    with ThreadPoolExecutor(1) as beside:
        trainings = beside.submit(kill_trainings)
        for _ in range(KILLS):
            if time.monotonic() > end:
                break
            pause.wait(draw.uniform(0.1, 1.0))
            killed[place.kill()] += 1
            print(dict(killed), flush=True)  # noqa: T201
        trainings.result()
    place.troubles = False
    for training in running:
        training.end()
    witness.stop()
    hold(said, killed)
    points = check_all(root, place)
    refold(place)
    look(root, place, said)
    hold(said, killed)
    assert check_all(root, place) == points
    print(len(list(iter_runs(root))), "runs,", points, "points, all there once")  # noqa: T201
    said.close()


def hold(said, killed):
    count, lost = said.judge()
    print(dict(killed), count, "batches acknowledged,", len(lost), "lost")  # noqa: T201
    assert count
    assert lost == [], f"SEAMARK_KILL_SEED={SEED}"


@pytest.mark.once
@pytest.mark.slow
def test_database_that_is_stopped_costs_no_record_and_no_restart(tmp_path, draw):
    """In order and as after a loss of power, while clients send."""
    with own_postgresql(tmp_path) as postgresql, fresh_database(postgresql.url) as url:
        place = Place(tmp_path / "server", url, draw)
        place.troubles = False
        root, said = tmp_path / "runs", Said(tmp_path / "said")

        def more_comes():
            before = said.judge()[0]
            until(lambda: said.judge()[0] >= before + 3, 120)

        running = [Training(root, place, said) for _ in range(2)]
        processes = sorted(place.server.workers())
        for number in (signal.SIGQUIT, signal.SIGINT):
            more_comes()
            postgresql.stop(number)
            for training in running:  # recording goes on
                before = training.recorded(root)
                until(lambda one=training, was=before: one.recorded(root) > was)
            postgresql.start()
        more_comes()
        assert all(training.lives() for training in running)
        for training in running:
            training.end()
            assert training.process.returncode == 0
        check_all(root, place)
        look(root, place, said)
        hold(said, {})
        assert sorted(place.server.workers()) == processes
        place.close()
        said.close()
