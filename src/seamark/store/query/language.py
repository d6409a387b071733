"""Parser of the query language that selects runs.

The language is a superset of Neptune's NQL. A comparison has a path, optionally a type, an operator
and a value. Comparisons are combined with AND, OR, NOT and brackets::

    params/lr <= 0.01 AND (`sys/tags`:stringSet CONTAINS "best" OR NOT sys/state = running)
    val/loss:min < 0.3 and sys/name =~ "resnet.*" and `my metric` IS NOT MISSING
    params/optimizer NOT IN (adam, "sgd") and sys/creation_time >= -1d

Paths with characters other than letters, digits and ``_ . / -`` need back-ticks. Keywords are
case-insensitive. A value is a number, ``true``, ``false``, a quoted string, or a bare word, which
is a string.

The parser reports errors that do not depend on the runs: an unknown state, ``=`` for tags, a text
for a number. `seamark.store.query.validation` reports all others.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import QueryError
from seamark.store.query.expression import (
    AGGREGATES,
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Or,
    Value,
    positioned_error,
)
from seamark.store.query.kinds import (
    NUMERIC,
    SEARCHES,
    fault,
    implied_types,
    matching_types,
    state_fault,
    suffix_fault,
    system_types,
)
from seamark.values import escape
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from lark import Lark

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
    "statistic": "statistic",
}
_TEXT_TYPES: Final = frozenset({"string", "datetime", "string_series", "json"})
"""Types whose operands are always strings."""
_MAX_DEPTH: Final = 100

_GRAMMAR: Final = r"""
start: expression?
?expression: conjunction (_OR conjunction)*      -> either
?conjunction: negation (_AND negation)*          -> both
?negation: NOT negation                          -> negated
         | "(" expression ")"
         | "(" ")"                               -> everything
         | field OPERATOR value                  -> compared
         | field NOT? MATCHES value              -> compared
         | field NOT? CONTAINS value             -> compared
         | field NOT? IN "(" item ("," item)* ")" -> among
         | field IS NOT? MISSING                 -> missing
field: (PATH | QUOTED_PATH) SUFFIX*
     | FUNCTION (PATH | QUOTED_PATH) SUFFIX* ")"  -> function
value: STRING | WORD
?item: STRING | ITEM

_OR.3: /or(?![\w.\/:-])/i
_AND.3: /and(?![\w.\/:-])/i
NOT.3: /not(?![\w.\/:-])/i
MATCHES.3: /matches(?![\w.\/:-])/i
CONTAINS.3: /contains(?![\w.\/:-])/i
IN.3: /in(?![\w.\/:-])/i
IS.3: /is(?![\w.\/:-])/i
MISSING.3: /(missing|null|none)(?![\w.\/:-])/i
OPERATOR.3: />=|<=|!=|<>|==|=~|!~|=|<|>/
FUNCTION.3: /(last|min|max|mean|average|avg|count)\s*\(/i
SUFFIX: /:\s*[A-Za-z_]+/
QUOTED_PATH: /`[^`]+`/
PATH: /[^\W\d][\w.\/-]*|\d[\w.\/-]*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
WORD: /[^\s()"'`=<>!~]+/
ITEM: /[^\s()"'`=<>!~,]+/

%ignore /\s+/
"""

_TOKEN_NAMES: Final = {
    "OPERATOR": "an operator such as = or <",
    "CONTAINS": "CONTAINS",
    "MATCHES": "MATCHES",
    "IN": "IN",
    "IS": "IS MISSING",
    "PATH": "a path",
    "QUOTED_PATH": "a path",
    "FUNCTION": "a path",
    "STRING": "a value",
    "WORD": "a value",
    "ITEM": "a value",
    "COMMA": "','",
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


def parse(text: str) -> Expression:
    """Parse a query; an empty query matches every run.

    Raises `QueryError` with the position if the query has a syntax error or compares values that
    can never be compared.
    """
    if not isinstance(text, str):
        raise argument_error(
            text,
            "query",
            "a string, such as 'parameters/lr = 0.5 AND tags/workers = 8'",
            QueryError,
        )
    return _parse_text(escape(text))  # stored texts are escaped, too


@functools.lru_cache(maxsize=64)
def _parse_text(text: str) -> Expression:
    from lark import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    return _Builder(text).expression(tree.children[0]) if tree.children else And(())


def parse_field(text: str, what: str = "column") -> Field:
    """Parse a column such as ``val/loss:min`` into path, aggregate and type.

    Any other word after the last colon belongs to the path. Raises `QueryError` for an empty text.
    """
    if not isinstance(text, str) or not text.strip("`"):
        raise argument_error(text, what, "a path such as 'val/loss' or 'val/loss:min'", QueryError)
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


def _error_at(text: str, position: int, message: str, hint: str = "") -> QueryError:
    return positioned_error("query", text, position, message, hint, named=True)


def _syntax_error(text: str, error: Any) -> QueryError:
    from lark import UnexpectedCharacters

    token = getattr(error, "token", None)
    ended = token is not None and token.type == "$END"
    position = len(text.rstrip()) if ended else int(error.pos_in_stream)
    wants = ("accepts", "expected", "allowed")
    expected = next((set(found) for name in wants if (found := getattr(error, name, None))), set())
    expectations = sorted(
        {_TOKEN_NAMES[name] for name in expected if name in _TOKEN_NAMES and name != "$END"}
    )
    expectations = next(
        ([one] for one in ("a value", "a path", _TOKEN_NAMES["OPERATOR"]) if one in expectations),
        expectations,
    )
    wanted = (
        ", ".join(expectations[:-1]) + (" or " if len(expectations) > 1 else "") + expectations[-1]
        if expectations
        else "AND, OR or the end"
    )
    if ended:
        return _error_at(text, position, f"expected {wanted}, got the end")
    if (
        isinstance(error, UnexpectedCharacters)
        and text[position] in "\"'`"
        and text.find(text[position], position + 1) < 0
    ):
        return _error_at(text, position, f"expected a closing {text[position]} for the opening one")
    found = str(token) if token is not None else text[position]
    return _error_at(text, position, f"expected {wanted}, got {found!r:.60}")


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0

    def expression(self, tree: Any) -> Expression:
        if self.depth >= _MAX_DEPTH:
            raise QueryError(
                f"query: expected at most {_MAX_DEPTH} nested brackets and NOTs, got more"
            )
        build = getattr(self, f"_{tree.data}")
        children = [one for one in tree.children if getattr(one, "type", "") != "NOT"]
        self.depth += 1
        found: Expression = build(children)
        self.depth -= 1
        return found if len(children) == len(tree.children) else Not(found)

    def _either(self, children: list[Any]) -> Expression:
        terms = tuple(self.expression(child) for child in children)
        return terms[0] if len(terms) == 1 else Or(terms)

    def _both(self, children: list[Any]) -> Expression:
        terms = tuple(self.expression(child) for child in children)
        return terms[0] if len(terms) == 1 else And(terms)

    def _everything(self, children: list[Any]) -> Expression:
        return And(())

    def _negated(self, children: list[Any]) -> Expression:
        return self.expression(children[0])

    def _missing(self, children: list[Any]) -> Expression:
        return Comparison(self._field(children[0]), "missing", (), children[1].start_pos)

    def _among(self, children: list[Any]) -> Expression:
        tree, operator, *items = children
        leaf = Comparison(self._field(tree), "in", (), operator.start_pos)
        values = [self._convert(leaf, self._value(item)) for item in items]
        return Comparison(leaf.field, "in", tuple(values), leaf.at)

    def _compared(self, children: list[Any]) -> Expression:
        tree, operator, right = children
        sign = {"==": "=", "<>": "!=", "=~": "matches", "!~": "not matches"}.get(
            str(operator), str(operator).lower()
        )
        token = right.children[0]
        value = self._value(token)
        if sign in SEARCHES:
            value = Value(value.text, value.text, value.at)
            if sign != "contains":
                self._check_pattern(token, value.text)
        leaf = Comparison(self._field(tree), sign, (), operator.start_pos)
        return Comparison(leaf.field, sign, (self._convert(leaf, value),), leaf.at)

    def _check_pattern(self, token: Any, pattern: str) -> None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise _error_at(
                self.text,
                token.start_pos,
                f"expected a valid regular expression, got {pattern!r:.60}: {error.msg}",
            ) from None

    def _convert(self, leaf: Comparison, value: Value) -> Value:
        field = leaf.field
        types = system_types(field.path) or implied_types(field)
        searches = leaf.operator in SEARCHES
        if types is not None and not searches:
            value = _convert_to(value, types)
        fit = matching_types(leaf, value)
        if fit is not None and not fit.intersection(types or fit):
            raise _error_at(self.text, *fault(leaf, value, types or {"bool"}))
        if field.path != "sys/state" or searches:
            return value
        if found := state_fault(leaf, value):
            raise _error_at(self.text, *found)
        return Value(value.text.lower(), value.text.lower(), value.at)

    def _field(self, tree: Any) -> Field:
        children, aggregate, kind = list(tree.children), None, None
        if tree.data == "function":
            name = str(children.pop(0))[:-1].strip().lower()
            aggregate = _OTHER_AGGREGATES.get(name, name)
        token, *suffixes = children
        for suffix in suffixes:
            word = str(suffix)[1:].strip().lower()
            word = _OTHER_AGGREGATES.get(word, word)
            if word in AGGREGATES:
                aggregate = word
            elif word.replace("_", "") in _TYPES:
                kind = _TYPES[word.replace("_", "")]
            else:
                raise _error_at(self.text, *suffix_fault(word, suffix.start_pos))
        return Field(str(token).strip("`"), aggregate, kind, token.start_pos)

    def _value(self, token: Any) -> Value:
        text, at = str(token), token.start_pos
        if token.type == "STRING":
            plain = re.sub(r"\\([\"'\\])", r"\1", text[1:-1])
            return Value(plain, plain, at)
        number = _number(text)
        if number is not None:
            return Value(number, text, at)
        if text.lower() in ("true", "false"):
            return Value(text.lower() == "true", text, at)
        return Value(text, text, at)


def _convert_to(value: Value, types: Collection[str]) -> Value:
    if _TEXT_TYPES.issuperset(types):
        return Value(value.text, value.text, value.at)
    if not isinstance(value.value, str):
        return value
    number = _number(value.text) if NUMERIC.issuperset(types) else None
    if number is not None:
        return Value(number, value.text, value.at)
    if set(types) == {"bool"} and value.text.lower() in ("true", "false"):
        return Value(value.text.lower() == "true", value.text, value.at)
    return value


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text) and len(text) < 4000:  # noqa: PLR2004 - Python converts no more digits than 4,300
        return int(text)
    if _NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text)
    return None
