"""The files of one run that a server keeps: downloads that go on where they broke off."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.blobs.read import Copy, digest_of, write_parts
from seamark.errors import FileMissingError
from seamark.journal.safe import MAX_TEXT_BYTES
from seamark.remote.http.connection import run_path
from seamark.remote.protocol import Missing, RemoteError, Unreachable

if TYPE_CHECKING:
    from seamark.remote.http.asking import Asking
    from seamark.remote.protocol import RunKey

__all__ = ["RemoteContents"]

_TRIES: Final = 5
"""How often a download goes on that broke off without a further byte."""
_PIECE: Final = 1 << 16
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class RemoteContents:
    """The files of a run on a server; see `seamark.reading.contents.Contents`.

    Args:
        asking: Asks the server.
        run: The run.
    """

    kind = "server"

    def __init__(self, asking: Asking, run: RunKey) -> None:
        self._asking = asking
        self._run = run
        self._there: dict[str, bool] = {}

    @property
    def where(self) -> str:
        """Address of the server."""
        return self._asking.where

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a very long text."""
        sha256, size = str(record.get("sha256")), record.get("size")
        if not isinstance(size, int) or not 0 <= size <= MAX_TEXT_BYTES:
            msg = f"the text {sha256} has {size!r:.40} bytes, too many to read at once"
            raise FileMissingError(msg)
        return self._whole(sha256, size).decode("utf-8", "backslashreplace")

    def read(self, file: Mapping[str, Any], path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a recorded file."""
        del references
        _refuse_reference(file, path)
        return self._whole(*digest_of(file, path))

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
        del references
        _refuse_reference(file, path)

        @contextlib.contextmanager
        def opened(where: str, inner: Sequence[str]) -> Iterator[Copy]:
            sha256, size = digest_of(file, where, inner)
            yield lambda out: self._fetch(sha256, size, out)

        return write_parts(opened, file, target, path, name=name, verify=verify)

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return the first bytes of a content that the server keeps."""
        wanted = min(size, most)
        if not wanted:
            return b""
        with self._opened(sha256, {"Range": f"bytes=0-{wanted - 1}"}) as response:
            data: bytes = response.read(wanted, decode_content=False)
        return data

    def finish(self, files: Collection[Mapping[str, Any]]) -> bool:
        """Return False: what a process left half done is where that process was."""
        del files
        return False

    def whereabouts(self, record: Mapping[str, Any]) -> str:
        """Return where the content of a FILE record is; what is not sent yet is ``pending``."""
        if record.get("ref"):
            return "reference"
        digest = record.get("sha256")
        if not digest:
            return "pending" if record.get("pending") else "kept"
        return "kept" if self._exists(str(digest)) else "pending"

    def referred(self, record: Mapping[str, Any]) -> str:
        """Return where a FILE record leads; empty if it is no reference."""
        return str(record.get("ref") or "")

    def stored_at(self, sha256: str) -> str:
        """Return the address of a content."""
        return f"{self.where}/api/v1/{run_path(self._run, 'blobs', sha256)}"

    def shorter(self, name: str) -> str:
        """Return the name of a file as it is."""
        return name

    # ---------------------------------------------------------------- inside

    def _exists(self, sha256: str) -> bool:
        if sha256 not in self._there:
            try:
                with self._opened(sha256, {"If-None-Match": f'"{sha256}"', "Range": "bytes=0-0"}):
                    self._there[sha256] = True
            except FileMissingError:
                self._there[sha256] = False
        return self._there[sha256]

    @contextlib.contextmanager
    def _opened(self, sha256: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """Ask for a content.

        Raises:
            FileMissingError: If the server does not have it.
            RemoteError: If it cannot be asked, or refuses.
        """
        if not _DIGEST.fullmatch(sha256):
            msg = f"{sha256!r:.80} is no digest of a file"
            raise FileMissingError(msg)
        connection = self._asking.connection
        path = run_path(self._run, "blobs", sha256)
        plain = {"Accept-Encoding": "identity", **headers}
        try:
            with (
                connection.open("GET", path, headers=plain) as response,
                connection.translate_errors(),
            ):
                yield response
        except Missing as error:
            msg = f"the content {sha256} is not on {self.where}: it was not sent, or not yet"
            raise FileMissingError(msg) from error

    def _rest(self, sha256: str, done: int) -> Iterator[bytes]:
        """Yield a content from some byte on, as it comes."""
        more = {"Range": f"bytes={done}-", "If-Range": f'"{sha256}"'} if done else {}
        with self._opened(sha256, more) as response:
            if done and response.status != 206:  # noqa: PLR2004 - not the rest alone
                msg = f"{self.where} does not go on with a download that broke off"
                raise RemoteError(msg)
            yield from response.stream(_PIECE, decode_content=False)

    def _whole(self, sha256: str, size: int | None) -> bytes:
        out = io.BytesIO()
        self._fetch(sha256, size, out)
        return out.getvalue()

    def _fetch(self, sha256: str, size: int | None, out: BinaryIO) -> None:
        """Write a content; where the connection breaks off, go on from there.

        Raises:
            FileMissingError: If it is not there, or other bytes came.
            Unreachable: If the connection breaks off again and again.
        """
        digest, done, tries = hashlib.sha256(), 0, _TRIES
        while tries > 0:
            begun = done
            try:
                for block in self._rest(sha256, done):
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
            tries = _TRIES if done > begun else tries - 1
        if digest.hexdigest() != sha256 or (size is not None and done != size):
            msg = f"the content {sha256} came from {self.where} with other bytes than were recorded"
            raise FileMissingError(msg)


def _refuse_reference(file: Mapping[str, Any], path: str) -> None:
    if "ref" in file:
        msg = (
            f"{path}: it refers to {file['ref']}, which only the machine has that recorded it; "
            "copy it from there"
        )
        raise FileMissingError(msg)
