"""Masking of literals in code that are the values of secret names.

Strings and comments are found by a regular expression. The code between two strings is parsed only
near a secret name: a string after a name and a sign is the value of that name. The time is
proportional to the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from seamark.capture.secrets.names import (
    Level,
    UserRules,
    is_empty,
    is_plain_fact,
    may_name,
    should_mask,
)
from seamark.capture.secrets.shapes import (
    KEY_BEGINS,
    MASK,
    SCHEMES,
    is_masked,
    mask_commands,
    mask_credentials,
    mask_lines,
    mask_shapes,
)
from seamark.capture.secrets.text import Change, mask_named

__all__ = ["Code", "closing_quotes"]

_SCRIPT_COMMENT: Final = r"\#[^\n]*|(?m:^)[ \t]*(?:%%?[a-z_]\w*[ \t]|!\w)[^\n]*"
_C_COMMENT: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*"


def _compile_literals(comment: str, quotes: str) -> re.Pattern[str]:
    prefix = r"(?P<prefix>(?<!\w)[rbfutRBFUT]{1,2})?"
    note = rf"{comment}|(?:{KEY_BEGINS})[^\"'`]*"
    return re.compile(rf"\\.|(?P<note>{note})|{prefix}(?P<quote>{quotes})", re.DOTALL)


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
    r"\#[ \t]*define[ \t]+(?P<define>[A-Za-z_]\w*)[ \t]|(?:await|new|return)\b"
    r"|(?P<other>\|\||\?\??(?!:)|(?:or|else)\b)|(?P<name>[A-Za-z_$][\w$.]*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<line>(?<![\\=|? \t\r])[ \t\r]*\n)|(?P<end>;)"
    r"|(?P<comma>,)|(?P<sign>\?:|:=|=>|[=!]={1,2}|=|:)"
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
# Placeholders and escaped line ends within a literal.
_FORMAT_FIELD: Final = re.compile(
    r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]{0,200}\}){0,1000}\}|[{}]|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]"
    r"|(?<!\\)\\[nr])"
)
_PLAIN_FIELD: Final = re.compile(
    r"(\{[\w.\[\]]{0,80}(?:![rsa])?(?::[^{}\"'\s]{0,20})?\}|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]\b"
    r"|(?<!\\)\\[nr])"
)


class Code:
    """Parser that masks secrets in the literals and comments of code.

    Args:
        text: The code.
        rules: Additional rules of the user.
        name: Name of the file, which determines the language.
    """

    def __init__(self, text: str, rules: UserRules, name: str = "") -> None:
        self._text, self._rules = text, rules
        self._pattern = _C_LITERALS if _C_SUFFIX.search(name.lower()) else _SCRIPT_LITERALS
        self._end_statement()

    def _end_statement(self) -> None:
        # The last name, the name directly before, which may be that of a function, and the last
        # sign after a name.
        self._name = self._called = self._sign = ""
        # Levels of the current entry, of the next argument, of an argument such as `default`, and
        # of all entries of the brackets at `_holder_depth`.
        self._level = self._next_level = self._default = self._holder = Level.NO
        self._expects_value = self._holds = False
        self._depth = self._holder_depth = 0

    def changes(self) -> Iterator[Change]:
        """Yield the changes that mask secrets."""
        text = self._text
        at = done = 0
        while found := self._pattern.search(text, at):
            at, quote = found.end(), found["quote"]
            if found["note"]:
                self._read(text[done : found.start()])
                yield *found.span(), _mask_inside(found[0], "#", self._rules)
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
            if kind := found.lastgroup:
                self._read_token(kind, found[kind])

    def _read_token(self, kind: str, token: str) -> None:
        match kind:
            case "define":
                self._name = token
                self._read_sign("=")
            case "name":
                self._name = self._called = token
            case "sign":
                self._read_sign(token)
            case "other":
                self._expects_value = self._level > Level.NO
                self._called = ""
            case "open":
                self._read_open(token)
            case "close":
                self._depth = max(0, self._depth - 1)
                self._holder = self._holder if self._depth >= self._holder_depth else Level.NO
                self._expects_value = False
                self._called = ""
            case "comma":
                self._level = max(self._holder, self._next_level)
                self._expects_value = self._level > Level.NO
                self._next_level = Level.NO
                self._called = self._sign = ""
            case "line" if self._depth:
                pass
            case _:
                self._end_statement()

    def _read_open(self, bracket: str) -> None:
        self._depth += 1
        if self._called and self._expects_value:
            self._default = self._level if bracket == "(" else self._default
            function = self._called.rpartition(".")[2]
            self._expects_value = bracket == "(" and function in _TRANSPARENT_CALLS
        if self._expects_value and self._holds and not self._holder:
            self._holder, self._holder_depth = self._level, self._depth
        self._called = ""
        self._sign = self._sign if bracket == "[" else ""

    def _read_sign(self, sign: str) -> None:
        if sign == ":" and not self._name:  # second value of a conditional expression
            self._expects_value = self._level > Level.NO
            return
        level = self._rules.level(self._name)
        if self._name in _DEFAULT_ARGUMENTS:
            level = max(level, self._default)
        if self._holder and not is_plain_fact(self._name):
            level = max(level, self._holder)
        if self._sign in (":", "?:") and sign == "=":  # an annotation
            level = max(level, self._level)
        else:
            self._holds = self._rules.holds(self._name)
        self._level, self._expects_value, self._sign = level, level > Level.NO, sign
        self._name = self._called = ""

    # ---------------------------------------------------------------- literals

    def _mask_literal(self, found: re.Match[str], end: int) -> str:
        """Return the text of a literal with secrets masked."""
        text, begin, quote = self._text, found.end(), found["quote"]
        body = text[begin:end]
        is_key = not self._sign and _KEY_SIGN.match(text, end + len(quote)) is not None
        is_value = self._expects_value and not self._called and not is_key
        self._name = self._called = ""
        if is_value and self._is_secret(body):
            scheme = _SCHEME.fullmatch(body)
            return f"{scheme[1]}{MASK}" if scheme else mask_lines(body)
        self._expects_value = is_value and not body
        named = _NAME_ALONE.fullmatch(body)
        self._name = named["name"] if named else ""
        if named and (level := self._rules.level(self._name)):
            self._depth = max(1, self._depth)  # its brackets may have been left out
            if named["dash"]:
                self._default = level
            elif _GETTER_BEFORE.search(text, max(0, begin - _MAX_CALL_CHARS), found.start()):
                self._next_level = level
        hidden = _mask_inside(body, (found["prefix"] or "").lower(), self._rules)
        is_same = hidden == body or _literal_end(hidden, 0, quote) == len(hidden)
        return hidden if is_same else mask_lines(body)

    def _is_secret(self, body: str) -> bool:
        if is_empty(body) or is_masked(body) or _ONLY_PLACEHOLDERS.fullmatch(body):
            return False
        is_mixed = self._holder and _MIXED_TEXT.fullmatch(body)
        return body != "" and (should_mask(self._level, body, text=True) or bool(is_mixed))


def _mask_inside(text: str, prefix: str, rules: UserRules) -> str:
    """Return the text of a literal or comment with secrets masked; ``#`` marks a comment."""
    is_prose = prefix == "#" or "\n" in text
    fields = _FORMAT_FIELD if "f" in prefix else _PLAIN_FIELD
    parts = [text] if prefix == "#" else fields.split(text)
    for at in range(0, len(parts), 2):
        part = mask_credentials(mask_shapes(mask_commands(parts[at]), by_line=True))
        parts[at] = mask_named(part, rules, is_prose=is_prose)
    return "".join(parts)


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
