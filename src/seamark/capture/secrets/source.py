"""Source code without secrets: quoted strings and comments are changed, and nothing else.

Code that is kept is to be run again. Each line is read by itself: which strings stand in it, and
what stands before each. Of the lines above three things are known: whether a string of several
lines is open, whether what is indented further is secret, and which option a call is about.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Final

from seamark.capture.secrets.configuration import (
    Configuration,
    is_sentence,
    mask_commands,
    may_hold_secret,
)
from seamark.capture.secrets.masking import (
    MASK,
    MORE_NONE,
    SCHEMES,
    More,
    hides,
    is_hidden,
    mask_shapes,
    mask_tokens,
    mask_value,
)
from seamark.capture.secrets.names import (
    Level,
    holds_secrets,
    is_empty,
    is_plain_fact,
    is_random,
)

__all__ = ["Notebook", "Source"]

# A command in a notebook is a text like a comment.
_MAGIC: Final = r"(?m:^)[ \t]*(?:%%?[a-z_]\w*[ \t]|!\w).*"
_SLASHES: Final = r"//.*|/\*(?:[^*]|\*(?!/))*(?:\*/)?"
# What stands between apostrophes is one character, and may be a quote.
_CHARACTER: Final = r"'(?:\\.|[^'\\])'"


def _strings(note: str, quotes: str, skipped: str = r"(?!)") -> re.Pattern[str]:
    return re.compile(
        rf"\\.|{skipped}|(?P<note>{note})"
        rf"|(?P<prefix>(?<!\w)[rbfutRBFUT]{{1,2}})?(?P<quote>{quotes})"
        r"(?P<body>(?:\\.|(?!(?P=quote))[^\\])*)(?P<end>(?P=quote))?"
    )


_OTHER: Final = _strings(_SLASHES, r"\"{3}|[\"`]", _CHARACTER)
_LANGUAGES: Final = (
    (("py", "pyi", "pyx", "ipynb", ""), _strings(rf"\#.*|{_MAGIC}", r"\"{3}|'{3}|[\"']")),
    (("js", "ts"), _strings(_SLASHES, r"[\"'`]")),
    (("jl",), _strings(r"\#.*", r"\"{3}|\"", _CHARACTER)),
)
_LASTING: Final = ('"""', "'''", "`", "/*")
"""What may begin what goes on in the next line."""
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
    rf"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{{0,120}})[\"']?\]?\s{{0,4}}{_ASSIGN}\s{{0,4}}"
    rf"(?:{_CALLS}|(?P<open>[\[{{(]))"
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
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_ASKED: Final = re.compile(r"[\w\])][\[(]\s*\Z")
"""What stands before what is no value: ``environ["X"]``, ``ask("X")``."""
_KEY: Final = re.compile(r"\s{0,8}(?::(?!=)|=>)")
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]+|\\.)*"(?P<colon>\s{0,8}:)?')
_JSON_KEY: Final = re.compile(r'[ \t]*"[\w.-]{1,120}"[ \t]*:')
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
_NOTE: Final = re.compile(r"(?:#+|//+|/\*+)?[ \t]*")
_OPENS: Final = re.compile(r"(?:[=(\[{,:+%]|\breturn|\byield|\bin|(?:^|\W)[rbfuRBFU]{1,2})\Z")


class Source:
    """Hides what is in the strings and comments of one file.

    Args:
        more: What a person says is a secret; its expressions count everywhere, too.
        name: Of the file, which tells the language; Python without.
    """

    def __init__(self, *, more: More = MORE_NONE, name: str = "") -> None:
        self._more = more
        ending = name.lower().rpartition(".")[2] if "." in name else ""
        self._strings = next((each for ends, each in _LANGUAGES if ending in ends), _OTHER)
        self._opened = ""  # what ends the string or the comment that goes on
        self._is_format = False
        self._text = Configuration(more=more)  # its lines
        self._named = Level.NO  # of the string that begins the next line
        self._option = Level.NO  # of the option that a call is about
        self._held: int | None = None  # strings in lines that are indented further are secret
        self._holder = Level.NO

    def begin_within(self, lines: Sequence[str]) -> None:
        """Take lines for the middle of a string if the first quotes in them end one.

        Args:
            lines: From the middle of a file.
        """
        for line in lines:
            if found := re.search(r"\"{3}|'{3}", line):
                before, after = line[: found.start()].strip(), line[found.end() :].strip()
                ends_line = not after or after[0] in ")],.}%"
                if not _OPENS.search(before) if before else ends_line:
                    self._opened = found[0]
                return

    def mask(self, lines: Sequence[str], of_keys: Sequence[bool] = ()) -> list[str]:
        """Return the next lines without secrets.

        Args:
            lines: Some lines of the file, without known values.
            of_keys: Whether each is one of a private key; False without.
        """
        text = "\n".join(lines)
        is_shaped = mask_shapes(text, self._more) != text
        kept = []
        for at, line in enumerate(lines):
            is_of_key = bool(of_keys) and of_keys[at]
            is_within = self._opened or self._named or self._option or self._held is not None
            is_asked = is_shaped or is_of_key or is_within or may_hold_secret(line, self._more)
            if is_asked or any(map(line.__contains__, _LASTING)):
                line = self._line(line, is_of_key=is_of_key)  # noqa: PLW2901 - the same, hidden
            kept.append(line)
        return kept

    def _line(self, line: str, *, is_of_key: bool) -> str:
        if not self._opened:
            return self._code(line, is_of_key=is_of_key)
        text, end, rest = line.partition(self._opened)
        hidden = MASK if is_of_key and text.strip() else self._text_line(text)
        if not end:
            return hidden
        self._opened = ""
        return hidden + end + self._code(rest, is_of_key=is_of_key)

    def _code(self, line: str, *, is_of_key: bool) -> str:
        start, stop = self._held_in(line)
        parts: list[str] = []
        done = 0
        before: re.Match[str] | None = None
        for found in self._strings.finditer(line):
            group = "note" if found["note"] else "body"
            self._open(found)
            if not found[group]:
                continue
            gap = line[before.end() if before else 0 : found.start()]
            if is_of_key:
                hidden = MASK
            elif group == "note":
                hidden = self._note(found["note"])
            else:
                is_held = start <= found.start() < stop and not _ASKED.search(gap)
                if is_held and _KEY.match(line, found.end()):
                    self._named, hidden = Level.NO, self._contents(found, found["body"])
                else:
                    hidden = self._string(line, found, before, is_held=is_held)
                before = found
            parts += [mask_tokens(line[done : found.start(group)]), hidden]
            done = found.end(group)
        tail = line[before.end() if before else 0 :]
        if tail.strip():
            is_statement = tail.rstrip().endswith(":")  # def f() -> Token:
            name = None if is_statement else _NAME_BEFORE.search(tail.rstrip("\\ ")[-_BACK:])
            self._named = self._more.level(name["name"]) if name else Level.NO
        if not tail.rstrip().endswith((",", "(")):
            self._option = Level.NO
        return "".join(parts) + mask_tokens(line[done:])

    def _open(self, found: re.Match[str]) -> None:
        """Note that a string or a comment goes on in the next line."""
        quote = found["quote"] or ""
        if found["note"]:
            is_open = found["note"].startswith("/*") and not found["note"].endswith("*/")
            self._opened = "*/" if is_open else ""
        elif not found["end"] and quote in _LASTING:
            self._opened = quote
        if self._opened:
            self._text = Configuration(more=self._more)
            self._is_format = "f" in (found["prefix"] or "").lower()

    # ---------------------------------------------------------------- by name

    def _held_in(self, line: str) -> tuple[int, int]:
        """Return from where to where strings are secret for the list or mapping they stand in."""
        indent = len(line) - len(line.lstrip())
        if self._held is not None and line.strip():
            if indent > self._held:
                return 0, len(line)
            self._held = None
        for found in _OPENING.finditer(line):
            name, bracket = found["name"], found["open"] or "("
            is_sure = bracket != "(" and self._more.parameter_level(name) is Level.SURE
            if is_sure or holds_secrets(name):
                self._holder = Level.WEAK if name.lower().endswith("tokens") else Level.SURE
                stop = line.find(_CLOSING[bracket], found.end())
                if stop < 0:
                    self._held = indent
                return found.end(), stop if stop >= 0 else len(line)
        return 0, 0

    def _string(
        self, line: str, found: re.Match[str], before: re.Match[str] | None, *, is_held: bool
    ) -> str:
        """Return the text of a string without secrets."""
        body = found["body"]
        level = self._level(line, found, before, is_held=is_held)
        if option := _OPTION.fullmatch(body):
            self._option = self._more.level(option["name"])
        says_nothing = is_empty(body) or is_hidden(body) or _ONLY_FILLED_IN.fullmatch(body)
        if says_nothing or not (
            hides(level, body, text=True) or (is_held and _has_foreign_word(body))
        ):
            self._named = Level.NO
            return self._contents(found, body)
        self._named = Level.SURE  # strings that follow each other are one
        scheme = _SCHEME.fullmatch(body)
        return f"{scheme[1]}{MASK}" if scheme else MASK

    def _level(
        self, line: str, found: re.Match[str], before: re.Match[str] | None, *, is_held: bool
    ) -> Level:
        """Return how surely a string is a secret, judging by what stands before it."""
        gap = line[before.end() if before else 0 : found.start()]
        if self._named and not gap.strip():
            return self._named
        name = _name_before(line, gap, before)
        level = self._more.level(name) if name else Level.NO
        if not name and _ELSE.search(gap[-80:]):
            for assigned in _ASSIGNED.finditer(line, 0, found.start()):
                level = self._more.level(assigned["name"])
        if is_held:
            return Level.NO if is_plain_fact(name) else max(level, self._holder)
        if level is Level.NO and self._option and _DEFAULT.search(gap[-40:]):
            return self._option
        return level

    # ---------------------------------------------------------------- by what is in it

    def _contents(self, found: re.Match[str], body: str) -> str:
        """Return the text of a string without the secrets in it, and still one string."""
        fields = _FIELD if "f" in (found["prefix"] or "").lower() else _FILLED_IN
        hidden = self._without_fields(fields, body)
        if hidden == body:
            return body
        quote = found["quote"]
        whole = self._strings.fullmatch(f"{quote}{hidden}{quote}")
        return hidden if whole and whole["body"] == hidden else MASK

    def _without_fields(self, fields: re.Pattern[str], text: str) -> str:
        parts = fields.split(text)
        parts[::2] = [self._segment(part) if part else part for part in parts[::2]]
        return "".join(parts)

    def _segment(self, text: str) -> str:
        return mask_commands(mask_value(text, environment={}, more=self._more))

    def _note(self, note: str) -> str:
        found = _NOTE.match(note)
        begin = found.end() if found else 0
        text = note[begin:]
        if is_sentence(text) and ":" in text:
            return note
        return note[:begin] + self._segment(text)

    def _text_line(self, text: str) -> str:
        """Return a line of a string of several lines: of a configuration, or what is said."""
        if self._is_format:
            return self._without_fields(_FIELD, text)
        hidden = self._text.mask([text])[0]
        return text if is_sentence(text) or _FILLED_IN.search(text) else hidden


def _name_before(line: str, gap: str, before: re.Match[str] | None) -> str:
    """Return the name to which a string is assigned; empty if there is none."""
    if before is not None and (found := _AFTER_NAME.match(gap[:_BACK])):
        is_listed = found["listed"] and not _OF_A_CALL.search(line[: before.start()][-24:])
        if not is_listed and _NAME.fullmatch(before["body"]):
            return before["body"]
    found = _NAME_BEFORE.search(gap[-_BACK:]) or _DEFINED.search(gap[-_BACK:])
    return found["name"] if found else ""


def _has_foreign_word(body: str) -> bool:
    """Return whether a word among tokens is none of a language."""
    return is_random(body, 16) or bool(
        re.fullmatch(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.+/=-]{8,4096}", body)
    )


class Notebook:
    """Hides what is in the file of a notebook: JSON in which lines of code are strings.

    Args:
        more: What a person says is a secret.
    """

    def __init__(self, *, more: More = MORE_NONE) -> None:
        self._source = Source(more=more)
        self._metadata = Configuration(more=more, name="notebook.json")

    def mask(self, lines: Sequence[str], of_keys: Sequence[bool] = ()) -> list[str]:
        """Return the next lines without secrets, as `Source.mask`."""
        kept = []
        for at, line in enumerate(lines):
            string = functools.partial(self._string, is_of_key=bool(of_keys) and of_keys[at])
            hidden = _JSON_STRING.sub(string, line)
            kept.append(self._metadata.mask([hidden])[0] if _JSON_KEY.match(line) else hidden)
        return kept

    def _string(self, found: re.Match[str], *, is_of_key: bool) -> str:
        if found["colon"]:
            return found[0]
        try:
            lines = str(json.loads(found[0], strict=False)).split("\n")
        except ValueError:
            return found[0]
        hidden = self._source.mask(lines, [is_of_key] * len(lines))
        return found[0] if hidden == lines else json.dumps("\n".join(hidden), ensure_ascii=False)
