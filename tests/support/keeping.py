"""What a server keeps of journals, without a server around it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from journal_builder import JournalBuilder

from seamark.server.databases import open_databases
from seamark.server.kept import layout
from seamark.server.kept.caretaker import Caretaker
from seamark.server.kept.intake import Intake
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import FolderObjects

PROJECT, RUN = "team/x", "run0000000000000"


class Worker(Intake):
    """An intake with a method that waits until a batch is stored."""

    def put(self, *batch, **named):
        return self.submit(*batch, **named).result()


class Place:
    """Databases, a folder of objects, and whatever a test opens on them."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.objects = FolderObjects(folder)
        self.databases = open_databases(url)
        self.database = self.databases.kept
        self.database.create_tables(layout.metadata)
        self.now = 1_800_000_000 * 10**9
        self.purged = set()
        self._intakes = []

    def now_ns(self):
        return self.now

    def gone(self, project, run):
        return (project, run) in self.purged

    def intake(self, objects=None, **options):
        """Open another worker."""
        made = Worker(
            self.database,
            objects or self.objects,
            **{"gone": self.gone, "now_ns": self.now_ns, "window_s": 0.02, **options},
        )
        self._intakes.append(made)
        return made

    def kept(self):
        return IntakeJournals(self.database, self.objects, self.now_ns)

    def caretaker(self, objects=None):
        return Caretaker(self.database, objects or self.objects, self.now_ns)

    def bytes_of(self, journal, project=PROJECT, run=RUN):
        """Return what is kept of a journal; nothing if it is not there."""
        kept = self.kept()
        if journal not in kept.journals(project, run):
            return b""
        source = kept.source(project, run, journal)
        return source.pread(source.size(), 0)

    def close(self):
        for intake in self._intakes:
            intake.close()
        self.databases.close()
        self.objects.close()


def journal(name="one", rows=12, project=PROJECT, run=RUN):
    """Return a journal of a run."""
    made = JournalBuilder(name, project=project, run=run)
    for step in range(rows):
        made.row({"a": step * 0.5, "b": -step}, step)
    return made


def places(made):
    """Return where a batch of a journal may begin and end."""
    return [0, *made.ends]


def at_once(*calls):
    """Make calls in threads that start together; return their results, or what they raised."""
    start = threading.Barrier(len(calls))

    def make(call):
        start.wait()
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - it is a result
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(make, calls))


def nothing(name):
    """Do nothing."""


def died(name):
    """Fail as a worker that ends at this moment."""
    raise OSError(name)


class Meddling:
    """Objects of a worker that calls `before` and `after` with the name of each it writes."""

    def __init__(self, objects, after=nothing):
        self._objects, self.before, self.after = objects, nothing, after

    def put(self, name, data, *more):
        self.before(name)
        self._objects.put(name, data, *more)
        self.after(name)

    def __getattr__(self, name):
        return getattr(self._objects, name)
