"""``seamark login`` and ``seamark logout``: the token of a server, kept on this machine."""

from __future__ import annotations

import os
import sys

import click

from seamark.cli._app import misuse
from seamark.cli._screen import note

__all__ = ["login", "logout"]


@click.command(short_help="Keep the token of a server on this machine.")
@click.argument("url", metavar="URL")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="How long the server may take to answer, seconds.",
)
def login(url: str, timeout: float) -> None:
    """Try a token at a server and keep it, for this user of this machine.

    The token is asked for without showing it, or read from standard input. It is kept in
    ~/.config/seamark/credentials.json, which only you can read, and is shown to this one address
    only. SEAMARK_API_TOKEN, where it is set, is used in its place.

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
        misuse("no token was given; seamark token create makes one, or an admin of the server does")
    who = log_in(url, token, timeout)
    click.echo(f"logged in to {who.server} as {who.name}{' (admin)' if who.admin else ''}")
    for project, role in sorted(who.roles.items()):
        note(f"  {role} in {project or 'every project'}")
    if os.environ.get("SEAMARK_API_TOKEN"):
        note("SEAMARK_API_TOKEN is set: it is used in the place of the token that was kept")
    if os.environ.get("SEAMARK_REMOTE", "") != who.server:
        note(f"to send and read there by default: export SEAMARK_REMOTE={who.server}")


@click.command(short_help="Forget the token of a server.")
@click.argument("url", metavar="[URL]", required=False)
def logout(url: str | None) -> None:
    """Forget the token of a server, or of all servers. The token itself stays good.

    To end a token for good, everywhere: seamark token revoke.

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
        note("no token was kept" + (f" for {url}" if url else ""))
