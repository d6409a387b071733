"""Masking of secrets in text that is recorded in pieces.

Text that may be part of a secret waits for the rest. Terminal output may contain colours and
invisible characters between a name and its value or within a value; they are ignored.
"""

from __future__ import annotations

import re
from typing import Final

from seamark.capture.secrets import Secrets
from seamark.capture.secrets.names import Level, level, may_name
from seamark.capture.secrets.shapes import KEY_BEGINS, KEY_ENDS, KEY_SIGNS

_MAX_HELD_LINE: Final = 1 << 12
"""Maximum length of an unfinished line that is held back, in characters."""
_MAX_HELD_WORD: Final = 1 << 10
"""Maximum length of a last word that is held back, in characters: tokens of 1,000 are common."""
_MAX_KEY: Final = 1 << 14
"""Maximum length of a private key, in characters; a longer block is not a key."""
_ESCAPES: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_WIDE_BLANKS: Final = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_ZERO_WIDTH: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_SPECIAL_CHARS: Final = re.compile(f"[{_WIDE_BLANKS}{_ZERO_WIDTH}]")
"""Characters that are invisible or blank in a terminal, or that move the cursor."""
_INVISIBLE: Final = re.compile(f"{_ESCAPES}|[{_ZERO_WIDTH}]")
_BLANK_CHARS: Final = re.compile(f"[{_WIDE_BLANKS}]")
_WORD: Final = re.compile(rf"(?<![\w.~+/=:@%-])[\w.~+/=:@%-]{{1,{_MAX_HELD_WORD}}}\Z")
_NAME: Final = re.compile(r"[\w-]+")
_KEY_BEGIN: Final = re.compile(KEY_BEGINS)
_KEY_END: Final = re.compile(KEY_ENDS)


def unfinished_secret_from(text: str, secrets: Secrets, *, is_quiet: bool = False) -> int:
    """Return the start of text that may become part of a secret, or the length.

    A private key waits for its end, and a line with the name of a secret for the end of the line.
    The last word and the beginning of a known value wait only while more text arrives (not
    ``is_quiet``), because they may be a prompt.
    """
    start = len(text) if is_quiet else secrets.open_value_start(text)
    if not secrets.masked:
        return start
    line = max(text.rfind("\n"), text.rfind("\r")) + 1
    if len(text) - line <= _MAX_HELD_LINE and _may_name_secret(text[line:], secrets):
        start = min(start, line)
    elif not is_quiet and (word := _WORD.search(text, max(line, len(text) - _MAX_HELD_WORD))):
        start = min(start, word.start())
    if any(map(text.__contains__, KEY_SIGNS)):
        for begin in _KEY_BEGIN.finditer(text):
            if len(text) - begin.start() <= _MAX_KEY and _KEY_END.search(text, begin.end()) is None:
                return min(start, begin.start())
    return start


def _may_name_secret(line: str, secrets: Secrets) -> bool:
    if secrets.rules.names or any(map(line.__contains__, KEY_SIGNS)):
        return bool(line)
    plain = _visible_text(line)
    names = map(level, _NAME.findall(plain))
    return may_name(plain) and any(one is not Level.NO for one in names)


def hide(text: str, secrets: Secrets) -> str:
    """Return text with secrets masked; a line with masked text loses its colours."""
    plain = _visible_text(text)
    masked = secrets.printed(plain)
    if masked == plain:
        return text
    # Lines without secrets keep their colours.
    lines, plain_lines, masked_lines = (
        each.splitlines(keepends=True) for each in (text, plain, masked)
    )
    if not len(lines) == len(plain_lines) == len(masked_lines):
        return masked
    each = zip(lines, plain_lines, masked_lines, strict=True)
    return "".join([line if before == after else after for line, before, after in each])


def _visible_text(text: str) -> str:
    """Return a text without invisible parts, so that a name and its value are adjacent."""
    if _SPECIAL_CHARS.search(text) is None:  # most text; a tenth of the time of what follows
        return text
    return _BLANK_CHARS.sub(" ", _INVISIBLE.sub("", text))
