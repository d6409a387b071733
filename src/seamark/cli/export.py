"""``seamark export``: CSV and JSON for other programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from seamark.cli import _complete, _facts
from seamark.cli._app import misuse, root_option
from seamark.cli._json import dumps, plain
from seamark.cli._runs import (
    RunRef,
    Runs,
    attempt_option,
    matching_paths,
    open_runs,
    project_option,
    query_option,
    runs_argument,
)
from seamark.cli._screen import data_output, note
from seamark.cli._text import plural, step_text
from seamark.cli.show import as_mapping

if TYPE_CHECKING:
    from seamark.local.view import RunView
    from seamark.reading.attributes import Attribute
    from seamark.reading.points import Attempt

__all__ = ["export"]

_SERIES_COLUMNS: Final = ("run", "path", "step", "value", "time", "attempt")
_ATTRIBUTE_COLUMNS: Final = ("run", "path", "family", "type", "value")
_SERIES: Final = ("float_series",)
_TEXTS: Final = ("string_series",)


@click.command(short_help="Write runs as CSV or JSON.")
@runs_argument
@project_option
@query_option
@click.option("--all", "everything", is_flag=True, help="All runs.")
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(["csv", "json"]),
    help="Format.  [default: by the name of FILE, else csv]",
)
@click.option(
    "-w",
    "--what",
    type=click.Choice(["series", "texts", "attributes"]),
    help="What to write.  [default: series; in JSON all]",
)
@click.option(
    "-p",
    "--path",
    "patterns",
    multiple=True,
    metavar="PATH",
    shell_complete=_complete.paths,
    help="Only these paths, namespaces or patterns with *.",
)
@attempt_option
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of to standard output.",
)
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
) -> None:
    """Write runs as CSV or JSON.

    CSV is one long table. Series: run, path, step, value, time, attempt, one line for each point;
    times are UTC with nanoseconds. Attributes: run, path, family, type, value; the value of a
    series is its summary, as JSON. JSON is one document with both. NaN and infinities are nan, inf
    and -inf (strings in JSON), numbers keep all their digits.

    A wide table with one line for each run is: seamark ls --csv

    \b
    Examples:
      seamark export latest -o latest.csv
      seamark export --query 'val/loss < 0.3' --path 'val/*' > curves.csv
      seamark export quick-otter --what attributes
      seamark export --all -o everything.json
    """
    runs = open_runs(context, project)
    refs = _chosen(runs, names, project, query, everything=everything)
    kind = kind or ("json" if out is not None and out.suffix.lower() == ".json" else "csv")
    views = ((ref, runs.view(ref)) for ref in refs)
    with _output(out) as file:
        if kind == "json":
            _write_json(file, views, what, patterns, attempt)
        else:
            _write_csv(file, views, what or "series", patterns, attempt)
    if out is not None:
        note(f"wrote {plural(len(refs), 'run')} to {out}")


def _chosen(
    runs: Runs, names: Sequence[str], project: str | None, query: str | None, *, everything: bool
) -> list[RunRef]:
    given = bool(names) + (query is not None) + everything
    if given != 1:
        misuse("which runs? name some, or give one of --query and --all")
    if everything:
        return runs.select("", project)
    return runs.chosen(names, project, query)


@contextmanager
def _output(path: Path | None) -> Iterator[IO[str]]:
    """Open the file to write; it has another name until it is whole."""
    if path is None:
        yield data_output()
        return
    if not path.parent.is_dir():
        misuse(f"cannot write {path}: the folder {path.parent} does not exist")
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


Views = Iterator[tuple[RunRef, "RunView"]]


def _write_csv(
    file: IO[str], views: Views, what: str, patterns: Sequence[str], attempt: Attempt
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_ATTRIBUTE_COLUMNS if what == "attributes" else _SERIES_COLUMNS)
    rows = {"series": _series_rows, "texts": _text_rows, "attributes": _attribute_rows}[what]
    for ref, view in views:
        writer.writerows(rows(ref, view, patterns, attempt))


def _series_rows(
    ref: RunRef, view: RunView, patterns: Sequence[str], attempt: Attempt
) -> Iterator[Sequence[Any]]:
    for path in matching_paths(view, patterns, _SERIES):
        points = view.points(path, attempt)
        columns = (
            points.step.tolist(),
            points.value.tolist(),
            _times(points.time_ns),
            points.attempt.tolist(),
        )
        for step, value, time, number in zip(*columns, strict=True):
            yield ref.run, path, step_text(step), repr(value), time, number


def _times(time_ns: Any) -> list[str]:
    import numpy as np

    return [f"{time}Z" for time in np.datetime_as_string(time_ns.astype("datetime64[ns]")).tolist()]


def _text_rows(
    ref: RunRef, view: RunView, patterns: Sequence[str], attempt: Attempt
) -> Iterator[Sequence[Any]]:
    for path in matching_paths(view, patterns, _TEXTS):
        for point in view.texts(path, attempt):
            yield (
                ref.run,
                path,
                step_text(point.step),
                _facts.exact_text(_facts.text_or_record(view, point.text, path)),
                _time(point.time_ns),
                point.attempt,
            )


def _time(time_ns: int) -> str:
    import numpy as np

    return f"{np.datetime64(time_ns, 'ns')}Z"


def _attribute_rows(
    ref: RunRef, view: RunView, patterns: Sequence[str], attempt: Attempt
) -> Iterator[Sequence[Any]]:
    del attempt  # attributes are those of the run as a whole
    for attribute in _attributes(view, patterns):
        yield ref.run, attribute.path, attribute.family, attribute.type, _cell(view, attribute)


def _cell(view: RunView, attribute: Attribute) -> str:
    value = attribute.value
    if attribute.type == "text":
        return _facts.exact_text(_facts.text_or_record(view, value, attribute.path))
    if attribute.family == "atom":
        return "null" if value is None else _facts.exact_text(value)
    return dumps(_facts.value_mapping(value), indent=None)


def _attributes(view: RunView, patterns: Sequence[str]) -> list[Attribute]:
    if not patterns:
        return view.attributes()
    wanted = set(matching_paths(view, patterns, None))
    return [attribute for attribute in view.attributes() if attribute.path in wanted]


def _write_json(
    file: IO[str], views: Views, what: str | None, patterns: Sequence[str], attempt: Attempt
) -> None:
    """Write run after run, so that no more than one is held in memory."""
    file.write('{"runs": [')
    for number, (ref, view) in enumerate(views):
        file.write(",\n" if number else "\n")
        file.write(dumps(_document(ref, view, what, patterns, attempt), indent=None))
    file.write("\n]}\n")


def _document(
    ref: RunRef, view: RunView, what: str | None, patterns: Sequence[str], attempt: Attempt
) -> dict[str, Any]:
    out: dict[str, Any] = {"project": ref.project, "run": ref.run}
    if what in {None, "attributes"}:
        out["attributes"] = as_mapping(_attributes(view, patterns))
    parts: tuple[tuple[str, tuple[str, ...], Callable[..., dict[str, Any]]], ...] = (
        ("series", _SERIES, _series_columns),
        ("texts", _TEXTS, _text_columns),
    )
    for name, families, columns in parts:
        if what in {None, name}:
            out[name] = {
                path: columns(view, path, attempt)
                for path in matching_paths(view, patterns, families)
            }
    return out


def _series_columns(view: RunView, path: str, attempt: Attempt) -> dict[str, Any]:
    points = view.points(path, attempt)
    return {
        "step": points.step.tolist(),
        "value": plain(points.value.tolist()),
        "time": _times(points.time_ns),
        "attempt": points.attempt.tolist(),
    }


def _text_columns(view: RunView, path: str, attempt: Attempt) -> dict[str, Any]:
    points = view.texts(path, attempt)
    return {
        "step": [point.step for point in points],
        "value": [_facts.text_or_record(view, point.text, path) for point in points],
        "time": [_time(point.time_ns) for point in points],
        "attempt": [point.attempt for point in points],
    }
