"""Curves of many runs of a project, and the paths that people name them by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
        index: Catalog that has the runs.
        refs: Project and id of each run.
        patterns: Patterns of paths.
        look: How they are drawn.
        attempt: See `Project.fetch_curves`.
        since: Curves returned before: only what has changed since is asked for.
    """
    before = {one.key: one.drawing for one in since}
    cursors = {key: drawing.cursor for key, drawing in before.items()}
    matching = index.series_of(refs, lambda path: matches(path, *patterns))
    paths = sorted({path for own in matching.values() for path in own})
    return [
        replace(one, drawing=one.drawing.after(before.get(one.key, one.drawing)))
        for one in index.curves(refs, paths, look, attempt, cursors)
    ]
