"""A server with the routes of Neptune's client, called without that client."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]
)
def here(request, postgresql, tmp_path_factory):
    """One server a module, in this process, so that its log and its routes can be looked at."""
    pytest.importorskip("fastapi")
    from databases import fresh_database
    from served import whole_server

    with contextlib.ExitStack() as stack:
        store = None
        if request.param == "postgresql":
            store = stack.enter_context(fresh_database(postgresql()))
        yield stack.enter_context(whole_server(tmp_path_factory.mktemp("server"), store=store))


@pytest.fixture(scope="module")
def admin(here):
    """A client with the token of its admin."""
    from neptune_client import Client

    return Client(here.url, here.token)
