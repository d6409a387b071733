"""A server with hand-made runs, on each engine, that answers over a real socket."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

pytest.importorskip("fastapi")

import httpx
import uvicorn
from journal_builder import START, JournalBuilder

from seamark.journal.source import BytesSource
from seamark.reading import wire
from seamark.server.access import Role
from seamark.server.app import make_app
from seamark.server.changes import note_changes
from seamark.server.settings import Settings
from seamark.server.state import open_server
from seamark.store.ingest import fold_run

ENGINES = ("sqlite", "postgresql")
NOW = START + 10**12


class Given:
    """Journals in memory, in the place of what a server keeps, and records that it is told to add.

    Attributes:
        recorded: (project, run id, operations) that were to be recorded.
    """

    def __init__(self) -> None:
        self.bytes: dict[tuple[str, str, str], bytes] = {}
        self.recorded: list[tuple[str, str, list[dict[str, Any]]]] = []

    def source(self, project: str, run: str, journal: str) -> BytesSource:
        return BytesSource(journal, self.bytes[project, run, journal])

    def record(self, project: str, run: str, ops: Any) -> int:
        self.recorded.append((project, run, list(ops)))
        return 7


class Here:
    """A server in this process, its clock and its runs in the hands of a test.

    Attributes:
        server: What it stands on.
        given: What it keeps.
        now_ns: Its time, nanoseconds since the Unix epoch.
    """

    def __init__(self, settings: Settings) -> None:
        self.now_ns = NOW
        self.server: Any = open_server(settings)
        self.server.now_ns = lambda: self.now_ns
        self.given = Given()
        self.server.kept = self.server.writer = self.given
        self.admin = self.server.accounts.first_admin().secret
        self.url = ""

    def put(self, run: str, *journals: JournalBuilder, project: str = "team/x") -> None:
        """Fold journals into a run, as a fold worker does."""
        sources = {}
        for journal in journals:
            self.given.bytes[project, run, journal.file] = bytes(journal.data)
            sources[journal.file] = partial(BytesSource, journal.file, bytes(journal.data))
        store = self.server.store()
        fold_run(store, project, run, sources, lambda: self.now_ns)
        with store.database.writing() as connection:
            note_changes(store.database, connection, [(project, run)])

    def reader(self, user: str, *projects: str, role: Role = Role.VIEWER) -> str:
        """Return the token of a user who has a role in some projects."""
        accounts = self.server.accounts
        accounts.add_user(user)
        for project in projects:
            accounts.set_member(user, project, role)
        return accounts.create_token(user, by="test").secret

    def client(self, token: str | None = None) -> Client:
        """Return what asks it with a token; by default with an admin's."""
        return Client(self.url, self.admin if token is None else token)


class Client(httpx.Client):
    """Asks a server, and reads what it answers."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        super().__init__(base_url=f"{url}/api/v1/", headers=headers, timeout=60)

    def read(self, at: str, body: Any = None, /, **query: Any) -> Any:
        """Return what an answer holds."""
        if body is None:
            answer = self.get(at, params=query)
        else:
            answer = self.post(at, json=body, params=query)
        assert answer.status_code == 200, answer.text
        return wire.loads(answer.content)

    def refused(self, at: str, body: Any = None, /, **query: Any) -> tuple[int, str]:
        """Return status and slug of a refusal, which has a hint."""
        if body is None:
            answer = self.get(at, params=query)
        else:
            answer = self.post(at, json=body, params=query)
        told = answer.json()
        assert told["hint"], told
        return answer.status_code, told["error"]


@pytest.fixture(params=ENGINES)
def here(request, tmp_path):
    """An empty server, once on each engine."""
    store = None
    if request.param == "postgresql":
        store = request.getfixturevalue("postgresql_url")
    here = Here(Settings.at(tmp_path / "server", store))
    config = uvicorn.Config(
        make_app(here.server), port=0, log_level="error", access_log=False, lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    here.url = f"http://127.0.0.1:{port}"
    try:
        yield here
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def builder():
    """The class of hand-made journals."""
    return JournalBuilder
