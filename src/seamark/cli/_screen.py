"""Output of commands: aligned text for pipes, tables for terminals, JSON, and progress bars.

Markup is never interpreted, so a run named ``[red]`` is printed as such.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from seamark.pictures import printing
from seamark.pictures.printing import is_dumb, is_quiet
from seamark.reading.text import clean, display_width, plain, shorten

if TYPE_CHECKING:
    from rich.console import Console


_CONTROLS: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""Control characters that a terminal may interpret and that JSON does not escape."""


def dumps(value: Any, *, indent: int | None = 2) -> str:
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    # Only strings contain these characters, and escapes are equivalent there.
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


STATE_STYLES = {
    "created": "dim",
    "running": "cyan",
    "completed": "green",
    "failed": "bold red",
    "crashed": "bold red",
    "killed": "bold red",
    "lost": "bold red",
    "hangs": "bold red",
    "missing": "bold red",
    "waits": "yellow",
    "interrupted": "yellow",
    "suspended": "magenta",
}
"""Rich styles of the states of runs and ranks."""
_GAP = 2
_QUIET = "seamark.quiet"
LABEL = 12
"""Width of the label of a fact, in cells."""
_MAX_LISTED: Final = 8


class Cell(NamedTuple):
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Attributes:
        right: Align to the right, for numbers, which are never shortened.
        shrink: May be shortened with an ellipsis on a narrow terminal.
        path: Contains paths. They are shortened at the front and, unless the column has a rank, to
            no less than half of the terminal, so that they can be distinguished.
        apart: Shorten cells at the front if different cells would otherwise become equal.
        least: Minimum width after shortening, in terminal cells.
        rank: Columns of rank 0 are always shown; if shrinking is not enough, the highest rank is
            removed first.
    """

    title: str
    right: bool = False
    shrink: bool = False
    path: bool = False
    apart: bool = False
    least: int = 8
    rank: int = 0


def be_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - by click
    context.meta[_QUIET] = value or context.meta.get(_QUIET, False)


def quiet() -> bool:
    context = click.get_current_context(silent=True)
    return (context is not None and context.meta.get(_QUIET, False)) or is_quiet()


def note(message: str, *, style: str = "") -> None:
    """Print a message on standard error; without a style, only if not `quiet`."""
    if not style and quiet():
        return
    colour = {"warning": "yellow", "error": "red"}.get(style)
    click.secho(
        clean(message, block=True),
        err=True,
        fg=colour,
        dim=not style or None,
        color=wanted_colour(),
    )


def note_hidden_columns(titles: Sequence[str], more: int = 0) -> None:
    if titles:
        named, more = list(titles[:_MAX_LISTED]), more + len(titles[_MAX_LISTED:])
        words = [*named, f"{more} more"] if more else named
        hidden = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        note(f"no room for {hidden}; widen the terminal, or select columns with --columns")


def listed(value: Iterable[Any], most: int = _MAX_LISTED) -> str:
    """Return the first ``most`` of several names, and the number of the others."""
    names = [str(name) for name in value]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def wanted_colour() -> bool | None:
    # None lets click decide.
    return False if os.environ.get("NO_COLOR") or is_dumb() else None


def data_output() -> IO[str]:
    return cast("IO[str]", _SafeTerminal()) if sys.stdout.isatty() else sys.stdout


class _SafeTerminal:
    def write(self, text: str) -> None:
        sys.stdout.write(clean(text, block=True))


class Screen:
    """Standard output or another file; text is shortened and coloured only on a terminal."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file or sys.stdout
        self.terminal = self._file.isatty()
        self.width = max(20, shutil.get_terminal_size().columns)
        self._rich: Console | None = None
        self._has_output = False

    @property
    def console(self) -> Console:
        """Console of rich; imported when first used, as it takes longer than a small command."""
        if self._rich is None:
            from rich.console import Console

            self._rich = Console(
                file=self._file, width=self.width, highlight=False, markup=False, emoji=False
            )
        return self._rich

    @property
    def colours(self) -> bool:
        wanted = self.terminal and not self.console.no_color
        return wanted and self.console.color_system is not None

    def line(self, text: str = "", *, style: str = "") -> None:
        self.styled([(text, style)])

    def styled(self, parts: Iterable[tuple[str, str]]) -> None:
        self._has_output = True
        safe = [(clean(text, block=True), style) for text, style in parts]
        if not self.terminal or not any(style for _, style in safe):
            click.echo("".join(text for text, _ in safe), file=self._file)
            return
        from rich.text import Text

        self.console.print(Text.assemble(*safe), soft_wrap=True)

    def fact(self, label: str, text: str) -> None:
        """Print a fact; further lines of it are indented, so that none looks like another fact."""
        indented = text.replace("\n", "\n" + " " * LABEL)
        self.styled([(f"{label:<{LABEL}}", "dim"), (indented, "")])

    def heading(self, text: str) -> None:
        if self._has_output:
            self.line()
        self.line(text, style="bold")

    def table(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, indent: int = 0
    ) -> list[str]:
        """Print a table; return the titles omitted for lack of room (none for a pipe)."""
        self._has_output = True
        lines = [[one.title for one in columns], *([cell.text for cell in row] for row in rows)]
        texts = list(zip(*lines, strict=True))
        if not self.terminal:
            wide = [max(map(display_width, column)) for column in texts]
            for line in lines:
                cells = map(_pad, line, wide, (one.right for one in columns))
                click.echo((" " * indent + (" " * _GAP).join(cells)).rstrip(), file=self._file)
            return []
        shown = _fit(columns, texts, self.width - indent)
        self._print_rich_table(columns, rows, shown, indent)
        return [column.title for at, column in enumerate(columns) if at not in shown]

    def _print_rich_table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        shown: Mapping[int, int],
        indent: int,
    ) -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        def cell(text: str, style: str, at: int, *, path: bool) -> Text:
            """Return a cell; paths are shortened at the front, because rich shortens at the end."""
            return Text(shorten(text, shown[at], keep_end=True) if path else text, style=style)

        fronts = {
            at: one.path
            or (one.apart and _collide_when_shortened((row[at].text for row in rows), shown[at]))
            for at, one in enumerate(columns)
            if at in shown
        }
        grid = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        for at, width in shown.items():
            grid.add_column(
                cell(columns[at].title, "bold", at, path="/" in columns[at].title),
                justify="right" if columns[at].right else "left",
                no_wrap=True,
                width=width,
            )
        for row in rows:
            grid.add_row(*(cell(*row[at], at, path=fronts[at]) for at in shown))
        # A line may be one gap too wide for the console, which would squeeze the last column.
        self.console.print(
            Padding(grid, (0, 0, 0, indent)),
            width=self.width + _GAP,
            crop=False,
            soft_wrap=True,
        )


def _pad(text: str, width: int, right: bool) -> str:  # noqa: FBT001 - called through map
    missing = " " * (width - display_width(text))
    return missing + text if right else text + missing


def _collide_when_shortened(texts: Iterable[str], width: int) -> bool:
    known = set(texts)
    return len({shorten(text, width) for text in known}) < len(known)


def _fit(columns: Sequence[Column], texts: Sequence[Sequence[str]], room: int) -> dict[int, int]:
    """Return the position and the width of each column that fits into ``room`` cells."""
    shown, least = {}, {}
    for at, (column, (title, *cells)) in enumerate(zip(columns, texts, strict=True)):
        inside = max(map(display_width, cells), default=0)
        shown[at] = least[at] = max(display_width(title), inside)
        if column.shrink:
            most = room // 2 if column.path and not column.rank else column.least
            least[at] = min(shown[at], max(most, inside if column.right else 0))

    def excess(widths: Mapping[int, int]) -> int:
        return sum(widths[at] for at in shown) + _GAP * (len(shown) - 1) - room

    while excess(least) > 0 and (ranked := [at for at in shown if columns[at].rank]):
        del shown[max(ranked, key=lambda at: (columns[at].rank, at))]
    for _ in range(excess(shown)):
        if not (wider := [at for at in shown if shown[at] > least[at]]):
            break
        shown[max(wider, key=shown.__getitem__)] -= 1
    return shown


def progress_bar(
    title: str, *, of_bytes: bool = False
) -> AbstractContextManager[Callable[[int, int], None]]:
    """See `seamark.pictures.printing.progress_bar`; `quiet` hides it."""
    return printing.progress_bar(title, quiet=quiet(), of_bytes=of_bytes)
