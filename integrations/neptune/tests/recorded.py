"""The records of a run as one mapping, with which homes and readers can be compared."""

from __future__ import annotations

import hashlib
import operator
import re
import zipfile
from pathlib import Path
from typing import Any

ATOMS = {
    "Boolean": "bool",
    "Datetime": "datetime",
    "Float": "float",
    "Integer": "int",
    "String": "string",
}
SERIES = {"FloatSeries": "float_series", "StringSeries": "string_series"}
POINTS = {"float_series": "series", "string_series": "texts", "file_series": "files"}
# What each home says of itself and of the machine; it is no part of what the script recorded.
OF_HOME = re.compile(r"sys/(?!tags$|group_tags$)|monitoring/|source_code/(?!integrations/)")
# What is another each time, or at each home: times, folders, what has them in it, who logs.
VARIES = re.compile(
    r".*(?:duration|datetime_start|datetime_complete|_runtime|_per_second)$"
    r"|.*best_model_path$|.*/checkpoints/"
    r"|(?:.*/)?study/study$|visualizations/|source_code/integrations/neptune-python-logger$"
)
ADDRESS = re.compile(r"(?: at)? 0x[0-9a-f]+")


def is_recorded(path: str) -> bool:
    """Return whether the script recorded it, and not what stands for `neptune`."""
    return not OF_HOME.match(path)


def flat(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return what Seamark tells of a run: by path, its type and its value or points."""
    found = {}
    for path, one in document["attributes"].items():
        if not is_recorded(path):
            continue
        kind, value = one["type"], one["value"]
        if kind in POINTS:
            points = document[POINTS[kind]][path]
            value = points["value"]
            if kind == "file_series":
                value = [[each["ext"], each["sha256"]] for each in value]
            value = [list(each) for each in zip(points["step"], value, strict=True)]
        elif kind == "file":
            value = [value["ext"], value["sha256"]]
        elif kind == "file_set":
            value = sorted([name, file["sha256"]] for name, file in value.items())
        elif kind == "string_set":
            value = sorted(value)
        found[path] = [kind, value]
    return found


def leaves(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return the attributes of a run of the client by their paths."""
    found = {}
    for name, one in tree.items():
        path = f"{above}{name}"
        found |= leaves(one, f"{path}/") if isinstance(one, dict) else {path: one}
    return found


def seen_by_client(run: Any, folder: Path) -> dict[str, list[Any]]:
    """Return what the client tells of a run, in the same form; files are downloaded."""
    found = {
        path: _seen(run[path], type(one).__name__, folder / str(number))
        for number, (path, one) in enumerate(leaves(run.get_structure()).items())
        if is_recorded(path)
    }
    # It shows sets of tags where there are none.
    return {path: one for path, one in found.items() if one != ["string_set", []]}


def _seen(handler: Any, kind: str, to: Path) -> list[Any]:
    if kind in ATOMS:
        value = handler.fetch()
        return [ATOMS[kind], value.isoformat() if kind == "Datetime" else value]
    if kind in SERIES:
        table = handler.fetch_values(include_timestamp=False, progress_bar=False)
        return [SERIES[kind], table[["step", "value"]].values.tolist()]
    if kind == "StringSet":
        return ["string_set", sorted(handler.fetch())]
    to.mkdir(parents=True)
    if kind == "File":
        handler.download(str(to / "file"), progress_bar=False)
        return ["file", [handler.fetch_extension(), digest((to / "file").read_bytes())]]
    if kind == "FileSet":
        handler.download(str(to / "set.zip"), progress_bar=False)
        with zipfile.ZipFile(to / "set.zip") as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            return ["file_set", sorted([name, digest(archive.read(name))] for name in names)]
    assert kind == "FileSeries", kind
    handler.download(str(to), progress_bar=False)
    files = sorted(to.iterdir(), key=lambda file: int(file.stem))
    told = [[file.suffix[1:], digest(file.read_bytes())] for file in files]
    return ["file_series", [list(each) for each in enumerate(told)]]


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as hex digits."""
    return hashlib.sha256(data).hexdigest()


def differences(one: dict[str, Any], other: dict[str, Any], same: Any = operator.eq) -> Any:
    """Return both values of each path that differs; None where it is missing."""
    return {
        path: (one.get(path), other.get(path))
        for path in sorted({*one, *other})
        if not same(one.get(path), other.get(path))
    }


def between_homes(installed: dict[str, Any], server: dict[str, Any]) -> Any:
    """Return what differs between what was recorded at each home, and is not decided."""

    def compared(found: dict[str, Any]) -> dict[str, Any]:
        return {
            path: [one[0], "varies"] if VARIES.match(path) else one for path, one in found.items()
        }

    return differences(compared(installed), compared(server), is_same)


def is_same(ours: list[Any] | None, theirs: list[Any] | None) -> bool:
    """Return whether both homes recorded the same, or what docs/howto/from-neptune.md decides."""
    if ours is None or theirs is None:  # the client leaves out lists and empty dicts
        return ours is not None and ours[0] == "json"
    kinds = ours[0], theirs[0]
    if kinds[1] == "string" and kinds[0] in ("json", "null"):  # lists and None keep their types
        return str(ours[1]) == theirs[1]
    if kinds == ("int", "float"):  # NumPy's ints are floats to the client
        return bool(ours[1] == theirs[1])
    if kinds == ("string", "string"):
        return ADDRESS.sub("", ours[1]) == ADDRESS.sub("", theirs[1])
    return without_drawn(ours) == without_drawn(theirs)


def without_drawn(found: Any) -> Any:
    """Return it without the digests of pages and pictures: each home draws with its own hand."""
    if not isinstance(found, list):
        return found
    if len(found) == 2 and found[0] in ("html", "png"):
        return found[:1]
    return [without_drawn(each) for each in found]


def below(run: Any, path: str) -> list[str]:
    """Return the names in a namespace."""
    found = run.get_structure()
    for name in path.split("/"):
        found = found[name]
    return list(found)


def values(handler: Any) -> list[Any]:
    """Return the values of a series."""
    found: list[Any] = handler.fetch_values(include_timestamp=False)["value"].tolist()
    return found
