"""Reads of many runs at once; see `seamark.server.routes`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from seamark.errors import ArgumentError, QueryError, RunNotFoundError
from seamark.paths import is_inside
from seamark.reading.curves import check_points
from seamark.reading.groups import group_table, in_order
from seamark.reading.names import RunName
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
from seamark.reading.wire import Rows
from seamark.server.answering import Several, attempt_of, heavy, several
from seamark.server.failures import Refusal
from seamark.server.models import answers
from seamark.server.routes.reads import MOST_PARTS, MOST_POINTS
from seamark.store import schema
from seamark.store.cells import CRASHED, UNKNOWN_NS
from seamark.store.query.choosing import Chosen, choose, state_column
from seamark.store.query.crash_reasons import reasons_of
from seamark.store.query.known import KnownPaths, in_projects
from seamark.store.query.patterns import matcher
from seamark.store.query.selection import Selection
from seamark.store.read.begins import check_axis
from seamark.store.read.fields import run_fields
from seamark.store.read.many import lengths_of, read_many, series_of
from seamark.store.read.names import names_of, run_names
from seamark.store.read.shared import shared_paths
from seamark.store.read.tables import query_runs
from seamark.store.runs import load_attempts, load_losses, load_openings, numbers_of

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["Refs", "Which", "router"]

router: Final = APIRouter(tags=["runs"])
T = TypeVar("T")

MOST_ROWS: Final = 10_000
_MOST_CELLS: Final = 4_000_000
_MOST_NAMES: Final = 1000
_MOST_QUERY: Final = 16 << 10
_MOST_COLUMNS: Final = 1000
_MOST_REFS: Final = 20_000
_RUNS_AT_ONCE: Final = 50
_MOST_BEGINS: Final = 400
_LONG: Final = 4096
_INT: Final = (1 << 53) - 1
_LAST_US: Final = ((1 << 63) - 1) // 1000

All = Annotated[Several, Depends(several)]
Text = Annotated[str, Field(max_length=_LONG)]
Texts = Annotated[list[Text], Field(max_length=MOST_ROWS)]
Few = Annotated[list[Text], Field(max_length=1000)]
Ref = tuple[Text, Text]
Refs = Annotated[list[Ref], Field(max_length=_MOST_REFS)]
Columns = Annotated[list[Text], Field(max_length=_MOST_COLUMNS)]
Moment = Annotated[int, Field(ge=-_LAST_US, le=_LAST_US)]
Unknown = Literal["refuse", "tell"]
Kind = Literal["run", "model", "model_version", "artifact", "project"]


class Which(BaseModel):
    """Selection and order of runs; see `seamark.store.query.selection.Selection`.

    Attributes:
        unknown: Whether a path that no run has is an error, or is reported in the answer.
        moments: Values of times in the query that name no UTC offset, by their text, in
            microseconds since the Unix epoch; times that are not among them are in UTC.
    """

    model_config = ConfigDict(extra="forbid")

    project: Text | None = None
    kind: Kind = "run"
    query: Annotated[str, Field(max_length=_MOST_QUERY)] | None = None
    id: Text | Texts | None = None
    state: Text | Few | None = None
    owner: Text | Few | None = None
    tag: Text | Few | None = None
    trashed: bool | None = False
    limit: Annotated[int, Field(ge=1, le=_INT)] | None = None
    offset: Annotated[int, Field(ge=0, le=_INT)] = 0
    sort_by: Text = "sys/creation_time"
    ascending: bool = False
    unknown: Unknown = "refuse"
    moments: Annotated[dict[Text, Moment], Field(max_length=1000)] = {}

    def selection(self, may_read: Callable[[str], bool] | None, **more: Any) -> Selection:
        """Return it as the store takes it, restricted to what may be read.

        Raises:
            ArgumentError: If the query is too long.
        """
        if self.query is not None and len(self.query.encode("utf-8", "replace")) > _MOST_QUERY:
            msg = f"query: expected at most {_MOST_QUERY:,} bytes"
            raise ArgumentError(msg)
        given = self.model_dump(include=_OF_SELECTION)
        return Selection(**(given | more), readable=may_read)


_OF_SELECTION: Final = set(Which.model_fields) - {"unknown"}


class _TableBody(Which):
    """Selection of runs, its columns, and whether matches beyond the limit are counted."""

    counted: bool = True
    columns: Columns | None = None
    snapshot: Annotated[str, Field(max_length=100)] | None = None


class _RunFieldsBody(Which):
    contains: Text = ""


class _SelectBody(Which):
    """Selection of runs, and whether matches beyond the limit are counted."""

    counted: bool = True


class _FieldsBody(Which):
    contains: Text = ""
    sample: Annotated[int, Field(ge=1, le=900)] = 50


class _GroupsBody(Which):
    by: Annotated[list[Text], Field(min_length=1, max_length=8)]
    columns: Annotated[list[Text], Field(max_length=100)] = []
    order: Text | None = None
    least_first: bool = False


class _RefsBody(BaseModel):
    refs: Refs


class _AttemptsBody(_RefsBody):
    paths: Annotated[list[Text], Field(max_length=_MOST_BEGINS)] = []
    x: Text = "step"


class _SeriesPathsBody(_RefsBody):
    paths: Annotated[list[Text], Field(max_length=_MOST_REFS)] | None = None


class _SeriesBody(_RefsBody):
    paths: Annotated[list[Text], Field(min_length=1, max_length=1000)]
    attempt: Annotated[int, Field(ge=0)] | Text = "latest"
    points: Annotated[int, Field(ge=2, le=MOST_PARTS)] | None = None
    unknown: Unknown | None = None


class _Told:
    """Gathers what is said of paths that no run has, or refuses them."""

    def __init__(self, unknown: Unknown | None) -> None:
        self.messages: list[str] = []
        self._refuse = unknown == "refuse"

    def __call__(self, error: QueryError) -> None:
        if self._refuse:
            raise error
        self.messages.append(str(error))


def _ask(every: Several, question: Callable[[Store, sa.Connection], T]) -> T:
    """Return the answer to a question about one snapshot of the store."""
    store = every.server.store()
    with store.database.reading() as connection:
        return question(store, connection)


def _restriction(every: Several) -> Callable[[str], bool] | None:
    return None if every.sees_all else every.may_read


# ---------------------------------------------------------------------- tables of runs


@router.get("/runs", operation_id="getRuns", responses=answers("runs", tagged=True))
def runs(
    every: All,
    project: Annotated[str | None, Query(max_length=_LONG)] = None,
    kind: Kind = "run",
    query: Annotated[str | None, Query(max_length=_MOST_QUERY)] = None,
    id: Annotated[list[str] | None, Query(max_length=1000)] = None,  # noqa: A002 - as in Python
    state: Annotated[list[str] | None, Query(max_length=20)] = None,
    owner: Annotated[list[str] | None, Query(max_length=100)] = None,
    tag: Annotated[list[str] | None, Query(max_length=100)] = None,
    trashed: Literal["false", "true", "any"] = "false",
    sort_by: Annotated[str, Query(max_length=_LONG)] = "sys/creation_time",
    ascending: bool = False,  # noqa: FBT001, FBT002 - from the address
    offset: Annotated[int, Query(ge=0, le=_INT)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 200,
    columns: Annotated[list[str] | None, Query(max_length=_MOST_COLUMNS)] = None,
    counted: bool = True,  # noqa: FBT001, FBT002 - from the address
    snapshot: Annotated[str | None, Query(max_length=100)] = None,
    unknown: Unknown = "refuse",
) -> Response:
    """Return the runs that match with the columns asked for; ``columns`` may be repeated.

    ``snapshot`` is the ``cursor`` of an earlier table, whose runs come in the same order; empty to
    begin. With ``counted`` false, ``total`` is null where ``limit`` cut the table off, which is
    faster.
    """
    body = _TableBody(
        project=project,
        kind=kind,
        query=query,
        id=id,
        state=state,
        owner=owner,
        tag=tag,
        trashed={"false": False, "true": True, "any": None}[trashed],
        sort_by=sort_by,
        ascending=ascending,
        offset=offset,
        limit=limit,
        columns=columns,
        counted=counted,
        snapshot=snapshot,
        unknown=unknown,
    )
    # Times such as "-2h" in a query mean something else with every second that passes.
    timeless = query is None or '"-' not in query.replace("'", '"')
    known = every.tag() if timeless and snapshot is None else None
    return every.answer(lambda: _table(every, body), known)


@router.post("/runs", operation_id="readRuns", responses=answers("runs"))
def read_runs(every: All, body: _TableBody) -> Response:
    """Return the runs that match; for many ids, columns or long queries."""
    return every.answer(lambda: _table(every, body))


def _table(every: Several, body: _TableBody) -> dict[str, Any]:
    told = _Told(body.unknown)
    limit = min(body.limit or MOST_ROWS, MOST_ROWS)
    selection = body.selection(_restriction(every), limit=limit)
    cursor = every.cursor()

    def answer(store: Store, connection: sa.Connection) -> tuple[RunsTable, list[str]]:
        page = None if body.snapshot is None else (every.server.snapshots, body.snapshot)
        now_ns = every.now_ns
        table = query_runs(
            store, connection, selection, body.columns, now_ns, told, page, counted=body.counted
        )
        named = list(table.refs) if len(table) <= _MOST_NAMES else []
        return table, names_of(store, connection, named)

    with heavy():
        table, shown = _ask(every, answer)
        if len(table) * len(table.columns) > _MOST_CELLS:
            most = max(1, _MOST_CELLS // len(table.columns))
            hint = (
                f"{len(table):,} runs with {len(table.columns):,} columns are too many at a time: "
                f"ask for fewer columns, or with limit={most}"
            )
            raise Refusal(413, "too-many-cells", hint, limit=most)
    return {"table": table, "names": shown, "told": told.messages, "cursor": cursor}


@router.post("/runs/select", operation_id="selectRuns", responses=answers("select"))
def select(every: All, body: _SelectBody) -> Response:
    """Return project and run id of the runs that match, in order.

    With ``counted`` false, ``total`` is null where ``limit`` cut them off, which is faster.
    """

    def make() -> dict[str, Any]:
        told = _Told(body.unknown)
        selection = body.selection(_restriction(every))
        counted = body.counted

        def answer(store: Store, asked: sa.Connection) -> Chosen:
            return choose(store, asked, selection, every.now_ns, told, counted=counted)

        chosen = _ask(every, answer)
        refs = [list(ref) for ref in chosen.refs]
        return {"refs": refs, "total": chosen.total, "told": told.messages}

    return every.answer(make)


@router.post("/runs/fields", operation_id="readFields", responses=answers("fields"))
def fields(every: All, body: _FieldsBody) -> Response:
    """Return which numbers, texts and series the first ``sample`` of the chosen runs have."""

    def make() -> dict[str, Any]:
        told = _Told(body.unknown)
        selection = body.selection(_restriction(every))

        def answer(store: Store, connection: sa.Connection) -> dict[str, Any]:
            chosen = choose(store, connection, selection, every.now_ns, told)
            some = chosen.numbers[: body.sample]
            found = shared_paths(store, connection, some, body.sample)
            wanted = body.contains.lower()
            shown = [
                {
                    "path": one.path,
                    "series": one.series,
                    "runs": one.runs,
                    "differs": one.differs,
                    "longest": one.longest,
                }
                for one in sorted(found, key=lambda one: one.path)
                if wanted in one.path.lower()
            ]
            return {"fields": shown, "of": len(some), "told": told.messages}

        return _ask(every, answer)

    return every.answer(make)


@router.post("/runs/paths", operation_id="readRunFields", responses=answers("run-fields"))
def run_paths(every: All, body: _RunFieldsBody) -> Response:
    """Return which paths the chosen runs show: of how many, as what, and whether they differ."""

    def make() -> dict[str, Any]:
        told = _Told(body.unknown)
        selection = body.selection(_restriction(every))

        def answer(store: Store, connection: sa.Connection) -> dict[str, Any]:
            chosen = choose(store, connection, selection, every.now_ns, told, counted=False)
            found = run_fields(store, connection, chosen.numbers, body.contains)
            return {"fields": found, "of": len(chosen.numbers), "told": told.messages}

        with heavy():
            return _ask(every, answer)

    return every.answer(make)


@router.post("/runs/groups", operation_id="readGroups", responses=answers("groups"))
def groups(every: All, body: _GroupsBody) -> Response:
    """Return runs grouped by the values of some paths, and sums of the numbers of others.

    Only finite numbers count; ``std`` is that of a sample (n - 1), null for one run. ``limit`` and
    ``offset`` are of groups, which come in the order of their first runs, or of what they show in
    the column ``order``: of ``by``, the mean of one of ``columns``, or ``:n``, how many runs they
    have.
    """

    def make() -> dict[str, Any]:
        told = _Told(body.unknown)
        selection = body.selection(_restriction(every), limit=MOST_ROWS, offset=0)
        columns = list(dict.fromkeys([*body.by, *body.columns]))

        def answer(store: Store, connection: sa.Connection) -> RunsTable:
            return query_runs(store, connection, selection, columns, every.now_ns, told)

        with heavy():
            table = _ask(every, answer)
        if table.total > len(table):
            hint = f"{table.total:,} runs match, over {MOST_ROWS:,}: ask for fewer by a query"
            raise Refusal(413, "too-many-runs", hint, limit=MOST_ROWS)
        found = group_table(table, body.by, body.columns)
        if body.order is not None:
            found = in_order(found, body.order, ascending=body.least_first)
        end = None if body.limit is None else body.offset + body.limit
        return {
            "groups": found[body.offset : end],
            "total": len(found),
            "told": told.messages,
        }

    return every.answer(make)


# ---------------------------------------------------------------------- what there is

_run: Final = schema.run.c


@router.get("/projects", operation_id="getProjects", responses=answers("projects", tagged=True))
def projects(every: All) -> Response:
    """Return the projects that may be read, with how many runs each has; the trash apart.

    ``running`` and ``crashed`` count runs in the states in which a table shows them.
    """

    def answer(store: Store, connection: sa.Connection) -> list[dict[str, Any]]:
        state = state_column(store, connection, every.now_ns)

        def counted(one: str) -> sa.ColumnElement[int]:
            return sa.func.sum(sa.case((sa.and_(state == one, _run.trashed == 0), 1), else_=0))

        statement = (
            sa.select(
                _run.project,
                sa.func.sum(1 - _run.trashed),
                counted("running"),
                counted(CRASHED),
                sa.func.sum(_run.trashed),
                sa.func.max(sa.func.nullif(_run.modified, UNKNOWN_NS)),
            )
            .where(_run.kind == "run")
            .group_by(_run.project)
        )
        seen = in_projects(store, connection, _restriction(every))
        if seen is not None:
            statement = statement.where(seen)
        return [
            {
                "project": project,
                "runs": int(count),
                "running": int(running),
                "crashed": int(crashed),
                "trashed": int(trashed),
                "last_record_ns": None if last is None else int(last),
            }
            for project, count, running, crashed, trashed, last in sorted(
                store.database.query(connection, statement)
            )
        ]

    return every.answer(lambda: {"projects": _ask(every, answer)}, every.tag())


@router.get("/runs/names", operation_id="getNames", responses=answers("names", tagged=True))
def names(
    every: All, project: Annotated[str, Query(max_length=_LONG)] = "", kind: Kind = "run"
) -> Response:
    """Return every run, model or version and what it is called, the newest first."""

    def make() -> dict[str, Any]:
        found = _ask(every, lambda store, asked: run_names(store, asked, meant, kind))
        return {"names": Rows(RunName, found)}

    meant = _within(every, project)
    return every.answer(make, every.tag())


def _within(every: Several, project: str) -> Callable[[str], bool] | None:
    """Return what tells whether a project may be read and is in another; None if all are."""
    if not project:
        return _restriction(every)
    return lambda one: is_inside(one, project) and every.may_read(one)


@router.get("/paths", operation_id="getPaths", responses=answers("paths", tagged=True))
def paths(every: All, project: Annotated[str, Query(max_length=_LONG)] = "") -> Response:
    """Return every path that a run has, sorted."""
    meant = _within(every, project)

    def answer(store: Store, connection: sa.Connection) -> list[str]:
        seen = in_projects(store, connection, meant)
        if seen is None:
            return sorted(store.numbers.everything(connection))
        row, path, run = schema.attribute.c, schema.path.c, schema.run.c
        # Of most paths the first row that is looked at says that there is one.
        there = sa.exists().where(row.path == path.id, row.visible == 1, run.id == row.run, seen)
        statement = sa.select(path.path).where(there)
        return sorted(name for (name,) in store.database.query(connection, statement))

    return every.answer(lambda: {"paths": _ask(every, answer)}, every.tag())


# ---------------------------------------------------------------------- of some runs


@router.post("/runs/losses", operation_id="readLosses", responses=answers("losses"))
def losses(every: All, body: _RefsBody) -> Response:
    """Return what is missing of runs, only of those of which something is."""
    return every.answer(lambda: {"losses": _of_runs(every, body.refs, load_losses)})


@router.post("/runs/crash-reasons", operation_id="readCrashReasons", responses=answers("reasons"))
def crash_reasons(every: All, body: _RefsBody) -> Response:
    """Return why runs crashed, as far as that was told: the server saw none of their processes."""

    def reasons(store: Store, asked: sa.Connection, runs: Sequence[int]) -> dict[int, str]:
        return reasons_of(store, asked, runs, every.now_ns)

    return every.answer(lambda: {"reasons": _of_runs(every, body.refs, reasons)})


@router.post("/runs/attempts", operation_id="readAttempts", responses=answers("attempts"))
def attempts(every: All, body: _AttemptsBody) -> Response:
    """Return how often runs were begun or gone on with, of those that were gone on with.

    With ``paths``, also where each attempt begins in these float series, as far as points of it
    are shown: exactly, however few points a picture has. ``x`` is what is along x, as of curves; in
    the order of recording nothing has a place.
    """
    asked = len(body.refs) * len(body.paths)
    if asked > _MOST_BEGINS:
        hint = f"{asked:,} series are too many at a time: ask for at most {_MOST_BEGINS}"
        raise Refusal(413, "too-many-series", hint, limit=_MOST_BEGINS)
    check_axis(body.x)
    return every.answer(
        lambda: {
            "attempts": _of_runs(every, body.refs, load_attempts),
            "openings": _of_runs(every, body.refs, load_openings),
            "begins": _begins(every, body),
        }
    )


def _begins(every: Several, body: _AttemptsBody) -> list[list[Any]]:
    """Return [project, run, path, [[attempt, step, time in ns, x]]] of series that have points."""
    found: list[list[Any]] = []
    if not body.paths:
        return found
    with heavy():
        for ref in every.only_readable(body.refs):
            with contextlib.suppress(RunNotFoundError):
                of_run = every.reader(*ref).begins(body.paths, body.x)
                found += [
                    [*ref, path, [list(one) for one in some]] for path, some in of_run.items()
                ]
    return found


def _of_runs(
    every: Several,
    refs: Sequence[Ref],
    question: Callable[[Store, sa.Connection, Sequence[int]], Any],
) -> list[list[Any]]:
    """Return [project, run, answer] to a question about runs, which is asked by their numbers."""
    wanted = every.only_readable(refs)

    def answer(store: Store, connection: sa.Connection) -> list[list[Any]]:
        numbers = numbers_of(store, connection, wanted)
        found = question(store, connection, list(numbers))
        return [[*numbers[number], one] for number, one in found.items()]

    return _ask(every, answer) if wanted else []


@router.post(
    "/runs/series-paths", operation_id="readSeriesPaths", responses=answers("series-paths")
)
def series_paths(every: All, body: _SeriesPathsBody) -> Response:
    """Return which float series runs show, of some paths or of all."""
    wanted = None if body.paths is None else set(body.paths)

    def make() -> dict[str, Any]:
        refs = every.only_readable(body.refs)
        found = _ask(
            every,
            lambda store, asked: series_of(
                store, asked, refs, lambda path: wanted is None or path in wanted
            ),
        )
        return {"paths": [[*ref, sorted(paths)] for ref, paths in found.items()]}

    return every.answer(make)


@router.post("/runs/series", operation_id="readSeries", responses=answers("series"))
def series(every: All, body: _SeriesBody) -> Response:
    """Return the points or curves of the float series of many runs, as many runs as fit.

    A run that is too long for one answer is told in ``apart`` with its paths, to be asked for by
    itself (points-part, curve); it is the first of the runs then, and the others are left.
    """
    attempt = attempt_of(str(body.attempt))
    if body.points is not None:
        check_points(body.points)
    told = _Told(body.unknown)

    def answer(store: Store, connection: sa.Connection) -> dict[str, Any]:
        refs = every.only_readable(body.refs)
        parts: list[tuple[str, str, Any]] = []
        apart: list[Any] | None = None
        end, room = 0, MOST_POINTS
        while end < len(refs) and apart is None:
            some = refs[end : end + _RUNS_AT_ONCE]
            lengths = lengths_of(store, connection, some, body.paths)
            fit, room = _fitting_runs(lengths, body.points, room)
            parts += read_many(
                store, connection, fit, body.paths, attempt, every.sources, None, body.points
            )
            end += len(fit)
            if len(fit) < len(some):
                if end:
                    break
                apart, end = [*refs[0], list(lengths[refs[0]])], 1
        if body.unknown is not None:
            found = {path for _, path, _ in parts}
            found.update(apart[2] if apart else ())
            _check_series(every, store, connection, body, told, found)
        table = SeriesTable(parts) if body.points is None else CurveTable(parts)
        return {
            "table": table,
            "told": told.messages,
            "left": [list(ref) for ref in refs[end:]],
            "apart": apart,
        }

    def make() -> dict[str, Any]:
        with heavy():
            return _ask(every, answer)

    return every.answer(make)


def _fitting_runs(
    lengths: Mapping[tuple[str, str], Mapping[str, int]], points: int | None, room: int
) -> tuple[list[tuple[str, str]], int]:
    """Return the first runs whose points fit, and for how many more there is room.

    Args:
        lengths: Of their series.
        points: At most so many are answered of each; None for all.
        room: For how many points.
    """
    fit = []
    for ref, series in lengths.items():
        counts = series.values()
        size = sum(counts if points is None else (min(one, points) for one in counts))
        if size > room:
            break
        fit.append(ref)
        room -= size
    return fit, room


def _check_series(
    every: Several,
    store: Store,
    connection: sa.Connection,
    body: _SeriesBody,
    told: _Told,
    found: set[str],
) -> None:
    """Tell of patterns that are a series of no run that may be read."""
    seen = in_projects(store, connection, _restriction(every))
    checks = KnownPaths(store, connection, told, seen)
    for pattern in body.paths:
        if pattern not in found and not any(map(matcher(pattern), found)):
            checks.check_series(pattern)
