"""JSON document of one run, as written by ``seamark export --format json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.paths import home_of, kind_of
from seamark.reading.attributes import INHERITED, Attribute
from seamark.reading.text import plain
from seamark.values import encode_atom
from seamark.values.aggregates import Keep

if TYPE_CHECKING:
    from seamark.reading.points import Attempt, Points
    from seamark.reading.reader import Reader


SERIES: Final[Mapping[str, str]] = {
    "series": "float_series",
    "texts": "string_series",
    "files": "file_series",
    "histograms": "histogram_series",
}
"""Sections of a document that hold points, with their families."""

Whole = Callable[[Any, str], Any]
"""Function of a text, or the record of its blob, and its path that returns the full text."""


def document_of(
    view: Reader,
    parts: Collection[str] = ("attributes", *SERIES),
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    attempt: Attempt = "latest",
    whole: Whole,
) -> dict[str, Any]:
    """Return the document of a run: strict JSON, with NaN and infinities as strings."""
    out: dict[str, Any] = ref_of(view.project, view.name)
    own = [one for one in own_attributes(view) if wanted(one.path)]
    if "attributes" in parts:
        out["attributes"] = plain(attributes_of(one for one in own if one.path != INHERITED))
        if inherited := inherited_by(view):
            keys = ("value", "project")
            tags = {key: {name: one[name] for name in keys} for key, one in inherited.items()}
            out["inherited_tags"] = plain(tags)
    for part, family in SERIES.items():
        if part in parts:
            paths = [one.path for one in own if one.family == family]
            out[part] = {path: _columns(view, part, path, attempt, whole) for path in paths}
    return out


def ref_of(project: str, run: str) -> dict[str, str]:
    """Return project and run id for programs, with the kind if it is not a run."""
    kind = kind_of(project, run)
    named = {"project": home_of(project), "run": run}
    return named if kind == "run" else {**named, "kind": kind}


def attributes_of(attributes: Iterable[Attribute]) -> dict[str, dict[str, Any]]:
    """Return attributes as ``{path: {family, type, value}}``, with ``kept`` for statistics."""
    return {one.path: _attribute(one) for one in attributes}


def _attribute(one: Attribute) -> dict[str, Any]:
    mapping = {"family": one.family, "type": one.type, "value": value_mapping(one.value)}
    if isinstance(one.value, Keep):
        mapping["kept"] = {"kind": one.value.kind, "state": one.value.state_dict()}
    return mapping


def value_mapping(value: Any) -> Any:
    """Return an attribute's value for JSON: summaries of series as mappings, others unchanged."""
    if isinstance(value, Keep):
        return value.to_dict()
    return (
        dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
    )


def own_attributes(view: Reader) -> Iterator[Attribute]:
    """Yield the attributes of a run without inherited tags."""
    tags = inherited_by(view)
    for one in view.attributes():
        tag = tags.get(one.path.removeprefix("tags/")) if one.path.startswith("tags/") else None
        if tag is None:
            yield one
        elif "own" in tag:
            yield Attribute(one.path, "atom", encode_atom(tag["own"]).type, tag["own"])


def inherited_by(view: Reader) -> Mapping[str, Mapping[str, Any]]:
    """Return the keyed tags that a run inherits from parent projects, by key."""
    found = view.attribute(INHERITED)
    return found.value if found is not None and isinstance(found.value, dict) else {}


def utc(time_ns: Any) -> list[str]:
    """Return times, in ns since the Unix epoch, as ISO 8601 texts with all digits."""
    import numpy as np

    times = np.asarray(time_ns, np.int64).astype("datetime64[ns]")
    return [f"{time}Z" for time in np.datetime_as_string(times).tolist()]


# -------------------------------------------------------------------- points


def _columns(
    view: Reader, part: str, path: str, attempt: Attempt, whole: Whole
) -> dict[str, list[Any]]:
    if part == "series":
        return _floats(view.points(path, attempt))
    if part == "texts":
        texts = view.texts(path, attempt)
        return _rows(texts, [plain(whole(one.text, path)) for one in texts])
    if part == "histograms":
        histograms = view.histograms(path, attempt)
        return _rows(histograms, [plain([one.edges, one.counts]) for one in histograms])
    files = view.files(path, attempt)
    records = [_with_full_texts(one.file, one.name, one.description) for one in files]
    return _rows(files, plain(records))


def _with_full_texts(file: Mapping[str, Any], name: str | None, description: str | None) -> Any:
    said = {"called": name, "description": description}
    return {**file, **{key: text for key, text in said.items() if text is not None}}


def _floats(points: Points) -> dict[str, list[Any]]:
    import numpy as np

    values = points.value.tolist()
    return {
        "step": points.step.tolist(),
        "value": values if np.isfinite(points.value).all() else plain(values),
        "time": utc(points.time_ns),
        "attempt": points.attempt.tolist(),
    }


def _rows(points: Iterable[Any], values: list[Any]) -> dict[str, list[Any]]:
    listed = list(points)
    return {
        "step": [one.step for one in listed],
        "value": values,
        "time": utc([one.time_ns for one in listed]),
        "attempt": [one.attempt for one in listed],
    }
