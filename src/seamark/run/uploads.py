"""Selection of files for ``upload_files`` and ``source_files``."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH113, PTH116, PTH118, PTH119, PTH120 - names of files are texts here

from __future__ import annotations

import glob
import logging
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs import members_of
from seamark.capture.code.walk import Search, StoppedError, Walk
from seamark.errors import ArgumentError, FileMissingError
from seamark.process.interrupts import quietly
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.blobs import FileFilter
    from seamark.run.recorder import Recorder


log = logging.getLogger("seamark")

Source = str | os.PathLike[str] | ModuleType

_COMPILED: Final = "__pycache__"
_MAX_NAMES: Final = 1 << 28
_PATH: Final = "source_code/files"
_LEFT_OUT: Final = "source_code/files_left_out"
_MAX_FILES: Final = 2_000
_MAX_BYTES: Final = 100 << 20
_AT_ONCE: Final = 50
_SEARCH_S: Final = 10.0
_PATIENCE_S: Final = 1.0
_LISTED: Final = 10
_ENDED: Final = "the run has ended"


def files_to_upload(
    value: Source | Iterable[Source], ignore: str | None, max_bytes: int | None
) -> dict[str, Path]:
    """Return files by their names in a file set; warn of a pattern that matches none."""
    _check(ignore, max_bytes)
    found: dict[str, Path] = {}
    several = [value] if isinstance(value, (str, os.PathLike, ModuleType)) else list(value)
    for one in several:
        name = one.__name__ if isinstance(one, ModuleType) else os.fspath(one)
        try:
            if isinstance(one, ModuleType):
                found |= _files_of_module(one, ignore)
            else:
                found |= members_of(one, _rules(ignore, name))
        except FileMissingError:
            if isinstance(one, ModuleType) or not glob.has_magic(name):
                raise
            log.warning("seamark: upload_files: no file matches the pattern %r", name)
        except StoppedError as error:  # what is to be ignored may be large, or secret
            text = "seamark: upload_files: nothing in %r is stored: ignore=%r cannot be applied: %s"
            log.warning(text, name, ignore, error)
    if max_bytes is not None:
        _check_size(found, max_bytes)
    return found


def _check(ignore: object, max_bytes: object) -> None:
    is_name = isinstance(ignore, str) and ignore == os.path.basename(ignore) and bool(ignore)
    if ignore is not None and not is_name:
        raise argument_error(
            ignore, "ignore", "the name of ignore files, such as '.gitignore', or None"
        )
    is_count = isinstance(max_bytes, int) and not isinstance(max_bytes, bool) and max_bytes >= 0
    if max_bytes is not None and not is_count:
        raise argument_error(max_bytes, "max_bytes", "a number of bytes or None")


def _check_size(found: dict[str, Path], max_bytes: int) -> None:
    sizes = {name: path.stat().st_size for name, path in found.items()}
    if (total := sum(sizes.values())) > max_bytes:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ArgumentError(
            f"upload_files: expected at most {max_bytes:,} bytes (max_bytes), got {total:,} in "
            f"{len(sizes):,} files, of which {largest!r} has {sizes[largest]:,}; nothing is stored"
        )


def _rules(name: str | None, target: str, *skipped: str) -> FileFilter | None:
    """Return which files below a folder or of a pattern are taken; raises `StoppedError`."""
    if name is None and not skipped:
        return None
    base = os.path.abspath(os.path.expanduser(target))
    while glob.has_magic(base):
        base = os.path.dirname(base)
    kept: set[str] = set()
    folders = {base}
    if name is not None and os.path.isdir(base):
        search = Search(name, timeout_s=_SEARCH_S)
        names = search.names(base, _MAX_NAMES)
        if search.is_cut:
            raise StoppedError("there are too many files")
        kept.update(os.path.join(base, *each.split("/")) for each in names)
    for path in kept:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)

    def is_included(path: str, *, is_folder: bool) -> bool:
        if is_folder and os.path.basename(path) in skipped:
            return False
        return name is None or path in (folders if is_folder else kept)

    return is_included


def _files_of_module(module: ModuleType, ignore: str | None) -> dict[str, Path]:
    # Files in the working directory go by their paths in it, as all files do; others by names that
    # begin with that of the package.
    folders = list(getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    if not folders and not (isinstance(file, str) and os.path.isfile(file)):
        raise argument_error(
            module.__name__, "upload_files", "a module stored in files", FileMissingError
        )
    if not folders:
        return members_of(str(file))
    found: dict[str, Path] = {}
    for folder in folders:
        above = os.path.dirname(folder)
        for path in members_of(folder, _rules(ignore, folder, _COMPILED)).values():
            inside = os.path.relpath(path).replace(os.sep, "/")
            outside = inside == ".." or inside.startswith("../")
            found[os.path.relpath(path, above).replace(os.sep, "/") if outside else inside] = path
    return found


class SourceFiles:
    """Stores at most 2,000 files and 100 MiB: a folder may hold more than its user knows."""

    def __init__(self, recorder: Recorder, targets: Any) -> None:
        several = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
        self._recorder = recorder
        self._targets = [os.fspath(each) for each in several]
        self._given_up = False
        self._hurry = threading.Event()
        here = os.getcwd()  # noqa: PTH109 - a script may go elsewhere
        root = os.fspath(recorder.folder.root)
        self._walk = Walk(here, root, self._hurry, lambda: not self._given_up)
        self._count = 0
        self._why = ""
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._keep, name="seamark-sources", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Stop; files that are not stored within a second are left out."""
        if self._pid == os.getpid() and self._thread is not threading.current_thread():
            self._hurry.set()
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():  # waits for a disk
                self._given_up = True
                self._walk.cancel()
                self._recorder.values.assign_quietly({_LEFT_OUT: self._left_out(_ENDED)})

    def _keep(self) -> None:
        recorder = self._recorder
        with recorder.guard("source_files", "source_files could not be stored"):
            found = self._found() if recorder.to_share(_PATH) is not None else iter(())
            while (kept := dict(islice(found, _AT_ONCE))) and not self._given_up:
                recorder.values.add_files(_PATH, kept)
                self._count += len(kept)
            if self._given_up:
                return
            told = [self._left_out(self._why)] if self._why else []
            left_out = {
                "git was not found, so folders with ignore rules": self._walk.ruled,
                "links that point outside the given paths": self._walk.linked,
            }
            told += [f"{w} are left out: {_listed(n)}" for w, n in left_out.items() if n]
            if told:
                recorder.values.assign_quietly({_LEFT_OUT: "; ".join(told)})

    def _left_out(self, why: str) -> str:
        what = f"{self._count:,} files are stored, the rest is left out ({why})"
        log.warning("seamark: source_files: %s; run.upload_files() stores any number", what)
        return what

    def _found(self) -> Iterator[tuple[str, str]]:
        sizes: dict[str, int] = {}
        total = 0
        try:
            for target in self._targets:
                is_empty = True
                for name, path in self._walk.files(target):
                    is_empty = False
                    size = _size(path)
                    if name in sizes or size is None:
                        continue
                    sizes[name] = size
                    total += size
                    if len(sizes) > _MAX_FILES or total > _MAX_BYTES:
                        limits = f"at most {_MAX_FILES:,} files and {_MAX_BYTES >> 20} MiB"
                        raise StoppedError(limits)  # noqa: TRY301 - as the walk raises it
                    yield name, path
                if is_empty and not self._walk.ruled:
                    log.warning(  # nothing is lost: there was nothing
                        "seamark: source_files: expected an existing file or folder, or a pattern"
                        " that matches one, got %r",
                        target,
                    )
        except StoppedError as error:
            self._why = str(error)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def _size(path: str) -> int | None:
    with quietly(only=(OSError, ValueError)):
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK):
            return found.st_size
    return None
