"""Masking of literals in code that are the values of secret names.

Strings and comments are found by a regular expression. The code between two strings is parsed only
near a secret name: a string after a name and a sign is the value of that name. The time is
proportional to the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from seamark.capture.secrets.names import (
    Level,
    UserRules,
    is_empty,
    is_plain_fact,
    may_name,
    should_mask,
)
from seamark.capture.secrets.shapes import MASK, SCHEMES, is_masked, mask_lines

Change: TypeAlias = tuple[int, int, str]
"""Start and end of a range of a text, and its replacement."""


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return a text with changes applied; the first of two overlapping changes counts."""
    parts: list[str] = []
    done = 0
    for start, end, new in sorted(changes):
        if end > done:
            parts += [text[done:start], new if start >= done else ""]
            done = end
    return "".join(parts) + text[done:] if parts else text


_SCRIPT_COMMENT: Final = r"\#[^\n]*|(?m:^)[ \t]*(?:%%?[a-z_]\w*[ \t]|!\w)[^\n]*"
_C_COMMENT: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*"


def _compile_literals(comment: str, quotes: str) -> re.Pattern[str]:
    prefix = r"(?P<prefix>(?<!\w)[rbfutRBFUT]{1,2})?"
    return re.compile(rf"\\.|(?P<note>{comment})|{prefix}(?P<quote>{quotes})", re.DOTALL)


_SCRIPT_LITERALS: Final = _compile_literals(_SCRIPT_COMMENT, r"\"{3}|'{3}|[\"']")
_C_LITERALS: Final = _compile_literals(_C_COMMENT, "[\"'`]")
_C_SUFFIX: Final = re.compile(r"\.(?:c|cc|cpp|cuh?|go|h|hpp|java|rs|[mc]?[jt]sx?)\Z")
_BODY: Final = {
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*', re.DOTALL),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*", re.DOTALL),
    '"': re.compile(r'[^"\\\n]*(?:\\.[^"\\\n]*)*', re.DOTALL),
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.DOTALL),
    "`": re.compile(r"[^`\\]*(?:\\.[^`\\]*)*", re.DOTALL),
}
_CODE_TOKEN: Final = re.compile(
    r"(?P<define>\#[ \t]*define[ \t]+[A-Za-z_]\w*)[ \t]|(?P<name>[A-Za-z_$][\w$.]*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<line>(?<!\\)(?<!\\\r)\n)"
    r"|(?P<comma>[,;])|(?P<sign>\?:|:=|=>|[=!]={1,2}|=|:)|(?P<other>\|\||\?\??)"
)
_KEY_SIGN: Final = re.compile(r"\s{0,8}(?::(?![=:])|=>|=(?!=))")
_NAME_ALONE: Final = re.compile(r"(?P<dash>--?)?(?P<name>[A-Za-z_][\w.-]{0,120})=?")
_TRANSPARENT_CALLS: Final = frozenset(
    re.split(
        " ",
        "str bytes bytearray Secret SecretStr SecretBytes b64decode unquote from String Some Field "
        "field Option Argument array encode StringVar dict set list tuple frozenset",
    )
)
_DEFAULT_ARGUMENTS: Final = frozenset({"const", "default", "value"})
_SKIPPED_WORDS: Final = frozenset({"await", "define", "new", "return"})
_SCHEME: Final = re.compile(rf"((?:{SCHEMES})\s{{1,4}})\S.*", re.IGNORECASE)
_ONLY_PLACEHOLDERS: Final = re.compile(
    r"(?:[A-Za-z]{1,8} )?\W*(?:\{[^{}]*\}|%[sdr]|%\(\w+\)[sdr])\W*"
)
_MIXED_TEXT: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.+/=-]{8,4096}")
_MAX_CALL_CHARS: Final = 80
_GETTER_BEFORE: Final = re.compile(
    r"\b(?:get|getenv|setenv|putenv|setdefault|setattr|pop)\(\s*(?:[\w.]+\s*,\s*)?\Z"
)
_TRIPLE: Final = re.compile(r"\"{3}|'{3}")
_OPENING: Final = re.compile(r"(?:[=(\[{,:+%]|\breturn|\byield|\bin|(?:^|\W)[rbfuRBFU]{1,2})\Z")


class Code:
    """Parser that masks secrets in the literals and comments of code.

    Args:
        text: The code.
        rules: Additional rules of the user.
        inner: Function that masks the text of a literal or comment; its arguments are the text and
            the prefix of the literal (``#`` for a comment).
        name: Name of the file, which determines the language.
    """

    def __init__(
        self, text: str, rules: UserRules, inner: Callable[[str, str], str], name: str = ""
    ) -> None:
        self._text, self._rules, self._inner = text, rules, inner
        self._pattern = _C_LITERALS if _C_SUFFIX.search(name.lower()) else _SCRIPT_LITERALS
        self._readers = {
            "define": self._read_define,
            "name": self._read_name,
            "open": self._read_open,
            "close": self._read_close,
            "comma": self._read_comma,
            "sign": self._read_sign,
            "other": self._read_other,
            "line": self._read_line,
        }
        self._end_statement()

    def _end_statement(self) -> None:
        self._name = self._sign = self._holder_name = ""
        self._level = self._default = self._holder = Level.NO
        self._holder_depth = 0
        self._expects_value = self._expected_value = self._is_called = self._is_getter = (
            self._is_open
        ) = False
        self._is_keyed = False
        self._depth = 0

    def changes(self, opened: str = "") -> Iterator[Change]:
        """Yield the changes that mask secrets.

        Args:
            opened: Quotes of the literal in which the text begins.
        """
        text, at = self._text, 0
        if opened:
            at = _literal_end(text, 0, opened)
            yield 0, at, self._inner(text[:at], "")
            at += len(opened)
        done = at
        while found := self._pattern.search(text, at):
            at, quote = found.end(), found["quote"]
            if found["note"]:
                self._read(text[done : found.start()])
                yield *found.span(), self._inner(found[0], "#")
                done = at
            elif quote:
                end = _literal_end(text, at, quote)
                if len(quote) == 1 and not text.startswith(quote, end):
                    continue  # an apostrophe
                self._read(text[done : found.start()])
                yield at, end, self._mask_literal(found, end)
                done = at = end + len(quote)

    # ---------------------------------------------------------------- between literals

    def _read(self, code: str) -> None:
        """Parse the code between two literals."""
        is_idle = not (self._level or self._default or self._rules.level(self._name))
        if is_idle and not (self._rules.names or may_name(code)):
            self._end_statement()
            return
        for found in _CODE_TOKEN.finditer(code):
            kind = found.lastgroup or ""
            self._readers[kind](found[0])
            if kind not in ("line", "other"):
                self._is_open = kind == "sign" and (found[0] != ":" or self._is_keyed)
                self._is_keyed = False

    def _read_line(self, _: str) -> None:
        if self._depth == 0 and not self._is_open:
            self._end_statement()

    def _read_other(self, mark: str) -> None:
        self._expects_value = self._is_open = self._level > Level.NO
        if mark == "?" and self._expects_value:
            self._sign = mark

    def _read_define(self, line: str) -> None:
        self._name = line.rsplit(maxsplit=1)[-1]
        self._read_sign("=")

    def _read_name(self, word: str) -> None:
        if word in ("or", "else"):
            self._expects_value = self._level > Level.NO
        elif word not in _SKIPPED_WORDS:
            self._expected_value, self._expects_value = self._expects_value, False
            self._name, self._is_called = word, True

    def _read_open(self, bracket: str) -> None:
        self._depth += 1
        call = self._name.rpartition(".")[2] if self._is_called else ""
        if self._is_called:
            self._default = (
                self._level if self._expected_value and bracket == "(" else self._default
            )
            self._expects_value = (
                self._expected_value and bracket == "(" and call in _TRANSPARENT_CALLS
            )
        if self._expects_value and not self._holder and self._rules.holds(self._holder_name):
            self._holder, self._holder_depth = self._level, self._depth
        self._is_called = False
        self._sign = self._sign if bracket == "[" else ""

    def _read_close(self, _: str) -> None:
        self._depth = max(0, self._depth - 1)
        self._holder = self._holder if self._depth >= self._holder_depth else Level.NO
        self._expects_value = self._is_called = False

    def _read_comma(self, mark: str) -> None:
        if mark == ";":
            self._end_statement()
        elif self._is_getter and self._name:
            self._level = max(self._rules.level(self._name), self._default)
        else:
            self._level = self._holder
        self._expects_value, self._is_getter, self._sign = self._level > Level.NO, False, ""

    def _read_sign(self, sign: str) -> None:
        if self._sign == "?" and sign == ":":  # second value of a conditional expression
            self._expects_value, self._sign = True, ""
            return
        level = self._rules.level(self._name) if self._name else Level.NO
        if self._name in _DEFAULT_ARGUMENTS:
            level = max(level, self._default)
        if self._holder and not is_plain_fact(self._name):
            level = max(level, self._holder)
        if self._sign in (":", "?:") and sign == "=":  # an annotation
            level = max(level, self._level)
        else:
            self._holder_name = self._name
        self._level, self._expects_value, self._sign = level, level > Level.NO, sign
        self._name, self._is_called = "", False

    # ---------------------------------------------------------------- literals

    def _mask_literal(self, found: re.Match[str], end: int) -> str:
        """Return the text of a literal with secrets masked."""
        text, begin, quote = self._text, found.end(), found["quote"]
        body = text[begin:end]
        is_key = not self._sign and _KEY_SIGN.match(text, end + len(quote)) is not None
        level = Level.NO if is_key or not self._expects_value else self._level
        if self._is_secret(level, body):
            scheme = _SCHEME.fullmatch(body)
            return f"{scheme[1]}{MASK}" if scheme else mask_lines(body)
        self._expects_value, self._is_keyed = level > Level.NO and not body, is_key
        named = _NAME_ALONE.fullmatch(body)
        self._name, self._is_called = named["name"] if named else "", False
        if named and named["dash"]:
            self._default, self._depth = self._rules.level(self._name), max(1, self._depth)
        elif named and self._rules.level(self._name):
            before = text[max(0, found.start() - _MAX_CALL_CHARS) : found.start()]
            self._is_getter = _GETTER_BEFORE.search(before) is not None
            self._depth = max(self._depth, int(self._is_getter))
        hidden = self._inner(body, (found["prefix"] or "").lower())
        is_same = hidden == body or _literal_end(hidden, 0, quote) == len(hidden)
        return hidden if is_same else mask_lines(body)

    def _is_secret(self, level: Level, body: str) -> bool:
        if level is Level.NO or not body or is_empty(body) or is_masked(body):
            return False
        is_mixed = self._holder and _MIXED_TEXT.fullmatch(body)
        is_secret = should_mask(level, body, text=True) or bool(is_mixed)
        return is_secret and not _ONLY_PLACEHOLDERS.fullmatch(body)


def _literal_end(text: str, begin: int, quote: str) -> int:
    """Return the end of the text between quotes."""
    found = _BODY[quote].match(text, begin)
    return found.end() if found else begin


def closing_quotes(text: str) -> str:
    """Return the closing quotes of the literal in which a text seems to begin, or nothing."""
    found = _TRIPLE.search(text)
    if found is None:
        return ""
    line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
    after = text[found.end() : found.end() + 80].partition("\n")[0].strip()
    closes = not _OPENING.search(line) if line else not after or after[0] in ")],.}%"
    return found[0] if closes else ""
