"""Secrets in a text that is recorded in pieces: a piece alone does not show all of them.

Each point is masked by itself where it is recorded. Two things are seen here in addition. What a
line began with in the piece before may name what follows (``token=``, and the value a second
later), or be its beginning. And colours stand between a name and its value, or touch a value, on
terminals alone (Rich does both): they are looked through.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from seamark.capture.secrets.secrets import BY_NAME, BY_VALUE
from seamark.capture.secrets.shapes import KEY_BEGINS, KEY_ENDS, KEY_SIGNS, MASK
from seamark.pictures.terminal import stripped

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets

__all__ = ["Hiding"]

_BEFORE: Final = 512
"""How much of an unfinished line is kept, in characters."""
_KEY: Final = 1 << 14
"""The longest private key, in characters: what never ends is none."""
_MARKER: Final = 128
"""How much of a key is kept, in which its last line may have begun."""
_WHOLE: Final = (BY_NAME, BY_VALUE)
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
_ODD: Final = re.compile(f"[{_BLANK}{_UNSEEN}]")
"""What is not seen on a terminal, or as a blank, or moves about."""
_BLANKS: Final = re.compile(f"[{_BLANK}]")
_UNSEENS: Final = re.compile(f"[{_UNSEEN}]")
_LINE: Final = re.compile(r"[^\r\n]*")
_BEGIN: Final = re.compile(KEY_BEGINS)
_END: Final = re.compile(KEY_ENDS)


class Hiding:
    """Hides secrets that are spread over several pieces of one stream.

    Args:
        secrets: What is hidden.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._before = ""
        self._key = 0

    def hide(self, text: str) -> str:
        """Return what is recorded of the next piece; what it shows by itself may still be in it."""
        head = self._head(text)
        kept = self._continued(text[:head]) + self._alone(text[head:])
        self._remember(text)
        for whole in _WHOLE:  # what begins so is taken for hidden as it is
            if kept.startswith(whole):
                return whole + self._secrets.printed(kept[len(whole) :])
        return kept

    def open_value_start(self, text: str) -> int:
        """Return where a known value begins that a text ends in the middle of; else its length.

        Args:
            text: What follows on what was given to `hide`.
        """
        return self._secrets.open_value_start(text)

    def _head(self, text: str) -> int:
        """Return the length of the text that continues the remembered line or key."""
        before = self._before
        if not before:
            return 0
        found = _LINE.match(text)
        line = found.end() if found else 0
        begun = _last_open_key(before + text[:line])
        if begun is None:
            return line
        ended = _END.search(before + text, begun.end())
        return min(self._key or _KEY, len(text)) if ended is None else ended.end() - len(before)

    def _continued(self, text: str) -> str:
        """Hide text that continues a remembered line or key, which is already recorded."""
        if not text:
            return ""
        before, plain = self._before, _plain(text)
        joined = before + plain
        hidden = self._secrets.printed(joined)
        if hidden == joined:
            return text
        if hidden.startswith(before):
            return hidden[len(before) :]
        # It began before. How much of the end is as it was?
        same = 0
        while same < min(len(hidden), len(plain)) and hidden[-1 - same] == plain[-1 - same]:
            same += 1
        return text if same == len(plain) else MASK + plain[len(plain) - same :]

    def _alone(self, text: str) -> str:
        """Hide secrets that colour codes conceal; a line with hidden text loses its colours."""
        if _ODD.search(text) is None:
            return self._secrets.printed(text)
        if "\b" in text:
            text = "".join(map(self._overwritten, text.splitlines(keepends=True)))
        plain = _plain(text)
        hidden = self._secrets.printed(plain)
        if hidden == plain:
            return text
        # Lines in which nothing is hidden keep their colours.
        lines = [each.splitlines(keepends=True) for each in (text, plain, hidden)]
        if len({len(each) for each in lines}) > 1:
            return hidden
        return "".join([line if was == now else now for line, was, now in zip(*lines, strict=True)])

    def _overwritten(self, line: str) -> str:
        """Hide secrets that appear when a line is overwritten."""
        if "\b" not in line:
            return line
        end = line[len(line.rstrip("\r\n")) :]
        shown = stripped(line[: len(line) - len(end)])
        hidden = self._secrets.printed(_plain(shown))
        return line if hidden == _plain(shown) else hidden + end

    def _remember(self, text: str) -> None:
        """Remember the text that the next piece continues: an unfinished line, or a key."""
        plain = _plain(text)
        joined = self._before + plain
        if (begun := _last_open_key(joined)) is not None:
            self._key = self._key - len(plain) if self._key else _KEY
            if self._key > 0:
                self._before = f"{begun[0]}\n{joined[begun.end() :][-_MARKER:]}"
                return
        self._key = 0
        start = max(joined.rfind("\n"), joined.rfind("\r")) + 1
        self._before = joined[start:][-_BEFORE:]


def _last_open_key(text: str) -> re.Match[str] | None:
    """Return where a private key begins that does not end in the text, or None."""
    begun = None
    if any(map(text.__contains__, KEY_SIGNS)):
        for begun in _BEGIN.finditer(text):  # noqa: B007 - the last one
            pass
    return begun if begun and _END.search(text, begun.end()) is None else None


def _plain(text: str) -> str:
    """Return a text without invisible parts, so that a name and its value are adjacent."""
    if _ODD.search(text) is None:
        return text
    return _UNSEENS.sub("", _BLANKS.sub(" ", _ESCAPES.sub("", text)))
