"""Interface of the object storage that contents are written to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

__all__ = ["Objects"]


class Objects(Protocol):
    """Named byte strings that are written once, as `seamark.server.objects` has them."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object that does not exist; it is on the disk for good when this returns.

        Raises:
            OSError: If the place refuses.
        """
        ...

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of an object; less than asked for where it ends.

        Raises:
            FileNotFoundError: If there is none of that name.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove an object."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of all objects that begin so."""
        ...
