"""``seamark logs``: output of a run."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import click

from seamark.cli._app import misuse, root_option
from seamark.cli._printed import (
    STREAMS,
    Lines,
    OutputReader,
    Part,
    Process,
    output_paths,
    processes_with_output,
)
from seamark.cli._runs import RunRef, open_runs, project_option, run_argument
from seamark.cli._screen import dumps, listed, note, wanted_colour
from seamark.pictures.printing import obeys_escapes
from seamark.reading.points import time_of
from seamark.reading.reader import Reader
from seamark.reading.states import ACTIVE_STATES
from seamark.reading.text import clean, display_width, shorten, time_text
from seamark.store.query.kinds import MOMENTS, moment

_INTERVAL_S: Final = 0.5
_FINAL_AFTER_NS: Final = 2 * 10**9
"""Time without changes after which a line is final while following, in nanoseconds."""
_AGE: Final = re.compile(r"\d{1,9}[mhdwM]")
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_DIM: Final = "2"


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    text = value.strip()
    if _AGE.fullmatch(text):
        text = f"-{text}"
    found = moment(text, time.time_ns(), local=True)
    if found is None:
        raise click.BadParameter(f"expected an age such as 10m, or {MOMENTS}; got {value!r}")
    return found * 1000


@click.command(short_help="Show the output of a run (--follow: live).")
@run_argument
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Show new output until the run has ended; Ctrl-C stops following.",
)
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(0),
    metavar="N",
    help="Show only the last N lines.",
)
@click.option(
    "--since",
    "since_ns",
    metavar="WHEN",
    callback=_moment,
    help="Only lines since this time: 10m (ago), 2h, 2026-11-22, 2026-11-22T10:30.",
)
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Show the output of this rank; may be repeated.  [default: 0]",
)
@click.option("--stdout", is_flag=True, help="Only standard output (with --stderr: both).")
@click.option("--stderr", is_flag=True, help="Only standard error (with --stdout: both).")
@click.option(
    "-t", "--times", is_flag=True, help="Prefix each line with the time of its recording."
)
@click.option(
    "--color/--no-color",
    "colours",
    default=None,
    help="Keep or remove the colours of the output.  [default: keep on a terminal]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object for each line, without colours."
)
@project_option
@root_option
@click.pass_context
def logs(
    context: click.Context,
    run: str,
    since_ns: int | None,
    ranks: tuple[int, ...],
    project: str | None,
    *,
    stdout: bool,
    stderr: bool,
    follow: bool,
    tail: int | None,
    times: bool,
    colours: bool | None,
    as_json: bool,
) -> None:
    """Show the standard output and standard error of a run, in the order of printing.

    Each line is shown once, in its final state: a progress bar is shown as it was last drawn. On a
    terminal, standard error is dim. If several processes printed, for example after a restart, a
    header line names each process; with several ranks, each line begins with its rank.

    Output is recorded every half second, so the times of --times, --since and --json may be up to
    half a second late.

    With --follow, new lines are shown until the run has ended. Ctrl-C stops following, with exit
    code 130; the training continues.

    \b
    Examples:
      seamark logs latest                      all output
      seamark logs quick-otter --follow        new output as it is printed
      seamark logs quick-otter --tail 50       the last 50 lines
      seamark logs quick-otter --since 10m     the last ten minutes
      seamark logs quick-otter --stderr --times
      seamark logs quick-otter --rank 3        another rank
      seamark logs quick-otter --json | jq -r 'select(.stream == "stderr").text'
    """
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    view = runs.view(ref)
    only = None if stdout == stderr else "stdout" if stdout else "stderr"
    streams = (only,) if only else STREAMS
    goes_on = follow and view.state in ACTIVE_STATES
    if not output_paths(view, streams):
        if not goes_on:
            misuse(f"run {ref}: {_no_output_text(only)}")
        note("nothing has been printed yet")
    there = processes_with_output(view, streams)
    chosen = (set(ranks) or {0}) if goes_on else _ranks(view, ref, streams, ranks, there)
    if colours is None:
        colours = obeys_escapes(sys.stdout) and wanted_colour() is not False
    reader = OutputReader(chosen, streams, since_ns=since_ns, lines=tail)
    lines = Lines(colours=colours and not as_json, since_ns=since_ns)
    writer = _Writer(there, chosen, colours=colours, times=times, as_json=as_json)
    if goes_on:

        def look() -> Reader:
            runs.index.refresh(*ref)
            return runs.view(ref)

        state = _follow(look, reader, lines, writer, tail)
        note(f"{runs.label(ref)}: {state}")
        return
    found: Iterator[Part] = itertools.chain(lines.finished(reader.new(view), 0), lines.close())
    if tail is not None:
        found = iter(deque(found, maxlen=tail))
    if writer.write(found):
        return
    if tail == 0:
        note("--tail 0 shows no lines")
    elif since_ns is not None:
        note(f"nothing was printed since {time_text(since_ns)}")


def _no_output_text(only: str | None) -> str:
    what = {"stdout": "standard output", "stderr": "standard error"}.get(only or "", "output")
    return (
        f"no {what} is recorded: the run printed nothing, capture_{only or 'stdout'} is off, it "
        "was "
        "killed within half a second of its first line, or an older version of Seamark recorded it"
    )


def _ranks(
    view: Reader,
    ref: RunRef,
    streams: Collection[str],
    wanted: tuple[int, ...],
    processes: Collection[Process],
) -> set[int]:
    there = {one.rank for one in processes}
    if not wanted:
        return {0} if 0 in there else there
    if next(OutputReader(set(wanted), streams).new(view), None) is None:
        misuse(
            f"run {ref}: no output of rank {wanted[0]} is recorded; ranks with output: "
            f"{listed(sorted(there))}"
        )
    return set(wanted)


class _Writer:
    """Writer of lines; on a terminal, lines that may still change are redrawn below them."""

    def __init__(
        self,
        processes: Collection[Process],
        ranks: Collection[int],
        *,
        colours: bool,
        times: bool,
        as_json: bool,
    ) -> None:
        self._as_json = as_json
        self._shown = [one for one in processes if one.rank in ranks]
        self._attempts = len({one.attempt for one in self._shown}) > 1
        self._ranks = len({one.rank for one in processes}) > 1
        self._by_rank = len(ranks) > 1
        self._redraws = obeys_escapes(sys.stdout) and not as_json
        self._colours = colours
        self._times = times
        self._process: Process | None = None
        self._drawn: list[str] = []

    def write(self, lines: Iterable[Part]) -> bool:
        before = self._process
        for one in lines:
            self._erase_drawn()
            if one.process != self._process:
                self._write_header(one.process, one.t)
            sys.stdout.write(self._line(one) + "\n")
        return self._process is not before

    def _write_header(self, process: Process, t: int) -> None:
        is_only = self._process is None and len(self._shown) < 2  # noqa: PLR2004
        self._process = process
        if self._by_rank or self._as_json or is_only:
            return
        host = f" on {process.host}" if process.host else ""
        words = [f"process {process.pid or process.writer}{host}", f"from {time_text(t)}"]
        words += [f"attempt {process.attempt}"] if self._attempts else []
        words += [f"rank {process.rank}"] if self._ranks else []
        sys.stdout.write(self._styled(f"--- {clean(', '.join(words))} ---", _DIM) + "\n")

    def _line(self, one: Part) -> str:
        if self._as_json:
            of = {"stream": one.stream, "rank": one.process.rank, "writer": one.process.writer}
            return dumps({"t": time_of(one.t), **of, "text": one.text}, indent=None)
        text = self._safe(one.text)
        if one.stream == "stderr" and "\x1b" not in text:
            text = self._styled(text, _DIM)
        front = f"{time_text(one.t)}  " if self._times else ""
        front += f"{one.process.rank}: " if self._by_rank else ""
        return self._styled(front, _DIM) + text if front else text

    def _safe(self, text: str) -> str:
        if text.isprintable():
            return text
        parts = _COLOUR.split(text)
        parts[::2] = [clean(part, block=True) for part in parts[::2]]
        return "".join(parts)

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colours and text else text

    def draw(self, live: Sequence[Part]) -> None:
        if not self._redraws:
            return
        size = shutil.get_terminal_size()
        shown = [
            self._shorten_line(self._line(one), size.columns) for one in live[1 - size.lines :]
        ]
        if shown != self._drawn:
            self._erase_drawn()
            sys.stdout.write("\n".join(shown))
            self._drawn = shown

    @staticmethod
    def _shorten_line(line: str, width: int) -> str:
        plain = _COLOUR.sub("", line)
        return line if display_width(plain) < width else shorten(plain, width - 1)

    def _erase_drawn(self) -> None:
        if self._drawn:
            sys.stdout.write("\r" + "\x1b[2K\x1b[1A" * (len(self._drawn) - 1) + "\x1b[2K")
            self._drawn = []

    def detach(self) -> None:
        if self._drawn:
            sys.stdout.write("\n")
            self._drawn = []


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _follow(
    look: Callable[[], Reader],
    reader: OutputReader,
    lines: Lines,
    writer: _Writer,
    tail: int | None,
) -> str:
    """Show new output of a run until it has ended; return its final state."""
    latest_ns, received_s = 0, time.monotonic()

    def note_times(parts: Iterable[Part]) -> Iterator[Part]:
        nonlocal latest_ns, received_s
        for part in parts:
            latest_ns, received_s = part.t, time.monotonic()
            yield part

    try:
        while True:
            view = look()
            state = view.state
            found = list(lines.finished(note_times(reader.new(view)), 0))
            settled = tail is not None or time.monotonic() - received_s > _FINAL_AFTER_NS / 1e9
            found += lines.finished((), None if settled else latest_ns - _FINAL_AFTER_NS)
            live = lines.live()
            if tail is not None:
                found, tail = found[max(0, len(found) + len(live) - tail) :], None
            writer.write(found)
            if state not in ACTIVE_STATES:
                writer.write(lines.close())
                return state
            writer.draw(live)
            sys.stdout.flush()
            _wait(_INTERVAL_S)
    finally:
        writer.detach()
