"""``seamark ui``: web page of the runs on this machine."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli._app import misuse, place_of, root_only
from seamark.cli._runs import expect_root
from seamark.cli._screen import note
from seamark.reading.text import clean, duration_words, plural
from seamark.remote.http.address import is_loopback

if TYPE_CHECKING:
    from seamark.page.roots import Root
    from seamark.page.start import Started
    from seamark.page.watch import Watcher


_FIRST_READ_S = 1.0


@click.command(short_help="Open the web page of the runs on this machine.")
@click.argument("folders", nargs=-1, type=click.Path(), metavar="[FOLDER]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port; 0 for any free port.  [default: 8765, else the next free port]",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--no-token",
    is_flag=True,
    help="Let all users of this machine see and edit the runs, not only you.",
)
@click.option(
    "--new-token",
    is_flag=True,
    help="Create a new token first; pages that are started from now on do not accept the old one.",
)
@click.option("--print-token", is_flag=True, help="Print the token of your pages, and exit.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With --no-token: a further host name that browsers may use. May be repeated.",
)
@click.option(
    "--embed", is_flag=True, help="Let notebooks on this machine show the page in a frame."
)
@root_only
@click.pass_context
def ui(
    context: click.Context,
    folders: tuple[str, ...],
    host: str,
    port: int | None,
    hosts: tuple[str, ...],
    *,
    no_browser: bool,
    no_token: bool,
    new_token: bool,
    print_token: bool,
    embed: bool,
) -> None:
    """Show runs in the browser: tables, curves and output, during or after training.

    Each FOLDER is a root; without FOLDER, the root of `seamark ls` is used. Access requires a
    token, which is part of the printed address and stays the same.

    \b
    Examples:
      seamark ui
      seamark ui ~/work/.seamark /scratch/anna/.seamark
      seamark ui --port 9000 --no-browser
      seamark ui --print-token
    """
    from seamark.page import opening
    from seamark.page.roots import keep
    from seamark.page.start import Given, check, check_extra, serve

    if print_token:
        click.echo(_create_token() if new_token else keep())
        return
    roots = _roots(context, folders)
    check_extra()
    given = Given(roots, host, port, token=not no_token, hosts=hosts, embed=embed)
    check(given)
    if new_token:
        _create_token()
    if not is_loopback(host):
        note(
            "connections from other machines are not encrypted: anyone on the network can read the "
            "token and the values; ssh -L is safe"
        )

    def print_started(started: Started, watcher: Watcher) -> None:
        for line in _start_lines(roots, started, watcher):
            click.echo(line)
        if not no_browser:
            opening.open_browser(started.url, started.token)

    context.exit(serve(given, print_started))


def _roots(context: click.Context, folders: Sequence[str]) -> Sequence[Root]:
    from seamark.opening.place import first_remote, readable
    from seamark.page.roots import named_roots

    place, named = place_of(context, local="ui")
    assert isinstance(place, Path)  # noqa: S101 - a root, as asked for
    by_option = context.find_root().params.get("root") is not None
    if not folders:
        if not by_option and (remote := first_remote(os.environ.get("SEAMARK_REMOTE"))):
            there = readable(remote)
            if isinstance(there, Path):
                place, named = there, True
            else:
                note(f"these are the runs on this machine; a server has its own page: {there}")
        expect_root(place, missing_ok=not named)
        return named_roots([place])
    if by_option:
        misuse("expected folders or --root, got both")
    roots = named_roots(folders)
    for one in roots:
        expect_root(one.path, missing_ok=False)
    return roots


def _create_token() -> str:
    from seamark.page import roots

    made = roots.new_token()
    note("running pages, here or on other machines, still use the old token: restart them")
    return made


def _start_lines(roots: Sequence[Root], started: Started, watcher: Watcher) -> Iterator[str]:
    from seamark.server.access import Looked

    watcher.wait_for_roots(_FIRST_READ_S)
    for place, root in enumerate(roots):
        looked, more = watcher.looked(place), ""
        if looked == Looked():  # no result yet
            yield f"seamark: reading the runs in {clean(str(root.path))}"
            continue
        if looked.left:
            lasts = f", {duration_words(looked.left_s)}" if looked.left_s else ""
            more = f"   (index: {looked.left:,} more being read{lasts})"
        elif not looked.looked_ns:
            more = "   (index: being read)"
        counts = f"{plural(looked.runs, 'run')}, {looked.running:,} running"
        yield f"seamark: {counts}, in {clean(str(root.path))}{more}"
    yield from _address_lines(started)
    yield "Ctrl-C stops this page; trainings continue."


def _address_lines(started: Started) -> Iterator[str]:
    from seamark.page import opening

    secret = "" if _is_public_output() else opening.fragment(started.token)
    if through := opening.proxied(started.port):
        yield f"  open      {through}{secret}"
        yield f"  or here   {started.url}{secret}"
    else:
        yield f"  open      {started.url}{secret}"
    if started.token and not secret:
        yield "  token     printed by `seamark ui --print-token`: others may read this file"
    if line := opening.ssh_line(started.host, started.port):
        yield f"  from your machine: {line}"


def _is_public_output() -> bool:
    """Return whether output goes to a file that other users may read, such as the log of a job."""
    try:
        facts = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISREG(facts.st_mode) and bool(facts.st_mode & (stat.S_IRGRP | stat.S_IROTH))
