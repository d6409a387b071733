"""Queries over rows that are in no database: of groups and of projects."""

from __future__ import annotations

import difflib
import operator
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

from seamark.errors import QueryError
from seamark.reading.tables import RunsTable, StringList
from seamark.store.query.expression import (
    Among,
    And,
    Comparison,
    Expression,
    Not,
    Or,
    Value,
    comparisons_of,
)
from seamark.store.query.language import parse
from seamark.store.query.moments import moment

__all__ = ["table_of"]

_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Row = Mapping[str, Any]


def table_of(
    rows: Mapping[tuple[str, str], Row], query: str | None, tell: Callable[[str], None]
) -> RunsTable:
    """Return a table of the rows that match, in their order.

    Args:
        rows: Values by path, by what they are of.
        query: In the language of queries; None for all.
        tell: Called with a sentence for each path that no row has.

    Raises:
        QueryError: If the query breaks the grammar.
    """
    if query is not None:
        expression = parse(query)
        known = {path for row in rows.values() for path in row}
        for leaf in comparisons_of(expression) if rows else ():
            if leaf.field.path not in known:
                near = difflib.get_close_matches(leaf.field.path, known, 1)
                hint = f"; there is {near[0]!r}" if near else ""
                tell(f"query: nothing here has {leaf.field.path!r:.200}{hint}")
        rows = {ref: row for ref, row in rows.items() if _matches(expression, row)}
    columns = dict.fromkeys(path for row in rows.values() for path in row)
    first = ("sys/id", "runs")
    ordered = [*first, *sorted(path for path in columns if path not in first)]
    cells = {path: [row.get(path) for row in rows.values()] for path in ordered}
    return RunsTable(cells, list(rows), len(rows))


def _matches(expression: Expression, row: Row) -> bool:
    if isinstance(expression, And):
        return all(_matches(term, row) for term in expression.terms)
    if isinstance(expression, Or):
        return any(_matches(term, row) for term in expression.terms)
    if isinstance(expression, Not):
        return not _matches(expression.term, row)
    if isinstance(expression, Among):
        found = row.get(expression.field.path)
        if isinstance(found, StringList):
            return any(value.text in found for value in expression.values)
        return any(_compares(found, "=", value) for value in expression.values)
    return _is_so(expression, row)


def _is_so(leaf: Comparison, row: Row) -> bool:
    found = row.get(leaf.field.path)
    if leaf.value is None:
        return found is None
    if leaf.operator in ("matches", "not matches"):
        return _is_like(found, leaf.value.text, wanted=leaf.operator == "matches")
    if leaf.operator == "contains":
        return isinstance(found, (StringList, str)) and leaf.value.text in found
    return _compares(found, leaf.operator, leaf.value)


def _is_like(found: Any, pattern: str, *, wanted: bool) -> bool:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        msg = f"query: expected a regular expression, got {pattern!r:.80}: {error}"
        raise QueryError(msg) from None
    texts: Collection[str] = [found] if isinstance(found, str) else found
    if not isinstance(found, (str, StringList)):
        return False
    return any(search(text) is not None for text in texts) is wanted


def _compares(found: Any, sign: str, value: Value) -> bool:
    compare, wanted = _SIGNS[sign], value.value
    if isinstance(found, bool) or isinstance(wanted, bool):
        both = isinstance(found, bool) and isinstance(wanted, bool)
        return both and compare(found, wanted)
    if isinstance(found, (int, float)):
        return isinstance(wanted, (int, float)) and compare(found, wanted)
    if isinstance(found, datetime):
        at = moment(value.text, time.time_ns())
        return at is not None and compare(found.timestamp() * 1e6, at)
    return isinstance(found, str) and compare(found, value.text)
