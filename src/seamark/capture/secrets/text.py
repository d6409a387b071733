"""Values of secret names in a text: a configuration, a command, a message, a log.

A value needs no quotes, and what is indented below a name, or stands in brackets after it, belongs
to it. The time is proportional to the length of the text, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from seamark.capture.secrets.code import Change, Code
from seamark.capture.secrets.names import (
    PASSWORD,
    Level,
    More,
    hides,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain,
    is_plain_fact,
    is_random,
    places_of_names,
)
from seamark.capture.secrets.shapes import MASK, hidden_lines, is_hidden

__all__ = ["FILE", "FILE_PROSE", "LOG", "MESSAGE", "NOTE", "VALUE", "Style", "Text"]

_LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class Style:
    """Rules for the names and the values in one kind of text.

    Attributes:
        is_anywhere: Anywhere, as in a message, and not only where a configuration or a command has
            it: ``"token": "X"``, ``token=X``, ``--token X``, a line ``token: X``.
        is_log: Numbers and words stay where a name counts that would not in a configuration.
        is_file: A value goes to the end of its line, and names hold what stands below them.
        is_prose: A line that reads like a sentence is none of a configuration.
    """

    is_anywhere: bool = False
    is_log: bool = False
    is_file: bool = False
    is_prose: bool = False


VALUE: Final = Style()
NOTE: Final = Style(is_prose=True)
FILE: Final = Style(is_file=True)
FILE_PROSE: Final = Style(is_file=True, is_prose=True)
MESSAGE: Final = Style(is_anywhere=True)
LOG: Final = Style(is_anywhere=True, is_log=True)

_GLANCE: Final = 256
_LONGEST_LEAD: Final = 96
_LONGEST: Final = 1 << 12
_BLOCK: Final = 1 << 13
_BORDER: Final = "│┃║|"

_RUN: Final = re.compile(r"[\w.-]*")
_RUNS: Final = re.compile(r"[\w.-]+")
_NAMED: Final = re.compile(r"(?P<dash>-{0,2})(?P<name>[A-Za-z_][\w.-]{0,120})")
_LEAD: Final = re.compile(
    r"[ \t]{0,64}(?:[#;*>/]{1,3}[ \t]{0,8})?(?:-[ \t]{1,8})?"
    r"(?P<word>(?:export|set|setenv|declare|ENV|ARG)[ \t]{1,8})?"
)
_WORD_BEFORE: Final = re.compile(r"[\w.-]{0,120}[A-Za-z_](?=-{0,2}(?:[^\w.-]|\Z))")
_SIGN: Final = re.compile(
    r"(?P<closed>\\?[\"'])?[\])]{0,2}(?: is| (?:for|of) [^\s:=]{1,64})?(?P<blank>\s{0,16})"
    r"(?P<sign>=>|->|<-|→|:=|[?+!=]?=(?!=)|[:：](?!:))(?P<after>\s{0,16})(?=\S)"  # noqa: RUF001 - as Chinese text has it
)
_OPTION: Final = re.compile(r"[\"'],\s{0,4}(?=[\"'][^-])|\s{1,4}(?=[^\s\"'-]|[\"'][^\s\"'])")
_BLANKS: Final = re.compile(r"[ \t]{1,8}(?=[^\s=])")
_CELLS: Final = re.compile(rf"[ \t]{{0,64}}[{_BORDER}][ \t]{{0,64}}(?=[^\s{_BORDER}])")
_IN_CELL: Final = re.compile(r"[ \t]{0,64}(?:[A-Za-z_][\w.-]{0,64} ){0,2}")
_CELL: Final = re.compile(rf"[^\r\n{_BORDER}]{{1,{_LONGEST}}}")
# What did not fit in a cell stands in the lines below, beside an empty one.
_FOLDED: Final = re.compile(
    rf"[^\r\n]{{0,{_LONGEST}}}\r?\n(?:[ \t]{{0,64}}[{_BORDER}])?[ \t]{{1,256}}[{_BORDER}]"
    rf"[ \t]{{0,64}}(?=[^\s{_BORDER}])"
)
_COLUMNS: Final = re.compile(r"[ \t]{2,64}(?=\S{8})")
_NAMING: Final = re.compile(r"\b(?:name|key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?\Z")
_BESIDE: Final = re.compile(
    r"[\"']?\s{0,4}(?:,\s{0,32}|\n[ \t]{0,32})(?:(?!-)[\w\"'][^\n]{0,200}\n[ \t]{0,32}){0,2}?"
    r"[\"']?value[\"']?\s{0,4}[:=][ \t]{0,4}(?=\S)"
)
_FIRST: Final = re.compile(
    r"value[\"']?[ \t]{0,4}[:=][ \t]{0,16}(?P<value>[^\s,][^\n]{0,400}?),?[ \t]{0,16}\n[ \t]{0,64}"
    r"[\"']?(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?\Z"
)
_WORD: Final = re.compile(r"\\?[\"']|[^\s\"'#]{1,4096}[ \t]{0,16}(?:[#;\r\n]|\Z)")
_FLOWING: Final = re.compile(r"\\?[\"']|[^\s\"',{}]{1,256}\s{0,16}[,}]")
_HEADED: Final = re.compile(r"[^\s\"']{1,4096}[\"']")
# A backslash is taken with what follows it in one way only: two ways would double the work of a
# text that is never closed with each of them.
_QUOTED: Final = re.compile(
    r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\?[\"'])"
    r"(?P<value>(?:(?!(?P=quote))(?:\\.|[^\\]))*)(?P=quote)",
    re.DOTALL,
)
_UNCLOSED: Final = re.compile(r"[rbfuRBFU]{0,2}\\?[\"'](?P<value>[^\r\n]+)")
# What is not quoted ends where the next one is named: token=X&page=1, token=X,dim=5.
_BARE: Final = re.compile(
    r"(?P<value>(?:[^\s\"'│┃║&;#,]+|(?![&;#,][A-Za-z_][\w.-]{0,64}=)[&;#,])+)"
)
_WORDS: Final = re.compile(
    r"(?P<value>(?:[^\r\n│┃║,; \t]{1,64}"
    r"|(?![,;] ?[A-Za-z_][\w.-]{0,64} ?[=:]|[ \t]#)[,; \t]){1,4096})"
)
_STAYS: Final = re.compile(
    r"(?:%[sdr]|\{\w{0,64}\}|\$\{[^{}]{0,200}\}|\{\{[^{}]{0,200}\}\}|\$\([^()\n]{0,200}\)|<[^<>\s]{0,64}>|%\(\w{1,64}\)s"
    r"|[$*][A-Za-z_]\w{0,80})(?=[\"'\s,;)}\]&/:.]|\Z)|(?:null|none|true|false)(?=[\"',;)}\]&]|\s*\Z)"
    r"|\*\*\*",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(
    r"[ \t]*(?:[&!][\w/-]*)?[ \t]*(?P<block>[|>][-+\d]{0,3})?[ \t]*(?:#[^\n]*)?(?=\n)"
)
_BELOW: Final = re.compile(r"[\"']?[ \t]{0,16}:|[ \t]{0,16}=")
_ENTRY: Final = re.compile(
    r"^[ \t]*(?P<item>(?:-[ \t]+)*)(?:(?P<quote>[\"']?)(?P<name>[\w./-]{1,120})(?P=quote)"
    r"[ \t]{0,16}(?:[:?+]?=|:(?=[ \t\n]|\Z))[ \t]{0,16})?(?P<value>[^\s#][^\n]*)?$",
    re.MULTILINE,
)
_SECTION: Final = re.compile(
    r"^[ \t]*\[{1,2}(?P<name>[^\[\]=,\n]{1,200})\]{1,2}[ \t]*(?:[#;][^\n]*)?$", re.MULTILINE
)
_SECTION_END: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
_KIND: Final = re.compile(r"^kind:[ \t]*[\"']?Secret\b", re.MULTILINE)
_DATA: Final = re.compile(r"^[ \t]*[\"']?(?P<name>data|stringData)(?=[\"']?[ \t]*:)", re.MULTILINE)
_DOCUMENT_END: Final = re.compile(r"^---", re.MULTILINE)
_SENTENCE: Final = re.compile(
    r"[\s\"'*`#-]*(?:\*{0,2}[\w.`\"'-]{1,80}\s?(?:\([^()]{0,200}\))?\s?:)?"
    r"(?:\s+[\"'`(*]*[A-Za-z][A-Za-z'`-]*[\"'`)*]*[,.;:?!]*){3,}(?:\s.*)?",
    re.DOTALL,
)
_MAYBE_DRAWN: Final = re.compile(r"[rbfuRBFU]{0,2}\\?[\"']{0,3}[A-Za-z0-9+/_-]{8}")
_AMOUNT: Final = re.compile(r"[+<>~≈-]*\d[\d.,:/x%_-]*[A-Za-z%µ]{0,3}(?:/[A-Za-z]{1,5})?")
_MIXED: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.~+/=-]+", re.ASCII)
_TYPE: Final = re.compile(
    r"(?:(?:Optional|List|list|Sequence)\[)?(?:str|bytes|int|float|bool|object|Any|SecretStr|Path)"
)
_PUNCTUATION: Final = ".,;:!?)]} \t\"'"
_ENCLOSED: Final = 2
_NEAR: Final = 4
_MIN_LIKELY: Final = 6
_MIN_NUMBER: Final = 4


@dataclass(slots=True)
class _Place:
    """The start of the value of a name.

    Attributes:
        start: The place.
        is_sure: Whether it stands as in a configuration or a command.
        is_line: Whether a value of several words ends with its line.
        sign: What stands between both.
    """

    start: int
    is_sure: bool
    is_line: bool = False
    sign: str = ""


class _Name:
    """A name in a text.

    Args:
        text: The text.
        start: Where it starts, with its dashes.
        found: Its match.

    Attributes:
        name: The name.
        begin: Where it begins.
        end: Where it ends.
        dash: The dashes before it.
        quote: Its quote, empty without.
    """

    __slots__ = ("_at", "_lead", "_text", "begin", "dash", "end", "name", "quote")

    def __init__(self, text: str, start: int, found: re.Match[str]) -> None:
        self.name, self.dash = found["name"], found["dash"]
        self.begin, self.end = found.span("name")
        quote = text[start - 1 : start]
        self.quote = quote if quote in ("'", '"') else ""
        if self.quote:
            start -= 2 if text[start - 2 : start - 1] == "\\" else 1
        self._text, self._at = text, start
        self._lead: re.Match[str] | Literal[False] | None = False  # it is not known yet

    @property
    def _found(self) -> re.Match[str] | None:
        if self._lead is False:
            first = max(0, self._at - _LONGEST_LEAD)
            line = self._text.rfind("\n", first, self._at) + 1
            is_far = not line and first
            self._lead = None if is_far else _LEAD.fullmatch(self._text, line, self._at)
        return self._lead

    @property
    def is_start(self) -> bool:
        """Return whether it stands at the start of a line."""
        return self._found is not None

    @property
    def word(self) -> str:
        """Return the command before it, such as ``export``; empty without."""
        return (self._found["word"] or "") if self._found else ""

    @property
    def flow(self) -> str:
        """Return the bracket or the comma before it; empty without."""
        last = self._text[max(0, self._at - 17) : self._at].rstrip(" \t")[-1:]
        return last if last in ("{", ",") else ""


class Text:
    """Finds the values of secret names in a text that is no code.

    Args:
        text: The text.
        style: Where a name counts.
        more: What a person says is a secret.
    """

    def __init__(self, text: str, style: Style, more: More) -> None:
        self._text, self._style, self._more = text, style, more
        self._level_of = more.level if style is MESSAGE else more.parameter_level
        self._unclosed = 0  # up to here brackets do not close
        self._sentence = (0, 0, False)

    def changes(self) -> Iterator[Change]:
        """Yield the changes that hide secrets, not always in order."""
        text, at = self._text, 0
        if self._style.is_file:
            yield from self._sections()
        for start in self._starts():
            named = _NAMED.match(text, start) if start >= at else None
            if named is None:
                continue
            at = named.end()
            if level := self._level(named["name"], start):
                for change in self._of_name(_Name(text, start, named), level):
                    yield change
                    at = max(at, change[1])

    def _starts(self) -> Iterator[int]:
        """Yield the starts of names that may have a level."""
        text, at = self._text, 0
        if self._more.names:
            for run in _RUNS.finditer(text):
                yield run.start()
            return
        levels: dict[str, bool] = {}
        match = _RUN.match
        for place in places_of_names(text):
            if place >= at:
                before = text[max(at, place - _LONGEST_NAME) : place][::-1]
                start = place - match(before).end()  # type: ignore[union-attr]
                at = match(text, place).end()  # type: ignore[union-attr]
                word = text[start:at]
                if word not in levels:
                    named = _NAMED.match(word)
                    levels[word] = named is not None and self._plain_level(named["name"]) > Level.NO
                if levels[word]:
                    yield start

    def _plain_level(self, name: str) -> Level:
        """Return the level of a name by itself."""
        return self._level_of(name.replace(".", "_") if self._style.is_file else name)

    def _level(self, name: str, start: int) -> Level:
        """Return the level of a name, for a log with the word before it: a pad token is none."""
        text = self._text
        if self._style.is_file:
            name = name.replace(".", "_")
        level = self._level_of(name)
        is_pair = self._style.is_log and start and text[start - 1] == " "
        if is_pair and level and not self._more.names_it(name):
            before = text[max(0, start - _LONGEST_NAME) : start - 1][::-1]
            if word := _WORD_BEFORE.match(before):
                return self._level_of(f"{word[0][::-1]} {name}")
        return level

    def _of_name(self, found: _Name, level: Level) -> Iterator[Change]:
        """Yield the changes in the value of a name."""
        if self._style.is_file and (below := self._below(found, level)):
            yield from below
        elif place := self._place(found, level):
            yield from self._value(place, found.name, level)
        elif self._style.is_log:
            yield from self._cells(found, level)

    # ---------------------------------------------------------------- places

    def _place(self, found: _Name, level: Level) -> _Place | None:
        """Return the place of the value of a name; None if it has none."""
        text, begin, end, style = self._text, found.begin, found.end, self._style
        name = found.name
        if sign := _SIGN.match(text, end):
            start, mark = sign.end(), sign["sign"]
            is_quoted = bool(found.quote and sign["closed"])
            breaks = "\n" in sign["after"] or "\n" in sign["blank"]
            is_sure = self._is_sure(found, sign, name)
            is_placed = is_sure or style.is_anywhere
            is_near = style is MESSAGE and len(sign["after"]) <= _NEAR
            if is_placed and (not breaks or is_quoted or is_near):
                is_line = (
                    is_sure
                    and not found.quote
                    and (
                        style.is_file or (sign["after"] != "" and PASSWORD.search(name) is not None)
                    )
                    and found.is_start
                )
                return _Place(start, is_sure, is_line, mark + sign["after"])
        for link in (
            found.dash and _OPTION.match(text, end),
            found.word and _BLANKS.match(text, end),
        ):
            if link:
                return _Place(link.end(), is_sure=True)
        before = text[max(0, begin - 24) : begin]
        if before.rstrip(" \t\r\n\"'")[-1:] in (":", "=") and _NAMING.search(before):
            if link := _BESIDE.match(text, end):
                return _Place(link.end(), is_sure=True)
            start = max(0, begin - _GLANCE)
            if "value" in (text_before := text[start:begin]) and (
                first := _FIRST.search(text_before)
            ):
                return _Place(start + first.start("value"), is_sure=True, is_line=True)
        return None

    def _is_sure(self, found: _Name, sign: re.Match[str], name: str) -> bool:
        """Return whether a name and a sign stand as in a configuration or a command."""
        text, start, mark = self._text, sign.end(), sign["sign"]
        if mark not in (":", "=", ":=", "?=", "+="):
            return mark == "=>" and bool(found.quote)
        if found.quote:
            is_header = mark == ":" and _HEADED.match(text, start)
            return sign["closed"] is not None or mark != ":" or is_header is not None
        if mark != ":" and not sign["blank"] and not sign["after"]:
            return True
        if found.is_start and (mark != ":" or sign["after"]):
            is_whole = self._style.is_file or PASSWORD.search(name) or _WORD.match(text, start)
            return is_whole is not None
        if found.flow and mark == ":":
            is_bare = found.flow == "{" or self._style.is_file
            return (_FLOWING if is_bare else _QUOTED).match(text, start) is not None
        return False

    # ---------------------------------------------------------------- values

    def _value(self, place: _Place, name: str, level: Level) -> Iterator[Change]:
        """Yield a value that is hidden, or what is hidden in it."""
        text, start = self._text, place.start
        if text[start : start + 1] in ("[", "{", "(") and not (
            self._style.is_file and text[start] == "("
        ):
            held = self._held(start, name, level)
            if held is not None:
                yield from held
                return
        if level is Level.WEAK and not _MAYBE_DRAWN.match(text, start):
            return
        span = self._span(place, name, min(start + _GLANCE, len(text)))
        if span is None or not self._hides(place, name, level, text[span[0] : span[1]]):
            return
        begin, end = self._span(place, name, len(text)) or span
        yield begin, end, hidden_lines(text[begin:end])

    def _span(self, place: _Place, name: str, stop: int) -> tuple[int, int] | None:
        """Return the span of a value, without the punctuation that ends it."""
        text, start = self._text, place.start
        if found := _QUOTED.match(text, start, stop) or _UNCLOSED.match(text, start, stop):
            return found.span("value") if found["value"] else None
        is_line = place.is_line or (
            self._style.is_log and place.sign[-1:].isspace() and PASSWORD.search(name)
        )
        found = (_WORDS if is_line else _BARE).match(text, start, stop)
        if found is None:
            return None
        ends = _PUNCTUATION if self._style.is_log else " \t\r,;\\" if is_line else ",;)}]"
        return start, start + (len(found["value"].rstrip(ends)) or len(found["value"]))

    def _held(self, start: int, name: str, level: Level) -> Iterator[Change] | None:
        """Return the changes in brackets; None if they do not close."""
        if start < self._unclosed:
            return None
        stop = len(self._text) if self._style.is_file else min(start + _BLOCK, len(self._text))
        code = Code(self._text, self._level_of, self._more.holds, lambda body, _: body)
        held = code.held(start, stop, level, holds=self._more.holds(name))
        if held is None:
            self._unclosed = stop
        return held

    def _hides(self, place: _Place, name: str, level: Level, value: str) -> bool:
        """Return whether a value is hidden for its name."""
        if level is Level.WEAK and not is_random(value.rstrip(_PUNCTUATION)):
            return False
        if is_hidden(value) or MASK in value[:16]:
            return False
        if self._style is MESSAGE:
            return hides(level, value, text=True)
        if is_empty(value) or _STAYS.match(value):
            return False
        if place.is_sure:
            is_sentence = self._style.is_prose and self._is_sentence(place.start)
            return hides(level, value, text=True) and not is_sentence
        return self._hides_in_log(name, level, value, blank=place.sign != ":")

    def _is_sentence(self, at: int) -> bool:
        """Return whether the line there is prose: three words that follow each other."""
        start, end, is_sentence = self._sentence
        if not start <= at < end:
            text = self._text
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = len(text) if end < 0 else end
            is_sentence = text.find("=", start, end) < 0
            if is_sentence:
                is_sentence = _SENTENCE.fullmatch(text[start : min(end, start + 1024)]) is not None
            self._sentence = start, end, is_sentence
        return is_sentence

    def _hides_in_log(self, name: str, level: Level, value: str, *, blank: bool) -> bool:
        value = value.rstrip(_PUNCTUATION) or value
        if is_empty(value) or _TYPE.fullmatch(value):
            return False
        if level is Level.WEAK:
            return is_random(value)
        if level is Level.LIKELY:
            return len(value) >= _MIN_LIKELY and _MIXED.fullmatch(value) is not None
        if PASSWORD.search(name):
            if is_harmless(value):
                return len(value) >= _MIN_NUMBER and value.isdigit()
            return blank or not is_plain(value)
        is_word = is_plain(value) or (value.isalpha() and (value.islower() or value.istitle()))
        return not (_AMOUNT.fullmatch(value) or is_harmless(value) or is_word)

    # ---------------------------------------------------------------- tables

    def _cells(self, found: _Name, level: Level) -> Iterator[Change]:
        """Yield the changes in a table in which a name and its value stand side by side."""
        text, start, name = self._text, found.begin, found.name
        if link := _CELLS.match(text, found.end):
            first = max(0, start - 200)
            border = max(text.rfind(each, first, start) for each in "\n" + _BORDER)
            is_cell = (border >= 0 or not first) and _IN_CELL.fullmatch(text, border + 1, start)
            cell = _CELL.match(text, link.end()) if is_cell else None
            if cell and self._hides_in_log(name, level, cell[0].strip(), blank=True):
                while cell is not None:
                    at = cell.end()
                    yield cell.start(), cell.start() + len(cell[0].rstrip()), MASK
                    folded = _FOLDED.match(text, at)
                    cell = _CELL.match(text, folded.end()) if folded else None
        elif found.is_start and level is Level.SURE and (link := _COLUMNS.match(text, found.end)):
            value = _BARE.match(text, link.end())
            if value and _MIXED.fullmatch(value["value"]):
                yield *value.span("value"), MASK

    # ---------------------------------------------------------------- what stands below a name

    def _sections(self) -> Iterator[Change]:
        for section in _SECTION.finditer(self._text):
            if any(map(holds_secrets, re.split(r"[.\s:/\"']+", section["name"]))):
                ends = _SECTION_END.search(self._text, section.end())
                yield from self._entries(section.end(), ends.start() if ends else len(self._text))

        stop = 0
        for kind in _KIND.finditer(self._text):
            if kind.start() < stop:
                continue
            ends = _DOCUMENT_END.search(self._text, kind.end())
            stop = ends.start() if ends else len(self._text)
            for data in _DATA.finditer(self._text, kind.end(), stop):
                named = _NAMED.match(self._text, data.start("name"))
                if named:
                    yield from self._below(_Name(self._text, named.start(), named), Level.NO)

    def _below(self, found: _Name, level: Level) -> list[Change]:
        """Return the changes in the lines that are indented below a name."""
        text, begin = self._text, found.begin
        sign = _BELOW.match(text, found.end)
        opening = _OPENING.match(text, sign.end()) if sign else None
        if opening is None or (
            level in (Level.WEAK, Level.LIKELY) and not holds_secrets(found.name)
        ):
            return []
        lead = text[text.rfind("\n", 0, begin) + 1 : begin]
        indent = len(lead.rstrip("\"'"))
        item = "" if "-" in lead else rf"|[ \t]{{{indent}}}-[ \t][^\n]*"
        region = re.compile(rf"(?:\n(?:[ \t]*(?=\n|\Z)|[ \t]{{{indent + 1},}}[^\n]*{item}))*")
        lines = region.match(text, opening.end())
        start, end = lines.span() if lines else (0, 0)
        if opening["block"]:
            return [(start, end, hidden_lines(text[start:end]))]
        is_held = holds_secrets(found.name) or level is Level.NO
        return list(self._entries(start, end)) if is_held else []

    def _entries(self, start: int, end: int) -> Iterator[Change]:
        """Yield the changes in lines all of which are secret."""
        for entry in _ENTRY.finditer(self._text, start + 1, end):
            value = entry["value"]
            is_entry = value and (entry["name"] or entry["item"] or value[0] in "\"'[{")
            if is_entry and not (entry["name"] and is_plain_fact(entry["name"])):
                for change in self._value(
                    _Place(entry.start("value"), is_sure=True, is_line=True), "", Level.SURE
                ):
                    if not is_harmless(self._text[change[0] : change[1]]):
                        yield change
