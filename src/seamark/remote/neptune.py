"""Checks of ``neptune://workspace/project`` and its token that need no request to a server."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from typing import Final
from urllib.parse import urlsplit

from seamark.errors import ArgumentError
from seamark.remote.http.address import Address, is_loopback, shown

_PROJECT: Final = re.compile(r"[^/\s?#@]+/[^/\s?#@]+")


def check_project(uri: str) -> None:
    """Raise an error unless the URI names a project."""
    if _PROJECT.fullmatch(uri.partition("://")[2]) is None:
        raise ArgumentError(f"remote: expected 'neptune://workspace/project', got {shown(uri)!r}")


def token_to_show(given: str | None) -> str:
    """Return the API token to use; it contains the address of a server of Neptune's protocol.

    A token given as ``api_token=`` may belong to a Seamark server, and is skipped if it does.

    Raises:
        ArgumentError: If there is none, or it must not be sent to the address in it.
    """
    both = given, os.environ.get("NEPTUNE_API_TOKEN")
    found = ["".join(one.split()) for one in both if one]  # pasted text may have line breaks
    token = next((one for one in found if address_in(one)), None)
    if token is None:
        got = "the given token contains no server address" if found else "got none"
        raise ArgumentError(
            "remote: neptune:// needs an API token of that server in NEPTUNE_API_TOKEN or "
            f"api_token=, {got}"
        )
    parts = urlsplit(address_in(token))
    allowed = is_loopback(parts.hostname or "") or os.environ.get("OAUTHLIB_INSECURE_TRANSPORT")
    if parts.scheme == "http" and not allowed:
        raise ArgumentError(
            f"remote: the API token would be sent unencrypted to http://{parts.hostname}; "
            "set OAUTHLIB_INSECURE_TRANSPORT=1 to allow this"
        )
    Address.of(address_in(token), insecure=True)
    return token


def address_in(token: str) -> str:
    """Return the address in a Neptune API token; empty for other texts."""
    return token_parts(token)[0]


def token_parts(token: str) -> tuple[str, str]:
    """Return address and secret of a Neptune API token; no address and the text for other texts."""
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        content = json.loads(base64.b64decode(token))
        address = content.get("api_url") or content.get("api_address")
        if isinstance(address, str) and urlsplit(address).hostname:
            return address, str(content.get("api_key", ""))
    return "", token
