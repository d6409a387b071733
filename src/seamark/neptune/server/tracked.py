"""Artifacts: lists of files that lie elsewhere, found by their hash.

Only what is known of the files travels, never their bytes. A list is kept in the log of its project,
as a file there, so that it is in the journals as everything is.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Body, Query, Request, Response

from seamark.errors import ArgumentError
from seamark.journal.folder import PROJECT_LOG
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import log_of, project_of
from seamark.neptune.server.contents import keep_content
from seamark.neptune.server.names import Container
from seamark.neptune.server.reading import Read
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import server_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from seamark.neptune.server.log import Batch
    from seamark.server.state import Server

__all__ = ["hash_of", "record_of", "router"]

router: Final = Routes()
_PLACE: Final = "monitoring/neptune/artifacts"
"""Where the log of a project has the lists, by hash."""
_LENGTH: Final = struct.Struct(">I")
_SIZE: Final = struct.Struct(">Q")
_MOST_FILES: Final = 100_000
_DIGEST_CHARS: Final = 64

Of = Annotated[str, Query(alias="projectIdentifier", max_length=8192)]
Hash = Annotated[str, Query(alias="hash", pattern="^[0-9a-f]{8,128}$")]
Files = Annotated[dict[str, Any], Body()]


@router.answers("createNewArtifact")
def create(request: Request, project_id: Of, given: Hash, size: int = 0) -> Response:
    """Say whether the files of an artifact are known already."""
    server, log = _log(request, project_id, Role.CONTRIBUTOR)
    known = _files(server, log, given) is not None
    return answer({"artifactHash": given, "receivedMetadata": known, "size": size})


@router.answers("uploadArtifactFilesMetadata")
def upload(request: Request, project_id: Of, given: Hash, body: Files) -> Response:
    """Take what is known of the files of an artifact."""
    server, log = _log(request, project_id, Role.CONTRIBUTOR)
    files = _checked(body.get("files"))
    if hash_of(files) != given:
        raise Refusal(400, "invalid", "these files have another hash")
    _keep(request, log, given, files)
    size = sum(file["size"] or 0 for file in files)
    return answer({"artifactHash": given, "receivedMetadata": True, "size": size})


@router.answers("createArtifactVersion")
def extend(request: Request, project_id: Of, given: Hash, body: Files) -> Response:
    """Make an artifact of another one's files and some more; those win that are given now."""
    server, log = _log(request, project_id, Role.CONTRIBUTOR)
    known = _files(server, log, given)
    if known is None:
        raise Refusal(404, "no-artifact", "no artifact of this project has that hash")
    by_path = {file["filePath"]: file for file in [*known, *_checked(body.get("files"))]}
    files = list(by_path.values())
    made = hash_of(files)
    _keep(request, log, made, files)
    size = sum(file["size"] or 0 for file in files)
    return answer({"artifactHash": made, "receivedMetadata": True, "size": size})


@router.answers("listArtifactFiles")
def list_files(request: Request, project_id: Of, given: Hash) -> Response:
    """Return what is known of the files of an artifact."""
    server, log = _log(request, project_id, Role.VIEWER)
    files = [] if given == hash_of([]) else _files(server, log, given)
    if files is None:
        raise Refusal(404, "no-artifact", "no artifact of this project has that hash")
    return answer({"files": files})


def record_of(server: Server, container: Container, given: str) -> dict[str, Any]:
    """Return an artifact as a record of a journal.

    Raises:
        ArgumentError: If its files are not known in the project.
    """
    files = _files(server, Container(container.project, PROJECT_LOG), given)
    if files is None:
        msg = f"no artifact of this project has the hash {given:.130}"
        raise ArgumentError(msg)
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


def hash_of(files: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of an artifact, as the client computes it, by its files in order of path."""
    found = hashlib.sha256()
    for file in sorted(files, key=lambda one: one["filePath"]):
        path, kind = file["filePath"].encode(), file["type"].encode()
        found.update(b"#" + _LENGTH.pack(len(path)) + path + b"#" + file["fileHash"].encode())
        if file["size"] is not None:
            found.update(b"#" + _SIZE.pack(file["size"]))
        found.update(b"#" + _LENGTH.pack(len(kind)) + kind)
    return found.hexdigest()


def _log(request: Request, project_id: str, role: Role) -> tuple[Server, Container]:
    project = project_of(request, project_id, role)
    return server_of(request), Container(project, PROJECT_LOG)


def _checked(files: Any) -> list[dict[str, Any]]:
    """Return files without what is not known of them.

    Raises:
        ArgumentError: If they are none.
    """
    if not isinstance(files, list) or len(files) > _MOST_FILES:
        msg = f"files: expected a list of at most {_MOST_FILES:,}"
        raise ArgumentError(msg)
    try:
        return [
            {
                "filePath": str(file["filePath"]),
                "fileHash": str(file["fileHash"]),
                "type": str(file["type"]),
                "size": None if file.get("size") is None else int(file["size"]),
                "metadata": [
                    {"key": str(pair["key"]), "value": str(pair["value"])}
                    for pair in file.get("metadata") or ()
                ],
            }
            for file in files
        ]
    except (KeyError, TypeError, ValueError) as error:
        msg = f"files: not as expected: {error}"
        raise ArgumentError(msg) from error


def _keep(request: Request, log: Container, given: str, files: list[dict[str, Any]]) -> None:
    data = json.dumps(files, ensure_ascii=False).encode()
    digest = keep_content(server_of(request), log, data)
    file = {"name": f"{given}.json", "ext": "json", "size": len(data), "sha256": digest}

    def fill(batch: Batch) -> None:
        batch.op({"op": "files", "path": _PLACE, "members": {given: file}})
        batch.holds(_PLACE, "file_set")

    log_of(request, log).write(fill)


def _files(server: Server, log: Container, given: str) -> list[dict[str, Any]] | None:
    found = Read(server, log).attribute(_PLACE)
    if found is None or found.family != "file_set" or given not in found.value:
        return None
    blob = server.blobs.find(log.project, found.value[given]["sha256"])
    if blob is None:
        return None
    files: list[dict[str, Any]] = json.loads(b"".join(blob.read()))
    return files
