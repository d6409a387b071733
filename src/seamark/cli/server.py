"""``seamark server``: a team's server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli._app import Misuse, options
from seamark.cli._screen import note

if TYPE_CHECKING:
    from seamark.server.settings import Settings

__all__ = ["server"]

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
        help="Databases: sqlite:///FOLDER or postgresql://USER@HOST/DATABASE.  [default: in "
        "the folder of the server]",
    ),
    click.option(
        "--blobs",
        metavar="URL",
        help="Where files and journals are kept: file:///FOLDER.  [default: in the folder of "
        "the server]",
    ),
)
"""Where a server keeps what it has."""


@click.group(short_help="Run a server for a team.", invoke_without_command=True)
@place_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8400, show_default=True, help="Port; 0 for one that is free.")
@click.option(
    "--workers", default=1, show_default=True, help="Processes that answer; SQLite takes one."
)
@click.option("--fold-workers", default=1, show_default=True, help="Processes that fold.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, PEM.")
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy that speaks TLS for the server: X-Forwarded-For and -Proto are believed from "
    "it, and from nobody else. May be repeated.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen beyond this machine without TLS: everybody on the way can read tokens.",
)
@click.option("--auth", default="", metavar="NAME", help="An installed way to say who asks.")
@click.option(
    "--quota",
    metavar="SIZE",
    callback=lambda _context, _option, text: size_of(text),
    help="How much each workspace (the first part of a project path) may keep, journals and files "
    "together: 500GB, 2TB, or a number of bytes.  [default: no limit]",
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
    """Run a server for a team: trainings send to it, and everybody reads from it.

    Without options all that it needs lies in ./seamark-server, and only this machine reaches it.
    The first start prints the token of its admin once.

    \b
    Examples:
      seamark server
      seamark server --store postgresql://seamark@db/seamark --workers 4
      seamark server --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
      seamark server --host 10.0.0.5 --proxy 10.0.0.1     behind nginx or caddy

    Then, where people and trainings are: seamark login URL
    """
    if context.invoked_subcommand is not None:
        context.obj = (folder, store, blobs)
        return
    settings = settings_at(folder, store, blobs, proxies=tuple(proxies), **rest)
    from seamark.server import checks, run

    checks.check_settings(settings, insecure=insecure)

    def print_started(prepared: run.Prepared, url: str) -> None:
        for line in run.started_words(settings, prepared, url):
            click.echo(line)

    os.umask(0o077)  # nobody else reads what runs recorded
    context.exit(run.serve(settings, note, print_started))


def size_of(text: str | None) -> int | None:
    """Return a number of bytes as people write it, such as ``500GB`` or ``1.5 TiB``.

    Raises:
        click.BadParameter: If it is none.
    """
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower())
    size = 0 if found is None else round(float(found[1]) * _UNITS[found[2] or ""])
    if size < 1:
        msg = f"expected a size such as 500GB, 2TB or a number of bytes, got {text!r}"
        raise click.BadParameter(msg)
    return size


@server.command(short_help="Make the tables and the first admin, and end.")
@click.pass_context
def init(context: click.Context) -> None:
    """Make the tables and the first admin, print the admin's token, and end.

    `seamark server` does so by itself at its first start. Where that would print the token into a
    log, as under systemd, do it by hand before.

    \b
    Example:
      seamark server --store postgresql://seamark@db/seamark init
    """
    from seamark.server import run

    os.umask(0o077)
    settings = settings_at(*context.obj)
    prepared = run.prepare(settings)
    for line in prepared.notes:
        note(line)
    if prepared.token is None:
        note("everything is there already; its admins have their tokens")
    else:
        click.echo(prepared.token)
        note("token of the first admin, shown this once; keep it: seamark login URL")


def settings_at(folder: Path | None, store: str | None, blobs: str | None, **rest: Any) -> Settings:
    """Return the settings of a server, after a look whether its packages are installed."""
    _check_extra()
    from seamark.server.settings import DEFAULT_FOLDER, Settings

    place = folder or Path(DEFAULT_FOLDER)
    if store is not None and store.startswith("sqlite:///"):
        store = f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return Settings.at(place, store, blobs, **rest)


def _check_extra() -> None:
    from importlib.util import find_spec

    names = ("alembic", "fastapi", "psycopg", "re2", "sqlalchemy", "uvicorn")
    if missing := [name for name in names if find_spec(name) is None]:
        msg = (
            f"the server needs {', '.join(missing)}, not installed here: "
            'pip install "seamark[server]"'
        )
        raise Misuse(msg)


@server.command(short_help="Fold everything again into a new store.")
@click.option(
    "--objects",
    is_flag=True,
    help="Also make the tables of what is kept again from the objects, as after the loss of a "
    "database. Stop the server before.",
)
@click.pass_context
def refold(context: click.Context, /, *, objects: bool) -> None:
    """Fold all that the server keeps again, from its objects alone.

    The server may go on meanwhile: the new store is made beside the one that is read, which it
    replaces at the end. Options that say where the server keeps things stand before `refold`.

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
    note(f"everything is folded again; readers use {name} now")
