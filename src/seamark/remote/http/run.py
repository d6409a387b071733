"""Run on a server: every method of a reader, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.paths import is_inside
from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo
from seamark.reading.curves import Curve, Drawing, Look, check_points
from seamark.reading.points import (
    Attempt,
    FilePoint,
    HistogramPoint,
    Points,
    TextPage,
    TextPoint,
    check_attempt,
)
from seamark.reading.ranks import RankStatus
from seamark.reading.wire import WireError
from seamark.remote.http.asking import part, parts
from seamark.remote.http.contents import RemoteContents
from seamark.remote.protocol import RunKey, TooLong, Unreachable

if TYPE_CHECKING:
    from seamark.remote.http.asking import Asking

__all__ = ["RemoteRun"]

T = TypeVar("T")

_FLOATS: Final = "float_series"
_PATHS_AT_ONCE: Final = 500
_MOST_BYTES: Final = 1 << 19
"""Bytes of a question, roughly."""
_MOST_LAST: Final = 1 << 24
_TRIES: Final = 10


class RemoteRun:
    """Run as a server has it; see `seamark.reading.reader.Reader`.

    Answers are cached: a view shows the run at one moment, and a new one at a later moment.

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
        self._key = RunKey(project, run)
        self._known: dict[str, Any] = {}
        self.contents = RemoteContents(asking, self._key)

    @property
    def now_ns(self) -> int:
        """Time by the clock of the server, nanoseconds since the Unix epoch."""
        return self._asking.now_ns()

    def expect(self) -> None:
        """Make sure that the run is there.

        Raises:
            RunNotFoundError: If it is not.
        """
        self._overview()

    def _get(self, what: str, **query: Any) -> dict[str, Any]:
        return self._asking.get(self._asking.of_run(self._key, what), query)

    def _post(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._asking.post(self._asking.of_run(self._key, what), body)

    def _once(self, name: str, ask: Callable[[], T]) -> T:
        if name not in self._known:
            self._known[name] = ask()
        found: T = self._known[name]
        return found

    # ------------------------------------------------------------------ the whole

    def _overview(self) -> dict[str, Any]:
        return self._once("overview", lambda: self._get("overview"))

    @property
    def state(self) -> str:
        """State of the run."""
        return part(self._overview(), "state", str)

    @property
    def reason(self) -> str:
        """Cause of the run's last recorded state: an error or a signal; empty if not known."""
        return part(self._overview(), "reason", str)

    @property
    def signal(self) -> str:
        """The signal that made it, if one did; else empty."""
        return str(self._overview().get("signal") or "")

    @property
    def traceback(self) -> str | None:
        """Path of the traceback that belongs to the run's end; None if there is none."""
        found = self._overview().get("traceback")
        return found if isinstance(found, str) else None

    def crash(self) -> Crash | None:
        """Return how the process ended that trained the run; None unless the run crashed."""
        found = self._overview().get("crash")
        return found if isinstance(found, Crash) else None

    def has_failed(self) -> bool:
        """Return whether a process that spoke for the run noted that it failed."""
        return part(self._overview(), "failed", bool)

    def troubles(self) -> dict[str, Any]:
        """Return what went wrong with the run, by name; only what is not empty."""
        return part(self._overview(), "troubles", dict)

    def ranks(self) -> list[RankStatus]:
        """Return how each rank that takes part in the run is doing, by rank."""
        return self._once("ranks", lambda: parts(self._get("ranks"), "ranks", RankStatus))

    def journals(self) -> list[JournalInfo]:
        """Return what is known of every journal, sorted by writer."""
        return self._once("writers", lambda: parts(self._get("writers"), "journals", JournalInfo))

    # ------------------------------------------------------------------ attributes

    def attributes(self, namespace: str = "") -> list[Attribute]:
        """Return what is visible at and below a path, sorted by path."""
        if namespace and "attributes/" in self._known:
            return [one for one in self.attributes() if is_inside(one.path, namespace)]

        def ask() -> list[Attribute]:
            return self._paged(
                "attributes", "attributes", Attribute, {"namespace": namespace or None}
            )

        return list(self._once(f"attributes/{namespace}", ask))

    def _paged(self, what: str, name: str, kind: type[T], query: dict[str, Any]) -> list[T]:
        """Return a list that may come in several answers."""
        found: list[T] = []
        while True:
            more = {"offset": len(found)} if found else {}
            answer = self._get(what, **query, **more)
            some = parts(answer, name, kind)
            found += some
            if len(found) >= part(answer, "total", int) or not some:
                return found

    def attribute(self, path: str) -> Attribute | None:
        """Return what a path shows, or None."""
        if "attributes/" in self._known:
            return next((one for one in self.attributes() if one.path == path), None)
        found = self._get("attribute", path=path).get("attribute")
        if found is not None and not isinstance(found, Attribute):
            msg = f"the answer is not as agreed: expected an attribute, got {found!r:.80}"
            raise WireError(msg)
        return found

    def has(self, path: str) -> bool:
        """Return whether a path, or anything below it, shows something."""
        return part(self._get("has", path=path), "has", bool)

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""
        return [path for path, family in self.families().items() if family == _FLOATS]

    def families(self) -> dict[str, str]:
        """Return what each path holds, sorted by path, without reading it."""
        if "attributes/" in self._known:
            return {one.path: one.family for one in self.attributes()}

        def ask() -> dict[str, str]:
            found = part(self._get("families"), "families", dict)
            return {str(path): str(found[path]) for path in sorted(found)}

        return dict(self._once("families", ask))

    def some(self, paths: Collection[str]) -> list[Attribute]:
        """Return what some paths show, in their order."""
        wanted = list(paths)
        if "attributes/" in self._known:
            known = {one.path: one for one in self.attributes()}
            return [known[path] for path in wanted if path in known]
        found: dict[str, Attribute] = {}
        for part_ in _in_parts(wanted):
            answer = self._post("attributes", {"paths": part_})
            found |= {one.path: one for one in parts(answer, "attributes", Attribute)}
            if part(answer, "total", int) > len(parts(answer, "attributes", Attribute)):
                left = (self.attribute(path) for path in part_ if path not in found)
                found |= {one.path: one for one in left if one is not None}
        return [found[path] for path in wanted if path in found]

    # ------------------------------------------------------------------ series

    def points(self, path: str, attempt: Attempt = "latest", *, limit: int | None = None) -> Points:
        """Return the points of a float series, or the last ``limit`` of them."""
        chosen = check_attempt(attempt)
        # A server finds the begin of the last few points; of very many, all are asked for.
        last = limit if limit is not None and limit <= _MOST_LAST else None
        for _ in range(_TRIES):
            found = self._parts(path, chosen, last, limit)
            if found is not None:
                return found
        msg = f"{path}: what it shows changed again and again while it was read; try again"
        raise Unreachable(msg)

    def _parts(
        self, path: str, attempt: int | str, last: int | None, limit: int | None
    ) -> Points | None:
        """Return a series from its parts; None if points were hidden meanwhile."""
        found: list[Points] = []
        after = None
        while True:
            answer = self._get("points-part", path=path, attempt=attempt, last=last, after=after)
            some = answer.get("points")
            if some is None:
                return None
            found.append(part(answer, "points", Points))
            if limit is not None:
                while sum(map(len, found[1:])) >= limit:
                    del found[0]
            after = answer.get("next")
            if after is None:
                whole = _joined(found)
                return whole if limit is None else whole[max(0, len(whole) - limit) :]
            after, last = part(answer, "next", str), None

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Mapping[str, Points]:
        """Return the points of several float series."""
        chosen = check_attempt(attempt)
        wanted = list(dict.fromkeys(paths))
        found: dict[str, Points] = {}
        for some in _in_parts(wanted):
            left = some
            while left:
                try:
                    answer = self._post(
                        "points", {"paths": left, "attempt": chosen, "limit": limit}
                    )
                except TooLong:  # one of them alone
                    found |= {path: self.points(path, attempt, limit=limit) for path in left}
                    break
                points, totals = part(answer, "points", dict), part(answer, "total", dict)
                # The first is always there, and what did not fit behind it is asked for again.
                for path in [left[0], *(path for path in left[1:] if path in points)]:
                    one = points.get(path)
                    if not isinstance(one, Points) or len(one) < totals.get(path, 0):
                        one = self.points(path, attempt, limit=limit)
                    found[path] = one
                left = [path for path in left if path not in found]
        return {path: found[path] for path in wanted}

    def curve(self, path: str, points: int, attempt: Attempt = "latest") -> Curve:
        """Return a float series in parts, for drawing."""
        check_points(points)
        chosen = check_attempt(attempt)
        return part(self._get("curve", path=path, points=points, attempt=chosen), "curve", Curve)

    def drawing(
        self, path: str, look: Look | None = None, attempt: Attempt = "latest", since: str = ""
    ) -> Drawing:
        """Return a float series along an axis of choice, for drawing."""
        wanted = look or Look()
        wanted.check()
        asked = {"path": path, "attempt": check_attempt(attempt), "since": since or None}
        return part(self._get("drawing", **asked, **asdict(wanted)), "drawing", Drawing)

    def texts(self, path: str, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series."""
        return self._records("texts", TextPoint, path, attempt)

    def files(self, path: str, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series."""
        return self._records("files", FilePoint, path, attempt)

    def histograms(self, path: str, attempt: Attempt = "latest") -> list[HistogramPoint]:
        """Return the points of a histogram series."""
        return self._records("histograms", HistogramPoint, path, attempt)

    def _records(self, what: str, kind: type[T], path: str, attempt: Attempt) -> list[T]:
        chosen = check_attempt(attempt)
        return self._paged(what, "points", kind, {"path": path, "attempt": chosen})

    def last(self, path: str) -> Any:
        """Return the last point of a series; None if there is none."""
        return self._get("last", path=path).get("last")

    def text_page(self, file: str, paths: Collection[str], begin: int = 0) -> TextPage:
        """Return texts that one journal holds, in the order of writing, a page of them."""
        answer = self._post("text-page", {"file": file, "paths": list(paths), "begin": begin})
        return part(answer, "page", TextPage)

    def text_begin(
        self,
        file: str,
        paths: Collection[str],
        *,
        since_ns: int | None = None,
        lines: int | None = None,
        points: int | None = None,
    ) -> int:
        """Return where in a journal to begin to read for the last texts, in bytes."""
        body = {
            "file": file,
            "paths": list(paths),
            "since_ns": since_ns,
            "lines": lines,
            "points": points,
        }
        return part(self._post("text-begin", body), "begin", int)


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


def _joined(some: list[Points]) -> Points:
    import numpy as np

    if len(some) == 1:
        return some[0]
    return Points(
        **{
            name: np.concatenate([getattr(one, name) for one in some])
            for name in ("step", "value", "time_ns", "attempt")
        }
    )
