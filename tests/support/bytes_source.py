"""A journal in memory."""

from __future__ import annotations


class BytesSource:
    def __init__(self, name, data):
        self.name = name
        self._data = data

    def size(self):
        return len(self._data)

    def pread(self, size, offset):
        return self._data[offset : offset + size]

    def quiet_since_ns(self):
        return None

    def owner(self):
        return None

    def gap_end(self, offset):
        return None

    def close(self):
        """See `Source.close`."""
