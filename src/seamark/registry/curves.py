"""Curves of many runs of a project, and the paths that people name them by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from seamark.errors import ArgumentError
from seamark.paths import matches

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.curves import Look, RunCurve
    from seamark.reading.points import Attempt

__all__ = ["curves_of", "path_list"]


def path_list(paths: str | Iterable[str], name: str = "paths") -> list[str]:
    """Return paths or patterns as a list; ``name`` says which argument they are.

    Raises:
        ArgumentError: If one of them can be none.
    """
    patterns = [paths] if isinstance(paths, str) else list(paths)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            msg = f"{name}: expected a path such as 'val/loss' or several, got {pattern!r:.80}"
            raise ArgumentError(msg)
    return patterns


def curves_of(
    index: Catalog,
    refs: Sequence[Ref],
    patterns: Sequence[str],
    look: Look,
    attempt: Attempt,
    since: Iterable[RunCurve],
) -> list[RunCurve]:
    """Return the series of runs that match patterns, as they are drawn.

    Args:
        index: The runs.
        refs: (project, run id) of those that are meant.
        patterns: Of paths.
        look: How they are drawn.
        attempt: See `Project.fetch_curves`.
        since: What was returned before: only what has changed since is asked for.
    """
    before = {one.key: one.drawing for one in since}
    cursors = {key: drawing.cursor for key, drawing in before.items()}
    there = index.series_of(refs, lambda path: matches(path, *patterns))
    return [
        replace(one, drawing=one.drawing.after(before.get(one.key, one.drawing)))
        for own, some in _alike(refs, there)
        for one in index.curves(some, own, look, attempt, cursors)
    ]


def _alike(
    refs: Sequence[Ref], there: Mapping[Ref, Iterable[str]]
) -> Iterator[tuple[list[str], list[Ref]]]:
    """Yield the sorted paths of runs, and the runs in a row that have the same ones."""
    for own, some in groupby(refs, lambda ref: sorted(there.get(ref, ()))):
        if own:
            yield own, list(some)
