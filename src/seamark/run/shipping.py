"""Transfer of a run to remotes while it is recorded."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from seamark.process.interrupts import quietly
from seamark.process.liveness import user_name
from seamark.run.lifecycle import call_after_runs

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter
    from seamark.reading.attributes import Attribute
    from seamark.run.recorder import Recorder


log = logging.getLogger("seamark")
_hurried: set[int] = set()
"""Pids of processes that are ending by a signal or Ctrl-C."""
_NO_WRITER: Final = SimpleNamespace(writers=())


class Shipping:
    """Passes the journals of a run to the shippers of this process. Never raises."""

    def __init__(self, uris: tuple[str, ...], token: str | None, recorder: Recorder) -> None:
        self._uris = uris
        self._token = token
        self._recorder = recorder
        self._along: set[RunFolder] = set()

    def begin(self, writer: JournalWriter | None = None) -> None:
        """Send the journals that this process writes; called whenever one is opened."""
        writer = writer or self._recorder.writer
        if self._uris and writer is not None:
            _hurried.discard(os.getpid())
            self._add(self._recorder.folder, writer, earlier=not self._recorder.rank)

    def send_along(self, folder: RunFolder | None) -> None:
        """Send an artifact that the run read or made, if it lies on this disk."""
        if self._uris and folder is not None:
            self._along.add(folder)
            self._add(folder, _NO_WRITER, earlier=True)

    def _add(self, folder: RunFolder, writer: Any, *, earlier: bool) -> None:
        with quietly(_failed):
            for shipper in self._shippers():
                # By Neptune's protocol, artifacts are lists of files.
                if folder not in self._along or not shipper.uri.startswith("neptune://"):
                    shipper.add(folder, writer, by=self, earlier=earlier)
            call_after_runs(_send_last)

    def rest(self) -> None:
        """Send the rest while the process does something else."""
        with quietly(_failed):
            for shipper in self._shippers():
                shipper.rest(self._recorder.folder, self)

    def finish(
        self,
        seconds: float | None = None,
        *,
        in_haste: bool = False,
        quiet: bool = False,
        later: bool = False,
    ) -> list[str]:
        """Wait until the rest is sent, report unsent data, and return the complete remotes.

        ``seconds`` is None for the usual limit at the end of a run. A signal ends the process
        ``in_haste``; of a ``quiet``, withdrawn run nobody waits. ``later`` lets the end of the
        process wait, once for all its runs: where it has come, or while an exception propagates.
        """
        if in_haste and later:
            _hurried.add(os.getpid())
        with quietly(_failed):
            shippers = self._shippers()
            for shipper in shippers:
                for folder in (self._recorder.folder, *self._along):
                    shipper.finish(folder, self)
            if quiet or later or not shippers:
                return []
            from seamark.remote.shipper import EXIT_S, SIGNAL_S

            longest = SIGNAL_S if in_haste else EXIT_S
            if seconds is not None:
                longest = min(longest, seconds)
            done = _wait(shippers, longest, self._recorder.folder)
            return [uri for uri, sent in zip(self._uris, done, strict=True) if sent]
        return []

    def _shippers(self) -> list[Any]:
        if not self._uris:  # an import at the end of an interrupted process would hide the signal
            return []
        from seamark.remote.shipper import shipper_of

        return [shipper_of(uri, self._token) for uri in self._uris]


def _send_last(error: BaseException | None) -> None:
    with quietly(_failed):
        from seamark.remote.shipper import EXIT_S, SIGNAL_S, shippers

        in_haste = isinstance(error, KeyboardInterrupt) or os.getpid() in _hurried
        # Ctrl-C now means to end the process, which happens anyway.
        with contextlib.suppress(KeyboardInterrupt):
            _wait(shippers(), SIGNAL_S if in_haste else EXIT_S, None)


def _wait(shippers: list[Any], seconds: float, folder: Any) -> list[bool]:
    """Wait for all shippers; on Ctrl-C, report unsent data in one line, then raise it."""
    from seamark.pictures.printing import is_quiet, progress_bar

    until, done = time.monotonic() + seconds, []
    waited = iter(shippers)
    try:
        for shipper in waited:
            left = max(0.0, until - time.monotonic())
            name = f"sending to {shipper.name}"
            with progress_bar(name, quiet=is_quiet(), of_bytes=True) as show:
                done.append(shipper.wait_at_end(left, folder, show))
    except KeyboardInterrupt:
        _hurried.add(os.getpid())
        for shipper in waited:
            shipper.wait_at_end(0.0, folder)
        raise
    return done


def _failed(error: Exception) -> None:
    log.debug("seamark: sending failed: %r", error)


TRANSFERS: Final = "sys/transfers"
"""Namespace of the transfers, each below a digest of its two places."""


def transfers_of(attributes: Iterable[Attribute]) -> list[dict[str, Any]]:
    """Return the transfers among attributes, the oldest first; their values are not trusted."""
    found = [one.value for one in attributes if isinstance(one.value, dict)]
    return sorted(found, key=lambda one: str(one.get("time")))


def transfer_to(
    folder: RunFolder, uri: str, name: str | None, t_ns: int, project: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return path and value by which both places record a transfer, at a time in Unix ns."""
    source = f"file://{socket.gethostname()}{folder.root.as_posix()}"
    told = f"{source}\0{uri}" if project is None else f"{source}\0{uri}\0{project}"
    made = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{TRANSFERS}/{made}", {
        "time": datetime.fromtimestamp(t_ns / 1e9, timezone.utc).isoformat(),
        "from": source,
        "to": uri,
        "by": user_name(),
        "name": name,
        **({} if project is None else {"project": project}),
    }
