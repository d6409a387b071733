"""Artifacts: lists of files stored outside of the server, identified by their hash.

Only the metadata of the files is sent, never their content. A list is stored as a file in the log
of its project, and so is part of its journals.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query, Request, Response

from seamark.errors import ArgumentError
from seamark.neptune.server.answers import Given, Routes, answer
from seamark.neptune.server.containers import ProjectId, log_of, project_of
from seamark.neptune.server.operations import BatchOperations, keep_content
from seamark.neptune.server.projects import Container
from seamark.neptune.server.reading import PLACE, files_of, hash_of
from seamark.paths import PROJECT_LOG
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import server_of

if TYPE_CHECKING:
    from seamark.neptune.server.log import Batch
    from seamark.server.state import Server


router: Final = Routes()
_MAX_FILES: Final = 100_000
_MAX_SIZE: Final = 1 << 63

Hash = Annotated[str, Query(alias="hash", pattern="^([0-9a-f]{8,128})?$")]


@router.answers("createNewArtifact")
def create(request: Request, project_id: ProjectId, given: Hash, size: int = 0) -> Response:
    """Return whether the files of an artifact are known already."""
    server, log = _project_log(request, project_id, Role.CONTRIBUTOR)
    known = files_of(server, log, given) is not None
    return answer({"artifactHash": given, "receivedMetadata": known, "size": size})


@router.answers("uploadArtifactFilesMetadata")
def upload(request: Request, project_id: ProjectId, given: Hash, body: Given) -> Response:
    """Store the file metadata of an artifact."""
    _server, log = _project_log(request, project_id, Role.CONTRIBUTOR)
    files = _parse_files(body.get("files"))
    if given not in (hash_of(files), hash_of(files, metadata=True)):
        raise Refusal(400, "invalid", "the hash does not match the files")
    return _store_list(request, log, given, files)


@router.answers("createArtifactVersion")
def extend(request: Request, project_id: ProjectId, given: Hash, body: Given) -> Response:
    """Create an artifact from the files of another one and new files, which take precedence."""
    server, log = _project_log(request, project_id, Role.CONTRIBUTOR)
    known = files_of(server, log, given)
    if known is None:
        raise Refusal(404, "no-artifact", "no artifact of this project has that hash")
    by_path = {file["filePath"]: file for file in [*known, *_parse_files(body.get("files"))]}
    files = list(by_path.values())
    made = hash_of(files, metadata=hash_of(known, metadata=True) == given)
    return _store_list(request, log, made, files)


@router.answers("listArtifactFiles")
def list_files(request: Request, project_id: ProjectId, given: Hash) -> Response:
    """Return the file metadata of an artifact."""
    server, log = _project_log(request, project_id, Role.VIEWER)
    files = [] if given == hash_of([]) else files_of(server, log, given)
    if files is None:
        raise Refusal(404, "no-artifact", "no artifact of this project has that hash")
    return answer({"files": files})


def _project_log(request: Request, project_id: str, role: Role) -> tuple[Server, Container]:
    project = project_of(request, project_id, role)
    return server_of(request), Container(project, PROJECT_LOG)


def _parse_files(files: Any) -> list[dict[str, Any]]:
    if not isinstance(files, list) or len(files) > _MAX_FILES:
        raise ArgumentError(f"files: expected a list of at most {_MAX_FILES:,}")
    try:
        found: list[dict[str, Any]] = [
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
        raise ArgumentError(f"files: invalid entry: {error}") from error
    if any(file["size"] is not None and not 0 <= file["size"] < _MAX_SIZE for file in found):
        raise ArgumentError("files: expected sizes in bytes that are not negative")
    return found


def _store_list(
    request: Request, log: Container, given: str, files: list[dict[str, Any]]
) -> Response:
    data, server = json.dumps(files, ensure_ascii=False).encode(), server_of(request)
    digest = keep_content(server, log, data)
    file = {"name": f"{given}.json", "ext": "json", "size": len(data), "sha256": digest}

    def fill(batch: Batch) -> None:
        BatchOperations(server, log, batch).put_members(PLACE, {given: file})

    log_of(request, log).write(fill)
    size = sum(file["size"] or 0 for file in files)
    return answer({"artifactHash": given, "receivedMetadata": True, "size": size})
