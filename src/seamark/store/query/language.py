"""The query language: what people write to choose runs.

A superset of Neptune's NQL. A comparison names a path, perhaps its type, an operator and a value;
comparisons are joined by AND, OR, NOT and brackets::

    params/lr <= 0.01 AND (`sys/tags`:stringSet CONTAINS "best" OR NOT sys/state = running)
    val/loss:min < 0.3 and sys/name =~ "resnet.*" and `my metric` IS NOT MISSING

Paths with characters other than letters, digits and ``_ . / -`` need back-ticks. Words are the
same in upper and lower case. A value is a number, ``true``, ``false``, a quoted string, or a bare
word, which is a string.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import QueryError
from seamark.values import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lark import Lark

__all__ = [
    "AGGREGATES",
    "And",
    "Comparison",
    "Expression",
    "Field",
    "Not",
    "Or",
    "Value",
    "fields_of",
    "parse",
    "parse_field",
]

AGGREGATES: Final = ("last", "min", "max", "mean", "count", "first_step", "last_step")
"""What can be asked of a series: ``val/loss:min``. Without one, the last value is meant."""

_OTHER_AGGREGATES: Final = {"average": "mean", "avg": "mean"}
_TYPES: Final = {
    "int": "int",
    "integer": "int",
    "float": "float",
    "bool": "bool",
    "boolean": "bool",
    "string": "string",
    "datetime": "datetime",
    "json": "json",
    "experimentstate": "string",
    "floatseries": "float_series",
    "stringseries": "string_series",
    "fileseries": "file_series",
    "imageseries": "file_series",
    "histogramseries": "histogram_series",
    "stringset": "string_set",
    "file": "file",
    "fileset": "file_set",
    "artifact": "artifact",
}
_NUMERIC: Final = frozenset({"int", "float", "float_series"})
_MAX_DEPTH: Final = 100

_GRAMMAR: Final = r"""
start: expression?
?expression: conjunction (_OR conjunction)*      -> either
?conjunction: negation (_AND negation)*          -> both
?negation: NOT negation                          -> negated
         | "(" expression ")"
         | field OPERATOR value                  -> compared
         | field CONTAINS value                  -> compared
         | field NOT CONTAINS value              -> not_contained
         | field IS MISSING                      -> missing
         | field IS NOT MISSING                  -> not_missing
field: (PATH | QUOTED_PATH) SUFFIX*
     | FUNCTION (PATH | QUOTED_PATH) SUFFIX* ")"  -> function
value: STRING | WORD

_OR.3: /or(?![\w.\/:-])/i
_AND.3: /and(?![\w.\/:-])/i
NOT.3: /not(?![\w.\/:-])/i
CONTAINS.3: /contains(?![\w.\/:-])/i
IS.3: /is(?![\w.\/:-])/i
MISSING.3: /(missing|null|none)(?![\w.\/:-])/i
OPERATOR.3: />=|<=|!=|<>|==|=~|!~|=|<|>|matches(?![\w.\/:-])/i
FUNCTION.3: /(last|min|max|mean|average|avg|count)\s*\(/i
SUFFIX: /:\s*[A-Za-z_]+/
QUOTED_PATH: /`[^`]+`/
PATH: /[^\W\d][\w.\/-]*|\d[\w.\/-]*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
WORD: /[^\s()"'`=<>!~]+/

%ignore /\s+/
"""

_SAID: Final = {
    "OPERATOR": "an operator such as = or <",
    "CONTAINS": "CONTAINS",
    "IS": "IS MISSING",
    "PATH": "a path",
    "QUOTED_PATH": "a path",
    "FUNCTION": "a path",
    "STRING": "a value",
    "WORD": "a value",
    "_AND": "AND",
    "_OR": "OR",
    "NOT": "NOT",
    "MISSING": "MISSING",
    "RPAR": "')'",
    "LPAR": "'('",
    "SUFFIX": "a type or aggregate after ':'",
    "$END": "the end",
}
_INTEGER: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL: Final = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Field:
    """What a comparison is about.

    Attributes:
        path: Attribute path.
        aggregate: One of `AGGREGATES`, or None for the value itself.
        type: Type of an atom or a family, if one was stated.
    """

    path: str
    aggregate: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """What a field is compared with.

    Attributes:
        value: An int, float, bool or str.
        text: As it was written, without quotes.
    """

    value: int | float | bool | str
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field, an operator and a value.

    Attributes:
        field: Left side.
        operator: ``= != > >= < <= contains matches``, ``"not matches"``, or ``missing`` (the value
            is then None).
        value: Right side.
    """

    field: Field
    operator: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Not:
    """Everything that ``term`` does not match."""

    term: Expression


@dataclass(frozen=True, slots=True)
class And:
    """What all terms match; everything if there are none."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """What one of the terms matches."""

    terms: tuple[Expression, ...]


Expression = Comparison | Not | And | Or


def fields_of(expression: Expression) -> Iterator[Field]:
    """Yield every field that an expression compares, in its order."""
    if isinstance(expression, Comparison):
        yield expression.field
    elif isinstance(expression, Not):
        yield from fields_of(expression.term)
    else:
        for term in expression.terms:
            yield from fields_of(term)


def parse(text: str) -> Expression:
    """Return what a query says; an empty one matches every run.

    Args:
        text: The query.

    Raises:
        QueryError: If it breaks the grammar; the message points at the place.
    """
    from lark import UnexpectedInput

    if not isinstance(text, str):
        msg = f"query: expected a string, got {type(text).__name__}: {text!r:.80}"
        raise QueryError(msg)
    text = escape(text)  # as texts are kept
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None
    return _Builder(text).expression(tree.children[0]) if tree.children else And(())


def parse_field(text: str, what: str = "column") -> Field:
    """Return the path and aggregate of a column such as ``val/loss:min``; a type is kept.

    The last ``:word`` counts only if it is an aggregate or a type; a path may hold colons.

    Raises:
        QueryError: If it is not a string or empty.
    """
    if not isinstance(text, str) or not text.strip("`"):
        msg = f"{what}: expected a path such as 'val/loss' or 'val/loss:min', got {text!r:.80}"
        raise QueryError(msg)
    path, colon, word = text.rpartition(":")
    path, word = path.strip("`"), word.lower()
    word = _OTHER_AGGREGATES.get(word, word)
    if colon and path and word in AGGREGATES:
        return Field(path, word)
    if colon and path and word.replace("_", "") in _TYPES:
        return Field(path, None, _TYPES[word.replace("_", "")])
    return Field(text.strip("`"))


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", propagate_positions=True)


def _complaint(text: str, position: int, message: str) -> QueryError:
    """Return an error that shows the line and points at the character."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end].replace("\t", " ")
    column = position - start + 1
    where = (
        f"column {column}"
        if "\n" not in text
        else f"line {text.count(chr(10), 0, position) + 1}, column {column}"
    )
    return QueryError(f"query: {message} at {where}\n  {line}\n  {' ' * (column - 1)}^")


def _unexpected(text: str, error: Any) -> QueryError:
    from lark import UnexpectedCharacters

    token = getattr(error, "token", None)
    ended = token is not None and token.type == "$END"
    position = len(text.rstrip()) if ended else int(error.pos_in_stream)
    wants = ("accepts", "expected", "allowed")
    expected = next((set(found) for name in wants if (found := getattr(error, name, None))), set())
    said = sorted({_SAID[name] for name in expected if name in _SAID and name != "$END"})
    said = next(([one] for one in ("a value", "a path", _SAID["OPERATOR"]) if one in said), said)
    wanted = (
        ", ".join(said[:-1]) + (" or " if len(said) > 1 else "") + said[-1]
        if said
        else "AND, OR or the end"
    )
    if ended:
        return _complaint(text, position, f"expected {wanted}, got the end")
    if isinstance(error, UnexpectedCharacters) and text[position] in "\"'`":
        closing = text.find(text[position], position + 1) < 0
        if closing:
            return _complaint(
                text, position, f"expected a closing {text[position]} for the one opened"
            )
    found = str(token) if token is not None else text[position]
    return _complaint(text, position, f"expected {wanted}, got {found!r:.60}")


class _Builder:
    """Makes expressions out of what the parser found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0

    def expression(self, tree: Any) -> Expression:
        """Return the expression of a node."""
        if self.depth >= _MAX_DEPTH:
            msg = f"query: expected brackets and NOTs nested at most {_MAX_DEPTH} deep, got more"
            raise QueryError(msg)
        build = getattr(self, f"_{tree.data}")
        self.depth += 1
        found: Expression = build(tree.children)
        self.depth -= 1
        return found

    def _either(self, children: list[Any]) -> Expression:
        terms = tuple(self.expression(child) for child in children)
        return terms[0] if len(terms) == 1 else Or(terms)

    def _both(self, children: list[Any]) -> Expression:
        terms = tuple(self.expression(child) for child in children)
        return terms[0] if len(terms) == 1 else And(terms)

    def _negated(self, children: list[Any]) -> Expression:
        return Not(self.expression(children[1]))

    def _missing(self, children: list[Any]) -> Expression:
        return Comparison(self._field(children[0]), "missing", None)

    def _not_missing(self, children: list[Any]) -> Expression:
        return Not(self._missing(children))

    def _not_contained(self, children: list[Any]) -> Expression:
        return Not(self._compared([children[0], children[2], children[3]]))

    def _compared(self, children: list[Any]) -> Expression:
        tree, operator, right = children
        field = self._field(tree)
        sign = {"==": "=", "<>": "!=", "=~": "matches", "!~": "not matches"}.get(
            str(operator), str(operator).lower()
        )
        token = right.children[0]
        value = self._value(token)
        if sign in ("contains", "matches", "not matches"):
            value = Value(value.text, value.text)
            if sign != "contains":
                self._check_pattern(token, value.text)
        return Comparison(field, sign, self._fitting(field, sign, value, token, operator))

    def _check_pattern(self, token: Any, pattern: str) -> None:
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"expected a regular expression, but {error.msg} in {pattern!r:.60}"
            raise _complaint(self.text, token.start_pos, message) from None

    def _fitting(self, field: Field, sign: str, value: Value, token: Any, operator: Any) -> Value:
        """Return the value as the field's stated type or aggregate needs it."""
        kind = "float" if field.aggregate not in (None, "last") else field.type
        if (
            kind in _NUMERIC
            and isinstance(value.value, str)
            and sign not in ("contains", "matches", "not matches")
        ):
            number = _number(value.text)
            if number is None:
                raise _complaint(
                    self.text,
                    token.start_pos,
                    f"expected a number for {field.path!r}, got {value.text!r:.60}",
                )
            return Value(number, value.text)
        if kind in ("string", "datetime", "string_series", "json"):
            return Value(value.text, value.text)
        if kind == "bool" and not isinstance(value.value, bool):
            raise _complaint(
                self.text,
                token.start_pos,
                f"expected true or false for {field.path!r}, got {value.text!r:.60}",
            )
        if kind == "string_set" and sign not in ("contains", "matches", "not matches"):
            raise _complaint(
                self.text,
                operator.start_pos,
                f"expected CONTAINS for a string set, got {str(operator)!r}",
            )
        if isinstance(value.value, bool) and sign not in ("=", "!="):
            raise _complaint(
                self.text,
                operator.start_pos,
                f"expected = or != before {value.text}, got {str(operator)!r}",
            )
        return value

    def _function(self, children: list[Any]) -> Field:
        name = str(children[0])[:-1].strip().lower()
        return self._field_of(children[1], children[2:], _OTHER_AGGREGATES.get(name, name))

    def _field(self, tree: Any) -> Field:
        if tree.data == "function":
            return self._function(tree.children)
        return self._field_of(tree.children[0], tree.children[1:], None)

    def _field_of(self, token: Any, suffixes: list[Any], aggregate: str | None) -> Field:
        kind = None
        for suffix in suffixes:
            word = str(suffix)[1:].strip().lower()
            word = _OTHER_AGGREGATES.get(word, word)
            if word in AGGREGATES:
                aggregate = word
            elif word.replace("_", "") in _TYPES:
                kind = _TYPES[word.replace("_", "")]
            else:
                known = ", ".join(
                    (
                        *AGGREGATES,
                        "int",
                        "float",
                        "bool",
                        "string",
                        "datetime",
                        "floatSeries",
                        "stringSet",
                    )
                )
                raise _complaint(
                    self.text, suffix.start_pos, f"expected one of {known}, got {word!r}"
                )
        return Field(str(token).strip("`"), aggregate, kind)

    def _value(self, token: Any) -> Value:
        text = str(token)
        if token.type == "STRING":
            plain = re.sub(r"\\([\"'\\])", r"\1", text[1:-1])
            return Value(plain, plain)
        number = _number(text)
        if number is not None:
            return Value(number, text)
        if text.lower() in ("true", "false"):
            return Value(text.lower() == "true", text)
        return Value(text, text)


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text) and len(text) < 4000:  # noqa: PLR2004 - Python converts no more digits than 4,300
        return int(text)
    if _NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text)
    return None
