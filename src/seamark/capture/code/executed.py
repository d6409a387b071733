"""Executed code: the script, the cells of a notebook, and a version of the user's code.

The version is a hash of the imported modules that belong to no package. It does not depend on the
location of the code. Modules that are imported and cells that are executed during the run count
too: the code is examined again before the run pauses or stops.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seamark.capture.code import is_installed, read_beginning, repository_top
from seamark.capture.code.hiding import hide_in_code
from seamark.types import File

if TYPE_CHECKING:
    from seamark.capture.code import Script
    from seamark.capture.part import Recorder
    from seamark.capture.secrets import Secrets

__all__ = ["CodeVersion", "ExecutedCode", "cells_of_session"]

_FILES_PATH: Final = "source_code/files"
_VERSION_PATH: Final = "source_code/version"
_CELLS_PATH: Final = "source_code/cells"
_MAX_FILE_BYTES: Final = 4 << 20
_MAX_MODULES: Final = 5_000
_MAX_TOTAL_BYTES: Final = 64 << 20
_VERSION_CHARS: Final = 16
_SUFFIXES: Final = (".py", ".pyw")
_MAIN_MODULES: Final = ("__main__", "__mp_main__")


class CodeVersion:
    """Version of the executed code, which changes as more code is executed.

    Attributes:
        first: Version at the start of the run; empty if unknown.
        is_too_much: Whether the code exceeds the limits; there is no version in this case.
    """

    def __init__(self, script: Script) -> None:
        self.script, self._roots = script, _find_roots(script)
        self._seen: dict[str, tuple[str, str]] = {}
        self._bytes = 0
        self.first = ""
        self.is_too_much = False

    @classmethod
    def at_start(cls, script: Script) -> CodeVersion:
        """Return the version of the code executed so far; call it on a thread: disks may hang."""
        found = cls(script)
        found.first = found.now(cells_of_session())
        return found

    def now(self, cells: Mapping[int, str]) -> str:
        """Return the version of the code executed so far; empty for no code or too much code."""
        main = self.script.file
        main_modules: list[tuple[str, str]] = []
        if main is not None and main.suffix in _SUFFIXES and not is_installed(main):
            # Its module is no longer in sys.modules after it ended.
            main_modules.append(("__main__", str(main)))
        for name, file in (*main_modules, *_user_modules(self._roots)):
            if file not in self._seen and not self.is_too_much:
                # Once: the content at the first call is the code that was executed.
                self._seen[file] = (name, self._digest(Path(file)))
        found = {entry for entry in self._seen.values() if entry[1]}
        if cells:
            text = "\n\0".join(cells.values()).encode("utf-8", "backslashreplace")
            found.add(("__main__", hashlib.sha256(text).hexdigest()))
        if not found or self.is_too_much:
            return ""
        lines = "".join(f"{digest} {name}\n" for name, digest in sorted(found))
        return hashlib.sha256(lines.encode("utf-8", "backslashreplace")).hexdigest()[
            :_VERSION_CHARS
        ]

    def _digest(self, file: Path) -> str:
        content = _read_source(file)
        if content is None:
            return ""
        self._bytes += len(content)
        self.is_too_much = self._bytes > _MAX_TOTAL_BYTES or len(self._seen) >= _MAX_MODULES
        return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


class ExecutedCode:
    """Records the entry script or the cells of a notebook, and the version of the code.

    ``version`` is the version recorded at the start; None determines it.
    """

    def __init__(
        self,
        run: Recorder,
        script: Script,
        secrets: Secrets,
        *,
        stores_script: bool,
        records_version: bool,
        version: CodeVersion | None,
    ) -> None:
        self._run = run
        self._script = script
        self._secrets = secrets
        self._stores_script, self._records_version = stores_script, records_version
        self._version = version or CodeVersion(script)
        self._recorded_cells = b""
        self._recorded_version = version.first if version else ""

    def find(self) -> None:
        """Record the code executed so far; call it on a thread, because a disk may hang."""
        if self._stores_script:
            self._store_script()
        # A version that was recorded at the start stays until the run pauses or stops.
        self._record(records_version=not self._recorded_version)

    def record_changes(self) -> None:
        """Record code imported and executed since `find`; call it on a thread."""
        self._record()

    def _store_script(self) -> None:
        file, here = self._script.file, self._script.here
        content = None if file is None or is_installed(file) else _read_source(file)
        if file is not None and content is not None:
            name = file.relative_to(here).as_posix() if file.is_relative_to(here) else file.name
            self._run.keep_members(_FILES_PATH, {name: self._mask(content, _FILES_PATH, name)})

    def _mask(self, content: bytes, path: str, name: str) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        masked = hide_in_code(text, self._secrets, name)
        if masked == text:
            return content
        self._run.note_masked([path])
        return masked.encode("utf-8", "surrogateescape")

    def _record(self, *, records_version: bool = True) -> None:
        cells = cells_of_session()
        if cells:
            self._store_cells(cells)
        if not self._records_version or not records_version:
            return
        version = self._version.now(cells)
        if self._version.is_too_much:
            most = f"{_MAX_MODULES:,} modules or {_MAX_TOTAL_BYTES >> 20} MiB"
            why = f"more than {most} of imported files belong to no package"
            self._run.assign_quietly({_VERSION_PATH: None, f"{_VERSION_PATH}_unknown": why})
        elif version not in ("", self._recorded_version):
            self._recorded_version = version
            self._run.assign_quietly({_VERSION_PATH: version})

    def _store_cells(self, cells: Mapping[int, str]) -> None:
        parts = (f"# In[{number}]:\n\n{text.rstrip()}\n" for number, text in cells.items())
        content = "\n\n".join(parts).encode("utf-8", "backslashreplace")
        if content == self._recorded_cells:
            return
        self._recorded_cells = content
        if len(content) > _MAX_FILE_BYTES:
            content = content[:_MAX_FILE_BYTES].rpartition(b"\n\n\n# In[")[0]
            what = f"the first {_MAX_FILE_BYTES >> 20} MiB are kept"
            self._run.assign_quietly({f"{_CELLS_PATH}_left_out": what})
        hidden = self._mask(content, _CELLS_PATH, "source.py")
        self._run.keep(_CELLS_PATH, File.from_content(hidden, "py"))


# --------------------------------------------------------------------- modules


def _find_roots(script: Script) -> tuple[str, ...]:
    found = {script.here}
    if script.file is not None and not is_installed(script.file):
        found.add(script.file.parent)
    folders = {str(folder) for folder in found}
    folders |= {top for folder in tuple(folders) if (top := repository_top(folder)) is not None}
    return tuple({f"{folder.rstrip(os.sep)}{os.sep}" for folder in folders})


def _user_modules(roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    # Reads no attribute that could load a module or run its code.
    loaded = sorted(
        sys.modules.copy().items(), key=lambda item: (item[0] not in _MAIN_MODULES, item[0])
    )
    found = set()
    for name, module in loaded:
        try:
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:
            continue
        if not isinstance(file, str) or not file.endswith(_SUFFIXES):
            continue
        if name.partition(".")[0] == __name__.partition(".")[0]:
            continue
        place = os.path.abspath(file)  # noqa: PTH100 - keep links
        if place in found or not place.startswith(roots) or is_installed(Path(place)):
            continue
        found.add(place)
        yield ("__main__" if name in _MAIN_MODULES else name), place


def _read_source(file: Path) -> bytes | None:
    content = read_beginning(file, _MAX_FILE_BYTES + 1, follow=True)
    return None if content is None or len(content) > _MAX_FILE_BYTES else content


# --------------------------------------------------------------------- notebooks


def cells_of_session() -> dict[int, str]:
    """Return the executed cells of this IPython session by number; empty without IPython."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if callable(get) else None
    inputs = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    if not isinstance(inputs, list):
        return {}
    return {
        number: text
        for number, text in enumerate(list(inputs))
        if number and isinstance(text, str) and text.strip()
    }
