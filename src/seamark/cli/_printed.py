"""Output of the processes of a run: its sources, and its lines in order of time."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from seamark.cli._facts import text_or_record
from seamark.pictures.terminal import ROWS, Line, Terminal
from seamark.reading.attributes import JournalInfo
from seamark.reading.reader import Reader

STREAMS: Final = ("stdout", "stderr")
_QUICK_POINTS: Final = 500
_FINAL_AFTER_NS: Final = 10 * 10**9
"""Time without changes after which a line above the cursor is final, in nanoseconds."""
_MAX_WAITING: Final = 100_000
"""Maximum number of lines held back to keep them in order."""


@dataclass(frozen=True, slots=True)
class Process:
    writer: str
    rank: int
    host: str | None
    pid: int | None
    attempt: int | None


class Part(NamedTuple):
    """Part of the output of a process, or a line in its final state on a terminal.

    ``t`` is the time of its recording or last change, in nanoseconds since the Unix epoch.
    """

    t: int
    process: Process
    path: str
    text: str

    @property
    def stream(self) -> str:
        return self.path.rpartition("/")[2]


def is_output(path: str, family: str, streams: Collection[str] = STREAMS) -> bool:
    """Return whether an attribute holds output; its namespace may be chosen by the user."""
    return family == "string_series" and path.rpartition("/")[2] in streams


def output_paths(view: Reader, streams: Collection[str] = STREAMS) -> list[str]:
    found = view.families().items()
    return [path for path, family in found if is_output(path, family, streams)]


def processes_with_output(view: Reader, streams: Collection[str] = STREAMS) -> set[Process]:
    # A series that is not named after its writer may be from any process, unless rank 0 wrote to
    # it.
    known = {one.writer: _process(one) for one in view.journals()}
    paths = output_paths(view, streams)
    found = {known.get(path.rpartition("/")[0].rpartition("/")[2]) for path in paths}
    named = {one for one in found if one is not None}
    if None not in found:
        return named
    if (first := next(OutputReader({0}, streams).new(view), None)) is not None:
        named.add(first.process)
    return named if any(one.rank == 0 for one in named) else set(known.values())


class OutputReader:
    """Reader of the output of a run, page by page; each read continues where the last one ended.

    ``since_ns`` and ``lines`` (the last ones) limit the output approximately. With ``quick``, only
    the last points are read; of a progress bar that is hours old, earlier states are not found.
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
        self._points = _QUICK_POINTS if quick else None
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
    head = journal.header  # types and ranges are checked by the fold
    return Process(
        journal.writer,
        head.get("rank") or 0,
        head.get("host"),
        head.get("pid"),
        head.get("attempt"),
    )


class Lines:
    """Lines of the output of several streams, in the order of their completion."""

    def __init__(self, *, colours: bool, since_ns: int | None = None) -> None:
        self._colours = colours
        self._since_ns = since_ns or 0
        self._terminals: dict[tuple[Process, str], Terminal] = {}
        self._latest: dict[tuple[Process, str], int] = {}
        self._waiting: list[tuple[int, int, Part]] = []
        self._count = itertools.count()

    def finished(self, parts: Iterable[Part], before: int | None = None) -> Iterator[Part]:
        """Yield lines that did not change since a time (ns; None: all) and are not being drawn."""
        for part in parts:
            source = (part.process, part.path)
            if source not in self._terminals:
                self._terminals[source] = Terminal(colours=self._colours)
            self._queue(source, self._terminals[source].feed(part.text, part.t))
            yield from self._completed(part.t - _FINAL_AFTER_NS)
        yield from self._completed(float("inf") if before is None else before)

    def _completed(self, limit: float) -> Iterator[Part]:
        for source, terminal in self._terminals.items():
            self._queue(source, terminal.settle(limit))
        while self._waiting and (self._waiting[0][0] < limit or len(self._waiting) > _MAX_WAITING):
            line = heapq.heappop(self._waiting)[2]
            if line.t >= self._since_ns:
                yield line

    def live(self) -> list[Part]:
        """Return the current state of the lines that are not finished."""
        waiting = list(self._waiting)
        for source, terminal in self._terminals.items():
            waiting += self._heap_entries(source, terminal.live())
        return [line for _, _, line in sorted(waiting) if line.t >= self._since_ns]

    def close(self) -> Iterator[Part]:
        for source, terminal in self._terminals.items():
            self._queue(source, terminal.close())
        yield from self.finished(())

    def _queue(self, source: tuple[Process, str], lines: Iterable[Line]) -> None:
        for entry in self._heap_entries(source, lines):
            self._latest[source] = entry[0]
            heapq.heappush(self._waiting, entry)

    def _heap_entries(
        self, source: tuple[Process, str], lines: Iterable[Line]
    ) -> Iterator[tuple[int, int, Part]]:
        # The lines of a stream keep their order, whichever of them changed last.
        latest = self._latest.get(source, 0)
        for line in lines:
            latest = max(latest, int(line.at))
            yield latest, next(self._count), Part(int(line.at), *source, line.text)


class LastLines:
    """Last lines of the output of a run: of rank 0 or, if it printed nothing, of any process."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lines = Lines(colours=False)
        self._last: deque[Part] = deque(maxlen=count)
        self._printing: OutputReader | None = None

    def look(self, view: Reader) -> list[Part]:
        """Return the current last lines; only new output is read."""
        if self._printing is None:
            there = {one.rank for one in processes_with_output(view)}
            if not there:
                return []
            ranks = {0} if 0 in there else there
            self._printing = OutputReader(ranks, lines=self._count, quick=True)
        new = list(self._printing.new(view))
        # Lines that changed recently may be drawn again.
        self._last.extend(self._lines.finished(new, new[-1].t - _FINAL_AFTER_NS if new else 0))
        shown = [*self._last, *self._lines.live()]
        return [one for one in shown if one.text.strip()][-self._count :]
