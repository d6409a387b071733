"""Protocol of a reader of one run, and the questions that a server answers.

A method of `Reader` with the mark `verb` is a route of the server and a method of the client. The
annotations of its arguments have their limits.
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

__all__ = ["Answer", "Count", "Path", "Paths", "Reader", "Verb", "of_method", "verbs_of"]


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_MARK: Final = "_seamark_verb"
Path = Annotated[str, Meta(max_length=4096)]
"""Attribute path."""
Paths = Annotated[Collection[Path], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Question(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all questions.

    Attributes:
        seen: ``seen`` of an earlier answer to the same question; empty for none. If that answer
            still holds, ``{"unchanged": true}`` is answered.
        next: ``next`` of the previous part; empty for the first part.
    """

    seen: Annotated[str, Meta(max_length=200)] = ""
    next: Annotated[str, Meta(max_length=1 << 15)] = ""


class RunQuestion(Question, kw_only=True):
    """Base of questions about one run."""

    project: Path
    run: Path


class Answer(Struct, Generic[T], omit_defaults=True):
    """An answer as it is sent.

    Attributes:
        answer: What was asked for.
        seen: Changes whenever the answer may; empty if that is not known.
        next: ``next`` of the question for the next part of a long answer; None for none.
        told: Messages about paths that no run has.
        total: How many items a list of some runs or groups would have without a limit; None if they
            were not counted.
        unchanged: Whether the answer is the one that was seen, and is left out.
    """

    answer: T = UNSET  # type: ignore[assignment]  # left out
    seen: str = ""
    next: str | None = None
    told: list[str] = []
    total: int | None = None
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A question, ``name`` being the last part of its address.

    ``answer`` is its type, or an `Answer` of it; ``parameters`` may be given by position. Few heavy
    questions are answered at a time. The answer to a timely one changes while nothing is recorded.
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
        """Type of the answer as it is sent."""
        is_whole = get_origin(self.answer) is Answer
        return self.answer if is_whole else Answer[self.answer]  # type: ignore[name-defined]


def verb(*, heavy: bool = False, timely: bool = False) -> Callable[[F], F]:
    """Mark a method as a question that a server answers."""

    def mark(method: F) -> F:
        setattr(method, _MARK, (heavy, timely))
        return method

    return mark


@functools.cache
def verbs_of(protocol: type) -> dict[str, Verb]:
    """Return the questions among the methods of a protocol, by name."""
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
    """Return the question that a method answers; ``base`` has further arguments."""
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
    """Reader of one run; each call sees a consistent snapshot.

    `seamark.store.read.run.RunReader` reads from a database, and documents each method;
    `seamark.remote.http.run.RemoteRun` asks a server. A method that is marked as a verb is a
    question that a server answers at ``read/<method>``: route, client and description are made of
    its signature.
    """

    @property
    def project(self) -> str:
        """Project path."""

    @property
    def name(self) -> str:
        """Run id."""

    @property
    def now_ns(self) -> int:
        """Time by the clock of the judging machine, nanoseconds since the Unix epoch."""

    @property
    def contents(self) -> Contents:
        """The files of the run, and where it is."""

    @verb(heavy=True)
    def attributes(self, namespace: Path = "") -> list[Attribute]:
        """Return the visible attributes at and below a path, sorted by path."""

    @verb()
    def attribute(self, path: Path) -> Attribute | None:
        """Return the attribute at a path, or None."""

    @verb()
    def has(self, path: Path) -> bool:
        """Return whether a path, or anything below it, shows something."""

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""

    @verb()
    def families(self) -> dict[str, str]:
        """Return the family of each path, sorted by path, without reading values."""

    @verb()
    def some(self, paths: Paths) -> list[Attribute]:
        """Return the attributes at some paths, in their order."""

    @property
    def state(self) -> str:
        """State of the run."""

    @property
    def reason(self) -> str:
        """Cause of the run's last recorded state: an error or a signal; empty if not known."""

    @property
    def signal(self) -> str:
        """Signal that caused the last recorded state, such as ``"SIGTERM"``; empty if none did."""

    @property
    def traceback(self) -> str | None:
        """Path of the traceback that belongs to the run's end; None if there is none."""

    def crash(self) -> Crash | None:
        """Return how the process ended that trained the run; None unless the run crashed."""

    def has_failed(self) -> bool:
        """Return whether a process that spoke for the run noted that it failed."""

    @verb(timely=True)
    def ranks(self) -> list[RankStatus]:
        """Return how each rank that takes part in the run is doing, by rank."""

    @verb()
    def journals(self) -> list[JournalInfo]:
        """Return the facts about every journal, sorted by writer."""

    def problems(self) -> dict[str, Any]:
        """Return the problems of the run, by name."""

    def points(
        self, path: Path, attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Points:
        """Return the points of a float series, or the last ``limit`` of them."""

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
        """Return a float series along an axis of choice, for drawing."""

    @verb()
    def texts(self, path: Path, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series."""

    @verb()
    def text_page(self, file: Path, paths: Paths, begin: Count = 0) -> TextPage:
        """Return texts that one journal holds, in the order of writing, a page of them."""

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

    @verb()
    def files(self, path: Path, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series."""

    @verb()
    def histograms(self, path: Path, attempt: Attempt = "latest") -> list[HistogramPoint]:
        """Return the points of a histogram series."""

    @verb()
    def last(self, path: Path) -> Any:
        """Return the last point of a series; None if there is none."""
