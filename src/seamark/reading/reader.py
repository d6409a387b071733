"""Protocol of a reader of one run, and the read requests that a server supports.

A method of `Reader` decorated with `verb` is a route of the server and a method of the client.
Annotations of arguments include their limits.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, defstruct

from seamark.process.liveness import Crash
from seamark.reading.attributes import Attribute, JournalInfo
from seamark.reading.contents import Contents
from seamark.reading.curves import MOST_PARTS, Curve, Drawing, Look
from seamark.reading.points import Attempt, FilePoint, HistogramPoint, Points, TextPage, TextPoint
from seamark.reading.ranks import RankStatus

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_MARK: Final = "_seamark_verb"
Path = Annotated[str, Meta(max_length=4096)]
"""Attribute path."""
Paths = Annotated[Collection[Path], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Question(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base class of read requests.

    Attributes:
        seen: ``seen`` of an earlier response to the same request; empty for none. If that response
            is still valid, the response is ``{"unchanged": true}``.
        next: ``next`` of the preceding part; empty for the first part.
    """

    seen: Annotated[str, Meta(max_length=200)] = ""
    next: Annotated[str, Meta(max_length=1 << 15)] = ""


class RunQuestion(Question, kw_only=True):
    """Base class of read requests for one run."""

    project: Path
    run: Path


class Answer(Struct, Generic[T], omit_defaults=True):
    """Response as sent.

    Attributes:
        answer: Requested data.
        seen: Tag that changes whenever the response may change; empty if unknown.
        next: ``next`` for the request for the next part of a long response; None if complete.
        told: Messages about paths that no run has.
        total: Number of runs or groups without a limit; None if they were not counted.
        unchanged: Whether the response equals the one in ``seen`` of the request, and is left out.
    """

    answer: T = UNSET  # type: ignore[assignment]  # left out
    seen: str = ""
    next: str | None = None
    told: list[str] = []
    total: int | None = None
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """Read request; ``name`` is the last segment of its address.

    ``answer`` is the type of the result, or an `Answer` of it; ``parameters`` may be given by
    position. The server limits the number of concurrent heavy requests. The response to a timely
    request changes even if nothing is recorded.
    """

    name: str
    about: str
    question: Any
    answer: Any
    parameters: tuple[str, ...] = ()
    is_heavy: bool = False
    is_timely: bool = False

    @property
    def envelope(self) -> Any:
        """Type of the response as sent."""
        is_whole = get_origin(self.answer) is Answer
        return self.answer if is_whole else Answer[self.answer]  # type: ignore[name-defined]


def verb(*, heavy: bool = False, timely: bool = False) -> Callable[[F], F]:
    """Mark a method as a read request that a server supports."""

    def mark(method: F) -> F:
        setattr(method, _MARK, (heavy, timely))
        return method

    return mark


@functools.cache
def verbs_of(protocol: type) -> dict[str, Verb]:
    """Return the read requests among the methods of a protocol, by name."""
    return {
        name: of_method(method, heavy=marks[0], timely=marks[1])
        for name, method in vars(protocol).items()
        if (marks := getattr(method, _MARK, None)) is not None
    }


def of_method(
    method: Callable[..., Any],
    base: type[Question] = RunQuestion,
    *,
    heavy: bool = False,
    timely: bool = False,
) -> Verb:
    """Return the read request of a method; ``base`` adds arguments."""
    hints = get_type_hints(method, include_extras=True)
    fields = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        field = (parameter.name, hints[parameter.name])
        is_optional = parameter.default is not parameter.empty
        fields.append((*field, parameter.default) if is_optional else field)
    name, about = method.__name__, inspect.cleandoc(method.__doc__ or "")
    title = f"{name.title().replace('_', '')}Question"
    question = defstruct(title, fields, bases=(base,), kw_only=True)
    parameters = tuple(field[0] for field in fields)
    return Verb(name, about, question, hints["return"], parameters, heavy, timely)


Cursor = Annotated[str, Meta(max_length=2048)]
Nanoseconds = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Parts = Annotated[int, Meta(ge=2, le=MOST_PARTS)]


class Reader(Protocol):
    """Reader of one run; each call reads a consistent snapshot.

    `seamark.store.read.run.RunReader` reads from a database, and documents each method;
    `seamark.remote.http.run.RemoteRun` reads from a server. A method marked as a verb is a route
    ``read/<method>`` of the server: route, client and description are derived from its signature.
    """

    @property
    def project(self) -> str:
        """Project path."""

    @property
    def name(self) -> str:
        """Run id."""

    @property
    def now_ns(self) -> int:
        """Current time by which states are judged, nanoseconds since the Unix epoch."""

    @property
    def contents(self) -> Contents:
        """Access to the files and the location of the run."""

    @verb(heavy=True)
    def attributes(self, namespace: Path = "") -> list[Attribute]:
        """Return the visible attributes at and below a path, sorted by path."""

    @verb()
    def attribute(self, path: Path) -> Attribute | None:
        """Return the attribute at a path, or None."""

    @verb()
    def has(self, path: Path) -> bool:
        """Return whether anything is visible at or below a path."""

    def series_paths(self) -> list[str]:
        """Return the sorted paths of float series."""

    @verb()
    def families(self) -> dict[str, str]:
        """Return the family of each path, sorted by path; values are not read."""

    @verb()
    def some(self, paths: Paths) -> list[Attribute]:
        """Return the attributes at given paths, in the same order."""

    @property
    def state(self) -> str:
        """State of the run."""

    @property
    def reason(self) -> str:
        """Cause of the last recorded state: an error or a signal; empty if unknown."""

    @property
    def signal(self) -> str:
        """Signal that caused the last recorded state, such as ``"SIGTERM"``; empty if none did."""

    @property
    def traceback(self) -> str | None:
        """Path of the traceback of the run's end; None if there is none."""

    def crash(self) -> Crash | None:
        """Return the end of the training process of a crashed run; None if it did not crash."""

    def has_failed(self) -> bool:
        """Return whether a process that represented the run recorded a failure."""

    @verb(timely=True)
    def ranks(self) -> list[RankStatus]:
        """Return the status of each rank of the run, by rank."""

    @verb()
    def journals(self) -> list[JournalInfo]:
        """Return the state of every journal, sorted by writer."""

    def problems(self) -> dict[str, Any]:
        """Return the problems of the run, by name."""

    def points(
        self, path: Path, attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Points:
        """Return the points of a float series, or its last ``limit`` points."""

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Mapping[str, Points]:
        """Return the points of several float series."""

    @verb()
    def curve(self, path: Path, points: Parts, attempt: Attempt = "latest") -> Curve:
        """Return a float series in parts, for drawing."""

    @verb(heavy=True)
    def drawing(
        self, path: Path, look: Look | None = None, attempt: Attempt = "latest", since: Cursor = ""
    ) -> Drawing:
        """Return a float series along a chosen axis, for drawing."""

    @verb()
    def texts(self, path: Path, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series."""

    @verb()
    def text_page(self, file: Path, paths: Paths, begin: Count = 0) -> TextPage:
        """Return a page of texts of one journal, in the order of writing."""

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
        """Return the offset in a journal, in bytes, from which to read for the last texts."""

    @verb()
    def files(self, path: Path, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series."""

    @verb()
    def histograms(self, path: Path, attempt: Attempt = "latest") -> list[HistogramPoint]:
        """Return the points of a histogram series."""

    @verb()
    def last(self, path: Path) -> Any:
        """Return the last point of a series; None if there is none."""
