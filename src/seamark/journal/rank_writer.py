"""The journal of a rank that records beside rank 0: its series under ``ranks/<n>/``, no more.

What all ranks say alike (values, tags, files, deletes) is rank 0's to say. A rank of its own adds
series, facts of its process below ``monitoring/<writer>/``, and how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seamark.journal._format import Kind
from seamark.journal.headers import headers
from seamark.journal.interrupts import raised_by_signal_handler
from seamark.journal.writer import JournalWriter
from seamark.paths import check_writable, is_inside

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["RankPaths", "RankWriter", "was_here"]


def was_here(folder: RunFolder, rank: int) -> bool:
    """Tell whether an earlier process of a rank wrote to a run, whose series go on."""
    return any(header.get("rank") == rank for header in headers(folder))


class RankPaths(dict[Any, Any]):
    """The path of a series on this rank, by the path that was asked for; grows with the paths.

    A path that names the rank already, as adapters with a prefix write it
    (``training/ranks/1/loss``), stays as it is. So does one that breaks the grammar: the writer
    says what is wrong with it.

    Args:
        rank: 0-based, above 0.
        is_own: Tells whether a path belongs to this process anyway.
    """

    def __init__(self, rank: int, is_own: Callable[[str], bool]) -> None:
        super().__init__()
        self._space = f"ranks/{rank}/"
        self._is_own = is_own

    def __missing__(self, path: Any) -> Any:
        """Make the path of this rank, and remember it."""
        try:
            named = f"/{self._space}" in f"/{check_writable(path)}"
        except (TypeError, ValueError):
            return path
        if named or self._is_own(path):
            return path
        self[path] = ranked = self._space + path
        return ranked


class RankWriter(JournalWriter):
    """A `JournalWriter` that leaves to rank 0 what is said once for all ranks.

    Args:
        folder: The run.
        header: See `JournalWriter`.
        rank: 0-based, above 0.
        **options: Further arguments of `JournalWriter`.
    """

    def __init__(
        self, folder: RunFolder, header: Callable[[], dict[str, Any]], *, rank: int, **options: Any
    ) -> None:
        super().__init__(folder, header, **options)
        self.rank = rank
        self._ranked = RankPaths(rank, self.shares)

    def shares(self, path: str) -> bool:
        """Tell whether values and files at a path are this process's to say."""
        own = (self.writer, *self._ends)
        return any(writer is not None and is_inside(path, f"monitoring/{writer}") for writer in own)

    # ---------------------------------------------------------------- series

    def append_row(
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> None:
        """Record a row of this rank's series; see `JournalWriter.append_row`."""
        ranked = self._ranked
        try:
            metrics = {ranked[path]: value for path, value in metrics.items()}
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            # No mapping, or no key: the writer says so.
        super().append_row(metrics, step, time_ns)

    def append_point(
        self, path: str, value: float, step: float | None, time_ns: int | None = None
    ) -> None:
        """Record a point of this rank's series; see `JournalWriter.append_point`."""
        super().append_point(self._ranked[path], value, step, time_ns)

    def append_column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None = None,
        times_ns: Sequence[int] | None = None,
    ) -> None:
        """Record many points of this rank's series; see `JournalWriter.append_column`."""
        super().append_column(self._ranked[path], values, steps, times_ns)

    def take_step(self, path: str, step: float | None) -> float:
        """Return the step of a point of this rank's series; see `JournalWriter.take_step`."""
        return super().take_step(self._ranked[path], step)

    def forget_steps(self, paths: Iterable[str]) -> None:
        """Forget the last steps of this rank's series; see `JournalWriter.forget_steps`."""
        super().forget_steps([self._ranked[path] for path in paths])

    # ---------------------------------------------------------------- families

    def _place(self, path: str, family: str) -> str | None:
        """Return where this rank keeps something, or None if that is rank 0's."""
        if family.endswith("_series"):
            return str(self._ranked[path])
        return path if self.shares(path) else None

    def claim(self, path: str, family: str) -> None:
        """Take the path of this rank's series for a family; see `JournalWriter.claim`."""
        if (place := self._place(path, family)) is not None:
            super().claim(place, family)

    def expect(self, families: Mapping[str, str]) -> None:
        """Look whether each series can take its family; see `JournalWriter.expect`."""
        placed = {self._place(path, family): family for path, family in families.items()}
        super().expect({path: family for path, family in placed.items() if path is not None})

    # ---------------------------------------------------------------- other records

    def append_ops(self, ops: Iterable[Mapping[str, Any]], kind: int = Kind.OP) -> None:
        """Append the records that are this rank's own, drop those that are rank 0's."""
        own: Iterable[Mapping[str, Any] | None] = (
            map(self._own_part, ops)
            if kind == Kind.OP
            else ({**op, "path": self._ranked[op["path"]]} for op in ops)
        )
        super().append_ops([op for op in own if op is not None], kind)

    def _own_part(self, op: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what this rank may say of an op, None if nothing is left."""
        name, path = op.get("op"), op.get("path", "")
        if name in ("state", "checkpoint"):  # how far its own journal belongs to a checkpoint
            return op
        if name == "file_point":
            return {**op, "path": self._ranked[path]}
        if name == "clear" and self.families.get(self._ranked[path], "").endswith("_series"):
            return {**op, "path": self._ranked[path]}
        if name == "assign":
            atoms = {at: atom for at, atom in op["atoms"].items() if self.shares(at)}
            return {**op, "atoms": atoms} if atoms else None
        return op if path and self.shares(path) else None
