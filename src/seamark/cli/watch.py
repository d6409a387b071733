"""``seamark watch``: live display of one run."""

from __future__ import annotations

import io
import math
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import click

from seamark.cli import _runs
from seamark.cli._app import misuse, root_option
from seamark.cli._facts import print_series, problems
from seamark.cli._printed import LastLines
from seamark.cli._runs import RunRef, Runs, nonempty_path, open_runs, project_option
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, note
from seamark.paths import is_inside, matches
from seamark.reading.attributes import Attribute, aside, is_counter, metric_order
from seamark.reading.curves import Curve
from seamark.reading.facts import PROGRESS, loops_of, machine_now, progress_words
from seamark.reading.rank_text import has_points, lags, of_rank, rank_facts
from seamark.reading.reader import Reader
from seamark.reading.states import ACTIVE_STATES, GOOD_STATES
from seamark.reading.text import (
    age_text,
    clean,
    duration_words,
    human_number,
    plural,
    shorten,
    step_text,
    time_text,
)

_PACE_POINTS: Final = 100
"""Number of last points from which the pace is computed."""
_REMAINING_PATH: Final = "profiling/eta_s"
"""Path at which a training records the remaining seconds, if it does."""
_LAST_LINES: Final = 5
_EPOCH: Final = "epoch"
_MACHINE: Final = "monitoring"


class WatchedRun:
    """State of a run as of the last `look`, which reads new records; the run folder is not changed.

    ``series`` are the relevant ones, the most important first; ``progress`` describes progress and
    speed in words.
    """

    def __init__(self, runs: Runs, ref: RunRef, patterns: Sequence[str]) -> None:
        self.ref = ref
        self.label = runs.label(ref)
        self._runs = runs
        self._patterns = patterns
        self._modified: object = None
        self._curves: dict[tuple[str, int], Curve] = {}
        self._printed = LastLines(_LAST_LINES)

    def look(self) -> WatchedRun:
        """Read new records of the run, and update this object."""
        self._runs.index.refresh(*self.ref)
        view = self.view = self._runs.view(self.ref)
        modified = view.attribute("sys/modification_time")
        if modified is None or modified.value != self._modified:
            self.attributes = view.attributes()
            self._curves.clear()
            self.progress = _progress(view, self.attributes)
            self.output = [one.text for one in self._printed.look(view)]
            ordered = sorted(self.attributes, key=lambda each: metric_order(each.path))
            self.series = [one for one in ordered if self._is_relevant(one)]
            self._modified = None if modified is None else modified.value
        self.state, self.ranks = view.state, view.ranks()
        self.problems = list(problems(view, self.state))
        return self

    def curve(self, path: str, points: int) -> Curve:
        """Return the curve of a series; it is read again only after new records."""
        if (path, points) not in self._curves:
            self._curves[path, points] = self.view.curve(path, points)
        return self._curves[path, points]

    @property
    def is_unfinished(self) -> bool:
        """Whether the run may still record."""
        return self.state in ACTIVE_STATES

    def _is_relevant(self, attribute: Attribute) -> bool:
        path = attribute.path
        chosen = aside(path) is None and of_rank(path) is None and not is_counter(path)
        if self._patterns:
            chosen = matches(path, *self._patterns)
        return chosen and has_points(attribute)


def _progress(view: Reader, attributes: Sequence[Attribute]) -> str:
    recorded = next((one.value for one in attributes if one.path == PROGRESS), None)
    own = {
        one.path: one.value
        for one in attributes
        if has_points(one) and of_rank(one.path) is None and not is_inside(one.path, _MACHINE)
    }
    if (loops := loops_of(recorded)) or not own:
        return clean(progress_words(loops))
    longest = max(own, key=lambda path: (own[path].last_step, own[path].count))
    words = [f"step {step_text(own[longest].last_step)}"]
    if epochs := [one.last for path, one in own.items() if path.rpartition("/")[2] == _EPOCH]:
        words.append(f"epoch {human_number(max(epochs))}")
    points = view.points(longest, limit=_PACE_POINTS)
    steps, times_ns = points.step, points.time_ns
    if len(steps) > 1 and steps[-1] > steps[0] and times_ns[-1] > times_ns[0]:
        pace = float(steps[-1] - steps[0]) / float(times_ns[-1] - times_ns[0]) * 1e9
        words.append(f"{human_number(pace, 3)} steps/s")
    if _REMAINING_PATH in own:
        words.append(f"about {duration_words(own[_REMAINING_PATH].last)} left")
    return ", ".join(words)


_MIN_ROWS: Final = 3
"""Minimum number of series shown; lines that do not fit on the terminal are cut off."""
_MAX_RANKS: Final = 8
_AGES: Final = re.compile(r" for .*|\([^()]*(?:ago|just now)\)")
"""Ages in a message, which change although the problem is the same."""


def _seconds(_: click.Context, __: click.Parameter, value: float) -> float:
    if not math.isfinite(value):  # a range does not exclude NaN
        raise click.BadParameter(f"expected a number of seconds, got {value}")
    return value


@click.command(short_help="Watch a run while it trains.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=_runs.complete_runs)
@click.option(
    "--path",
    "patterns",
    multiple=True,
    metavar="PATH",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Only series that equal, are below or match this path: 'val/*'. May be repeated.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 86_400),
    callback=_seconds,
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
@project_option
@root_option
@click.pass_context
def watch(
    context: click.Context,
    run: str | None,
    patterns: tuple[str, ...],
    interval: float,
    project: str | None,
) -> None:
    """Watch a run while it trains: state, progress, last values, ranks, problems and last output.

    Without RUN, the newest of the running runs is watched. The command ends with the run, with exit
    code 0. Ctrl-C stops watching, with exit code 130; the training continues. In a pipe, or with
    TERM=dumb, it writes a line for each change.

    \b
    Examples:
      seamark watch
      seamark watch quick-otter --path 'val/*' --interval 10
      seamark watch quick-otter && notify-send "training has ended"
      seamark watch | tee training.log
    """
    runs = open_runs(context, project)
    ref = runs.find(run, project) if run is not None else _newest(runs, project)
    looker = WatchedRun(runs, ref, [pattern.strip("/") for pattern in patterns])
    live = sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb", "unknown")
    if patterns and not looker.look().series:
        note(f"nothing matches {', '.join(map(repr, patterns))} yet")
    with _live_display(interval) if live else nullcontext(_Lines().show) as show:
        while True:
            seen = looker.look()
            show(seen)
            if not seen.is_unfinished:
                return
            _wait(interval)


def _newest(runs: Runs, project: str | None) -> RunRef:
    if running := runs.select("sys/state = running", project, limit=1):
        return running[0]
    found = runs.select("", project, limit=1)
    if not found:
        misuse(f"nothing to watch: no runs in {f'project {project!r}' if project else runs.where}")
    note("no run is running; watching the newest one")
    return found[0]


def _wait(seconds: float) -> None:
    time.sleep(seconds)


class _Lines:
    def __init__(self) -> None:
        self._screen = Screen()
        self._last_text = ""
        self._problems: set[str] = set()

    def show(self, seen: WatchedRun) -> None:
        if not self._last_text:
            self._screen.line(f"{seen.label}: {seen.view.contents.where}")
        news = repr((seen.state, [(one.path, one.value) for one in seen.series]))
        if news != self._last_text:
            self._last_text = news
            values = [f"{clean(one.path)}={one.value.last!r}" for one in seen.series]
            words = [time_text(seen.view.now_ns), seen.state, seen.progress, " ".join(values)]
            self._screen.line("  ".join(filter(None, words)))
        for problem in seen.problems:
            lasting = _AGES.sub("", problem)
            if lasting not in self._problems:
                self._problems.add(lasting)
                self._screen.line(f"! {problem}")
        sys.stdout.flush()


@contextmanager
def _live_display(interval: float) -> Iterator[Callable[[WatchedRun], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(
        console=Console(highlight=False, markup=False, emoji=False),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    ) as live:

        def show(seen: WatchedRun) -> None:
            page = _Page()
            screen = Screen(page)
            screen.width, height = live.console.size
            _draw(screen, seen, height, interval)
            text = Text.from_ansi(page.getvalue().rstrip("\n"), no_wrap=True, overflow="crop")
            live.update(text, refresh=True)

        yield show


class _Page(io.StringIO):
    def isatty(self) -> bool:
        return True


def _draw(screen: Screen, seen: WatchedRun, height: int, interval: float) -> None:
    screen.styled(
        [(seen.label, "bold"), ("  ", ""), (seen.state, STATE_STYLES.get(seen.state, ""))]
    )
    facts = [("run", f"{seen.view.project}/{seen.view.name}"), *_facts_of(seen)]
    for label, text in facts:
        screen.fact(label, text)
    problems = [
        line for one in seen.problems for line in textwrap.wrap(f"! {clean(one)}", screen.width)
    ]
    for line in problems:
        screen.line(line, style="bold red")
    used = 1 + len(facts) + len(problems)
    used += min(len(seen.ranks), _MAX_RANKS) + 3 if len(seen.ranks) > 1 else 0
    room = height - used - 5
    _draw_series(screen, seen, max(_MIN_ROWS, room))
    if len(seen.ranks) > 1:
        _draw_ranks(screen, seen)
    left = room - max(1, len(seen.series)) - 1
    for line in ["", *seen.output[-left:]] if left > 0 and seen.output else ():
        screen.line(shorten(clean(line), screen.width), style="dim")
    if seen.is_unfinished:
        screen.line()
        every = duration_words(interval)
        ends = "Ctrl-C stops watching; the training continues"
        screen.line(f"{time_text(seen.view.now_ns)}, every {every}; {ends}", style="dim")


def _facts_of(seen: WatchedRun) -> Iterator[tuple[str, str]]:
    if seen.progress:
        yield "progress", seen.progress
    if seen.is_unfinished and (machine := machine_now(seen.attributes, seen.ranks)):
        yield "machine", machine
    yield from rank_facts(seen.view, seen.state)


def _draw_series(screen: Screen, seen: WatchedRun, most: int) -> None:
    screen.line()
    if not seen.series:
        nothing = "nothing has been recorded here yet" if seen.is_unfinished else "no series"
        screen.line(nothing, style="dim")
        return
    # If there are too many, the deepest paths are left out: parts of a model before its losses.
    shallow = sorted(seen.series, key=lambda one: (one.path.count("/"), one.path))[:most]
    print_series(screen, seen.curve, [one for one in seen.series if one in shallow])
    if more := len(seen.series) - len(shallow):
        screen.line(f"{plural(more, 'more series', 'more series')}; --path chooses", style="dim")


def _draw_ranks(screen: Screen, seen: WatchedRun) -> None:
    """Draw the ranks: first those with problems, then those furthest behind."""
    columns = [
        Column("RANK", right=True),
        Column("STATE"),
        Column("LAST POINT"),
        Column("BEHIND"),
        Column("HOST", shrink=True, rank=1),
    ]
    now_ns, behind = seen.view.now_ns, lags(seen.attributes)
    order = sorted(
        seen.ranks,
        key=lambda one: (one.state in GOOD_STATES, -behind.get(one.rank, 0.0), one.rank),
    )
    rows = [
        [
            Cell(str(rank.rank)),
            Cell(rank.state, STATE_STYLES.get(rank.state, "")),
            Cell("" if rank.row_t is None else age_text(rank.row_t, now_ns)),
            Cell(f"{step_text(steps)} steps" if (steps := behind.get(rank.rank)) else "", "yellow"),
            Cell(clean(str(rank.host or "")), "dim"),
        ]
        for rank in order[:_MAX_RANKS]
    ]
    screen.line()
    screen.table(columns, rows)
    if more := len(order) - len(rows):
        screen.line(f"{plural(more, 'more rank')}, none in a worse state", style="dim")
