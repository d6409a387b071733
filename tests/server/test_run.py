from __future__ import annotations

import json
import urllib.request

import pytest

pytest.importorskip("fastapi")


def test_a_server_says_what_it_is_to_everybody(server) -> None:
    """The greeting needs no token."""
    with urllib.request.urlopen(f"{server.url}/api/v1/") as answer:
        said = json.load(answer)
    assert said["api"] == 1
    assert said["limits"]["batch_bytes"] == 8 << 20
