"""Long tables as Parquet, for what is too large to be read from text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

from seamark.cli._tables import ATTRIBUTES, POINTS, Tables
from seamark.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_parquet", "write_parquet"]

_GROUP: Final = 1 << 18
"""Rows of a group, which are held in memory; many small groups would make a file slow to read."""


def check_parquet() -> None:
    """Refuse to begin without what writes Parquet.

    Raises:
        MissingExtraError: If the extra ``parquet`` is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        msg = f'parquet needs the package {error.name}: pip install "seamark[parquet]"'
        raise MissingExtraError(msg, name=error.name) from error


def write_parquet(file: IO[bytes], tables: Tables, what: str) -> int:
    """Write one table and return the number of its rows.

    Args:
        file: Open for writing.
        tables: Of the runs.
        what: ``"series"``, ``"texts"`` or ``"attributes"``.
    """
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
    """Yield the columns of one series after the other."""
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
