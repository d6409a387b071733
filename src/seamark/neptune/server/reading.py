"""Attributes of runs and file lists of artifacts, in the format of Neptune's client."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.neptune.server.answers import ContainerNotFound
from seamark.neptune.server.projects import Container, container_id
from seamark.paths import PROJECT_LOG
from seamark.server.failures import Refusal
from seamark.store import schema
from seamark.store.schema import state_of_row

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.server.state import Server


def missing(path: str) -> Refusal:
    """Return the refusal for a path without a value of the requested kind."""
    return Refusal(404, "no-attribute", f"{path[:200]!r} has no value of this type")


PLACE: Final = "monitoring/neptune/artifacts"
"""Path of the file lists in the log of a project."""
_LENGTH: Final = struct.Struct(">I")
_SIZE: Final = struct.Struct(">Q")
_DIGEST_CHARS: Final = 64


def files_of(server: Server, log: Container, given: str) -> list[dict[str, Any]] | None:
    """Return the file metadata of an artifact; None for an unknown artifact."""
    found = ContainerReader(server, log).attribute(PLACE)
    if found is None or found.family != "file_set" or given not in found.value:
        return None
    blob = server.blobs.find(log.project, found.value[given]["sha256"])
    if blob is None:
        return None
    files: list[dict[str, Any]] = json.loads(b"".join(blob.read()))
    return files


def record_of(server: Server, container: Container, given: str) -> dict[str, Any]:
    """Return the record of an artifact for a journal; `ArgumentError` for an unknown one."""
    files = files_of(server, Container(container.home, PROJECT_LOG), given)
    if files is None:
        raise ArgumentError(f"no artifact of this project has the hash {given:.130}")
    tracked, references = [], []
    for file in files:
        places = [pair["value"] for pair in file["metadata"] if pair["key"] == "location"]
        references += [str(one) for one in places if file["type"] != "Local"]
        one: dict[str, Any] = {"path": file["filePath"]}
        if file["size"] is not None:
            one["size"] = file["size"]
        if len(file["fileHash"]) == _DIGEST_CHARS:
            one["sha256"] = file["fileHash"]
        tracked.append(one)
    return {"kind": "tracked", "files": tracked, "references": references, "hash": given}


def hash_of(files: Iterable[Mapping[str, Any]], *, metadata: bool = False) -> str:
    """Compute the hash of an artifact like the client, from its files in order of path.

    Lengths of texts are in characters. Early clients also hash the metadata, as `metadata` does.
    """
    found = hashlib.sha256()
    for file in sorted(files, key=lambda one: one["filePath"]):
        found.update(
            b"#" + _with_length(file["filePath"]) + b"#" + file["fileHash"].encode() + b"#"
        )
        if file["size"] is not None:
            found.update(_SIZE.pack(file["size"]))
        found.update(b"#" + _with_length(file["type"]))
        if metadata:
            found.update(b"#")
            for pair in file["metadata"]:
                found.update(b"|" + _with_length(pair["key"]) + b"|" + _with_length(pair["value"]))
    return found.hexdigest()


def _with_length(text: str) -> bytes:
    return _LENGTH.pack(len(text)) + text.encode()


_PATIENCE_S: Final = 10.0
_GIT: Final = "source_code/git"
_MAX_TEXT_BYTES: Final = 16 << 20
_LEGACY_NAMES: Final = {
    "shortId": "sys/id",
    "creationTime": "sys/creation_time",
    "runningTime": "sys/running_time",
    **{name: f"sys/{name}" for name in ("name", "description", "owner", "hostname", "state")},
    **{name: f"sys/{name}" for name in ("size", "tags")},
}
VISIBILITIES: Final = {"private": "priv", "public": "pub", "workspace": "workspace"}
"""The client's names of visibilities."""
SYSTEM: Final = {
    "sys/creation_time": "datetime",
    "sys/description": "string",
    "sys/failed": "bool",
    "sys/group_tags": "stringSet",
    "sys/hostname": "string",
    "sys/id": "string",
    "sys/modification_time": "datetime",
    "sys/monitoring_time": "int",
    "sys/name": "string",
    "sys/owner": "string",
    "sys/ping_time": "datetime",
    "sys/running_time": "float",
    "sys/size": "float",
    "sys/state": "experimentState",
    "sys/tags": "stringSet",
    "sys/trashed": "bool",
}
"""Columns of every table, even of an empty project."""
TYPES: Final = {
    **{kind: kind for kind in ("int", "float", "bool", "string", "datetime")},
    **dict.fromkeys(("null", "json", "text"), "string"),
    "float_series": "floatSeries",
    "string_series": "stringSeries",
    "file_series": "imageSeries",
    "string_set": "stringSet",
    "file": "file",
    "file_set": "fileSet",
    "artifact": "artifact",
}
"""Types of the store in the client's format."""
_run = schema.run.c
_ROW: Final = sa.select(_run.sys_id, _run.trashed, _run.beat, _run.state).where(
    _run.project == sa.bindparam("project"), _run.name == sa.bindparam("name")
)


class ContainerReader:
    """Reader of a run or project; with `wait`, it first waits for acknowledged data."""

    def __init__(self, server: Server, container: Container, *, wait: bool = True) -> None:
        self.server, self.container = server, container
        self.reader = server.reader(*container)
        if wait:
            journals, self.position = server.intake.known(*container)
            if journals:
                server.positions.wait_for({container: self.position}, _PATIENCE_S)
            elif not container.is_project:
                raise ContainerNotFound(container_id(container))
        else:
            self.position = 0

    @functools.cached_property
    def row(self) -> tuple[str, bool, int, str]:
        """Client's id, whether it is in the trash, time of the last record, and state."""
        rows = self.server.store().database.fetch(
            _ROW, project=self.container.project, name=self.container.run
        )
        if not rows:
            return "", False, 0, "created"
        sys_id, trashed, beat, state = rows[0]
        return sys_id, bool(trashed), beat, state_of_row(state, beat, self.server.now_ns())

    def attributes(self, wanted: list[str] | None = None) -> list[dict[str, Any]]:
        """Return attributes of some or all paths, including those that the client expects."""
        if wanted is None:
            found = {each.path: each for each in self._all()}
        else:
            found = {each.path: each for each in self.reader.some(wanted)}
            found |= {each.path: each for each in self._all("sys")}
        entries = [
            one
            for each in found.values()
            if not each.path.startswith("sys/") and (one := shown(each, self.text)) is not None
        ]
        entries += self._sys_attributes(found)
        return entries if wanted is None else [one for one in entries if one["name"] in set(wanted)]

    def attribute(self, path: str) -> Attribute | None:
        """Return the attribute at a path."""
        try:
            return self.reader.attribute(path)
        except RunNotFoundError:
            return None

    def value_of(self, path: str, family: str) -> Any:
        """Return the value of a family at a path; refuse the request if there is none."""
        found = self.attribute(path)
        if found is None or found.family != family:
            raise missing(path)
        return found.value

    def as_attribute(self, path: str) -> dict[str, Any] | None:
        """Return the attribute at a path in the client's format, or None."""
        if path.startswith("sys/"):
            found = {each.path: each for each in self._all("sys")}
            return next((one for one in self._sys_attributes(found) if one["name"] == path), None)
        found_one = self.attribute(path)
        return None if found_one is None else shown(found_one, self.text)

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a text that is stored like a file."""
        blob = self.server.blobs.find(self.container.project, str(record["sha256"]))
        if blob is None or blob.size > _MAX_TEXT_BYTES:
            return f"<text of {record['size']} bytes>"
        return b"".join(blob.read()).decode("utf-8", "replace")

    def _all(self, namespace: str = "") -> list[Attribute]:
        try:
            found: list[Attribute] = self.reader.attributes(namespace)
        except RunNotFoundError:
            return []
        return found

    def _sys_attributes(self, found: Mapping[str, Attribute]) -> list[dict[str, Any]]:
        from seamark.neptune.server.projects import shown_id

        values = {path: each.value for path, each in found.items()}
        sys_id, trashed, beat, state = self.row
        container = self.container
        if container.kind != "run":
            sys_id = shown_id(self.server, container, values.get("sys/version"))
        name = container.project.rpartition("/")[2] if container.is_project else ""
        created = values.get("sys/creation_time") or _as_datetime(0)
        running = float(values.get("sys/running_time") or 0.0)
        facts: dict[str, Any] = {
            "sys/creation_time": created,
            "sys/id": sys_id or container.run,
            "sys/modification_time": values.get("sys/modification_time") or created,
            "sys/monitoring_time": round(running),
            "sys/name": values.get("sys/name") or name or sys_id or container.run,
            "sys/ping_time": _as_datetime(beat) if beat else created,
            "sys/running_time": running,
            "sys/size": float(self.position),
            "sys/state": "running" if state == "running" else "idle",
            "sys/tags": values.get("sys/tags") or set(),
            "sys/group_tags": values.get("sys/group_tags") or set(),
        }
        if container.is_project:
            visible = self.server.accounts.visibility().of(container.project)
            facts["sys/visibility"] = VISIBILITIES[visible]
        else:
            facts["sys/description"] = str(values.get("sys/description") or "")
            facts["sys/failed"] = values.get("sys/failed") is True
            facts["sys/owner"] = str(values.get("sys/owner") or "")
            facts["sys/trashed"] = trashed
        if container.kind == "model_version":
            model = Container(*container.project.rsplit("/", 1))
            facts["sys/model_id"] = shown_id(self.server, model)
            facts["sys/stage"] = str(values.get("sys/stage") or "none")
        entries = [
            _as_attribute(path, SYSTEM.get(path, "string"), value) for path, value in facts.items()
        ]
        for path, each in found.items():
            is_more = path.startswith("sys/") and path not in facts
            if is_more and not container.is_project and (one := shown(each, self.text)) is not None:
                entries.append(one)
        return entries


def shown(attribute: Attribute, text: Callable[[Mapping[str, Any]], str]) -> dict[str, Any] | None:
    """Return an attribute in the client's format; None if it has no type for it."""
    show = _CONVERTERS.get(attribute.family)
    if show is not None:
        return _properties(attribute.path, TYPES[attribute.family], show(attribute.value))
    if attribute.family != "atom":
        return None
    kind, value = attribute.type, attribute.value
    if kind == "json" and attribute.path == _GIT and isinstance(value, dict):
        return _properties(attribute.path, "gitRef", value)
    if kind == "text":
        return _as_attribute(attribute.path, "string", text(value))
    if kind in ("null", "json"):
        return _as_attribute(attribute.path, "string", "None" if value is None else _json(value))
    return _as_attribute(attribute.path, kind, value)


def system_attributes(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the system attributes for clients before 0.9, by their names."""
    found = {each["name"]: each[f"{each['type']}Properties"] for each in entries}
    return {name: found[path] for name, path in _LEGACY_NAMES.items() if path in found}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _as_attribute(path: str, kind: str, value: Any) -> dict[str, Any]:
    if kind == "stringSet":
        return _properties(path, kind, {"values": sorted(value)})
    if kind == "datetime" and isinstance(value, datetime):
        value = as_time(value)
    return _properties(path, kind, {"value": value})


def _properties(path: str, kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    properties = {"attributeName": path, "attributeType": kind, **more}
    return {"name": path, "type": kind, f"{kind}Properties": properties}


def _floats(value: Any) -> dict[str, Any]:
    last = value.last if value.count else None
    return {"last": last, "lastStep": shown_step(value.last_step)}


def _strings(value: Any) -> dict[str, Any]:
    last = value.last if isinstance(value.last, str) or value.last is None else str(value.last)
    return {"last": last, "lastStep": shown_step(value.last_step)}


def _file(value: Any) -> dict[str, Any]:
    known = value or {}
    names = {name: known.get(name) or "" for name in ("name", "ext")}
    return names | {"size": known.get("size") or 0}


_CONVERTERS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "float_series": _floats,
    "string_series": _strings,
    "file_series": lambda value: {"last": None, "lastStep": shown_step(value.last_step)},
    "string_set": lambda value: {"values": sorted(value)},
    "file": _file,
    "file_set": lambda value: {"size": sum(one.get("size") or 0 for one in value.values())},
    "artifact": lambda value: {"hash": value.get("hash") or ""},
}


def shown_step(step: float | None) -> float | int | None:
    """Return a step for JSON: an integer if it is whole, None for NaN."""
    if step is None or not math.isfinite(step):
        return None
    return number(step)


def number(value: float) -> float | int:
    """Return a number; as an integer if it is whole."""
    return int(value) if float(value).is_integer() else float(value)


def as_time(moment: datetime) -> str:
    """Return a time in the client's format."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _as_datetime(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, timezone.utc)
