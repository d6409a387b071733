"""Interface for reading one run, wherever it is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Protocol

from msgspec import Meta

from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo
from seamark.reading.contents import Contents
from seamark.reading.curves import MOST_PARTS, Curve, Drawing, Look
from seamark.reading.points import (
    Attempt,
    FilePoint,
    HistogramPoint,
    Points,
    TextPage,
    TextPoint,
)
from seamark.reading.ranks import RankStatus
from seamark.reading.verbs import Count, Path, Paths, verb

__all__ = ["Reader"]

Cursor = Annotated[str, Meta(max_length=2048)]
Nanoseconds = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Percents = Annotated[
    Sequence[Annotated[float, Meta(ge=0, le=100)]], Meta(min_length=1, max_length=100)
]
Parts = Annotated[int, Meta(ge=2, le=MOST_PARTS)]


class Reader(Protocol):
    """Reader of one run; each call sees a consistent snapshot.

    `seamark.store.read.run.RunReader` reads from a database, and documents each method;
    `seamark.remote.http.run.RemoteRun` asks a server. A method that is marked as a verb is a
    question that a server answers at ``read/<method>``: route, client and description are made of
    its signature.
    """

    @property
    def project(self) -> str:
        """Project path."""
        ...

    @property
    def name(self) -> str:
        """Run id."""
        ...

    @property
    def now_ns(self) -> int:
        """Time by the clock of who judges the run, nanoseconds since the Unix epoch."""
        ...

    @property
    def contents(self) -> Contents:
        """The files of the run, and where it is."""
        ...

    @verb(heavy=True)
    def attributes(self, namespace: Path = "") -> list[Attribute]:
        """Return what is visible at and below a path, sorted by path."""
        ...

    @verb()
    def attribute(self, path: Path) -> Attribute | None:
        """Return what a path shows, or None."""
        ...

    @verb()
    def has(self, path: Path) -> bool:
        """Return whether a path, or anything below it, shows something."""
        ...

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""
        ...

    @verb()
    def families(self) -> dict[str, str]:
        """Return what each path holds, sorted by path, without reading it."""
        ...

    @verb()
    def some(self, paths: Paths) -> list[Attribute]:
        """Return what some paths show, in their order."""
        ...

    @property
    def state(self) -> str:
        """State of the run."""
        ...

    @property
    def reason(self) -> str:
        """Cause of the run's last recorded state: an error or a signal; empty if not known."""
        ...

    @property
    def signal(self) -> str:
        """Signal that caused the last recorded state, such as ``"SIGTERM"``; empty if none did."""
        ...

    @property
    def traceback(self) -> str | None:
        """Path of the traceback that belongs to the run's end; None if there is none."""
        ...

    def crash(self) -> Crash | None:
        """Return how the process ended that trained the run; None unless the run crashed."""
        ...

    def has_failed(self) -> bool:
        """Return whether a process that spoke for the run noted that it failed."""
        ...

    @verb(timely=True)
    def ranks(self) -> list[RankStatus]:
        """Return how each rank that takes part in the run is doing, by rank."""
        ...

    @verb()
    def journals(self) -> list[JournalInfo]:
        """Return what is known of every journal, sorted by writer."""
        ...

    def problems(self) -> dict[str, Any]:
        """Return what went wrong with the run, by name."""
        ...

    def points(
        self, path: Path, attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Points:
        """Return the points of a float series, or the last ``limit`` of them."""
        ...

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Mapping[str, Points]:
        """Return the points of several float series."""
        ...

    @verb()
    def curve(self, path: Path, points: Parts, attempt: Attempt = "latest") -> Curve:
        """Return a float series in parts, for drawing."""
        ...

    @verb(heavy=True)
    def drawing(
        self, path: Path, look: Look | None = None, attempt: Attempt = "latest", since: Cursor = ""
    ) -> Drawing:
        """Return a float series along an axis of choice, for drawing."""
        ...

    @verb(heavy=True)
    def percentiles(
        self, path: Path, percents: Percents, attempt: Attempt = "latest"
    ) -> list[float]:
        """Return percentiles of the finite values of a float series; NaN if it has none."""
        ...

    @verb()
    def texts(self, path: Path, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series."""
        ...

    @verb()
    def text_page(self, file: Path, paths: Paths, begin: Count = 0) -> TextPage:
        """Return texts that one journal holds, in the order of writing, a page of them."""
        ...

    @verb()
    def text_begin(
        self,
        file: Path,
        paths: Paths,
        *,
        since_ns: Nanoseconds | None = None,
        lines: Count | None = None,
        points: Count | None = None,
    ) -> int:
        """Return where in a journal to begin to read for the last texts, in bytes."""
        ...

    @verb()
    def files(self, path: Path, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series."""
        ...

    @verb()
    def histograms(self, path: Path, attempt: Attempt = "latest") -> list[HistogramPoint]:
        """Return the points of a histogram series."""
        ...

    @verb()
    def last(self, path: Path) -> Any:
        """Return the last point of a series; None if there is none."""
        ...
