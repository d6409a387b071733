"""One server a module and engine, which its tests share: each uses projects of its own."""

from __future__ import annotations

import contextlib
import time
from importlib.util import find_spec

import pytest
from clocks import Clock

collect_ignore_glob = [] if find_spec("fastapi") else ["*"]


@pytest.fixture
def clock():
    return Clock()


ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]


@pytest.fixture(params=ENGINES)
def account_url(request, tmp_path):
    """URL of empty databases of a server, once on each engine."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path / 'databases'}"


@pytest.fixture(scope="module", params=ENGINES)
def store(request, postgresql):
    """URL of the databases of a server for a module, or none: they lie in its folder then."""
    if request.param == "sqlite":
        yield None
        return
    from databases import fresh_database

    with fresh_database(postgresql()) as url:
        yield url


@pytest.fixture(scope="module")
def team(store, tmp_path_factory):
    """A server in this process that answers and folds for all tests of a module."""
    from served import whole_server

    with whole_server(tmp_path_factory.mktemp("server"), store=store) as one:
        yield one


@pytest.fixture
def place(account_url, tmp_path, clock):
    """Databases, objects and intake of a server; no fold worker runs yet."""
    from folding import Place

    clock.now = time.time_ns()
    with contextlib.closing(Place(tmp_path / "server", account_url, clock)) as made:
        yield made
