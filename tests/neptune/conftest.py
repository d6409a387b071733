"""A server with the routes of Neptune's client, asked without that client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from server_process import Running, running_server


@pytest.fixture(scope="module")
def running(tmp_path_factory: Any) -> Iterator[Running]:
    """One server a module."""
    pytest.importorskip("fastapi")
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def admin(running: Running) -> Any:
    """Its admin."""
    from neptune_client import Client

    return Client(running.url, running.token)
