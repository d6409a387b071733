"""A server with the routes of Neptune's client, asked without that client."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One server a module, which answers and folds."""
    pytest.importorskip("fastapi")
    from served import folding, served

    with served(tmp_path_factory.mktemp("server")) as one, folding(one.server):
        yield one


@pytest.fixture(scope="module")
def admin(running):
    """Its admin."""
    from neptune_client import Client

    return Client(running.url, running.token)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]
)
def here(request, postgresql, tmp_path_factory):
    """One in this process, so that its table of routes and its log can be looked at."""
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
