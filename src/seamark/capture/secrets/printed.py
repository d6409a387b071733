"""Secrets in the output of a program, where a name and its value can be anywhere in a line.

A line of a log has a prefix, a message says ``Using token: X``, tables and lists put a name and its
values apart. Here much is printed that is no secret, and a log has to stay readable: numbers
stay, and words in small letters after anything but a password. Takes time in proportion to the
length of the text, whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from seamark.capture.secrets.masking import (
    MASK,
    PASSWORD,
    More,
    mask_authorization,
    mask_secrets,
)
from seamark.capture.secrets.names import (
    Level,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain,
    is_plain_fact,
    is_random,
    may_name,
)

__all__ = ["mask_printed"]

_GLANCE: Final = 256
_LONGEST: Final = 1 << 12
_BLOCK: Final = 1 << 13
_DRAWN_CHARS: Final = 16
_MIXED_CHARS: Final = 12
_MIN_DRAWN: Final = 8
_MIN_LIKELY: Final = 6
_MIN_NUMBER: Final = 4

# With the word before it: a pad token is none, an API key is one.
_NAME: Final = r"(?P<name>(?:[A-Za-z]{1,20} )?[A-Za-z_][\w.-]{0,120})"
_NAMED: Final = re.compile(
    rf"(?<![\w.-]){_NAME}[\"'\])]{{0,2}}(?: is| (?:for|of) [^\s:=]{{1,64}})?"
    r"(?P<sep>[ \t]{0,16}(?:=>|->|→|[:=!]?=|[:：])[ \t\v\f]{0,16})(?=[^\s,;)}\]/=])"  # noqa: RUF001
)
_SEPARATING: Final = (":", "=", "->", "→", "：")  # noqa: RUF001 - as Chinese text has it
_SETTING: Final = re.compile(
    r"(?<![\w.-])[\"']?(?:name|key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<name>[A-Za-z_][\w.-]{0,120})"
    r"[\"']?(?:\s{0,4},\s{0,32}|\s{0,4}\n[ \t]{0,32})[\"']?value[\"']?(?P<sep>\s{0,4}[:=]\s{0,4})"
)
_BORDER: Final = "│┃║|"
_CELLS: Final = re.compile(
    rf"(?:^|[{_BORDER}])[ \t]{{0,64}}"
    r"(?P<name>[A-Za-z_][\w.-]{0,64}(?: [A-Za-z_][\w.-]{0,64}){0,2})"
    rf"[ \t]{{0,64}}[{_BORDER}](?P<sep>[ \t]{{0,64}})(?=[^\s{_BORDER}])",
    re.MULTILINE,
)
# A table without borders.
_COLUMNS: Final = re.compile(
    r"^[ \t]{0,64}(?P<name>[A-Za-z_][\w.-]{0,64})(?P<sep>[ \t]{2,64})(?=\S{8})", re.MULTILINE
)
_CELL: Final = re.compile(rf"(?P<value>[^\r\n{_BORDER}]{{1,{_LONGEST}}})")
# What did not fit in a cell stands in the lines below, beside an empty one.
_FOLDED: Final = re.compile(
    rf"[^\r\n]{{0,{_LONGEST}}}\r?\n(?:[ \t]{{0,64}}[{_BORDER}])?[ \t]{{1,256}}[{_BORDER}]"
    rf"[ \t]{{0,64}}(?P<value>[^\s{_BORDER}][^\r\n{_BORDER}]{{0,{_LONGEST}}})"
)
_HOLDING: Final = re.compile(
    r"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,120})\\?[\"']?"
    r"[ \t]{0,16}[:=][ \t]{0,16}(?P<open>[\[{(])"
)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_STRING: Final = re.compile(
    r"(?P<quote>\\?[\"'])(?P<value>(?:(?!(?P=quote))(?:\\.|[^\\])){1,4096})(?P=quote)"
    r"(?P<names>\s{0,4}:)?"
)
_QUOTED: Final = re.compile(
    r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\?[\"'])"
    rf"(?P<value>(?:(?!(?P=quote))(?:\\.|[^\\\r\n])){{1,{_LONGEST}}})"
)
_BRACKETED: Final = re.compile(r"[\[({](?P<value>[^\s\[\](){}\"',:=]{1,256})[\])}]")
_BARE: Final = re.compile(
    rf"(?![\[({{])(?P<value>(?:(?![&;#,][A-Za-z_][\w.-]{{0,64}}=)[^\s\"'{_BORDER}])+)"
)
# Passwords alone are made of several words.
_WORDS: Final = re.compile(
    r"(?![\[({\"'])(?P<value>(?:(?![,;] ?[A-Za-z_][\w.-]{0,64} ?[=:])"
    rf"[^\r\n{_BORDER}]){{1,1024}})"
)
_AMOUNT: Final = re.compile(r"[+<>~≈-]*\d[\d.,:/x%_-]*[A-Za-z%µ]{0,3}(?:/[A-Za-z]{1,5})?")
_MIXED: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.~+/=-]+", re.ASCII)
_TYPE: Final = re.compile(
    r"(?:(?:Optional|List|list|Sequence)\[)?(?:str|bytes|int|float|bool|object|Any|SecretStr|Path)"
)
_SOURCE: Final = re.compile(
    r"^(?P<where>[ \t|+]{0,64}File \"[^\"\r\n]{1,4096}\", line \d{1,9}[^\r\n]*\r?\n)"
    r"(?P<code>(?: {4}[^\r\n]*(?:\r?\n|\Z)){1,64})",
    re.MULTILINE,
)


def mask_printed(text: str, more: More) -> str:
    """Return output without the values that follow secret names anywhere in it.

    Known values and shapes, and what stands as in a configuration, is for
    `seamark.capture.secrets.masking.mask_value` to hide.

    Args:
        text: Without control characters.
        more: What a person says is a secret.
    """
    if not (more.names or may_name(text)):
        return text
    if ":" in text:
        text = mask_authorization(text)
    if 'File "' in text:
        text = _SOURCE.sub(lambda found: found["where"] + _code(found["code"], more), text)
    if any(sign in text for sign in _SEPARATING):
        if "[" in text or "{" in text or "(" in text:
            text = _without(text, _held(text, more))
        if "value" in text:
            text = _without(text, _values(text, _SETTING, more))
        text = _without(text, _values(text, _NAMED, more))
    if any(border in text for border in _BORDER):
        text = _without(text, _cells(text, more))
    return _without(text, _columns(text, more)) if "  " in text or "\t" in text else text


def _code(text: str, more: More) -> str:
    return mask_secrets(text, environment={}, more=more, code=True)


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Hide parts of a text, which are given in order."""
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], MASK]
        done = end
    return "".join(parts) + text[done:] if parts else text


def _values(text: str, names: re.Pattern[str], more: More) -> Iterator[tuple[int, int]]:
    """Yield where the values of secret names are."""
    done = 0
    for found in names.finditer(text):
        start, name = found.end(), found["name"]
        if start < done or (level := _level(name, more)) is Level.NO:
            continue
        value = _value(text, start, start + _GLANCE, name, found["sep"])
        if value is None or not _hides(level, name, value["value"], blank=found["sep"] != ":"):
            continue
        value = _value(text, start, len(text), name, found["sep"]) or value  # all of it
        begin = value.start("value")
        done = begin + len(_bare(value["value"]))
        yield begin, done


def _cells(text: str, more: More) -> Iterator[tuple[int, int]]:
    """Yield where the values are that stand in a cell beside their name."""
    done = 0
    for found in _CELLS.finditer(text):
        name = found["name"]
        if found.start() < done or (level := _level(name, more)) is Level.NO:
            continue
        value = _CELL.match(text, found.end())
        if value is None or not _hides(level, name, value["value"].strip(), blank=True):
            continue
        while value is not None:
            begin = value.start("value")
            yield begin, begin + len(value["value"].rstrip())
            done = value.end()
            value = _FOLDED.match(text, done)


def _columns(text: str, more: More) -> Iterator[tuple[int, int]]:
    """Yield where drawn values are that stand beside their name in a table without borders."""
    for found in _COLUMNS.finditer(text):
        if _level(found["name"], more) is Level.SURE:
            value = _BARE.match(text, found.end())
            if value and len(value["value"]) >= _MIN_DRAWN and _MIXED.fullmatch(value["value"]):
                yield value.span("value")


def _held(text: str, more: More) -> Iterator[tuple[int, int]]:
    """Yield where the strings are in lists and mappings whose name says that they are secret."""
    done = 0
    for found in _HOLDING.finditer(text):
        start, name = found.end(), found["name"]
        if start < done or (level := _level(name, more)) is Level.NO:
            continue
        is_mapping = found["open"] == "{"
        if is_mapping and not (level is Level.SURE or holds_secrets(name)):
            continue
        end = text.find(_CLOSING[found["open"]], start, start + _BLOCK)
        done = start + _BLOCK if end < 0 else end
        key = ""
        for string in _STRING.finditer(text, start, done):
            value = "".join(string["value"].split())  # it may be folded
            if string["names"]:
                key = value
            elif value.startswith(MASK) or is_empty(value) or is_harmless(value):
                pass
            elif (is_mapping and not (key and is_plain_fact(key))) or (
                not is_mapping and (level is Level.SURE or _is_random(value))
            ):
                yield string.span("value")


def _level(name: str, more: More) -> Level:
    """Return the level of a name of one or more words."""
    name = name.removesuffix(" is")
    last = name.rpartition(" ")[2]
    return Level.SURE if more.names_it(last) else more.parameter_level(name)


def _value(text: str, start: int, stop: int, name: str, sep: str) -> re.Match[str] | None:
    stop = min(stop, len(text))
    value = _QUOTED.match(text, start, stop) or _BRACKETED.match(text, start, stop)
    if value is None and sep[-1:].isspace() and PASSWORD.search(name):
        value = _WORDS.match(text, start, stop)
    return value or _BARE.match(text, start, stop)


def _bare(value: str) -> str:
    """Return a value without the punctuation that ends it."""
    return value.rstrip(".,;:!?)]} \t\"'") or value


def _hides(level: Level, name: str, value: str, *, blank: bool) -> bool:
    """Return whether a value is hidden for its name.

    Args:
        level: Of the name.
        name: The name.
        value: Its value, or the first of it.
        blank: More than a colon stands between them.
    """
    value = _bare(value)
    if MASK in value[:16] or is_empty(value) or _TYPE.fullmatch(value):
        return False
    if level is Level.WEAK:
        return is_random(value, _DRAWN_CHARS)
    if level is Level.LIKELY:
        return len(value) >= _MIN_LIKELY and _MIXED.fullmatch(value) is not None
    if PASSWORD.search(name):
        return blank or not is_plain(value) if not is_harmless(value) else _is_number(value)
    return not (_AMOUNT.fullmatch(value) or is_harmless(value) or _is_word(value))


def _is_number(value: str) -> bool:
    return len(value) >= _MIN_NUMBER and value.isdigit()


def _is_word(value: str) -> bool:
    """Return whether a value is a word as in a sentence: ``missing``, ``Hello``."""
    return is_plain(value) or (value.isalpha() and (value.islower() or value.istitle()))


def _is_random(value: str) -> bool:
    """Return whether an element of a list of words looks drawn."""
    return is_random(value, _DRAWN_CHARS) or (
        len(value) >= _MIXED_CHARS and _MIXED.fullmatch(value) is not None
    )
