"""Snapshot of a run that may be training: its progress, its speed and its latest records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._facts import problems, sparkline
from seamark.cli._printed import LastLines
from seamark.paths import is_inside, matches
from seamark.reading.ages import duration_words
from seamark.reading.interest import aside, is_counter, metric_order
from seamark.reading.progress import PROGRESS, loops_of, progress_words
from seamark.reading.rank_words import has_points, of_rank
from seamark.reading.words import clean, human_number, step_text

if TYPE_CHECKING:
    from seamark.cli._runs import RunRef, Runs
    from seamark.reading.attributes import Attribute, SeriesSummary
    from seamark.reading.ranks import RankStatus
    from seamark.reading.reader import Reader

__all__ = ["Looker", "Seen"]

_GOING_ON: Final = ("created", "running")
_PACE: Final = 100
"""Of so many of the last points the pace is taken."""
_LEFT: Final = "profiling/eta_s"
"""Where a training says how many seconds are left, if anything records it."""
_LAST_LINES: Final = 5
_EPOCH: Final = "epoch"
_MACHINE: Final = "monitoring"


@dataclass(frozen=True, slots=True)
class Seen:
    """A run at one moment.

    Attributes:
        view: What reads it.
        label: Its name, or its id.
        state: Its state.
        attributes: All that it shows.
        series: The series that matter, by path, the most telling ones first.
        progress: How far it is and how fast, in words; empty if nothing says it.
        ranks: How each rank is doing.
        problems: What a person should know, a line each.
        output: The last lines that it printed.
        curves: Lines that were drawn of its series, kept for the next look.
    """

    view: Reader
    label: str
    state: str
    attributes: Sequence[Attribute]
    series: Mapping[str, SeriesSummary]
    progress: str
    ranks: Sequence[RankStatus]
    problems: Sequence[str]
    output: Sequence[str]
    curves: dict[str, tuple[SeriesSummary, str]]

    @property
    def facts(self) -> dict[str, Any]:
        """Single values, by path."""
        return {one.path: one.value for one in self.attributes if one.family == "atom"}

    def curve(self, path: str, width: int) -> str:
        """Return a series as one line of so many cells; read again only if it has new points."""
        known, now = self.curves.get(path), self.series[path]
        if known is None or known[0] != now:
            known = (now, sparkline(self.view.curve(path, 2 * width).value, width))
            self.curves[path] = known
        return known[1]

    @property
    def is_unfinished(self) -> bool:
        """Whether more is to come, as far as the run itself says."""
        return self.state in _GOING_ON


class Looker:
    """Looks at one run again and again; reads what is new, and writes nothing to its folder.

    Args:
        runs: Where it is.
        ref: The run.
        patterns: Which series matter; by default all but those of monitoring, profilers and ranks
            above 0.
    """

    def __init__(self, runs: Runs, ref: RunRef, patterns: Sequence[str]) -> None:
        self.ref = ref
        self._runs = runs
        self._patterns = patterns
        self._label = runs.label(ref)
        self._modified: datetime | None = None
        self._attributes: list[Attribute] = []
        self._progress = ""
        self._curves: dict[str, tuple[SeriesSummary, str]] = {}
        self._printed = LastLines(_LAST_LINES)
        self._output: list[str] = []

    def look(self) -> Seen:
        """Return the run as it is now.

        Raises:
            RunNotFoundError: If it is gone.
        """
        self._runs.index.refresh(self.ref.project, self.ref.run)
        view = self._runs.view(self.ref)
        modified = view.attribute("sys/modification_time")
        assert modified is not None  # noqa: S101 - every run has it
        if modified.value != self._modified:
            self._modified, self._attributes = modified.value, view.attributes()
            self._progress = self._format_progress(view)
            self._output = [one.text for one in self._printed.look(view)]
        state = view.state
        return Seen(
            view=view,
            label=self._label,
            state=state,
            attributes=self._attributes,
            series={
                one.path: one.value
                for one in sorted(self._attributes, key=lambda each: metric_order(each.path))
                if self._matters(one)
            },
            progress=self._progress,
            ranks=view.ranks(),
            problems=list(problems(view, state)),
            output=self._output,
            curves=self._curves,
        )

    def _matters(self, attribute: Attribute) -> bool:
        path = attribute.path
        if not has_points(attribute):
            return False
        if self._patterns:
            return matches(path, *self._patterns)
        return aside(path) is None and of_rank(path) is None and not is_counter(path)

    def _format_progress(self, view: Reader) -> str:
        """Return step, epoch, pace and time left, as far as the series say it."""
        told = next((one.value for one in self._attributes if one.path == PROGRESS), None)
        own = {
            one.path: one.value
            for one in self._attributes
            if has_points(one) and of_rank(one.path) is None and not is_inside(one.path, _MACHINE)
        }
        if (loops := loops_of(told)) or not own:
            return clean(progress_words(loops))
        longest = max(own, key=lambda path: (own[path].last_step, own[path].count))
        words = [f"step {step_text(own[longest].last_step)}"]
        epochs = [one.last for path, one in own.items() if path.rpartition("/")[2] == _EPOCH]
        if epochs:
            words.append(f"epoch {human_number(max(epochs))}")
        pace = _steps_per_second(view, longest)
        if pace:
            words.append(f"{human_number(pace, 3)} steps/s")
        if _LEFT in own:
            words.append(f"about {duration_words(own[_LEFT].last)} left")
        return ", ".join(words)


def _steps_per_second(view: Reader, path: str) -> float:
    """Return the pace of the last points of a series; 0 where they do not tell."""
    points = view.points(path, limit=_PACE)
    if len(points) < 2:  # noqa: PLR2004 - a pace is between two points
        return 0.0
    steps = float(points.step[-1] - points.step[0])
    seconds = float(points.time_ns[-1] - points.time_ns[0]) / 1e9
    return steps / seconds if steps > 0 and seconds > 0 else 0.0
