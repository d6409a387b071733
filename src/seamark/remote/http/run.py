"""Run on a server: every method of a reader, over HTTP."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, cast

from seamark.paths import is_inside
from seamark.reading.answers import Facts, Overview, SeriesPart
from seamark.reading.attributes import Attribute
from seamark.reading.codec import WireError
from seamark.reading.curves import Curve, Drawing, Look, check_points
from seamark.reading.points import Attempt, Points, check_attempt
from seamark.reading.reader import Reader
from seamark.reading.verbs import Verb, verbs_of
from seamark.remote.http.contents import RemoteContents
from seamark.remote.protocol import RunKey

if TYPE_CHECKING:
    from seamark.process.crashes import Crash
    from seamark.reading.drawn import Key
    from seamark.remote.http.asking import Asking

__all__ = ["RemoteRun", "add_parts", "joined", "reader"]

_FLOATS: Final = "float_series"
_PATHS_AT_ONCE: Final = 500
_MOST_BYTES: Final = 1 << 19
"""Bytes of a question, roughly."""
_MOST_LAST: Final = 1 << 24
_VERBS: Final = verbs_of(Reader)


def reader(asking: Asking, project: str, run: str) -> Reader:
    """Return the reader of a run on a server; nothing is asked yet."""
    return cast("Reader", RemoteRun(asking, project, run))


class RemoteRun:
    """Run as a server has it; see `seamark.reading.reader.Reader`.

    What is not defined here asks the question of its name. Answers are cached: a view shows the run
    at one moment, and a new one at a later moment.

    Args:
        asking: Asks the server.
        project: Project path.
        run: Run id.

    Attributes:
        project: Project path.
        name: Run id.
        contents: Its files.
    """

    def __init__(self, asking: Asking, project: str, run: str) -> None:
        self.project = project
        self.name = run
        self._asking = asking
        self._known: dict[str, Any] = {}
        self.contents = RemoteContents(asking, RunKey(project, run))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the method that asks a question.

        Raises:
            AttributeError: If there is no such question.
        """
        if (verb := _VERBS.get(name)) is None:
            raise AttributeError(name)
        return functools.partial(self._ask_verb, verb)

    def _ask_verb(self, verb: Verb, *arguments: Any, **named: Any) -> Any:
        given = dict(zip(verb.parameters, arguments, strict=False)) | named
        if "attempt" in given:
            check_attempt(given["attempt"])
        return self._ask(verb.name, verb.answer, **given)

    def _ask(self, verb: str, kind: Any, **arguments: Any) -> Any:
        return self._asking.read(verb, kind, self._question(**arguments))

    def _question(self, **arguments: Any) -> dict[str, Any]:
        return {"project": self.project, "run": self.name, **arguments}

    def _once(self, verb: str, kind: Any) -> Any:
        if verb not in self._known:
            self._known[verb] = self._ask(verb, kind)
        return self._known[verb]

    @property
    def now_ns(self) -> int:
        """Time by the clock of the server, nanoseconds since the Unix epoch."""
        return self._asking.now_ns()

    # ------------------------------------------------------------------ the whole

    def overview(self) -> Overview:
        """Return how the run is doing.

        Raises:
            RunNotFoundError: If it is not there.
        """
        found: Overview = self._once("overview", Overview)
        return found

    def keep_facts(self) -> None:
        """Ask for all but points at once, so that what is read of it is of one moment.

        Raises:
            RunNotFoundError: If it is not there.
        """
        facts: Facts = self._ask("facts", Facts)
        self._known.update({one.name: getattr(facts, one.name) for one in fields(Facts)})

    @property
    def state(self) -> str:
        """State of the run."""
        return self.overview().state

    @property
    def reason(self) -> str:
        """Cause of the run's last recorded state: an error or a signal; empty if not known."""
        return self.overview().reason

    @property
    def signal(self) -> str:
        """The signal that made it, if one did; else empty."""
        return self.overview().signal

    @property
    def traceback(self) -> str | None:
        """Path of the traceback that belongs to the run's end; None if there is none."""
        return self.overview().traceback

    def crash(self) -> Crash | None:
        """Return how the process ended that trained the run; None unless the run crashed."""
        return self.overview().crash

    def has_failed(self) -> bool:
        """Return whether a process that spoke for the run noted that it failed."""
        return self.overview().failed

    def problems(self) -> dict[str, Any]:
        """Return what went wrong with the run, by name; only what is not empty."""
        return self.overview().troubles

    def ranks(self) -> list[Any]:
        """Return how each rank that takes part in the run is doing, by rank."""
        return list(self._once("ranks", _VERBS["ranks"].answer))

    def journals(self) -> list[Any]:
        """Return what is known of every journal, sorted by writer."""
        return list(self._once("journals", _VERBS["journals"].answer))

    # ------------------------------------------------------------------ attributes

    def attributes(self, namespace: str = "") -> list[Attribute]:
        """Return what is visible at and below a path, sorted by path."""
        if namespace and "attributes" not in self._known:
            return list(self._ask("attributes", list[Attribute], namespace=namespace))
        found = self._once("attributes", list[Attribute])
        return [one for one in found if is_inside(one.path, namespace)]

    def attribute(self, path: str) -> Attribute | None:
        """Return what a path shows, or None."""
        if "attributes" in self._known:
            return next((one for one in self.attributes() if one.path == path), None)
        found: Attribute | None = self._ask("attribute", Attribute | None, path=path)
        return found

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""
        return [path for path, family in self.families().items() if family == _FLOATS]

    def families(self) -> dict[str, str]:
        """Return what each path holds, sorted by path, without reading it."""
        if "attributes" in self._known:
            return {one.path: one.family for one in self.attributes()}
        found = self._once("families", dict[str, str])
        return {path: found[path] for path in sorted(found)}

    def some(self, paths: Collection[str]) -> list[Attribute]:
        """Return what some paths show, in their order."""
        wanted = list(paths)
        if "attributes" in self._known:
            known = {one.path: one for one in self.attributes()}
            return [known[path] for path in wanted if path in known]
        found: dict[str, Attribute] = {}
        for part in _in_parts(wanted):
            answer = self._ask("some", list[Attribute], paths=part)
            found |= {one.path: one for one in answer}
        return [found[path] for path in wanted if path in found]

    # ------------------------------------------------------------------ series

    def points(self, path: str, attempt: Attempt = "latest", *, limit: int | None = None) -> Points:
        """Return the points of a float series, or the last ``limit`` of them."""
        return self.many_points([path], attempt, limit=limit)[path]

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Mapping[str, Points]:
        """Return the points of several float series."""
        check_attempt(attempt)
        wanted = list(dict.fromkeys(paths))
        # A server finds the begin of the last few points; of very many, all are asked for.
        last = limit if limit is not None and limit <= _MOST_LAST else None
        parts: dict[Key, list[Points]] = {}
        for some in _in_parts(wanted):
            question = self._question(paths=some, attempt=attempt, limit=last)
            for answer in self._asking.parts("points", list[SeriesPart], question):
                add_parts(parts, answer.answer, "points")
        found = {path: joined(one) for (_, _, path), one in parts.items()}
        if not found.keys() >= set(wanted):
            msg = "the answer is not as agreed: it has points of no path"
            raise WireError(msg)
        return {path: found[path] if limit is None else found[path][-limit:] for path in wanted}

    def curve(self, path: str, points: int, attempt: Attempt = "latest") -> Curve:
        """Return a float series in parts, for drawing."""
        asked = {"path": path, "points": check_points(points), "attempt": check_attempt(attempt)}
        found: Curve = self._ask("curve", Curve, **asked)
        return found

    def drawing(
        self, path: str, look: Look | None = None, attempt: Attempt = "latest", since: str = ""
    ) -> Drawing:
        """Return a float series along an axis of choice, for drawing."""
        wanted = look or Look()
        wanted.check()
        asked = {"path": path, "look": wanted, "attempt": check_attempt(attempt), "since": since}
        found: Drawing = self._ask("drawing", Drawing, **asked)
        return found


def _in_parts(paths: list[str]) -> list[list[str]]:
    """Return paths in parts that go into one question each."""
    found: list[list[str]] = []
    size = _MOST_BYTES
    for path in paths:
        size += len(path)
        if size >= _MOST_BYTES or len(found[-1]) >= _PATHS_AT_ONCE:
            found.append([])
            size = len(path)
        found[-1].append(path)
    return found


def add_parts(found: dict[Key, list[Any]], parts: Sequence[SeriesPart], kind: str) -> None:
    """Add parts of series to those that came before; one that begins again replaces them.

    Args:
        found: What came before, by project, run id and path.
        parts: What came now.
        kind: ``"points"`` or ``"curve"``.

    Raises:
        WireError: If there is nothing in one, or nothing before it.
    """
    for part in parts:
        some = getattr(part, kind)
        if part.begins or kind == "curve":
            found[part.key] = []
        if some is None or part.key not in found:
            msg = f"the answer is not as agreed: a part of {part.path!r:.80} is missing"
            raise WireError(msg)
        found[part.key].append(some)


def joined(some: list[Points]) -> Points:
    """Return parts of a series as one."""
    import numpy as np

    if len(some) == 1:
        return some[0]
    return Points(
        **{
            name: np.concatenate([getattr(one, name) for one in some])
            for name in ("step", "value", "time_ns", "attempt")
        }
    )
