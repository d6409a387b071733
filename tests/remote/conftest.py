"""Fixtures for tests of remotes."""

from __future__ import annotations

import contextlib

import pytest
from databases import fresh_database
from keeper_server import keeping
from recording import QUIET
from server_process import running_server

import seamark
from seamark.remote import shipper as shippers


@pytest.fixture
def keeper():
    """A fake server that runs."""
    with keeping() as (keeper, address):
        keeper.address = address
        keeper.url = f"http://127.0.0.1:{address[1]}"
        yield keeper


@pytest.fixture
def begin(tmp_path):
    """Begin runs, which are stopped at the end."""
    begun = []

    def begin(**given):
        run = seamark.init_run(**{"root": tmp_path / "root", "project": "p", **QUIET, **given})
        begun.append(run)
        return run

    yield begin
    for run in begun:
        run.stop(seconds=0)
    shippers._shippers.clear()


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]
)
def server(request, postgresql, tmp_path_factory):
    """A server in processes of its own, for all tests here; each has a project of its own."""
    pytest.importorskip("fastapi")
    with contextlib.ExitStack() as stack:
        store = None
        if request.param == "postgresql":
            store = stack.enter_context(fresh_database(postgresql()))
        yield stack.enter_context(running_server(tmp_path_factory.mktemp("server"), store=store))


@pytest.fixture
def there(server, tmp_path, monkeypatch):
    """Give the arguments of a machine that sends to the server, by its name."""
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    project = f"team/{tmp_path.name}"
    yield lambda name: {"project": project, "root": tmp_path / name, "remote": server.url}
    shippers._shippers.clear()
