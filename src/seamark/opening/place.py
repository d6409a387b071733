"""The folder of a run, and checks that it can be used."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import (
    ArgumentError,
    JournalError,
    PathError,
    RunNotFoundError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder, hashed_run_id, mint_run_id, root_dir
from seamark.opening.catalogs import first_remote, open_catalog, readable
from seamark.paths import check_name, check_project
from seamark.process.interrupts import quietly
from seamark.reading.finding import Finder
from seamark.reading.names import LATEST

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.reading.catalog import Ref

__all__ = [
    "artifact_root",
    "expect_place",
    "expect_run",
    "expect_writable",
    "is_deleted_at_exit",
    "own_root",
    "reading_place",
    "run_folder",
]

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
    """Return the root for artifacts that SEAMARK_ARTIFACT_DIR names; None for that of all runs."""
    named = os.environ.get("SEAMARK_ARTIFACT_DIR")
    return root_dir(named) if named else None


def reading_place(options: Settings) -> Path | str | None:
    """Return where a run that is only read is, if that is another place than its root.

    The first remote that was named and can be read.

    Raises:
        ArgumentError: If nothing can be read from that remote.
    """
    first = first_remote(options.remote)
    if options.mode != "read-only" or first is None:
        return None
    return readable(first)


def run_folder(options: Settings) -> RunFolder:
    """Return where the run with these options lies or will lie; creates nothing.

    What is wrong with ``with_id`` is for `expect_place` to say: on another rank than 0 that is rank
    0's, and where nothing is recorded nobody's.

    Raises:
        ArgumentError: If the root is no path, or another user's and not named.
    """
    root = own_root(options.mode, options.root, named=bool(options.with_id))
    if isinstance(place := reading_place(options), str):
        return _named_there(place, root, options)
    root = place or root
    if options.with_id:
        return _named(root, options)
    if options.custom_run_id:
        run = hashed_run_id(options.project, options.custom_run_id)
    else:
        run = mint_run_id()
    return RunFolder(root, options.project, run)


def own_root(mode: str, root: str | os.PathLike[str] | None, *, named: bool) -> Path:
    """Return the root below which something is recorded: a temporary one with ``mode="debug"``.

    Args:
        mode: See ``init_run``.
        root: As it was given.
        named: Whether something is looked for there also with ``mode="disabled"``.

    Raises:
        ArgumentError: If the root is no path, or another user's and not named.
    """
    if mode != "debug" or root is not None:
        return root_dir(root, used=mode != "disabled" or named)
    made = Path(tempfile.gettempdir()) / f"seamark-debug-{mint_run_id()}"
    _deleted_at_exit.add(made)
    atexit.register(_remove_debug_root, made, os.getpid())
    return made


def _named(root: Path, options: Settings) -> RunFolder:
    """Return the folder of the run that ``with_id`` names; one that is not there if there is none.

    Whose id is given in full is found without a look at the index.
    """
    word, project = str(options.with_id), options.project
    for place in ((project, word), word.rpartition("/")[::2]):
        folder = _legal(root, *place)
        if folder is not None and folder.run != LATEST and _something(folder):
            return folder
    with quietly(only=SeamarkError):
        return _find(root, options)
    folder = None if word == LATEST else _legal(root, project, word)
    return folder or RunFolder(root, project, hashed_run_id(project, f"with_id\0{word}"))


def _named_there(place: str, root: Path, options: Settings) -> RunFolder:
    """Return the run of a server that ``with_id`` names; one that is not there if there is none.

    Its folder is below our root, where nothing of it may be.
    """
    project = options.project
    run = hashed_run_id(project, options.custom_run_id or f"with_id\0{options.with_id}")
    if options.with_id:
        with quietly(only=SeamarkError):
            return RunFolder(root, *_find_there(place, options))
    return RunFolder(root, project, run)


def _find_there(place: str, options: Settings) -> Ref:
    """Ask a server what ``with_id`` means.

    Raises:
        RunNotFoundError: If it means no run.
        ArgumentError: If it may mean several.
        RemoteError: If the server cannot be asked.
    """
    with contextlib.closing(open_catalog(place, options.api_token)) as catalog:
        catalog.refresh()
        return Finder(catalog).find(str(options.with_id), options.project)


def _legal(root: Path, project: str, run: str) -> RunFolder | None:
    try:
        return RunFolder(root, check_project(project), check_name(run))
    except PathError:
        return None


def _something(folder: RunFolder) -> bool:
    return folder.is_there() or folder.link(inside=False) is not None


def _find(root: Path, options: Settings) -> RunFolder:
    """Look up in the index what ``with_id`` means.

    Raises:
        RunNotFoundError: If it means no run.
        ArgumentError: If it may mean several.
    """
    from seamark.index.finding import find_below  # SQLAlchemy is for those who need it

    reading = options.mode == "read-only"
    word, project = str(options.with_id), options.project
    return RunFolder(root, *find_below(root, word, project, beginnings=reading))


def is_deleted_at_exit(root: Path) -> bool:
    """Return whether a root is a temporary one of this process."""
    return root in _deleted_at_exit


def _remove_debug_root(root: Path, pid: int) -> None:
    if os.getpid() == pid:  # not at the end of a forked child
        shutil.rmtree(root, ignore_errors=True)


def expect_place(options: Settings, folder: RunFolder) -> None:
    """Refuse to open a run that does not exist, and to start one that was purged.

    Raises:
        RunNotFoundError: If it does not exist.
        ArgumentError: If it was purged, or if ``with_id`` may mean several runs.
    """
    must_exist = options.mode == "read-only" or (options.must_resume and options.names_a_run)
    if isinstance(place := reading_place(options), str):
        if options.with_id:
            _find_there(place, options)  # which says what is wrong with the name
        else:
            with contextlib.closing(open_catalog(place, options.api_token)) as catalog:
                catalog.fresh_view(folder.project, folder.run)
    elif options.with_id or must_exist:
        if options.with_id and not _something(folder):
            _find(folder.root, options)  # which says what is wrong with the name
        expect_run(folder)
    else:
        refuse_purged(folder, options.custom_run_id)


def expect_run(folder: RunFolder) -> None:
    """Refuse to open a run that does not exist.

    Raises:
        RunNotFoundError: If it does not.
    """
    link = folder.link(inside=False)
    if folder.is_there() and link is None:
        return
    why = "seamark ls lists the runs" if link is None else f"{link} is a link, not followed"
    msg = f"no run {folder.run!r} in project {folder.project!r} below {folder.root} ({why})"
    raise RunNotFoundError(msg)


def refuse_purged(folder: RunFolder, custom_run_id: str | None) -> None:
    """Refuse to start a run that was purged: nothing of it would be recorded.

    Raises:
        ArgumentError: If it was.
    """
    if not folder.is_purged:
        return
    msg = (
        f"custom_run_id: run {custom_run_id!r} of project {folder.project!r} was purged, and "
        f"cannot be recorded again; use another id, or remove {folder.purged_mark}"
    )
    raise ArgumentError(msg)


def expect_writable(folder: RunFolder) -> None:
    """Refuse a root that nobody can write to while the script starts; later it is only counted.

    A full disk is not a mistake of the person who starts the script, and may be free again later.

    Raises:
        JournalError: If it cannot be written.
    """
    error: OSError | None = None
    try:
        folder.refuse_links()
        folder.journal_dir.mkdir(parents=True, exist_ok=True)
    except OSError as found:
        error = found
    else:
        if not os.access(folder.journal_dir, os.W_OK):
            error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if error is not None and error.errno in _NO_PLACE:
        where = error.filename if error.errno == errno.ELOOP else folder.root
        msg = f"root: expected a folder that can be written, got {where}: {error.strerror}"
        raise JournalError(error.errno, msg) from error
