"""Terminal emulation for output that overwrites its own lines, which yields their last state.

A progress bar returns to the start of its line many times a second; Rich and nested bars move up
over several lines. `collapse` removes overwritten text, `Terminal` returns the lines that a person
would see. Both emulate a screen of `ROWS` rows as wide as its lines are, on which a line feed also
returns the carriage, with one cell for each character. Time and memory are linear in the text, even
for hostile input.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

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
_MOVES: Final = re.compile(r"\r(?!\n)|\x08|\x1b\[[0-9;]*[A-GK`ae]")
"""What may overwrite something."""
_ESCAPES_THAT_MOVE: Final = frozenset({"\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bc"})
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*|[ -/]*)\Z")
_NOT_PLAIN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_NOBODY: Final = -1

Cell = TypeVar("Cell", int, str)


def collapse(text: str) -> str:
    r"""Remove overwritten parts of a text, so that it looks the same on a terminal.

    The text may begin and end anywhere in a line, and move the cursor above its beginning; where a
    stream is cut between its escape sequences, the collapsed pieces show what the stream shows.
    Colours stay, and what is unknown stays where it stands. The result is the text itself if it
    neither has a ``\r`` within a line, nor a ``\b``, nor moves the cursor; else not longer.
    """
    if _MOVES.search(text) is None:
        return text
    last = text.rfind("\x1b")
    end = last if last >= 0 and _UNFINISHED.match(text, last) else len(text)
    try:
        less = _Collapse().of(text[:end]) + text[end:]
    except _TooWide:
        return text
    return less if len(less) < len(text) else text


def stripped(text: str) -> str:
    """Return a text as a terminal finally shows it, without colours; see `Terminal`."""
    terminal = Terminal()
    lines = [line.text for line in terminal.feed(text)]
    return "\n".join([*lines, *(line.text for line in terminal.close())])


class _TooWide(Exception):  # noqa: N818 - no error: a text that is kept as it is
    """The cursor would have to be sent to a column that it cannot be sent to."""


class _Write(NamedTuple):
    """A printed text and its place; the row is `_NOBODY` for a text without a place."""

    row: int
    column: int
    text: str
    width: int


class _Cells(Generic[Cell]):
    """The cells of one row without an end; only those between the first and last are held."""

    __slots__ = ("begin", "head", "held", "tail")

    def __init__(self, blank: Cell) -> None:
        self.head: Cell = blank
        self.tail: Cell = blank
        self.begin = 0
        self.held: list[Cell] = []

    def write(self, column: int, cells: Sequence[Cell]) -> None:
        self._reach(column)
        at = column - self.begin
        self.held[at : at + len(cells)] = cells

    def erase(self, how: str, column: int, blank: Cell) -> None:
        """Put a blank into all cells from a column ("0"), up to it ("1"), or everywhere ("2")."""
        if how == "2":
            self.held.clear()
            self.head = self.tail = blank
        elif how == "1":
            self._reach(column + 1)
            del self.held[: column + 1 - self.begin]
            self.begin = column + 1
            self.head = blank
        else:
            self._reach(column)
            del self.held[column - self.begin :]
            self.tail = blank

    def _reach(self, column: int) -> None:
        held = self.held
        if not held and self.head == self.tail:
            self.begin = column
        elif column < self.begin:
            held[:0] = [self.head] * (self.begin - column)
            self.begin = column
        elif (missing := column - self.begin - len(held)) > 0:
            held += [self.tail] * missing


class _Collapse:
    """State of a call of `collapse`, with rows counted from the first known cursor position.

    The position of the cursor at the start of a text is unknown: text before the first return is
    left unchanged. So is a move above the first row or below the last one, as it may end at the
    edge of the screen; rows are counted anew after it. Text that was not overwritten is returned in
    the order in which it was written, so that colours and unknown sequences have the same effect.
    """

    def __init__(self) -> None:
        self._out: list[str] = []
        self._begin(None)

    def _begin(self, column: int | None) -> None:
        self._writes: list[_Write] = []
        self._rows: deque[_Cells[int]] = deque([_Cells(_NOBODY)])
        self._living: set[int] = set()
        self._row = self._last = 0
        self._column = self._began = column

    def of(self, text: str) -> str:
        for token in _TOKEN.finditer(text):
            kind = token.lastgroup
            if self._column is None:
                self._start_at(token)
            elif kind == "text":
                self._text(token[0])
            elif kind == "control":
                self._control(token)
            elif kind == "newline":
                self._newline()
            elif kind in _ASIDE:
                self._column = _ASIDE[kind](self._column, len(token[0]))
            else:
                self._unknown(token[0])
        self._flush()
        return "".join(self._out)

    def _start_at(self, token: re.Match[str]) -> None:
        self._out.append(token[0])
        if token.lastgroup in {"return", "newline"}:
            self._begin(0)
        elif token["control"] in {"G", "`", "E", "F"} and _is_simple(token):
            self._begin(_sent_to(_amount(token)) if token["control"] in {"G", "`"} else 0)

    def _text(self, text: str) -> None:
        column = self._column or 0
        owner = len(self._writes)
        self._writes.append(_Write(self._row, column, text, len(text)))
        self._cells().write(column, [owner] * len(text))
        self._column = column + len(text)

    def _newline(self) -> None:
        self._column = 0
        self._row += 1
        if self._row > self._last:
            self._last = self._row
            self._rows.append(_Cells(_NOBODY))
            if len(self._rows) > ROWS:
                self._living |= _owners(self._rows.popleft())

    def _control(self, token: re.Match[str]) -> None:
        control, column = token["control"], self._column or 0
        if control in "mhl" or not _is_simple(token):
            self._writes.append(_Write(_NOBODY, 0, token[0], 0))
        elif control in "CaDG`":
            self._column = _aside(control, column, _amount(token))
        elif control in "ABEFe":
            row = self._row + _amount(token) * (-1 if control in "AF" else 1)
            column = 0 if control in "EF" else column
            if max(0, self._last - ROWS + 1) <= row <= self._last:
                self._row, self._column = row, column
            else:
                self._keep(token[0], column)
        elif control == "K" and (how := token["args"] or "0") in {"0", "1", "2"}:
            self._cells().erase(how, column, len(self._writes))
            self._writes.append(_Write(self._row, column, token[0], 0))
        else:
            self._keep(token[0], None)

    def _unknown(self, text: str) -> None:
        if text[:2] in _ESCAPES_THAT_MOVE:
            self._keep(text, None)
        else:
            self._writes.append(_Write(_NOBODY, 0, text, 0))

    def _keep(self, text: str, column: int | None) -> None:
        """Keep a move whose end is not known; go on from there."""
        self._flush()
        self._out.append(text)
        self._begin(column)

    def _cells(self) -> _Cells[int]:
        return self._rows[self._row - self._last - 1]

    def _flush(self) -> None:
        if self._column is None or self._began is None:
            return
        out, at, waiting = self._out, _Cursor(self._began), _States()
        living = self._living.union(*map(_owners, self._rows))
        for number, (row, column, text, width) in enumerate(self._writes):
            if row == _NOBODY:
                if not waiting.apply(text):
                    out.append(text)
            elif number in living:
                out += waiting.given()
                out.append(at.moved(row, column))
                out.append(text)
                at.column += width
        out += waiting.given()
        if at.lowest < self._last:
            out.append(at.moved(self._last, 0))
        out.append(at.moved(self._row, self._column))


def _owners(row: _Cells[int]) -> set[int]:
    return {row.head, row.tail, *row.held}


class _Cursor:
    def __init__(self, column: int) -> None:
        self.row = self.lowest = 0
        self.column = column

    def moved(self, row: int, column: int) -> str:
        text = ""
        if row > self.row:
            text = "\n" * (row - self.row)
            self.column = 0
        elif row < self.row:
            text = f"\x1b[{self.row - row}A"
        if column != self.column:
            if column >= _WIDEST:
                raise _TooWide
            text += "\r" if column == 0 else f"\x1b[{column + 1}G"
        self.row, self.column, self.lowest = row, column, max(self.lowest, row)
        return text


class _States:
    """Colours and modes that were set since something was put out; each is set once."""

    def __init__(self) -> None:
        self._set: dict[str, None] = {}

    def apply(self, text: str) -> bool:
        if not text.startswith("\x1b[") or text[-1] not in "mhl":
            return False
        if text == "\x1b[m" or (text.startswith("\x1b[0") and text[3] in "m;"):
            self._set = {one: None for one in self._set if one[-1] != "m"}
        self._set.pop(text, None)  # what is set again was set to the same
        self._set[text] = None
        return True

    def given(self) -> Iterable[str]:
        given, self._set = self._set, {}
        return given


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
    __slots__ = ("_cells", "_end", "_given", "_texts", "at")

    def __init__(self, at: float) -> None:
        self._texts: list[tuple[str, str]] = []
        self._cells: _Cells[str] | None = None
        self._given: str | None = None
        self._end = 0
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
            self._as_cells().write(column, [style + one for one in text] if style else list(text))

    def erase(self, how: str, column: int, at: float) -> None:
        if how not in {"0", "1", "2"}:
            return
        self.at = at
        if how != "1":
            self._end = min(self._end, column if how == "0" else 0)
        self._as_cells().erase(how, min(column, _LONGEST), " ")

    def given(self, *, colours: bool, now: bool = True) -> list[Line]:
        """Return the row, or nothing if it was given as it is; ``now`` takes note of it."""
        text = self._shown(colours=colours)
        if text == self._given:
            return []
        if now:
            self._given = text
        return [Line(text, self.at)]

    def _shown(self, *, colours: bool) -> str:
        cells, before = self._cells, ""
        if cells is None:
            runs = self._texts
        else:
            before = " " * cells.begin
            runs = [(one[:-1], one[-1]) for one in cells.held]
        text = _coloured(runs) if colours else "".join([one for _, one in runs])
        text = before + text.rstrip(" ") if text.strip(" ") else ""
        more = self._end - _LONGEST
        return f"{text}… ({more:,} characters more)" if more > 0 else text

    def _as_cells(self) -> _Cells[str]:
        if self._cells is None:
            self._cells = _Cells(" ")
            self._cells.write(0, [style + one for style, text in self._texts for one in text])
            self._texts.clear()
        return self._cells


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
