"""Tokens of servers: where a person keeps them, and which one is shown to which server.

The file is ``$XDG_CONFIG_HOME/seamark/credentials.json`` (``~/.config`` where that is not set), for
its owner's eyes only::

    {"servers": {"https://seamark.lab": {"token": "..."}}}
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from seamark.process.interrupts import quietly

__all__ = [
    "credentials_file",
    "forget_token",
    "keep_token",
    "known_servers",
    "stored_servers",
    "token_of",
]


def credentials_file() -> Path:
    """Return where tokens are kept; the file may not be there."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(base) / "seamark" / "credentials.json"


def token_of(address: str) -> str | None:
    """Return the token that is shown to a server; None if there is none. Never raises.

    ``SEAMARK_API_TOKEN``, else what was kept for this very address.

    Args:
        address: Of the server, as `seamark.remote.http.connection.Address` writes it.
    """
    if told := os.environ.get("SEAMARK_API_TOKEN", "").strip():
        return told
    with quietly(only=OSError):
        entry = _servers(_read()).get(address)
        token = entry.get("token") if isinstance(entry, dict) else None
        return token if isinstance(token, str) and token else None
    return None


def stored_servers() -> list[str]:
    """Return the addresses of the servers for which a token is kept, sorted."""
    with quietly(only=OSError):
        return sorted(_servers(_read()))
    return []


def known_servers() -> list[str]:
    """Return the addresses of servers that ``SEAMARK_REMOTE`` names, else those with a token."""
    given = [each.strip() for each in os.environ.get("SEAMARK_REMOTE", "").split(",")]
    return [one for one in given if one.startswith(("https://", "http://"))] or stored_servers()


def keep_token(address: str, token: str) -> None:
    """Keep the token of a server.

    Args:
        address: Of the server, as `seamark.remote.http.connection.Address` writes it.
        token: The token.

    Raises:
        OSError: If the file cannot be written.
    """
    told = _read()
    told["servers"] = {**_servers(told), address: {"token": token}}
    _write(told)


def forget_token(address: str) -> bool:
    """Forget the token of a server; return whether there was one.

    Raises:
        OSError: If the file cannot be written.
    """
    told = _read()
    servers = dict(_servers(told))
    found = servers.pop(address, None) is not None
    if found:
        told["servers"] = servers
        _write(told)
    return found


def _servers(told: dict[str, Any]) -> dict[str, Any]:
    servers = told.get("servers")
    return servers if isinstance(servers, dict) else {}


def _read() -> dict[str, Any]:
    """Return what the file says; nothing where it is not there or says something else."""
    with quietly(only=(FileNotFoundError, NotADirectoryError, ValueError)):
        file = credentials_file()
        if stat.S_ISREG(file.stat().st_mode):
            told = json.loads(file.read_bytes())
            return told if isinstance(told, dict) else {}
    return {}


def _write(told: dict[str, Any]) -> None:
    file = credentials_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as out:
            os.fchmod(out.fileno(), 0o600)  # also of one that an earlier try has left
            out.write(json.dumps(told, indent=1).encode())
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
