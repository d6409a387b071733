"""Helper process that sends requests of a training to the server.

Two threads serve two channels, so that a file of gigabytes holds up no metric. When who started it
is gone, what is under way is finished, and the process ends.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from seamark.journal.folder import RunFolder
from seamark.neptune.forward.client import Client
from seamark.neptune.forward.run import ForwardedRun, Locks
from seamark.remote.neptune import address_in
from seamark.remote.protocol import Busy, RemoteError

_LOOK_S: Final = 1.0
_RETRY_S: Final = "5"
"""How long the package itself repeats what may be repeated, seconds."""


class _Server:
    def __init__(self, uri: str, token: str, parent: int) -> None:
        self._uri, self._token, self._parent = uri, token, parent
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._locks = Locks(uri)
        self._runs: dict[RunFolder, ForwardedRun] = {}
        self._verbs: dict[str, Callable[[ForwardedRun, Mapping[str, Any]], dict[str, Any]]] = {
            "known": lambda run, _: {"journals": run.known()},
            "send": self._send,
            "files_left": lambda run, _: {"files": run.files_left()},
            "send_file": lambda run, _: {"size": run.send_file()},
        }

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            folder = RunFolder(Path(request["root"]), request["project"], request["run"])
            return self._verbs[request["verb"]](self._run(folder), request)
        except RemoteError as error:
            wait = error.wait_s if isinstance(error, Busy) else 0.0
            return {"error": type(error).__name__, "message": str(error), "wait_s": wait}
        except Exception as error:  # noqa: BLE001 - said to who can say it to a person
            return {"error": "Unreachable", "message": f"failed: {error!r:.300}"}

    @staticmethod
    def _send(run: ForwardedRun, request: Mapping[str, Any]) -> dict[str, Any]:
        offset = run.send(request["journal"], request["end"])
        lacking, why = run.unsupported()
        return {"offset": offset, "lacking": list(lacking), "why": why}

    def _run(self, folder: RunFolder) -> ForwardedRun:
        with self._lock:
            if self._client is None:
                project = self._uri.partition("://")[2]
                self._client = Client(project, self._token)
            if folder not in self._runs:
                self._runs[folder] = ForwardedRun(
                    self._client, self._uri, folder, self._locks, self._parent
                )
            return self._runs[folder]

    def end(self) -> None:
        for run in self._runs.values():
            run.end()


def main() -> None:
    """Serve until the parent process has ended."""
    told = json.loads(sys.stdin.readline())
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["NEPTUNE_RETRIES_TIMEOUT"] = _RETRY_S
    if address_in(told["token"]).startswith("http:"):
        os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # who asks has made sure that it may be
    server = _Server(told["uri"], told["token"], told["pid"])
    threads = [
        threading.Thread(target=_serve, args=(server, Connection(fd), told["pid"]))
        for fd in told["channels"]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.end()


def _serve(server: _Server, channel: Connection, parent: int) -> None:
    try:
        while True:
            while not channel.poll(_LOOK_S):
                if os.getppid() != parent:  # a process that it has forked may hold the channel
                    return
            request = json.loads(channel.recv_bytes())
            channel.send_bytes(json.dumps(server.answer(request)).encode())
    except (EOFError, OSError):
        return
    finally:
        channel.close()
