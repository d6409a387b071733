"""Requests of Neptune's protocol and interpretation of their answers.

A server describes the addresses of its operations in Swagger documents. A batch is sent once. If
its answer is lost, the caller reads the server's state before it sends anything again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

from seamark.remote.http.address import Address
from seamark.remote.http.connection import Answer, Connection
from seamark.remote.neptune import address_in
from seamark.remote.protocol import (
    Diverged,
    Gap,
    Missing,
    Purged,
    Refused,
    RemoteError,
    Unreachable,
)

_ANSWER_S: Final = 60.0
_MAX_PAGE_POINTS: Final = 1000
"""Maximum number of points per answer; servers may return fewer."""
_CLIENT_VERSION: Final = "1.14.0"
"""Version of the package ``neptune`` that these requests follow."""
_METHODS: Final = frozenset({"delete", "get", "patch", "post", "put"})
_PART_BYTES: Final = 5 << 20
_MAX_PARTS: Final = 1000
"""Default maximum number of parts of an upload."""
_MAX_PART_BYTES: Final = 64 << 20
"""Maximum size of a part, which the training process holds in memory; bytes."""


class RemoteAttribute(NamedTuple):
    """Attribute on the server; `kind` is the protocol's type, such as ``"floatSeries"``."""

    kind: str
    last_step: float | None = None
    value: Any = None


class Client:
    """Client of one project of a server, usable by any thread.

    Creating it sends no request. Each method may raise `RemoteError`, or any other exception if an
    answer violates the protocol.
    """

    def __init__(self, project: str, token: str) -> None:
        self.name, self._token, self._access = project, token, ""
        address = Address.of(address_in(token), insecure=True)  # `token_to_show` has checked it
        self._connection = Connection(address, "", answer_s=_ANSWER_S, api="")
        self._operations: dict[str, tuple[str, str, dict[str, str]]] = {}
        self._parts: dict[str, int] = {}

    def _sign_in(self) -> None:
        if self._access:
            return
        with self._translate_errors(Missing):
            for name in ("backend", "leaderboard"):
                self._parse_document(
                    _decode(self._connection.ask("GET", f"/api/{name}/swagger.json"))
                )
            limits = self._send("getClientConfig", alpha="true").get("multiPartUpload") or {}
            self._parts = {key: size for key, size in limits.items() if type(size) is int}
            self._access = self._send("exchangeApiToken")["accessToken"]

    def _parse_document(self, document: dict[str, Any]) -> None:
        # Parameters are optional in Swagger, and may be given per address for all its methods.
        base = (document.get("basePath") or "").rstrip("/")
        for path, methods in document["paths"].items():
            for method, one in methods.items():
                if method not in _METHODS or not path.startswith("/"):
                    continue
                places = {}
                for each in [*methods.get("parameters", []), *one.get("parameters", [])]:
                    if "name" in each:  # otherwise a reference, as to a header
                        places[each["name"]] = each["in"]
                self._operations[one["operationId"]] = (method.upper(), base + path, places)

    def _send(self, verb: str, body: bytes | None = None, range_: str = "", **given: Any) -> Any:
        method, path, places = self._operations[verb]
        headers = {"X-Neptune-LegacyClient": "false"}
        if range_:
            headers["X-Range"] = range_
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        if self._access:
            headers["Authorization"] = f"Bearer {self._access}"
        for name, place in places.items():
            if name == "X-Neptune-Api-Token":
                headers[name] = self._token
            elif name == "X-Neptune-CliVersion":
                headers[name] = _CLIENT_VERSION
            elif place == "body":
                body = json.dumps(given.pop(name)).encode()
                headers["Content-Type"] = "application/json"
            elif place == "path":
                path = path.replace(f"{{{name}}}", quote(given.pop(name), safe=""))
        answer = self._connection.ask(method, path, query=given, body=body, headers=headers)
        return _decode(answer) if answer.body else None

    def _request(self, verb: str, gone: type[RemoteError], **given: Any) -> Any:
        for is_last in (False, True):
            self._sign_in()
            with self._translate_errors(gone):
                try:
                    return self._send(verb, **given)
                except Refused as error:
                    if is_last or error.status != HTTPStatus.UNAUTHORIZED:
                        raise
                    self._access = ""  # the token has expired; the request had no effect
        raise AssertionError  # the last try returns or raises

    # ---------------------------------------------------------------- runs

    def create(self, custom_id: str) -> str:
        """Return the id of the run with a custom id; create the run if it does not exist."""
        project = self._request("getProject", Missing, projectIdentifier=self.name)["id"]
        parents = {"projectIdentifier": project, "parentId": project}
        new = {**parents, "type": "run", "cliVersion": _CLIENT_VERSION, "customId": custom_id}
        return str(self._request("createExperiment", Missing, experimentCreationParams=new)["id"])

    def ask(self, verb: str, container: str, **given: Any) -> Any:
        """Return the answer to a request about a run; raise `Purged` if it no longer exists."""
        return self._request(verb, Purged, experimentId=container, **given)

    def attributes(self, container: str) -> dict[str, RemoteAttribute]:
        """Return the attributes of a run, by path."""
        reply = self.ask("getExperimentAttributes", container)["attributes"]
        return {one["name"]: _parse_attribute(one) for one in reply}

    def execute(self, container: str, operations: list[dict[str, Any]]) -> list[str]:
        """Execute operations in one request without retries; return the error messages."""
        return _error_texts(self.ask("executeOperations", container, operations=operations))

    def tail(
        self, container: str, path: str, kind: str, count: int
    ) -> list[tuple[float, int, Any]]:
        """Return step, time (ms) and value of the last points of a series."""
        verb = "getFloatSeriesValues" if kind == "floatSeries" else "getStringSeriesValues"
        found: list[Any] = []
        total = self.ask(verb, container, attribute=path, limit=1, offset=0)["totalItemCount"]
        first = max(0, total - count)
        while first + len(found) < total:
            part = {"limit": _MAX_PAGE_POINTS, "offset": first + len(found)}
            reply = self.ask(verb, container, attribute=path, **part)
            if not reply["values"]:
                break
            found += reply["values"]
        return [(one["step"], int(one["timestampMillis"]), one["value"]) for one in found]

    def upload(self, container: str, path: str, name: str, ext: str, file: BinaryIO) -> list[str]:
        """Replace a file, or the member `name` of a file set; return the error messages."""
        self._sign_in()
        size, verb = file.seek(0, os.SEEK_END), "fileSetFile" if name else "fileAtom"
        file.seek(0)
        target = {"experimentIdentifier": container, "attribute": path}
        target |= {"subPath": name} if name else {}
        first = target if name else {**target, "ext": ext}
        if size <= min(_MAX_PART_BYTES, self._parts.get("maxSinglePartSize", _PART_BYTES)):
            return _error_texts(self._request(f"{verb}Upload", Purged, body=file.read(), **first))
        verb += "MultipartUpload"
        reply = self._request(f"{verb}Start", Purged, totalLength=size, **first)
        if errors := _error_texts(reply):
            return errors
        target["uploadId"] = reply["uploadId"]
        least = min(_MAX_PART_BYTES, self._parts.get("minChunkSize", _PART_BYTES))
        most = max(1, self._parts.get("maxChunkCount", _MAX_PARTS))
        length = max(least, math.ceil(size / most))
        for index, start in enumerate(range(0, size, length)):
            part = file.read(length)
            given = {
                "range_": f"bytes={start}-{start + len(part) - 1}/{size}",
                "uploadPartIdx": index,
                **target,
            }
            # If the server has forgotten the upload, the caller restarts it.
            if errors := _error_texts(
                self._request(f"{verb}Part", Unreachable, body=part, **given)
            ):
                return errors
        return _error_texts(self._request(f"{verb}Finish", Unreachable, **target))

    # ---------------------------------------------------------------- errors

    @contextlib.contextmanager
    def _translate_errors(self, gone: type[RemoteError]) -> Iterator[None]:
        try:
            yield
        except (Refused, Gap, Diverged) as error:  # the protocol has no equivalent of the last two
            raise self._to_error(error, gone) from error

    def _to_error(self, error: RemoteError, gone: type[RemoteError]) -> RemoteError:
        if error.status == HTTPStatus.NOT_FOUND:
            is_project = gone is Missing
            words = f"no project {self.name} for this token" if is_project else "it does not exist"
            return gone(words)
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return Refused(f"the token may not write to {self.name}")
        return Refused(f"refused: {_printable(error.said.get('title') or error)}")


def _decode(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise Unreachable("the answer is not JSON: is it a server of Neptune's protocol?") from None


def _printable(text: object) -> str:
    # Without control characters, which could affect the terminal of the user.
    return "".join(each if each.isprintable() else " " for each in str(text))[:300]


def _parse_attribute(attribute: dict[str, Any]) -> RemoteAttribute:
    kind = attribute["type"]
    properties = attribute.get(f"{kind}Properties") or {}
    return RemoteAttribute(kind, properties.get("lastStep"), properties.get("value"))


def _error_texts(reply: Any) -> list[str]:
    # The reply is a list of errors, an object with such a list, or an error itself.
    some = reply.get("errors", [reply]) if isinstance(reply, dict) else reply
    return [
        _printable(each["errorDescription"]) for each in some or () if "errorDescription" in each
    ]
