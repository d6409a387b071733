"""A run on its server: for reading what this disk does not have."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.errors import FileMissingError
from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.folder import RunFolder
    from seamark.reading.catalog import Catalog
    from seamark.reading.contents import Contents
    from seamark.reading.reader import Reader

__all__ = ["ServerView"]

T = TypeVar("T")

log = logging.getLogger("seamark")

_SEND_S: Final = 10.0
"""How long a read waits until what this process recorded was sent and can be read, in seconds."""
_AGAIN_S: Final = 60.0
"""After how long a server is asked again that was asked in vain, in seconds."""


class ServerView:
    """A run on its server: all of it, if this process did not copy it, and its files.

    A training never fails or stands still for that: without an answer the part on this disk is
    read, and a line says so.

    Args:
        remotes: URIs of the remotes that the run is sent to.
        token: To show there; None has each look for one.
    """

    def __init__(self, remotes: tuple[str, ...], token: str | None) -> None:
        self._token = token
        schemes = ("http://", "https://")
        self._place = next((one for one in remotes if one.startswith(schemes)), None)
        self._catalog: Catalog | None = None
        self._pid = os.getpid()
        self._again_at = 0.0
        self._told = False

    @property
    def exists(self) -> bool:
        """Whether one of the remotes is a server."""
        return self._place is not None

    def read(self, folder: RunFolder) -> tuple[Catalog, Reader] | None:
        """Return what has the run and what reads it; None where its server does not answer."""
        return self._ask(folder, lambda place: self._read(place, folder))

    def contents(self, folder: RunFolder, here: Contents) -> Contents:
        """Return the contents of a run folder; what it lacks is read from the server.

        Args:
            folder: The run.
            here: Contents of the folder.
        """

        def there() -> Contents | None:
            return self._ask(
                folder, lambda place: self._opened(place).view(folder.project, folder.run).contents
            )

        found: Any = _ContentsOrThere(here, there)
        return here if self._place is None else found

    def _ask(self, folder: RunFolder, ask: Callable[[str], T]) -> T | None:
        place = self._place
        if place is None or time.monotonic() < self._again_at:
            return None

        def lost(error: Exception) -> None:
            self._again_at = time.monotonic() + _AGAIN_S
            if not self._told:
                self._told = True
                log.warning(
                    "seamark: %s, which may have more of run %s, cannot be asked now (%s). What is "
                    "read is what is on this disk",
                    *(place, folder.run, str(error)[:400]),
                )

        with quietly(lost):
            found = ask(place)
            self._told = False
            return found
        return None

    def _read(self, place: str, folder: RunFolder) -> tuple[Catalog, Reader]:
        from seamark.remote import shipper

        until = time.monotonic() + _SEND_S
        for each in shipper.known(place):
            if not each.wait(max(0.0, until - time.monotonic()), folder):
                msg = f"what was recorded here was not sent within {_SEND_S:g} s"
                raise TimeoutError(msg)
        catalog: Any = self._opened(place)
        catalog.refresh()
        while True:
            reader = catalog.view(folder.project, folder.run)
            if not catalog.behind:
                return catalog, reader
            if time.monotonic() > until:
                msg = f"what was recorded here cannot be read there after {_SEND_S:g} s"
                raise TimeoutError(msg)

    def _opened(self, place: str) -> Catalog:
        if self._catalog is None or self._pid != os.getpid():  # a fork shares no connection
            from seamark.remote.http.catalog import RemoteCatalog

            self._catalog, self._pid = (
                RemoteCatalog.open(place, self._token),
                os.getpid(),
            )
        return self._catalog

    def close(self) -> None:
        """Let go of connections; they are made again if something is read later."""
        catalog, self._catalog = self._catalog, None
        if catalog is not None and self._pid == os.getpid():
            catalog.close()


class _ContentsOrThere:
    """Contents of a run folder, and of the server of the run where the folder lacks something.

    Args:
        here: Contents of the folder.
        there: Returns those of the server; None if it does not answer.
    """

    def __init__(self, here: Contents, there: Callable[[], Contents | None]) -> None:
        self._here = here
        self._there = there

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here, name)

    def text(self, record: Any) -> str:
        return self._first(lambda contents: contents.text(record))

    def read(self, *given: Any, **named: Any) -> bytes:
        return self._first(lambda contents: contents.read(*given, **named))

    def write(self, *given: Any, **named: Any) -> Path:
        return self._first(lambda contents: contents.write(*given, **named))

    def _first(self, ask: Callable[[Contents], T]) -> T:
        try:
            return ask(self._here)
        except FileMissingError as error:
            there = self._there()
            if there is None:
                raise
            try:
                return ask(there)
            except FileMissingError:
                raise error from None
