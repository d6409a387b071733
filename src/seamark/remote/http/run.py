"""Reader of a run on a server and of the contents of its files."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.blobs.contents import Copy, digest_of, write_parts
from seamark.errors import FileMissingError
from seamark.journal.safe import MAX_TEXT_BYTES
from seamark.paths import is_inside
from seamark.reading.attributes import Attribute
from seamark.reading.codec import Facts, Overview, SeriesPart, WireError
from seamark.reading.curves import check_points
from seamark.reading.points import Attempt, Points, check_attempt
from seamark.reading.reader import Reader, Verb, verbs_of
from seamark.remote.http.connection import run_path
from seamark.remote.protocol import Missing, RemoteError, RunKey, Unreachable

if TYPE_CHECKING:
    from seamark.process.liveness import Crash
    from seamark.reading.groups import Key
    from seamark.remote.http.reads import ServerClient


_MAX_TRIES: Final = 5
"""Maximum number of consecutive attempts at a download that receive no byte."""
_PIECE_BYTES: Final = 1 << 16
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class RemoteContents:
    """Files of a run on a server; see `seamark.reading.contents.Contents`."""

    kind = "server"

    def __init__(self, client: ServerClient, run: RunKey) -> None:
        self._client = client
        self._run = run
        self._existing: dict[str, bool] = {}

    @property
    def where(self) -> str:
        """Address of the server."""
        return self._client.where

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a long text, which is stored as a file."""
        sha256, size = str(record.get("sha256")), record.get("size")
        if not isinstance(size, int) or not 0 <= size <= MAX_TEXT_BYTES:
            raise FileMissingError(
                f"the text {sha256} has {size!r:.40} bytes, too many to read at once"
            )
        return self._fetch_all(sha256, size).decode("utf-8", "backslashreplace")

    def read(self, file: Mapping[str, Any], path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a recorded file."""
        _refuse_reference(file, path)
        return self._fetch_all(*digest_of(file, path))

    def write(
        self,
        file: Mapping[str, Any],
        target: Path,
        path: str,
        *,
        name: str | None = None,
        references: bool = False,
        verify: bool = False,
    ) -> Path:
        """Write a recorded file, or folder, to disk."""
        _refuse_reference(file, path)

        @contextlib.contextmanager
        def opened(where: str, inner: Sequence[str]) -> Iterator[Copy]:
            sha256, size = digest_of(file, where, inner)
            yield lambda out: self._fetch(sha256, size, out)

        return write_parts(opened, file, target, path, name=name, verify=verify)

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return the first bytes of a content on the server, at most ``most``."""
        wanted = min(size, most)
        if not wanted:
            return b""
        with self._open(sha256, {"Range": f"bytes=0-{wanted - 1}"}) as response:
            data: bytes = response.read(wanted, decode_content=False)
        return data

    def finish(self, files: Collection[Mapping[str, Any]]) -> bool:
        """Return False: unfinished files exist only on the machine of their process."""
        return False

    def whereabouts(self, record: Mapping[str, Any]) -> str:
        """Return ``reference``, ``kept`` or ``pending`` (not sent yet) for a FILE record."""
        if record.get("ref"):
            return "reference"
        digest = record.get("sha256")
        if not digest:
            return "pending" if record.get("pending") else "kept"
        return "kept" if self._exists(str(digest)) else "pending"

    def referred(self, record: Mapping[str, Any]) -> str:
        """Return the target of a FILE record that is a reference; otherwise an empty text."""
        return str(record.get("ref") or "")

    def stored_at(self, sha256: str) -> str:
        """Return the address of a content."""
        return f"{self.where}/api/v1/{run_path(self._run, 'blobs', sha256)}"

    def shorter(self, name: str) -> str:
        """Return the name of a file unchanged."""
        return name

    # ---------------------------------------------------------------- inside

    def _exists(self, sha256: str) -> bool:
        if sha256 not in self._existing:
            try:
                with self._open(sha256, {"If-None-Match": f'"{sha256}"', "Range": "bytes=0-0"}):
                    self._existing[sha256] = True
            except FileMissingError:
                self._existing[sha256] = False
        return self._existing[sha256]

    @contextlib.contextmanager
    def _open(self, sha256: str, headers: Mapping[str, str]) -> Iterator[Any]:
        if not _DIGEST.fullmatch(sha256):
            raise FileMissingError(f"expected a SHA-256 digest of a file, got {sha256!r:.80}")
        connection = self._client.connection
        path = run_path(self._run, "blobs", sha256)
        plain = {"Accept-Encoding": "identity", **headers}
        try:
            with (
                connection.open("GET", path, headers=plain) as response,
                connection.translate_errors(),
            ):
                yield response
        except Missing as error:
            raise FileMissingError(
                f"the content {sha256} is not on {self.where}: it has not been sent (yet)"
            ) from error

    def _stream_from(self, sha256: str, done: int) -> Iterator[bytes]:
        more = {"Range": f"bytes={done}-", "If-Range": f'"{sha256}"'} if done else {}
        with self._open(sha256, more) as response:
            if done and response.status != 206:  # noqa: PLR2004 - partial content
                raise RemoteError(f"{self.where} cannot resume an interrupted download")
            yield from response.stream(_PIECE_BYTES, decode_content=False)

    def _fetch_all(self, sha256: str, size: int | None) -> bytes:
        out = io.BytesIO()
        self._fetch(sha256, size, out)
        return out.getvalue()

    def _fetch(self, sha256: str, size: int | None, out: BinaryIO) -> None:
        digest, done, tries = hashlib.sha256(), 0, _MAX_TRIES
        while tries > 0:
            begun = done
            try:
                for block in self._stream_from(sha256, done):
                    done += len(block)
                    digest.update(block)
                    out.write(block)
                    if size is not None and done > size:
                        break
            except Unreachable:
                if tries == 1 and done == begun:
                    raise
            else:
                if size is None or done >= size:
                    break
            tries = _MAX_TRIES if done > begun else tries - 1
        if digest.hexdigest() != sha256 or (size is not None and done != size):
            raise FileMissingError(
                f"{self.where} returned other bytes for {sha256} than were recorded"
            )


def _refuse_reference(file: Mapping[str, Any], path: str) -> None:
    if "ref" in file:
        raise FileMissingError(
            f"{path}: it refers to {file['ref']}, which exists only on the machine that "
            "recorded it; copy it from there"
        )


_FLOAT_SERIES: Final = "float_series"
_MAX_PATHS: Final = 500
_MAX_BYTES: Final = 1 << 19
"""Approximate maximum size of a request, in bytes."""
_MAX_LIMIT: Final = 1 << 24
_VERBS: Final = verbs_of(Reader)
_OVERVIEW_FIELDS: Final = frozenset({"state", "reason", "signal", "traceback"})
"""Properties of a reader that are fields of `Overview`."""


class RemoteRun:
    """Run on a server; see `seamark.reading.reader.Reader`.

    Verbs that are not defined here send the read request of their name. Answers are cached: a
    reader shows the run at one moment, a new reader at a later moment. `name` is the run id.
    """

    def __init__(self, client: ServerClient, project: str, run: str) -> None:
        self.project = project
        self.name = run
        self._client = client
        self._answers: dict[str, Any] = {}
        self.contents = RemoteContents(client, RunKey(project, run))

    def __getattr__(self, name: str) -> Any:
        if name in _OVERVIEW_FIELDS:
            return getattr(self.overview(), name)
        if (verb := _VERBS.get(name)) is None:
            raise AttributeError(name)
        return functools.partial(self._ask_verb, verb)

    def _ask_verb(self, verb: Verb, *arguments: Any, **named: Any) -> Any:
        given = dict(zip(verb.parameters, arguments, strict=False)) | named
        if "attempt" in given:
            check_attempt(given["attempt"])
        if verb.name == "curve":  # other verbs have other limits
            check_points(given.get("points"))
        if given.get("look"):
            given["look"].check()
        return self._ask(verb.name, verb.answer, **given)

    def _ask(self, verb: str, kind: Any, **arguments: Any) -> Any:
        return self._client.read(verb, kind, self._question(**arguments))

    def _question(self, **arguments: Any) -> dict[str, Any]:
        return {"project": self.project, "run": self.name, **arguments}

    def _ask_once(self, verb: str, kind: Any) -> Any:
        if verb not in self._answers:
            self._answers[verb] = self._ask(verb, kind)
        return self._answers[verb]

    @property
    def now_ns(self) -> int:
        """Current time of the server's clock, in nanoseconds since the Unix epoch."""
        return self._client.now_ns()

    # ------------------------------------------------------------------ state of the run

    def overview(self) -> Overview:
        """Return the state of the run; `RunNotFoundError` if it does not exist."""
        found: Overview = self._ask_once("overview", Overview)
        return found

    def keep_facts(self) -> None:
        """Request everything except points in one request, so that it is of one moment."""
        facts: Facts = self._ask("facts", Facts)
        self._answers.update({one.name: getattr(facts, one.name) for one in fields(Facts)})

    def crash(self) -> Crash | None:
        """Return the end of the training process; None unless the run crashed."""
        return self.overview().crash

    def has_failed(self) -> bool:
        """Return whether an owning process recorded a failure of the run."""
        return self.overview().failed

    def problems(self) -> dict[str, Any]:
        """Return the non-empty problems of the run, by name."""
        return self.overview().troubles

    def ranks(self) -> list[Any]:
        """Return the state of each rank of the run, by rank."""
        return list(self._ask_once("ranks", _VERBS["ranks"].answer))

    def journals(self) -> list[Any]:
        """Return a description of each journal, sorted by writer."""
        return list(self._ask_once("journals", _VERBS["journals"].answer))

    # ------------------------------------------------------------------ attributes

    def attributes(self, namespace: str = "") -> list[Attribute]:
        """Return the visible attributes at and below a path, sorted by path."""
        if namespace and "attributes" not in self._answers:
            return list(self._ask("attributes", list[Attribute], namespace=namespace))
        found = self._ask_once("attributes", list[Attribute])
        return [one for one in found if is_inside(one.path, namespace)]

    def attribute(self, path: str) -> Attribute | None:
        """Return the attribute at a path, or None."""
        if "attributes" in self._answers:
            return next((one for one in self.attributes() if one.path == path), None)
        found: Attribute | None = self._ask("attribute", Attribute | None, path=path)
        return found

    def series_paths(self) -> list[str]:
        """Return the paths of the float series, sorted."""
        return [path for path, family in self.families().items() if family == _FLOAT_SERIES]

    def families(self) -> dict[str, str]:
        """Return the family of each path, sorted by path, without reading values."""
        if "attributes" in self._answers:
            return {one.path: one.family for one in self.attributes()}
        found = self._ask_once("families", dict[str, str])
        return {path: found[path] for path in sorted(found)}

    def some(self, paths: Collection[str]) -> list[Attribute]:
        """Return the attributes at some paths, in their order."""
        wanted = list(paths)
        if "attributes" in self._answers:
            known = {one.path: one for one in self.attributes()}
            return [known[path] for path in wanted if path in known]
        found: dict[str, Attribute] = {}
        for part in _split_paths(wanted):
            answer = self._ask("some", list[Attribute], paths=part)
            found |= {one.path: one for one in answer}
        return [found[path] for path in wanted if path in found]

    # ------------------------------------------------------------------ series

    def points(self, path: str, attempt: Attempt = "latest", *, limit: int | None = None) -> Points:
        """Return the points of a float series, or the last ``limit`` of them."""
        return self.many_points([path], attempt, limit=limit)[path]

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> Mapping[str, Points]:
        """Return the points of several float series."""
        check_attempt(attempt)
        wanted = list(dict.fromkeys(paths))
        # A server finds the last few points quickly; for a large limit, request all points.
        last = limit if limit is not None and limit <= _MAX_LIMIT else None
        parts: dict[Key, list[Points]] = {}
        for some in _split_paths(wanted):
            question = self._question(paths=some, attempt=attempt, limit=last)
            for answer in self._client.parts("points", list[SeriesPart], question):
                add_parts(parts, answer.answer, "points")
        found = {path: join_points(one) for (_, _, path), one in parts.items()}
        if not found.keys() >= set(wanted):
            raise WireError("unexpected answer: points of a path are missing")
        return {path: found[path] if limit is None else found[path][-limit:] for path in wanted}


def _split_paths(paths: list[str]) -> list[list[str]]:
    found: list[list[str]] = []
    size = _MAX_BYTES
    for path in paths:
        size += len(path)
        if size >= _MAX_BYTES or len(found[-1]) >= _MAX_PATHS:
            found.append([])
            size = len(path)
        found[-1].append(path)
    return found


def add_parts(found: dict[Key, list[Any]], parts: Sequence[SeriesPart], kind: str) -> None:
    """Add parts of series to the earlier parts; a part that begins again replaces them.

    `kind` is ``"points"`` or ``"curve"``. Raises `WireError` for a part without content or without
    the earlier parts.
    """
    for part in parts:
        some = getattr(part, kind)
        if part.begins or kind == "curve":
            found[part.key] = []
        if some is None or part.key not in found:
            raise WireError(f"unexpected answer: a part of {part.path!r:.80} is missing")
        found[part.key].append(some)


def join_points(some: list[Points]) -> Points:
    """Concatenate parts of a series."""
    import numpy as np

    if len(some) == 1:
        return some[0]
    return Points(
        **{
            name: np.concatenate([getattr(one, name) for one in some])
            for name in ("step", "value", "time_ns", "attempt")
        }
    )
