"""Queries over rows that are in no database: of groups and of projects."""

from __future__ import annotations

import difflib
import operator
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from seamark.errors import QueryError
from seamark.reading.tables import RunsTable, StringList
from seamark.store.query.expression import (
    Among,
    And,
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
    found = row.get(expression.field.path)
    if isinstance(expression, Among):
        sign = "contains" if isinstance(found, StringList) else "="
        return any(_compares(found, sign, value) for value in expression.values)
    if expression.value is None:
        return found is None
    return _compares(found, expression.operator, expression.value)


def _compares(found: Any, sign: str, value: Value) -> bool:
    if sign in ("matches", "not matches"):
        return _is_like(found, value.text, wanted=sign == "matches")
    if sign == "contains":
        return isinstance(found, (StringList, str)) and value.text in found
    compare, wanted = _SIGNS[sign], value.value
    if isinstance(found, str):
        return compare(found, value.text)
    if isinstance(found, datetime):
        at = moment(value.text, time.time_ns())
        return at is not None and compare(found.timestamp() * 1e6, at)
    if isinstance(found, bool) != isinstance(wanted, bool):
        return False
    both = isinstance(found, (int, float)) and isinstance(wanted, (int, float))
    return both and compare(found, wanted)


def _is_like(found: Any, pattern: str, *, wanted: bool) -> bool:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        msg = f"query: expected a regular expression, got {pattern!r:.80}: {error}"
        raise QueryError(msg) from None
    if not isinstance(found, (str, StringList)):
        return False
    texts = [found] if isinstance(found, str) else found
    return any(search(text) is not None for text in texts) is wanted
