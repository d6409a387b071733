"""Removing the bytes of what was pruned, if nothing else in the run has them."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs.records import digests_of, op_payloads
from seamark.blobs.store import remove_blob
from seamark.journal.reader import JournalReader
from seamark.journal.safe import open_file
from seamark.process.liveness import host_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from seamark.blobs.worker import Worker
    from seamark.journal.folder import RunFolder

__all__ = ["UsedBlobs"]

_DIGEST: Final = re.compile(rb'"([0-9a-f]{64})"')
_BLOCK: Final = 1 << 20
_MAX_OP: Final = 1 << 17
_MAX_HANDED_OUT: Final = 4096
"""How many digests are remembered that were given to somebody who records them."""


class UsedBlobs:
    """Index of the blobs that a run records, in this process and in others; usable from any thread.

    Args:
        folder: Folder of the run.
        worker: Worker whose lock is held while a blob is removed, and between storing and recording
            one.
    """

    def __init__(self, folder: RunFolder, worker: Worker) -> None:
        self._folder = folder
        self._worker = worker
        self._at: dict[str, frozenset[str]] = {}
        self._paths: set[str] = set()
        self._handed_out: deque[str] = deque(maxlen=_MAX_HANDED_OUT)
        self._offsets: dict[Path, int] = {}
        self._elsewhere: set[bytes] = set()

    def put(self, path: str, file: Mapping[str, Any]) -> None:
        """Remember what was recorded as the file at a path."""
        with self._worker.lock:
            self._at[path] = frozenset(digests_of(file))
            self._paths.add(path)

    def pop(self, path: str) -> frozenset[str]:
        """Return what was recorded at a path, which has it no more."""
        with self._worker.lock:
            return self._at.pop(path, frozenset())

    def hand_out(self, file: Mapping[str, Any]) -> None:
        """Remember contents that are recorded elsewhere: as points of a series, as members."""
        with self._worker.lock:
            self._handed_out.extend(digests_of(file))

    def remove_unused(self, digests: Iterable[str]) -> None:
        """Remove the blobs among these that nothing in the run has.

        Raises:
            OSError: If a journal cannot be read, so that nobody knows, or a blob not be removed.
        """
        for sha256 in digests:
            if self._has(sha256) or self._is_used_by_another(sha256):
                continue
            with self._worker.lock:  # it may have been recorded again meanwhile
                if not self._has(sha256):
                    remove_blob(self._folder, sha256)

    def _has(self, sha256: str) -> bool:
        """Return whether a path has a content, or whether it was handed out."""
        with self._worker.lock:
            return sha256 in self._handed_out or any(sha256 in at for at in self._at.values())

    def _is_used_by_another(self, sha256: str) -> bool:
        """Return whether anything but the files of this process has a content.

        Of the journals of other processes only what is new is read.
        """
        own = f"{host_name()}-{os.getpid()}-"
        for journal in self._folder.journals():
            if not journal.writer.startswith(own):
                self._read(journal.path)
            elif any(path not in self._paths for path in _paths_with(journal.path, sha256)):
                return True
        return bytes.fromhex(sha256) in self._elsewhere

    def _read(self, path: Path) -> None:
        with JournalReader(path) as reader:
            for _, payload in op_payloads(reader, self._offsets.get(path, 0)):
                found = _DIGEST.findall(payload)
                self._elsewhere.update(bytes.fromhex(each.decode()) for each in found)
            self._offsets[path] = reader.offset


def _paths_with(journal: Path, sha256: str) -> Iterator[str | None]:
    """Yield the attribute path of every short op in a journal that names a content.

    Frames are not followed, only bytes are searched: a journal of a gigabyte takes half a second,
    nearly all of it outside Python. Long ops are compressed, and known to the process that wrote
    them.
    """
    wanted, tail = f'"{sha256}"'.encode(), b""
    with os.fdopen(open_file(journal), "rb") as file:
        while block := file.read(_BLOCK):
            data = tail + block
            at = data.find(wanted)
            while at >= 0:
                yield _path_of(data, data.rfind(b'{"op":', 0, at))
                at = data.find(wanted, at + 1)
            # a hit in the part that is kept is seen twice, which does no harm
            tail = data[-_MAX_OP:]


def _path_of(data: bytes, start: int) -> str | None:
    """Return the path in the op that starts there, None if it cannot be read."""
    try:
        text = data[start : start + _MAX_OP].decode(errors="replace")
        op, _ = json.JSONDecoder().raw_decode(text)
        return str(op["path"])
    except (ValueError, KeyError, TypeError):
        return None
