"""Artifacts as reads return them: dictionaries that also have the properties Neptune's have."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TrackedFile", "TrackedFiles"]

_LOCAL: Final = "Local"


class TrackedFiles(dict[str, Any]):
    """An artifact: its ``kind``, ``files``, ``references`` and ``hash``, as they were recorded."""

    @property
    def hash(self) -> str:
        """Digest of names and contents, 64 hexadecimal digits."""
        return str(self.get("hash", ""))


class TrackedFile(dict[str, Any]):
    """A file of an artifact: ``path``, ``size`` (bytes), ``sha256``, ``mtime_ns`` and ``ref``."""

    @property
    def file_path(self) -> str:
        """Its name within the artifact."""
        return str(self.get("path", ""))

    @property
    def file_hash(self) -> str:
        """SHA-256 of its content, hexadecimal; empty if it is not known."""
        return str(self.get("sha256", ""))

    @property
    def size(self) -> int | None:
        """Bytes; None if it is not known."""
        return self.get("size")

    @property
    def type(self) -> str:
        """``"Local"``: what lies elsewhere is among the references of the artifact."""
        return _LOCAL

    @property
    def metadata(self) -> dict[str, str]:
        """Location of the file when it was tracked, as ``file_path``; empty if not recorded."""
        return {"file_path": str(self["ref"])} if self.get("ref") else {}
