"""Reads of many runs at once; see `seamark.server.routes`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import sqlalchemy as sa
from msgspec import Meta

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import is_inside
from seamark.reading.answers import (
    Attempts,
    ProjectCounts,
    SeriesPart,
    Table,
)
from seamark.reading.catalog import RunField, SharedPath
from seamark.reading.curves import MOST_PARTS, check_points
from seamark.reading.groups import RunGroup, group_table, in_order
from seamark.reading.names import RunName
from seamark.reading.points import Attempt, Points
from seamark.reading.tables import RunsTable
from seamark.reading.verbs import Answer, Count, Path, Question
from seamark.server.answering import Several, to_next
from seamark.server.failures import Refusal
from seamark.server.reads import of_all
from seamark.server.routes.reads import MOST_POINTS, Place, parts_from
from seamark.store import schema
from seamark.store.cells import CRASHED, UNKNOWN_NS
from seamark.store.query.choosing import choose, state_column
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

__all__ = ["Which"]

T = TypeVar("T")

MOST_ROWS: Final = 10_000
_MOST_CELLS: Final = 4_000_000
_MOST_NAMES: Final = 1000
_MOST_QUERY: Final = 16 << 10
_MOST_REFS: Final = 20_000
_RUNS_AT_ONCE: Final = 50
_MOST_BEGINS: Final = 400
_LAST_US: Final = ((1 << 63) - 1) // 1000

Text = Path
Texts = Annotated[list[Text], Meta(max_length=MOST_ROWS)]
Few = Annotated[list[Text], Meta(max_length=1000)]
Ref = tuple[Text, Text]
Refs = Annotated[list[Ref], Meta(max_length=_MOST_REFS)]
Moment = Annotated[int, Meta(ge=-_LAST_US, le=_LAST_US)]
Unknown = Literal["refuse", "tell"]
Kind = Literal["run", "model", "model_version", "artifact", "project"]


class Which(Question, kw_only=True):
    """Selection and order of runs; see `seamark.store.query.selection.Selection`.

    Attributes:
        unknown: Whether a path that no run has is an error, or is reported in the answer.
        moments: Values of times in the query that name no UTC offset, by their text, in
            microseconds since the Unix epoch; times that are not among them are in UTC.
        counted: Whether those beyond the limit are counted, which takes time.
    """

    project: Text | None = None
    kind: Kind = "run"
    query: Annotated[str, Meta(max_length=_MOST_QUERY)] | None = None
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
        """Return it as the store takes it, restricted to what may be read.

        Raises:
            ArgumentError: If the query is too long.
        """
        if self.query is not None and len(self.query.encode("utf-8", "replace")) > _MOST_QUERY:
            msg = f"query: expected at most {_MOST_QUERY:,} bytes"
            raise ArgumentError(msg)
        given = {name: getattr(self, name) for name in _OF_SELECTION}
        return Selection(**(given | more), readable=_restriction(every))


_OF_SELECTION: Final = set(Which.__struct_fields__) - {"unknown", "counted", "seen", "next"}


class TableQuestion(Which, kw_only=True):
    """Runs, and what is shown of them.

    Attributes:
        columns: Paths, perhaps with an aggregate; None for all.
    """

    columns: Few | None = None


class FieldsQuestion(Which, kw_only=True):
    """Runs, and a part of the names of paths."""

    contains: Text = ""


class SharedPathsQuestion(FieldsQuestion, kw_only=True):
    """Runs, and how many of them are looked at."""

    sample: Annotated[int, Meta(ge=1, le=900)] = 50


class GroupsQuestion(Which, kw_only=True):
    """Runs and the paths that group them; ``limit`` and ``offset`` are of groups.

    Attributes:
        by: Paths by whose values they are grouped.
        columns: Paths whose numbers are summed up.
        order: One of ``by``, the mean of one of ``columns``, or ``:n``, the number of runs; None
            for the order of their first runs.
        least_first: The order.
    """

    by: Annotated[list[Text], Meta(min_length=1, max_length=8)]
    columns: Annotated[list[Text], Meta(max_length=100)] = []
    order: Text | None = None
    least_first: bool = False


class ScopeQuestion(Question, kw_only=True):
    """A project with what is in it; empty for all."""

    project: Text = ""
    kind: Kind = "run"


class RefsQuestion(Question, kw_only=True):
    """Runs, by project and id."""

    refs: Refs


class AttemptsQuestion(RefsQuestion, kw_only=True):
    """Runs, float series, and what is along x."""

    paths: Annotated[list[Text], Meta(max_length=_MOST_BEGINS)] = []
    x: Text = "step"


class SeriesPathsQuestion(RefsQuestion, kw_only=True):
    """Runs, and some paths; None for all."""

    paths: Annotated[list[Text], Meta(max_length=_MOST_REFS)] | None = None


class SeriesQuestion(RefsQuestion, kw_only=True):
    """Runs, and patterns of the paths of float series.

    Attributes:
        points: Of each at most so many representative points; None for all points.
        unknown: See `Which`; None: nothing is said of patterns that are a series of no run.
    """

    paths: Annotated[list[Text], Meta(min_length=1, max_length=1000)]
    attempt: Attempt = "latest"
    points: Annotated[int, Meta(ge=2, le=MOST_PARTS)] | None = None
    unknown: Unknown | None = None


def _ask(every: Several, question: Callable[[Store, sa.Connection], T]) -> T:
    """Return the answer to a question about one snapshot of the store."""
    store = every.server.store()
    with store.database.reading() as connection:
        return question(store, connection)


def _restriction(every: Several) -> Callable[[str], bool] | None:
    return None if every.sees_all else every.may_read


# ---------------------------------------------------------------------- tables of runs


def _table_tag(every: Several, question: TableQuestion) -> str:
    """Return what changes whenever a table may; times such as "-2h" change with every second."""
    is_timely = question.query is not None and '"-' in question.query.replace("'", '"')
    return "" if is_timely else every.tag()


@of_all(heavy=True, tag=_table_tag)
def table(every: Several, question: TableQuestion) -> Table:
    """Return the runs that match with the columns asked for, at most 10,000 of them.

    With ``counted`` false, ``total`` is null where ``limit`` cut the table off, which is faster.
    """
    limit = min(question.limit or MOST_ROWS, MOST_ROWS)
    selection = question.selection(every, limit=limit)
    cursor = every.cursor()

    def answer(store: Store, connection: sa.Connection) -> Table:
        found = query_runs(
            store,
            connection,
            selection,
            question.columns,
            every.now_ns,
            every.unknown,
            counted=question.counted,
        )
        if len(found) * len(found.columns) > _MOST_CELLS:
            most = max(1, _MOST_CELLS // len(found.columns))
            hint = (
                f"{len(found):,} runs with {len(found.columns):,} columns are too many at a time: "
                f"ask for fewer columns, or with limit={most}"
            )
            raise Refusal(413, "too-many-cells", hint, limit=most)
        named = list(found.refs) if len(found) <= _MOST_NAMES else []
        return Table(found, names_of(store, connection, named), cursor)

    return _ask(every, answer)


@of_all()
def select(every: Several, question: Which) -> Answer[list[Ref]]:
    """Return project and run id of the runs that match, in order.

    With ``counted`` false, ``total`` is null where ``limit`` cut them off, which is faster.
    """
    selection, counted = question.selection(every), question.counted

    def answer(store: Store, asked: sa.Connection) -> Answer[list[Ref]]:
        chosen = choose(store, asked, selection, every.now_ns, every.unknown, counted=counted)
        return every.part_of(chosen.refs, chosen.total)

    return _ask(every, answer)


@of_all()
def shared(every: Several, question: SharedPathsQuestion) -> list[SharedPath]:
    """Return which numbers, texts and series the first ``sample`` of the chosen runs have."""
    selection = question.selection(every)

    def answer(store: Store, connection: sa.Connection) -> list[SharedPath]:
        chosen = choose(store, connection, selection, every.now_ns, every.unknown, counted=False)
        some, wanted = chosen.numbers[: question.sample], question.contains.lower()
        found = shared_paths(store, connection, some, question.sample)
        shown = [one for one in found if wanted in one.path.lower()]
        return sorted(shown, key=lambda one: one.path)

    return _ask(every, answer)


@of_all(heavy=True)
def fields(every: Several, question: FieldsQuestion) -> list[RunField]:
    """Return which paths the chosen runs show: of how many, as what, and whether they differ."""
    selection = question.selection(every)

    def answer(store: Store, connection: sa.Connection) -> list[RunField]:
        chosen = choose(store, connection, selection, every.now_ns, every.unknown, counted=False)
        return run_fields(store, connection, chosen.numbers, question.contains)

    return _ask(every, answer)


@of_all(heavy=True)
def groups(every: Several, question: GroupsQuestion) -> Answer[list[RunGroup]]:
    """Return runs grouped by the values of some paths, and sums of the numbers of others.

    Only finite numbers count; ``std`` is that of a sample (n - 1), null for one run.
    """
    limit, selection = question.limit, question.selection(every, limit=MOST_ROWS, offset=0)
    columns = list(dict.fromkeys([*question.by, *question.columns]))

    def answer(store: Store, connection: sa.Connection) -> RunsTable:
        return query_runs(store, connection, selection, columns, every.now_ns, every.unknown)

    table = _ask(every, answer)
    if table.total > len(table):
        hint = f"{table.total:,} runs match, over {MOST_ROWS:,}: ask for fewer by a query"
        raise Refusal(413, "too-many-runs", hint, limit=MOST_ROWS)
    found = group_table(table, question.by, question.columns)
    if question.order is not None:
        found = in_order(found, question.order, ascending=question.least_first)
    end = None if limit is None else question.offset + limit
    return every.part_of(found[question.offset : end], len(found))


# ---------------------------------------------------------------------- what there is

_run: Final = schema.run.c


def _tag(every: Several, _: Question) -> str:
    return every.tag()


@of_all(tag=_tag)
def projects(every: Several, question: ScopeQuestion) -> list[ProjectCounts]:
    """Return the projects that may be read, with how many runs each has; the trash apart.

    ``running`` and ``crashed`` count runs in the states in which a table shows them.
    """
    meant = _within(every, question.project)

    def answer(store: Store, connection: sa.Connection) -> list[ProjectCounts]:
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
            .where(_run.kind == question.kind)
            .group_by(_run.project)
        )
        seen = in_projects(store, connection, meant)
        if seen is not None:
            statement = statement.where(seen)
        return [
            ProjectCounts(
                project,
                runs=int(runs),
                running=int(running),
                crashed=int(crashed),
                trashed=int(trashed),
                last_record_ns=None if last is None else int(last),
            )
            for project, runs, running, crashed, trashed, last in sorted(
                store.database.query(connection, statement)
            )
        ]

    return _ask(every, answer)


@of_all(tag=_tag)
def names(every: Several, question: ScopeQuestion) -> list[RunName]:
    """Return every run, model or version and what it is called, the newest first."""
    meant = _within(every, question.project)
    return _ask(every, lambda store, asked: run_names(store, asked, meant, question.kind))


def _within(every: Several, project: str) -> Callable[[str], bool] | None:
    """Return what tells whether a project may be read and is in another; None if all are."""
    if not project:
        return _restriction(every)
    return lambda one: is_inside(one, project) and every.may_read(one)


@of_all(tag=_tag)
def paths(every: Several, question: ScopeQuestion) -> list[str]:
    """Return every path that a run has, sorted."""
    meant = _within(every, question.project)

    def answer(store: Store, connection: sa.Connection) -> list[str]:
        seen = in_projects(store, connection, meant)
        if seen is None:
            return sorted(store.numbers.everything(connection))
        row, path, run = schema.attribute.c, schema.path.c, schema.run.c
        # Of most paths the first row that is looked at says that there is one.
        there = sa.exists().where(row.path == path.id, row.visible == 1, run.id == row.run, seen)
        statement = sa.select(path.path).where(there)
        return sorted(name for (name,) in store.database.query(connection, statement))

    return _ask(every, answer)


# ---------------------------------------------------------------------- of some runs


@of_all()
def losses(every: Several, question: RefsQuestion) -> list[tuple[str, str, dict[str, int]]]:
    """Return what is missing of runs, only of those of which something is."""
    return _of_runs(every, question.refs, load_losses)


@of_all()
def crash_reasons(every: Several, question: RefsQuestion) -> list[tuple[str, str, str]]:
    """Return why runs crashed, as far as that was told: the server saw none of their processes."""

    def reasons(store: Store, asked: sa.Connection, runs: Sequence[int]) -> dict[int, str]:
        return reasons_of(store, asked, runs, every.now_ns)

    return _of_runs(every, question.refs, reasons)


@of_all(heavy=True)
def attempts(every: Several, question: AttemptsQuestion) -> Attempts:
    """Return how often runs were begun or gone on with, of those that were gone on with.

    With ``paths``, also where each attempt begins in these float series, as far as points of it
    are shown: exactly, however few points a picture has. ``x`` is what is along x, as of curves; in
    the order of recording nothing has a place.
    """
    refs, begins = question.refs, list[tuple[str, str, str, list[Any]]]()
    asked = len(refs) * len(question.paths)
    if asked > _MOST_BEGINS:
        hint = f"{asked:,} series are too many at a time: ask for at most {_MOST_BEGINS}"
        raise Refusal(413, "too-many-series", hint, limit=_MOST_BEGINS)
    check_axis(question.x)
    for ref in every.only_readable(refs) if question.paths else ():
        with contextlib.suppress(RunNotFoundError):
            of_run = every.reader(*ref).begins(question.paths, question.x)
            begins += [(*ref, path, list(map(tuple, some))) for path, some in of_run.items()]
    return Attempts(
        _of_runs(every, refs, load_attempts), _of_runs(every, refs, load_openings), begins
    )


def _of_runs(
    every: Several,
    refs: Sequence[Ref],
    question: Callable[[Store, sa.Connection, Sequence[int]], dict[int, T]],
) -> list[tuple[str, str, T]]:
    """Return (project, run, answer) to a question about runs, which is asked by their numbers."""
    wanted = every.only_readable(refs)

    def answer(store: Store, connection: sa.Connection) -> list[tuple[str, str, T]]:
        numbers = numbers_of(store, connection, wanted)
        found = question(store, connection, list(numbers))
        return [(*numbers[number], one) for number, one in found.items()]

    return _ask(every, answer) if wanted else []


@of_all()
def series_paths(every: Several, question: SeriesPathsQuestion) -> list[tuple[str, str, list[str]]]:
    """Return which float series runs show, of some paths or of all."""
    wanted = None if question.paths is None else set(question.paths)
    refs = every.only_readable(question.refs)

    def answer(store: Store, connection: sa.Connection) -> dict[Ref, set[str]]:
        return series_of(store, connection, refs, lambda path: wanted is None or path in wanted)

    return [(*ref, sorted(paths)) for ref, paths in _ask(every, answer).items()]


@of_all(heavy=True)
def series(every: Several, question: SeriesQuestion) -> Answer[list[SeriesPart]]:
    """Return the points or curves of the float series of many runs, part by part.

    A series that is too long for one part goes on in the next one; see the verb ``points``.
    """
    if question.points is not None:
        check_points(question.points)

    def answer(store: Store, connection: sa.Connection) -> Answer[list[SeriesPart]]:
        found, place = _series_parts(every, question, store, connection)
        if question.unknown is not None:
            _check_series(every, store, connection, question.paths, {one.path for one in found})
        return Answer(found, next=place and to_next(place))

    return _ask(every, answer)


def _series_parts(
    every: Several, question: SeriesQuestion, store: Store, connection: sa.Connection
) -> tuple[list[SeriesPart], Place | None]:
    """Return series of many runs from a place on, as much as there is room for.

    Of runs whose series fit many are read at a time; see `parts_from` for the one that follows.
    """
    refs, place = every.only_readable(question.refs), every.place(Place)
    if place is not None and place[:2] not in refs:  # not theirs any more: begin anew
        place = None
    at = 0 if place is None else refs.index(place[:2])
    found: list[SeriesPart] = []
    room = MOST_POINTS
    while at < len(refs):
        some = refs[at : at + _RUNS_AT_ONCE]
        lengths = lengths_of(store, connection, some, question.paths)
        if place is None:
            fit = _fitting_runs(lengths, question.points, room)
            whole = read_many(
                store,
                connection,
                fit,
                question.paths,
                question.attempt,
                every.sources,
                points=question.points,
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
        ref = refs[at]
        parts, place = parts_from(
            place,
            every.reader(*ref),
            list(lengths[ref]),
            room,
            question.attempt,
            curve=question.points,
        )
        found += parts
        room -= sum(map(len, parts))
        if place is not None:
            break
        at += 1
    return found, place


def _fitting_runs(
    lengths: Mapping[Ref, Mapping[str, int]], points: int | None, room: int
) -> list[Ref]:
    """Return the first runs whose points fit.

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
    return fit


def _check_series(
    every: Several,
    store: Store,
    connection: sa.Connection,
    patterns: Sequence[str],
    found: set[str],
) -> None:
    """Tell of patterns that are a series of no run that may be read."""
    seen = in_projects(store, connection, _restriction(every))
    checks = KnownPaths(store, connection, every.unknown, seen)
    for pattern in patterns:
        if pattern not in found and not any(map(matcher(pattern), found)):
            checks.check_series(pattern)
