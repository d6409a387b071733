"""Catalog of the runs on a server, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from seamark.errors import QueryError, RunNotFoundError
from seamark.paths import PROJECT_LOG, is_inside
from seamark.reading.catalog import (
    ChangedRun,
    Changes,
    Columns,
    Progress,
    Ref,
    RunField,
    Selection,
    SharedPath,
    Unknown,
    refuse,
)
from seamark.reading.codec import Curves, SeriesPart, Table, WireError
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.groups import Key, RunGroup, RunGroups, curves_of_runs
from seamark.reading.names import RunName
from seamark.reading.points import Attempt, check_attempt
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
from seamark.remote.http.connection import Connection, run_path
from seamark.remote.http.reads import ServerClient, expect_member
from seamark.remote.http.run import RemoteRun, add_parts, join_points
from seamark.remote.protocol import RemoteError, RunKey, TooLong

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.reading.reader import Answer, Reader


T = TypeVar("T")

_MAX_ROWS: Final = 10_000
"""Maximum number of rows per answer."""
_MAX_REFS: Final = 10_000
"""Maximum number of runs named in one request."""
_RELEASE_S: Final = 10.0
"""Time limit for sending a run before its claim is released, in seconds."""
_SAMPLE_ROWS: Final = 50
_MAX_POINTS_EACH: Final = 8192
"""Maximum number of representative points per curve if an answer holds several."""
_MAX_SERIES: Final = 400
_MAX_SERIES_POINTS: Final = 1 << 20
"""Maximum numbers of series and of their representative points in one answer."""
_MAX_MOMENTS: Final = 1000
"""Maximum number of times named in one request."""
_SELECTION_FIELDS: Final = (
    *("project", "kind", "query", "id", "state", "owner", "tag", "trashed"),
    *("offset", "sort_by", "ascending"),
)
_TOKEN: Final = re.compile(r"""`[^`]*`|"([^"]*)"|'([^']*)'|(?<![\w./:-])(\d{4}-[\w:.+-]*)""")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class RemoteCatalog:
    """Runs that the user may read on a server; see `seamark.reading.catalog.Catalog`."""

    def __init__(self, connection: Connection) -> None:
        self._client = ServerClient(connection)
        self._names: dict[str, list[RunName]] = {}
        self._known_runs: set[Ref] = set()
        self._read_facts = False

    @classmethod
    def open(cls, uri: str, token: str | None = None) -> Self:
        """Return the runs of a server; no request is sent yet."""
        return cls(Connection(uri, token))

    @property
    def where(self) -> str:
        """Address of the server."""
        return self._client.where

    @property
    def now_ns(self) -> Callable[[], int]:
        """Clock of the server, in nanoseconds since the Unix epoch."""
        return self._client.now_ns

    @property
    def behind(self) -> bool:
        """Whether the last answer lacked records that were sent before the request."""
        return self._client.behind

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Make `view` request everything except points in one request, inside a block."""
        before, self._read_facts = self._read_facts, True
        try:
            yield
        finally:
            self._read_facts = before

    def nearby_root(self) -> str | None:
        """Return None: no other storage is known."""
        return None

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        self._client.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Make later answers include all records from before this call.

        Records of this process are sent first, for at most 2 s.
        """
        self._names = {}
        self._client.send_first()

    # ------------------------------------------------------------------ many runs

    def names(self, kind: str = "run") -> list[RunName]:
        """Return all runs, models or versions with their names, newest first."""
        found = self._names.get(kind)
        if found is None:
            found = self._client.read("names", list[RunName], {"kind": kind})
            self._names[kind] = found
            self._known_runs.update(one.ref for one in found)
        return list(found)

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return (project, run id) of all runs, or of those at and below a project, sorted."""
        found = (one.ref for one in self.names(kind))
        return sorted(ref for ref in found if project is None or is_inside(ref[0], project))

    def _ask(
        self, verb: str, kind: type[T], question: Mapping[str, Any], unknown: Unknown
    ) -> Answer[T]:
        found = self._client.whole(verb, kind, question)
        for message in found.told:
            unknown(QueryError(message))
        return found

    def select(self, selection: Selection, unknown: Unknown = refuse) -> list[Ref]:
        """Return (project, run id) of the matching runs, in order."""
        more = {"limit": selection.limit, "counted": False}
        return self._ask("select", list[Ref], _question(selection, unknown) | more, unknown).answer

    def count(self, selection: Selection) -> int:
        """Return the number of matching runs, regardless of ``limit`` and ``offset``."""
        question = _question(selection, _ignore) | {"offset": 0, "limit": 1}
        return self._ask("select", list[Ref], question, _ignore).total or 0

    def table(
        self,
        selection: Selection,
        columns: Columns = None,
        unknown: Unknown = refuse,
    ) -> RunsTable:
        """Return the matching runs with the requested columns."""
        question = _question(selection, unknown)
        if callable(columns):
            more = {"limit": selection.limit, "sample": _SAMPLE_ROWS}
            shared = self._ask("shared", list[SharedPath], question | more, _ignore)
            columns = columns(shared.answer)
        if columns is not None:
            columns = [columns] if isinstance(columns, str) else list(columns)
        return self._read_pages(question | {"columns": columns}, selection, unknown)

    def fields(
        self, selection: Selection, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return the visible paths of the matching runs, sorted."""
        more = {"limit": selection.limit, "contains": contains}
        question = _question(selection, unknown) | more
        return self._ask("fields", list[RunField], question, unknown).answer

    def groups(
        self,
        selection: Selection,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the matching runs, grouped by equal values."""
        more = {"limit": selection.limit, "by": list(by), "columns": list(columns)}
        question = _question(selection, unknown) | more
        found = self._ask("groups", list[RunGroup], question, unknown)
        return RunGroups(found.answer, found.total or 0)

    def _read_pages(
        self, question: dict[str, Any], selection: Selection, unknown: Unknown
    ) -> RunsTable:
        found: RunsTable | None = None
        most, begun, done = _MAX_ROWS, selection.offset, 0
        while True:
            left = most if selection.limit is None else min(most, selection.limit - done)
            try:
                asked = {"offset": begun + done, "limit": left, "counted": False}
                tell = unknown if found is None else _ignore
                some = self._ask("table", Table, question | asked, tell).answer.table
            except TooLong as error:
                fewer = error.said.get("limit")
                if not isinstance(fewer, int) or not 0 < fewer < left:
                    raise
                most = fewer
                continue
            found = some if found is None else _concatenate(found, some, begun)
            done += left
            if len(some) < left or done == selection.limit:
                found.count = partial(self.count, selection)
                return found

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return the runs that changed since a cursor."""
        found: dict[Ref, ChangedRun] = {}
        question = {"cursor": cursor, "project": project or ""}
        for answer in self._client.parts("changes", Changes, question):
            news: Changes = answer.answer
            for one in news.runs:
                found.pop((one.project, one.run), None)
                found[one.project, one.run] = one
        return replace(news, runs=[] if news.reset else list(found.values()))

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return the counts of lost records by run, for runs that lost any."""
        return self._read_by_run("losses", dict[str, int], refs)

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return the crash reasons of runs, by run."""
        return self._read_by_run("crash_reasons", str, crashed)

    def _read_by_run(self, verb: str, kind: Any, refs: Sequence[Ref]) -> dict[Ref, Any]:
        found: dict[Ref, Any] = {}
        for some in _split(refs, _MAX_REFS):
            answer = self._client.read(verb, list[tuple[str, str, kind]], {"refs": some})
            found |= {(project, run): one for project, run, one in answer}
        return found

    def series(
        self,
        refs: Sequence[Ref],
        patterns: Sequence[str],
        attempt: Attempt = "latest",
        progress: Progress | None = None,
        points: int | None = None,
        unknown: Unknown | None = None,
    ) -> SeriesTable | CurveTable:
        """Return the points of the matching float series of these runs."""
        chosen = check_attempt(attempt)
        if points is not None:
            check_points(points)
        kind, parts = "points" if points is None else "curve", dict[Key, list[Any]]()
        place = {ref: number for number, ref in enumerate(refs, 1)}
        notices: dict[str, None] | None = None
        for some in _split(refs, _MAX_REFS):
            question = {
                "refs": some,
                "paths": list(patterns),
                "attempt": chosen,
                "points": points,
                "unknown": None if unknown is None else "tell",
            }
            for answer in self._client.parts("series", list[SeriesPart], question):
                add_parts(parts, answer.answer, kind)
                notices = {one: None for one in answer.told if notices is None or one in notices}
                if progress is not None:
                    last = some[-1] if answer.next is None else answer.answer[-1].key[:2]
                    progress(place.get(last, 0), len(refs))
        if unknown is not None:
            for message in notices or ():
                unknown(QueryError(message))
        found: list[Any] = [
            (run, path, join_points(own)) for (_, run, path), own in parts.items() if len(own[0])
        ]
        return SeriesTable(found) if points is None else CurveTable(found)

    def curves(
        self,
        refs: Sequence[Ref],
        paths: Sequence[str],
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: Mapping[Key, str] | None = None,
    ) -> list[RunCurve]:
        """Return series of several runs, reduced for drawing, without empty ones."""
        wanted, found = look or Look(), list[RunCurve]()
        wanted.check()
        chosen, known = check_attempt(attempt), since or {}
        if wanted.points > _MAX_POINTS_EACH:  # each in a separate request
            reader_of: Any = partial(RemoteRun, self._client)
            return curves_of_runs(refs, reader_of, paths, wanted, attempt, since)
        most = min(_MAX_SERIES, max(1, _MAX_SERIES_POINTS // wanted.points))
        asked = {name: one for name, one in asdict(wanted).items() if name != "points"}
        runs, own = list(dict.fromkeys(refs)), list(dict.fromkeys(paths))
        for some_paths in _split(own, most):
            for some_runs in _split(runs, most // len(some_paths)):
                keys = [(*ref, path) for ref in some_runs for path in some_paths]
                question = {
                    **asked,
                    "px": wanted.points,
                    "refs": some_runs,
                    "paths": some_paths,
                    "attempt": chosen,
                    "since": [(*key, known[key]) for key in keys if known.get(key)],
                }
                found += self._client.read("curves", Curves, question).curves
        order = {(*ref, path): at for at, (ref, path) in enumerate(product(runs, own))}
        return sorted((one for one in found if one.key in order), key=lambda one: order[one.key])

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> dict[Ref, set[str]]:
        """Return the paths of selected float series by run, without runs that have none."""
        found = self._read_by_run("series_paths", list[str], refs)
        meant = {ref: set(filter(is_meant, paths)) for ref, paths in found.items()}
        return {ref: paths for ref, paths in meant.items() if paths}

    def paths(self) -> list[str]:
        """Return all current and former paths of all runs, sorted."""
        found: list[str] = self._client.read("paths", list[str], {})
        return found

    # ------------------------------------------------------------------ one run

    def view(self, project: str, run: str) -> Reader:
        """Return one run; `RunNotFoundError` if it does not exist or the user may not read it."""
        found = RemoteRun(self._client, project, run)
        if (project, run) in self._known_runs and not self._read_facts:
            return cast("Reader", found)  # if it was deleted since, its verbs raise
        try:
            found.keep_facts() if self._read_facts else found.overview()
        except RunNotFoundError as error:
            where = f"project {project!r} on {self.where}"
            raise RunNotFoundError(
                f"run {run!r} does not exist in {where}, or you may not see it"
            ) from error
        self._known_runs.add((project, run))
        return cast("Reader", found)

    def fresh_view(self, project: str, run: str) -> Reader:
        """Return the current state of one run; see `view`."""
        self.refresh(project, run)
        return self.view(project, run)

    def edit(self, ref: Ref, changes: Mapping[str, Any]) -> None:
        """Change editable fields of a run.

        `changes` may have ``name``, ``description`` (with ``description_was``), ``add_tags``,
        ``remove_tags`` and ``trashed``.
        """
        answer = self._client.send("PATCH", "runs", {"refs": [ref], **changes})
        for one in expect_member(answer, "runs", list):
            if isinstance(one, dict) and isinstance(position := one.get("position"), int):
                self._client.edited(RunKey(*ref), position)

    # ------------------------------------------------------------------ claims

    def take_claim(
        self, refs: Sequence[Ref], claimant: Mapping[str, Any], *, groups: bool
    ) -> tuple[Ref, int] | None:
        """Claim the first unclaimed one of some runs or groups; return None if all are claimed.

        Later reads see all records of it that were sent before.
        """
        kind = "group" if groups else "run"
        body = {"refs": [list(ref) for ref in refs], "kind": kind, "claimant": claimant}
        answer = self._client.send("POST", "runs/claims", body)
        if answer.get("ref") is None:
            return None
        ref, log = _parse_ref(answer["ref"]), PROJECT_LOG if groups else answer["ref"][1]
        self._client.edited(RunKey(ref[0], log), expect_member(answer, "position", int))
        return ref, expect_member(answer, "number", int)

    def holds_claim(self, ref: Ref, number: int, key: str, *, groups: bool) -> bool:
        """Return whether a claim is still the newest one."""
        body = _claim_body(ref, number, key, groups=groups)
        return expect_member(self._client.send("POST", "runs/claims/held", body), "held", bool)

    def release_claim(self, ref: Ref, number: int, key: str, *, groups: bool) -> None:
        """Release a claim, after all records of this process were sent to the server."""
        if not self._client.send_first(_RELEASE_S):
            raise RemoteError(f"{self.where} does not have all recorded data yet")
        self._client.send(
            "POST", "runs/claims/release", _claim_body(ref, number, key, groups=groups)
        )

    def purge(self, ref: Ref) -> None:
        """Delete a run permanently."""
        self._client.send("DELETE", run_path(RunKey(*ref)), {})


def _split(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _claim_body(ref: Ref, number: int, key: str, *, groups: bool) -> dict[str, Any]:
    kind = "group" if groups else "run"
    return {"project": ref[0], "name": ref[1], "kind": kind, "number": number, "key": key}


def _question(selection: Selection, unknown: Unknown) -> dict[str, Any]:
    selection.check()
    found = {name: _to_json(getattr(selection, name)) for name in _SELECTION_FIELDS}
    if selection.local and isinstance(found["query"], str):
        found["moments"] = _moments(found["query"])
    return found | {"unknown": "refuse" if unknown is refuse else "tell"}


def _to_json(value: Any) -> Any:
    is_some = isinstance(value, Iterable) and not isinstance(value, str)
    return list(value) if is_some else value


def _moments(query: str) -> dict[str, int]:
    # Times are in microseconds since the Unix epoch. The server decides which texts are compared
    # with times.
    found = {}
    for one in _TOKEN.finditer(query):
        text = next((group for group in one.groups() if group), "")
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                found[text] = (moment.astimezone() - _EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError, OSError):  # not a time, or out of range for a time zone
            continue
    return dict(list(found.items())[:_MAX_MOMENTS])


def _parse_ref(one: Any) -> Ref:
    if isinstance(one, list) and len(one) > 1 and all(isinstance(each, str) for each in one[:2]):
        return one[0], one[1]
    raise WireError(f"unexpected answer: expected project and run, got {one!r:.80}")


def _concatenate(first: RunsTable, second: RunsTable, offset: int) -> RunsTable:
    # A column that is missing in one part is empty there.
    columns = list(dict.fromkeys([*first.columns, *second.columns]))
    empty = [None] * len(first.refs), [None] * len(second.refs)
    cells = {
        name: [
            *(first[name] if name in first else empty[0]),
            *(second[name] if name in second else empty[1]),
        ]
        for name in columns
    }
    return RunsTable(cells, [*first.refs, *second.refs], second.known_total, offset)


def _ignore(_: QueryError) -> None:
    pass
