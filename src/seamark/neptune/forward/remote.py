"""The remote that sends to whatever speaks Neptune's protocol."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.neptune.forward.helper import FILES, JOURNALS, give_back, helper_of
from seamark.paths import kind_of
from seamark.process.interrupts import quietly
from seamark.remote.lacking import WORDS
from seamark.remote.neptune import token_to_show
from seamark.remote.protocol import Sent, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import RunKey

__all__ = ["NeptuneRemote", "open_remote"]

log = logging.getLogger("seamark")

_WAIT_S: Final = 1.0


class NeptuneRemote:
    """Sends to a project of a server; see `seamark.remote.protocol.KeepsByName`.

    Args:
        uri: ``neptune://workspace/project``.
        token: To show there; None for the environment's.

    Raises:
        ArgumentError: If there is none.
    """

    def __init__(self, uri: str, token: str | None) -> None:
        self.uri = uri
        self._helper = helper_of(uri, token_to_show(token))
        self._folders: dict[RunKey, RunFolder] = {}
        self._told: set[tuple[RunKey, str]] = set()
        self._closed = False

    def __repr__(self) -> str:
        """Return where it leads."""
        return f"<{self.uri}>"

    def meet(self, run: RunKey, folder: RunFolder) -> None:
        """See `seamark.remote.protocol.KeepsByName.meet`."""
        self._folders[run] = folder

    # ---------------------------------------------------------------- journals

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        if not self._is_run(run):
            files = [one.path for one in self._folder(run).journals()]
            return {each.name: each.stat().st_size for each in files}
        found: Mapping[str, int] = self._ask(JOURNALS, run, "known")["journals"]
        return found

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        return self._send(run, journal, offset + len(data))

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`."""
        return self._send(run, journal, offset + length)

    def _send(self, run: RunKey, journal: str, end: int) -> Sent:
        """Send a journal up to an offset through the helper, which reads the file itself."""
        if not self._is_run(run):
            self._warn_once(run, "what projects and models hold is not sent there")
            return Sent(end, end, _WAIT_S)
        before = -1
        while True:
            answer = self._ask(JOURNALS, run, "send", journal=journal, end=end)
            offset = int(answer["offset"])
            self._warn_unsupported(run, answer["lacking"], answer["why"])
            if offset >= end or offset <= before:
                return Sent(max(offset, end), max(offset, end), _WAIT_S)
            before = offset

    def _warn_unsupported(self, run: RunKey, kinds: Collection[str], why: str) -> None:
        """Say once of each kind that something cannot be held there.

        Args:
            run: The run.
            kinds: As in `WORDS`.
            why: What was said first where something was refused.
        """
        new = [kind for kind in kinds if (run, kind) not in self._told]
        self._told |= {(run, kind) for kind in new}
        if new:
            words = "; ".join(WORDS.get(kind, kind) for kind in new)
            words += f": {why}" if "refused" in new else ""
            self._warn_once(
                run, f"not all of it has a form there ({words}); `seamark show` counts them"
            )

    def _warn_once(self, run: RunKey, line: str) -> None:
        if (run, line) not in self._told:
            self._told.add((run, line))
            log.warning("seamark: run %s on its way to %s: %s", run.run, self.uri, line)

    @staticmethod
    def _is_run(run: RunKey) -> bool:
        return kind_of(run.project, run.run) == "run"

    # ---------------------------------------------------------------- files

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """Return nothing: files are sent by their names."""
        del run, digests
        return ()

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Do nothing: files are sent by their names."""
        del run, digest, size, file

    def files_left(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.KeepsByName.files_left`."""
        if not self._is_run(run):
            return {}
        found: Mapping[str, int] = self._ask(FILES, run, "files_left")["files"]
        return found

    def send_files(self, run: RunKey, progress: Callable[[int], None]) -> None:
        """See `seamark.remote.protocol.KeepsByName.send_files`."""
        while self._is_run(run):
            size = int(self._ask(FILES, run, "send_file")["size"])
            if size < 0:
                return
            progress(size)

    # ---------------------------------------------------------------- inside

    def _ask(self, channel: int, run: RunKey, verb: str, **more: Any) -> dict[str, Any]:
        folder = self._folder(run)
        named = {"root": str(folder.root), "project": run.project, "run": run.run}
        return self._helper.ask(channel, {"verb": verb, **named, **more})

    def _folder(self, run: RunKey) -> RunFolder:
        folder = self._folders.get(run)
        if folder is None:
            msg = f"{self.uri}: it was not said where run {run.run} lies"
            raise Unreachable(msg)
        return folder

    def close(self) -> None:
        """See `seamark.remote.protocol.Remote.close`."""
        if not self._closed:
            self._closed = True
            with quietly():
                give_back(self._helper)


def open_remote(uri: str, token: str | None = None) -> NeptuneRemote:
    """Return a project of a server that speaks Neptune's protocol; nothing is asked yet.

    Raises:
        ArgumentError: If there is no token to show there.
    """
    return NeptuneRemote(uri, token)
