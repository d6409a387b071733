"""``seamark server``, ``token``, ``login`` and ``logout``: a team's server and its tokens."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from seamark.cli._app import Misuse, misuse, options
from seamark.cli._screen import Cell, Column, Screen, note
from seamark.reading.text import clean

if TYPE_CHECKING:
    from seamark.remote.http.connection import Connection
    from seamark.server.accounts.accounts import Accounts
    from seamark.server.settings import Settings


_UNITS: Final[dict[str, int]] = {"": 1} | {
    f"{letter}{end}": base**power
    for power, letter in enumerate("kmgt", 1)
    for end, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt](?:i?b)?)?b?")
place_options = options(
    click.option(
        "--folder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder of the server.  [default: ./seamark-server]",
    ),
    click.option(
        "--store",
        metavar="URL",
        help="Databases: sqlite:///FOLDER or postgresql://USER@HOST/DATABASE.  [default: in the "
        "folder of the server]",
    ),
    click.option(
        "--blobs",
        metavar="URL",
        help="Storage of files and journals: file:///FOLDER.  [default: in the folder of the "
        "server]",
    ),
)
"""Options for the storage of a server."""


@click.group(short_help="Run a server for a team.", invoke_without_command=True)
@place_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8400, show_default=True, help="Port; 0 for any free port.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    metavar="INTEGER",
    show_default=True,
    help="Number of processes that serve requests; 1 with SQLite.",
)
@click.option(
    "--fold-workers",
    type=click.IntRange(1, 256),
    default=1,
    metavar="INTEGER",
    show_default=True,
    help="Number of processes that fold journals into the store.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain, PEM.")
@click.option(
    "--tls-key", type=click.Path(path_type=Path), help="Private key of the certificate, PEM."
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy that terminates TLS for the server: X-Forwarded-For and -Proto are trusted "
    "only from its address. May be repeated.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Accept connections from other machines without TLS: anyone on the network can read "
    "tokens.",
)
@click.option(
    "--auth", default="", metavar="NAME", help="Name of an installed authentication plug-in."
)
@click.option(
    "--quota",
    metavar="SIZE",
    callback=lambda _context, _option, text: size_of(text),
    help="Maximum size of the journals and files of each workspace (the first part of a project "
    "path): 500GB, 2TB, or a number of bytes.  [default: no limit]",
)
@click.pass_context
def server(
    context: click.Context,
    /,
    folder: Path | None,
    store: str | None,
    blobs: str | None,
    proxies: tuple[str, ...],
    *,
    insecure: bool,
    **rest: Any,
) -> None:
    """Run a server for a team: trainings send their runs to it, and the team reads them.

    Without options, all data is in ./seamark-server, and only this machine can connect. The first
    start prints the token of the admin, once.

    \b
    Examples:
      seamark server
      seamark server --store postgresql://seamark@db/seamark --workers 4
      seamark server --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
      seamark server --host 10.0.0.5 --proxy 10.0.0.1     behind nginx or caddy

    Then, on the machines of users and trainings: seamark login URL
    """
    if context.invoked_subcommand is not None:
        context.obj = (folder, store, blobs)
        return
    settings = settings_at(folder, store, blobs, proxies=tuple(proxies), **rest)
    from seamark.server import checks, run

    checks.check_settings(settings, insecure=insecure)

    def print_started(token: str | None, url: str) -> None:
        for line in run.started_words(settings, token, url):
            click.echo(line)

    os.umask(0o077)  # only this user may read the records of runs
    context.exit(run.serve(settings, note, print_started))


def size_of(text: str | None) -> int | None:
    """Return the number of bytes of a size such as ``500GB`` or ``1.5 TiB``."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower())
    size = 0 if found is None else round(float(found[1]) * _UNITS[found[2] or ""])
    if size < 1:
        raise click.BadParameter(
            f"expected a size such as 500GB, 2TB or a number of bytes, got {text!r}"
        )
    return size


@server.command(short_help="Create the tables and the first admin.")
@click.pass_context
def init(context: click.Context) -> None:
    """Create the tables and the first admin, print the token of the admin, and exit.

    `seamark server` does this at its first start. If that would print the token into a log, as
    under systemd, run this command first.

    \b
    Example:
      seamark server --store postgresql://seamark@db/seamark init
    """
    os.umask(0o077)
    settings = settings_at(*context.obj)
    from seamark.server import run

    token = run.prepare(settings)
    if token is None:
        note("the server is already set up; its admins have their tokens")
    else:
        click.echo(token)
        note("token of the first admin, shown only once; store it with: seamark login URL")


def settings_at(folder: Path | None, store: str | None, blobs: str | None, **rest: Any) -> Settings:
    """Return the settings of a server; Misuse if the packages of the server are not installed."""
    from importlib.util import find_spec

    names = ("alembic", "fastapi", "psycopg", "re2", "sqlalchemy", "uvicorn")
    if missing := [name for name in names if find_spec(name) is None]:
        raise Misuse(
            f"the server needs {', '.join(missing)}, not installed here: "
            'pip install "seamark[server]"'
        )
    from seamark.server.settings import DEFAULT_FOLDER, Settings

    place = folder or Path(DEFAULT_FOLDER)
    if store is not None and store.startswith("sqlite:///"):
        store = f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return Settings.at(place, store, blobs, **rest)


@server.command(short_help="Rebuild the store from all stored objects.")
@click.option(
    "--objects",
    is_flag=True,
    help="Also rebuild the tables of stored objects from the objects, for example after the loss "
    "of a database. Stop the server first.",
)
@click.pass_context
def refold(context: click.Context, /, *, objects: bool) -> None:
    """Rebuild the store of the server from its objects alone.

    The server may keep running: readers use the old store until the new one replaces it at the end.
    The options for the storage of the server come before `refold`.

    \b
    Examples:
      seamark server refold
      seamark server --store postgresql://seamark@db/seamark refold
    """
    settings = settings_at(*context.obj)
    from seamark.cli._screen import progress_bar
    from seamark.server.folding.refold import refold_server

    with progress_bar("folding", of_bytes=True) as progress:
        name = refold_server(settings, objects=objects, progress=progress)
    note(f"the store was rebuilt; readers use {name} now")


_S: Final = 1_000_000_000
_TIME_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


class _ServerTokens:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, wanted: Mapping[str, Any]) -> str:
        answer = self._connection.send_json("POST", "accounts/tokens", wanted).record()
        return str(answer["token"])

    def list(self) -> list[dict[str, Any]]:
        return list(self._connection.ask("GET", "accounts/tokens").record()["tokens"])

    def revoke(self, token: str) -> None:
        self._connection.ask("DELETE", f"accounts/tokens/{quote(token, safe='')}")


class _StoredTokens:
    """Tokens in a database on this machine; a user with write access acts as an admin."""

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


_server_options = options(
    click.option(
        "--server",
        "url",
        metavar="URL",
        help="URL of the server.  [default: SEAMARK_REMOTE, else the server that you are logged "
        "in to]",
    ),
    click.option(
        "--folder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="On the machine of the server: its folder.",
    ),
    click.option(
        "--store",
        metavar="URL",
        help="On the machine of the server: its databases, as given to `seamark server --store`.",
    ),
)
"""Options for the selection of a server."""


@click.group(short_help="Create, list and revoke tokens of a server.")
def token() -> None:
    """Create, list and revoke tokens of a server.

    All users can create tokens for themselves. An admin of the server can create tokens for all
    users, and an owner of a project for service accounts in it. On the machine of the server,
    --folder or --store accesses its database directly.

    \b
    Examples:
      seamark token create                            another token for yourself
      seamark token create alice --project team --role contributor
      seamark token create trainer --service --project team/vision --expires 90d
      seamark token list
      seamark token revoke seamark_Ab3dE6gH
    """


@token.command(short_help="Create a token; it is shown once.")
@click.argument("user", required=False)
@click.option(
    "--project", metavar="PATH", help="Limit the token to this project and its sub-projects."
)
@click.option(
    "--role",
    type=click.Choice(["viewer", "contributor", "owner"]),
    help="Highest role of the token.  [default for other users with --project: contributor]",
)
@click.option("--label", default="", help="Purpose of the token.")
@click.option(
    "--expires",
    metavar="TIME",
    help="Time until the token expires: 12h, 30d, 1y.  [default: never]",
)
@click.option("--service", is_flag=True, help="If USER is new, create a service account.")
@click.option("--admin", is_flag=True, help="If USER is new, create an admin of the server.")
@click.option(
    "--neptune", is_flag=True, help="Print the environment variables of the package neptune."
)
@_server_options
def create(
    user: str | None,
    expires: str | None,
    neptune: bool,  # noqa: FBT001 - a flag
    url: str | None,
    folder: Path | None,
    store: str | None,
    **rest: Any,
) -> None:
    """Create a token and print it; it is shown only this once.

    USER is the owner of the token, by default you. A user that does not exist is created, with the
    given role in the given project.

    \b
    Examples:
      seamark token create --label laptop --expires 90d
      seamark token create alice --project team --role owner
      seamark token create trainer --service --project team > token.txt
      seamark token create alice --project team/vision --neptune > neptune.env
      seamark token create --project team --neptune        for a workspace
      seamark token create --neptune                       with all your permissions
    """
    if neptune:
        _expect_for_neptune(rest["project"], folder or store)
        url = url or _known_server()
    wanted = {"user": user, "expires_s": _seconds_of(expires), **rest}
    secret = _tokens_of(url, folder, store).create(wanted)
    click.echo(_for_neptune(str(url), rest["project"], secret) if neptune else secret)
    if neptune:
        note("shown only once; set these environment variables where your scripts run")
        return
    note("shown only once; use it with seamark login URL, or as SEAMARK_API_TOKEN")


def _expect_for_neptune(project: str | None, database: object) -> None:
    if project is not None and project.count("/") > 1:
        misuse(
            "--neptune: expected a workspace or workspace/name, the only projects of that package"
        )
    if database is not None:
        misuse("--neptune needs the address of the server: expected --server URL, not its database")


def _for_neptune(url: str, project: str | None, secret: str) -> str:
    address = url.rstrip("/")
    token = json.dumps({"api_address": address, "api_url": address, "api_key": secret})
    lines = [f"NEPTUNE_API_TOKEN={base64.b64encode(token.encode()).decode()}"]
    if project is not None and "/" in project:
        lines.append(f"NEPTUNE_PROJECT={project}")
    if address.startswith("http://"):  # otherwise the package sends its token only over https
        lines.append("OAUTHLIB_INSECURE_TRANSPORT=1")
    return "\n".join(lines)


@token.command("list", short_help="List tokens, never their secrets.")
@_server_options
def list_tokens(url: str | None, folder: Path | None, store: str | None) -> None:
    """List your tokens or, as an admin, all tokens. Only the first characters of each are shown."""
    rows = []
    for each in _tokens_of(url, folder, store).list():
        may = " in ".join(str(part) for part in (each["role"], each["project"]) if part)
        ends = "revoked" if each["revoked_ns"] else _date_text(each["expires_ns"])
        if not each["revoked_ns"] and 0 < (each["expires_ns"] or 0) < time.time_ns():
            ends = f"{ends} (expired)"
        used = _date_text(each["used_ns"])
        words = (each["id"], each["user"], may or "all", used, ends, each["label"])
        rows.append([Cell(clean(str(word))) for word in words])
    titles = ("TOKEN", "USER", "ROLE", "LAST USED", "EXPIRES", "LABEL")
    Screen().table([Column(title) for title in titles], rows)


@token.command(short_help="Revoke a token permanently.")
@click.argument("beginning", metavar="TOKEN")
@_server_options
def revoke(beginning: str, url: str | None, folder: Path | None, store: str | None) -> None:
    """Revoke a token permanently, given its first characters as in `seamark token list`.

    All processes of the server reject it within a few seconds.
    """
    beginning = beginning.rstrip(".\N{HORIZONTAL ELLIPSIS}")[:16]
    _tokens_of(url, folder, store).revoke(beginning)
    click.echo(f"revoked {clean(beginning)}")


def _tokens_of(
    url: str | None, folder: Path | None, store: str | None
) -> _ServerTokens | _StoredTokens:
    if folder is not None or store is not None:
        if url is not None:
            misuse("expected --server (HTTP), or --folder and --store (database), got both")
        return _open_stored_tokens(folder, store)
    from seamark.remote.http.connection import Connection

    return _ServerTokens(Connection(url or _known_server()))


def _open_stored_tokens(folder: Path | None, store: str | None) -> _StoredTokens:

    settings = settings_at(folder, store, None)
    if settings.is_sqlite and not settings.database_folder.exists():
        misuse(f"no databases of a server found in {settings.database_folder}")
    from seamark.server.accounts.accounts import Accounts
    from seamark.server.accounts.tables import migrate
    from seamark.server.databases import open_databases

    databases = open_databases(settings.store)
    migrate(databases.account)
    return _StoredTokens(Accounts(databases.account))


def _known_server() -> str:
    from seamark.remote.http.address import known_server

    return known_server("name one with --server URL (on the machine of the server: --folder DIR)")


def _seconds_of(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdwy])", text.strip())
    if found is None:
        misuse(f"--expires: expected a number and m, h, d, w or y, such as 90d, got {text!r}")
    return int(found[1]) * _TIME_UNITS[found[2]]


def _date_text(time_ns: int | None) -> str:
    if time_ns is None:
        return "never"
    return datetime.fromtimestamp(time_ns / _S, timezone.utc).strftime("%Y-%m-%d")


@click.command(short_help="Store the token of a server on this machine.")
@click.argument("url", metavar="URL")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Maximum time for an answer of the server, in seconds.",
)
def login(url: str, timeout: float) -> None:
    """Check a token with a server, and store it for this user on this machine.

    The token is entered at a prompt that does not show it, or read from standard input. It is
    stored in ~/.config/seamark/credentials.json, which only you can read, and is sent only to this
    address. If SEAMARK_API_TOKEN is set, it is used instead.

    \b
    Examples:
      seamark login https://seamark.lab
      seamark login https://seamark.lab < token.txt
    """
    from seamark.remote.login import login as log_in

    if sys.stdin is not None and sys.stdin.isatty():
        token = click.prompt("Token", hide_input=True, err=True)
    else:
        token = sys.stdin.readline(4096).strip() if sys.stdin is not None else ""
    if not token:
        misuse(
            "no token was given; create one with seamark token create, or ask an admin of the "
            "server"
        )
    who = log_in(url, token, timeout)
    click.echo(f"logged in to {who.server} as {who.name}{' (admin)' if who.admin else ''}")
    for project, role in sorted(who.roles.items()):
        note(f"  {role} in {project or 'every project'}")
    if os.environ.get("SEAMARK_API_TOKEN"):
        note("SEAMARK_API_TOKEN is set: it is used instead of the stored token")
    if os.environ.get("SEAMARK_REMOTE", "") != who.server:
        note(f"to use this server by default: export SEAMARK_REMOTE={who.server}")


@click.command(short_help="Delete the stored token of a server.")
@click.argument("url", metavar="[URL]", required=False)
def logout(url: str | None) -> None:
    """Delete the stored token of a server, or of all servers. The token itself stays valid.

    To revoke a token permanently: seamark token revoke.

    \b
    Examples:
      seamark logout https://seamark.lab
      seamark logout
    """
    from seamark.remote.login import logout as log_out

    found = log_out(url)
    for address in found:
        click.echo(f"logged out of {address}")
    if not found:
        note("no token was stored" + (f" for {url}" if url else ""))
