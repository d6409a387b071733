"""State of a run before this process opened it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.paths import is_inside

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter
    from seamark.remote.remote_run import RemoteRun

__all__ = ["Held", "has_other_owner", "learn", "learn_from"]


@dataclass(frozen=True, slots=True)
class Held:
    """State of a run when it was opened.

    Attributes:
        series: Paths of the float series of its training: without those that are captured, and
            those that only processes wrote which did not own it, such as evaluations.
        failed: Whether it ever failed.
        resumable: Whether it was begun but not ended for good, and no owner of it lives.
        running: Whether an owner was recording it.
    """

    series: frozenset[str] = frozenset()
    failed: bool = False
    resumable: bool = False
    running: bool = False

    def merged_with(self, other: Held) -> Held:
        """Return what a run held of which an earlier part lay elsewhere."""
        return Held(
            self.series | other.series,
            self.failed or other.failed,
            self.resumable,
            self.running,
        )


def learn(folder: RunFolder, writer: JournalWriter, namespace: str) -> Held:
    """Tell a writer the families and last steps that a run has, as the index knows them.

    Takes as long as folding what the index has not folded of the run yet.

    Args:
        folder: The run.
        writer: The writer.
        namespace: Path below which is what captures record; its series are not ``Held.series``.

    Raises:
        RunNotFoundError: If there is no such run.
        OSError: If it cannot be read.
    """
    from seamark.index.index import Index

    series = set()
    index = Index.open(folder.root)
    try:
        index.refresh(folder.project, folder.run)
        view = index.view(folder.project, folder.run)
        writers = view.series_writers()
        training = view.training()
        for one in view.attributes():
            if one.path.startswith("sys/") and one.family == "atom":
                continue
            # What is captured unasked says nothing about who trains.
            trained = not training.isdisjoint(writers.get(one.path, ()))
            if one.family == "float_series" and trained and not is_inside(one.path, namespace):
                series.add(one.path)
            writer.families.setdefault(one.path, one.family)
            last = getattr(one.value, "last_step", None)
            if last is not None and one.family.endswith("_series"):
                writer.remember_step(one.path, float(last))
        return Held(
            frozenset(series), view.has_failed(), view.is_resumable(), view.state == "running"
        )
    finally:
        index.close()


def learn_from(remote: RemoteRun, writer: JournalWriter, namespace: str) -> Held:
    """Tell a writer the families and last steps of a run that exists only elsewhere.

    Args:
        remote: What is known of it there.
        writer: The writer.
        namespace: As in `learn`.
    """
    series = set()
    for path, family in remote.families.items():
        if path.startswith("sys/") and family == "atom":
            continue
        trained = remote.trained is None or path in remote.trained
        if family == "float_series" and trained and not is_inside(path, namespace):
            series.add(path)
        writer.families.setdefault(path, family)
        if path in remote.last_steps and family.endswith("_series"):
            writer.remember_step(path, remote.last_steps[path])
    return Held(frozenset(series), remote.failed, remote.resumable)


def has_other_owner(headers: Iterable[Mapping[str, Any]], lineage: str) -> bool:
    """Return whether somebody owned a run already who is neither this process nor a copy of it.

    Args:
        headers: HEADER of each journal of the run.
        lineage: What this process's journals name as ``lineage``.
    """
    return any(one.get("owner") and one.get("lineage") != lineage for one in headers)
