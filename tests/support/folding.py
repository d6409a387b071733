"""Fold workers in processes of their own, journals that are sent, and what they must read as."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

from bytes_source import BytesSource
from journal_builder import JournalBuilder, fold_run

from seamark.errors import RunNotFoundError
from seamark.server.changes import Positions
from seamark.server.databases import open_databases
from seamark.server.kept.intake import Intake
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import open_objects
from seamark.server.settings import Settings
from seamark.server.state import make_tables
from seamark.store import schema
from seamark.store.database import Database, memory_engine
from seamark.store.read.run import RunReader
from seamark.store.runs import Store
from seamark.store.schema import PathNumbers

_WORKER = "import sys\nfrom seamark.server.run import main\nsys.exit(main(sys.argv[1:]))\n"


class Place:
    """What a server stands on, without the processes that answer."""

    def __init__(self, folder, url, now_ns=time.time_ns):
        self.settings = Settings.at(folder, url)
        self.now_ns = now_ns
        self.sent = {}
        self.workers = []
        self.databases = open_databases(self.settings.store)
        make_tables(self.databases)
        self.objects = open_objects(self.settings.blobs)
        self.intake = Intake(self.databases.kept, self.objects, now_ns=now_ns, window_s=0.005)
        self.kept = IntakeJournals(self.databases.kept, self.objects, now_ns)
        self.positions = Positions(self.databases.store)

    def send(self, project, run, journal, end=None):
        """Send what is new of a journal up to a byte; return the position."""
        of_run = self.sent.setdefault((project, run), {})
        before = of_run.get(journal.file, b"")
        data = journal.data[: end or journal.offset]
        taken = self.intake.take(project, run, journal.file, len(before), data[len(before) :])
        of_run[journal.file] = data
        return taken.position

    def start_worker(self):
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, "fold", str(os.open(os.devnull, os.O_WRONLY))],
            stdin=subprocess.PIPE,
        )
        process.stdin.write(self.settings.to_json().encode() + b"\n")
        process.stdin.flush()
        self.workers.append(process)
        return process

    def reader(self, project, run):
        """Return the reader of a run as the server has it."""

        def opened(name):
            return self.kept.source(project, run, name)

        return RunReader(self.databases.store, project, run, opened, now_ns=self.now_ns)

    def close(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
        for worker in self.workers:
            worker.wait(60)
            worker.stdin.close()
        self.intake.close()
        self.objects.close()
        self.databases.close()


def a_journal(name, project, run, **facts):
    facts = {"format": 1, "run": run, "project": project, "rank": 0, **facts}
    return JournalBuilder(name, **facts)


def _shown(value):
    """Return a value as text; a set, which has no order, in one."""
    return repr(sorted(value) if isinstance(value, (set, frozenset)) else value)


def says(reader):
    """Return everything that a reader says of a run that does not depend on the moment."""
    try:
        found = {
            one.path: (one.family, one.type, _shown(one.value))
            for one in reader.attributes()
            if one.path not in ("sys/state", "sys/crash_reason")
        }
    except RunNotFoundError:
        return {}
    for path in reader.series_paths():
        points = reader.points(path, "all")
        columns = (points.step, points.value, points.time_ns, points.attempt)
        found[f"{path}:points"] = [list(map(repr, column.tolist())) for column in columns]
    return found


def oracle(project, run, journals):
    """Return the same of journals that are folded in one go, as on a machine that has them."""
    database = Database(memory_engine())
    database.create_tables(schema.metadata)
    store = Store(database, PathNumbers(database))
    sources = {name: partial(BytesSource, name, data) for name, data in journals.items()}
    fold_run(store, project, run, sources, time.time_ns)
    found = says(
        RunReader(lambda: store, project, run, lambda name: sources[name](), now_ns=time.time_ns)
    )
    database.engine.dispose()
    return found
