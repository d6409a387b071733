"""A journal in memory."""

from __future__ import annotations


class BytesSource:
    """A journal in memory, to which nothing is added."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def pread(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]

    def quiet_since_ns(self) -> int | None:
        return None

    def owner(self) -> int | None:
        return None

    def gap_end(self, offset: int) -> int | None:
        return None

    def close(self) -> None:
        """See `Source.close`."""
