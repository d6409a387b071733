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
from typing import Final

from seamark.capture.code import Script, is_installed, read_beginning, repository_top

MAX_FILE_BYTES: Final = 4 << 20
"""Maximum size of a script and of the cells of a notebook, in bytes."""
_MAX_MODULES: Final = 5_000
_MAX_TOTAL_BYTES: Final = 64 << 20
_VERSION_CHARS: Final = 16
_SUFFIXES: Final = (".py", ".pyw")
_MAIN_MODULES: Final = ("__main__", "__mp_main__")


class CodeVersion:
    """Version of the executed code, which changes as more code is executed.

    Attributes:
        recorded: Version that was recorded last; empty if none was.
        too_much: Limits that the code exceeds; there is no version in this case.
    """

    def __init__(self, script: Script) -> None:
        self.script, self._roots = script, _find_roots(script)
        self._seen: dict[str, tuple[str, str]] = {}
        self._bytes = 0
        self.recorded = ""
        self.too_much = ""

    @classmethod
    def at_start(cls, script: Script) -> CodeVersion:
        """Return the version of the code executed so far; call it on a thread: disks may hang."""
        found = cls(script)
        found.recorded = found.now(cells_of_session())
        return found

    def now(self, cells: Mapping[int, str]) -> str:
        """Return the version of the code executed so far; empty for no code or too much code."""
        main = self.script.file
        main_modules: list[tuple[str, str]] = []
        if main is not None and main.suffix in _SUFFIXES and not is_installed(main):
            # Its module is no longer in sys.modules after it ended.
            main_modules.append(("__main__", str(main)))
        for name, file in (*main_modules, *_user_modules(self._roots)):
            if file not in self._seen and not self.too_much:
                # Once: the content at the first call is the code that was executed.
                self._seen[file] = (name, self._digest(Path(file)))
        found = {entry for entry in self._seen.values() if entry[1]}
        if cells:
            text = "\n\0".join(cells.values()).encode("utf-8", "backslashreplace")
            found.add(("__main__", hashlib.sha256(text).hexdigest()))
        if not found or self.too_much:
            return ""
        lines = "".join(f"{digest} {name}\n" for name, digest in sorted(found))
        return hashlib.sha256(lines.encode("utf-8", "backslashreplace")).hexdigest()[
            :_VERSION_CHARS
        ]

    def _digest(self, file: Path) -> str:
        content = read_source(file)
        if content is None:
            return ""
        self._bytes += len(content)
        if self._bytes > _MAX_TOTAL_BYTES or len(self._seen) >= _MAX_MODULES:
            self.too_much = f"{_MAX_MODULES:,} modules or {_MAX_TOTAL_BYTES >> 20} MiB"
        return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


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


def read_source(file: Path) -> bytes | None:
    """Return the content of a source file; None if it cannot be read or is too large."""
    content = read_beginning(file, MAX_FILE_BYTES + 1, follow=True)
    return None if content is None or len(content) > MAX_FILE_BYTES else content


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
