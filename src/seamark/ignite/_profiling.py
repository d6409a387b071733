"""Base of the time profilers for Ignite, which report what Ignite's do and measure otherwise.

Changing the import is all it takes::

    from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler

They need no length of the data, measure handlers that are added while the engine runs, and keep
the times of each run of each engine. The engine behaves as it does without them. What they report
and print is in `seamark.ignite._profilers`.
"""

from __future__ import annotations

import csv
import logging
import os
from abc import ABC, abstractmethod
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from ignite.engine import Engine  # noqa: TC002 - the documentation evaluates annotations

from seamark.errors import ArgumentError
from seamark.ignite import _host
from seamark.ignite._clock import KEPT_RUNS, AttachedEngine
from seamark.ignite._times import RunTimes
from seamark.paths import join_path
from seamark.profiling import (
    TimesInRun,
    TimeStat,
    largest_cost,
    table,
    write_long,
)

log = logging.getLogger("seamark")

__all__ = ["EngineProfiler"]


class EngineProfiler(ABC):
    """Base of both profilers: engines, runs, statistics, files and records."""

    _by_handler: ClassVar[bool]

    def __init__(self, *, cuda: Literal["off", "events"] = "off") -> None:
        if cuda not in ("off", "events"):
            msg = f"{type(self).__name__}: cuda: expected 'off' or 'events', got {cuda!r}"
            raise ArgumentError(msg)
        if cuda == "events" and not torch.cuda.is_available():
            log.warning(
                'seamark: %s(cuda="events"): there is no CUDA device; times are those of the clock '
                "on the wall alone",
                type(self).__name__,
            )
        self.cuda = cuda
        self._engines: list[AttachedEngine] = []

    # ------------------------------------------------------------ engines

    def attach(self, engine: Engine, run: Any = None, *, namespace: str = "profiling") -> None:
        """Measure the runs of an engine, also if it is running; attaching twice changes nothing.

        Args:
            engine: The engine.
            run: A ``Run``, a namespace of one or a ``SeamarkLogger``, to record times into while
                the engine runs: a row of means every second at most, and a summary at the end.
            namespace: Where in the run. A second engine has its own namespace there.

        Raises:
            TypeError: If ``engine`` is none.
            ArgumentError: If ``run`` cannot be recorded into.
            PathError: If the namespace breaks the grammar of paths.
        """
        _host.check_engine(engine, "engine")
        if run is not None:
            TimesInRun(run, namespace)  # refuses what is none before anything is attached
        found = self._attached_to(engine)
        if found is None:
            number = self._engines[-1].number + 1 if self._engines else 0
            found = AttachedEngine(engine, number, by_handler=self._by_handler, cuda=self.cuda)
            self._engines = [
                *(one for one in self._engines[:-KEPT_RUNS] if one.engine or not one.number),
                *self._engines[-KEPT_RUNS:],
                found,
            ]
        place = self._namespace(namespace, found.number)
        found.listen(engine, None if run is None else TimesInRun(run, place))

    def _attached_to(self, engine: Engine) -> AttachedEngine | None:
        return next((one for one in self._engines if one.engine is engine), None)

    def detach(self, engine: Engine | None = None) -> None:
        """Measure an engine no longer; what was measured stays. Detaching twice is harmless.

        Args:
            engine: The engine; all of them if left out.
        """
        for one in self._engines:
            if engine is None or one.engine is engine:
                one.detach()

    def _namespace(self, namespace: str, number: int) -> str:
        kind = "handlers" if self._by_handler else "events"
        return join_path(namespace, kind, f"engine_{number + 1}" if number else "")

    # ------------------------------------------------------------ results

    def _times(self, run: int = -1, engine: Engine | None = None) -> RunTimes:
        """Return the times of a run; if there was none yet, those of nothing.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        found = self._engines[0] if self._engines else None
        if engine is not None:
            found = self._attached_to(engine)
            if found is None:
                msg = f"engine: expected one that the profiler is attached to, got {engine!r:.80}"
                raise ArgumentError(msg)
        runs = {} if found is None else found.runs
        from_end = isinstance(run, int) and run < 0
        number = max(runs, default=-1) + 1 + run if from_end else run
        if number in runs:
            return runs[number].now()
        if run == -1:
            return RunTimes()
        kept = f"{min(runs)} to {max(runs)}" if runs else "none"
        msg = f"run: expected the number of a run that is kept ({kept}), got {run!r:.80}"
        raise ArgumentError(msg)

    def stats(self, run: int = -1, engine: Engine | None = None) -> list[TimeStat]:
        """Return numbers of one run of one engine, at any moment.

        Args:
            run: Number of the run, 0-based, or counted from the end. The latest 32 are kept.
            engine: The engine, by default the first that the profiler was attached to.

        Returns:
            One entry for each thing that is timed; none before the first run.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        times = self._times(run, engine)
        sources = times.sources(by_handler=self._by_handler) if times.began else []
        return [one.stat() for one in sources]

    def largest_cost(self, run: int = -1, engine: Engine | None = None) -> str:
        """Return one line that names the largest cost of an epoch in plain words.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        return largest_cost(self._times(run, engine).breakdown(by_handler=self._by_handler))

    def table(self, run: int = -1, engine: Engine | None = None) -> str:
        """Return `stats` as a table, with the largest cost below.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        text = table(self.stats(run, engine)) + self.largest_cost(run, engine) + "\n"
        if count := self._times(run, engine).events_elsewhere:
            text += f"{count} events of other threads were not timed.\n"
        return text

    def to_run(self, run: Any, namespace: str = "profiling") -> None:
        """Record the latest run of each engine: times as series, summary, largest cost, picture.

        What was recorded there before, while the engine ran or by this, is not recorded again.

        Args:
            run: A ``Run``, a namespace of one or a ``SeamarkLogger``.
            namespace: Where in it.

        Raises:
            ArgumentError: If ``run`` cannot be recorded into.
            PathError: If the namespace breaks the grammar of paths.
        """
        TimesInRun(run, namespace)  # refuses what is none, also where there is nothing to record
        for one in self._engines:
            one.record_latest(TimesInRun(run, self._namespace(namespace, one.number)))

    def write_results(
        self, output_path: str | os.PathLike[str], layout: Literal["wide", "long"] = "wide"
    ) -> None:
        """Write the durations of the latest run to a CSV file.

        Args:
            output_path: The file.
            layout: ``"wide"`` has Ignite's columns, and as in Ignite's files 0 where there is no
                time; ``"long"`` has a row for each duration, with its epoch and iteration.

        Raises:
            ArgumentError: If the layout is another one.
            TypeError: If ``output_path`` is not a path.
            OSError: If the file cannot be written.
        """
        if layout not in ("wide", "long"):
            msg = f"layout: expected 'wide' or 'long', got {layout!r}"
            raise ArgumentError(msg)
        times = self._times()
        if layout == "long":
            write_long(times.sources(by_handler=self._by_handler), output_path)
            return
        columns = self._columns(times)
        with Path(output_path).open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip_longest(*columns.values(), fillvalue=0.0))

    @abstractmethod
    def _columns(self, times: RunTimes) -> dict[str, Any]:
        """Return the columns of the wide layout; a column that is short ends in zeros."""
