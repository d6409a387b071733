"""Tables returned by reads: runs (a row per run) and points of many series."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

from seamark.errors import ArgumentError, MissingFieldError
from seamark.reading.attributes import is_background
from seamark.reading.html import html_or_text, rows_of, text
from seamark.reading.points import number_of, pandas, time_of
from seamark.reading.text import hint_for, plural

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


_MAX_COLUMNS: Final = 12
_NAMES: Final = ("sys/id", "sys/name", "sys/state", "sys/tags", "sys/creation_time")
_MAX_KEYS: Final = 5000
"""Maximum number of suggested keys."""


class RunRow(dict[str, Any]):
    """Row of a table of runs: a dict from column to value, without missing values."""

    __slots__ = ()

    def get_attribute_value(self, path: str) -> Any:
        """Return a value; the name is that of Neptune's method.

        Raises:
            ValueError: If the run has no value there, or the table has no such column.
        """
        if path not in self:
            raise ArgumentError(
                f"no value for column {path!r} in this row; it has {', '.join(self)}"
            )
        return self[path]


class RunsTable:
    """Table of runs, one row each; made by `seamark.Project.fetch_runs_table`.

    ``table[0]`` is a row, ``table["val/loss"]`` is a column, ``"val/loss" in table`` is whether the
    column exists, and iterating gives the rows.

    A row is a dict from column to value, without missing values. A series is represented by its
    last value (or by the aggregate of the column, as in ``val/loss:min``), a string set by a sorted
    list, files by their names, artifacts by their hash.

    Attributes:
        columns: All columns, ``sys/id`` first.
        refs: (project, run id) of the rows.
        offset: Number of matching runs before the first row.
        known_total: Total, if known without counting.
        count: Function that counts the matching runs otherwise.
    """

    count: Callable[[], int]

    def __init__(
        self,
        cells: Mapping[str, list[Any]],
        refs: list[tuple[str, str]],
        total: int | None,
        offset: int = 0,
    ) -> None:
        self.columns = list(cells)
        self.refs = refs
        self.offset = offset
        self.known_total = total
        self._cells = cells
        self._rows: list[RunRow] | None = None

    @property
    def total(self) -> int:
        """Number of matching runs, ignoring limit and offset.

        It is counted on first use if a limit truncated the table.
        """
        if self.known_total is None:
            self.known_total = self.count()
        return self.known_total

    def __reduce__(self) -> tuple[Any, ...]:
        return RunsTable, (self._cells, self.refs, self.total, self.offset)

    def only(
        self,
        refs: Collection[tuple[str, str]],
        limit: int | None = None,
        without: Collection[str] = (),
    ) -> RunsTable:
        """Return the rows of given runs up to a limit, in order, without some columns."""
        places = [at for at, ref in enumerate(self.refs) if ref in refs]
        shown = places[:limit]
        cells = {
            name: [values[at] for at in shown]
            for name, values in self._cells.items()
            if name not in without
        }
        return RunsTable(cells, [self.refs[at] for at in shown], len(places))

    @property
    def rows(self) -> list[RunRow]:
        """Rows, in order."""
        if self._rows is None:
            self._rows = [RunRow() for _ in self.refs]
            for column, values in self._cells.items():
                for row, value in zip(self._rows, values, strict=True):
                    if value is not None:
                        row[column] = value
        return self._rows

    def __iter__(self) -> Iterator[RunRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> RunRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[RunRow]: ...
    @overload
    def __getitem__(self, at: str) -> list[Any]: ...
    def __getitem__(self, at: int | slice | str) -> RunRow | list[RunRow] | list[Any]:
        """Return a row (0-based; negative from the end), a slice of rows, or a column.

        In a column, None means that a run has no value.

        Raises:
            IndexError: If there is no such row.
            MissingFieldError: If there is no such column; the message names the nearest.
            TypeError: If the index is not a number, a slice or a name.
        """
        if not isinstance(at, str):
            return self.rows[at if isinstance(at, slice) else number_of(at, len(self))]
        if at in self._cells:
            return list(self._cells[at])
        raise _missing_column(at, self.columns)

    def __contains__(self, column: object) -> bool:
        """Return whether a column exists, or, for a dict, an equal row."""
        return column in self.rows if isinstance(column, dict) else column in self.columns

    def __len__(self) -> int:
        return len(self.refs)

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns[:_MAX_KEYS]

    def _repr_html_(self) -> str:
        return html_or_text(self._page, self.__repr__)

    def _page(self) -> str:
        shown = _first_columns(self.columns)

        def row(at: int) -> list[str]:
            values = (self._cells[column][at] for column in shown)
            return ["" if value is None else text(value) for value in values]

        total = self.known_total
        of = "" if total in (None, len(self)) else f" of {total:,}"
        title = f"{plural(len(self), 'run')}{of}, {plural(len(self.columns), 'column')}"
        if len(shown) < len(self.columns):
            title += f", of which {len(shown)} are shown"
        return rows_of(title, shown, len(self), row)

    def __repr__(self) -> str:
        of = "" if self.known_total is None else f" of {self.known_total}"
        return f"<RunsTable: {len(self)}{of} runs, {len(self.columns)} columns>"

    def to_rows(self) -> list[RunRow]:
        """Return the rows."""
        return self.rows

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return an array for each column: float64 for numbers (NaN: no value), else objects."""
        import numpy as np

        found: dict[str, np.ndarray[Any, Any]] = {}
        for column, values in self._cells.items():
            if _all_numbers(values):
                found[column] = np.array(
                    [np.nan if value is None else float(value) for value in values]
                )
            else:
                found[column] = np.empty(len(values), object)
                found[column][:] = values
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; string sets become ``"a,b"``, as in Neptune.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        frame = pandas()
        data = {column: _joined(values) for column, values in self._cells.items()}
        made: pd.DataFrame = frame.DataFrame(data, columns=self.columns)
        return made


def _first_columns(columns: list[str]) -> list[str]:
    if len(columns) <= _MAX_COLUMNS:
        return columns
    found = [one for one in _NAMES if one in columns]
    rest = [one for one in columns if one not in _NAMES]
    rest.sort(key=is_background)
    return (found + rest)[:_MAX_COLUMNS]


def _all_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53) for value in known
    )


def _joined(values: list[Any]) -> list[Any]:
    if not any(type(value) is StringList for value in values):
        return values
    return [",".join(each) if type(each) is StringList else each for each in values]


def _missing_column(name: str, columns: Sequence[str]) -> MissingFieldError:
    return MissingFieldError(f"the table has no column {name!r:.200}{hint_for(name, columns)}")


class StringList(list[str]):
    """Sorted elements of a string set in a row, as opposed to a recorded list."""


class _LongTable:
    columns: ClassVar[tuple[str, ...]] = ()
    _kinds: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Attribute of a part that holds a column, and its type, by column."""

    def __init__(self, parts: list[tuple[str, str, Any]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(len(part) for _, _, part in self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for run, path, part in self.parts:
            yield from self._rows(run, path, part)

    def _rows(
        self, run: str, path: str, part: Any, some: slice = slice(None)
    ) -> Iterator[dict[str, Any]]:
        columns = [getattr(part, name)[some].tolist() for name, _ in self._kinds.values()]
        for values in zip(*columns, strict=True):
            row = {"run": run, "path": path, **dict(zip(self._kinds, values, strict=True))}
            if "time" in row:
                row["time"] = time_of(row["time"])
            yield row

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    @overload
    def __getitem__(self, at: str) -> np.ndarray[Any, Any]: ...
    def __getitem__(
        self, at: int | slice | str
    ) -> dict[str, Any] | list[dict[str, Any]] | np.ndarray[Any, Any]:
        """Return a row (0-based; negative from the end), a slice of rows, or a column.

        A column is an array, as in `to_numpy`.

        Raises:
            IndexError: If there is no such row.
            MissingFieldError: If there is no such column; the message names the nearest.
            TypeError: If the index is not a number, a slice or a name.
        """
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        if isinstance(at, str):
            if at not in self.columns:
                raise _missing_column(at, self.columns)
            return self._column(at) if at in self._kinds else self._text_columns()[at]
        place = number_of(at, len(self))
        for run, path, part in self.parts:
            if place < len(part):
                return next(self._rows(run, path, part, slice(place, place + 1)))
            place -= len(part)
        raise AssertionError  # the lengths of the parts add up to that of the table

    def __contains__(self, column: object) -> bool:
        """Return whether a column exists, or, for a dict, an equal row."""
        return (
            any(row == column for row in self)
            if isinstance(column, dict)
            else (column in self.columns)
        )

    def _repr_html_(self) -> str:
        return html_or_text(self._page, self.__repr__)

    def _page(self) -> str:
        def row(at: int) -> list[str]:
            return [text(value) for value in self[at].values()]

        title = f"{plural(len(self), 'row')} of {len(self.parts):,} series"
        return rows_of(title, self.columns, len(self), row)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, with times as aware datetimes in UTC."""
        return list(self)

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return an array for each column; ``time`` is in nanoseconds since the Unix epoch."""
        return self._text_columns() | {name: self._column(name) for name in self._kinds}

    def _text_columns(self) -> dict[str, np.ndarray[Any, Any]]:
        import numpy as np

        sizes = [len(part) for _, _, part in self.parts]
        found: dict[str, np.ndarray[Any, Any]] = {}
        for name, place in (("run", 0), ("path", 1)):
            words = np.empty(len(self.parts), object)
            words[:] = [part[place] for part in self.parts]
            found[name] = np.repeat(words, sizes)
        return found

    def _column(self, name: str) -> np.ndarray[Any, Any]:
        import numpy as np

        attribute, kind = self._kinds[name]
        columns = [getattr(part, attribute) for _, _, part in self.parts]
        return np.concatenate(columns) if columns else np.empty(0, kind)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; run and path are categories, times are UTC.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        frame = pandas()
        sizes = [len(part) for _, _, part in self.parts]

        def category(place: int) -> Any:
            words = [str(part[place]) for part in self.parts]
            return frame.Categorical(words, list(dict.fromkeys(words))).repeat(sizes)

        data: dict[str, Any] = {"run": category(0), "path": category(1)}
        data |= {name: self._column(name) for name in self._kinds}
        if "time" in data:
            data["time"] = frame.DatetimeIndex(data["time"].view("M8[ns]"), tz="UTC")
        made: pd.DataFrame = frame.DataFrame(data, columns=list(self.columns), copy=False)
        return made


class SeriesTable(_LongTable):
    """Points of several series of several runs; see `seamark.Project.fetch_series`.

    Columns: ``run``, ``path``, ``step``, ``value``, ``time`` and ``attempt`` (-1: the writer
    belongs to none).

    Attributes:
        parts: (run id, path, points) of every series that has points, in the order of the runs.
    """

    columns = ("run", "path", "step", "value", "time", "attempt")
    _kinds: ClassVar = {
        "step": ("step", "f8"),
        "value": ("value", "f8"),
        "time": ("time_ns", "i8"),
        "attempt": ("attempt", "i8"),
    }

    def __repr__(self) -> str:
        return f"<SeriesTable: {len(self)} points of {len(self.parts)} series>"


class CurveTable(_LongTable):
    """Several series of several runs in parts, for drawing.

    Columns: ``run``, ``path``, ``first_step``, ``last_step``, ``min``, ``max``, ``min_step``,
    ``max_step``, ``mean``, ``count``, ``nan_count`` and ``inf_count``; see
    `seamark.reading.curves.Curve`.

    Attributes:
        parts: (run id, path, curve) of every series that has points, in the order of the runs.
    """

    _kinds: ClassVar = {
        "first_step": ("first_step", "f8"),
        "last_step": ("last_step", "f8"),
        "min": ("min", "f8"),
        "max": ("max", "f8"),
        "min_step": ("min_step", "f8"),
        "max_step": ("max_step", "f8"),
        "mean": ("mean", "f8"),
        "count": ("count", "i8"),
        "nan_count": ("nan_count", "i8"),
        "inf_count": ("inf_count", "i8"),
    }
    columns = ("run", "path", *_kinds)

    def __repr__(self) -> str:
        return f"<CurveTable: {len(self)} parts of {len(self.parts)} series>"
