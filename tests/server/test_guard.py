"""No route answers anybody whom it did not ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from asking import ask
from fastapi.routing import APIRoute

from seamark.server.app import BASE, make_app
from seamark.server.settings import Settings
from seamark.server.state import open_server

OPEN = {"GET /", "GET /openapi.json", "GET /accounts/me"}
"""What everybody may ask; what is in the answer depends on who asks."""
OVER_MANY = re.compile(r"^(GET|POST) /(table|runs|groups|changes|complete|projects)\b(?!.*\{run\})")
"""Tables over many projects: somebody without a token gets the public ones."""


def every_route(tmp_path: Path) -> list[tuple[str, str]]:
    server = open_server(Settings.at(tmp_path))
    try:
        found = [
            (method, route.path.removeprefix(BASE))
            for route in flat(make_app(server).routes)
            for method in sorted(route.methods)
        ]
    finally:
        server.close()
    assert len(found) > 8
    return found


def flat(routes):
    """Yield routes, those of routers that are kept whole included."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            inner = getattr(route, "effective_routes", None) or getattr(route, "routes", None)
            assert inner is not None, route
            yield from flat(inner() if callable(inner) else inner)


def test_no_route_answers_without_a_guard(server, tmp_path) -> None:
    """Somebody without a token, and one with a token and no role, get 401, 403 or 404."""
    stranger = ask(
        server.url, "POST", "accounts/tokens", server.token, {"user": "stranger"}
    ).json()["token"]
    for method, path in every_route(tmp_path / "other"):
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
