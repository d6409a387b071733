"""The long table of points: several series of several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from seamark.store.table import pandas
from seamark.store.view import Points, time_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from seamark.store.index import Index

__all__ = ["SeriesTable", "read_series"]


class SeriesTable:
    """Points of several series of several runs; see `seamark.project.Project.fetch_series`.

    Columns: ``run``, ``path``, ``step``, ``value``, ``time`` and ``attempt`` (-1: of a writer that
        belongs to none).

    Attributes:
        parts: (run id, path, points) of every series that has points, in the order of the runs.
    """

    columns: Final = ("run", "path", "step", "value", "time", "attempt")

    def __init__(self, parts: list[tuple[str, str, Points]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        """Return the number of points."""
        return sum(len(points) for _, _, points in self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the points as dicts."""
        for run, path, points in self.parts:
            rows = zip(
                points.step.tolist(),
                points.value.tolist(),
                points.time_ns.tolist(),
                points.attempt.tolist(),
                strict=True,
            )
            for step, value, time_ns, attempt in rows:
                yield {
                    "run": run,
                    "path": path,
                    "step": step,
                    "value": value,
                    "time": time_of(time_ns),
                    "attempt": attempt,
                }

    def __repr__(self) -> str:
        """Return the size."""
        return f"<SeriesTable: {len(self)} points of {len(self.parts)} series>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict a point, times as aware datetimes in UTC."""
        return list(self)

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return one array a column; ``time`` is in nanoseconds since the Unix epoch."""
        import numpy as np

        sizes = [len(points) for _, _, points in self.parts]
        found: dict[str, np.ndarray[Any, Any]] = {}
        for name, place in (("run", 0), ("path", 1)):
            words = np.empty(len(self.parts), object)
            words[:] = [part[place] for part in self.parts]
            found[name] = np.repeat(words, sizes)
        kinds = {"step": np.float64, "value": np.float64, "time": np.int64, "attempt": np.int64}
        for name, kind in kinds.items():
            own = "time_ns" if name == "time" else name
            columns = [getattr(points, own) for _, _, points in self.parts]
            found[name] = np.concatenate(columns) if columns else np.empty(0, kind)
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; run and path are categories, time is UTC.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        import numpy as np

        frame = pandas()
        sizes = [len(points) for _, _, points in self.parts]

        def category(place: int) -> Any:
            words = [str(part[place]) for part in self.parts]
            known = list(dict.fromkeys(words))
            place_of = {word: at for at, word in enumerate(known)}
            codes = np.repeat(np.array([place_of[word] for word in words], np.int32), sizes)
            return frame.Categorical.from_codes(codes, known)

        def column(name: str, kind: Any) -> Any:
            columns = [getattr(points, name) for _, _, points in self.parts]
            return np.concatenate(columns) if columns else np.empty(0, kind)

        time = frame.DatetimeIndex(column("time_ns", np.int64).view("M8[ns]"), tz="UTC")
        data = {
            "run": category(0),
            "path": category(1),
            "step": column("step", np.float64),
            "value": column("value", np.float64),
            "time": time,
            "attempt": column("attempt", np.int64),
        }
        made: pd.DataFrame = frame.DataFrame(data, columns=list(self.columns), copy=False)
        return made


def read_series(
    index: Index,
    refs: Sequence[tuple[str, str]],
    patterns: Sequence[str],
    attempt: int | str = "latest",
    progress: Callable[[int, int], None] | None = None,
) -> SeriesTable:
    """Return the points of the float series that match, of these runs.

    Args:
        index: Of the root.
        refs: (project, run id) of the runs.
        patterns: Paths, or patterns with ``*`` and ``?``.
        attempt: See `seamark.store.view.RunView.points`.
        progress: Called with the number of runs read and of all.

    Raises:
        ArgumentError: If ``attempt`` cannot be one.
    """
    parts: list[tuple[str, str, Points]] = []
    for done, (project, name) in enumerate(refs):
        if progress is not None:
            progress(done, len(refs))
        view = index.view(project, name)
        known = view.series_paths()
        paths = [
            path
            for pattern in patterns
            for path in known
            if path == pattern or fnmatchcase(path, pattern)
        ]
        found = view.many_points(list(dict.fromkeys(paths)), attempt)  # type: ignore[arg-type]  # checked there
        parts += [(name, path, points) for path, points in found.items() if len(points)]
    if progress is not None and refs:
        progress(len(refs), len(refs))
    return SeriesTable(parts)
