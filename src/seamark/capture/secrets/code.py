"""Literals in code that belong to secret names.

`Code` reads the whole of a text, not line by line: strings, comments, names, brackets, operators.
A literal belongs to the nearest assignment, keyword, key or call around it. The time is
proportional to the length of the text, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from seamark.capture.secrets.names import (
    Level,
    hides,
    is_empty,
    is_harmless,
    is_plain_fact,
)
from seamark.capture.secrets.shapes import MASK, SCHEMES, hidden_lines, is_hidden

__all__ = ["Change", "Code", "quotes_within", "replaced"]

Change: TypeAlias = tuple[int, int, str]
"""The start and the end of something in a text, and its replacement."""


def replaced(text: str, changes: Iterable[Change]) -> str:
    """Return a text with changes; of two that overlap the first counts."""
    parts: list[str] = []
    done = 0
    for start, end, new in sorted(changes):
        if end > done:
            parts += [text[done:start], new if start >= done else ""]
            done = end
    return "".join(parts) + text[done:] if parts else text


_ENCLOSED: Final = 2

_NOTE_OF_SCRIPT: Final = r"\#[^\n]*|(?m:^)[ \t]*(?:%%?[a-z_]\w*[ \t]|!\w)[^\n]*"
_NOTE_OF_C: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*"
_CHARACTER: Final = r"'(?:\\.|[^'\\\n])'|"
"""A character between apostrophes, which may be a quote."""


_REST: Final = (
    r"|(?P<name>(?:define[ \t]{1,8})?[\w$][\w.$]*)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<line>\n)"
    r"|(?P<comma>[,;])|(?P<sign>\?:|:=|=>|<-|[=!]={1,2}|=|:)|(?P<other>\|\||\?\?|[?+])"
)


def _tokens(note: str, quotes: str, character: str = "") -> re.Pattern[str]:
    return re.compile(
        rf"\\.|{character}(?P<note>{note})"
        rf"|(?P<prefix>(?<!\w)[rbfutRBFUT]{{1,2}})?(?P<quote>{quotes})"
        rf"{_REST}",
        re.DOTALL,
    )


_PYTHON: Final = _tokens(_NOTE_OF_SCRIPT, r"\"{3}|'{3}|[\"']")
_LANGUAGES: Final = (
    (("py", "pyi", "pyx", "pyw", "ipynb", ""), _PYTHON),
    (("js", "ts", "jsx", "tsx", "mjs", "cjs"), _tokens(_NOTE_OF_C, "[\"'`]")),
    (("jl",), _tokens(r"\#[^\n]*", r"\"{3}|\"", _CHARACTER)),
    (
        ("c", "cc", "cpp", "cu", "cuh", "go", "h", "hpp", "java", "rs"),
        _tokens(_NOTE_OF_C, r"\"{3}|[\"`]", _CHARACTER),
    ),
)
_FLOW: Final = re.compile(
    r"(?P<quote>\\?[\"'])|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<sign>=>?|:(?=\s))"
    r"|(?P<bare>(?:[^\s,(){}\[\]\"':=\\]|:(?!\s))(?:[^,(){}\[\]\"'=\\:\n]|:(?!\s)){0,4096})"
)
"""Tokens of lists and mappings in a text, whose values need no quotes."""
_BODY: Final = {
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*', re.DOTALL),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*", re.DOTALL),
    '"': re.compile(r'[^"\\\n]*(?:\\.[^"\\\n]*)*', re.DOTALL),
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.DOTALL),
    "`": re.compile(r"[^`\\]*(?:\\.[^`\\]*)*", re.DOTALL),
    '\\"': re.compile(r'(?:(?!\\?")[^\n]){0,4096}'),
    "\\'": re.compile(r"(?:(?!\\?')[^\n]){0,4096}"),
}
_SHORTEST: Final = 5
_KEYED: Final = re.compile(r"\\?[\"']?\s{0,8}(?::(?![=:])|=>|=(?!=))")
_NAME_ALONE: Final = re.compile(r"[A-Za-z_][\w.-]{0,120}")
_OPTION_ALONE: Final = re.compile(r"--?(?P<name>[A-Za-z][\w-]{0,120})=?")
_CALLS: Final = frozenset(
    [
        "str",
        "bytes",
        "bytearray",
        "Secret",
        "SecretStr",
        "SecretBytes",
        "b64decode",
        "unquote",
        "from",
        "String",
        "Some",
        "Field",
        "field",
        "Option",
        "Argument",
        "array",
        "encode",
        "StringVar",
    ]
)
_COLLECTIONS: Final = frozenset(["dict", "set", "list", "tuple", "frozenset"])
_GETTERS: Final = frozenset(["get", "getenv", "setenv", "putenv", "setdefault", "setattr", "pop"])
_DEFAULTS: Final = frozenset({"const", "default", "value"})
_ELSE: Final = frozenset({"else", "or"})
_PASSED: Final = frozenset({"await", "new", "return"})
_SCHEME: Final = re.compile(rf"((?:{SCHEMES})\s{{1,4}})\S.*", re.IGNORECASE)
_ONLY_FILLED_IN: Final = re.compile(r"(?:[A-Za-z]{1,8} )?\W*(?:\{[^{}]*\}|%[sdr]|%\(\w+\)[sdr])\W*")
_FOREIGN: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.+/=-]{8,4096}")
_WORD_BACKWARDS: Final = re.compile(r"[\w.$]*(?:[ \t]{1,8}enifed)?")
_WORD_ONWARDS: Final = re.compile(r"[\w.$]*")
_NO_SIGN: Final = re.compile(r"[ \t]*(?:[)},;({\[\"'\w\n]|\Z)")
"""The text after a name that no value is assigned to."""
_REACH: Final = 100
"""The number of tokens for which a name counts after its last value."""
_REACH_OF_HOLDER: Final = 2000
"""The same for a name that holds secrets, and for the options of a command."""
_NEAR_LITERAL: Final = 1 << 12
_LONGEST_NAME: Final = 128
_GETTER_BEFORE: Final = re.compile(
    r"\b(?:get|getenv|setenv|putenv|setdefault|setattr|pop)\(\s*(?:[\w.]+\s*,\s*)?\Z"
)
_IN_CALL: Final = re.compile(r"[(,]\s*\Z")
_TRIPLE: Final = re.compile(r"\"{3}|'{3}")
_OPENS: Final = re.compile(r"(?:[=(\[{,:+%]|\breturn|\byield|\bin|(?:^|\W)[rbfuRBFU]{1,2})\Z")


@dataclass(slots=True)
class _Frame:
    """State of the reader between two brackets.

    Attributes:
        level: Of the name that a value belongs to.
        holds: Whether that name holds secrets, as ``tokens`` does.
        is_due: Whether a value of that name comes next.
        name: The last name, which the next sign makes that of a value.
        is_bare: Whether it stands without quotes.
        called: The same, if what comes next may be the arguments of its call.
        was_due: Whether a value was due where the call stands.
        sign: The sign after the name that a value belongs to.
        asks: Whether a question mark waits for its colon.
        holder: Of what these brackets are the value of.
        default: Of the option or the variable that a call is about.
        takes_names: Whether the brackets are those of a call such as ``getenv("NAME", "X")``.
    """

    level: Level = Level.NO
    holds: bool = False
    is_due: bool = False
    name: str = ""
    called: str = ""
    is_bare: bool = False
    was_due: bool = False
    sign: str = ""
    asks: bool = False
    holder: Level = Level.NO
    default: Level = Level.NO
    takes_names: bool = False

    @property
    def is_known(self) -> bool:
        """Return whether a literal may be hidden."""
        return bool(self.level or self.holder or self.default or self.takes_names)

    def expect(self, level: Level) -> None:
        """Take what comes next for a value of this level."""
        self.level, self.is_due = level, level > Level.NO
        self.name = self.called = self.sign = ""


class Code:
    """Finds secrets in literals and comments; nothing else of a code is changed.

    Args:
        text: The code.
        level_of: Returns the level of a name.
        holds: Returns whether all that is in brackets after a name is secret.
        inner: Returns the text of a literal or comment without the secrets in it, given the text
            and the prefix of the literal, ``#`` for a comment.
        name: Of the file, which tells the language.
        places: Where names may stand that have a level; anywhere without.
    """

    def __init__(
        self,
        text: str,
        level_of: Callable[[str], Level],
        holds: Callable[[str], bool],
        inner: Callable[[str, str], str],
        name: str = "",
        places: list[int] | None = None,
    ) -> None:
        self._text, self._level_of, self._inner = text, level_of, inner
        self._holds = holds
        ending = name.lower().rpartition(".")[2] if "." in name else ""
        self._pattern = next((each for ends, each in _LANGUAGES if ending in ends), _PYTHON)
        self._literals = re.compile(self._pattern.pattern.partition(_REST)[0], re.DOTALL)
        self._places = places and places[::-1]
        self._ahead: re.Match[str] | None = None
        self._ahead_at = -1
        self._frames = [_Frame()]
        self._last = ""
        self._is_over = False
        self._left = _REACH
        self._on = {
            "name": self._name,
            "open": self._open,
            "close": self._close,
            "comma": self._comma,
            "sign": self._sign,
            "other": self._else,
            "line": self._line,
        }

    def changes(self, opened: str = "") -> Iterator[Change]:
        """Yield the changes that hide secrets.

        Args:
            opened: The quotes of a literal in the middle of which the text begins.
        """
        text, at = self._text, 0
        if opened:
            at = _end(text, 0, opened)
            yield 0, at, self._inner(text[:at], "")
            at += len(opened)
        while found := self._next(at):
            at, kind = found.end(), found.lastgroup or ""
            if kind == "note":
                yield *found.span(), self._inner(found[0], "#")
            elif kind == "quote":
                quote, begin = found["quote"], at
                end = _end(text, at, quote)
                if len(quote) == 1 and not text.startswith(quote, end):
                    continue  # an apostrophe
                at = end + len(quote)
                self._enter(begin, end, found.start())
                yield begin, end, self._literal(begin, end, quote, (found["prefix"] or "").lower())
            elif kind:
                self._begin(kind)
                self._on[kind](found[0])

    def _next(self, at: int) -> re.Match[str] | None:
        """Return the next token; where no name is known, the next that may name something."""
        text, frame = self._text, self._frames[0]
        if self._places is None:
            return self._pattern.search(text, at)
        if len(self._frames) > 1 or frame.level or self._level_of(frame.name):
            self._left -= 1
            if self._left >= 0:
                return self._pattern.search(text, at)
            self._frames = [_Frame()]
        if self._ahead_at < at:  # else it was found before
            self._ahead = self._literals.search(text, at)
            self._ahead_at = self._ahead.start() if self._ahead else len(text)
        found, places = self._ahead, self._places
        self._left = _REACH
        nearest = max(at, self._ahead_at - _NEAR_LITERAL)
        while found and places and places[-1] < found.start():
            place = places.pop()
            if place >= nearest:
                before = text[max(at, place - _LONGEST_NAME) : place][::-1]
                begin = place - _WORD_BACKWARDS.match(before).end()  # type: ignore[union-attr]
                nearest = _WORD_ONWARDS.match(text, place).end()  # type: ignore[union-attr]
                word = text[begin:nearest]
                takes_value = (
                    word.startswith("define")
                    or word.rpartition(".")[2] in _GETTERS
                    or not _NO_SIGN.match(text, nearest)
                )
                if takes_value and self._level_of(word):
                    return self._pattern.search(text, begin)
        return found

    def _enter(self, begin: int, end: int, start: int) -> None:
        """Take what stands before a literal for the call that it is an argument of."""
        body = self._text[begin:end]
        is_option = _OPTION_ALONE.fullmatch(body) is not None
        if len(self._frames) == 1 and (is_option or _NAME_ALONE.fullmatch(body)):
            before = self._text[max(0, start - 80) : start]
            if (_IN_CALL if is_option else _GETTER_BEFORE).search(before):
                self._frames.append(_Frame(takes_names=not is_option))

    def held(self, at: int, stop: int, level: Level, *, holds: bool) -> Iterator[Change] | None:
        """Return the changes in the brackets that open there; None if they do not close.

        Args:
            at: Where they open.
            stop: Where they have to be closed at the latest.
            level: Of the name that they belong to.
            holds: Whether it holds secrets.
        """
        self._frames = [_Frame(), _Frame(level=level, is_due=True, holds=holds)]
        changes: list[Change] = []
        while found := _FLOW.search(self._text, at, stop):
            begin, at, kind = found.start(), found.end(), found.lastgroup or ""
            if kind == "bare":
                end = begin + len(found[0].rstrip())
                changes.append((begin, end, self._literal(begin, end, "", "")))
            elif kind == "quote":
                end = _end(self._text, at, found[0])
                changes.append((at, end, self._literal(at, end, found[0], "")))
                at = end + len(found[0])
            else:
                self._on[kind](found[0])
            if len(self._frames) == _ENCLOSED:
                return iter(changes)
        return None

    # ---------------------------------------------------------------- tokens

    def _begin(self, kind: str) -> None:
        """Forget the statement before if another one begins."""
        if self._is_over and kind not in ("line", "other"):
            self._frames[0] = _Frame()
        self._is_over = kind == "line" and (self._is_over or self._ends_line())
        if kind != "line":
            self._last = kind

    def _renew(self, frame: _Frame) -> None:
        """Let a name count for some further tokens."""
        if frame.level:
            self._left = max(self._left, _REACH_OF_HOLDER if frame.holder else _REACH)

    def _ends_line(self) -> bool:
        is_block = self._pattern is _PYTHON and self._frames[0].sign == ":"
        is_awaited = self._last == "other" or (self._last == "sign" and not is_block)
        return len(self._frames) == 1 and not is_awaited

    def _line(self, _: str) -> None:
        """Go on: `_begin` has seen it."""

    def _name(self, word: str) -> None:
        frame = self._frames[-1]
        if word in _ELSE:
            self._else(word)
        elif word.startswith("define "):
            frame.expect(self._level_of(word.split()[1]))
        elif word not in _PASSED:
            frame.was_due, frame.is_due = frame.is_due, False
            frame.name = frame.called = word
            frame.is_bare = True

    def _else(self, mark: str) -> None:
        """Expect another value of the same name: ``or "X"``, ``if a else "X"``, ``?? "X"``."""
        frame = self._frames[-1]
        if mark != "+":
            frame.is_due, frame.asks = frame.level > Level.NO, mark == "?"
            self._last = "other"

    def _open(self, bracket: str) -> None:
        frame, inner = self._frames[-1], _Frame()
        call = frame.called.rpartition(".")[2]
        is_value = frame.was_due if call else frame.is_due
        if not call or (bracket == "(" and call in _COLLECTIONS):
            if is_value:
                inner.expect(frame.level)
                inner.holder = frame.level if frame.holds else Level.NO
                self._renew(inner)
        elif bracket == "(":
            inner.takes_names = call in _GETTERS
            if is_value and call in _CALLS:
                inner.expect(frame.level)
            inner.default = frame.level if is_value else Level.NO
        frame.called = ""
        if bracket == "{" and not is_value:  # a block
            frame.level = Level.NO
        self._frames.append(inner)
        if not any(each.is_known for each in self._frames):
            self._frames = [inner]

    def _close(self, bracket: str) -> None:
        inner = self._frames.pop()
        if not self._frames:
            self._frames.append(_Frame())
        frame = self._frames[-1]
        frame.is_due, frame.called = False, ""
        frame.name, frame.is_bare = inner.name if bracket == "]" else "", inner.is_bare

    def _comma(self, mark: str) -> None:
        frame = self._frames[-1]
        if mark == ";":
            self._frames[-1] = _Frame()
        elif frame.takes_names and frame.name and not frame.called:
            frame.expect(max(self._level_of(frame.name), frame.default))
        else:
            frame.expect(frame.holder)
        self._renew(frame)

    def _sign(self, sign: str) -> None:
        frame = self._frames[-1]
        if sign == ":" and frame.asks:
            self._else(":")
            return
        level = self._level_of(frame.name) if frame.name and len(sign) <= len("==") else Level.NO
        if sign == "=" and frame.sign in (":", "?:"):  # an annotation
            level = max(level, frame.level)
        if frame.name in _DEFAULTS:
            level = max(level, frame.default)
        is_held = frame.holder > Level.NO and not is_plain_fact(frame.name)
        level = max(level, frame.holder if is_held else Level.NO)
        frame.holds = is_held or (level > Level.NO and self._holds(frame.name))
        sign = sign if frame.is_bare else f'"{sign}'
        frame.expect(level)
        frame.sign = sign
        self._renew(frame)

    # ---------------------------------------------------------------- literals

    def _literal(self, begin: int, end: int, quote: str, prefix: str) -> str:
        """Return the text of a literal without secrets."""
        self._begin("quote")
        frame, body = self._frames[-1], self._text[begin:end]
        is_key = not frame.sign and _KEYED.match(self._text, end + len(quote)) is not None
        level = frame.level if frame.is_due and not is_key else Level.NO
        if option := _OPTION_ALONE.fullmatch(body):
            frame.default = self._level_of(option["name"])
            self._left = max(self._left, _REACH_OF_HOLDER if frame.default else 0)
        if self._hides(frame, level, body, quote):
            scheme = _SCHEME.fullmatch(body)
            return f"{scheme[1]}{MASK}" if scheme else hidden_lines(body)
        frame.is_due = level > Level.NO and not body
        frame.name, frame.called = body if _NAME_ALONE.fullmatch(body) else "", ""
        frame.is_bare = False
        hidden = self._inner(body, prefix) if len(body) >= _SHORTEST else body
        is_same = hidden == body or not quote or _end(hidden, 0, quote) == len(hidden)
        return hidden if is_same else hidden_lines(body)

    def _hides(self, frame: _Frame, level: Level, body: str, quote: str) -> bool:
        if level is Level.NO or not body or is_empty(body) or is_hidden(body):
            return False
        if not quote and (is_harmless(body) or body[0] in "$*"):
            return False
        is_hidden_here = hides(level, body, text=True)
        if frame.holder and not is_hidden_here:
            is_hidden_here = _FOREIGN.fullmatch(body) is not None
        return is_hidden_here and not _ONLY_FILLED_IN.fullmatch(body)


def _end(text: str, begin: int, quote: str) -> int:
    """Return the end of the text between quotes."""
    found = _BODY[quote].match(text, begin)
    return found.end() if found else begin


def quotes_within(text: str) -> str:
    """Return the quotes that close a literal in the middle of which a text seems to begin."""
    found = _TRIPLE.search(text)
    if found is None:
        return ""
    line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
    after = text[found.end() : found.end() + 80].partition("\n")[0].strip()
    closes = not _OPENS.search(line) if line else not after or after[0] in ")],.}%"
    return found[0] if closes else ""
