"""Report on a run or a project: a dict with text and notebook displays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from seamark.reading.attributes import (
    CHANGES,
    DETAIL,
    INHERITED,
    Attribute,
    aside,
    holds_parameters,
    is_counter,
    metric_order,
)
from seamark.reading.facts import (
    PROGRESS,
    attempts_of,
    code_of,
    distribution_of,
    environment_of,
    health_of,
    last_record_of,
    loops_of,
    progress_words,
)
from seamark.reading.html import block, html_or_text, table, text
from seamark.reading.reader import Reader
from seamark.reading.recorded_errors import RecordedError, recorded_errors
from seamark.reading.text import clean, plain
from seamark.values.aggregates import Last, Ring

_FACTS: Final = {
    "name": "sys/name",
    "state": "sys/state",
    "detail": DETAIL,
    "description": "sys/description",
    "revision": "sys/revision",
    "version": "source_code/version",
    "start_time": "sys/start_time",
    "end_time": "sys/end_time",
    "running_time_s": "sys/running_time",
}
_INTERNAL: Final = {
    "id": "sys/id",
    "custom_id": "sys/custom_run_id",
    "parent": "sys/parent",
    "owner": "sys/owner",
    "claimed_by": "sys/claimed_by",
    "hostname": "sys/hostname",
    "creation_time": "sys/creation_time",
    "trashed": "sys/trashed",
}
_OF_VERSIONS: Final = {"number": "sys/version", "stage": "sys/stage", "aliases": "sys/aliases"}
"""Attributes that only model and artifact versions have."""
_SETS: Final = {"tags": "sys/tags", "groups": "sys/group_tags"}
_METADATA: Final = "metadata/"
_CHRONOS: Final = "chronos/"
_FAMILIES: Final = frozenset({"atom", "statistic", "float_series", "string_series", "string_set"})
"""Families included in metadata; reports do not include files."""
_TIMES: Final = frozenset({"start_time", "end_time", "creation_time", "last_record", "edited"})
_TITLE_FIELDS: Final = frozenset({"name", "state", "detail"})
_PRINTED_STATISTICS: Final = frozenset({"mean", "std", "min", "max", "count"})
"""Statistics in the printed report; the dict has all."""
_LONGEST: Final = 200
"""Maximum number of characters of a printed value."""


class Report(dict[str, Any]):
    """Report on a run or a project: values by name, displayed by ``print`` and notebooks."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        yield " ".join(self._title())
        facts, sections = self._facts(), self._sections()
        names = [name for name, _ in facts] or [""]
        width = max(map(len, names)) + 2
        for name, words in facts:
            yield f"{name:<{width}}{words}"
        for name, rows in sections:
            yield f"\n{name}"
            width = max(len(key) for key, _ in rows) + 2
            yield from (f"  {key:<{width}}{words}".rstrip() for key, words in rows)

    def _title(self) -> Iterator[str]:
        yield _words(self.get("name") or self.get("id") or "(no name)")
        if self.get("state"):
            yield f"- {_words(self['state'])}"
        if self.get("detail"):
            yield f"({_words(self['detail'])})"

    def _facts(self) -> list[tuple[str, str]]:
        return [
            (name.replace("_", " "), _time_words(value) if name in _TIMES else _words(value))
            for name, value in self.items()
            if name not in _TITLE_FIELDS and not _is_section(value) and value not in (None, [], "")
        ]

    def _sections(self) -> list[tuple[str, list[tuple[str, str]]]]:
        found = []
        for name, value in self.items():
            rows: list[tuple[str, str]] = []
            if isinstance(value, Mapping):
                rows = [(_plain(key), _words(each)) for key, each in value.items()]
            elif _is_section(value):
                rows = [(_plain(str(one["type"])), _error_words(one)) for one in value]
            if rows:
                found.append((name.replace("_", " "), rows))
        return found

    def _repr_html_(self) -> str:
        def page() -> str:
            facts = [(text(name), text(words, 1000)) for name, words in self._facts()]
            parts = [table((), facts)]
            for name, rows in self._sections():
                cells = [(text(key), text(words, 1000)) for key, words in rows]
                parts.append(table((name, ""), cells))
            return block(text(" ".join(self._title())), *parts)

        return html_or_text(page, self.__str__)


def report_of_run(
    view: Reader | None,
    attributes: Sequence[Attribute],
    *,
    project: str,
    short: bool = False,
) -> Report:
    """Return the report on a run; ``short`` leaves out ids, location, health and tracebacks."""
    errors = [] if view is None else recorded_errors(view)
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    sets = {one.path: one.value for one in attributes if one.family == "string_set"}
    found = Report({name: atoms.get(path) for name, path in _FACTS.items()})
    if not short:
        found["project"] = project
        found |= {name: atoms.get(path) for name, path in _INTERNAL.items()}
        found["trashed"] = found["trashed"] or None
        found |= {name: atoms[path] for name, path in _OF_VERSIONS.items() if path in atoms}
        modified = atoms.get("sys/modification_time")
        journals = [] if view is None else view.journals()
        last = last_record_of(journals, modified)
        found |= {
            "last_record": last,
            "edited": modified if modified != last else None,
            "attempts": {} if view is None else attempts_of(view, journals, attributes),
            "environment": environment_of(journals, attributes),
        }
        found["masked"] = sorted(sets.get("sys/masked", ()))
    found |= {name: sorted(sets.get(path, ())) for name, path in _SETS.items()}
    found["keyed_tags"] = _values_below("tags", atoms)
    if not short:
        found["inherited_tags"] = _mapping(atoms.get(INHERITED))
    found["parameters"] = {
        path.removeprefix("parameters/"): value
        for path, value in atoms.items()
        if holds_parameters(path) and not (path.startswith("sys/") or aside(path))
    }
    if not short:
        found["changes"] = _mapping(atoms.get(CHANGES))
    found["metadata"] = _metadata(attributes)
    found["metrics"] = _metrics(attributes)
    found["chronos"] = {
        one.path.removeprefix(_CHRONOS): one.value.to_dict()
        for one in attributes
        if one.family == "statistic" and one.path.startswith(_CHRONOS)
    }
    if not short:
        loops = loops_of(atoms.get(PROGRESS)) if found["state"] == "running" else []
        found["progress"] = progress_words(loops)
        found["distribution"] = distribution_of(attributes)
        found["code"] = code_of(attributes)
        found["health"] = {} if view is None else health_of(view)
    found["errors"] = [_error(one, short=short) for one in errors]
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def report_of_project(
    path: str, attributes: Sequence[Attribute], states: Iterable[str], *, short: bool = False
) -> Report:
    """Return the report on a project; ``short`` leaves out author and creation time."""
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    sets = {one.path: one.value for one in attributes if one.family == "string_set"}
    found = Report(name=atoms.get("sys/name") or path, description=atoms.get("sys/description"))
    if not short:
        found["project"] = path
        found |= {name: atoms.get(_INTERNAL[name]) for name in ("owner", "creation_time")}
    found["tags"] = sorted(sets.get("sys/tags", ()))
    found["keyed_tags"] = _values_below("tags", atoms)
    found["metadata"] = _metadata(attributes)
    groups = {one.path.split("/")[1] for one in attributes if one.path.startswith("groups/")}
    found["groups"] = sorted(groups)
    found["runs"] = dict(sorted(Counter(states).items()))
    return found


def _metadata(attributes: Iterable[Attribute]) -> dict[str, Any]:
    return {
        one.path.removeprefix(_METADATA): _summary_of(one)
        for one in attributes
        if one.path.startswith(_METADATA) and one.family in _FAMILIES
    }


def _metrics(attributes: Iterable[Attribute]) -> dict[str, Any]:
    found = [
        one
        for one in attributes
        if one.family in ("float_series", "statistic")
        and not one.path.startswith((_METADATA, _CHRONOS))
        and not aside(one.path)
    ]
    found.sort(key=lambda one: (is_counter(one.path), metric_order(one.path)))
    return {one.path: _summary_of(one) for one in found}


def _summary_of(one: Attribute) -> Any:
    value = one.value
    if one.family == "statistic":
        if isinstance(value, Last):
            return value.last
        return value.values if isinstance(value, Ring) else value.to_dict()
    if one.family == "string_set":
        return sorted(value)
    return value if one.family == "atom" else value.last


def with_plain_values(report: Report) -> Report:
    """Return a report for ``json.dumps``: times become text, numbers are unchanged."""
    return Report(_plain_value(dict(report)))


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(each) for each in value]
    return value if isinstance(value, float) else plain(value)


def _values_below(namespace: str, atoms: Mapping[str, Any]) -> dict[str, Any]:
    start = f"{namespace}/"
    return {path[len(start) :]: each for path, each in atoms.items() if path.startswith(start)}


def _error(error: RecordedError, *, short: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"type": error.type, "message": error.message, "time": error.time}
    found["rank"] = error.rank
    return found if short else {**found, "traceback": error.traceback}


def _is_section(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return is_list or isinstance(value, Mapping)


def _error_words(one: Mapping[str, Any]) -> str:
    rank = f", rank {one['rank']}" if one.get("rank") else ""
    return f"{_words(one['message'])} ({_time_words(one['time'])}{rank})"


def _time_words(value: Any) -> str:
    # The value may already be text.
    try:
        return _words(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return _words(value)


def _words(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, Mapping):
        is_statistic = value.keys() >= _PRINTED_STATISTICS
        known = {key: value[key] for key in value if key in _PRINTED_STATISTICS or not is_statistic}
        kept = {key: each for key, each in known.items() if each not in (None, 0)}
        return ", ".join(f"{_plain(str(key))} {_words(each)}" for key, each in kept.items())
    if isinstance(value, list):
        return _plain(", ".join(map(_words, value)))
    return _plain(str(value))


def _plain(words: str) -> str:
    cut = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    return clean(cut)
