"""Checks of queries and columns against the paths and types in a store.

A comparison that cannot match any run raises an error, because an empty result would be misleading.
The types of all runs with a path are checked only if the type of the first one does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Final

import sqlalchemy as sa

from seamark.paths import projects_above
from seamark.reading.catalog import Unknown, refuse
from seamark.reading.text import near_paths
from seamark.store import schema
from seamark.store.database import as_literals
from seamark.store.query.expression import (
    SIGNS,
    Comparison,
    Field,
    comparisons_of,
    matcher,
    positioned_error,
)
from seamark.store.query.kinds import (
    CHILD_AGGREGATES,
    CHILDREN,
    NUMERIC,
    SORTABLE,
    SYSTEM,
    fault,
    field_fault,
    implied_types,
    matching_types,
    suffix_fault,
    system_types,
    words_of,
)
from seamark.store.query.language import parse
from seamark.store.read.inherited import TAGS
from seamark.store.runs import Store
from seamark.values import escape

_QUERY: Final = "query"
_cells: Final = schema.attribute.c


def _select_projects() -> sa.Select[tuple[str]]:
    # One index lookup per project instead of one per run.
    project, first = schema.run.c.project, sa.func.min(schema.run.c.project)
    known = sa.select(first.label("project")).cte("known", recursive=True)
    following = sa.select(first).where(project > known.c.project).scalar_subquery()
    known = known.union_all(sa.select(following).where(known.c.project.is_not(None)))
    return sa.select(known.c.project).where(known.c.project.is_not(None))


_PROJECTS: Final = _select_projects()
_MAX_TRIED: Final = 16
"""Maximum number of similar paths checked; runs may no longer have them."""


def in_projects(
    store: Store, connection: sa.Connection, is_meant: Callable[[str], bool] | None
) -> sa.ColumnElement[bool] | None:
    """Return the condition that a run is in one of the projects accepted by ``is_meant``."""
    if is_meant is None:
        return None
    return schema.run.c.project.in_(as_literals(matching_projects(store, connection, is_meant)))


def matching_projects(
    store: Store, connection: sa.Connection, is_meant: Callable[[str], bool]
) -> list[str]:
    """Return the projects of a store that ``is_meant`` accepts."""
    return [name for (name,) in store.database.rows(connection, _PROJECTS) if is_meant(name)]


class KnownPaths:
    """Paths of a store and the types of their values, for containers of one kind.

    Args:
        store: Store with the paths.
        connection: Connection with a transaction of the store.
        unknown: Called with an error for each requested path that no run has, if there are runs.
        kind: Kind of the containers; see `seamark.paths.kind_of`.
        readable: Returns whether the caller may read a project; None for all.

    Attributes:
        seen: Condition that the caller may read a run; None for all.
    """

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        unknown: Unknown = refuse,
        kind: str = "run",
        readable: Callable[[str], bool] | None = None,
    ) -> None:
        self._readable = readable
        self._own = schema.run.c.kind == kind
        self.seen = in_projects(store, connection, readable)
        if self.seen is not None:
            self._own = sa.and_(self._own, self.seen)
        self._store = store
        self._connection = connection
        self._unknown = unknown
        self._first_type: dict[str, frozenset[str]] = {}

    def prefetch(self, paths: Collection[str]) -> None:
        """Load the first type of each path that will be checked, in one query."""
        stored_paths = [path for path in paths if system_types(path) is None]
        numbers = self._store.numbers.known(self._connection, stored_paths)
        self._first_type |= dict.fromkeys(stored_paths, frozenset())
        self._first_type |= {
            path: self._load_types(path) for path in numbers if path.startswith(TAGS)
        }
        others = {at: path for path, at in numbers.items() if not path.startswith(TAGS)}
        if not others:
            return
        database, id_ = self._store.database, schema.path.c.id
        first = self._select_types(id_, self._own).limit(1)
        if database.dialect != "sqlite":
            # Without an order, PostgreSQL may scan the whole table for a row of the path.
            first = first.order_by(_cells["class"])
        statement = sa.select(id_, first.scalar_subquery()).where(database.among(id_, others))
        rows = database.query(self._connection, statement)
        self._first_type |= {others[at]: frozenset({kind}) for at, kind in rows if kind is not None}

    def check_query(self, query: str) -> None:
        """Check every comparison; raise `QueryError` if one cannot match any value."""
        for leaf in comparisons_of(parse(query)):
            self._check_leaf(escape(query), leaf)

    def _check_leaf(self, query: str, leaf: Comparison) -> None:
        if (
            leaf.field.path.startswith(CHILDREN)
            and self._types_at(leaf.field.path, None) is not None
        ):
            self._check_parts(query, leaf)
            return
        for value in leaf.values or (None,):
            wanted = matching_types(leaf, value)
            types = self._types_at(leaf.field.path, wanted)
            if types is None:
                continue
            if not types:
                self._report_unknown(_QUERY, query, leaf.field)
                return
            raise positioned_error(_QUERY, query, *fault(leaf, value, types), named=True)

    def _check_parts(self, query: str, leaf: Comparison) -> None:
        path, sign = leaf.field.path, leaf.operator
        if sign != "missing" and leaf.field.aggregate not in CHILD_AGGREGATES:
            known = ", ".join(f":{name}" for name in CHILD_AGGREGATES)
            raise positioned_error(
                _QUERY, query, leaf.field.at, f"expected one of {known} after {path!r:.200}"
            )
        if sign not in (*SIGNS, "in", "missing"):
            raise positioned_error(
                _QUERY,
                query,
                leaf.at,
                f"expected = or < for an aggregate of child runs, got {sign!r}",
            )
        for value in leaf.values:
            if isinstance(value.value, bool | str):
                raise positioned_error(
                    _QUERY,
                    query,
                    value.at,
                    f"expected a number for {path!r:.200}, got {value.text[:60]!r}",
                )
        below = path.removeprefix(CHILDREN)
        if self._types_at(below, NUMERIC) is not None:
            self._report_unknown(_QUERY, query, Field(below, None, None, leaf.field.at))

    def check_column(self, text: str, field: Field) -> None:
        """Check a column without wildcards; raise `QueryError`, as for the minimum of a text."""
        self._check_field("column", text, field, implied_types(field))

    def check_sort(self, text: str, field: Field) -> None:
        """Check the path of the sort order; raise `QueryError` if its values cannot be sorted."""
        types = self._check_field("sort_by", text, field, implied_types(field) or SORTABLE)
        if types:
            message = f"{field.path!r} is {words_of(types)}, which cannot be sorted"
            error = positioned_error("sort_by", escape(text), 0, message)
            raise error

    def check_pattern(self, text: str, found: Collection[str]) -> None:
        """Report a column pattern that does not match any path."""
        if self._readable is not None:
            found = [one for one in found if self._types_at(one, None) is None]
        if not found and self._has_runs():
            self._unknown(positioned_error("column", text, 0, f"no path matches {text!r:.200}"))

    def check_series(self, pattern: str) -> None:
        """Report a path or pattern without results if it does not match a float series."""
        wanted = frozenset({"float_series"})
        if any(char in pattern for char in "*?["):
            known = self._store.numbers.everything(self._connection)
            found = list(filter(matcher(pattern), known))
            if any(self._types_at(one, wanted) is None for one in (pattern, *found[:_MAX_TRIED])):
                return
            message = f"no series of numbers matches {pattern!r:.200}"
        elif (types := self._types_at(pattern, wanted)) is None:
            return
        elif types:
            message = f"{pattern!r:.200} is {words_of(types)}, not a series of numbers"
        else:
            message = f"no run has {pattern!r:.200}{self._suggest_path(pattern, wanted)}"
        if self._has_runs():
            self._unknown(positioned_error("paths", escape(pattern), 0, message))

    def _check_field(
        self, what: str, text: str, field: Field, wanted: frozenset[str] | None
    ) -> frozenset[str]:
        types = self._types_at(field.path, wanted)
        if types is None:
            return frozenset()
        text = escape(text)
        if not types:
            self._report_unknown(what, text, field)
        implied = implied_types(field)
        if types and implied is not None and not implied & types:
            raise positioned_error(what, text, *field_fault(field, types))
        return types

    def _types_at(self, path: str, wanted: frozenset[str] | None) -> frozenset[str] | None:
        types = system_types(path)
        if types is not None:
            return None if wanted is None or types & wanted else types
        if path not in self._first_type:
            self.prefetch([path])
        types = self._first_type[path]
        if types and wanted is not None and not types & wanted:
            types = self._load_types(path)
        return None if types and (wanted is None or types & wanted) else types

    def _select_types(self, path: Any, where: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
        return (
            sa.select(_cells.type)
            .join(schema.run, schema.run.c.id == _cells.run)
            .where(_cells.path == path, _cells.visible == 1, where)
        )

    def _load_types(self, path: str) -> frozenset[str]:
        number, where = self._store.numbers.number(self._connection, path), self._own
        if number is None:
            return frozenset()
        if path.startswith(TAGS):
            where = sa.or_(where, self._in_readable_projects())
        statement = self._select_types(number, where).distinct()
        rows = self._store.database.query(self._connection, statement)
        return frozenset(kind for (kind,) in rows)

    def _in_readable_projects(self) -> sa.ColumnElement[bool]:
        of_project = schema.run.c.kind == "project"
        if self._readable is None:
            return of_project
        readable = matching_projects(self._store, self._connection, self._readable)
        above = sorted({one for name in readable for one in projects_above(name, "")})
        return sa.and_(of_project, schema.run.c.project.in_(as_literals(above)))

    def _has_runs(self) -> bool:
        any_run = sa.select(schema.run.c.id).where(self._own).limit(1)
        return bool(self._store.database.query(self._connection, any_run))

    def _report_unknown(self, what: str, text: str, field: Field) -> None:
        if not self._has_runs():
            return
        path, colon, word = field.path.rpartition(":")
        if what != _QUERY and colon and self._types_at(path, None) is None:
            raise positioned_error(what, text, *suffix_fault(word, text.rfind(colon)))
        message = f"no run has {field.path!r:.200}"
        self._unknown(
            positioned_error(what, text, field.at, message, self._suggest_path(field.path))
        )

    def _suggest_path(self, path: str, wanted: frozenset[str] | None = None) -> str:
        known = sorted({*self._store.numbers.everything(self._connection), *SYSTEM})
        for one in islice(near_paths(path, known), _MAX_TRIED):
            if self._types_at(one, wanted) is None:
                return f"; there is {one!r}"
        return ""
