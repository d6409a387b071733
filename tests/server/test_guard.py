"""No route answers anybody whom it did not ask."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("fastapi")

from asking import ask

from seamark.server.app import routers


def every_route() -> list[tuple[str, str]]:
    found = [
        (method, route.path)
        for router in routers()
        for route in router.routes
        for method in sorted(route.methods)
    ]
    assert len(found) > 30
    return found


SECRET = "team/kept-to-itself"


def test_no_route_answers_without_a_guard(server) -> None:
    """What is of a project is 401 for nobody and 404 for a stranger; nothing else names it."""
    made = ask(server.url, "POST", "accounts/tokens", server.token, {"user": "stranger"})
    stranger = made.json()["token"]
    hidden = {"project": SECRET, "visibility": "private"}
    assert ask(server.url, "PUT", "accounts/visibility", server.token, hidden).status == 200
    for method, path in every_route():
        filled = path.replace("{project:path}", SECRET)
        filled = re.sub(r"\{(sha256|digest)\}", "0" * 64, filled)
        filled = re.sub(r"\{\w+(:\w+)?\}", "abcdef", filled).lstrip("/")
        for token, of_project in (("", 401), (stranger, 404)):
            answer = ask(server.url, method, filled, token)
            case = (method, path, bool(token), answer.body)
            # The form of a request is looked at first: 422 tells nothing of a project.
            if "{project" in path:
                assert answer.status in {of_project, 422}, case
            else:
                assert answer.status in {200, 401, 403, 404, 422}, case
            assert SECRET.encode() not in answer.body or answer.status == 404, case
