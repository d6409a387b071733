"""Start and end of a page: its port, the thread that reads folders, and its server."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seamark.errors import ArgumentError, MissingExtraError, SeamarkError
from seamark.page import opening, roots
from seamark.page.roots import Root
from seamark.page.watch import Watcher
from seamark.remote.http.address import bind_words, is_loopback

DEFAULT_PORT: Final = 8765
PORTS: Final = 20
"""Number of ports to try if no port was given."""
_REQUIRED_PACKAGES: Final = ("fastapi", "re2", "uvicorn")
_BACKLOG: Final = 128
_STOP_S: Final = 3
_IDLE_S: Final = 30.0
_MAX_HEADER_BYTES: Final = 64 << 10
_NICE: Final = 5
"""Niceness of the process, so that trainings on this machine have priority."""
_PORT_TAKEN: Final = (errno.EADDRINUSE, errno.EACCES)


class StartError(SeamarkError):
    """Error for a page that cannot start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Given:
    """Options of a page.

    `port` is 0 for any port, and None for the first free one of `PORTS`; `hosts` are additional
    host names accepted by a page without a token.
    """

    roots: Sequence[Root]
    host: str = "127.0.0.1"
    port: int | None = None
    token: bool = True
    hosts: Sequence[str] = ()
    embed: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """Running page; `url` does not contain the token, which is None if none is required."""

    url: str
    token: str | None
    host: str
    port: int


def check_extra() -> None:
    """Raise `MissingExtraError` if a package that a page needs is not installed."""
    if missing := [name for name in _REQUIRED_PACKAGES if importlib.util.find_spec(name) is None]:
        raise MissingExtraError(f'the page needs {", ".join(missing)}: pip install "seamark[ui]"')


def check(given: Given) -> None:
    """Check options; raises `StartError` for a page without a token that others could reach."""
    if not given.token and not is_loopback(given.host):
        raise StartError(f"--no-token needs a loopback address, got --host {given.host}")
    index = os.environ.get("SEAMARK_INDEX", "")
    if index.endswith(".db") and len(given.roots) > 1:
        raise ArgumentError(
            f"SEAMARK_INDEX: expected a folder for several roots, got one file: {index!r}"
        )


def serve(given: Given, tell: Callable[[Started, Watcher], Any], until: int | None = None) -> int:
    """Serve until a signal, or until the descriptor `until` is closed; return an exit code.

    `tell` is called in a thread once the page accepts requests.
    """
    from seamark.page.app import make_page
    from seamark.page.watch import Watcher
    from seamark.server.run import serve_app

    check(given)
    kept = roots.keep()
    token = kept if given.token else None
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(bind(given.host, given.port))
        port = int(listening.getsockname()[1])
        _provide_indexes(given.roots, stack)
        watcher = Watcher(given.roots)
        stack.callback(watcher.stop)
        page = make_page(
            given.roots,
            token=token,
            instance=roots.instance_of(kept, given.roots),
            watch=watcher,
            hosts=tuple(given.hosts),
            embed=given.embed,
        )
        started = Started(opening.address(given.host, port), token, given.host, port)
        with contextlib.suppress(OSError):
            os.nice(_NICE)  # the whole process: a thread that holds the GIL delays others
        watcher.start()

        def begin() -> None:
            threading.Thread(
                target=tell, args=(started, watcher), name="seamark-tell", daemon=True
            ).start()

        serve_app(
            page,
            listening,
            begin,
            until=until,
            idle_s=_IDLE_S,
            stop_s=_STOP_S,
            header_bytes=_MAX_HEADER_BYTES,
            proxy_headers=False,
        )
    return 0


def bind(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; port 0 means any port, None the first free one of `PORTS`."""
    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS) if port is None else (port,)
    for one in ports:
        try:
            if ":" in host:
                return socket.create_server(
                    (host, one), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
                )
            return socket.create_server((host, one), backlog=_BACKLOG)
        except OSError as error:
            if port is not None or error.errno not in _PORT_TAKEN:
                todo = "another program listens there: choose another, or leave it out"
                raise StartError(bind_words(host, one, error, todo)) from error
    last = DEFAULT_PORT + PORTS - 1
    raise StartError(f"ports {DEFAULT_PORT} to {last} are all in use: choose another with --port")


def _provide_indexes(roots: Sequence[Root], stack: contextlib.ExitStack) -> None:
    # One thread writes the files while others read them. If the file of any root cannot be written,
    # all are in a temporary folder while the page runs.
    from seamark.index.index import Index

    for root in roots:
        with Index.open(root.path) as index:
            if index.file is None:
                made = tempfile.TemporaryDirectory(
                    prefix="seamark-page-", ignore_cleanup_errors=True
                )
                os.environ["SEAMARK_INDEX"] = stack.enter_context(made)
                return
