"""Queries that ask for the number of a model's version, where that is not the one it recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seamark.store.query.expression import (
    SIGNS,
    Among,
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Or,
    Value,
    comparisons_of,
)
from seamark.store.read.versions import VERSION

__all__ = ["asks_for_numbers", "with_numbers"]


def asks_for_numbers(expression: Expression) -> bool:
    """Return whether a query compares numbers of versions."""
    return any(each.field.path == VERSION for each in comparisons_of(expression))


def with_numbers(expression: Expression, moved: Mapping[str, int]) -> Expression:
    """Return a query that compares the numbers that versions go by.

    Args:
        expression: The query, which compares those that versions recorded.
        moved: The numbers of those that go by another one, by their ids.
    """
    if isinstance(expression, Not):
        return Not(with_numbers(expression.term, moved))
    if isinstance(expression, And | Or):
        return type(expression)(tuple(with_numbers(one, moved) for one in expression.terms))
    if expression.field.path != VERSION or not moved:
        return expression
    matches = _matching(expression)
    if matches is None:
        return expression
    others = Not(_are(moved))
    found = [name for name, number in moved.items() if matches(number)]
    recorded = And((expression, others))
    return Or((recorded, _are(found))) if found else recorded


def _matching(one: Comparison | Among) -> Callable[[int], bool] | None:
    """Return what tells whether a number matches; None where numbers do not matter."""
    if isinstance(one, Among):
        values = {each.value for each in one.values}
        return lambda number: number in values
    sign, value = SIGNS.get(one.operator), one.value
    if sign is None or value is None or isinstance(value.value, str):
        return None
    return lambda number: sign(number, value.value)


def _are(names: Mapping[str, int] | list[str]) -> Among:
    return Among(Field("sys/id"), tuple(Value(name, name) for name in names))
