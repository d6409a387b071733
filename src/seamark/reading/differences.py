"""Columns that distinguish runs, and comparison of runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from seamark.paths import is_inside
from seamark.reading.attributes import (
    Attribute,
    SeriesSummary,
    aside,
    holds_parameters,
    is_better_when_greater,
    is_counter,
    metric_order,
)
from seamark.reading.catalog import SharedPath
from seamark.reading.rank_text import of_rank

PLAIN: Final = (
    "sys/name",
    "sys/state",
    "sys/creation_time",
    "sys/running_time",
    "sys/tags",
)
"""Attributes shown for every run."""
PLAIN_OF: Final = {
    "run": PLAIN,
    "model": ("sys/name", "sys/description", "sys/creation_time", "sys/tags"),
    "model_version": (
        *("sys/model_id", "sys/version", "sys/stage"),
        *("sys/name", "sys/creation_time", "sys/tags"),
    ),
    "artifact": (
        *("sys/name", "sys/version", "sys/aliases", "objects"),
        *("sys/description", "sys/creation_time", "sys/tags"),
    ),
}
"""Attributes shown for every run, model, model version or artifact."""
_RATES: Final = frozenset({"lr", "learning_rate"})
_METRICS: Final = 4
_MAX_DIFFERING: Final = 4
"""Maximum number of differing attributes shown by default."""
_LONG_TEXT: Final = 24


def distinguishing_columns(shared: Sequence[SharedPath]) -> tuple[list[str], list[str]]:
    """Return the metrics and parameters that distinguish runs, the most important ones first.

    Only paths of at least half of the runs count. Metrics of validation come before those of
    training, losses and scores before others. Single numbers and parameters are included if the
    runs differ in them.
    """
    runs = max((one.runs for one in shared), default=0)
    known = [
        one
        for one in shared
        if 2 * one.runs >= runs and aside(one.path) is None and not one.path.startswith("sys/")
    ]
    metrics = sorted((one.path for one in known if _is_metric(one)), key=metric_order)
    parameters = sorted((one.path for one in known if _distinguishes(one)), key=_rates_first)
    return metrics[:_METRICS], parameters[:_MAX_DIFFERING]


def _is_metric(one: SharedPath) -> bool:
    is_result = one.differs and not one.longest and not holds_parameters(one.path)
    return (one.series or is_result) and not is_counter(one.path)


def _rates_first(path: str) -> tuple[bool, str]:
    return path.rpartition("/")[2] not in _RATES, path


def importance(path: str) -> tuple[int, tuple[bool, bool, int, int, str]]:
    """Return the rank of a column: 0 for losses and scores, 1 for parameters, 2 for others."""
    order = metric_order(path)
    if not order[1]:
        return 0, order
    return 1 if holds_parameters(path) else 2, (False, False, 0, 0, path)


def _distinguishes(one: SharedPath) -> bool:
    distinguishes = one.differs and not one.series and one.longest <= _LONG_TEXT
    return distinguishes and holds_parameters(one.path)


def is_named(path: str, space: str, wanted: Sequence[str]) -> bool:
    """Return whether a requested column names a path, or its namespace, explicitly.

    Args:
        path: Path of the column, with an optional aggregate.
        space: Namespace of the path from `seamark.reading.attributes.aside`.
        wanted: Requested paths and patterns.
    """
    named = (one for one in wanted if re.split(r"[*?]", one)[0].startswith(space))
    return path in wanted or any(fnmatchcase(path, one) for one in named)


def left_out(columns: Sequence[str], shown: Collection[str]) -> str:
    """Return the hint about matching columns that are not shown; empty if there are none."""
    missing = [name for name in columns if name not in shown]
    spaces = sorted({space for name in missing if (space := aside(name)) is not None})
    if not spaces:
        return ""
    listed = ", ".join(f"{space}/" for space in spaces)
    count = f"{len(missing):,} column" + "s" * (len(missing) != 1)
    return f"left out: {count} below {listed}; to see them: --columns '{spaces[0]}/*'"


PACKAGES: Final = "source_code/packages"
_CONDA: Final = "source_code/conda"
TITLES: Final = {
    "parameters": "Parameters",
    "metrics": "Metrics",
    "tags": "Tags",
    "about": "About the run",
    "values": "Values",
    "series": "Other series",
    "files": "Files",
    "script": "Script",
    "git": "Git",
    "packages": "Packages",
    "environment": "Environment",
}
"""Titles of all sections, in display order."""
_SPACE_SECTIONS: Final = (
    ("sys/tags", "tags"),
    ("sys/group_tags", "tags"),
    ("sys/hostname", "environment"),
    ("sys/owner", "environment"),
    ("sys", "about"),
    ("source_code/git", "git"),
    (PACKAGES, "packages"),
    (_CONDA, "packages"),
    ("source_code/python", "environment"),
    ("source_code/integrations", "environment"),
    ("source_code", "script"),
    ("distributed", "environment"),
    ("monitoring", "environment"),
    ("", "values"),
)
_FAMILY_SECTIONS: Final = {
    "float_series": "metrics",
    "string_series": "series",
    "file_series": "series",
    "histogram_series": "series",
    "statistic": "series",
    "file": "files",
    "file_set": "files",
    "artifact": "files",
}
_NOT_COMPARED: Final = frozenset(
    {
        "sys/claimed_by",
        "sys/content_hash",
        "sys/creation_time",
        "sys/end_time",
        "sys/failed",
        "sys/id",
        "sys/crash_reason",
        "sys/modification_time",
        "sys/name",
        "sys/revision",
        "sys/running_time",
        "sys/start_hash",
        "sys/start_time",
        "sys/state",
        "sys/state_detail",
    }
)
"""Attributes that always differ, are derived from others, or are in the header of a comparison."""
_PROFILER_PATHS: Final = ("profiling/actions", "profiling/events", "profiling/handlers")


@dataclass(slots=True)
class Row:
    """Values of the compared runs at one path, or versions of one package.

    ``values``, and the ``keys`` by which they are compared, are indexed by run; runs without a
    value are missing.
    """

    section: str
    name: str
    values: dict[int, Any] = field(default_factory=dict)
    keys: dict[int, Hashable] = field(default_factory=dict)

    def differs(self, runs: int) -> bool:
        """Return whether any two runs differ; a missing value counts as a difference."""
        return len(self.keys) < runs or len(set(self.keys.values())) > 1


def of_process(row: Row) -> bool:
    """Return whether a row belongs to a single process."""
    return is_inside(row.name, "monitoring")


def of_rank_or_profiler(row: Row) -> bool:
    """Return whether a row belongs to a rank above 0 or to a profiler."""
    timed = any(is_inside(row.name, space) for space in _PROFILER_PATHS)
    return timed or of_rank(row.name) is not None


def rows_of(runs: Sequence[Iterable[Attribute]]) -> list[Row]:
    """Return the rows of all values of runs, by section and name."""
    found: dict[tuple[str, str], Row] = {}
    for at, attributes in enumerate(runs):
        for attribute in attributes:
            if attribute.path in _NOT_COMPARED:
                continue
            for section, name, value, key in _entries(attribute):
                row = found.setdefault((section, name), Row(section, name))
                row.values[at], row.keys[at] = value, key
    order = list(TITLES)
    return sorted(found.values(), key=lambda row: (order.index(row.section), row.name.lower()))


def _entries(attribute: Attribute) -> Iterator[tuple[str, str, Any, Hashable]]:
    path, value = attribute.path, attribute.value
    section = _FAMILY_SECTIONS.get(attribute.family) or (
        "parameters"
        if holds_parameters(path)
        else next(name for space, name in _SPACE_SECTIONS if not space or is_inside(path, space))
    )
    if section == "packages" and isinstance(value, str):
        for line in value.splitlines():
            package, version = _package(line.strip(), conda=path == _CONDA)
            if package:
                yield section, package, version, version
    elif section == "metrics":
        yield section, path, value, (*map(_key, (value.last, value.min, value.max)), value.count)
    elif section == "series":
        yield section, path, value, (value.count, _key(value.last))
    elif section == "files":
        yield section, path, value, _content(value)
    else:
        yield section, path, value, _key(value)


def _package(line: str, *, conda: bool) -> tuple[str, str]:
    # Forms: name==version, name @ address, -e folder  # name==version; of conda
    # channel::name=version=build.
    if conda:
        channel, _, rest = line.rpartition("::")
        name, _, which = rest.partition("=")
        return (f"conda {name}" if name else ""), f"{which} ({channel})" if channel else which
    if line.startswith("-e "):
        where, _, line = line.removeprefix("-e ").rpartition("  # ")
        name, _, version = line.partition("==")
        return name, f"{version} ({where})"
    if " @ " in line and "==" not in line.partition(" @ ")[0]:
        name, _, version = line.partition(" @ ")
    else:
        name, _, version = line.partition("==")
    return name, version


def _key(value: Any) -> Hashable:
    """Return a comparison key: 1 equals 1.0, and NaN equals NaN."""
    if isinstance(value, bool | str | datetime) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, float) and math.isnan(value):
        return ("number", "nan")
    if isinstance(value, int | float):
        return ("number", value)
    if isinstance(value, set | frozenset):
        return ("set", frozenset(value))
    return ("json", json.dumps(value, sort_keys=True, default=str))


def _content(record: Any) -> Hashable:
    if not isinstance(record, Mapping):
        return _key(record)
    if isinstance(digest := record.get("sha256"), str):
        return ("sha256", digest)
    if record and all(isinstance(member, Mapping) for member in record.values()):
        return frozenset((name, _content(member)) for name, member in record.items())
    return _key(record)


def summaries(row: Row, runs: int, *, everything: bool) -> list[str]:
    """Return the summaries of a metric to show: some of ``last``, ``min``, ``max``, ``count``.

    The extreme is the minimum (as for a loss) or the maximum (as for an accuracy), whichever is
    closer to the last value in most runs; it is left out if it equals the last value. Runs that
    ended in NaN or an infinity do not count; if all did, the name decides, and the last value is
    always included. The count is only included if nothing else differs. ``everything`` selects all.
    """
    if everything:
        return ["last", "min", "max", "count"]
    found: list[SeriesSummary] = list(row.values.values())
    ended = [one for one in found if math.isfinite(one.last)]
    low = sum(one.last - one.min <= one.max - one.last for one in ended)
    if ended:
        best = "min" if 2 * low >= len(ended) else "max"
    else:
        best = "max" if is_better_when_greater(row.name) else "min"
    names = ["last"]
    if any(one.min <= one.max and _key(getattr(one, best)) != _key(one.last) for one in found):
        names.append(best)
    differing = [
        name
        for name in names
        if len(found) < runs
        or len({_key(getattr(one, name)) for one in found}) > 1
        or (name == "last" and len(ended) < len(found))
    ]
    if len(found) < runs:
        return names
    return differing or [
        name
        for name in ("min", "max", "count")
        if len({_key(getattr(one, name)) for one in found}) > 1
    ]
