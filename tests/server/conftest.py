"""One server a module and engine, which its tests share: each uses projects of its own."""

from __future__ import annotations

import contextlib
import time

import pytest
from clocks import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def account_url(request, tmp_path):
    """URL of empty databases of a server, once on each engine."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path / 'databases'}"


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]
)
def team(request, postgresql, tmp_path_factory):
    """A server in this process that answers and folds for all tests of a module."""
    pytest.importorskip("fastapi")
    from databases import fresh_database
    from served import folding, served

    with contextlib.ExitStack() as stack:
        store = None
        if request.param == "postgresql":
            store = stack.enter_context(fresh_database(postgresql()))
        one = stack.enter_context(served(tmp_path_factory.mktemp("server"), store=store))
        stack.enter_context(folding(one.server))
        yield one


@pytest.fixture
def place(account_url, tmp_path, clock):
    """Databases, objects and intake of a server; no fold worker runs yet."""
    pytest.importorskip("fastapi")
    from folding import Place

    clock.now = time.time_ns()
    made = Place(tmp_path / "server", account_url, clock)
    yield made
    made.close()
