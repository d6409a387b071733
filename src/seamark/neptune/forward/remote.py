"""Remote that sends to a server of Neptune's protocol through a helper process.

The client package needs a process of its own for three reasons: it brings threads, handlers and
retries of a minute, with no promise about signals; its server may tell it to end the process in
which it runs; and if Seamark replaces ``neptune`` in this process, the client cannot be imported
here. A helper that is killed or hangs does not affect the training.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.paths import kind_of
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.remote.neptune import token_to_show
from seamark.remote.protocol import (
    WORDS,
    Busy,
    Missing,
    Purged,
    Refused,
    RemoteError,
    Sent,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import RunKey

__all__ = ["NeptuneRemote", "open_remote"]


JOURNALS: Final = 0
FILES: Final = 1
"""The channels: files of gigabytes hold up no metric."""
ANSWER_S: Final = 300.0
"""How long a helper may take to answer, seconds; each of its requests has a limit of its own."""
_END_S: Final = 5.0
_MOST_SAID: Final = 400
_MEANT: Final[dict[str, type[RemoteError]]] = {
    one.__name__: one for one in (Missing, Purged, Refused)
}
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.stdin.readline());"
    "from seamark.neptune.forward.child import main; main()"
)


class Helper:
    """Helper process for one URI and token, shared by all remotes of this process with them."""

    def __init__(self, uri: str, token: str) -> None:
        self._uri, self._token = uri, token
        self._lock = threading.Lock()
        self._busy = [threading.Lock(), threading.Lock()]
        self._channels: list[Connection[Any, Any]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._said: Any = None
        self.users = 0

    def ask(self, channel: int, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer; `RemoteError` if there is none, or if it is a refusal."""
        with self._busy[channel]:
            with self._lock:
                if self._process is None:
                    self._start()
                process, connection = self._process, self._channels[channel]
            try:
                connection.send_bytes(json.dumps(request).encode())
                if not connection.poll(ANSWER_S):
                    msg = "no answer within five minutes"
                    raise Unreachable(self._end(process, msg))
                answer = json.loads(connection.recv_bytes())
            except RemoteError:
                raise
            except (EOFError, OSError) as error:
                raise Unreachable(self._end(process, "it ended")) from error
        if "error" in answer:
            raise self._failure(answer)
        found: dict[str, Any] = answer
        return found

    def _start(self) -> None:
        if not sys.executable:
            msg = "there is no interpreter to be started"
            raise Refused(msg)
        ours, theirs = zip(*(Pipe() for _ in (JOURNALS, FILES)), strict=True)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        channels = [one.fileno() for one in theirs]
        told = {
            "uri": self._uri,
            "token": self._token,
            "channels": channels,
            "pid": os.getpid(),
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and words
                [sys.executable, "-I", "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=channels,
                start_new_session=True,  # Ctrl-C is the training's
            )
            stdin = self._process.stdin
            assert stdin is not None  # noqa: S101 - it is a pipe
            with stdin:
                lines = (json.dumps(sys.path), json.dumps(told), "")
                stdin.write("\n".join(lines).encode("utf-8", "surrogateescape"))
        except OSError as error:
            for one in ours:
                one.close()
            msg = f"{self._uri}: its process cannot be started: {error}"
            raise Unreachable(msg) from error
        finally:
            for one in theirs:
                one.close()
        self._channels = list(ours)

    def _end(self, process: subprocess.Popen[bytes] | None, why: str) -> str:
        with self._lock:
            said = ""
            if process is not None and process is self._process:
                with quietly():
                    process.kill()
                    process.wait(_END_S)
                    self._said.seek(0, os.SEEK_END)
                    self._said.seek(max(0, self._said.tell() - _MOST_SAID))
                    said = self._said.read().decode("utf-8", "replace").strip()
                self._stop()
        return f"{self._uri}: the process that asks it failed: {why}{f' ({said})' if said else ''}"

    def _stop(self) -> None:
        for one in self._channels:
            with contextlib.suppress(OSError):
                one.close()
        self._channels, self._process = [], None
        if self._said is not None:
            self._said.close()

    def _failure(self, answer: Mapping[str, Any]) -> RemoteError:
        kind, message = str(answer["error"]), str(answer.get("message"))
        if kind == "Busy":
            return Busy(f"{self._uri}: {message}", float(answer.get("wait_s", 0.0)))
        return _MEANT.get(kind, Unreachable)(f"{self._uri}: {message}")

    def close(self) -> None:
        """Let the process end after its current requests."""
        with self._lock:
            process = self._process
            self._stop()
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)

    def begin_child(self) -> None:
        """Leave the process to the parent, after a fork."""
        if self._process is not None:
            self._process.returncode = 0  # nobody here waits for it
        self._stop()


_helpers: dict[tuple[str, str], Helper] = {}
_lock = threading.Lock()


def helper_of(uri: str, token: str) -> Helper:
    """Return this process's helper for a place; release it with `give_back`."""
    with _lock:
        found = _helpers.setdefault((uri, token), Helper(uri, token))
        found.users += 1
        return found


def give_back(helper: Helper) -> None:
    """Release a helper; the last release ends it."""
    with _lock:
        helper.users -= 1
        if helper.users > 0:
            return
        for key in [key for key, one in _helpers.items() if one is helper]:
            del _helpers[key]
    helper.close()


def _begin_child() -> None:
    global _lock  # noqa: PLW0603 - nobody will free the parent's
    _lock = threading.Lock()
    for one in _helpers.values():
        one.begin_child()
    _helpers.clear()


fork.register(_begin_child)
log = logging.getLogger("seamark")
_WAIT_S: Final = 1.0


class NeptuneRemote:
    """Sends to a project of a server; see `seamark.remote.protocol.KeepsByName`."""

    def __init__(self, uri: str, token: str | None) -> None:
        self.uri = uri
        self._helper = helper_of(uri, token_to_show(token))
        self._folders: dict[RunKey, RunFolder] = {}
        self._told: set[tuple[RunKey, str]] = set()
        self._closed = False

    def __repr__(self) -> str:
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
        # The helper reads the file itself.
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
        return ()

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Do nothing: files are sent by their names."""

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
    """Return the remote for a project of a server; no request is sent yet."""
    return NeptuneRemote(uri, token)
