"""HTML of runs, projects and attributes in notebooks; only shown values are read."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import SeamarkError
from seamark.paths import home_of, kind_of, model_key
from seamark.reading.attributes import (
    Attribute,
    SeriesSummary,
    is_background,
    is_counter,
    metric_order,
)
from seamark.reading.curves import line_of
from seamark.reading.html import block, table, text
from seamark.reading.names import generated_name
from seamark.reading.text import file_text, plural, short_text

if TYPE_CHECKING:
    from seamark.reading.browsing import Recording
    from seamark.reading.reader import Reader
    from seamark.reading.tables import RunsTable


_MAX_ROWS: Final = 12
"""Number of rows of each table."""
_MAX_REASON_CHARS: Final = 300
"""Maximum length of the reason of a run's end, in characters."""
_MAX_POINTS: Final = 200
_MAX_IMAGE_BYTES: Final = 1 << 20
_SUMMARY_FIELDS: Final = (
    "last", "min", "max", "mean", "count", "nan_count", "inf_count", "first_step", "last_step",
)  # fmt: skip
_FACTS: Final = {
    "created": "sys/creation_time",
    "tags": "sys/tags",
    "description": "sys/description",
}
_REGISTERED_FACTS: Final = {
    "name": "sys/name",
    "number": "sys/version",
    "stage": "sys/stage",
    "description": "sys/description",
    "tags": "sys/tags",
    "created": "sys/creation_time",
}
_KIND_NAMES: Final = {
    "model": "Model",
    "model_version": "Version of model",
    "artifact": "Artifact",
}


def page_of(recorded: Recording, project: str, run: str) -> str:
    """Return a run, model, model version or artifact as HTML."""
    reader, kind = recorded.reader(), kind_of(project, run)
    fact_paths = _FACTS if kind == "run" else _REGISTERED_FACTS
    wanted = ["sys/name", "sys/state", "sys/crash_reason", *fact_paths.values()]
    facts = {one.path: one.value for one in _read_attributes(recorded, reader, wanted)}
    rows = [("project", text(home_of(project)))]
    if kind != "model":
        rows.append(("id", text(run)))
    if kind != "run":
        title = f"{_KIND_NAMES[kind]} {text(model_key(project, run))}"
    else:
        state = facts.get("sys/state", "created")
        shown = "disabled: nothing is recorded" if recorded.disabled else state
        title = f"Run {text(facts.get('sys/name') or generated_name(run))} · {text(shown)}"
        reason = facts.get("sys/crash_reason") if state == "crashed" else None
        if state in ("failed", "interrupted") and reader is not None:
            reason = reader.reason
        if reason:
            rows.append((state, text(reason, _MAX_REASON_CHARS)))
    rows += [(name, text(facts[path])) for name, path in fact_paths.items() if facts.get(path)]
    return block(title, table((), rows), *_tables(recorded, reader, recorded.families()))


def page_of_project(recorded: Recording, project: str, states: RunsTable, newest: RunsTable) -> str:
    """Return a project as HTML: its attributes, the states of all runs, and the newest runs."""
    counts = sorted(Counter(states["sys/state"]).items())
    words = ", ".join(f"{count:,} {text(state)}" for state, count in counts)
    columns = ("sys/id", "sys/name", "sys/state", "sys/creation_time")
    rows = [[text(row.get(name, "")) for name in columns] for row in newest.rows]
    hint = "<div><code>project.fetch_runs_table()</code> returns all runs</div>" if rows else ""
    return block(
        f"Project {text(project)} · {plural(states.total, 'run')}",
        f"<div>{words}</div>" if words else "",
        table(("newest runs", "name", "state", "created"), rows),
        hint,
        *_tables(recorded, recorded.reader(), recorded.families()),
    )


def page_of_path(recorded: Recording, path: str) -> str:
    """Return a path of a run or project, with the paths below it, as HTML."""
    reader, families = recorded.reader(), recorded.families(path)
    here = _read_attributes(recorded, reader, [path]) if path in families else []
    families.pop(path, None)
    of = text(recorded.words)
    if not here and not families:
        return block(text(path), f"<div>nothing is recorded here in {of}</div>")
    parts = [part for one in here for part in _render_attribute(reader, one)]
    if families:
        parts += _tables(recorded, reader, families, background=True)
    kind = here[0].type.replace("_", " ") if here else plural(len(families), "path") + " below"
    return block(f"{text(path)} · {text(kind)}", *parts, f"<div>of {of}</div>")


def _read_attributes(
    recorded: Recording, reader: Reader | None, paths: Sequence[str]
) -> list[Attribute]:
    if reader is not None:
        return reader.some(paths)
    known = {one.path: one for one in recorded.attributes()}
    return [known[path] for path in paths if path in known]


def _tables(
    recorded: Recording,
    reader: Reader | None,
    families: Mapping[str, str],
    *,
    background: bool = False,
) -> Iterator[str]:
    series = [path for path, family in families.items() if family == "float_series"]
    if series:
        series.sort(key=lambda path: (is_background(path), is_counter(path), *metric_order(path)))
        rows = [_series_row(one) for one in _read_attributes(recorded, reader, series[:_MAX_ROWS])]
        header = ("series", "last", "min", "max", "points")
        yield table(header, rows, _more_note(len(series), len(rows), "series"))
    others = [
        path
        for path, family in families.items()
        if family != "float_series" and (background or not is_background(path))
    ]
    if others:
        others.sort(key=is_background)
        cells = [
            (text(one.path), _value_html(one))
            for one in _read_attributes(recorded, reader, others[:_MAX_ROWS])
        ]
        yield table(("path", "value"), cells, _more_note(len(others), len(cells), "other paths"))


def _more_note(count: int, shown: int, name: str) -> str:
    return f"the first {shown} of {count:,} {name}" if count > shown else ""


def _render_attribute(reader: Reader | None, one: Attribute) -> Iterator[str]:
    if isinstance(one.value, SeriesSummary):
        if reader is not None:
            yield line_of(reader.curve(one.path, _MAX_POINTS))
        rows = [
            (text(name.replace("_", " ")), text(getattr(one.value, name)))
            for name in _SUMMARY_FIELDS
            if name not in ("nan_count", "inf_count") or getattr(one.value, name)
        ]
        yield table((), rows)
        return
    if one.family == "file":
        yield _image_html(reader, one.value)
    if one.family == "file_set":
        members = sorted(one.value.items())
        rows = [
            (text(name), text(file_text(file, exact=False))) for name, file in members[:_MAX_ROWS]
        ]
        yield table(("file", "size"), rows, _more_note(len(members), len(rows), "files"))
        return
    if isinstance(one.value, str):
        yield f"<pre>{text(one.value, 2000)}</pre>"
    else:
        yield f"<div>{_value_html(one)}</div>"


def _series_row(one: Attribute) -> tuple[str, ...]:
    value = one.value
    numbers = (value.last, value.min, value.max, value.count)
    return text(one.path), *(text(each) for each in numbers)


def _value_html(one: Attribute) -> str:
    return text(short_text(one, exact=False))


# ---------------------------------------------------------------------- images


def _image_html(reader: Reader | None, file: Any) -> str:
    """Return a small PNG or JPEG stored in the run as HTML, or an empty text."""
    if not isinstance(file, Mapping) or reader is None:
        return ""
    sha256, size = file.get("sha256"), file.get("size")
    if not isinstance(sha256, str) or not isinstance(size, int) or size > _MAX_IMAGE_BYTES:
        return ""
    try:
        data = reader.contents.begin_of(sha256, size, _MAX_IMAGE_BYTES)
    except (OSError, ValueError, SeamarkError):
        return ""
    kind = image_type(data)
    if kind is None:
        return ""
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    name = text(file.get("name") or "image")
    return f'<img alt="{name}" style="max-width:100%;max-height:400px" src="{source}">'


def image_type(data: bytes) -> str | None:
    """Return ``"png"`` or ``"jpeg"`` by the first bytes of a file, or None."""
    kinds = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
    return next((kind for magic, kind in kinds.items() if data.startswith(magic)), None)
