"""Addresses of a page: local, through a proxy and over ssh; opening of a browser.

The token is in the fragment of an address, which browsers never send to a server. It is never part
of a command line, which every user of the machine can read.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from seamark.page.roots import redirect_file
from seamark.process.interrupts import quietly
from seamark.process.liveness import user_name

_TEXT_BROWSERS: Final = frozenset(
    {"browsh", "carbonyl", "elinks", "links", "links2", "lynx", "w3m", "www-browser"}
)
"""Text browsers, which cannot display the page."""
_SSH_PORT: Final = "22"


def address(host: str, port: int) -> str:
    """Return the address of a page without a token; a wildcard host becomes this machine's name."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::", "") else host  # noqa: S104
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def fragment(token: str | None) -> str:
    """Return the fragment of an address from which the page reads its token."""
    return "" if token is None else f"#token={quote(token, safe='')}"


def over_ssh(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether the user is logged in over ssh."""
    return any(env.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))


def proxied(port: int, env: Mapping[str, str] = os.environ) -> str | None:
    """Return the address through the proxy of a JupyterHub, without a token; None without a hub.

    If the hub does not set its public address, only the path is returned.
    """
    prefix = env.get("JUPYTERHUB_SERVICE_PREFIX")
    if not prefix:
        return None
    public = env.get("JUPYTERHUB_PUBLIC_URL") or f"/{prefix.strip('/')}/"
    return f"{public.rstrip('/')}/proxy/{port}/"


def ssh_line(host: str, port: int, env: Mapping[str, str] = os.environ) -> str | None:
    """Return the ssh command for access from another machine; None if none is needed.

    It is needed over ssh and in a SLURM job, which is reached through the submitting machine.
    """
    job = env.get("SLURM_JOB_ID")
    if not (job or over_ssh(env)):
        return None
    user = user_name() or "USER"
    here = (env.get("SLURMD_NODENAME") if job else None) or socket.gethostname()
    words = ["ssh"]
    if job:
        through = env.get("SLURM_SUBMIT_HOST") or "LOGIN"
        if through != here:
            words += ["-J", f"{user}@{through}"]
    else:
        parts = env.get("SSH_CONNECTION", "").split()
        if len(parts) == 4 and parts[3] != _SSH_PORT and parts[3].isdecimal():  # noqa: PLR2004 - two ends
            words += ["-p", parts[3]]
    to = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    inner = f"[{to}]" if ":" in to else to
    words += ["-L", f"{port}:{inner}:{port}", f"{user}@{here}"]
    return shlex.join(words)


def open_browser(url: str, token: str | None, env: Mapping[str, str] = os.environ) -> bool:
    """Try to open a page in a browser; return whether there is a browser to open.

    There is one if ``BROWSER`` is set, or if there is a display and no ssh session. The call does
    not wait, and ignores failures. Over ssh, ``BROWSER`` opens a browser on another machine, which
    cannot read files of this one, so the page asks for the token.
    """
    screen = sys.platform == "darwin" or env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")
    if not env.get("BROWSER") and (over_ssh(env) or not screen):
        return False
    with quietly(only=(webbrowser.Error, OSError)):
        browser = webbrowser.get()
        program = str(getattr(browser, "name", "")).split(" ")[0]
        if Path(program).name in _TEXT_BROWSERS:
            return False
        target = url
        if token is not None and not over_ssh(env):
            target = redirect_file(url + fragment(token)).as_uri()
        # A browser that was not running may block its caller.
        threading.Thread(
            target=_open_quietly, args=(browser, target), name="seamark-browser", daemon=True
        ).start()
        return True
    return False


def _open_quietly(browser: webbrowser.BaseBrowser, target: str) -> None:
    with quietly(only=(webbrowser.Error, OSError, ValueError)):
        browser.open(target)
