"""Terminal emulation for output that overwrites its own lines.

A progress bar returns to the start of its line many times a second; Rich and nested bars move up
over several lines. `collapse` removes overwritten states. `Terminal` returns the finally visible
lines: it emulates a screen of `ROWS` rows of unlimited width with one cell for each character, on
which a line feed includes a carriage return. Both take linear time for any text.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import groupby, islice, pairwise, takewhile, zip_longest
from operator import itemgetter
from typing import Final, NamedTuple

ROWS: Final = 200
"""Rows of the screen: the cursor can move up this far, to lines that are not final."""

_MAX_COLUMN: Final = 1000
"""Rightmost column that the cursor can move to; text may extend beyond it."""
_MAX_LINE_CHARS: Final = 1 << 16
"""Maximum number of characters shown of a line, followed by the number of omitted ones."""
_TAB_WIDTH: Final = 8
_TOKEN: Final = re.compile(
    r"""(?P<text>[^\x00-\x1f\x7f-\x9f]+)
      | (?P<newline>[\n\v\f])
      | (?P<return>\r+)
      | (?P<back>\x08+)
      | (?P<tab>\t+)
      | \x1b\[ (?P<args>[0-9:;]*) (?P<control>[@-~])
      | \x1b\[ [0-?]* [\ -/]* [@-~]
      | (?P<other> \x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)? | \x1b[\ -/]*[0-Z\\^-~] | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_RETURN: Final = re.compile(r"\r(?!\n)")
_STYLE: Final = re.compile(r"\x1b\[[0-9;:]*m")
_ERASURE: Final = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
"""Control sequence that Rich writes before each new frame of its bars."""
_NOT_PLAIN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def collapse(text: str) -> str:
    r"""Remove states of progress bars that were overwritten within a text.

    These are states of a line that begin with ``\r`` and are covered by a later state, and frames
    of several lines that Rich erased; other cursor movements are unchanged. The collapsed texts
    look the same on a terminal as the original stream, wherever it was split. The result is the
    text itself if nothing is removed.
    """
    if _RETURN.search(text) is None:
        return text
    lines = [_remove_covered_states(line) for line in _remove_frames(text).split("\n")]
    collapsed = "\n".join(lines)
    return collapsed if len(collapsed) < len(text) else text


def stripped(text: str) -> str:
    """Return the text that a terminal finally shows, without colours; see `Terminal`."""
    terminal = Terminal()
    lines = [line.text for line in terminal.feed(text)]
    return "\n".join([*lines, *(line.text for line in terminal.close())])


def _remove_frames(text: str) -> str:
    """Reduce each frame that Rich erased to its newlines."""
    erasures = list(_ERASURE.finditer(text))
    if not erasures:
        return text
    kept = [text[: erasures[0].start()]]
    for erasure, following in pairwise(erasures):
        frame = text[erasure.end() : following.start()]
        height, style = frame.count("\n"), _style_after(frame)
        if style is not None and height <= min(following[0].count("A"), ROWS - 1):
            frame = "\n" * height + style
        kept += [erasure[0], frame]
    kept.append(text[erasures[-1].start() :])
    return "".join(kept)


def _remove_covered_states(line: str) -> str:
    """Remove each state of a line that a later state covers completely."""
    first, *states = line.split("\r")
    kept: list[str] = []
    covered = -1  # number of columns that later states certainly overwrite
    for state in reversed(states):
        style, width = _style_after(state), len(_STYLE.sub("", state))
        if style is None:
            covered = -1
        elif width <= covered:
            if not kept[-1].startswith(style):
                kept[-1] = style + kept[-1]
            continue
        else:
            covered = width
        kept.append(state)
    return "\r".join([first, *reversed(kept)])


def _style_after(text: str) -> str | None:
    """Return the colours after a text; None if it contains more than coloured text."""
    if _NOT_PLAIN.search(_STYLE.sub("", text)):
        return None
    last = next(iter(_STYLE.findall(text)[-1:]), "")
    return last if last in {"", "\x1b[m", "\x1b[0m"} else None


# -------------------------------------------------------------------- final lines


class Line(NamedTuple):
    """Line in its final state; ``at`` is the time of its last change.

    Its only control characters are requested colours, which are reset at its end.
    """

    text: str
    at: float


class Terminal:
    """Emulator that converts output to lines, in order.

    Only text and colours are returned. Sequences that set a title, write to the clipboard, query
    the terminal or address the whole screen are left out, and also blanks at the end of a line. The
    last `ROWS` lines can still change.
    """

    def __init__(self, *, colours: bool = False) -> None:
        self._colours = colours
        self._rows: deque[_Row] = deque([_Row(0.0)])
        self._row = self._column = 0
        self._style = ""
        self._attributes: dict[str, str] = {}
        self._finished: list[Line] = []
        self._at = 0.0

    def feed(self, text: str, at: float = 0.0) -> list[Line]:
        """Print a text at a time, and return the lines that can no longer change."""
        self._at = at
        for token in _TOKEN.finditer(text):
            self._print(token)
        finished, self._finished = self._finished, []
        return finished

    def settle(self, before: float) -> list[Line]:
        """Return new lines above the cursor, up to the first line that changed since a time."""
        rows = takewhile(lambda row: row.at < before, islice(self._rows, self._row))
        return [line for row in rows for line in row.take()]

    def live(self) -> list[Line]:
        """Return the lines that can still change, without empty lines at the end."""
        lines = [line for row in self._rows for line in row.take(repeat=True)]
        while lines and not lines[-1].text:
            lines.pop()
        return lines

    def close(self) -> list[Line]:
        """Return the remaining lines, and reset the screen."""
        left = self.live()
        self._rows = deque([_Row(0.0)])
        self._row = self._column = 0
        return left

    def _print(self, token: re.Match[str]) -> None:
        kind, size = token.lastgroup, len(token[0])
        if kind == "text":
            self._rows[self._row].write(token[0], self._column, self._style, self._at)
            self._column += size
        elif kind == "newline":
            self._start_line()
        elif kind == "return":
            self._column = 0
        elif kind == "back":
            self._column = max(0, self._column - size)
        elif kind == "tab":
            self._column = (self._column // _TAB_WIDTH + size) * _TAB_WIDTH
        elif kind == "control":
            self._execute(token["control"], token["args"])

    def _execute(self, control: str, args: str) -> None:
        first = args.partition(";")[0][:9]
        amount = max(1, int(first)) if first.isdecimal() else 1
        if control == "m" and self._colours:
            self._style = _update_style(self._attributes, args)
        elif control in "G`":
            self._column = min(amount, _MAX_COLUMN) - 1
        elif control == "D":
            self._column = max(0, self._column - amount)
        elif control in "Ca":
            self._column = max(self._column, min(self._column + amount, _MAX_COLUMN - 1))
        elif control in "AF":
            self._row = max(0, self._row - amount)
        elif control in "BEe":
            self._row = min(ROWS - 1, self._row + amount)
        elif control == "K":
            self._rows[self._row].erase(args or "0", self._column, self._at)
        if control in "EF":
            self._column = 0
        self._add_rows()

    def _start_line(self) -> None:
        self._column = 0
        self._row += 1
        if self._row == ROWS:
            self._row -= 1
            self._finished += self._rows.popleft().take()
        self._add_rows()

    def _add_rows(self) -> None:
        while self._row >= len(self._rows):
            self._rows.append(_Row(self._at))


class _Row:
    """Row of the screen: its text, and the colours of each cell."""

    __slots__ = ("_end", "_returned", "_styles", "_text", "at")

    def __init__(self, at: float) -> None:
        self._text = ""
        self._styles: list[str] = []
        self._returned: str | None = None
        self._end = 0
        self.at = at

    def write(self, text: str, column: int, style: str, at: float) -> None:
        self.at = at
        self._end = max(self._end, column + len(text))
        text = text[: max(0, _MAX_LINE_CHARS - column)]
        if not text:
            return
        if style or self._styles:
            self._styles += [""] * (column - len(self._styles))
            self._styles[column : column + len(text)] = [style] * len(text)
        before, after = self._text[:column], self._text[column + len(text) :]
        self._text = f"{before:<{column}}{text}{after}" if column else text + after

    def erase(self, how: str, column: int, at: float) -> None:
        """Erase the cells from a column on ("0"), up to the column ("1"), or all cells ("2")."""
        if how not in {"0", "1", "2"}:
            return
        self.at = at
        if how == "1":
            blanks = min(column + 1, len(self._text))
            self._text = " " * blanks + self._text[blanks:]
            self._styles[:blanks] = [""] * min(blanks, len(self._styles))
            return
        self._end = min(self._end, column if how == "0" else 0)
        self._text = self._text[: self._end]
        del self._styles[self._end :]

    def take(self, *, repeat: bool = False) -> list[Line]:
        """Return the row if it has changed; with ``repeat``, the next call returns it again."""
        text, given = self._rendered_text(), self._returned
        self._returned = given if repeat else text
        return [] if text == given else [Line(text, self.at)]

    def _rendered_text(self) -> str:
        text = self._text.rstrip(" ")
        if any(self._styles):
            parts = groupby(
                zip_longest(self._styles[: len(text)], text, fillvalue=""), itemgetter(0)
            )
            text = "".join(
                _add_colour(style, "".join(one for _, one in same)) for style, same in parts
            )
        more = self._end - _MAX_LINE_CHARS
        return f"{text}… ({more:,} characters more)" if more > 0 else text


def _add_colour(style: str, text: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


_STYLE_ATTRIBUTES: Final = {
    **dict.fromkeys((1, 2, 22), "weight"),
    **dict.fromkeys((3, 23), "italic"),
    **dict.fromkeys((4, 21, 24), "underline"),
    **dict.fromkeys((7, 27), "inverse"),
    **dict.fromkeys((9, 29), "strike"),
    **dict.fromkeys((*range(30, 40), *range(90, 98)), "colour"),
    **dict.fromkeys((*range(40, 50), *range(100, 108)), "background"),
}
"""Attributes set by the codes of a colour sequence, without blinking and hidden text."""

_RESET_CODES: Final = frozenset({22, 23, 24, 27, 29, 39, 49})
_STYLE_CODE: Final = re.compile(
    r"(?P<code>[0-9]{1,4})"
    r"(?P<colour>(?<=[34]8)[;:](?:5[;:][0-9]{1,3}|2[;:]:?[0-9]{1,3}(?:[;:][0-9]{1,3}){2}))?[0-9:]*"
)


def _update_style(settings: dict[str, str], args: str) -> str:
    given = ";".join(one or "0" for one in args[:256].split(";"))
    for found in _STYLE_CODE.finditer(given):
        code, colour = int(found["code"]), (found["colour"] or "").replace("::", ":")
        if not code:
            settings.clear()
        elif code in _RESET_CODES:
            settings.pop(_STYLE_ATTRIBUTES[code], None)
        elif code in _STYLE_ATTRIBUTES and (colour or code not in {38, 48}):
            settings[_STYLE_ATTRIBUTES[code]] = f"{code}{colour}".replace(":", ";")
    return ";".join(settings.values())
