"""Syntax tree of a query: comparisons of paths with values, joined by AND, OR and NOT.

The position of a node in the query (``at``, 0-based) is kept for error messages and is ignored when
nodes are compared.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

__all__ = [
    "AGGREGATES",
    "SIGNS",
    "Among",
    "And",
    "Comparison",
    "Expression",
    "Field",
    "Not",
    "Or",
    "Value",
    "comparisons_of",
]

AGGREGATES: Final = ("last", "min", "max", "mean", "count", "first_step", "last_step")
"""What can be asked of a series: ``val/loss:min``. Without one, the last value is meant."""
SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The operators that compare a value with another one."""


@dataclass(frozen=True, slots=True)
class Field:
    """Left side of a comparison: a path, perhaps with an aggregate and a type.

    Attributes:
        path: Attribute path.
        aggregate: One of `AGGREGATES`, or None for the value itself.
        type: Type of an atom or a family, if one was stated.
        at: Where it begins.
    """

    path: str
    aggregate: str | None = None
    type: str | None = None
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """Right side of a comparison: a literal value.

    Attributes:
        value: An int, float, bool or str.
        text: Text as it was written, without quotes.
        at: Where it begins.
    """

    value: int | float | bool | str
    text: str
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field, an operator and a value.

    Attributes:
        field: Left side.
        operator: ``= != > >= < <= contains matches``, ``"not matches"``, or ``missing`` (the value
            is then None).
        value: Right side.
        at: Where the operator begins.
    """

    field: Field
    operator: str
    value: Value | None
    at: int = dataclasses.field(default=0, compare=False)

    @property
    def values(self) -> tuple[Value | None]:
        """The right side as of `Among`."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class Among:
    """A field that equals one of several values, or a set of strings that has one of them.

    Attributes:
        field: Left side.
        values: Right side, at least one.
        at: Where the operator begins.
    """

    operator: ClassVar[str] = "in"
    field: Field
    values: tuple[Value, ...]
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Everything that ``term`` does not match."""

    term: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction: true where all terms match, and everywhere if there are none."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction: true where at least one of the terms matches."""

    terms: tuple[Expression, ...]


Expression = Comparison | Among | Not | And | Or


def comparisons_of(expression: Expression) -> Iterator[Comparison | Among]:
    """Yield every comparison of an expression, in its order."""
    if isinstance(expression, Comparison | Among):
        yield expression
    elif isinstance(expression, Not):
        yield from comparisons_of(expression.term)
    else:
        for term in expression.terms:
            yield from comparisons_of(term)
