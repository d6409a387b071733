"""Root folders of a page, and the token for access to it.

The token is stored in the folder ``seamark`` below ``XDG_STATE_HOME`` (``~/.local/state`` if
unset), which only the user can access::

    page.json   {"token": "seamark_..."}
    open.html   leads a browser to the address with the token
    views/      views of roots that this user may not write to; see `seamark.page.views`
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seamark.errors import ArgumentError, SeamarkError
from seamark.index.file import exclusive
from seamark.journal.folder import ROOT_NAME, name_of, root_dir
from seamark.journal.safe import replace_file
from seamark.process.interrupts import quietly


@dataclass(frozen=True, slots=True)
class Root:
    """Root folder of a page; its name is unique in the page, and its path need not exist."""

    name: str
    path: Path


def named_roots(paths: Sequence[str | os.PathLike[str]]) -> list[Root]:
    """Return distinct roots with unique names: those at ``paths``, or the default one without any.

    The name is that of the folder (for ``.seamark``, of its parent), preceded by as much of the
    path as is needed to make it unique.
    """
    found: dict[str, Path] = {}
    for one in paths or (None,):
        path = root_dir(one)
        if path.exists() and not path.is_dir():
            raise ArgumentError(f"root: {str(path)!r} is a file, not a folder of runs")
        found.setdefault(os.path.realpath(path), path)
    parts = [_parts(path) for path in found.values()]
    depth = 1
    while depth < max(map(len, parts)) and len({one[-depth:] for one in parts}) < len(parts):
        depth += 1
    names = ["/".join(one[-depth:]).replace("//", "/") for one in parts]
    if len(set(names)) < len(names):  # `x` and `x/.seamark`
        names = [str(path) for path in found.values()]
    return [Root(name, path) for name, path in zip(names, found.values(), strict=True)]


def _parts(path: Path) -> tuple[str, ...]:
    inside = path.parent if path.name == ROOT_NAME else path
    return inside.parts or path.parts


_FILE: Final = "page.json"
LOCK_S: Final = 10.0
"""Maximum time to wait for another process that writes the same file, in seconds."""
_ACCESS_BY_OTHERS: Final = 0o077
_MIN_TOKEN: Final = 32
"""Minimum length of a token in characters; a shorter one could be guessed."""


class StateError(SeamarkError):
    """Error for a token of a page that cannot be stored safely."""


def keep() -> str:
    """Return the token of this user; create it if it is missing.

    If others can read the file, or it belongs to another user, the token is replaced.
    """
    place = state_folder() / _FILE
    with exclusive(place, LOCK_S):
        return _read(place) or new_token()


def new_token() -> str:
    """Replace the stored token, which becomes invalid."""
    made = f"seamark_{secrets.token_urlsafe(32)}"
    _write(_FILE, json.dumps({"token": made}))
    return made


def instance_of(token: str, roots: Sequence[Root]) -> str:
    """Return the id of a page with these roots, which stays the same across restarts."""
    text = "\0".join([token, *sorted(os.path.realpath(root.path) for root in roots)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def redirect_file(url: str) -> Path:
    """Write a file that redirects a browser to an address; only this user can read it.

    The address contains the token, and every user of the machine can read command lines.
    """
    shown = html.escape(url)
    return _write(
        "open.html",
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={shown}"><title>Seamark</title>'
        f'<a href="{shown}">Open the page</a>\n',
    )


def state_folder(*, check: bool = True) -> Path:
    """Return the folder of this user's page; create it if it is missing.

    A user with write access could make this user send the token to another page, so StateError is
    raised if others have access. Without ``check``, only the path is returned.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    made = Path(base) / "seamark"
    if not check:
        return made
    me = os.geteuid()
    try:
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        for found in (made.lstat(), made.stat()):  # also of the link, if it is one
            if found.st_uid != me:
                raise _unsafe(made, f"belongs to {name_of(found.st_uid)}, not to {name_of(me)},")
        if made.stat().st_mode & _ACCESS_BY_OTHERS:
            made.chmod(0o700)
        if mode := made.stat().st_mode & _ACCESS_BY_OTHERS:
            words = f"stays open to others (mode {0o700 | mode:o}) on this file system,"
            raise _unsafe(made, words)
    except OSError as error:
        raise StateError(
            f"cannot store the token of the page in {made}: {error.strerror}; "
            "set XDG_STATE_HOME to another folder"
        ) from error
    return made


def _unsafe(place: Path, why: str) -> StateError:
    return StateError(
        f"{place} {why} so no token is stored there; set XDG_STATE_HOME to another folder"
    )


def _read(place: Path) -> str | None:
    with quietly(only=(OSError, ValueError, TypeError, KeyError)):
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(fd)
            mine = facts.st_uid == os.geteuid() and not facts.st_mode & _ACCESS_BY_OTHERS
            token = json.load(file)["token"]
        if (
            mine
            and stat.S_ISREG(facts.st_mode)
            and isinstance(token, str)
            and len(token) >= _MIN_TOKEN
        ):
            return token
    return None


def _write(name: str, text: str) -> Path:
    place = state_folder() / name
    try:
        replace_file(place, text, 0o600)
    except OSError as error:
        raise StateError(
            f"cannot write {place}: {error.strerror}; set XDG_STATE_HOME to another folder"
        ) from error
    return place
