"""Secrets in text that is recorded in pieces: a piece alone does not show all of them.

What may be a part of a secret waits for the rest. A terminal also has colours and invisible signs
between a name and its value, or within a value: they are looked through.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from seamark.capture.secrets.names import Level, level, may_name
from seamark.capture.secrets.shapes import KEY_BEGINS, KEY_ENDS, KEY_SIGNS

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets

__all__ = ["hide", "unfinished_secret_from"]

_MAX_LINE: Final = 1 << 12
"""Maximum length of an unfinished line that is held back, in characters."""
_MAX_WORD: Final = 1 << 10
"""Maximum length of a last word that is held back, in characters: tokens of 1,000 are common."""
_MAX_KEY: Final = 1 << 14
"""Maximum length of a private key, in characters; a longer block is not a key."""
_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_BLANK: Final = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_UNSEEN: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_INVISIBLE: Final = re.compile(f"[{_BLANK}{_UNSEEN}]")
"""Characters that a terminal shows as nothing or as a blank, or that move the cursor."""
_BLANKS: Final = re.compile(f"[{_BLANK}]")
_UNSEENS: Final = re.compile(f"[{_UNSEEN}]")
_WORD: Final = re.compile(rf"(?<![\w.~+/=:@%-])[\w.~+/=:@%-]{{1,{_MAX_WORD}}}\Z")
_NAME: Final = re.compile(r"[\w-]+")
_BEGIN: Final = re.compile(KEY_BEGINS)
_END: Final = re.compile(KEY_ENDS)


def unfinished_secret_from(text: str, secrets: Secrets, *, is_quiet: bool = False) -> int:
    """Return where something begins that may become a secret with what follows; else the length.

    A private key waits for its end, and a line with a name of a secret for the end of the line. The
    last word, and the beginning of a known value, wait only as long as more comes (not
    ``is_quiet``): somebody may be shown them and wait, too.
    """
    start = len(text) if is_quiet else secrets.open_value_start(text)
    if not secrets.masked:
        return start
    line = max(text.rfind("\n"), text.rfind("\r")) + 1
    if len(text) - line <= _MAX_LINE and _may_name(text[line:], secrets):
        start = min(start, line)
    elif not is_quiet and (word := _WORD.search(text, max(line, len(text) - _MAX_WORD))):
        start = min(start, word.start())
    if any(map(text.__contains__, KEY_SIGNS)):
        for begun in _BEGIN.finditer(text):
            if len(text) - begun.start() <= _MAX_KEY and _END.search(text, begun.end()) is None:
                return min(start, begun.start())
    return start


def _may_name(line: str, secrets: Secrets) -> bool:
    if secrets.more.names or any(map(line.__contains__, KEY_SIGNS)):
        return bool(line)
    plain = _plain(line)
    names = map(level, _NAME.findall(plain))
    return may_name(plain) and any(one is not Level.NO for one in names)


def hide(text: str, secrets: Secrets) -> str:
    """Return text without secrets; a line with hidden text loses its colours."""
    if _INVISIBLE.search(text) is None:
        return secrets.printed(text)
    plain = _plain(text)
    hidden = secrets.printed(plain)
    if hidden == plain:
        return text
    # Lines in which nothing is hidden keep their colours.
    lines, was, now = (each.splitlines(keepends=True) for each in (text, plain, hidden))
    if not len(lines) == len(was) == len(now):
        return hidden
    each = zip(lines, was, now, strict=True)
    return "".join([line if before == after else after for line, before, after in each])


def _plain(text: str) -> str:
    """Return a text without invisible parts, so that a name and its value are adjacent."""
    if _INVISIBLE.search(text) is None:
        return text
    return _UNSEENS.sub("", _BLANKS.sub(" ", _ESCAPES.sub("", text)))
