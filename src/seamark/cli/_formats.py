"""Export of runs as long tables, in CSV, JSON and Parquet.

Runs are read one after the other, so a table of many runs needs little memory.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

import click

from seamark.cli import _facts
from seamark.cli._facts import exact_text
from seamark.cli._runs import RunRef, matching_paths
from seamark.cli._screen import data_output, dumps
from seamark.reading.document import own_attributes, value_mapping
from seamark.reading.words import csv_safe, value_text

if TYPE_CHECKING:
    import pyarrow as pa

    from seamark.reading.attributes import Attribute
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader

__all__ = [
    "ATTRIBUTES",
    "FAMILIES",
    "POINTS",
    "CsvWriter",
    "Tables",
    "write_parquet",
    "write_rows",
]


class CsvWriter:
    # With line feeds as the ends of lines Python's own writer leaves carriage returns bare (before
    # 3.13), and readers take them for the end of a row.

    def __init__(self, file: IO[str]) -> None:
        self._plain = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def rows(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            odd = any(isinstance(cell, str) and "\r" in cell for cell in row)
            (self._quoted if odd else self._plain).writerow(row)


def write_rows(form: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table as ``"csv"`` or ``"json"``; missing values are null or an empty cell."""
    if form == "json":
        click.echo(dumps([{name.lstrip("/"): row.get(name) for name in columns} for row in rows]))
        return
    writer = CsvWriter(data_output())
    writer.rows([[csv_safe(name.lstrip("/")) for name in columns]])
    writer.rows([exact_text(row.get(name)) for name in columns] for row in rows)


POINTS: Final = ("run", "path", "step", "value", "time", "attempt")
"""Columns of a table of points."""
ATTRIBUTES: Final = ("run", "path", "family", "type", "value")
"""Columns of a table of attributes."""
FAMILIES: Final = {"series": "float_series", "texts": "string_series"}
"""Tables of points, and the family of what is in each."""


class Tables:
    """The tables of some runs, gone through once; a run is read when its turn comes."""

    def __init__(
        self, views: Iterator[tuple[RunRef, Reader]], patterns: Sequence[str], attempt: Attempt
    ) -> None:
        self.views, self.patterns, self.attempt = views, patterns, attempt

    def points(self, what: str) -> Iterator[tuple[str, str, Any, Any, Any, Any]]:
        """Yield run id, path, steps, values, times (ns) and attempts series by series."""
        for ref, view in self.views:
            for path in matching_paths(view, self.patterns, (FAMILIES[what],)):
                if what == "series":
                    found = view.points(path, self.attempt)
                    yield ref.run, path, found.step, found.value, found.time_ns, found.attempt
                else:
                    texts = view.texts(path, self.attempt)
                    yield (
                        ref.run,
                        path,
                        [one.step for one in texts],
                        [_text(view, one.text, path) for one in texts],
                        [one.time_ns for one in texts],
                        [one.attempt for one in texts],
                    )

    def attributes(self) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield a row for each attribute (of series, JSON), and if its value is free text."""
        for ref, view in self.views:
            wanted = set(matching_paths(view, self.patterns, None))
            for one in own_attributes(view):
                if one.path in wanted:
                    is_text = isinstance(one.value, str) or one.type == "text"
                    yield (ref.run, one.path, one.family, one.type, _value(view, one)), is_text


def _text(view: Reader, text: Any, path: str) -> str:
    found = _facts.text_or_record(view, text, path)
    return found if isinstance(found, str) else dumps(found, indent=None)


def _value(view: Reader, attribute: Attribute) -> str:
    value = attribute.value
    if isinstance(value, str) or attribute.type == "text":
        return _text(view, value, attribute.path)
    if attribute.family != "atom" or isinstance(value, list | dict):
        return dumps(value_mapping(value), indent=None)
    return value_text(value, exact=True)


_GROUP: Final = 1 << 18
"""Rows of a group, which are held in memory; many small groups would make a file slow to read."""


def write_parquet(file: IO[bytes], tables: Tables, what: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(what)
    parts = _attributes(tables) if what == "attributes" else _points(tables, what)
    rows, waiting, size = 0, list[pa.Table](), 0
    with pq.ParquetWriter(file, schema) as writer:
        for columns in parts:
            table = pa.Table.from_arrays(
                [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)],
                schema=schema,
            )
            waiting.append(table)
            size += len(table)
            if size >= _GROUP:
                writer.write_table(pa.concat_tables(waiting).combine_chunks())
                rows, waiting, size = rows + size, [], 0
        if size:
            writer.write_table(pa.concat_tables(waiting).combine_chunks())
    return rows + size


def _schema(what: str) -> pa.Schema:
    import pyarrow as pa

    if what == "attributes":
        return pa.schema([(name, pa.string()) for name in ATTRIBUTES])
    value = pa.float64() if what == "series" else pa.string()
    kinds = (
        pa.string(),
        pa.string(),
        pa.float64(),
        value,
        pa.timestamp("ns", tz="UTC"),
        pa.int64(),
    )
    return pa.schema(list(zip(POINTS, kinds, strict=True)))


def _points(tables: Tables, what: str) -> Iterator[tuple[Any, ...]]:
    for run, path, step, value, time_ns, attempt in tables.points(what):
        values = [_unicode(text) for text in value] if what == "texts" else value
        size = len(step)
        yield [run] * size, [_unicode(path)] * size, step, values, time_ns, attempt


def _attributes(tables: Tables) -> Iterator[tuple[Any, ...]]:
    rows = (tuple(map(_unicode, row)) for row, _ in tables.attributes())
    while part := list(islice(rows, _GROUP)):
        yield tuple(zip(*part, strict=True))


def _unicode(text: str) -> str:
    """Return a text with visible escapes for lone surrogates, which Parquet cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
