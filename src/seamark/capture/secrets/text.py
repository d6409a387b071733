"""Masking of the values of secret names in a text, line by line.

Whether a value is masked depends on its name and on the characters between them. A value ends with
its line, unless it is in quotes or brackets. In files, indented lines below a name belong to it.
The time is proportional to the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from seamark.capture.secrets.code import Change, apply_changes
from seamark.capture.secrets.names import (
    PASSWORD,
    Level,
    UserRules,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain,
    is_plain_fact,
    is_random,
    may_name,
    name_positions,
    should_mask,
)
from seamark.capture.secrets.shapes import MASK, is_masked, mask_lines

_MAX_LEAD_CHARS: Final = 96
_NEAR_CHARS: Final = 256
_MAX_BLOCK_CHARS: Final = 1 << 13

_LINE: Final = re.compile(r"[\r\n]")
_NO_NAME: Final = re.compile(r"[^\w.-]")
_NAME: Final = re.compile(r"(?P<dash>-{0,2})(?P<name>[A-Za-z_][\w.-]{0,120})")
_LEAD: Final = re.compile(
    r"[ \t]{0,64}(?:[#;*>/]{1,3}[ \t]{0,8})?(?:-[ \t]{1,8})?"
    r"(?P<word>(?:export|set|setenv|declare|ENV|ARG)[ \t]{1,8})?\\?[\"']?"
)
_WORD_BEFORE: Final = re.compile(r"[A-Za-z_][\w.-]{0,120} \Z")
_SIGN: Final = re.compile(
    r"(?P<closed>\\?[\"'])?[\])]{0,2}(?: is| (?:for|of) [^\s:=]{1,64})?(?P<blank>[ \t]{0,64})"
    r"(?P<sign>=>|->|<-|→|:=|[?+]?=(?!=)|[:：](?!:)|[│┃║|]|>(?=(?P<tagged>[^<>\n]{1,4096})</))"  # noqa: RUF001 - as used in Chinese text
    r"(?P<after>[ \t]{0,64})(?=\S)"
)
_OPTION: Final = re.compile(r"[\"'],\s{0,4}(?=[\"'][^-])|[ \t]{1,4}(?=[^\s\"'-]|[\"'][^\s\"'])")
_BLANKS: Final = re.compile(r"[ \t]{1,64}(?=\S)")
_NAME_ENTRY: Final = re.compile(
    r"\b(?:name|key|id)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?\Z", re.IGNORECASE
)
_SIBLING_VALUE: Final = re.compile(
    r"[\"']?[ \t]{0,4},?\s{0,32}[\"']?value[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?=\S)", re.IGNORECASE
)
_SINGLE_WORD: Final = re.compile(r"\\?[\"']|\S{1,4096}[ \t]{0,16}(?:[#;\r\n]|\Z)")
_SINGLE_VALUE: Final = re.compile(r"[^\s\"'(\[{]\S{0,4096}[ \t]{0,16}(?:[#\r\n]|\Z)")
_HEADER_VALUE: Final = re.compile(r"[^\s\"']{1,4096}[\"']")
# A backslash and the next character match in only one way. With two ways, each backslash would
# double the time for an unclosed literal.
_QUOTED: Final = re.compile(
    r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\?[\"'])"
    r"(?P<value>(?:(?!(?P=quote))(?:\\.|[^\\]))*)(?P=quote)",
    re.DOTALL,
)
_UNCLOSED: Final = re.compile(r"[rbfuRBFU]{0,2}\\?[\"'](?P<value>[^\r\n]+)")
# A value without quotes ends at the next name: token=X&page=1, token=X,dim=5.
_BARE: Final = re.compile(
    r"(?P<value>(?:[^\s\"'│┃║&;#,<]+|(?![&;#,][A-Za-z_][\w.-]{0,64}=|</)[&;#,<])+)"
)
_WORDS: Final = re.compile(
    r"(?P<value>(?:[^\r\n│┃║,; \t]{1,64}"
    r"|(?![,;] ?[A-Za-z_][\w.-]{0,64} ?[=:]|[ \t]#)[,; \t]){1,4096})"
)
_PLACEHOLDER: Final = re.compile(
    r"(?:%[sdr]|\{\w{0,64}\}|\$\{[^{}]{0,200}\}|\{\{[^{}]{0,200}\}\}|\$\([^()\n]{0,200}\)|<[^<>\s]{0,64}>|%\(\w{1,64}\)s"
    r"|[$*][A-Za-z_]\w{0,80})(?=[\"'\s,;)}\]&/:.]|\Z)|(?:null|none|true|false)(?=[\"',;)}\]&]|\s*\Z)"
    r"|\*\*\*",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(
    r"(?P<open>[\[({])|(?P<close>[\])}])|\#[^\n]*|-[ \t]+"
    r"|(?<![:=])(?<![:=][ \t])(?<![:=][ \t]{2})(?P<begun>\\?[\"'])?(?P<key>[\w./-]{1,120})"
    r"(?(begun)(?P=begun))[ \t]{0,4}"
    r"(?:[?:+]?=>?(?![=,\])}]|[ \t]*(?:\r?\n|\Z))|:(?=[\s\"'\[{]))"
    r"|(?P<quote>\\?[\"'])(?P<text>(?:(?!(?P=quote))[^\r\n]){0,4096})(?P=quote)"
    r"|(?P<bare>[^\s,(){}\[\]\"'\\](?:[^,(){}\[\]\"'\\\n]){0,4096})"
)
_BRACKET: Final = re.compile(r"[\[\](){}]")
_NAME_WITH_LINES: Final = re.compile(
    r"[\"']?[ \t]{0,16}[:=][ \t]{0,16}(?P<block>[|>][-+\d]{0,3})?[ \t]{0,16}(?:#[^\n]*)?(?=\n)"
)
_VALUE_LINE: Final = re.compile(
    r"\n[ \t]{1,64}(?=\"[^\"\n]*\"[ \t]*,?\s|'[^'\n]*'[ \t]*,?\s|[^\s:\"'{\[#-]\S*[ \t]*(?:\n|\Z))"
)
_SECTION: Final = re.compile(
    r"^[ \t]*\[{1,2}(?P<name>[^\[\]=,\n]{1,200})\]{1,2}[^\n]*(?P<lines>(?:\n(?![ \t]*\[)[^\n]*)*)",
    re.MULTILINE,
)
_AMOUNT: Final = re.compile(r"[+<>~≈-]*\d[\d.,:/x%_-]*[A-Za-z%µ]{0,3}(?:/[A-Za-z]{1,5})?")
_MIXED: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.~+/=-]+", re.ASCII)
_TYPE: Final = re.compile(
    r"(?:(?:Optional|List|list|Sequence)\[)?(?:str|bytes|int|float|bool|object|Any|SecretStr|Path)"
)
_PUNCTUATION: Final = ".,;:!?)]} \t\"'"
_MIN_LIKELY_CHARS: Final = 6
_MIN_DIGITS: Final = 4
_MIN_MIXED_CHARS: Final = 8


def mask_named(text: str, rules: UserRules, *, is_prose: bool = False) -> str:
    """Return a text with the values of secret names masked.

    Args:
        text: The text.
        rules: Additional rules of the user.
        is_prose: Whether several words after a name are a sentence.
    """
    return apply_changes(text, TextParser(text, rules, is_prose=is_prose).changes())


class TextParser:
    """Parser that masks the values of secret names in a text.

    Args:
        text: The text.
        rules: Additional rules of the user.
        is_file: Whether values extend to the end of the line, and lines below a name belong to it.
        is_prose: Whether several words after a name are a sentence.
    """

    def __init__(
        self, text: str, rules: UserRules, *, is_file: bool = False, is_prose: bool = False
    ) -> None:
        self._text, self._rules = text, rules
        self._is_file, self._is_prose = is_file, is_prose
        self._unclosed = 0  # brackets before this position are not closed

    def changes(self) -> Iterator[Change]:
        """Yield the changes that mask secrets, not always in order."""
        text, at = self._text, 0
        if not (self._rules.names or may_name(text)):
            return
        if self._is_file:
            for section in _SECTION.finditer(text):
                if any(map(holds_secrets, re.split(r"[.\s:/\"']+", section["name"]))):
                    yield from self._mask_items(*section.span("lines"), Level.SURE, is_holder=True)
        for found in self._find_names():
            level = self._name_level(found)
            if found.start() >= at and level:
                for change in self._mask_after_name(found, level):
                    yield change
                    at = max(at, change[1])

    def _find_names(self) -> Iterator[re.Match[str]]:
        """Yield the names that may have a level."""
        text, end = self._text, 0
        if self._rules.names:
            yield from _NAME.finditer(text)
            return
        for place in name_positions(text):
            if place >= end:
                before = text[max(end, place - _MAX_LEAD_CHARS) : place]
                start = place - len(_NO_NAME.split(before)[-1])
                if found := _NAME.search(text, start, place + _NEAR_CHARS):
                    end = found.end()
                    yield found

    def _name_level(self, found: re.Match[str]) -> Level:
        """Return the level of a name with the word before it; a pad token is not a secret."""
        name = found["name"].replace(".", "_") if self._is_file else found["name"]
        level = self._rules.level(name)
        if level and not self._rules.is_declared(name):
            begin = found.start()
            if word := _WORD_BEFORE.search(self._text, max(0, begin - _MAX_LEAD_CHARS), begin):
                return self._rules.level(word[0] + name)
        return level

    def _mask_after_name(self, found: re.Match[str], level: Level) -> Iterator[Change]:
        """Yield the changes in the value of a name."""
        text, end, name = self._text, found.end(), found["name"]
        before = _LINE.split(text[max(0, found.start() - _MAX_LEAD_CHARS) : found.start()])[-1]
        lead = _LEAD.fullmatch(before)
        lines_below = _NAME_WITH_LINES.match(text, end) if self._is_file or self._is_prose else None
        sign = _SIGN.match(text, end)
        link: re.Match[str] | None = None
        is_sure, is_line = True, False
        if lines_below and lead:
            yield from self._mask_lines_below(lines_below, before, name, level)
        elif sign and sign["tagged"]:
            if self._is_secret(name, level, sign["tagged"], is_sure=True):
                yield *sign.span("tagged"), MASK
        elif _NAME_ENTRY.search(before) and (sibling := _SIBLING_VALUE.match(text, end)):
            link = sibling
        elif sign:
            link, is_sure = sign, self._is_sure(sign, before, name, is_start=bool(lead))
            is_wide = self._is_file or PASSWORD.search(name) is not None
            is_plain_line = lead is not None and before[-1:] not in ("'", '"')
            is_apart = sign["after"] != "" or (self._is_file and not self._is_prose)
            is_whole = (is_wide and is_apart) or (
                level is not Level.WEAK and _SINGLE_VALUE.match(text, sign.end()) is not None
            )
            is_line = is_sure and is_plain_line and is_whole
        elif found["dash"]:
            link = _OPTION.match(text, end)
        elif lead and lead["word"]:
            link = _BLANKS.match(text, end)
        if link:
            yield from self._mask_value(link.end(), name, level, is_sure=is_sure, is_line=is_line)

    def _is_sure(self, sign: re.Match[str], before: str, name: str, *, is_start: bool) -> bool:
        """Return whether a name and a sign have the form of a configuration or a command."""
        text, start, mark = self._text, sign.end(), sign["sign"]
        if before[-1:] in ("'", '"'):
            is_header = mark == ":" and _HEADER_VALUE.match(text, start)
            return sign["closed"] is not None or mark != ":" or is_header is not None
        if mark not in (":", "=", ":=", "?=", "+="):
            return mark == ">"
        if mark != ":" and not sign["blank"] and not sign["after"]:
            return True
        if is_start and (mark != ":" or sign["after"]):
            is_wide = self._is_file or PASSWORD.search(name) is not None
            return (is_wide and not self._is_prose) or _SINGLE_WORD.match(text, start) is not None
        flow = before.rstrip(" \t")[-1:]
        return flow == "{" or (flow in (",", "(") and text[start] in "\"'")

    # ---------------------------------------------------------------- values

    def _mask_value(
        self, start: int, name: str, level: Level, *, is_sure: bool, is_line: bool
    ) -> Iterator[Change]:
        """Yield the change that masks a value, or the changes inside it.

        Args:
            start: Start of the value.
            name: Name of the value.
            level: Level of the name.
            is_sure: Whether both have the form of a configuration or a command.
            is_line: Whether the value may have several words.
        """
        text = self._text
        if text[start] in "[{" or (text[start] == "(" and not self._is_file):
            held = self._mask_brackets(start, level, is_holder=self._rules.holds(name))
            if held is not None:
                yield from held
                return
        for stop in (start + _NEAR_CHARS, len(text)):  # examine a short part first
            begin, end = self._span(start, stop, is_line=is_line)
            if not self._is_secret(name, level, text[begin:end], is_sure=is_sure):
                return
        yield begin, end, mask_lines(text[begin:end])

    def _span(self, start: int, stop: int, *, is_line: bool) -> tuple[int, int]:
        """Return the span of a value, without punctuation at its end; empty for a placeholder."""
        text = self._text
        if found := _QUOTED.match(text, start, stop) or _UNCLOSED.match(text, start, stop):
            begin, end = found.span("value")
        elif found := (_WORDS if is_line else _BARE).match(text, start, stop):
            value = found["value"]
            ends = " \t\r,;\\" if is_line else ".,;:!?)]}"
            begin, end = start, start + (len(value.rstrip(ends)) or len(value))
        else:
            return start, start
        return begin, begin if _PLACEHOLDER.match(text, begin) else end

    def _is_secret(self, name: str, level: Level, value: str, *, is_sure: bool) -> bool:
        """Return whether a value is masked because of its name."""
        if is_empty(value) or is_masked(value) or MASK in value[:16]:
            return False
        bare = value.rstrip(_PUNCTUATION) or value
        if level is Level.WEAK or _TYPE.fullmatch(bare):
            return is_random(bare)
        if is_sure:
            return should_mask(level, value, text=True)
        if is_empty(bare):
            return False
        if level is Level.LIKELY:
            return len(bare) >= _MIN_LIKELY_CHARS and _MIXED.fullmatch(bare) is not None
        if PASSWORD.search(name) and not self._is_prose:
            return not is_harmless(bare) or (len(bare) >= _MIN_DIGITS and bare.isdigit())
        is_word = is_plain(bare) or (bare.isalpha() and (bare.islower() or bare.istitle()))
        return not (_AMOUNT.fullmatch(bare) or is_harmless(bare) or is_word)

    def _mask_brackets(self, start: int, level: Level, *, is_holder: bool) -> list[Change] | None:
        """Return the changes in the brackets that open at ``start``; None if they do not close."""
        if start < self._unclosed:
            return None
        depth, stop = 0, min(start + _MAX_BLOCK_CHARS, len(self._text))
        for found in _BRACKET.finditer(self._text, start, stop):
            depth += 1 if found[0] in "[({" else -1
            if not depth:
                return list(self._mask_items(start, found.end(), level, is_holder=is_holder))
        self._unclosed = stop
        return None

    def _mask_items(
        self, start: int, end: int, level: Level, *, is_holder: bool
    ) -> Iterator[Change]:
        """Yield the changes in the entries of a list or mapping."""
        is_fact = False
        for item in _ITEM.finditer(self._text, start, end):
            if item["key"]:
                is_fact = is_holder and is_plain_fact(item["key"])
            elif kind := "text" if item["quote"] else item["bare"] and "bare":
                value, begin = item[kind].rstrip(" \t\r;"), item.start(kind)
                is_mixed = len(value) >= _MIN_MIXED_CHARS and _MIXED.fullmatch(value) is not None
                is_number = is_harmless(value) and not (item["quote"] and value.isdigit())
                is_harmless_item = is_fact or is_empty(value) or is_number or is_masked(value)
                is_secret = should_mask(level, value, text=True) or (is_holder and is_mixed)
                if is_secret and not is_harmless_item and not _PLACEHOLDER.match(value):
                    yield begin, begin + len(value), MASK

    # ---------------------------------------------------------------- lines below a name

    def _mask_lines_below(
        self, found: re.Match[str], lead: str, name: str, level: Level
    ) -> Iterator[Change]:
        """Yield the changes in the lines that are indented below a name."""
        indent = len(lead.rstrip("\"'"))
        item = "" if "-" in lead else rf"|[ \t]{{{indent}}}-[ \t][^\n]*"
        region = re.compile(rf"(?:\n(?:[ \t]*(?=\n|\Z)|[ \t]{{{indent + 1},}}[^\n]*{item}))*")
        lines = region.match(self._text, found.end())
        start, end = lines.span() if lines else (0, 0)
        if found["block"] is not None and level is Level.SURE:
            yield start, end, mask_lines(self._text[start:end])
        elif holds_secrets(name):
            yield from self._mask_items(start, end, Level.SURE, is_holder=True)
        elif (
            self._is_file and not self._is_prose and (alone := _VALUE_LINE.match(self._text, start))
        ):
            yield from self._mask_value(alone.end(), name, level, is_sure=True, is_line=True)
