"""Syntax tree of a query, its patterns, and errors with a position in the query.

The 0-based position of a node (``at``) is used in error messages and ignored in comparisons.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, Final

from seamark.errors import QueryError

_MAX_WIDTH: Final = 76
"""Maximum number of characters shown of a line; a longer line is cut around the position."""


def positioned_error(
    what: str, text: str, position: int, message: str, hint: str = "", *, named: bool = False
) -> QueryError:
    """Return an error with the message, followed by the line and a caret at the position.

    ``what`` names the argument, such as ``"query"``. ``position`` is 0-based and may be the end.
    ``hint`` is appended, such as ``"; did you mean 'mean'?"``. ``named`` adds the position in
    words.
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    where = f" at column {column + 1}"
    if "\n" in text:
        where = f" at line {text.count(chr(10), 0, position) + 1}, column {column + 1}"
    first = max(0, min(column - _MAX_WIDTH // 2, len(line) - _MAX_WIDTH))
    shown = "".join(
        char if char.isprintable() else " " for char in line[first : first + _MAX_WIDTH]
    )
    before = "…" if first else ""
    after = "…" if first + _MAX_WIDTH < len(line) else ""
    indent = " " * (len(before) + sum(map(_display_width, shown[: column - first])))
    place = f"  {before}{shown}{after}\n  {indent}^"
    return QueryError(f"{what}: {message}{where if named else ''}{hint}\n{place}")


def _display_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate like `fnmatch.fnmatchcase` that does not cache untrusted patterns."""
    match = re.compile(translate(pattern)).match
    return lambda text: match(text) is not None


AGGREGATES: Final = ("last", "min", "max", "mean", "count", "first_step", "last_step")
"""Aggregates of a series, as in ``val/loss:min``. The default is ``last``."""
SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparison operators."""


@dataclass(frozen=True, slots=True)
class Field:
    """Left side of a comparison: path, optional aggregate, optional type of atom or family."""

    path: str
    aggregate: str | None = None
    type: str | None = None
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """Right side of a comparison: a literal value, and its text without quotes."""

    value: int | float | bool | str
    text: str
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a field with values.

    Operators are ``= != > >= < <= contains matches`` and ``"not matches"`` with one value,
    ``missing`` without, and ``in`` with any number: whether the field equals one of the values, or
    a string set contains one of them.
    """

    field: Field
    operator: str
    values: tuple[Value, ...] = ()
    at: int = dataclasses.field(default=0, compare=False)

    @property
    def value(self) -> Value | None:
        """First value; None without any."""
        return self.values[0] if self.values else None

    @property
    def texts(self) -> list[str]:
        """Different texts of the values."""
        return list(dict.fromkeys(value.text for value in self.values))

    @property
    def sign(self) -> str:
        """Operator by which each value is compared."""
        return "=" if self.operator == "in" else self.operator


@dataclass(frozen=True, slots=True)
class Not:
    """Negation: true if ``term`` is false."""

    term: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction: true if all terms are true, also without any terms."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction: true if at least one term is true."""

    terms: tuple[Expression, ...]


Expression = Comparison | Not | And | Or


def comparisons_of(expression: Expression) -> Iterator[Comparison]:
    """Yield the comparisons of an expression, in their order."""
    if isinstance(expression, Comparison):
        yield expression
    elif isinstance(expression, Not):
        yield from comparisons_of(expression.term)
    else:
        for term in expression.terms:
            yield from comparisons_of(term)
