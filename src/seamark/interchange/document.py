"""Import of the documents that `seamark.run.run.Run.to_dict` and ``seamark export`` create.

A document may be untrusted: it is checked completely before the first byte is written, and errors
name the position in the document. Derived attributes (times, owner, state) are restored through
headers and the times of records. A document does not contain the bytes of files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from seamark.errors import ArgumentError, SeamarkError, ValueKindError
from seamark.interchange.draft import Draft, Fields, run_exists_error
from seamark.interchange.reconstruction import (
    Columns,
    DocumentWriter,
    columns_of,
    each_of,
    expect_type,
    floats_of,
    mismatch,
    place_in,
)
from seamark.journal.folder import RunFolder
from seamark.journal.format import digest_of_text, file_of
from seamark.paths import check_name, check_path, check_project, is_derived
from seamark.reading.attributes import CHANGES
from seamark.reading.document import SERIES
from seamark.reading.states import STATES
from seamark.values import Atom, decode_atom, encode_atom, escape
from seamark.values.statistics import load_aggregate

GROUP: Final = "seamark.importers"
"""Entry point group of functions that take a path and yield one document per run."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SEAMARK_SPACE: Final = "monitoring/seamark/"
"""Namespace of derived attributes."""
_MAX_RUNNING_S: Final = 1e9
_STAGING_FIELDS: Final = ("staged", "source", "token")
"""Fields of a FILE record about bytes that are not stored yet."""
_TIMES: Final = ("sys/creation_time", "sys/modification_time")
_SPAN_TIMES: Final = frozenset({"sys/start_time", "sys/end_time"})
_RECORDED: Final = frozenset({"sys/revision", "sys/start_hash", "sys/trashed"})
"""Attributes that are derived for users, but recorded by the process."""
_MAX_DEPTH: Final = 64


def importers() -> list[str]:
    """Return the sorted names of the importers of installed packages."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def documents_of(importer: str, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the position and the content of each document that an importer creates from a path.

    Raises:
        SeamarkError: If the importer fails.
    """
    point = next(iter(entry_points(group=GROUP, name=importer)))
    try:
        for at, document in enumerate(point.load()(path)):
            yield place_in(importer, at), document
    except SeamarkError:
        raise
    except Exception as error:
        raise SeamarkError(
            f"{path}: the importer {importer} ({point.value}) failed: {error!r:.300}"
        ) from error


def as_strict_json(document: Any, where: str) -> Any:
    """Return a document converted to strict JSON types; ArgumentError if that is impossible."""
    with _placed(where, "a document of strict JSON"):
        return json.loads(json.dumps(document, allow_nan=False))


def documents_in(path: Path) -> list[tuple[str, Any]]:
    """Return position and content of each document in a JSON file; ArgumentError if invalid."""

    def refuse(token: str) -> Any:
        raise ArgumentError(f"expected strict JSON, got {token}")

    with _placed(str(path), "JSON as seamark export --format json writes it"):
        read = json.loads(path.read_bytes(), parse_constant=refuse)
    return list(_unpacked(read))


def _unpacked(given: Any) -> Iterator[tuple[str, Any]]:
    expect_type(given, Mapping, "", "an object")
    if "runs" not in given or "run" in given:
        yield "", given
        return
    for at, one in enumerate(expect_type(given["runs"], list, "runs", "a list")):
        yield place_in("runs", at), one


@dataclass(slots=True)
class _Contents:
    """Checked contents of a document; ``changes`` are sorted by time (ns since the Unix epoch)."""

    facts: dict[str, Any] = field(default_factory=dict)
    atoms: dict[str, Atom] = field(default_factory=dict)
    changes: list[tuple[int, str, Atom]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)
    series: dict[tuple[str, str], Columns] = field(default_factory=dict)


class DocumentRun:
    """Run of a completely checked document; ArgumentError names the position of a mistake."""

    def __init__(
        self, root: Path, document: Any, project: str | None = None, where: str = ""
    ) -> None:
        if isinstance(document, Mapping) and not where and "run" not in document:
            found = list(_unpacked(document))
            if len(found) != 1:
                raise ArgumentError(f"runs: expected the document of one run, got {len(found)}")
            ((where, document),) = found
        expect_type(document, Mapping, where, "an object")
        self._where, self._document = where, document
        if (kind := document.get("kind", "run")) != "run":
            raise mismatch(place_in(where, "kind"), "a run", kind)
        self._names = (
            _name(document, "project", where, check_project),
            _name(document, "run", where, check_name),
        )
        to = self._names[0] if project is None else check_project(project)
        self.folder = RunFolder(root, to, self._names[1])
        self._contents = _Contents()
        self._check(document)
        self.points = sum(len(one.step) for one in self._contents.series.values())

    def expect_new(self) -> None:
        """Raise RunExistsError if the run already exists."""
        if self.folder.path.exists():
            raise run_exists_error(self.folder)

    def make(self, progress: Callable[[int], None] = lambda _: None) -> RunFolder:
        """Create the run and return its folder; the run becomes visible when it is complete.

        ``progress`` is called with the number of points written since its last call.

        Raises:
            RunExistsError: If the project already has a run with this id.
            NotImportedError: If the run was purged there, or another process is importing it.
        """
        self.expect_new()
        held = self._contents
        with contextlib.closing(Draft(self.folder)) as draft:
            # Other documents give other journals.
            digest = hashlib.sha256(repr(self._document).encode("utf-8", "surrogatepass"))
            made = DocumentWriter(draft, self._names, held.facts, digest.hexdigest())
            made.values(held.atoms, held.ops)
            for (family, path), columns in held.series.items():
                made.series(family, path, columns)
                progress(len(columns.step))
            made.changes(held.changes)
            made.close()
            draft.finish(alone=True)
        return self.folder

    # ---------------------------------------------------------------- checks

    def _check(self, document: Fields) -> None:
        where = place_in(self._where, "attributes")
        attributes = expect_type(document.get("attributes"), Mapping, where, "an object")
        for path, one in attributes.items():
            place = place_in(where, path) if isinstance(path, str) else where
            with _placed(place):
                check_path(path)
            expect_type(one, Mapping, place, "an object with family, type and value")
            if path.startswith(_SEAMARK_SPACE) and one.get("type") == "json":
                if path == CHANGES:
                    self._changes(one.get("value"), place_in(place, "value"))
            elif path == "sys/trashed" and one.get("value") is False:
                continue
            elif is_derived(path) and path not in _RECORDED:
                self._contents.facts[path] = one.get("value")
            else:
                self._attribute(document, path, one, place)
        self._facts()
        for _, path, _ in self._contents.changes:
            self._contents.atoms.pop(path, None)

    def _place(self, path: str) -> str:
        return place_in(place_in(place_in(self._where, "attributes"), path), "value")

    def _facts(self) -> None:
        facts = self._contents.facts
        for path in (*_TIMES, *sorted(_SPAN_TIMES & facts.keys())):
            facts[path] = _moment(facts.get(path), self._place(path))
        created, modified = (facts[path] for path in _TIMES)
        for path in (_TIMES[1], *sorted(_SPAN_TIMES & facts.keys())):
            if not created <= facts[path] <= modified:
                raise ArgumentError(
                    f"{self._place(path)}: expected a time from {_TIMES[0]} to {_TIMES[1]}"
                )
        if facts.get("sys/state") not in STATES:
            words = f"one of {', '.join(STATES)}"
            raise mismatch(self._place("sys/state"), words, facts.get("sys/state"))
        place = self._place("sys/running_time")
        seconds = facts.get("sys/running_time", 0.0)
        if type(seconds) not in (int, float) or not 0 <= seconds < _MAX_RUNNING_S:
            raise mismatch(place, "a number of seconds", seconds)
        longest = facts.get("sys/end_time", modified) - facts.get("sys/start_time", created)
        if round(seconds * 1e9) > longest + 1000:
            raise ArgumentError(f"{place}: expected at most the time from the start to the end")
        for path in ("sys/owner", "sys/id", "sys/state_detail"):
            expect_type(facts.setdefault(path, ""), str, self._place(path), "a text")

    def _changes(self, given: Any, where: str) -> None:
        for path, history in expect_type(given, Mapping, where, "an object").items():
            place = place_in(where, str(path))
            with _placed(place):
                check_path(path)
            for at, one in enumerate(expect_type(history, list, place, "a list")):
                each = place_in(place, at)
                expect_type(one, Mapping, each, "an object with value and time")
                time_ns = _moment(one.get("time"), place_in(each, "time"))
                atom = _json_atom(one.get("value"), place_in(each, "value"))
                self._contents.changes.append((time_ns, path, atom))
        self._contents.changes.sort(key=lambda one: one[0])

    def _attribute(self, document: Fields, path: str, one: Fields, where: str) -> None:
        family = one.get("family")
        if family == "atom":
            self._contents.atoms[path] = _atom(one.get("type"), one.get("value"), where)
        elif part := next((key for key, each in SERIES.items() if each == family), None):
            self._series(document, part, path)
        elif make := _OPS.get(str(family)):
            key = "kept" if family == "statistic" else "value"
            with _placed(place_in(where, key), f"a valid value of family {family}"):
                self._contents.ops.append({"path": path, **make(one.get(key), path)})
        else:
            raise mismatch(place_in(where, "family"), "a known family of values", family)

    def _series(self, document: Fields, part: str, path: str) -> None:
        where = place_in(self._where, part)
        words = f"an object with the points of {path!r:.200}"
        given = expect_type(document.get(part), Mapping, where, words)
        place = place_in(where, path)
        columns = columns_of(given.get(path), place, _VALUES[part])
        self._contents.series[SERIES[part], path] = columns


@contextlib.contextmanager
def _placed(where: str, expected: str = "a valid value") -> Iterator[None]:
    try:
        yield
    except SeamarkError as error:
        raise ArgumentError(f"{where}: {str(error).removeprefix('path: ')}") from error
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise ArgumentError(f"{where}: expected {expected}: {error}") from error


def _name(document: Fields, key: str, where: str, check: Callable[[str], object]) -> str:
    found = document.get(key)
    if not isinstance(found, str) or not found:
        raise mismatch(place_in(where, key), "a name", found)
    with _placed(place_in(where, key)):
        check(found)
    return found


def _moment(given: Any, where: str) -> int:
    try:  # a time without a zone cannot be compared with one with a zone
        found = datetime.fromisoformat(given.replace("Z", "+00:00")) - _EPOCH
        time_ns = found // timedelta(microseconds=1) * 1000
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise mismatch(where, "a time such as '2025-01-31T12:00:00+00:00'", given) from None
    if not 0 <= time_ns < 1 << 62:
        raise mismatch(where, "a time from 1970 to 2116", given)
    return time_ns


# -------------------------------------------------------------------- values


def _atom(kind: Any, value: Any, where: str) -> Atom:
    place = place_in(where, "value")
    if kind == "json":
        return _json_atom(expect_type(value, (list, Mapping), place, "a list or an object"), place)
    if kind == "text":
        with _placed(place):
            return Atom("text", digest_of_text(value))
    known = ("int", "float", "bool", "string", "datetime", "null")
    if kind not in known:
        raise mismatch(
            place_in(where, "type"), f"one of {', '.join((*known, 'json', 'text'))}", kind
        )
    if kind == "float" and type(value) is int:
        value = floats_of([value], place)[0].item()
    try:
        decoded = decode_atom(kind, value)
    except ValueKindError as error:
        raise mismatch(place, f"a value of type {kind}", value) from error
    found = encode_atom(decoded)
    if found.type != kind:
        raise mismatch(place, f"a value of type {kind}", value)
    return found


def _json_atom(value: Any, where: str) -> Atom:
    with _placed(where, "values of JSON"):
        _check_depth(value)
        return encode_atom(value)


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ArgumentError(f"expected at most {_MAX_DEPTH} levels of lists and objects")
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_depth(each, depth + 1)


def _file(given: Any) -> dict[str, Any]:
    found = {key: each for key, each in file_of(given).items() if key not in _STAGING_FIELDS}
    if not found.keys() & {"sha256", "ref", "lost"}:
        found["lost"] = "not stored"
    return {key: escape(each) if isinstance(each, str) else each for key, each in found.items()}


def _files(given: Any, _: str) -> dict[str, Any]:
    members = {escape(name): _file(one) for name, one in dict(given).items()}
    return {"op": "files", "members": members}


def _set(given: Any, _: str) -> dict[str, Any]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ArgumentError(f"expected a list of texts, got {given!r:.80}")
    return {"op": "assign_set", "values": [escape(each) for each in given]}


def _statistic(given: Any, path: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(f"expected an object with kind and state, got {given!r:.80}")
    found = load_aggregate(given.get("kind"), given.get("state"))
    part = hashlib.sha256(path.encode()).hexdigest()[:16]
    return {"op": "statistic", "kind": found.kind, "state": found.state_dict(), "part": part}


def _artifact(given: Any, _: str) -> dict[str, Any]:
    files = [
        {"path": known.pop("name"), **known}
        for known in (file_of({**one, "name": one["path"]}) for one in given.get("files", []))
    ]
    references = _set(given.get("references", []), "")["values"]
    texts = {key: str(given.get(key, "")) for key in ("kind", "hash")}
    return {"op": "artifact", **texts, "files": files, "references": references}


_OPS: Final[Mapping[str, Callable[[Any, str], dict[str, Any]]]] = {
    "file": lambda given, _: {"op": "file", "file": _file(given)},
    "file_set": _files,
    "string_set": _set,
    "statistic": _statistic,
    "artifact": _artifact,
}
"""Function that creates the record of each family other than atoms and series."""


# -------------------------------------------------------------------- values of points


def _text(given: Any) -> Any:
    return given if isinstance(given, str) else digest_of_text(given)


def _histogram(given: Any) -> list[Any]:
    edges, counts = given
    if len(floats_of(edges, "")) != len(floats_of(counts, "")) + 1:
        raise ValueError(given)
    return [edges, counts]


def _file_point(given: Any) -> tuple[dict[str, Any], dict[str, str]]:
    texts = {name: escape(given[key]) for name, key in _POINT_FIELDS.items() if given.get(key)}
    return _file(given), texts


_POINT_FIELDS: Final = {"name": "called", "description": "description"}
_VALUES: Final[Mapping[str, Callable[[list[Any], str], Any]]] = {
    "series": floats_of,
    "texts": lambda given, where: each_of(given, where, "a text", _text),
    "files": lambda given, where: each_of(given, where, "the record of a file", _file_point),
    "histograms": lambda given, where: each_of(
        given, where, "one more edge than counts", _histogram
    ),
}
