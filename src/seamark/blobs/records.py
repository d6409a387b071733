"""Records about files: what a FILE record holds, the ops that name one, and reading those back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.journal.format import Kind
from seamark.journal.reader import payload_of
from seamark.values import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from seamark.journal.reader import JournalReader

__all__ = [
    "Target",
    "contents_of",
    "digests_of",
    "file_record",
    "op_payloads",
    "tree_bytes",
    "without_bytes",
]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Attribute, or member of a file set, for which a content is recorded.

    Attributes:
        path: Attribute path.
        token: Token that links the record of the taken bytes to the record of the stored ones.
        name: Member of a file set, or None for a file.
        file: The FILE record without a digest.
    """

    path: str
    token: str
    name: str | None
    file: dict[str, Any]

    def ingested_op(self) -> dict[str, Any]:
        """Return the op that says that its bytes are taken."""
        if self.name is None:
            return {"op": "own", "path": self.path, "token": self.token, "file": self.file}
        return self.op(self.file)

    def op(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return the op that completes this target."""
        if self.name is None:
            return {"op": "digest", "path": self.path, "token": self.token, "file": file}
        members = {self.name: file | {"token": self.token}}
        return {"op": "files", "path": self.path, "members": members}

    def completed(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the FILE record with what is known now; the file is no longer staged."""
        return {key: each for key, each in self.file.items() if key != "staged"} | dict(found)


def file_record(name: str, ext: str, size: int | None, **more: Any) -> dict[str, Any]:
    """Return a FILE record with what is not None; names are made fit for UTF-8."""
    found = {"name": escape(name), "ext": escape(ext), "size": size, **more}
    return {key: value for key, value in found.items() if value is not None}


def without_bytes(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a FILE record whose bytes could not be stored."""
    return {key: each for key, each in file.items() if key != "sha256"} | {"lost": "not stored"}


def tree_bytes(members: dict[str, list[Any]]) -> bytes:
    """Return the list of a folder's files as bytes; their SHA-256 is that of the folder.

    Args:
        members: ``{relative name: [size in bytes, SHA-256]}``.
    """
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def digests_of(file: Mapping[str, Any]) -> Iterable[str]:
    """Return the digests in a FILE record: its own, and those of the files in a folder."""
    inside = [sha256 for _, sha256 in file.get("members", {}).values()]
    return filter(None, [*inside, file.get("sha256")])


def contents_of(record: Mapping[str, Any]) -> set[str]:
    """Return the digests of the contents that a record names, in its file, values or texts."""
    if "file" in record:
        return set(digests_of(record["file"]))
    atoms = [atom.value for atom in record.get("atoms", {}).values() if atom.type == "text"]
    texts = [point[1] for point in record.get("points", ()) if isinstance(point[1], dict)]
    return {each["sha256"] for each in (*atoms, *texts)}


def op_payloads(reader: JournalReader, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (time in nanoseconds since epoch, payload) of the ops from an offset on, in bytes."""
    for block in reader.blocks(offset):
        for frame in block.frames:
            if frame[1] == Kind.OP:
                try:
                    yield frame[4], payload_of(block.data, frame)
                except ValueError:  # does not decompress; whoever folds it will say so
                    continue
