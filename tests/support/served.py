"""A server in a thread of the test's own process, which can be looked into; with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import Any

import uvicorn

from seamark.server.app import make_app
from seamark.server.checks import bind
from seamark.server.folding.main import FoldWorker
from seamark.server.settings import Settings
from seamark.server.state import Server, open_server


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    server: Server
    app: Any


class _Server(uvicorn.Server):
    """A server that notices within a hundredth of a second, not a tenth, that it is to end."""

    async def main_loop(self):
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def serving(app, **config):
    """Serve an application at a real socket; return its address."""
    runner = _Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none", **config))
    # As the server does it: a socket that names no protocol waits 40 ms with every answer (Nagle).
    with bind("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=runner.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            runner.should_exit = True
            thread.join()


@contextlib.contextmanager
def folding(server):
    """Fold what is kept, in a thread, as a worker of the server does."""
    stop = threading.Event()
    thread = threading.Thread(target=FoldWorker(server.databases, server.kept, stop).run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def whole_server(folder, **options):
    with served(folder, **options) as found, folding(found.server):
        yield found


@contextlib.contextmanager
def served(folder, **options):
    server = open_server(Settings.at(folder, **options))
    made = server.accounts.first_admin()
    app = make_app(server)
    with serving(app) as url:
        yield Served(url.removesuffix("/"), made.secret if made else "", server, app)
