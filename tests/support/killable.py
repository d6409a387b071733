"""A server that is killed and started again, and the way to it, on which anything goes wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import sqlalchemy as sa
import urllib3
from proxy import Proxy, Trouble
from server_process import running_server

import seamark.server.routes.reads  # noqa: F401 - it adds its questions
from seamark.reading.codec import unpack
from seamark.server import reads
from seamark.server.databases import open_databases
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import open_objects


class Place:
    def __init__(self, folder, store, draw):
        self.folder, self.store, self.draw = folder, store, draw
        self.token = ""
        self.trainings = []
        self._stack = contextlib.ExitStack()
        self.server = self.start()
        parts = urlsplit(self.server.url)
        self.proxy = Proxy((str(parts.hostname), int(parts.port or 0)), self._trouble)
        self._stack.callback(self.proxy.close)
        self.troubles = True

    def _trouble(self, number):
        """Return what happens to a connection: every third is cut somewhere."""
        if not self.troubles or self.draw.random() < 0.7:
            return None
        kind = self.draw.random()
        if kind < 0.4:
            return Trouble(after_sent=self.draw.randrange(1, 20_000), reset=kind < 0.2)
        if kind < 0.8:
            return Trouble(after_answered=self.draw.choice([0, 0, 40, 500]))
        return Trouble(after_sent=self.draw.randrange(1, 3000), delay_s=0.01)

    def start(self):
        options = ["--fold-workers", "2"]
        if self.store:
            options += ["--workers", "2"]
        self.server = self._stack.enter_context(
            running_server(self.folder, *options, store=self.store)
        )
        self.token = self.server.token or self.token
        if hasattr(self, "proxy"):
            parts = urlsplit(self.server.url)
            self.proxy.to = str(parts.hostname), int(parts.port or 0)
        return self.server

    def kill(self):
        """Kill one of the server's processes, the one that starts them, or all; say which."""
        workers = self.server.workers()
        kind = self.draw.random()
        if workers and kind < 0.7:
            with contextlib.suppress(ProcessLookupError):  # it is ending, after the last kill
                os.kill(self.draw.choice(workers), signal.SIGKILL)
            return "one process"
        if kind < 0.85:  # the others notice, and finish while new ones work already
            self.server.stop(signal.SIGKILL)
        else:
            self.end(signal.SIGKILL)
        self.start()
        return "supervisor" if kind < 0.85 else "all processes"

    def end(self, number=signal.SIGTERM):
        workers = self.server.workers()
        self.server.stop(number)
        for pid in workers if number == signal.SIGKILL else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self):
        for training in self.trainings:
            if training.lives():  # the test has failed
                training.kill()
        self._stack.close()

    def read(self, verb, position, /, **question):
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Seamark-Position": f"{position[0]}={position[1]}",
            "Accept": "application/msgpack",
        }
        address = f"{self.server.url}/api/v1/read/{verb}"
        with urllib3.PoolManager() as pool:
            while True:  # each waits for two seconds at most; the test has a limit
                answer = pool.request(
                    "POST", address, json=question, headers=headers, retries=False
                )
                if answer.status == 404 or "Seamark-Behind" in answer.headers:
                    continue
                assert answer.status == 200, answer.data
                return unpack(answer.data, reads.verbs()[verb].envelope).answer

    @contextlib.contextmanager
    def kept(self):
        databases = open_databases(self.store or f"sqlite:///{self.folder}", statement_s=0)
        objects = open_objects((self.folder / "objects").absolute().as_uri())
        with contextlib.closing(databases), contextlib.closing(objects):
            yield IntakeJournals(databases.kept, objects)


def refold(place):
    """Lose every derived table and make all of them again from the objects."""
    place.end()
    options = ["--store", place.store] if place.store else []
    if place.store:
        engine = sa.create_engine(sa.make_url(place.store).set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            names = sa.inspect(connection).get_schema_names()
            mine = [name for name in names if name == "kept" or name.startswith("store_v")]
            assert len(mine) > 1
            for name in mine:
                connection.exec_driver_sql(f'DROP SCHEMA "{name}" CASCADE')
        engine.dispose()
    else:
        for file in place.folder.glob("*.db*"):
            if not file.name.startswith("account"):
                file.unlink()
    words = ["server", "--folder", str(place.folder), *options, "refold", "--objects"]
    subprocess.run([sys.executable, "-m", "seamark", *words], check=True, timeout=600)
    place.start()
