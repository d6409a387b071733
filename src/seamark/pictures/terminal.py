"""Terminal emulation for output that overwrites its own lines, which yields their last state.

A progress bar returns to the start of its line many times a second; Rich and nested bars move up
over several lines. `collapse` removes overwritten states. `Terminal` returns the lines that one
would see: it emulates a screen of `ROWS` rows as wide as its lines are, on which a line feed also
returns the carriage, with one cell for each character. Both are linear in the text, hostile or not.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

__all__ = ["ROWS", "Terminal", "collapse", "stripped"]

ROWS: Final = 200
"""Rows of the screen: how far up the cursor can go, to lines that are not final yet."""

_WIDEST: Final = 1000
"""Columns that the cursor can be sent to; text may reach farther."""
_LONGEST: Final = 1 << 16
"""Characters of a line that are shown; then it says how many there are more."""
_TAB: Final = 8
_TOKEN: Final = re.compile(
    r"""(?P<text>[^\x00-\x1f\x7f-\x9f]+)
      | (?P<newline>[\n\v\f])
      | (?P<return>\r+)
      | (?P<back>\x08+)
      | (?P<tab>\t+)
      | \x1b\[ (?P<args>[0-?]*) (?P<between>[\ -/]*) (?P<control>[@-~])
      | (?P<other> \x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)? | \x1b[\ -/]*[0-Z\\^-~] | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_RETURN: Final = re.compile(r"\r(?!\n)")
_STYLE: Final = re.compile(r"\x1b\[[0-9;:]*m")
_ERASURE: Final = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
"""What Rich writes before each new frame of its bars."""
_NOT_PLAIN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def collapse(text: str) -> str:
    r"""Remove states of progress bars that were overwritten within a text.

    These are states of a line that begin with ``\r`` and are covered by a later one, and frames of
    several lines that are erased as Rich does it; other moves of the cursor stay as they are.
    Wherever a stream is cut into texts, the collapsed ones look on a terminal as the stream does.
    The result is the text itself if nothing is removed.
    """
    if _RETURN.search(text) is None:
        return text
    lines = [_last_states(line) for line in _without_frames(text).split("\n")]
    less = "\n".join(lines)
    return less if len(less) < len(text) else text


def stripped(text: str) -> str:
    """Return a text as a terminal finally shows it, without colours; see `Terminal`."""
    terminal = Terminal()
    lines = [line.text for line in terminal.feed(text)]
    return "\n".join([*lines, *(line.text for line in terminal.close())])


def _without_frames(text: str) -> str:
    """Leave only the newlines of each frame that Rich has erased."""
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


def _last_states(line: str) -> str:
    """Remove each state of a line of which a later one covers every column."""
    first, *states = line.split("\r")
    kept: list[str] = []
    covered = -1  # columns from the left that the states after this one certainly overwrite
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
    """Return the colours that a text leaves on; None if it does more than show coloured text."""
    if _NOT_PLAIN.search(_STYLE.sub("", text)):
        return None
    last = next(iter(_STYLE.findall(text)[-1:]), "")
    return last if last in {"", "\x1b[m", "\x1b[0m"} else None


# -------------------------------------------------------------------- for reading


class Line(NamedTuple):
    """A line as a terminal shows it in the end; ``at`` is the time when it changed last.

    It has no control characters but escape sequences of wanted colours, none left on at its end.
    """

    text: str
    at: float


class Terminal:
    """Makes lines of the output, in order.

    Only text and colours come out: what sets a title, writes to the clipboard, asks the terminal
    something or moves about the whole screen is left out. So are blanks at the end of a line. Lines
    can still change in the last ``rows``.
    """

    def __init__(self, *, colours: bool = False, rows: int = ROWS) -> None:
        self._colours = colours
        self._height = rows
        self._rows: deque[_Row] = deque([_Row(0.0)])
        self._row = self._column = 0
        self._style = ""
        self._set: dict[str, str] = {}
        self._finished: list[Line] = []
        self._at = 0.0

    def feed(self, text: str, at: float = 0.0) -> list[Line]:
        """Print a text at a time, and return the lines that cannot change any more."""
        self._at = at
        if _NOT_PLAIN.search(text) is None:
            self._plain(text)
        else:
            for token in _TOKEN.finditer(text):
                self._token(token)
        finished, self._finished = self._finished, []
        return finished

    def settle(self, before: float) -> list[Line]:
        """Return the new lines above the cursor up to the first that changed since a time."""
        settled: list[Line] = []
        for row in islice(self._rows, self._row):
            if row.at >= before:
                break
            settled += row.given(colours=self._colours)
        return settled

    def live(self) -> list[Line]:
        """Return the lines that can still change, without empty lines at the end."""
        lines = [line for row in self._rows for line in row.given(colours=self._colours, now=False)]
        while lines and not lines[-1].text:
            lines.pop()
        return lines

    def close(self) -> list[Line]:
        """Return the lines that are left, and begin anew."""
        left = self.live()
        self._rows = deque([_Row(0.0)])
        self._row = self._column = 0
        return left

    def _plain(self, text: str) -> None:
        first, *others = text.split("\n")
        self._write(first)
        for line in others:
            self._newline()
            self._write(line)

    def _token(self, token: re.Match[str]) -> None:
        kind = token.lastgroup
        if kind == "text":
            self._write(token[0])
        elif kind == "newline":
            self._newline()
        elif kind in _ASIDE:
            self._column = _ASIDE[kind](self._column, len(token[0]))
        elif kind == "control" and _is_simple(token):
            self._control(token)

    def _control(self, token: re.Match[str]) -> None:
        control = token["control"]
        if control == "m":
            if self._colours:
                self._style = _styled(self._set, token["args"])
        elif control in "CaDG`":
            self._column = _aside(control, self._column, _amount(token))
        elif control in "AF":
            self._row = max(0, self._row - _amount(token))
        elif control in "BEe":
            self._row = min(self._height - 1, self._row + _amount(token))
            while self._row >= len(self._rows):
                self._rows.append(_Row(self._at))
        elif control == "K":
            self._rows[self._row].erase(token["args"] or "0", self._column, self._at)
        if control in "EF":
            self._column = 0

    def _write(self, text: str) -> None:
        if text:
            self._rows[self._row].write(text, self._column, self._style, self._at)
            self._column += len(text)

    def _newline(self) -> None:
        self._column = 0
        if self._row < self._height - 1:
            self._row += 1
        else:
            self._finished += self._rows.popleft().given(colours=self._colours)
        if self._row >= len(self._rows):
            self._rows.append(_Row(self._at))


class _Row:
    """A row: its texts as they were written, or, once that is not one after another, its cells.

    Only the cells from ``_begin`` on are held.
    """

    __slots__ = ("_begin", "_cells", "_end", "_given", "_texts", "at")

    def __init__(self, at: float) -> None:
        self._texts: list[tuple[str, str]] = []
        self._cells: list[str] | None = None
        self._given: str | None = None
        self._begin = self._end = 0
        self.at = at

    def write(self, text: str, column: int, style: str, at: float) -> None:
        self.at = at
        follows = column == self._end
        end = column + len(text)
        self._end = max(self._end, end)
        if end > _LONGEST:
            text = text[: max(0, _LONGEST - column)]
        if not text:
            return
        if self._cells is None and follows:
            self._texts.append((style, text))
        else:
            cells, first = self._reach(column), column - self._begin
            cells[first : first + len(text)] = [style + one for one in text]

    def erase(self, how: str, column: int, at: float) -> None:
        """Put a blank into all cells from a column ("0"), up to it ("1"), or everywhere ("2")."""
        if how not in {"0", "1", "2"}:
            return
        self.at = at
        if how != "1":
            self._end = min(self._end, column if how == "0" else 0)
        column = min(column, _LONGEST) + (how == "1")
        cells = self._reach(self._begin if how == "2" else column)
        if how == "1":
            del cells[: column - self._begin]
            self._begin = column
        else:
            del cells[0 if how == "2" else column - self._begin :]

    def given(self, *, colours: bool, now: bool = True) -> list[Line]:
        """Return the row, or nothing if it was given as it is; ``now`` takes note of it."""
        text = self._shown(colours=colours)
        if text == self._given:
            return []
        if now:
            self._given = text
        return [Line(text, self.at)]

    def _shown(self, *, colours: bool) -> str:
        runs = self._texts
        if self._cells is not None:
            runs = [(one[:-1], one[-1]) for one in self._cells]
        text = _coloured(runs) if colours else "".join([one for _, one in runs])
        text = " " * self._begin + text.rstrip(" ") if text.strip(" ") else ""
        more = self._end - _LONGEST
        return f"{text}… ({more:,} characters more)" if more > 0 else text

    def _reach(self, column: int) -> list[str]:
        """Return the cells, which reach at least up to a column."""
        cells = self._cells
        if cells is None:
            cells = self._cells = [style + one for style, text in self._texts for one in text]
            self._texts.clear()
        if not cells:
            self._begin = column
        elif column < self._begin:
            cells[:0] = [" "] * (self._begin - column)
            self._begin = column
        else:
            cells += [" "] * (column - self._begin - len(cells))
        return cells


def _coloured(runs: Iterable[tuple[str, str]]) -> str:
    shown = []
    for style, same in groupby(runs, key=itemgetter(0)):
        text = "".join([one for _, one in same])
        shown.append(f"\x1b[{style}m{text}\x1b[0m" if style else text)
    return "".join(shown)


def _is_simple(token: re.Match[str]) -> bool:
    return not token["between"] and not token["args"].startswith(("<", "=", ">", "?"))


def _amount(token: re.Match[str]) -> int:
    first = token["args"].partition(";")[0][:9]
    return max(1, int(first)) if first.isdecimal() else 1


def _sent_to(number: int) -> int:
    """Return a column, 0-based, from one counted from 1."""
    return min(number, _WIDEST) - 1


def _aside(control: str, column: int, amount: int) -> int:
    if control in "G`":
        return _sent_to(amount)
    if control == "D":
        return max(0, column - amount)
    return max(column, min(column + amount, _WIDEST - 1))


_ASIDE: Final[Mapping[str | None, Callable[[int, int], int]]] = {
    "return": lambda _, __: 0,
    "back": lambda column, count: max(0, column - count),
    "tab": lambda column, count: (column // _TAB + count) * _TAB,
}
"""The column after so many of a control character."""


_SETS: Final = {
    **dict.fromkeys((1, 2, 22), "weight"),
    **dict.fromkeys((3, 23), "italic"),
    **dict.fromkeys((4, 21, 24), "underline"),
    **dict.fromkeys((7, 27), "inverse"),
    **dict.fromkeys((9, 29), "strike"),
    **dict.fromkeys((*range(30, 40), *range(90, 98)), "colour"),
    **dict.fromkeys((*range(40, 50), *range(100, 108)), "background"),
}
"""What a number of a colour sequence sets; blinking and hidden text are left out."""

_ENDS: Final = frozenset({22, 23, 24, 27, 29, 39, 49})
_BYTE: Final = re.compile("[0-9]{1,3}")
_ARGUMENTS: Final = {"5": 1, "2": 3}


def _styled(settings: dict[str, str], args: str) -> str:
    numbers = iter(args[:256].split(";"))
    for one in numbers:
        number, *inside = one.split(":")
        code = int(number[:4]) if number.isdecimal() else 0
        if code == 0:
            settings.clear()
        elif code in {38, 48}:
            kind = inside[0] if inside else next(numbers, "")
            count = _ARGUMENTS.get(kind, 0)
            values = inside[-count:] if inside else [next(numbers, "") for _ in range(count)]
            if count and all(map(_BYTE.fullmatch, values)):
                settings[_SETS[code]] = ";".join([number, kind, *values])
        elif code in _ENDS:
            settings.pop(_SETS[code], None)
        elif (what := _SETS.get(code)) is not None:
            settings[what] = str(code)
    return ";".join(settings.values())
