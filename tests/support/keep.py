"""Looks at what a server stores of the files of artifacts, and tidies it up."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from seamark.paths import ARTIFACTS
from seamark.server.blobs.tables import ONE, WHOLE, parse, upload
from seamark.server.databases import open_databases
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import ObjectStore, open_objects

if TYPE_CHECKING:
    from seamark.server.settings import Settings

HOUR_NS = 3600 * 10**9


class Keep:
    """Access to what a server stores, for another process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Any, ObjectStore]]:
        databases = open_databases(self._settings.store)
        objects = open_objects(self._settings.blobs)
        try:
            yield databases.kept, objects
        finally:
            objects.close()
            databases.close()

    def tend(self, hours: float) -> None:
        """Tidy up as a worker of the server does, with a clock that is ahead."""
        with self._opened() as (kept, objects):
            IntakeJournals(kept, objects, lambda: time.time_ns() + int(hours * HOUR_NS)).tend()

    def _stored(self, project: str) -> list[Any]:
        with self._opened() as (_, objects):
            names = [one.name for one in objects.listed(f"blobs/{project}/{ARTIFACTS}/data/")]
        return [found for found in map(parse, names) if found is not None]

    def contents(self, project: str) -> Counter[str]:
        """Return how many objects there are of each content of the artifact ``data``."""
        return Counter(each.digest for each in self._stored(project))

    def whole(self, project: str) -> set[str]:
        """Return which contents of the artifact ``data`` are complete."""
        return {each.digest for each in self._stored(project) if each.what in (ONE, WHOLE)}

    def arrived(self, project: str) -> set[int]:
        """Return the sizes of unfinished uploads of the artifact ``data``, in bytes."""
        with self._opened() as (kept, _), kept.reading() as connection:
            rows = connection.execute(sa.select(upload.c.offset, upload.c.project))
            place = f"{project}/{ARTIFACTS}/data"
            return {offset for offset, at in rows if at == place}
