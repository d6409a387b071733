"""A journal in memory."""

from __future__ import annotations


class BytesSource:
    """A journal in memory, to which nothing is added."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def size(self) -> int:
        """See `Source.size`."""
        return len(self._data)

    def pread(self, size: int, offset: int) -> bytes:
        """See `Source.pread`."""
        return self._data[offset : offset + size]

    def quiet_since_ns(self) -> int | None:
        """See `Source.quiet_since_ns`."""
        return None

    def owner(self) -> int | None:
        """See `Source.owner`."""
        return None

    def gap_end(self, offset: int) -> int | None:
        """See `Source.gap_end`."""
        return None

    def close(self) -> None:
        """See `Source.close`."""
