"""Output of the processes of a run: its sources, and its lines in order of time."""

from __future__ import annotations

import heapq
import itertools
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.cli._facts import text_or_record
from seamark.pictures.terminal import ROWS, Terminal

if TYPE_CHECKING:
    from seamark.reading.attributes import JournalInfo
    from seamark.reading.reader import Reader

__all__ = [
    "STREAMS",
    "LastLines",
    "Lines",
    "Part",
    "Printing",
    "Process",
    "is_output",
    "output_paths",
    "processes_that_printed",
]

STREAMS: Final = ("stdout", "stderr")
_LATE_NS: Final = 10 * 10**9
"""A line that has not changed for so long is final, unless the cursor is in it or above it."""
_REDRAWN: Final = re.compile(r"\r[^\x00-\x1f\x7f-\x9f]+")
"""A line that is written anew, as a progress bar is."""
_FEW: Final = 500
_MOST_WAITING: Final = 100_000
"""Lines that are held so that they are in order."""


@dataclass(frozen=True, slots=True)
class Process:
    writer: str
    rank: int
    host: str | None
    pid: int | None
    attempt: int | None


class Part(NamedTuple):
    """Part of the output of a process, or a line as a terminal finally shows it.

    ``t`` is when it was recorded, or changed last, nanoseconds since the Unix epoch.
    """

    t: int
    process: Process
    path: str
    text: str

    @property
    def stream(self) -> str:
        return self.path.rpartition("/")[2]


def is_output(path: str, family: str, streams: Collection[str] = STREAMS) -> bool:
    """Return whether an attribute holds output; its namespace may be a person's own."""
    return family == "string_series" and path.rpartition("/")[2] in streams


def output_paths(view: Reader, streams: Collection[str] = STREAMS) -> list[str]:
    found = view.families().items()
    return [path for path, family in found if is_output(path, family, streams)]


def processes_that_printed(view: Reader, streams: Collection[str] = STREAMS) -> set[Process]:
    # Where a series is not named after its writer, those are all, unless rank 0 wrote to it.
    known = {one.writer: _process(one) for one in view.journals()}
    paths = output_paths(view, streams)
    found = {known.get(path.rpartition("/")[0].rpartition("/")[2]) for path in paths}
    named = {one for one in found if one is not None}
    if None not in found:
        return named
    if (first := next(Printing({0}, streams).new(view), None)) is not None:
        named.add(first.process)
    return named if any(one.rank == 0 for one in named) else set(known.values())


class Printing:
    """Reads the output of a run, page by page, and continues where it ended.

    ``since_ns`` and ``lines`` (the last ones) limit it roughly. ``quick`` looks only so far back as
    costs little; of a bar that has been drawn for hours, nothing further is known.
    """

    def __init__(
        self,
        ranks: Collection[int],
        streams: Collection[str] = STREAMS,
        *,
        since_ns: int | None = None,
        lines: int | None = None,
        quick: bool = False,
    ) -> None:
        self._points = _FEW if quick else None
        self._ranks = ranks
        self._streams = streams
        self._since_ns = since_ns
        self._lines = lines
        self._begins: dict[str, int] = {}
        self._folded: list[tuple[str, int]] | None = None

    def new(self, view: Reader) -> Iterator[Part]:
        journals = view.journals()
        folded = [(journal.file, journal.offset) for journal in journals]
        if folded == self._folded:
            return
        paths = output_paths(view, self._streams)
        texts = []
        for journal in journals if paths else ():
            process = _process(journal)
            if process.rank in self._ranks:
                if journal.file not in self._begins:
                    self._begins[journal.file] = self._begin(view, journal.file, paths)
                texts.append(self._texts(view, journal.file, paths, process))
        yield from heapq.merge(*texts, key=lambda part: part.t)
        self._folded = folded

    def _begin(self, view: Reader, file: str, paths: Collection[str]) -> int:
        if self._since_ns is None and self._lines is None:
            return 0
        return view.text_begin(
            file,
            paths,
            since_ns=self._since_ns,
            lines=None if self._lines is None else self._lines + ROWS,
            points=self._points,
        )

    def _texts(
        self, view: Reader, file: str, paths: Collection[str], process: Process
    ) -> Iterator[Part]:
        more = True
        while more:
            points, end, more = view.text_page(file, paths, self._begins[file])
            for t, path, text in points:
                whole = text_or_record(view, text, path)
                if isinstance(whole, str):
                    yield Part(t, process, path, whole)
            self._begins[file] = end


def _process(journal: JournalInfo) -> Process:
    head = journal.header

    def number(name: str) -> int | None:
        value = head.get(name)
        return value if type(value) is int and value >= 0 else None

    host: Any = head.get("host")
    return Process(
        journal.writer,
        number("rank") or 0,
        host if isinstance(host, str) else None,
        number("pid"),
        number("attempt"),
    )


class _Screen:
    def __init__(self, process: Process, path: str, *, colours: bool) -> None:
        self.terminal = Terminal(colours=colours)
        self.process = process
        self.path = path
        self._latest = 0
        self._redrawn: Part | None = None

    def feed(self, part: Part) -> Iterator[tuple[int, Part]] | None:
        # None: it may be drawn over. Of a line that is written anew, and covers what it was, only
        # the last state is drawn.
        before = self._redrawn
        if _REDRAWN.fullmatch(part.text):
            self._redrawn = part
            if before is None or len(before.text) <= len(part.text):
                return None
            return self.final(self.terminal.feed(before.text, before.t))
        self.draw()
        return self.final(self.terminal.feed(part.text, part.t))

    def draw(self) -> None:
        if (waiting := self._redrawn) is not None:
            self._redrawn = None
            self.terminal.feed(waiting.text, waiting.t)

    def final(self, lines: Iterable[Any]) -> Iterator[tuple[int, Part]]:
        """Yield lines with their sort keys, which never decrease."""
        for line in lines:
            self._latest = max(self._latest, line.at)
            yield self._latest, Part(line.at, self.process, self.path, line.text)

    def live(self) -> Iterator[tuple[int, Part]]:
        self.draw()
        latest = self._latest
        yield from self.final(self.terminal.live())
        self._latest = latest


class Lines:
    """Makes lines from the output of several streams, in the order in which they were finished."""

    def __init__(self, *, colours: bool, since_ns: int | None = None) -> None:
        self._colours = colours
        self._since_ns = since_ns or 0
        self._screens: dict[tuple[str, str], _Screen] = {}
        self._waiting: list[tuple[int, int, Part]] = []
        self._count = itertools.count()

    def finished(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            key = (part.process.writer, part.path)
            screen = self._screens.get(key)
            if screen is None:
                screen = _Screen(part.process, part.path, colours=self._colours)
                self._screens[key] = screen
            if (lines := screen.feed(part)) is None:
                continue
            self._keep(lines)
            yield from self.finished_lines(part.t - _LATE_NS)

    def finished_lines(self, before: int | None = None) -> Iterator[Part]:
        """Yield the lines not changed since a time (ns; None: all) and not being drawn."""
        limit = float("inf") if before is None else before
        for screen in self._screens.values():
            self._take(screen, screen.terminal.settle(limit))
        while self._waiting and (self._waiting[0][0] < limit or len(self._waiting) > _MOST_WAITING):
            line = heapq.heappop(self._waiting)[2]
            if line.t >= self._since_ns:
                yield line

    def live(self) -> list[Part]:
        """Return the lines that are not given yet, as they are now."""
        waiting = list(self._waiting)
        for screen in self._screens.values():
            waiting += ((key, next(self._count), line) for key, line in screen.live())
        return [line for _, _, line in sorted(waiting) if line.t >= self._since_ns]

    def close(self) -> Iterator[Part]:
        for screen in self._screens.values():
            screen.draw()
            self._take(screen, screen.terminal.close())
        yield from self.finished_lines()

    def _take(self, screen: _Screen, lines: Iterable[Any]) -> None:
        self._keep(screen.final(lines))

    def _keep(self, lines: Iterable[tuple[int, Part]]) -> None:
        for key, line in lines:
            heapq.heappush(self._waiting, (key, next(self._count), line))


class LastLines:
    """The last lines that a run printed: those of rank 0, else of any process."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lines = Lines(colours=False)
        self._last: deque[Part] = deque(maxlen=count)
        self._printing: Printing | None = None

    def look(self, view: Reader) -> list[Part]:
        """Return the last lines as they are now; only new output is read."""
        if self._printing is None:
            there = {one.rank for one in processes_that_printed(view)}
            if not there:
                return []
            ranks = {0} if 0 in there else there
            self._printing = Printing(ranks, lines=self._count, quick=True)
        self._last.extend(self._lines.finished(self._printing.new(view)))
        shown = [*self._last, *self._lines.live()]
        return [one for one in shown if one.text.strip()][-self._count :]
