"""A server with hand-made runs, on each engine, that answers over a real socket.

One server a module and engine; each test gets folded tables of its own in it, which are empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from bytes_source import BytesSource
from journal_builder import START, JournalBuilder, fold_run
from served import Served, served

from seamark.reading.codec import unpack
from seamark.server import reads
from seamark.server.access import Role
from seamark.server.changes import note_changes
from seamark.server.databases import store_name

NOW = START + 10**12


class Given:
    """Journals in memory instead of those that a server keeps, and what was to be recorded."""

    def __init__(self) -> None:
        self.bytes: dict[tuple[str, str, str], bytes] = {}
        self.recorded: list[tuple[str, str, list[dict[str, Any]]]] = []

    def source(self, project: str, run: str, journal: str) -> BytesSource:
        return BytesSource(journal, self.bytes[project, run, journal])

    def record(self, project: str, run: str, ops: Any) -> int:
        self.recorded.append((project, run, list(ops)))
        return 7


class Here:
    """A server in this process whose clock and runs a test sets."""

    def __init__(self, served: Served) -> None:
        self.server: Any = served.server
        self.url, self.admin = served.url, served.token
        self.server.now_ns = lambda: self.now_ns
        self._numbers = itertools.count(1)
        self.empty()

    def empty(self) -> None:
        """Begin with no runs; users of before have roles in their projects alone."""
        databases, before = self.server.databases, self.server.databases.store_in_use
        databases.switch(store_name(copy=next(self._numbers)))
        databases.store()
        databases.drop_store(before)
        self.now_ns = NOW
        self.given = Given()
        self.server.kept = self.server.writer = self.given

    def put(self, run: str, *journals: JournalBuilder, project: str = "team/x") -> None:
        sources = {}
        for journal in journals:
            self.given.bytes[project, run, journal.file] = bytes(journal.data)
            sources[journal.file] = partial(BytesSource, journal.file, bytes(journal.data))
        store = self.server.store()
        fold_run(store, project, run, sources, lambda: self.now_ns)
        with store.database.writing() as connection:
            note_changes(store.database, connection, [(project, run)])

    def reader(self, user: str, *projects: str, role: Role = Role.VIEWER) -> str:
        """Return the token of a new user who has a role in some projects."""
        accounts = self.server.accounts
        user = f"{user}-{next(self._numbers)}"
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
        super().__init__(base_url=f"{url}/api/v1/", headers=headers, timeout=60, verify=False)

    def ask(self, verb: str, /, **question: Any) -> httpx.Response:
        accept = {"Accept": "application/msgpack"}
        return self.post(f"read/{verb}", json=question, headers=accept)

    def told(self, verb: str, /, **question: Any) -> Any:
        """Return the answer to a question, with what is said of it."""
        answer = self.ask(verb, **question)
        assert answer.status_code == 200, answer.text
        return unpack(answer.content, reads.verbs()[verb].envelope)

    def read(self, verb: str, /, **question: Any) -> Any:
        return self.told(verb, **question).answer

    def refused(self, verb: str, /, **question: Any) -> tuple[int, str]:
        """Return status and slug of a refusal, which has a hint."""
        answer = self.ask(verb, **question)
        told = answer.json()
        assert told["hint"], told
        return answer.status_code, told["error"]


@pytest.fixture(scope="module")
def shared(store, tmp_path_factory) -> Iterator[Here]:
    """A server for the tests of a module, once on each engine."""
    with served(tmp_path_factory.mktemp("server"), store=store) as one:
        yield Here(one)


@pytest.fixture
def here(shared) -> Here:
    shared.empty()
    return shared
