"""Profiler for Lightning: an extended ``SimpleProfiler`` report, and times in the run."""

from __future__ import annotations

import logging
import os
import re
import sys
import textwrap
from time import perf_counter, perf_counter_ns
from types import TracebackType
from typing import Any, Final

from seamark.journal.folder import check_location
from seamark.lightning import _host
from seamark.pictures.printing import columns_of, without_middle
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import (
    Breakdown,
    Durations,
    TimesInRun,
    TimeStat,
    largest_cost,
    position,
    write_long,
)

log = logging.getLogger("seamark")

_EPOCH: Final = "run_training_epoch"
_BATCH: Final = "run_training_batch"
_KEPT: Final = 8192  # durations per action; Lightning has about a hundred actions
_TOP: Final = 15


class _Action(Durations):
    def __init__(self, name: str, profiler: TimeProfiler) -> None:
        super().__init__("action", name, limit=_KEPT)
        self.profiler = profiler

    def __enter__(self) -> str:
        self.profiler.start(self.name)
        return self.name

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.profiler.stop(self.name)


@_host.configurable
class TimeProfiler(_host.Profiler):  # type: ignore[misc] # of either package
    """Time every action of a Lightning trainer, and record the times in the run.

    The runs are those of the trainer's `SeamarkLogger`s, unless one is given. During training,
    series of means are recorded under ``profiling/actions/``, at most one row per second; after
    each stage, a summary, the largest cost and a picture. Names of actions become paths by
    percent-encoding ``/``, ``%`` and control characters.

    Args:
        dirpath: Folder of the report, or a URL supported by fsspec; the trainer's ``log_dir`` if
            only a file name is given.
        filename: Name of the report's file without ``.txt``; by default the report is logged.
        extended: Whether the report shows calls, percentages and percentiles as well.
        run: A ``Run``, a namespace of one or a ``SeamarkLogger`` to record into.

    Raises:
        ArgumentError: If ``run`` cannot be recorded into, or ``dirpath`` is not a path.

    Example:
        ::

            trainer = Trainer(logger=SeamarkLogger(), profiler=TimeProfiler())
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        extended: bool = True,  # noqa: FBT001, FBT002 - the arguments of SimpleProfiler
        run: Any = None,
    ) -> None:
        super().__init__(dirpath=dirpath, filename=filename)
        check_location("dirpath", dirpath)
        self.extended = extended
        self.start_time = perf_counter()
        self.current_actions: dict[str, list[int]] = {}  # name: start, time of nested actions
        self._stack: list[str] = []
        self._actions: dict[str, _Action] = {}
        self._lightning_module: Any = None  # set by Lightning
        self._is_given = run is not None
        self._epoch = self._batch = self._at = 0
        self._record_in([] if run is None else [run])

    def _record_in(self, runs: list[Any]) -> None:
        # The loggers themselves: loading a checkpoint may switch one to another run.
        self._records = [TimesInRun(run, "profiling/actions") for run in runs]
        for record in self._records:
            record.skip(self._sources())

    # ------------------------------------------------------------ called by Lightning

    def profile(self, action_name: str) -> Any:  # type: ignore[override, unused-ignore]
        """Return a context manager that times an action."""
        found = self._actions.get(action_name)
        if found is None:
            found = self._actions[action_name] = _Action(action_name, self)
        return found

    def start(self, action_name: str) -> None:
        """Start timing an action; raise ValueError if it has already started."""
        if action_name in self._stack:
            raise ValueError(f"Attempted to start {action_name} which has already started.")
        if action_name in (_EPOCH, _BATCH):
            self._move(action_name)
        self._stack.append(action_name)
        self.current_actions[action_name] = [perf_counter_ns(), 0]

    def stop(self, action_name: str) -> None:
        """Stop timing an action; raise ValueError if it was never started."""
        now = perf_counter_ns()
        found = self.current_actions.pop(action_name, None)
        if found is None:
            raise ValueError(
                f"Attempting to stop recording an action ({action_name}) which was never started."
            )
        start, inside = found
        took = now - start
        action = self._actions.get(action_name) or self.profile(action_name)
        action.waiting.extend((self._at, took))
        if len(action.waiting) >= _KEPT:
            action.flush()
        action.nested_ns += inside
        stack = self._stack
        if action_name in stack:  # unless an exception left it open in an earlier stage
            stack.remove(action_name)
        if _EPOCH not in self.current_actions and action_name != _EPOCH:
            action.outside_ns += took - inside
        if stack and (parent := self.current_actions.get(stack[-1])) is not None:
            parent[1] += took
        if action_name == _BATCH and self._records and now >= self._records[0].due_ns:
            self._record_row(now)

    def _move(self, action: str) -> None:
        """Note the position of the training: the trainer's epoch, and the number of batches run."""
        if action == _BATCH:
            self._batch += 1
        elif self._lightning_module is not None:
            with quietly():  # a module that has no trainer raises
                trainer = self._lightning_module.trainer
                self._epoch = trainer.current_epoch
                self._batch = trainer.fit_loop.epoch_loop.total_batch_idx
        self._at = position(max(0, self._epoch), max(0, self._batch))

    def _record_row(self, now: int) -> None:
        for record in self._records:
            record.row(now, self._sources(), self._batch)

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Prepare for a stage, and find the runs of the trainer."""
        super().setup(stage, local_rank, log_dir)
        self._stack.clear()  # an action left open by an exception may start again
        if not self._is_given and self._lightning_module is not None:
            with quietly():  # a module that has no trainer raises
                loggers = self._lightning_module.trainer.loggers
                self._record_in([one for one in loggers if isinstance(one, _host.RunLogger)])

    def describe(self) -> None:
        """Write the report, and record the summary into the run."""
        if self.filename and self.dirpath:
            try:
                super().describe()
            except (
                OSError,
                ValueError,
            ) as error:  # for example a full disk after hours of training
                let_pass(error)
                self.teardown(stage=self._stage)
                log.warning("seamark: the profiler's report could not be written: %s", error)
                self._rank_zero_info(self.digest())
        else:
            self._rank_zero_info(self.digest())
        self._record_row(perf_counter_ns())
        for record in self._records:
            record.summary(self._sources(), self._breakdown())

    # ------------------------------------------------------------ results

    @property
    def recorded_durations(self) -> dict[str, list[float]]:
        """Durations of calls in seconds, by action; an even sample of many thousands."""
        return {one.name: (one.rows()[2] / 1e9).tolist() for one in self._sources()}

    def _sources(self) -> list[_Action]:
        return list(self._actions.values())

    def stats(self) -> list[TimeStat]:
        """Return statistics of every action, at any time; epochs and batches are 0-based."""
        return [one.stat() for one in self._sources()]

    def write_results(self, output_path: str | os.PathLike[str]) -> None:
        """Write a CSV file with a row for each call."""
        write_long(self._sources(), output_path)

    def largest_cost(self) -> str:
        """Return a line that names the largest cost.

        It is that of a training epoch; if none was timed, that of all timed actions.
        """
        return largest_cost(self._breakdown())

    def _breakdown(self) -> Breakdown:
        epoch = self._actions.get(_EPOCH)
        if epoch is not None and (count := epoch.moments.count):
            spent = {
                one.name: one.in_epochs_ns / 1e9 / count
                for one in self._sources()
                if one is not epoch
            }
            whole_s, named = epoch.total_ns / 1e9 / count, "an epoch"
        else:
            spent = {one.name: one.own_ns / 1e9 for one in self._sources()}
            whole_s, count, named = sum(spent.values()), 1, "the time of all actions"
        parts = [(_describe(name), own_s) for name, own_s in spent.items() if own_s > 0]
        return Breakdown(tuple(parts), whole_s, count, named) if parts else Breakdown((), 0.0, 0)

    def digest(self) -> str:
        """Return a short report: the 15 largest totals, as wide as the terminal.

        Its width is at most 100 columns. It is logged after each stage if no file is named.
        """
        columns = columns_of(sys.stderr)
        lines = self._table(_TOP, columns)
        if (left := len(self._actions) - _TOP) > 0:
            lines += textwrap.wrap(
                f"and {left} more: in summary(), in the report's file, and in "
                "profiling/actions/summary of the run",
                columns,
            )
        return os.linesep.join([*lines, *textwrap.wrap(self.largest_cost(), columns), ""])

    def summary(self) -> str:
        """Return the full report with a row for each action; `digest` is shorter."""
        return os.linesep.join([*self._table(), self.largest_cost(), ""])

    def _table(self, limit: int | None = None, width: int | None = None) -> list[str]:
        whole_s = max(perf_counter() - self.start_time, 1e-9)
        stage = f"{self._stage.upper()} " if self._stage else ""
        head = "Mean (s)    Calls Total (s)     %  p95 (s)  Max (s)  Action"
        lines = [
            f"{stage}Profiler Report",
            "",
            head if self.extended else "Mean (s) Total (s)  Action",
        ]
        for one in sorted(self.stats(), key=lambda one: -one.total_s)[:limit]:
            row = f"{one.mean_s:8.3g} {one.total_s:9.3g}  "
            if self.extended:
                row = (
                    f"{one.mean_s:8.3g} {one.count:8} {one.total_s:9.3g} "
                    f"{100 * one.total_s / whole_s:5.1f} {one.p95_s:8.3g} {one.max_s:8.3g}  "
                )
            name = _one_line(one.name)
            if width is not None:  # a callback's settings are shortened first
                name = without_middle(re.sub(r"\{.*\}", "", name), width - len(row))
            lines.append(row + name)
        return lines


def _one_line(name: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _describe(name: str) -> str:
    name = _one_line(name)
    return f"waiting for data ({name})" if name.endswith("_next") else f"the action {name}"
