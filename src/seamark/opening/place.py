"""Places in which runs are recorded, and their catalogs."""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import JournalError, RunNotFoundError
from seamark.journal.folder import RunFolder, mint_run_id, root_dir
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.reading.catalog import Catalog


_NO_PLACE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENOENT,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
_deleted_at_exit: set[Path] = set()


def artifact_root() -> Path | None:
    """Return the root for artifacts from SEAMARK_ARTIFACT_DIR; None for the root of all runs."""
    named = os.environ.get("SEAMARK_ARTIFACT_DIR")
    return root_dir(named) if named else None


def reading_place(options: Settings) -> Path | str | None:
    """Return the remote from which a run is read; None for its own root."""
    return remote_to_read(options.remote) if options.mode == "read-only" else None


def own_root(mode: str, root: str | os.PathLike[str] | None, *, named: bool) -> Path:
    """Return the root for recording; with ``mode="debug"`` a temporary one."""
    if mode != "debug" or root is not None:
        return root_dir(root, used=mode != "disabled" or named)
    made = Path(tempfile.gettempdir()) / f"seamark-debug-{mint_run_id()}"
    _deleted_at_exit.add(made)
    atexit.register(_remove_debug_root, made, os.getpid())
    return made


def is_deleted_at_exit(root: Path) -> bool:
    """Return whether a root is a temporary one created by this process."""
    return root in _deleted_at_exit


def _remove_debug_root(root: Path, pid: int) -> None:
    if os.getpid() == pid:  # not at the end of a forked child
        shutil.rmtree(root, ignore_errors=True)


def missing_run(folder: RunFolder, link: Path | None) -> RunNotFoundError:
    """Return the error for a folder without a run."""
    why = "seamark ls lists the runs" if link is None else f"{link} is a link, not followed"
    msg = f"no run {folder.run!r} in project {folder.project!r} below {folder.root} ({why})"
    return RunNotFoundError(msg)


def expect_run(folder: RunFolder) -> None:
    """Raise `RunNotFoundError` if a run does not exist on this disk."""
    link = folder.link(inside=False)
    if link is not None or not folder.exists():
        raise missing_run(folder, link)


def expect_writable(folder: RunFolder) -> None:
    """Raise for a read-only root while the script starts; later, failures are only counted.

    A full disk is not a mistake of the user, and may have space again later.
    """
    journals = folder.journal_dir
    try:
        folder.refuse_links()
        journals.mkdir(parents=True, exist_ok=True)
        if not os.access(journals, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        if error.errno in _NO_PLACE:
            where = error.filename if error.errno == errno.ELOOP else folder.root
            raise JournalError(
                error.errno, f"root: expected a writable folder, got {where}: {error.strerror}"
            ) from error


def first_remote(given: str | Sequence[str] | None) -> str | None:
    """Return the remote from which runs are read; None if there is none.

    Runs forwarded by Neptune's protocol are read where they were recorded. A string may name
    several remotes, separated by commas.
    """
    named = given.split(",") if isinstance(given, str) else given or ()
    uris = [one.strip() for one in named if one.strip()]
    return next((one for one in uris if not one.lower().startswith("neptune://")), None)


def readable(uri: str) -> Path | str:
    """Return the source for reads of a remote: a root on this machine, or a server's address."""
    from seamark.remote.schemes import canonical

    known = canonical(uri)
    scheme = known.partition("://")[0]
    if scheme == "file":
        from seamark.remote.file import root_of

        return root_of(known)
    if scheme not in ("http", "https"):
        raise argument_error(known, "remote", "a server or file:// to read from")
    return known


def place_to_read(
    root: str | os.PathLike[str] | None, remote: str | Sequence[str] | None
) -> Path | str | None:
    """Return the source for reads from arguments or the environment; None for the root.

    A ``root`` takes precedence over ``SEAMARK_REMOTE``.
    """
    if remote is None and root is None:
        remote = os.environ.get("SEAMARK_REMOTE")
    return remote_to_read(remote)


def remote_to_read(given: str | Sequence[str] | None) -> Path | str | None:
    """Return the first remote from which runs can be read; None if there is none."""
    uri = first_remote(given)
    return None if uri is None else readable(uri)


def open_catalog(place: Path | str, token: str | None = None) -> Catalog:
    """Open a root folder or a server for reading its runs; nothing is read yet."""
    if isinstance(place, Path):
        from seamark.index.index import Index  # SQLAlchemy is for those who need it

        return Index.open(place)
    from seamark.remote.http.catalog import RemoteCatalog

    return RemoteCatalog.open(place, token)
