"""View of a run on its server, for a run of which a part does not lie on this disk."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.reading.catalog import Catalog
    from seamark.reading.reader import Reader

__all__ = ["ServerView"]

log = logging.getLogger("seamark")

_SEND_S: Final = 10.0
"""How long a read waits until what this process recorded was sent and can be read, in seconds."""
_AGAIN_S: Final = 60.0
"""After how long a server is asked again that was asked in vain, in seconds."""


class ServerView:
    """View of a run on its server, used while a part of it lies only there.

    A training never fails or stands still for that: without an answer the part on this disk is
    read, and a line says so.

    Args:
        remotes: URIs of the remotes that the run is sent to.
        token: To show there; None has each look for one.
        partly: Returns whether a part of it lies, or may lie, only elsewhere.
    """

    def __init__(
        self, remotes: tuple[str, ...], token: str | None, partly: Callable[[], bool]
    ) -> None:
        self._token = token
        schemes = ("http://", "https://")
        self._place = next((one for one in remotes if one.startswith(schemes)), None)
        self._partly = partly
        self._catalog: Catalog | None = None
        self._pid = os.getpid()
        self._again_at = 0.0
        self._told = False

    @property
    def is_needed(self) -> bool:
        """Whether the run is to be read through its server now."""
        return self._place is not None and self._partly()

    def read(self, folder: RunFolder) -> tuple[Catalog, Reader] | None:
        """Return what has the run and what reads it; None where its server does not answer."""
        place = self._place
        if place is None or time.monotonic() < self._again_at:
            return None

        def lost(error: Exception) -> None:
            self._again_at = time.monotonic() + _AGAIN_S
            if not self._told:
                self._told = True
                log.warning(
                    "seamark: run %s lies partly on %s, which cannot be asked now (%s). What is "
                    "read is the part on this disk",
                    *(folder.run, place, str(error)[:400]),
                )

        with quietly(lost):
            found = self._read(place, folder)
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
