"""Remote that sends to a server of Neptune's protocol."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO, Final

from seamark.journal.folder import RunFolder
from seamark.neptune.forward.client import Client
from seamark.neptune.forward.run import ForwardedRun, Locks
from seamark.paths import kind_of
from seamark.process import fork
from seamark.process.interrupts import let_pass
from seamark.remote.neptune import token_to_show
from seamark.remote.protocol import WORDS, RemoteError, RunKey, Sent, Unreachable

log = logging.getLogger("seamark")

_BATCH_INTERVAL_S: Final = 1.0


class NeptuneRemote:
    """Project of a server as a remote; see `seamark.remote.protocol.KeepsByName`."""

    def __init__(self, uri: str, token: str) -> None:
        self.uri = uri
        self._client = Client(uri.partition("://")[2], token)
        self._runs: dict[RunKey, ForwardedRun] = {}

    def meet(self, run: RunKey, folder: RunFolder) -> None:
        """See `seamark.remote.protocol.KeepsByName.meet`."""
        if (known := self._runs.get(run)) is None or known.folder != folder:
            self._drop_run(run)
            self._runs[run] = ForwardedRun(self._client, self.uri, folder, _locks_of(self.uri))

    def close(self) -> None:
        """See `seamark.remote.protocol.Remote.close`."""
        for run in list(self._runs):
            self._drop_run(run)

    def _drop_run(self, run: RunKey) -> None:
        if (one := self._runs.pop(run, None)) is not None:
            one.note(last=True)
            one.release()

    def _ask(self, run: RunKey, verb: str, *given: Any) -> Any:
        try:
            return getattr(self._runs[run], verb)(*given)
        except RemoteError as error:
            error.args = (f"{self.uri}: {error}",)
            raise
        except Exception as error:
            let_pass(error)
            raise Unreachable(f"{self.uri}: failed: {error!r:.300}") from error

    # ---------------------------------------------------------------- journals

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        if not _is_run(run):
            journals = self._runs[run].folder.journals()
            return {one.path.name: one.path.stat().st_size for one in journals}
        known: Mapping[str, int] = self._ask(run, "known")
        return known

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        return self._send(run, journal, offset + len(data))

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`."""
        return self._send(run, journal, offset + length)

    def _send(self, run: RunKey, journal: str, end: int) -> Sent:
        # `ForwardedRun` reads the journal from disk.
        if not _is_run(run):
            self._warn(run, "data of projects and models is not sent there")
            return Sent(end, end, _BATCH_INTERVAL_S)
        offset = self._ask(run, "send", journal, end)
        kinds, reason = self._runs[run].unsupported()
        for kind in kinds:
            words = WORDS.get(kind, kind) + (f" ({reason})" if kind == "refused" else "")
            self._warn(run, f"{words}; `seamark show` counts them")
        if why := self._runs[run].held:
            self._warn(run, f"a file was refused there ({why}); `seamark sync` sends it later")
        return Sent(offset, offset, _BATCH_INTERVAL_S)

    def _warn(self, run: RunKey, line: str) -> None:
        if (self.uri, run, line) not in _reported:
            _reported.add((self.uri, run, line))
            log.warning("seamark: sending run %s to %s: %s", run.run, self.uri, line)

    # ---------------------------------------------------------------- files

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """Return nothing: files are sent by their names, with the journals."""
        return ()

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Do nothing: see `missing_blobs`."""


_reported: set[tuple[str, RunKey, str]] = set()
"""Messages already reported to the user."""
_locks_of: Final = functools.cache(Locks)


def open_remote(uri: str, token: str | None = None) -> NeptuneRemote:
    """Return the remote for a project of a server; no request is sent yet."""
    return NeptuneRemote(uri, token_to_show(token))


def _is_run(run: RunKey) -> bool:
    return kind_of(run.project, run.run) == "run"


_begin_child: Final = _locks_of.cache_clear  # a child does not hold the locks of its parent
fork.register(_begin_child)
