"""Files that are kept because ``init_run(source_files=...)`` names them: bounded, on a thread."""

# ruff: noqa: PTH116 - names of files are texts here, and may be anything

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.code.walk import StoppedError, Walk
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.run.recorder import Recorder

__all__ = ["SourceFiles"]

log = logging.getLogger("seamark")

_PATH: Final = "source_code/files"
_LEFT_OUT: Final = "source_code/files_left_out"
_MAX_FILES: Final = 2_000
_MAX_BYTES: Final = 100 << 20
_AT_ONCE: Final = 50
_BYTES_AT_ONCE: Final = 4 << 20
_PATIENCE_S: Final = 1.0
_LISTED: Final = 10
_ENDED: Final = "the run has ended"


class SourceFiles:
    """Keeps at most 2,000 files and 100 MiB; whoever names a folder may not know what is in it.

    What is looked at, and what is not, is for `Walk` to say.

    Args:
        recorder: Where to.
        targets: A path, folder or pattern, or several; relative to the working directory of now.
    """

    def __init__(self, recorder: Recorder, targets: Any) -> None:
        several = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
        self._recorder = recorder
        self._targets = [os.fspath(each) for each in several]
        self._ends = float("inf")
        self._given_up = False
        self._hurry = threading.Event()
        here = os.getcwd()  # noqa: PTH109 - a script may go elsewhere
        root = os.fspath(recorder.folder.root)
        self._walk = Walk(here, root, self._hurry, self._may_go_on)
        self._count = self._size = 0
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._keep, name="seamark-sources", daemon=True)

    def start(self) -> None:
        """Begin, and return at once."""
        self._thread.start()

    def finish(self) -> None:
        """End it; what is not taken within a second is left out."""
        if self._pid == os.getpid() and self._thread is not threading.current_thread():
            self._ends = time.monotonic() + _PATIENCE_S
            self._hurry.set()
            self._thread.join(_PATIENCE_S + _PATIENCE_S / 2)  # the rest to tell what is left out
            if self._thread.is_alive():  # waits for a disk
                self._given_up = True
                self._recorder.values.assign_quietly({_LEFT_OUT: self._left_out(_ENDED)})

    def _may_go_on(self) -> bool:
        return time.monotonic() < self._ends

    def _keep(self) -> None:
        try:
            why = self._take()
            told = [why] if why else []
            if links := self._walk.linked:
                more = f" and {len(links) - _LISTED:,} more" if len(links) > _LISTED else ""
                listed = ", ".join(links[:_LISTED])
                told.append(f"links that lead out of what was named are left out: {listed}{more}")
            if told and not self._given_up:
                self._recorder.values.assign_quietly({_LEFT_OUT: "; ".join(told)})
        except Exception as error:  # noqa: BLE001 - the training goes on without them
            let_pass(error)
            if self._given_up:
                return
            self._recorder.drop("source_files", 1, f"source_files could not be stored: {error}")

    def _take(self) -> str:
        """Take the files as they are found; return why some are left out, empty if none are."""
        writer = self._recorder.to_share(_PATH)
        found = self._found()
        why = ""
        while writer is not None and not why:
            kept: dict[str, str] = {}
            try:
                until = self._size + _BYTES_AT_ONCE
                for name, path in found:
                    kept[name] = path
                    if len(kept) == _AT_ONCE or self._size > until:
                        break
            except StoppedError as error:
                why = str(error)
            if not kept or self._given_up:
                break
            writer.claim(_PATH, "file_set")
            self._recorder.contents.files.upload_members(_PATH, kept)
            self._count += len(kept)
        return self._left_out(why) if why and not self._given_up else ""

    def _left_out(self, why: str) -> str:
        what = f"{self._count:,} files are kept, the rest is left out ({why})"
        log.warning("seamark: source_files: %s; run.upload_files() keeps any number", what)
        return what

    def _found(self) -> Iterator[tuple[str, str]]:
        """Yield what is kept, each name once.

        Raises:
            StoppedError: If there is more than that.
        """
        names: set[str] = set()
        for target in self._targets:
            is_empty = True
            for name, path in self._walk.files(target):
                is_empty = False
                size = _size(path)
                if name in names or size is None:
                    continue
                names.add(name)
                self._size += size
                if len(names) > _MAX_FILES or self._size > _MAX_BYTES:
                    limits = f"at most {_MAX_FILES:,} files and {_MAX_BYTES >> 20} MiB"
                    raise StoppedError(limits)
                if not self._may_go_on():
                    raise StoppedError(_ENDED)
                yield name, path
            if is_empty:
                log.warning(  # nothing is lost: there was nothing
                    "seamark: source_files: expected an existing file or folder, or a pattern that"
                    " matches one, got %r",
                    target,
                )


def _size(path: str) -> int | None:
    """Return the size of a regular file in bytes; None if it is none, or may not be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        let_pass(error)
        return None
    is_readable = stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK)
    return found.st_size if is_readable else None
