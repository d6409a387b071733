"""Asking a server over a real socket, without any of Seamark's own client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import urllib3


@dataclass(frozen=True)
class Answer:
    """What a server answered.

    Attributes:
        status: Of HTTP.
        headers: Names in lower case.
        body: All of it.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return what the body says."""
        return json.loads(self.body)


def ask(
    url: str,
    method: str,
    path: str,
    token: str = "",
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Ask once.

    Args:
        url: Address of the server.
        method: Of HTTP.
        path: Below ``/api/v1/``.
        token: Shown as a bearer.
        body: Bytes, or what is sent as JSON.
        headers: Further ones.
    """
    sent = dict(headers or {})
    if token:
        sent["Authorization"] = f"Bearer {token}"
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request(
            method, f"{url}/api/v1/{path}", body=body, headers=sent, redirect=False, timeout=60
        )
        return Answer(
            answer.status,
            {name.lower(): value for name, value in answer.headers.items()},
            answer.data,
        )
