"""Remote that sends to a server of Neptune's protocol through a helper process.

The client package needs a process of its own for three reasons: it brings threads, handlers and
retries of a minute, with no promise about signals; its server may tell it to end the process in
which it runs; and if Seamark replaces ``neptune`` in this process, the client cannot be imported
here. A helper that is killed or hangs does not affect the training.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.paths import kind_of
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.remote.neptune import token_to_show
from seamark.remote.protocol import WORDS, Refused, RemoteError, Sent, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import RunKey

__all__ = ["NeptuneRemote", "open_remote"]

log = logging.getLogger("seamark")

JOURNALS: Final = 0
FILES: Final = 1
"""The channels: files of gigabytes hold up no metric."""
ANSWER_S: Final = 300.0
"""How long a helper may take to answer, seconds; each of its requests has a limit of its own."""
_END_S: Final = 5.0
_WAIT_S: Final = 1.0
_BOOT: Final = (
    "import sys, json; sys.path[:], told = json.load(sys.stdin);"
    "from seamark.neptune.forward.child import main; main(*told)"
)


class _Helper:
    """The helper process of a place and token, which all remotes of this process share."""

    def __init__(self, uri: str, token: str) -> None:
        self.uri, self._token = uri, token
        self.users: set[NeptuneRemote] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self.told: set[tuple[RunKey, str]] = set()
        self._channels: list[Connection[Any, Any]] = []
        self._busy = (threading.Lock(), threading.Lock())

    def ask(self, channel: int, verb: str, *given: Any) -> Any:
        """Return the answer to a request; start the process if there is none."""
        with self._busy[channel]:
            with _lock:
                process = self.process = self.process or self._start()
                connection = self._channels[channel]
            try:
                connection.send((verb, *given))
                if not connection.poll(ANSWER_S):
                    msg = "no answer within five minutes"
                    raise TimeoutError(msg)
                answer = connection.recv()
            except (EOFError, OSError) as error:
                process.kill()
                self._end(process)
                status = process.returncode
                msg = f"{self.uri}: the process that asks it failed: {error!r}, status {status}"
                raise Unreachable(msg) from error
        if isinstance(answer, RemoteError):
            answer.args = (f"{self.uri}: {answer}",)
            raise answer
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            msg = "no Python interpreter was found to start"
            raise Refused(msg)
        ours, theirs = zip(*(Pipe() for _ in (JOURNALS, FILES)), strict=True)
        self._channels, fds = list(ours), [one.fileno() for one in theirs]
        told = json.dumps([sys.path, [self.uri, self._token, os.getpid(), fds]])
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and words
                [sys.executable, "-I", "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C is the training's
            )
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            with process.stdin as stdin:
                stdin.write(told.encode())
        except OSError as error:
            msg = f"{self.uri}: its process cannot be started: {error}"
            raise Unreachable(msg) from error
        finally:
            for one in theirs:
                one.close()
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        # Once no thread uses its channels they are closed, and it ends.
        with _lock:
            if process is self.process:
                self.process, self._channels = None, []
        with quietly(only=subprocess.TimeoutExpired):
            process.wait(_END_S)

    def release(self, user: NeptuneRemote) -> None:
        """Forget a user; the process ends with the last one."""
        with _lock:
            self.users.discard(user)
            process = None if self.users else self.process
        if process is not None:
            self._end(process)

    def begin_child(self) -> None:
        """Leave the process and its channels to the parent, after a fork."""
        if self.process is not None:
            self.process.returncode = 0  # the parent waits for it
        for one in self._channels:
            with quietly(only=OSError):
                one.close()
        self.process, self._channels = None, []
        self._busy = (threading.Lock(), threading.Lock())


class NeptuneRemote:
    """Sends to a project of a server; see `seamark.remote.protocol.KeepsByName`."""

    def __init__(self, helper: _Helper) -> None:
        self.helper, self.uri = helper, helper.uri
        self._folders: dict[RunKey, RunFolder] = {}

    def meet(self, run: RunKey, folder: RunFolder) -> None:
        """See `seamark.remote.protocol.KeepsByName.meet`."""
        self._folders[run] = folder

    def close(self) -> None:
        """See `seamark.remote.protocol.Remote.close`."""
        self.helper.release(self)

    def _ask(self, channel: int, run: RunKey, verb: str, *given: Any) -> Any:
        if run not in self._folders:
            msg = f"{self.uri}: the folder of run {run.run} is not known"
            raise Unreachable(msg)
        return self.helper.ask(channel, verb, self._folders[run], *given)

    # ---------------------------------------------------------------- journals

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        if not _is_run(run):
            files = [one.path for one in self._folders[run].journals()]
            return {each.name: each.stat().st_size for each in files}
        known: Mapping[str, int] = self._ask(JOURNALS, run, "known")
        return known

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        return self._send(run, journal, offset + len(data))

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`."""
        return self._send(run, journal, offset + length)

    def _send(self, run: RunKey, journal: str, end: int) -> Sent:
        # The helper reads the file itself.
        if not _is_run(run):
            self._warn(run, "what projects and models hold is not sent there")
            return Sent(end, end, _WAIT_S)
        offset = 0
        while offset < end:
            offset = self._ask(JOURNALS, run, "send", journal, end)
            self._warn_unsupported(run, *self._ask(JOURNALS, run, "unsupported"))
        return Sent(offset, offset, _WAIT_S)

    def _warn_unsupported(self, run: RunKey, kinds: Collection[str], why: str) -> None:
        told = self.helper.told
        new = [kind for kind in kinds if (run, kind) not in told]
        told |= {(run, kind) for kind in new}
        if new:
            words = "; ".join(WORDS.get(kind, kind) for kind in new)
            words += f": {why}" if "refused" in new else ""
            line = f"not all of it has a form there ({words}); `seamark show` counts them"
            self._warn(run, line)

    def _warn(self, run: RunKey, line: str) -> None:
        if (run, line) not in self.helper.told:
            self.helper.told.add((run, line))
            log.warning("seamark: run %s on its way to %s: %s", run.run, self.uri, line)

    # ---------------------------------------------------------------- files

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """Return nothing: files are sent by their names."""
        return ()

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Do nothing: files are sent by their names."""

    def files_left(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.KeepsByName.files_left`."""
        left: Mapping[str, int] = self._ask(FILES, run, "files_left") if _is_run(run) else {}
        return left

    def send_files(self, run: RunKey, progress: Callable[[int], None]) -> None:
        """See `seamark.remote.protocol.KeepsByName.send_files`."""
        while _is_run(run) and (size := self._ask(FILES, run, "send_file")) >= 0:
            progress(size)


_helpers: dict[tuple[str, str], _Helper] = {}
_lock = threading.Lock()


def open_remote(uri: str, token: str | None = None) -> NeptuneRemote:
    """Return the remote for a project of a server; no request is sent yet."""
    key = (uri, token_to_show(token))
    with _lock:
        helper = _helpers.setdefault(key, _Helper(*key))
        remote = NeptuneRemote(helper)
        helper.users.add(remote)
    return remote


def _is_run(run: RunKey) -> bool:
    return kind_of(run.project, run.run) == "run"


def _begin_child() -> None:
    global _lock  # noqa: PLW0603 - nobody will free the parent's
    _lock = threading.Lock()
    for one in _helpers.values():
        one.begin_child()
    _helpers.clear()


fork.register(_begin_child)
