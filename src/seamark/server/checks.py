"""Checks before a server starts; each error is one line that explains how to fix the problem.

Objects and tables hold the same random name. If the names differ, for example because a volume is
not mounted, the server must not start: it would acknowledge data that cannot be found again later.

A lock prevents a second server on the same SQLite files. It is a kernel lock on an open file
(``flock``), which ends with the process and which no child process inherits. Network file systems,
where such a lock may hold on one machine only, are refused for SQLite (`seamark.server.databases`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from seamark.errors import ArgumentError, SeamarkError
from seamark.remote.http.address import bind_words, is_loopback
from seamark.server.accounts.tables import READ_FACT, WRITE_FACT, instance_of
from seamark.server.databases import Databases, lock_file, redacted
from seamark.server.kept.layout import PREFIX
from seamark.server.objects import ObjectStore, open_objects
from seamark.server.settings import Settings

_IDENTITY: Final = "identity"
"""Name of the object, and key of the row in the table of facts, that hold the same random name."""
_REFOLD_HINT: Final = (
    "rebuild the tables from the objects with `seamark server refold --objects` and the same"
    " options (`seamark sync` sends missing data again)"
)


def open_matching_objects(databases: Databases, uri: str, *, adopt: bool = False) -> ObjectStore:
    """Open the object storage of a server; raise `CannotStart` unless it belongs to its tables.

    With `adopt`, the tables take over the name of the objects, because they are rebuilt from them.
    """
    rows = databases.account.fetch(READ_FACT, at=_IDENTITY)
    known = str(rows[0][0]) if rows else None
    folder = folder_of(uri)
    if folder is not None:
        if known is not None and not adopt and not (folder / _IDENTITY).is_file():
            raise _missing_objects(uri)
        check_folder(folder, "--blobs")
    objects = open_objects(uri)
    try:
        _check_identity(databases, objects, uri, known, adopt=adopt)
    except BaseException:
        objects.close()
        raise
    return objects


def _check_identity(
    databases: Databases, objects: ObjectStore, uri: str, known: str | None, *, adopt: bool
) -> None:
    expected = known or instance_of(databases.account)
    found = _read_identity(objects)
    if found is None and not adopt:
        if known is not None:
            raise _missing_objects(uri)
        if next(objects.listed(PREFIX), None) is not None:
            return  # the tables were lost; see `lost_database`
    if found is None:
        try:
            objects.put(_IDENTITY, expected.encode())
        except FileExistsError:  # another process of this server was faster
            found = _read_identity(objects)
    found = found or expected
    if found != expected and not adopt:
        raise CannotStart(
            f"--blobs: the objects in {_quoted(uri)} belong to another database: use"
            f" the matching --store and --blobs, or {_REFOLD_HINT}"
        )
    if found != known:
        with databases.account.writing() as connection:
            databases.account.run(connection, WRITE_FACT, key=_IDENTITY, value=found)


def _read_identity(objects: ObjectStore) -> str | None:
    try:
        return objects.get(_IDENTITY).decode("ascii", "replace")
    except FileNotFoundError:
        return None


def _missing_objects(uri: str) -> CannotStart:
    return CannotStart(
        f"--blobs: {_quoted(uri)} does not hold the objects of this database, perhaps because"
        f" a volume is not mounted: use or mount the right one, or {_REFOLD_HINT}"
    )


def _quoted(uri: str) -> str:
    folder = folder_of(uri)
    return repr(str(folder)) if folder is not None else redacted(uri)


_LOCKED_ERRORS: Final = {errno.EAGAIN, errno.EACCES}


@contextlib.contextmanager
def lock_server(settings: Settings, doing: str = "") -> Iterator[None]:
    """Lock the SQLite files of a server for a block; raise `CannotStart` if they are locked."""
    path = lock_file(settings.store)
    if path is None:
        yield
        return
    check_folder(path.parent, "--store")
    fd = _open_lock_file(path)
    try:
        _lock_exclusively(fd, path, doing)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)  # information only; the lock decides
        yield
    finally:
        os.close(fd)


def _open_lock_file(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotStart(
            f"--store: cannot write to the file {str(path)!r}: {error.strerror}"
        ) from error


def _lock_exclusively(fd: int, path: Path, doing: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _LOCKED_ERRORS:
            raise CannotStart(
                f"--store: cannot lock a file in {str(path.parent)!r} ({error.strerror}), as SQLite"
                " requires: use a folder on a local disk, or PostgreSQL"
            ) from error
        pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
        holder = f" (process {pid})" if pid.isdigit() else ""
        remedy = f"stop it before {doing}" if doing else "use that server, or stop it"
        raise CannotStart(
            f"--store: a server already runs on {str(path.parent)!r}{holder}, and SQLite supports"
            f" only one: {remedy}; several servers can share a PostgreSQL database"
        ) from error


_BACKLOG: Final = 2048
_PORT_RETRY_S: Final = 5.0


class CannotStart(SeamarkError, RuntimeError):  # noqa: N818 - named after the state
    """The server cannot start with the given settings."""


def check_settings(settings: Settings, *, insecure: bool = False) -> None:
    """Refuse settings that cannot work, or that send tokens unencrypted unless `insecure`."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ArgumentError("--tls-cert and --tls-key must be used together")
    if settings.tls_cert is not None:
        _check_certificate(settings)
    for proxy in settings.proxies:
        _check_proxy(proxy)
    if settings.is_sqlite and settings.workers > 1:
        raise ArgumentError(
            f"--workers {settings.workers}: SQLite supports only one worker; for more, use"
            " a PostgreSQL: --store postgresql://user@host/database"
        )
    if not (is_loopback(settings.host) or settings.tls_cert or settings.proxies or insecure):
        raise ArgumentError(
            f"--host {settings.host}: tokens would be sent unencrypted: use --tls-cert and"
            " --tls-key, or --proxy ADDRESS of a TLS proxy, or --insecure in a trusted network"
        )


def check_folder(folder: Path, what: str) -> None:
    """Create a folder that only its owner can enter, and check that it is writable."""
    trial = folder / f".trial-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        trial.write_bytes(b"seamark")
        trial.unlink()
    except OSError as error:
        raise CannotStart(
            f"{what}: cannot write to the folder {str(folder)!r}: {error.strerror}"
        ) from error


def folder_of(url: str) -> Path | None:
    """Return the folder of a ``file:`` URL; None for other URLs."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def lost_database(settings: Settings) -> CannotStart:
    """Return the refusal to start with an empty database if there are journals in the objects.

    A lost database is noticed before any data is sent again. Purged runs, which are listed only in
    the lost tables, do not reappear without a decision of the administrator.
    """
    msg = (
        "--store: the database is empty, but there are journals in --blobs: use the matching"
        " database, restore it from a backup, or rebuild its tables from the journals with"
        " `seamark server refold --objects` and the same options"
    )
    if settings.is_sqlite:
        msg += f" (folder of the database: {str(settings.database_folder)!r})"
    return CannotStart(msg)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; processes that inherit it share its connections.

    A port in use is retried for some seconds, in which the processes of a killed server exit.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise CannotStart(f"--host {host}: unknown address: {error.strerror}") from error
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind_with_retries(made, address)
        made.listen(_BACKLOG)
        made.set_inheritable(True)
    except OSError as error:
        made.close()
        remedy = (
            "another program uses this port, perhaps a running server: stop it, or use another port"
        )
        raise CannotStart(bind_words(host, port, error, remedy)) from error
    return made


def _bind_with_retries(made: socket.socket, address: Any) -> None:
    end = time.monotonic() + _PORT_RETRY_S
    while True:
        try:
            made.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _check_certificate(settings: Settings) -> None:
    assert settings.tls_cert is not None  # noqa: S101 - checked by the caller
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")  # never prompt
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise ArgumentError(
            f"--tls-cert {settings.tls_cert}, --tls-key {settings.tls_key}: expected a"
            f" certificate and its key in PEM format without a password:"
            f" {getattr(error, 'reason', None) or getattr(error, 'strerror', None) or error}"
        ) from error


def _check_proxy(proxy: str) -> None:
    try:
        ipaddress.ip_network(proxy, strict=False)
    except ValueError as error:
        raise ArgumentError(
            "--proxy: expected an address or a network such as 10.0.0.5 or 10.0.0.0/24, got"
            f" {proxy!r}"
        ) from error
