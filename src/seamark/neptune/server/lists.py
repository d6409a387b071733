"""File lists of artifacts, stored by hash in the log of a project."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.journal.folder import PROJECT_LOG
from seamark.neptune.server.names import Container
from seamark.neptune.server.reading import Read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from seamark.server.state import Server

__all__ = ["PLACE", "files_of", "hash_of", "record_of"]

PLACE: Final = "monitoring/neptune/artifacts"
"""Where the log of a project has the lists."""
_LENGTH: Final = struct.Struct(">I")
_SIZE: Final = struct.Struct(">Q")
_DIGEST_CHARS: Final = 64


def files_of(server: Server, log: Container, given: str) -> list[dict[str, Any]] | None:
    """Return what is known of the files of an artifact; None if it is not known here."""
    found = Read(server, log).attribute(PLACE)
    if found is None or found.family != "file_set" or given not in found.value:
        return None
    blob = server.blobs.find(log.project, found.value[given]["sha256"])
    if blob is None:
        return None
    files: list[dict[str, Any]] = json.loads(b"".join(blob.read()))
    return files


def record_of(server: Server, container: Container, given: str) -> dict[str, Any]:
    """Return an artifact as a record of a journal.

    Raises:
        ArgumentError: If its files are not known in the project.
    """
    files = files_of(server, Container(container.home, PROJECT_LOG), given)
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


def hash_of(files: Iterable[Mapping[str, Any]], *, metadata: bool = False) -> str:
    """Return the hash of an artifact, as the client computes it, by its files in order of path.

    Args:
        files: What is known of each. Lengths of texts are those in characters.
        metadata: Whether what else is known of them counts, as it did for the first clients.
    """
    found = hashlib.sha256()
    for file in sorted(files, key=lambda one: one["filePath"]):
        found.update(b"#" + _counted(file["filePath"]) + b"#" + file["fileHash"].encode() + b"#")
        if file["size"] is not None:
            found.update(_SIZE.pack(file["size"]))
        found.update(b"#" + _counted(file["type"]))
        if metadata:
            found.update(b"#")
            for pair in file["metadata"]:
                found.update(b"|" + _counted(pair["key"]) + b"|" + _counted(pair["value"]))
    return found.hexdigest()


def _counted(text: str) -> bytes:
    return _LENGTH.pack(len(text)) + text.encode()
