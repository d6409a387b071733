"""``seamark token``: tokens of a server, over HTTP or on the server's own machine."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from seamark.cli._app import misuse, options
from seamark.cli._screen import Cell, Column, Screen, note
from seamark.reading.words import clean

if TYPE_CHECKING:
    from seamark.remote.http.connection import Connection
    from seamark.server.accounts.accounts import Accounts

__all__ = ["token"]

_S: Final = 1_000_000_000
_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


class _Served:
    """Tokens of a server that is asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, wanted: Mapping[str, Any]) -> str:
        told = self._connection.send_json("POST", "accounts/tokens", wanted).record()
        return str(told["token"])

    def list(self) -> list[dict[str, Any]]:
        return list(self._connection.ask("GET", "accounts/tokens").record()["tokens"])

    def revoke(self, token: str) -> None:
        self._connection.ask("DELETE", f"accounts/tokens/{quote(token, safe='')}")


class _StoredTokens:
    """Tokens in the database of a server on this machine: whoever may write it is its admin."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def create(self, wanted: Mapping[str, Any]) -> str:
        from seamark.server.access import Identity, Role

        accounts, by = self._accounts, Identity("local", admin=True)
        user, project = wanted["user"] or "admin", wanted["project"]
        role = Role[wanted["role"].upper()] if wanted["role"] else None
        if not accounts.has_user(user):
            accounts.add_user(user, service=wanted["service"], admin=wanted["admin"])
            accounts.note(by, "user.add", user)
        if project is not None:
            role = role or Role.CONTRIBUTOR
            accounts.raise_member(user, project, role)
        ends = wanted["expires_s"]
        made = accounts.create_token(
            user,
            by=by.name,
            label=wanted["label"],
            role=role,
            project=project,
            expires_ns=None if ends is None else accounts.now_ns() + ends * _S,
        )
        accounts.note(by, "token.create", made.prefix, user=user, project=project)
        return made.secret

    def list(self) -> list[dict[str, Any]]:
        return [each.shown() for each in self._accounts.tokens()]

    def revoke(self, token: str) -> None:
        from seamark.server.access import Identity

        self._accounts.revoke(token)
        self._accounts.note(Identity("local", admin=True), "token.revoke", token)


_where = options(
    click.option(
        "--server",
        "url",
        metavar="URL",
        help="The server.  [default: SEAMARK_REMOTE, else the one that you are logged in to]",
    ),
    click.option(
        "--folder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="On the server's machine: its folder.",
    ),
    click.option(
        "--store",
        metavar="URL",
        help="On the server's machine: its databases, as `seamark server --store` was told.",
    ),
)
"""Which server is meant."""


@click.group(short_help="Make, list and revoke tokens of a server.")
def token() -> None:
    """Make, list and revoke tokens of a server.

    Everybody makes tokens of their own; an admin of the server makes them for anybody, an owner of
    a project for service accounts in it. On the server's machine --folder or --store asks its
    database directly.

    \b
    Examples:
      seamark token create                                 one more of your own
      seamark token create alice --project team --role contributor
      seamark token create trainer --service --project team/vision --expires 90d
      seamark token list
      seamark token revoke seamark_Ab3dE6gH
    """


@token.command(short_help="Make a token; it is shown once.")
@click.argument("user", required=False)
@click.option("--project", metavar="PATH", help="For this project and what is in it alone.")
@click.option(
    "--role",
    type=click.Choice(["viewer", "contributor", "owner"]),
    help="The most that it may do.  [default with --project for others: contributor]",
)
@click.option("--label", default="", help="What it is for.")
@click.option("--expires", metavar="TIME", help="When it ends: 12h, 30d, 1y.  [default: never]")
@click.option("--service", is_flag=True, help="A new user is a service account, no person.")
@click.option("--admin", is_flag=True, help="A new user is an admin of the server.")
@click.option("--neptune", is_flag=True, help="Print the variables that the package neptune reads.")
@_where
def create(
    user: str | None,
    expires: str | None,
    neptune: bool,  # noqa: FBT001 - a flag
    url: str | None,
    folder: Path | None,
    store: str | None,
    **rest: Any,
) -> None:
    """Make a token and print it: this is the only time that it is shown.

    USER is who it is for: by default you. One that does not exist is made, and gets the role that
    is named in the project that is named.

    \b
    Examples:
      seamark token create --label laptop --expires 90d
      seamark token create alice --project team --role owner
      seamark token create trainer --service --project team > token.txt
      seamark token create alice --project team/vision --neptune > neptune.env
      seamark token create --project team --neptune        for a workspace
      seamark token create --neptune                       for all that you may do
    """
    if neptune:
        _expect_for_neptune(rest["project"], folder or store)
        url = url or _known_server()
    wanted = {"user": user, "expires_s": _seconds(expires), **rest}
    secret = _place(url, folder, store).create(wanted)
    click.echo(_for_neptune(str(url), rest["project"], secret) if neptune else secret)
    if neptune:
        note("shown this once; these are variables of the environment in which scripts run")
        return
    note("shown this once; where it is used: seamark login URL, or SEAMARK_API_TOKEN")


def _expect_for_neptune(project: str | None, database: object) -> None:
    if project is not None and project.count("/") > 1:
        misuse(
            "--neptune takes a workspace or workspace/name: that package knows no other projects"
        )
    if database is not None:
        misuse("--neptune needs the address of the server: give --server URL, not its database")


def _for_neptune(url: str, project: str | None, secret: str) -> str:
    """Return the variables that the package ``neptune`` reads."""
    address = url.rstrip("/")
    told = json.dumps({"api_address": address, "api_url": address, "api_key": secret})
    lines = [f"NEPTUNE_API_TOKEN={base64.b64encode(told.encode()).decode()}"]
    if project is not None and "/" in project:
        lines.append(f"NEPTUNE_PROJECT={project}")
    if address.startswith("http://"):  # else the package shows its token over https alone
        lines.append("OAUTHLIB_INSECURE_TRANSPORT=1")
    return "\n".join(lines)


@token.command("list", short_help="List tokens, never their secrets.")
@_where
def list_tokens(url: str | None, folder: Path | None, store: str | None) -> None:
    """List your tokens; for an admin, all tokens. None is shown beyond its beginning."""
    rows = []
    for each in _place(url, folder, store).list():
        may = " in ".join(str(part) for part in (each["role"], each["project"]) if part)
        ends = "revoked" if each["revoked_ns"] else _moment(each["expires_ns"])
        if not each["revoked_ns"] and 0 < (each["expires_ns"] or 0) < time.time_ns():
            ends = f"{ends} (over)"
        used = _moment(each["used_ns"])
        words = (each["id"], each["user"], may or "all", used, ends, each["label"])
        rows.append([Cell(clean(str(word))) for word in words])
    titles = ("TOKEN", "USER", "MAY", "USED", "ENDS", "LABEL")
    Screen().table([Column(title) for title in titles], rows)


@token.command(short_help="End a token for good.")
@click.argument("beginning", metavar="TOKEN")
@_where
def revoke(beginning: str, url: str | None, folder: Path | None, store: str | None) -> None:
    """End a token for good, named by its beginning as `seamark token list` shows it.

    Every process of the server knows within a few seconds.
    """
    beginning = beginning.rstrip(".\N{HORIZONTAL ELLIPSIS}")[:16]
    _place(url, folder, store).revoke(beginning)
    click.echo(f"revoked {clean(beginning)}")


def _place(url: str | None, folder: Path | None, store: str | None) -> _Served | _StoredTokens:
    if folder is not None or store is not None:
        if url is not None:
            misuse("--server asks over HTTP, --folder and --store ask the database: give one")
        return _opened(folder, store)
    from seamark.remote.http.connection import Connection

    return _Served(Connection(url or _known_server()))


def _opened(folder: Path | None, store: str | None) -> _StoredTokens:
    from seamark.cli.server import settings_at

    settings = settings_at(folder, store, None)
    if settings.is_sqlite and not settings.database_folder.exists():
        misuse(f"no server has its databases in {settings.database_folder}")
    from seamark.server.accounts.accounts import Accounts
    from seamark.server.accounts.migrate import migrate
    from seamark.server.databases import open_databases

    databases = open_databases(settings.store)
    migrate(databases.account)
    return _StoredTokens(Accounts(databases.account))


def _known_server() -> str:
    """Return the server that is meant when none is named."""
    from seamark.remote.http.address import known_servers

    found = known_servers()
    if len(found) != 1:
        what = "several servers are known" if found else "no server is known"
        misuse(f"{what}: name one with --server URL (on its own machine: --folder DIR)")
    return found[0]


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdwy])", text.strip())
    if found is None:
        misuse(f"--expires: expected a number and m, h, d, w or y, such as 90d, got {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _moment(time_ns: int | None) -> str:
    if time_ns is None:
        return "never"
    return datetime.fromtimestamp(time_ns / _S, timezone.utc).strftime("%Y-%m-%d")
