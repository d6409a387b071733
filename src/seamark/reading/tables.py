"""Tables as reads return them: of runs, one row each, and of the points of many series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import MissingExtraError
from seamark.reading.points import Points, time_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

__all__ = ["RunsTable", "SeriesTable", "StringList", "pandas"]


class RunsTable:
    """Runs and what they show, one row each; made by `seamark.project.Project.fetch_runs_table`.

    A row is a dict from column to value; what a run does not have is not in its row. Series show
    their last value (or what the column asks for: ``val/loss:min``), sets of strings a sorted list,
    files their names, artifacts their hash.

    Attributes:
        columns: All columns, ``sys/id`` first.
        rows: The rows, in order.
        refs: (project, run id) of the rows.
        total: How many runs match, regardless of limit and offset.
        offset: How many of them stand before the first row.
    """

    def __init__(
        self,
        columns: list[str],
        rows: list[dict[str, Any]],
        refs: list[tuple[str, str]],
        total: int,
        offset: int = 0,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.refs = refs
        self.total = total
        self.offset = offset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Return the size."""
        return f"<RunsTable: {len(self.rows)} of {self.total} runs, {len(self.columns)} columns>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return self.rows

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return one array a column: float64 for numbers (NaN: no value), objects for others."""
        import numpy as np

        found: dict[str, np.ndarray[Any, Any]] = {}
        for column in self.columns:
            values = [row.get(column) for row in self.rows]
            if _all_numbers(values):
                found[column] = np.array(
                    [np.nan if value is None else float(value) for value in values]
                )
            else:
                found[column] = np.empty(len(values), object)
                found[column][:] = values
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; sets of strings become ``"a,b"``, as Neptune has them.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        frame = pandas()
        data = {column: [_joined(row.get(column)) for row in self.rows] for column in self.columns}
        made: pd.DataFrame = frame.DataFrame(data, columns=self.columns)
        return made


def _all_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53) for value in known
    )


def _joined(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, StringList) else value


class StringList(list[str]):
    """The sorted elements of a string set in a row; tells them from a list that was recorded."""


def pandas() -> Any:
    """Return the package pandas.

    Raises:
        MissingExtraError: If it is not installed; the message names the extra.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        msg = 'topandas() needs pandas; install it with: pip install "seamark[pandas]"'
        raise MissingExtraError(msg) from error
    return pd


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
