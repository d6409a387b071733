"""What a server keeps of the files of artifacts, looked at and taken care of by another process."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

from seamark.paths import ARTIFACTS
from seamark.server.blobs.tables import ONE, WHOLE, parse
from seamark.server.databases import open_databases
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import open_objects

HOUR_NS = 3600 * 10**9


class Keep:
    """What a server keeps, seen by a process of its own that takes care of it, too."""

    def __init__(self, settings):
        self._settings = settings

    @contextlib.contextmanager
    def _opened(self):
        databases = open_databases(self._settings.store)
        objects = open_objects(self._settings.blobs)
        try:
            yield databases.kept, objects
        finally:
            objects.close()
            databases.close()

    def tend(self, hours):
        """Do what a worker of the server does now and then, by a clock that is ahead."""
        with self._opened() as (kept, objects):
            IntakeJournals(kept, objects, lambda: time.time_ns() + int(hours * HOUR_NS)).tend()

    def contents(self, project, name="data"):
        """Return of which contents of an artifact there are bytes, and how many objects of each."""
        return Counter(each.digest for each in self._parsed(project, name))

    def whole(self, project, name="data"):
        found = self._parsed(project, name)
        return {each.digest for each in found if each.what in (ONE, WHOLE)}

    def _parsed(self, project, name):
        with self._opened() as (_, objects):
            listed = objects.listed(f"blobs/{project}/{ARTIFACTS}/{name}/")
            return list(filter(None, [parse(one.name) for one in listed]))
