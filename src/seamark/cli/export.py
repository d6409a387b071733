"""``seamark export``: CSV, JSON and Parquet for other programs.

Runs are read one after the other, so a table of many runs needs little memory.
"""

from __future__ import annotations

import csv
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from seamark.cli import _facts, _runs
from seamark.cli._app import misuse, root_option
from seamark.cli._facts import exact_text
from seamark.cli._runs import (
    RunRef,
    Runs,
    attempt_option,
    matching_paths,
    nonempty_path,
    open_runs,
    project_option,
    query_option,
    runs_argument,
)
from seamark.cli._screen import data_output, dumps, note
from seamark.paths import matches
from seamark.reading.document import SERIES, document_of, own_attributes, utc, value_mapping
from seamark.reading.text import csv_safe, hint_for, human_bytes, plural, step_text, value_text

if TYPE_CHECKING:
    import pyarrow as pa

    from seamark.reading.attributes import Attribute
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader


def write_csv(file: IO[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV."""
    # With line feeds as line ends, csv.writer does not quote carriage returns before Python 3.13,
    # and readers take them for the end of a row.
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        odd = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if odd else plain).writerow(row)


def write_rows(form: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table as ``"csv"`` or ``"json"``; missing values are null or an empty cell."""
    if form == "json":
        click.echo(dumps([{name.lstrip("/"): row.get(name) for name in columns} for row in rows]))
        return
    file = data_output()
    write_csv(file, [[csv_safe(name.lstrip("/")) for name in columns]])
    write_csv(file, ([exact_text(row.get(name)) for name in columns] for row in rows))


POINTS: Final = ("run", "path", "step", "value", "time", "attempt")
"""Columns of a table of points."""
ATTRIBUTES: Final = ("run", "path", "family", "type", "value")
"""Columns of a table of attributes."""
FAMILIES: Final = {"series": "float_series", "texts": "string_series"}
"""Family of the values in each table of points."""


class Tables:
    """Tables of several runs, for a single iteration; each run is read when it is reached."""

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
        """Yield a row for each attribute (series as JSON), and whether its value is free text."""
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


_GROUP_ROWS: Final = 1 << 18
"""Rows per row group, held in memory; many small groups make a file slow to read."""


def write_parquet(file: IO[bytes], tables: Tables, what: str) -> int:
    """Write a table as Parquet; return the number of its rows."""
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
            if size >= _GROUP_ROWS:
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
    while part := list(islice(rows, _GROUP_ROWS)):
        yield tuple(zip(*part, strict=True))


def _unicode(text: str) -> str:
    """Return a text with visible escapes for lone surrogates, which Parquet cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


_FORMATS: Final = ("csv", "json", "parquet")
_TABLE_NAMES: Final = {"series": "series of numbers", "texts": "series of texts"}


@click.command(short_help="Write runs as CSV, JSON or Parquet.")
@runs_argument
@project_option
@query_option
@click.option("--all", "everything", is_flag=True, help="Write all runs.")
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="Output format.  [default: from the extension of FILE; csv without FILE]",
)
@click.option(
    "-w",
    "--what",
    type=click.Choice(["series", "texts", "attributes"]),
    help="Data to write.  [default: series; in JSON, everything]",
)
@click.option(
    "-p",
    "--path",
    "patterns",
    multiple=True,
    metavar="PATH",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Only this path, namespace or pattern with *. May be repeated.",
)
@attempt_option
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@root_option
@click.pass_context
def export(
    context: click.Context,
    names: tuple[str, ...],
    project: str | None,
    query: str | None,
    kind: str | None,
    what: str | None,
    patterns: tuple[str, ...],
    attempt: Attempt,
    out: Path | None,
    *,
    everything: bool,
    force: bool,
) -> None:
    """Write runs as CSV, JSON or Parquet.

    CSV and Parquet files contain one long table. For series, the columns are run, path, step,
    value, time and attempt, with one row for each point; times are UTC with nanoseconds. For
    attributes, they are run, path, family, type and value; the value of a series is its summary as
    JSON. JSON output is one document with both. NaN and infinities are written as nan, inf and -inf
    (strings in JSON), and numbers keep all digits. In CSV, text that a spreadsheet would run as a
    formula (it begins with =, +, - or @) gets a leading apostrophe.

    FILE appears only when it is complete; an existing file is overwritten only with --force.
    Parquet needs pip install "seamark[parquet]".

    For a wide table with one row for each run, use: seamark ls --csv

    \b
    Examples:
      seamark export latest -o latest.csv
      seamark export --query 'val/loss < 0.3' --path 'val/*' > curves.csv
      seamark export quick-otter --what attributes
      seamark export --all -o everything.parquet
    """
    kind = _format(kind, out)
    if kind == "parquet":
        from seamark.interchange.export import check_parquet

        check_parquet()
    if out is not None:
        _check_output_path(out, force=force)
    runs = open_runs(context, project)
    context.with_resource(runs.index.moment())
    refs = _selected_runs(runs, names, project, query, everything=everything)
    what = what or (None if kind == "json" else "series")
    _check_paths(runs, refs, patterns, what)
    tables = Tables(((ref, runs.view(ref)) for ref in refs), patterns, attempt)
    with _output(out, binary=kind == "parquet") as file:
        if kind == "json":
            rows = _write_json(file, tables, what)
        else:
            rows = (write_parquet if kind == "parquet" else _write_csv)(file, tables, str(what))
    if not rows and what in _TABLE_NAMES:
        note(f"no {_TABLE_NAMES[what]} found: only the names of the columns were written")
    if out is not None:
        count = plural(rows, *(("value", "values") if kind == "json" else ("row", "rows")))
        size = human_bytes(out.stat().st_size)
        note(f"wrote {plural(len(refs), 'run')}, {count}, {size} of {kind} to {out}")


def _format(kind: str | None, out: Path | None) -> str:
    if out is None:
        if kind == "parquet":
            misuse("cannot write parquet to standard output: name a file with -o FILE.parquet")
        return kind or "csv"
    ending = out.suffix.lower().removeprefix(".")
    if ending not in _FORMATS:
        if kind is None:
            known = ", ".join(f".{one}" for one in _FORMATS)
            misuse(f"unknown format of {out}: expected one of {known}, or --format")
        return kind
    if kind not in {None, ending}:
        misuse(f"--format {kind} contradicts the extension of {out}")
    return ending


def _check_output_path(out: Path, *, force: bool) -> None:
    if not out.parent.is_dir():
        misuse(f"cannot write {out}: the folder {out.parent} does not exist")
    if not force and (out.exists() or out.is_symlink()):
        misuse(f"{out} exists: nothing was written (overwrite it with --force)")


def _check_paths(
    runs: Runs, refs: Sequence[RunRef], patterns: Sequence[str], what: str | None
) -> None:
    missing, known = list(dict.fromkeys(patterns)), dict[str, str]()
    for ref in refs:
        if not missing:
            return
        found = {one.path: one.family for one in runs.view(ref).attributes()}
        known.update(found)
        wanted = FAMILIES.get(what or "")
        fitting = [path for path, family in found.items() if wanted in (None, family)]
        missing = [one for one in missing if not any(matches(path, one) for path in fitting)]
    if missing:
        misuse(_explain_missing_path(missing[0], known, what))


def _explain_missing_path(pattern: str, known: dict[str, str], what: str | None) -> str:
    if held := next((family for path, family in known.items() if matches(path, pattern)), None):
        what_else = next((one for one, of in FAMILIES.items() if of == held), "attributes")
        kind = _TABLE_NAMES[str(what)]
        return f"--path {pattern}: no {kind} is there (--what {what_else} shows it)"
    hint = hint_for(pattern.strip("/*"), known, "; seamark show RUN lists the paths")
    return f"--path {pattern}: none of the runs has it{hint}"


def _selected_runs(
    runs: Runs, names: Sequence[str], project: str | None, query: str | None, *, everything: bool
) -> list[RunRef]:
    given = bool(names) + (query is not None) + everything
    if given > 1:
        misuse("which runs? expected names, --query or --all, got more than one of them")
    if not given:
        misuse("which runs? name them, or give --query or --all")
    if everything:
        runs.expect_project(project)
        return runs.select("", project)
    return runs.chosen(names, project, query)


@contextmanager
def _output(path: Path | None, *, binary: bool) -> Iterator[IO[Any]]:
    # The file has a temporary name until it is complete.
    if path is None:
        yield data_output()
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        words = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
        given: Any = {} if binary else words
        with draft.open("xb" if binary else "x", **given) as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write_csv(file: IO[str], tables: Tables, what: str) -> int:
    write_csv(file, [ATTRIBUTES if what == "attributes" else POINTS])
    rows = 0
    for part in _attribute_rows(tables) if what == "attributes" else _point_rows(tables, what):
        rows += len(part)
        write_csv(file, part)
    return rows


def _point_rows(tables: Tables, what: str) -> Iterator[list[Sequence[Any]]]:
    shown = csv_safe if what == "texts" else repr
    for run, path, step, value, time_ns, attempt in tables.points(what):
        name = csv_safe(path)
        listed = [one if what == "texts" else one.tolist() for one in (step, value, attempt)]
        yield [
            (run, name, step_text(at), shown(one), time, number)
            for at, one, number, time in zip(*listed, utc(time_ns), strict=True)
        ]


def _attribute_rows(tables: Tables) -> Iterator[list[Sequence[Any]]]:
    for (run, path, *kinds, value), is_text in tables.attributes():
        yield [(run, csv_safe(path), *kinds, csv_safe(value) if is_text else value)]


def _write_json(file: IO[str], tables: Tables, what: str | None) -> int:
    file.write('{"runs": [')
    count = 0
    for number, (_, view) in enumerate(tables.views):
        document = document_of(
            view,
            ("attributes", *SERIES) if what is None else (what,),
            wanted=set(matching_paths(view, tables.patterns, None)).__contains__,
            attempt=tables.attempt,
            whole=partial(_facts.text_or_record, view),
        )
        count += len(document.get("attributes", ()))
        for part in SERIES:
            count += sum(len(one["step"]) for one in document.get(part, {}).values())
        file.write(",\n" if number else "\n")
        file.write(dumps(document, indent=None))
    file.write("\n]}\n")
    return count
