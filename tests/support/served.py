"""A server in a thread of the test's own process, which can be looked into; with real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from seamark.server.app import make_app
from seamark.server.settings import Settings
from seamark.server.state import Server, open_server


@dataclass(frozen=True)
class Served:
    """A server that answers.

    Attributes:
        url: Where.
        token: Of its admin.
        server: What it stands on.
    """

    url: str
    token: str
    server: Server


@contextlib.contextmanager
def served(folder: Path, **options: Any) -> Iterator[Served]:
    """Serve for a block, with the settings of a test."""
    server = open_server(Settings.at(folder, **options))
    made = server.accounts.first_admin()
    config = uvicorn.Config(make_app(server), log_config=None, lifespan="on", ws="none")
    runner = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=runner.run, args=([listening],))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            yield Served(url, made.secret if made else "", server)
        finally:
            runner.should_exit = True
            thread.join()
