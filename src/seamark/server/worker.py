"""Process of the server that answers requests or folds journals.

Only `seamark.server.run` starts this process. It sends the settings as one line of standard input,
which stays open: end of file means that the supervisor has exited.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import SeamarkError
from seamark.server.database import DatabaseUnreachable
from seamark.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["ANSWERS", "EXIT_FOR_GOOD"]


EXIT_FOR_GOOD: Final = 78
"""Starting the same again would be of no use."""
EXIT_LATER: Final = 75
ANSWERS: Final = b"a"
"""What a process that answers tells the supervisor once it does."""
_KEEP_ALIVE_S: Final = 75
_STOP_S: Final = 60
_LOG: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: list[str]) -> int:
    """Run one process, ``answer SOCKET READY`` or ``fold READY`` (descriptors); return its code."""
    logging.basicConfig(format=_LOG, level=logging.INFO)
    for name in ("uvicorn.error", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    settings = Settings.from_json(sys.stdin.readline())
    what, *descriptors = arguments
    try:
        if what == "answer":
            _answer(settings, *map(int, descriptors))
        else:
            _fold(settings, *map(int, descriptors))
    except DatabaseUnreachable as error:
        _print_error(error)
        return EXIT_LATER
    except SeamarkError as error:
        _print_error(error)
        return EXIT_FOR_GOOD
    return 0


def _is_news(record: logging.LogRecord) -> bool:
    return "upgrade request" not in str(record.msg) and "WebSocket" not in str(record.msg)


def _answer(settings: Settings, listening: int, ready: int) -> None:
    import uvicorn

    from seamark.server.app import make_app, protocol_for
    from seamark.server.state import open_server

    config = uvicorn.Config(
        make_app(open_server(settings)),
        loop="asyncio",
        http=protocol_for(settings.limits.idle_s),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        h11_max_incomplete_event_size=settings.limits.header_bytes + settings.limits.target_bytes,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What is there now stays: nobody who asks waits until it has been looked through.
            gc.collect()
            gc.freeze()
            _announce(ready, ANSWERS)

    server = Announced(config)
    _when_left_alone(lambda: setattr(server, "should_exit", True))
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        # uvicorn hands the signal that ended it on to the process, which has ended well.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        server.run([socket.socket(fileno=listening)])


def _fold(settings: Settings, ready: int) -> None:
    from seamark.server.folding.main import main as fold

    stop = _set_by_signals()
    _when_left_alone(stop.set)
    _announce(ready, b"f")
    fold(settings, stop)


def _set_by_signals() -> threading.Event:
    # A handler runs between any two steps of the main thread, which may be waiting for the event
    # and hold its lock: whoever set it there would wait for themselves for ever. So the handler
    # puts something into a queue, which may be done anywhere, and a thread sets the event.
    stop = threading.Event()
    told: queue.SimpleQueue[int] = queue.SimpleQueue()

    def wait_for_stop() -> None:
        told.get()
        stop.set()

    threading.Thread(target=wait_for_stop, name="seamark-signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))
    return stop


def _when_left_alone(do: Callable[[], Any]) -> None:
    def watch() -> None:
        while os.read(0, 4096):
            pass
        do()

    threading.Thread(target=watch, name="seamark-supervisor", daemon=True).start()


def _announce(ready: int, what: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(ready, what)
        os.close(ready)


def _print_error(error: Exception) -> None:
    sys.stderr.write(f"seamark server: {error}\n")
