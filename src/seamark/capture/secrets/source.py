"""Source code without secrets: literals and comments are changed, and nothing else.

Code that is kept is to be run again. So it is read as what it is made of: a walk over the text
finds where each literal and each comment begins and ends, and what is hidden lies within one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from seamark.capture.secrets.configuration import Configuration, is_sentence, mask_commands
from seamark.capture.secrets.masking import (
    KEY_BEGINS,
    KEY_ENDS,
    MASK,
    MORE_NONE,
    SCHEMES,
    More,
    hides,
    is_hidden,
    mask_known,
    mask_tokens,
    mask_value,
)
from seamark.capture.secrets.names import (
    Level,
    holds_secrets,
    is_empty,
    is_plain_fact,
    is_random,
    may_name,
)

__all__ = ["Source", "mask_code"]

_PREFIX: Final = r"(?P<prefix>(?<!\w)[rbfutRBFUT]{1,2})?"
_TRIPLE: Final = r"\"{3}|'{3}"
# A command in a notebook is a text like a comment.
_MAGIC: Final = r"(?m:^)[ \t]*(?:%%?[a-z_]\w*[ \t]|!\w)[^\n]*"
_PYTHON: Final = re.compile(
    rf"\\.|(?P<note>\#[^\n]*|{_MAGIC})|{_PREFIX}(?P<quote>{_TRIPLE}|[\"'])", re.DOTALL
)
_SLASHES: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*"
_SCRIPT: Final = re.compile(
    rf"\\.|(?P<note>{_SLASHES})|(?P<prefix>(?!))?(?P<quote>[\"'`])", re.DOTALL
)
# What stands between apostrophes is one character, and may be a quote.
_OTHER: Final = re.compile(
    rf"\\.|'(?:\\.|[^'\\\n])'|(?P<note>{_SLASHES})|{_PREFIX}(?P<quote>\"{{3}}|[\"`])", re.DOTALL
)
_JULIA: Final = re.compile(
    rf"\\.|'(?:\\.|[^'\\\n])'|(?P<note>\#[^\n]*)|{_PREFIX}(?P<quote>\"{{3}}|\")", re.DOTALL
)
_ENDINGS: Final = (
    (("py", "pyi", "pyx", "ipynb", ""), _PYTHON),
    (("js", "ts"), _SCRIPT),
    (("jl",), _JULIA),
)
_BODY: Final = {
    '"""': re.compile(r'(?:[^"\\]+|\\.|"(?!""))*', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]+|\\.|'(?!''))*", re.DOTALL),
    '"': re.compile(r'(?:[^"\\\n]+|\\.)*', re.DOTALL),
    "'": re.compile(r"(?:[^'\\\n]+|\\.)*", re.DOTALL),
    "`": re.compile(r"(?:[^`\\]+|\\.)*", re.DOTALL),
}
_BACK: Final = 240  # characters before a literal in which its name is looked for

_CALLS: Final = (
    r"(?:[\w.]{0,80}(?<![A-Za-z0-9])"
    r"(?:str|bytes|bytearray|Secret|SecretStr|SecretBytes|b64decode|unquote|from|String|Some"
    r"|Field|field|Option|Argument|dict|set|list|tuple|frozenset|array|encode|StringVar)"
    r"\(\s{0,64}(?:default\s{0,4}=\s{0,4})?)"
)
_ASSIGN: Final = r"(?::[ ]?[A-Za-z_][\w.\[\], |]{0,60}?[ ]{0,4}=|:=|=>|[=!]=|=|:)"
_NAME_BEFORE: Final = re.compile(
    rf"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{{0,120}})\]?\s{{0,4}}{_ASSIGN}"
    rf"\s{{0,4}}(?:\(\s{{0,64}}|{_CALLS}){{0,3}}(?:[\[{{]\s{{0,64}})?\Z"
)
_AFTER_NAME: Final = re.compile(
    rf"\]?\s{{0,4}}(?:(?P<listed>,)|:=|=>|[=!]=|=|:)"
    rf"\s{{0,64}}(?:\(\s{{0,64}}|{_CALLS}){{0,3}}(?:[\[{{]\s{{0,64}})?\Z"
)
_OPENING: Final = re.compile(
    rf"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{{0,120}})\]?\s{{0,4}}{_ASSIGN}\s{{0,4}}"
    rf"(?:[\[{{(]|{_CALLS})"
)
_SCHEME: Final = re.compile(rf"((?:{SCHEMES})\s{{1,4}})\S.*", re.IGNORECASE)
_OF_A_CALL: Final = re.compile(r"(?:get|getenv|setenv|putenv|setdefault|setattr|pop)\(\s*\Z")
_ELSE: Final = re.compile(r"(?:\bor|\belse|\|\||\?\?|[)\]\s]:)\s{1,64}\(?\s{0,64}\Z")
_ASSIGNED: Final = re.compile(
    r"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,120})[\"']?\]?\s{0,4}"
    r"(?::[ ]?[A-Za-z_][\w.\[\], |]{0,60}?[ ]{0,4}=|=|(?<=[\"']):)(?!=)"
)
_DEFAULT: Final = re.compile(r"\b(?:default|const|value)\s{0,4}=\s{0,4}\(?\Z")
_DEFINED: Final = re.compile(r"#\s{0,8}define\s{1,8}(?P<name>[A-Za-z_]\w{0,120})\s{1,64}\Z")
_BRACKET: Final = re.compile(r"[()\[\]{}]")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,120}")
_OPTION: Final = re.compile(r"--?(?P<name>[A-Za-z][\w-]{0,120})(?:=)?")
_ONLY_FILLED_IN: Final = re.compile(r"(?:[A-Za-z]{1,8} )?\W*(?:\{[^{}]*\}|%[sdr]|%\(\w+\)[sdr])\W*")
# Within a literal: what is filled in, and ends of lines as they are written.
_FIELD: Final = re.compile(
    r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]{0,200}\}){0,1000}\}|[{}]|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]"
    r"|(?<!\\)\\[nr])"
)
_FILLED_IN: Final = re.compile(
    r"(\{[\w.\[\]]{0,80}(?:![rsa])?(?::[^{}\"'\s]{0,20})?\}|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]\b"
    r"|(?<!\\)\\[nr])"
)
_STATEMENT: Final = re.compile(r"(?:\A|[\n:;])\s*\Z")
_NOTE: Final = re.compile(r"(?:#+|//+|/\*+)[ \t]*")
_BEGIN: Final = re.compile(KEY_BEGINS)
_END: Final = re.compile(KEY_ENDS)


class _Token(NamedTuple):
    """A literal or a comment.

    Attributes:
        start: Where it starts, with prefix and quotes.
        begin: Where its text starts.
        stop: Where its text stops.
        end: Where it ends.
        prefix: Letters before the quotes, small ones.
        quote: The quotes; empty for a comment.
    """

    start: int
    begin: int
    stop: int
    end: int
    prefix: str
    quote: str


def mask_code(
    text: str, *, known: Iterable[str] = (), more: More = MORE_NONE, name: str = ""
) -> str:
    """Return source code with secrets in its literals and comments hidden.

    Args:
        text: Lines that begin outside of a literal.
        known: Values that are hidden wherever they stand; the environment is not looked at.
        more: What a person says is a secret; its expressions count everywhere, too.
        name: Of the file, which tells the language; Python without.
    """
    return Source(known=known, more=more, name=name).mask(text)


class Source:
    """Hides secrets in the literals and comments of one file, some lines at a time.

    Args:
        known: As in `mask_code`.
        more: As in `mask_code`.
        name: As in `mask_code`.
    """

    def __init__(
        self, *, known: Iterable[str] = (), more: More = MORE_NONE, name: str = ""
    ) -> None:
        self._known, self._more = tuple(known), more
        ending = name.lower().rpartition(".")[2] if "." in name else ""
        self._tokens = next((each for ends, each in _ENDINGS if ending in ends), _OTHER)
        self._opened = ""

    def begin_within(self, text: str) -> None:
        """Take lines for the middle of a literal if the first quotes in them close one.

        Args:
            text: Lines from the middle of a file.
        """
        found = re.search(_TRIPLE, text)
        if found is None:
            return
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        after = text[found.end() : found.end() + 80].partition("\n")[0].strip()
        opens = re.search(r"(?:[=(\[{,:+%]|\breturn|\byield|\bin|(?:^|\W)[rbfuRBFU]{1,2})\Z", line)
        if (line and not opens) or (not line and (not after or after[0] in ")],.}%")):
            self._opened = found[0]

    def mask(self, text: str) -> str:
        """Return the next lines without secrets."""
        text = mask_known(text, self._known, self._more)
        parts: list[str] = []
        done = 0
        for token, body in _Reading(text, list(self._read(text)), self._more).bodies():
            parts += [mask_tokens(text[done : token.start]), text[token.start : token.begin], body]
            done = token.stop
        return "".join(parts) + mask_tokens(text[done:])

    def _read(self, text: str) -> Iterator[_Token]:
        """Yield literals and comments in order; unclosed ones continue in the next lines."""
        at = 0
        if self._opened:
            quote = self._opened
            stop = self._stop(text, 0, quote)
            at = stop + len(quote) if not self._opened else stop
            yield _Token(0, 0, stop, at, "", quote)
        while found := self._tokens.search(text, at):
            at = found.end()
            if found["note"]:
                yield _Token(found.start(), found.start(), at, at, "", "")
            elif quote := found["quote"]:
                stop = self._stop(text, at, quote)
                if not self._opened and not text.startswith(quote, stop):
                    continue  # an apostrophe
                end = stop if self._opened else stop + len(quote)
                prefix = (found["prefix"] or "").lower()
                yield _Token(found.start(), at, stop, end, prefix, quote)
                at = end

    def _stop(self, text: str, begin: int, quote: str) -> int:
        found = _BODY[quote].match(text, begin)
        stop = found.end() if found else begin
        self._opened = "" if len(quote) == 1 or text.startswith(quote, stop) else quote
        return stop


class _Reading:
    """Reads literals in their order, with the names that they stand after.

    Args:
        text: The code.
        tokens: Its literals and comments.
        more: What a person says is a secret.
    """

    def __init__(self, text: str, tokens: list[_Token], more: More) -> None:
        self._text, self._tokens, self._more = text, tokens, more
        self._keys = list(_key_spans(text))
        self._named = False  # whether the literal before was hidden for its name
        self._holder = Level.NO  # of the list or mapping that this stands in
        self._depth = 0
        self._option = Level.NO  # of the option that a call is about
        self._call = 0
        self._told = False

    def bodies(self) -> Iterator[tuple[_Token, str]]:
        """Yield each token with its text, secrets hidden."""
        before: _Token | None = None
        gap, done = "", 0
        for token in self._tokens:
            gap += self._text[done : token.start]
            done = token.end
            body = self._text[token.begin : token.stop]
            if not token.quote:
                yield token, self._note(body)
                continue
            body = self._without_keys(token, body)
            if body and self._is_named(before, gap, token, body):
                self._named = True
                scheme = _SCHEME.fullmatch(body)
                yield token, f"{scheme[1]}{MASK}" if scheme else _lines(body)
            else:
                self._named = False
                yield token, self._contents(token, gap, body) if body else body
            before, gap = token, ""

    # ---------------------------------------------------------------- by name

    def _is_named(self, before: _Token | None, gap: str, token: _Token, body: str) -> bool:
        """Return whether a literal is hidden for the name that it stands after."""
        level = self._level(before, gap, token)
        if option := _OPTION.fullmatch(body):
            self._option, self._call = self._more.level(option["name"]), 0
        if level is Level.NO or is_empty(body) or is_hidden(body):
            return False
        return not _ONLY_FILLED_IN.fullmatch(body) and (
            hides(level, body, text=True) or (self._depth > 0 and _has_foreign_word(body))
        )

    def _level(self, before: _Token | None, gap: str, token: _Token) -> Level:
        """Return how likely a literal is a secret, from the text before it."""
        if self._named and not gap.strip():
            return Level.SURE  # literals that follow each other are one
        if self._option:
            self._call = _left_open(self._call + 1, gap) - 1
            if self._call < 0:
                self._option = Level.NO
        if self._depth:
            self._depth = _left_open(self._depth, gap)
        begin = before.begin if before is not None else 0
        name, level = "", Level.NO
        if self._depth or self._more.names or may_name(self._text[begin : token.start]):
            name = self._name_before(before, gap)
            if not self._depth:
                self._open(before, gap)
            level = self._more.level(name) if name else Level.NO
        if not name:
            level = self._level_assigned(gap, token)
        if self._depth:
            level = self._level_held(name, token, level)
        if level is Level.NO and self._option and _DEFAULT.search(gap[-40:]):
            return self._option
        return level

    def _name_before(self, before: _Token | None, gap: str) -> str:
        """Return the name to which a literal is assigned; empty if there is none."""
        tail = gap[-_BACK:]
        if before is not None and len(gap) < _BACK and (found := _AFTER_NAME.match(gap)):
            name = self._text[before.begin : before.stop]
            call = self._text[max(0, before.start - 24) : before.start]
            is_name = not found["listed"] or _OF_A_CALL.search(call)
            if is_name and _NAME.fullmatch(name):
                return name
        found = _NAME_BEFORE.search(tail) or _DEFINED.search(tail)
        return found["name"] if found else ""

    def _open(self, before: _Token | None, gap: str) -> None:
        """Remember a list or mapping that begins in a gap and holds secrets."""
        names = [(found["name"], found.start()) for found in _OPENING.finditer(gap[-2 * _BACK :])]
        if before is not None and _AFTER_NAME.match(gap[:_BACK]):
            names.insert(0, (self._text[before.begin : before.stop][:_BACK], 0))
        tail = gap[-2 * _BACK :]
        for name, start in names:
            is_list = re.search(r"[\[{]", tail[start:]) is not None
            is_sure = is_list and self._more.parameter_level(name) is Level.SURE
            opened = _opened_by(tail[start:].lstrip("]"))
            if opened > 0 and _NAME.fullmatch(name) and (holds_secrets(name) or is_sure):
                self._depth = opened
                self._holder = Level.WEAK if name.lower().endswith("tokens") else Level.SURE
                return

    def _level_held(self, name: str, token: _Token, level: Level) -> Level:
        """Return the level of a literal in a list or mapping that holds secrets."""
        if re.match(r"\s{0,8}(?::(?!=)|=>)", self._text[token.end : token.end + 12]):
            return Level.NO  # a key
        return Level.NO if name and is_plain_fact(name) else max(level, self._holder)

    def _level_assigned(self, gap: str, token: _Token) -> Level:
        """Return the level of the name to which ``... or "X"`` is assigned."""
        if not _ELSE.search(gap[-80:]):
            return Level.NO
        head = self._text[max(0, token.start - _BACK) : token.start]
        line = head.rpartition("\n")[2]
        head = line if _ASSIGNED.search(line) else head[-len(line) - 100 :]
        if head is not line and line.strip() not in ("", "or", "else", "||", "??"):
            return Level.NO
        name = ""
        for found in _ASSIGNED.finditer(head):
            name = found["name"]
        return self._more.level(name) if name else Level.NO

    # ---------------------------------------------------------------- by what is in it

    def _note(self, body: str) -> str:
        found = _NOTE.match(body)
        begin = found.end() if found else 0
        return body[:begin] + "\n".join(map(self._line, body[begin:].split("\n")))

    def _line(self, line: str) -> str:
        if is_sentence(line):
            return mask_value(line, environment={}, more=self._more) if ":" not in line else line
        return mask_commands(mask_value(line, environment={}, more=self._more))

    def _contents(self, token: _Token, gap: str, body: str) -> str:
        """Return the text of a literal without the secrets in it, and still one literal."""
        if "\n" in body:
            hidden = self._text_block(token, gap, body)
        else:
            fields = _FIELD if "f" in token.prefix else _FILLED_IN
            parts = fields.split(body)
            parts[::2] = [self._segment(part) if part else part for part in parts[::2]]
            hidden = "".join(parts)
        if hidden == body:
            return body
        if missing := body.count("\n") - hidden.count("\n"):
            hidden += f"\n{MASK}" * missing
        whole = _BODY[token.quote].fullmatch(hidden)
        return hidden if whole else _lines(body)

    def _segment(self, part: str) -> str:
        return mask_commands(mask_value(part, environment={}, more=self._more))

    def _text_block(self, token: _Token, gap: str, body: str) -> str:
        """Return a literal of several lines, masked as a configuration or as a docstring."""
        if "f" in token.prefix:
            parts = _FIELD.split(body)
            parts[::2] = [self._segment(part) if part else part for part in parts[::2]]
            return "".join(parts)
        hidden = Configuration(more=self._more).mask(body)
        if hidden == body:
            return body
        old, new = body.split("\n"), hidden.split("\n")
        if len(old) != len(new):
            return hidden
        return "\n".join(
            line if is_sentence(line) or _FILLED_IN.search(line) else other
            for line, other in zip(old, new, strict=True)
        )

    def _without_keys(self, token: _Token, body: str) -> str:
        """Return a literal without its part of a private key; other literals may have the rest."""
        for start, end in self._keys:
            first, last = max(start, token.begin), min(end, token.stop)
            if first < last:
                at, to = first - token.begin, last - token.begin
                body = body[:at] + _lines(body[at:to]) + body[to:]
                break
        return body


def _key_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where private keys begin and end; none for a beginning without an end."""
    at = 0
    while (begin := _BEGIN.search(text, at)) and (end := _END.search(text, begin.end())):
        yield begin.start(), end.end()
        at = end.end()


def _lines(body: str) -> str:
    """Return as many hidden lines; those that are empty stay so."""
    if "\n" not in body:
        return MASK
    return "\n".join(MASK if line.strip() else line for line in body.split("\n"))


def _left_open(depth: int, gap: str) -> int:
    """Return how many of some brackets are open after a gap; 0 once all of them were closed."""
    for bracket in _BRACKET.findall(gap):
        depth += 1 if bracket in "([{" else -1
        if depth <= 0:
            return 0
    return depth


def _opened_by(gap: str) -> int:
    """Return how many brackets a value opens; 0 if it was closed again."""
    first = _BRACKET.search(gap)
    if first is None or first[0] not in "([{":
        return 0
    return _left_open(1, gap[first.end() :])


def _has_foreign_word(body: str) -> bool:
    """Return whether a word among tokens is none of a language."""
    return is_random(body, 16) or bool(
        re.fullmatch(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.+/=-]{8,4096}", body)
    )
