"""Files that are kept because ``init_run(source_files=...)`` names them: bounded, on a thread."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs import members_of
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
_PATIENCE_S: Final = 30.0
_NO_SOURCES: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})


class SourceFiles:
    """Keeps at most 2,000 files and 100 MiB; whoever names a folder may not know what is in it.

    Not looked into are the folder of all runs, repositories' own folders and ``__pycache__``.

    Args:
        recorder: Where to.
        targets: A path, folder or pattern, or several; relative to the working directory of now.
    """

    def __init__(self, recorder: Recorder, targets: Any) -> None:
        several = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
        self._recorder = recorder
        self._targets = [os.fspath(each) for each in several]
        self._here = os.getcwd()  # noqa: PTH109 - a script may go elsewhere
        self._stopped = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._keep, name="seamark-sources", daemon=True)

    def start(self) -> None:
        """Begin, and return at once."""
        self._thread.start()

    def finish(self) -> None:
        """Wait until they are taken, but not for ever."""
        if self._pid == os.getpid() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE_S)
            self._stopped = True

    def _keep(self) -> None:
        try:
            self._take(iter(self._found().items()))
        except Exception as error:  # noqa: BLE001 - the training goes on without them
            let_pass(error)
            self._recorder.drop("source_files", 1, f"source_files could not be stored: {error}")

    def _found(self) -> dict[str, Path]:
        return members_of(
            self._targets, here=self._here, at_most=_MAX_FILES + 1, enters=self._enters
        )

    def _enters(self, folder: str) -> bool:
        own = os.path.realpath(folder) == os.path.realpath(self._recorder.folder.root)
        return not own and Path(folder).name not in _NO_SOURCES

    def _take(self, found: Iterator[tuple[str, Path]]) -> None:
        writer = self._recorder.to_share(_PATH)
        count = size = 0
        while writer is not None and (part := dict(itertools.islice(found, _AT_ONCE))):
            kept = {}
            for name, path in part.items():
                count, size = count + 1, size + path.stat().st_size
                if count > _MAX_FILES or size > _MAX_BYTES or self._stopped:
                    break
                kept[name] = path
            if kept:
                writer.claim(_PATH, "file_set")
                self._recorder.content.upload_members(_PATH, kept)
            if len(kept) < len(part):
                self._tell(count - 1)
                return

    def _tell(self, count: int) -> None:
        limits = f"at most {_MAX_FILES:,} files and {_MAX_BYTES >> 20} MiB"
        what = f"{count:,} files are kept, the rest is left out ({limits})"
        log.warning("seamark: source_files: %s; run.upload_files() keeps any number", what)
        self._recorder.assign_quietly({_LEFT_OUT: what})
