"""Aggregation of high-rate series (mean, last value, ring) instead of storing their points."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import FamilyError
from seamark.paths import check_path, is_inside
from seamark.process.interrupts import formattable, let_pass

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.run.journal_access import JournalAccess
    from seamark.values.aggregates import Keep


_FAMILY: Final = "statistic"
_EVERY_NS: Final = 1_000_000_000


class Cell:
    """Aggregate of one path in this process; `part` is its id among those of all processes."""

    __slots__ = ("keep", "part", "told", "update")

    def __init__(self, keep: Keep) -> None:
        self.begin(keep)

    def begin(self, keep: Keep) -> None:
        """Start an empty aggregate."""
        self.keep = keep
        self.part = secrets.token_hex(8)
        self.mark_written(keep.state_dict())
        self.update = keep.update

    def mark_written(self, state: Mapping[str, Any]) -> None:
        """Remember the current state as written."""
        self.told = state


class Aggregator:
    """Aggregates observations at paths that store no points, and writes the aggregates.

    Aggregates are written at most once a second while observations arrive, and on request: with
    checkpoints, when the state of the run changes, and at the end. ``patterns`` maps paths or
    patterns to kinds of aggregates, for paths that are not known yet.
    """

    def __init__(self, access: JournalAccess, patterns: Mapping[str, Keep]) -> None:
        self.cells: dict[str, Cell] = {}
        self.patterns = dict(patterns)
        self._access = access
        self._plain: set[str] = set()
        self.after_fork()

    def after_fork(self) -> None:
        """Start new aggregates in a forked child; the parent writes the earlier ones."""
        self._lock = threading.RLock()
        self._writing = False
        self.due_ns = 0
        for cell in self.cells.values():
            cell.begin(cell.keep.fresh())

    def travelling(self) -> dict[str, Keep]:
        """Return empty aggregates for a copy in another process, by path or pattern."""
        return self.patterns | {path: cell.keep.fresh() for path, cell in self.cells.items()}

    # ---------------------------------------------------------------- aggregated paths

    def keep(self, writer: JournalWriter, path: str, what: Keep) -> Cell:
        """Aggregate a path from now on; raise `FamilyError` if it holds another family."""
        with self._lock:
            if (cell := self.cells.get(path)) is not None:
                if type(what) is type(cell.keep):
                    return cell
                raise FamilyError(
                    f"path {path!r} keeps {cell.keep.kind}, not {what.kind}; use "
                    f"another path, or free this one with `del run[{path!r}]`"
                )
            writer.claim(path, _FAMILY)
            cell = self.cells[path] = Cell(what.fresh())
            writer.divert_to(self.divert)
            return cell

    def begin(self, writer: JournalWriter) -> None:
        """Make a writer divert the numbers of aggregated paths to this object."""
        if self.patterns or self.cells:
            writer.divert_to(self.divert)
            for path in self.cells:
                writer.families.setdefault(path, _FAMILY)

    def aggregates(self, path: str) -> bool:
        """Return whether numbers at a path are aggregated."""
        if path in self.cells:
            return True
        writer = self._access.writer
        if not self.patterns or path in self._plain or writer is None or writer.closed:
            return False
        matching = (keep for each, keep in self.patterns.items() if fnmatchcase(path, each))
        what = self.patterns.get(path) or next(matching, None)
        if what is not None and writer.families.get(path, _FAMILY) == _FAMILY:
            self.keep(writer, check_path(path), what)
            return True
        self._plain.add(path)
        return False

    # ---------------------------------------------------------------- observations

    def divert(self, metrics: Mapping[str, Any]) -> Mapping[str, Any]:
        """Aggregate the observations among metrics; return the others."""
        found = [path for path in metrics if path in self.cells or self.aggregates(path)]
        if not found:
            return metrics
        for path in found:
            try:
                self.cells[path].update(metrics[path])
            except Exception as error:  # noqa: BLE001 - see `let_pass`
                let_pass(error)
                if (writer := self._access.writer) is not None:
                    what = f"log_metrics: {path!r} is left out: {formattable(error)}"
                    writer.drop("metrics", 1, what, once=("metrics", path))
        if perf_counter_ns() >= self.due_ns:
            self.write()
        return {path: value for path, value in metrics.items() if path not in self.cells}

    def observe(self, path: str, value: Any) -> None:
        """Aggregate a number at a path in `cells`; raise `ValueKindError` for another value."""
        self.cells[path].update(value)
        if perf_counter_ns() >= self.due_ns:
            self.write()

    # ---------------------------------------------------------------- writing

    def write(self) -> None:
        """Write the changes since the last time. Never raises."""
        self.due_ns = perf_counter_ns() + _EVERY_NS
        if self.cells:
            with self._access.guard("statistics", "statistics of series could not be written"):
                self._write()

    def _write(self) -> None:
        writer = self._access.writer
        if writer is None or writer.closed:
            return
        with self._lock:
            if self._writing:  # a signal handler has interrupted this thread here
                return
            self._writing = True
            try:
                states = [(p, cell, cell.keep.state_dict()) for p, cell in self.cells.items()]
                changed = [each for each in states if each[2] != each[1].told]
                if not changed:
                    self.due_ns = 0  # the next observation is written immediately
                    return
                self._access.announce()
                for _, cell, state in changed:
                    cell.mark_written(state)
                ops = [
                    {
                        "op": "statistic",
                        "path": path,
                        "kind": cell.keep.kind,
                        "part": cell.part,
                        "state": state,
                    }
                    for path, cell, state in changed
                ]
                writer.append_ops(ops)
            finally:
                self._writing = False

    # ---------------------------------------------------------------- restarting

    def renew(self) -> None:
        """Write all aggregates and start new ones: a part ends with its attempt."""
        self.write()
        with self._lock:
            for cell in self.cells.values():
                cell.begin(cell.keep.resumed())

    def clear(self, path: str) -> None:
        """Start a new aggregate at a path that was cleared."""
        with self._lock:
            if (cell := self.cells.get(path)) is not None:
                cell.begin(cell.keep.fresh())

    def end(self) -> None:
        """Write all aggregates and stop aggregating."""
        self.write()
        self.cells.clear()

    def forget(self, namespace: str) -> None:
        """Forget a path that was deleted, and everything below it."""
        with self._lock:
            for path in [path for path in self.cells if is_inside(path, namespace)]:
                del self.cells[path]
            self._plain = {path for path in self._plain if not is_inside(path, namespace)}
