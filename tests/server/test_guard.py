"""No route answers anybody whom it did not ask."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("fastapi")

from asking import ask

from seamark.server.app import routers

OPEN = {"GET /", "GET /openapi.json", "GET /accounts/me"}
"""What everybody may ask; what is in the answer depends on who asks."""
OVER_MANY = re.compile(r"^(GET|POST) /(table|runs|groups|changes|complete|projects)\b(?!.*\{run\})")
"""Tables over many projects: somebody without a token gets the public ones."""


def every_route() -> list[tuple[str, str]]:
    found = [
        (method, route.path)
        for router in routers()
        for route in router.routes
        for method in sorted(route.methods)
    ]
    assert len(found) > 30
    return found


def test_no_route_answers_without_a_guard(server) -> None:
    """Somebody without a token, and one with a token and no role, get 401, 403 or 404."""
    stranger = ask(
        server.url, "POST", "accounts/tokens", server.token, {"user": "stranger"}
    ).json()["token"]
    for method, path in every_route():
        filled = re.sub(r"\{project:path\}", "team/secret", path)
        filled = re.sub(r"\{(sha256|digest)\}", "0" * 64, filled)
        filled = re.sub(r"\{\w+(:\w+)?\}", "abcdef", filled)
        if f"{method} {path}" in OPEN or OVER_MANY.search(f"{method} {path}"):
            continue
        for token, expected in (("", {401}), (stranger, {401, 403, 404, 422})):
            answer = ask(server.url, method, filled.lstrip("/"), token, body=None)
            if "own" in path or path == "/accounts/tokens":
                expected = {*expected, 200}
            if not token and answer.status == 422:
                continue  # the form of a request is looked at first; nothing of a project is told
            assert answer.status in expected, (method, path, bool(token), answer.body)
