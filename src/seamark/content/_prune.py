"""Removing the bytes of what was pruned, if nothing else in the run has them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seamark.content._ops import op_payloads
from seamark.journal.folder import host_name
from seamark.journal.reader import JournalReader
from seamark.journal.safe import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seamark.content._lane import ContentLane
    from seamark.journal.folder import RunFolder

__all__ = ["Mentions", "PruneJob"]

_DIGEST: Final = re.compile(rb'"([0-9a-f]{64})"')
_BLOCK: Final = 1 << 20
_MAX_OP: Final = 1 << 17


class Mentions:
    """Which contents the journals of other processes name; reads only what is new in them."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._found: set[bytes] = set()

    def elsewhere(self, sha256: str, known: Callable[[str | None], bool]) -> bool:
        """Tell whether anything but the files at known paths has this content.

        Raises:
            OSError: If a journal cannot be read, so that nobody knows.
        """
        own = f"{host_name()}-{os.getpid()}-"
        for journal in self._folder.journals():
            if journal.writer.startswith(own):
                if not all(map(known, _paths_with(journal.path, sha256))):
                    return True
            else:
                self._read(journal.path)
        return bytes.fromhex(sha256) in self._found

    def _read(self, path: Path) -> None:
        with JournalReader(path) as reader:
            for _, payload in op_payloads(reader, self._offsets.get(path, 0)):
                found = _DIGEST.findall(payload)
                self._found.update(bytes.fromhex(each.decode()) for each in found)
            self._offsets[path] = reader.offset


def _paths_with(journal: Path, sha256: str) -> Iterator[str | None]:
    """Yield the attribute path of every short op in a journal that names a content.

    Frames are not followed, only bytes are searched: a journal of a gigabyte takes half a second,
    nearly all of it outside Python. Long ops are compressed, and known to the lane that wrote them.
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


@dataclass(eq=False)
class PruneJob:
    """Remove contents that were recorded at a path which was deleted.

    Attributes:
        lane: The lane that took them.
        digests: SHA-256 of each.
    """

    lane: ContentLane
    digests: frozenset[str]

    def run(self) -> None:
        """Remove what nothing else has."""
        lane = self.lane
        for sha256 in self.digests:
            if not lane.contents.has(sha256) and not lane.mentions.elsewhere(
                sha256, lane.contents.knew
            ):
                lane.drop(sha256)

    def give_up(self) -> None:
        """The bytes stay."""

    def abandon(self) -> None:
        """Nothing is held."""
