"""Helper process that sends requests of a training to the server.

Two threads serve two channels, so that a file of gigabytes holds up no metric. When the process
that started it is gone, requests under way are finished, and the process ends.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from seamark.neptune.forward.client import Client
from seamark.neptune.forward.run import ForwardedRun, Locks
from seamark.process.interrupts import quietly
from seamark.remote.neptune import address_in
from seamark.remote.protocol import RemoteError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seamark.journal.folder import RunFolder

_LOOK_S: Final = 1.0
_RETRY_S: Final = "5"
"""How long the package itself repeats what may be repeated, seconds."""


def main(uri: str, token: str, parent: int, channels: Sequence[int]) -> None:
    """Serve until the parent process has ended."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["NEPTUNE_RETRIES_TIMEOUT"] = _RETRY_S
    if address_in(token).startswith("http:"):
        os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # who asks has made sure that it may be
    client, locks = Client(uri.partition("://")[2], token), Locks(uri)
    runs: dict[RunFolder, ForwardedRun] = {}

    def answer(verb: str, folder: RunFolder, *given: Any) -> Any:
        run = runs.setdefault(folder, ForwardedRun(client, uri, folder, locks, parent))
        return getattr(run, verb)(*given)

    threads = [
        threading.Thread(target=_serve, args=(Connection(fd), parent, answer)) for fd in channels
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs.values():
        run.note(last=True)


def _serve(channel: Connection[Any, Any], parent: int, answer: Callable[..., Any]) -> None:
    with quietly(only=(EOFError, OSError)), channel:
        while True:
            while not channel.poll(_LOOK_S):
                if os.getppid() != parent:  # a process that it has forked may hold the channel
                    return
            request = channel.recv()
            try:
                found = answer(*request)
            except RemoteError as error:
                found = error
            except Exception as error:  # noqa: BLE001 - said to who can say it to a person
                found = Unreachable(f"failed: {error!r:.300}")
            channel.send(found)
