"""Routes for reads of many runs at once; see `seamark.server.routes`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import sqlalchemy as sa
from msgspec import Meta

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import is_inside
from seamark.reading.catalog import RunField, Selection, SharedPath
from seamark.reading.codec import (
    Attempts,
    ProjectCounts,
    SeriesPart,
    Table,
)
from seamark.reading.curves import MOST_PARTS, check_points
from seamark.reading.groups import RunGroup, Statistic, group_table, in_order
from seamark.reading.names import RunName
from seamark.reading.points import Attempt, Points
from seamark.reading.reader import Answer, Count, Path, Question
from seamark.reading.states import CRASHED
from seamark.server.answering import Several, to_next
from seamark.server.failures import Refusal
from seamark.server.reads import of_all
from seamark.server.routes.reads import MAX_POINTS, Place, parts_from
from seamark.store import schema
from seamark.store.cells import UNKNOWN_NS
from seamark.store.journals import load_attempts, load_losses, load_openings
from seamark.store.query.expression import matcher
from seamark.store.query.sql import reasons_of
from seamark.store.query.statements import choose, state_column
from seamark.store.query.validation import KnownPaths, in_projects
from seamark.store.read.curve import check_axis
from seamark.store.read.inherited import shared_paths
from seamark.store.read.many_runs import lengths_of, read_many, series_of
from seamark.store.read.names import names_of, run_fields, run_names
from seamark.store.read.tables import query_runs
from seamark.store.runs import Store, numbers_of

T = TypeVar("T")

MAX_ROWS: Final = 10_000
_MAX_CELLS: Final = 4_000_000
_MAX_NAMES: Final = 1000
_MAX_QUERY_BYTES: Final = 16 << 10
_MAX_REFS: Final = 20_000
_RUNS_AT_ONCE: Final = 50
_MAX_BEGINS: Final = 400
_MAX_US: Final = ((1 << 63) - 1) // 1000

Text = Path
Texts = Annotated[list[Text], Meta(max_length=MAX_ROWS)]
Few = Annotated[list[Text], Meta(max_length=1000)]
Ref = tuple[Text, Text]
Refs = Annotated[list[Ref], Meta(max_length=_MAX_REFS)]
Moment = Annotated[int, Meta(ge=-_MAX_US, le=_MAX_US)]
Unknown = Literal["refuse", "tell"]
Kind = Literal["run", "model", "model_version", "artifact", "project"]


class Which(Question, kw_only=True):
    """Selection and order of runs; see `seamark.reading.catalog.Selection`.

    ``unknown`` tells whether a path that no run has is an error, or reported in the answer.
    ``moments`` maps times of the query without UTC offset, as text, to microseconds since the Unix
    epoch; other times are in UTC. Counting the runs beyond the limit takes time.
    """

    project: Text | None = None
    kind: Kind = "run"
    query: Annotated[str, Meta(max_length=_MAX_QUERY_BYTES)] | None = None
    id: Text | Texts | None = None
    state: Text | Few | None = None
    owner: Text | Few | None = None
    tag: Text | Few | None = None
    trashed: bool | None = False
    limit: Annotated[int, Meta(ge=1, lt=1 << 53)] | None = None
    offset: Count = 0
    sort_by: Text = "sys/creation_time"
    ascending: bool = False
    unknown: Unknown = "refuse"
    moments: Annotated[dict[Text, Moment], Meta(max_length=1000)] = {}
    counted: bool = True

    def selection(self, every: Several, **more: Any) -> Selection:
        """Return the selection for the store, restricted to readable projects."""
        if self.query is not None and len(self.query.encode("utf-8", "replace")) > _MAX_QUERY_BYTES:
            raise ArgumentError(f"query: expected at most {_MAX_QUERY_BYTES:,} bytes")
        given = {name: getattr(self, name) for name in _SELECTION_FIELDS}
        return Selection(**(given | more), readable=_restriction(every))


_SELECTION_FIELDS: Final = set(Which.__struct_fields__) - {"unknown", "counted", "seen", "next"}


@contextlib.contextmanager
def _reading(every: Several) -> Iterator[tuple[Store, sa.Connection]]:
    store = every.server.store()
    with store.database.reading() as connection:
        yield store, connection


def _restriction(every: Several) -> Callable[[str], bool] | None:
    return None if every.sees_all else every.may_read


# ---------------------------------------------------------------------- tables of runs


def _table_tag(every: Several) -> str:
    # Times such as "-2h" change with every second.
    query = every.question.query
    is_timely = query is not None and '"-' in query.replace("'", '"')
    return "" if is_timely else every.tag()


@of_all(Which, heavy=True, tag=_table_tag)
def table(every: Several, columns: Few | None = None) -> Table:
    """Return the matching runs with the given columns, at most 10,000 runs.

    Columns are paths, optionally with an aggregate; null for all. With ``counted`` false, ``total``
    is null if ``limit`` truncated the table, which is faster.
    """
    limit = min(every.question.limit or MAX_ROWS, MAX_ROWS)
    selection, counted = every.question.selection(every, limit=limit), every.question.counted
    cursor = every.cursor()
    with _reading(every) as (store, connection):
        found = query_runs(
            store, connection, selection, columns, every.now_ns, every.unknown, counted=counted
        )
        if len(found) * len(found.columns) > _MAX_CELLS:
            most = max(1, _MAX_CELLS // len(found.columns))
            hint = (
                f"{len(found):,} runs with {len(found.columns):,} columns are too many: "
                f"request fewer columns, or use limit={most}"
            )
            raise Refusal(413, "too-many-cells", hint, limit=most)
        named = list(found.refs) if len(found) <= _MAX_NAMES else []
        return Table(found, names_of(store, connection, named), cursor)


@of_all(Which)
def select(every: Several) -> Answer[list[Ref]]:
    """Return project and run id of the matching runs, in order.

    With ``counted`` false, ``total`` is null if ``limit`` truncated the list, which is faster.
    """
    selection, counted = every.question.selection(every), every.question.counted
    with _reading(every) as (store, asked):
        chosen = choose(store, asked, selection, every.now_ns, every.unknown, counted=counted)
    return every.part_of(chosen.refs, chosen.total)


@of_all(Which)
def shared(
    every: Several, contains: Text = "", sample: Annotated[int, Meta(ge=1, le=900)] = 50
) -> list[SharedPath]:
    """Return the numbers, texts and series of the first ``sample`` selected runs."""
    selection, wanted = every.question.selection(every), contains.lower()
    with _reading(every) as (store, asked):
        chosen = choose(store, asked, selection, every.now_ns, every.unknown, counted=False)
        found = shared_paths(store, asked, chosen.numbers[:sample], sample)
    shown = [one for one in found if wanted in one.path.lower()]
    return sorted(shown, key=lambda one: one.path)


@of_all(Which, heavy=True)
def fields(every: Several, contains: Text = "") -> list[RunField]:
    """Return the paths of the selected runs: number of runs, types, and whether values differ."""
    selection = every.question.selection(every)
    with _reading(every) as (store, asked):
        chosen = choose(store, asked, selection, every.now_ns, every.unknown, counted=False)
        return run_fields(store, asked, chosen.numbers, contains)


@of_all(Which, heavy=True)
def groups(
    every: Several,
    by: Annotated[list[Text], Meta(min_length=1, max_length=8)],
    columns: Annotated[Sequence[Text], Meta(max_length=100)] = (),
    order: Text | None = None,
    statistic: Statistic = "mean",
    *,
    least_first: bool = False,
) -> Answer[list[RunGroup]]:
    """Return runs grouped by the values of some paths, with statistics of the numbers of others.

    Only finite numbers are used; ``std`` is the sample deviation (n - 1), null for one run.
    ``order`` is one of ``by``, a ``statistic`` of one of ``columns``, or ``:n``, the number of
    runs; null for the order of their first runs. ``limit`` and ``offset`` count groups.
    """
    question = every.question
    selection = question.selection(every, limit=MAX_ROWS, offset=0)
    shown = list(dict.fromkeys([*by, *columns]))
    with _reading(every) as (store, asked):
        runs = query_runs(store, asked, selection, shown, every.now_ns, every.unknown)
    if runs.total > len(runs):
        raise Refusal(
            413,
            "too-many-runs",
            f"{runs.total:,} runs match, more than {MAX_ROWS:,}: select fewer with a query",
            limit=MAX_ROWS,
        )
    found = group_table(runs, by, columns)
    if order is not None:
        found = in_order(found, order, ascending=least_first, statistic=statistic)
    end = None if question.limit is None else question.offset + question.limit
    return every.part_of(found[question.offset : end], len(found))


# ---------------------------------------------------------------------- lists

_run: Final = schema.run.c


@of_all(tag=Several.tag)
def projects(every: Several, project: Text = "", kind: Kind = "run") -> list[ProjectCounts]:
    """Return the readable projects with their numbers of runs; runs in the trash count separately.

    ``running``, ``crashed`` and ``failed`` count runs by the state that a table shows.
    """

    def counted(one: str) -> sa.ColumnElement[int]:
        return sa.func.sum(sa.case((sa.and_(state == one, _run.trashed == 0), 1), else_=0))

    with _reading(every) as (store, connection):
        state = state_column(store, connection, every.now_ns)
        statement = (
            sa.select(
                _run.project,
                sa.func.sum(1 - _run.trashed),
                counted("running"),
                counted(CRASHED),
                sa.func.sum(_run.trashed),
                sa.func.max(sa.func.nullif(_run.modified, UNKNOWN_NS)),
                counted("failed"),
            )
            .where(_run.kind == kind)
            .group_by(_run.project)
        )
        seen = in_projects(store, connection, _within(every, project))
        if seen is not None:
            statement = statement.where(seen)
        return [
            ProjectCounts(
                name,
                runs=int(runs),
                running=int(running),
                crashed=int(crashed),
                trashed=int(trashed),
                last_record_ns=None if last is None else int(last),
                failed=int(failed),
            )
            for name, runs, running, crashed, trashed, last, failed in sorted(
                store.database.query(connection, statement)
            )
        ]


@of_all(tag=Several.tag)
def names(every: Several, project: Text = "", kind: Kind = "run") -> list[RunName]:
    """Return all runs, models or versions with their names, the newest first."""
    with _reading(every) as (store, connection):
        return run_names(store, connection, _within(every, project), kind)


def _within(every: Several, project: str) -> Callable[[str], bool] | None:
    if not project:
        return _restriction(every)
    return lambda one: is_inside(one, project) and every.may_read(one)


@of_all(tag=Several.tag)
def paths(every: Several, project: Text = "") -> list[str]:
    """Return the paths of all runs, sorted."""
    with _reading(every) as (store, connection):
        seen = in_projects(store, connection, _within(every, project))
        if seen is None:
            return sorted(store.numbers.everything(connection))
        row, path, run = schema.attribute.c, schema.path.c, schema.run.c
        # For most paths the first row is sufficient.
        there = sa.exists().where(row.path == path.id, row.visible == 1, run.id == row.run, seen)
        statement = sa.select(path.path).where(there)
        return sorted(name for (name,) in store.database.query(connection, statement))


# ---------------------------------------------------------------------- data of given runs


@of_all()
def losses(every: Several, refs: Refs) -> list[tuple[str, str, dict[str, int]]]:
    """Return the lost records of runs; only for runs with losses."""
    return _of_runs(every, refs, load_losses)


@of_all()
def crash_reasons(every: Several, refs: Refs) -> list[tuple[str, str, str]]:
    """Return the recorded reasons of crashes; the server cannot check the processes."""

    def reasons(store: Store, asked: sa.Connection, runs: Sequence[int]) -> dict[int, str]:
        return reasons_of(store, asked, runs, every.now_ns)

    return _of_runs(every, refs, reasons)


@of_all(heavy=True)
def attempts(
    every: Several,
    refs: Refs,
    paths: Annotated[Sequence[Text], Meta(max_length=_MAX_BEGINS)] = (),
    x: Text = "step",
) -> Attempts:
    """Return the numbers of attempts and openings, for runs with several.

    With ``paths``, the answer also has the exact position at which each attempt begins in these
    float series, if points of the attempt are visible. ``x`` is the x axis, as for curves; the
    order of recording has no such position.
    """
    begins, asked = list[tuple[str, str, str, list[Any]]](), len(refs) * len(paths)
    if asked > _MAX_BEGINS:
        raise Refusal(
            413,
            "too-many-series",
            f"{asked:,} series are too many: request at most {_MAX_BEGINS} at a time",
            limit=_MAX_BEGINS,
        )
    check_axis(x)
    for ref in every.only_readable(refs) if paths else ():
        with contextlib.suppress(RunNotFoundError):
            of_run = every.server.reader(*ref).begins(paths, x)
            begins += [(*ref, path, list(map(tuple, some))) for path, some in of_run.items()]
    return Attempts(
        _of_runs(every, refs, load_attempts), _of_runs(every, refs, load_openings), begins
    )


def _of_runs(
    every: Several,
    refs: Sequence[Ref],
    question: Callable[[Store, sa.Connection, Sequence[int]], dict[int, T]],
) -> list[tuple[str, str, T]]:
    wanted = every.only_readable(refs)
    if not wanted:
        return []
    with _reading(every) as (store, connection):
        numbers = numbers_of(store, connection, wanted)
        found = question(store, connection, list(numbers))
    return [(*numbers[number], one) for number, one in found.items()]


@of_all()
def series_paths(
    every: Several,
    refs: Refs,
    paths: Annotated[list[Text], Meta(max_length=_MAX_REFS)] | None = None,
) -> list[tuple[str, str, list[str]]]:
    """Return the paths of the float series of runs, among some paths or all."""
    wanted, readable = None if paths is None else set(paths), every.only_readable(refs)
    with _reading(every) as (store, connection):
        found = series_of(
            store, connection, readable, lambda path: wanted is None or path in wanted
        )
    return [(*ref, sorted(some)) for ref, some in found.items()]


@of_all(heavy=True)
def series(
    every: Several,
    refs: Refs,
    paths: Annotated[list[Text], Meta(min_length=1, max_length=1000)],
    attempt: Attempt = "latest",
    points: Annotated[int, Meta(ge=2, le=MOST_PARTS)] | None = None,
    unknown: Unknown | None = None,
) -> Answer[list[SeriesPart]]:
    """Return the points or curves of the float series of many runs, in parts.

    ``paths`` may be patterns. ``points`` selects curves, with at most this number of representative
    points. With ``unknown`` null, paths that no run has are not reported.

    A series that is too long for one part continues in the next one; see the verb ``points``.
    """
    if points is not None:
        check_points(points)
    with _reading(every) as (store, connection):
        readable = every.only_readable(refs)
        found, place = _series_parts(every, store, connection, readable, paths, attempt, points)
        if unknown is not None:
            _check_series(every, store, connection, paths, {one.path for one in found})
    return Answer(found, next=place and to_next(place))


def _series_parts(
    every: Several,
    store: Store,
    connection: sa.Connection,
    refs: Sequence[Ref],
    patterns: Sequence[str],
    attempt: Attempt,
    points: int | None,
) -> tuple[list[SeriesPart], Place | None]:
    # Many runs are read at a time if their series fit; `parts_from` reads the next one.
    place = every.place(Place)
    if place is not None and place[:2] not in refs:  # the place is not valid any more; start again
        place = None
    at = 0 if place is None else refs.index(place[:2])
    found: list[SeriesPart] = []
    room = MAX_POINTS
    while at < len(refs):
        some = refs[at : at + _RUNS_AT_ONCE]
        lengths = lengths_of(store, connection, some, patterns)
        if place is None:
            fit = _fitting_runs(lengths, points, room)
            whole = read_many(
                store, connection, fit, patterns, attempt, every.server.sources, points=points
            )
            parts = [
                SeriesPart(project, run, path, points=one)
                if isinstance(one, Points)
                else SeriesPart(project, run, path, curve=one)
                for project, run, path, one in whole
            ]
            found += parts
            room -= sum(map(len, parts))
            at += len(fit)
            if len(fit) == len(some):
                continue
        own, read = list(lengths[refs[at]]), every.server.reader(*refs[at])
        parts, place = parts_from(place, read, own, room, attempt, curve=points)
        found += parts
        room -= sum(map(len, parts))
        if place is not None:
            break
        at += 1
    return found, place


def _fitting_runs(
    lengths: Mapping[Ref, Mapping[str, int]], points: int | None, room: int
) -> list[Ref]:
    fit = []
    for ref, series in lengths.items():
        counts = series.values()
        size = sum(counts if points is None else (min(one, points) for one in counts))
        if size > room:
            break
        fit.append(ref)
        room -= size
    return fit


def _check_series(
    every: Several,
    store: Store,
    connection: sa.Connection,
    patterns: Sequence[str],
    found: set[str],
) -> None:
    checks = KnownPaths(store, connection, every.unknown, readable=_restriction(every))
    for pattern in patterns:
        if pattern not in found and not any(map(matcher(pattern), found)):
            checks.check_series(pattern)
