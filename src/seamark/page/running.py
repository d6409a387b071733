"""State files of a user's pages: their common token, and a file for each page that runs.

The files are below ``XDG_STATE_HOME`` (``~/.local/state`` if that is not set), and only their owner
can read them::

    seamark/page.json               {"token": "seamark_...", "key": "..."}
    seamark/pages/<host>.<pid>.json a page that runs: its address, its roots and its process

The key identifies the pages of this user to their browser. It does not change with the token.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import SeamarkError
from seamark.journal.root import name_of
from seamark.process.interrupts import quietly
from seamark.process.liveness import boot_id, host_name, process_alive, process_facts

if TYPE_CHECKING:
    from seamark.page.roots import Root

__all__ = [
    "Kept",
    "Page",
    "StateError",
    "find_page",
    "folder",
    "instance_of",
    "keep",
    "new_token",
    "noted",
    "page_at",
    "pages",
    "redirect_file",
]

_ANSWER_S: Final = 3.0
_OLD_S: Final = 60.0
_MOST_BYTES: Final = 1 << 16
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
_OTHERS: Final = 0o077
_LEAST: Final = 32
"""A shorter token could be guessed."""


class StateError(SeamarkError):
    """Error when the state files of a page cannot be used."""


@dataclass(frozen=True, slots=True)
class Kept:
    """State that all pages of a user share.

    Attributes:
        token: Token that gives access to everything.
        key: Random text, which is not secret.
    """

    token: str
    key: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page that runs.

    Attributes:
        roots: Real paths of what it shows, sorted.
        host: Address at which it listens.
        port: Port at which it listens.
        instance: What it calls itself.
        token: Whether it wants one.
        embed: Whether a notebook may show it.
        process: Which process it is; see `seamark.process.liveness.process_facts`.
    """

    roots: list[str]
    host: str
    port: int
    instance: str
    token: bool
    embed: bool
    process: dict[str, Any]


def folder() -> Path:
    """Return the folder for all this, made if it was not there, and closed to others if it was.

    Raises:
        StateError: If it cannot be made, is another user's, or stays open to others.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    made = Path(base) / "seamark"
    try:
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        (made / "pages").mkdir(mode=0o700, exist_ok=True)
        for one in (made, made / "pages"):
            _close_to_others(one)
    except OSError as error:
        msg = (
            f"the token of the page cannot be kept in {made}: {error.strerror}; "
            "name another folder with XDG_STATE_HOME"
        )
        raise StateError(msg) from error
    return made


def _close_to_others(place: Path) -> None:
    """Make sure that a folder, or a link to one, is this user's, and nobody else's to look into.

    Who could write there would have this user show their token to a page of their own.

    Raises:
        StateError: If it is another user's, or stays open to others.
        OSError: If it cannot be looked at or changed.
    """
    me = os.geteuid()
    for found in (place.lstat(), place.stat()):
        if found.st_uid != me:
            msg = (
                f"{place} belongs to {name_of(found.st_uid)}, not to {name_of(me)}, and no token "
                "is kept there; name another folder with XDG_STATE_HOME"
            )
            raise StateError(msg)
    if not place.stat().st_mode & _OTHERS:
        return
    place.chmod(0o700)
    if mode := place.stat().st_mode & _OTHERS:
        msg = (
            f"{place} stays open to others (mode {0o700 | mode:o}) on this file system, and no "
            "token is kept there; name another folder with XDG_STATE_HOME"
        )
        raise StateError(msg)


# ---------------------------------------------------------------------- the token


def keep() -> Kept:
    """Return the token and the key of this user, made if there were none.

    A file that others can read, or that is not this user's, is not believed: there is a new token.

    Raises:
        StateError: If they cannot be kept.
    """
    place = folder() / "page.json"
    made = Kept(_fresh(), secrets.token_hex(8))
    for _ in range(2):
        found = _read_own(place) or {}
        token, key = found.get("token"), found.get("key")
        if isinstance(token, str) and isinstance(key, str) and len(token) >= _LEAST and key:
            return Kept(token, key)
        if _write_first(place, asdict(made)):
            return made
    _write(place, asdict(made))
    return made


def new_token() -> Kept:
    """Make a token in the place of the one that there is, which opens nothing any more.

    Raises:
        StateError: If it cannot be kept.
    """
    made = Kept(_fresh(), keep().key)
    _write(folder() / "page.json", asdict(made))
    return made


def instance_of(kept: Kept, roots: Sequence[Root]) -> str:
    """Return what a page with these roots calls itself, the same after each start."""
    text = "\0".join([kept.key, *_real(roots)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _fresh() -> str:
    return f"seamark_{secrets.token_urlsafe(32)}"


# ---------------------------------------------------------------------- pages that run


@contextlib.contextmanager
def noted(page: Page) -> Iterator[None]:
    """Let other processes of this user know of a page during a block."""
    place = folder() / "pages" / f"{host_name()}.{os.getpid()}.json"
    _write(place, asdict(page))
    try:
        yield
    finally:
        with quietly(only=OSError):
            place.unlink()


def page_at(
    roots: Sequence[Root], host: str, port: int, instance: str, *, token: bool, embed: bool
) -> Page:
    """Return what is noted of a page of this process."""
    return Page(_real(roots), host, port, instance, token, embed, process_facts())


def pages() -> Iterator[Page]:
    """Yield the pages of this user that run on this host, as far as files say so.

    What a process has left that is gone is removed.
    """
    for place in sorted((folder() / "pages").glob(f"{host_name()}.*.json")):
        found = _read_own(place)
        page = None if found is None else _page(found)
        alive = None if page is None else process_alive(page.process)
        if page is not None and (alive or (alive is None and boot_id() is None)):
            yield page
        elif page is None or alive is False or page.process.get("boot") != boot_id():
            with quietly(only=OSError):
                place.unlink()


def find_page(roots: Sequence[Root], *, embed: bool = False) -> Page | None:
    """Return a page of this user that shows these roots and answers; None if there is none.

    That the process lives is not enough, which may hang; nor that something answers, which may be
    another program that has the port now.

    Args:
        roots: What it has to show, and nothing else.
        embed: Whether a notebook has to be able to show it.
    """
    wanted = _real(roots)
    for page in pages():
        fits = page.roots == wanted and (page.embed or not embed)
        if fits and _answers(page):
            return page
    return None


def _answers(page: Page) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(page.host, page.host)  # noqa: S104
    connection = http.client.HTTPConnection(host, page.port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/api/v1/")
        told = json.loads(connection.getresponse().read(_MOST_BYTES))
        return bool(told["instance"] == page.instance)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def _page(found: dict[str, Any]) -> Page | None:
    kinds = {"roots": list, "port": int, "token": bool, "embed": bool, "process": dict}
    names = [one.name for one in fields(Page)]
    if not all(isinstance(found.get(name), kinds.get(name, str)) for name in names):
        return None
    return Page(**{name: found[name] for name in names})


def _real(roots: Sequence[Root]) -> list[str]:
    return sorted(os.path.realpath(root.path) for root in roots)


# ---------------------------------------------------------------------- files


def redirect_file(url: str) -> Path:
    """Return a new file that leads a browser to an address; nobody else can read it.

    The address has the token in it, and all that is in a command line can be read by everybody on
    this machine.
    """
    place = folder()
    with quietly(only=OSError):
        for one in place.glob("open-*.html"):
            if time.time() - one.stat().st_mtime > _OLD_S:
                one.unlink()
    made = place / f"open-{secrets.token_hex(8)}.html"
    shown = url.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    text = (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={shown}"><title>Seamark</title>'
        f'<a href="{shown}">Open the page</a>\n'
    )
    _create(made, text.encode())
    return made


def _read_own(place: Path) -> dict[str, Any] | None:
    """Return what a file says that nobody but this user can read or has written; else None."""
    with quietly(only=(OSError, ValueError)):
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(fd)
            mine = facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS
            if not (mine and stat.S_ISREG(facts.st_mode)):
                return None
            found = json.loads(file.read(_MOST_BYTES))
            return found if isinstance(found, dict) else None
    return None


def _create(place: Path, data: bytes) -> None:
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as out:
        os.fchmod(fd, 0o600)  # whatever the umask takes away
        out.write(data)
        out.flush()
        os.fsync(fd)


def _draft(place: Path, told: dict[str, Any]) -> Path:
    draft = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    _create(draft, json.dumps(told).encode())
    return draft


def _write(place: Path, told: dict[str, Any]) -> None:
    """Write a file, in the place of another one too.

    Raises:
        StateError: If that is impossible.
    """
    try:
        draft = _draft(place, told)
        try:
            draft.replace(place)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _cannot(place, error) from error


def _write_first(place: Path, told: dict[str, Any]) -> bool:
    """Write a file unless there is one, which another process may make at the same moment.

    Raises:
        StateError: If that is impossible.
    """
    try:
        draft = _draft(place, told)
        try:
            os.link(draft, place)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot(place, error) from error
    return True


def _cannot(place: Path, error: OSError) -> StateError:
    msg = f"{place} cannot be written: {error.strerror}; name another folder with XDG_STATE_HOME"
    return StateError(msg)
