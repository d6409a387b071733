"""Capture of the executed code and the installed packages."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from seamark.capture.code import Script, is_installed
from seamark.capture.code.changes import Diff
from seamark.capture.code.executed import (
    MAX_FILE_BYTES,
    CodeVersion,
    cells_of_session,
    read_source,
)
from seamark.capture.code.git import Git, StoppedError
from seamark.capture.code.masking import hide_in_code, hide_in_patch
from seamark.capture.code.repository import record_repository, repository_of, warn_no_repository
from seamark.capture.part import Recorder
from seamark.capture.secrets.masking import bare_url
from seamark.capture.switches import Switches
from seamark.process.interrupts import quietly
from seamark.types import File

TIMEOUT_S = 12.0
"""Time limit for all git commands together, in seconds."""

_BRANCH: Final = "source_code/git/branch"
_DIFF: Final = "source_code/diff"
_FILES: Final = "source_code/files"
_CODE_VERSION: Final = "source_code/version"
_CELLS: Final = "source_code/cells"


class Code:
    """Recorder of the script or notebook, the code version, packages and the repository's state.

    Created and used on a thread: any disk may hang, and its modules are slow to import.

    Attributes:
        tasks: Functions that record them; each may take a while.
    """

    def __init__(self, run: Recorder, switches: Switches, script: Script) -> None:
        self._run, self._switches, self._script = run, switches, script
        self._version: CodeVersion | None = None
        self._recorded_cells = b""
        self._git: Git | None = None
        self.tasks: list[Callable[[], None]] = []
        if switches.script:
            self._version = switches.version_at_start() or CodeVersion(script)
            self.tasks += [self._record_script, self._store_script, self.record_executed]
        if switches.dependencies is not None:
            self.tasks.append(self._store_requirements)
        where = repository_of(switches.git_ref, script) if switches.git else None
        if where is not None:
            self._git = Git(where, TIMEOUT_S)
            self.tasks.append(functools.partial(self._record_repository, self._git, where))
        if switches.packages:
            self.tasks.append(self._record_packages)

    def cancel(self) -> None:
        """Stop git if it is running, and do not start it again; may be called from any thread."""
        if self._git is not None:
            self._git.cancel()

    def _record_script(self) -> None:
        facts = self._script.facts(self._switches.secrets)
        self._run.assign_quietly(facts)
        if facts["source_code/arguments"] != list(self._script.arguments):
            self._run.note_masked(["source_code/arguments"])

    def _store_script(self) -> None:
        file, here = self._script.file, self._script.here
        if file is None or is_installed(file) or not self._switches.script_file:
            return
        if (content := read_source(file)) is not None:
            name = file.relative_to(here).as_posix() if file.is_relative_to(here) else file.name
            self._run.keep_members(_FILES, {name: self._mask(content, _FILES, name)})

    def _mask(self, content: bytes, path: str, name: str) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        masked = hide_in_code(text, self._switches.secrets, name)
        if masked == text:
            return content
        self._run.note_masked([path])
        return masked.encode("utf-8", "surrogateescape")

    def record_executed(self, *, is_end: bool = False) -> None:
        """Record the executed cells and the version of the code.

        A version that was recorded at the start stays until the run pauses or stops.
        """
        if self._version is None:
            return
        cells = cells_of_session()
        if cells:
            self._store_cells(cells)
        if not self._switches.version or (self._version.recorded and not is_end):
            return
        version = self._version.now(cells)
        if most := self._version.too_much:
            why = f"more than {most} of imported files belong to no package"
            self._run.assign_quietly({_CODE_VERSION: None, f"{_CODE_VERSION}_unknown": why})
        elif version not in ("", self._version.recorded):
            self._version.recorded = version
            self._run.assign_quietly({_CODE_VERSION: version})

    def _store_cells(self, cells: Mapping[int, str]) -> None:
        parts = (f"# In[{number}]:\n\n{text.rstrip()}\n" for number, text in cells.items())
        content = "\n\n".join(parts).encode("utf-8", "backslashreplace")
        if content == self._recorded_cells:
            return
        self._recorded_cells = content
        if len(content) > MAX_FILE_BYTES:
            content = content[:MAX_FILE_BYTES].rpartition(b"\n\n\n# In[")[0]
            what = f"the first {MAX_FILE_BYTES >> 20} MiB are kept"
            self._run.assign_quietly({f"{_CELLS}_left_out": what})
        self._run.keep(_CELLS, File.from_content(self._mask(content, _CELLS, "source.py"), "py"))

    def _record_repository(self, git: Git, where: Path) -> None:
        with contextlib.suppress(StoppedError, OSError), git:
            if not record_repository(git, self._record_git, self._store_diff):
                warn_no_repository(self._switches.git_ref, where)

    def _record_git(self, facts: Mapping[str, Any]) -> None:
        # The name of a branch may contain a secret.
        branch = facts.get(_BRANCH)
        if isinstance(branch, str):
            hidden = self._switches.secrets.text(branch)
            if hidden != branch:
                facts = {**facts, _BRANCH: hidden}
                self._run.note_masked([_BRANCH])
        self._run.assign_quietly(facts)

    def _record_packages(self) -> None:
        found = {
            "source_code/python": platform.python_version(),
            "source_code/packages": installed_packages(),
        }
        if conda := conda_packages():
            found["source_code/conda"] = conda
        self._run.assign_quietly(found)

    def _store_requirements(self) -> None:
        path, given = "source_code/requirements", self._switches.dependencies
        if given == "infer":
            self._run.keep(path, File.from_content(f"{installed_packages()}\n"))
        elif given is not None:
            self._run.keep(path, File.from_path(given))

    def _store_diff(self, diff: Diff) -> None:
        content = hide_in_patch(diff.content, self._switches.secrets)
        if content:
            self._run.keep(_DIFF, File.from_content(content, "patch"))
        if content != diff.content:
            self._run.note_masked([_DIFF])
        if diff.left_out:
            self._run.assign_quietly({f"{_DIFF}_left_out": diff.left_out})


_MAX_URL_FILE_CHARS: Final = 1 << 16
_MAX_PACKAGES: Final = 5_000
_NAME: Final = re.compile(r"^Name:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
_CONDA_FILE: Final = re.compile(r"([\w.-]{1,200})-([\w.!+]{1,100})-([\w.+]{1,100})\.json")


def installed_packages() -> str:
    """Return the installed packages as a requirements file, sorted by name.

    A line is ``name==version``, as ``pip freeze`` writes it; ``name @ address`` for a package
    installed from a URL or folder; or ``-e folder  # name==version`` for an editable installation.
    The first of several distributions of one name on ``sys.path`` counts, as for imports.
    """
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if known := _name_and_version(distribution):
            name, version = known
            key = re.sub(r"[-_.]+", "-", name).lower()
            if key not in found:
                found[key] = (
                    _requirement_from_origin(distribution, name, version) or f"{name}=={version}"
                )
    return "\n".join(found[key] for key in sorted(found))


def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str] | None:
    # Parsing the whole file as an e-mail message, as ``.metadata`` does, takes thirty times as long
    # and holds the GIL.
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, ValueError):
        return None
    name, version = _NAME.search(text), _VERSION.search(text)
    return (name[1], version[1]) if name and version else None


def _requirement_from_origin(
    distribution: importlib.metadata.Distribution, name: str, version: str
) -> str:
    # The file is untrusted.
    try:
        origin = json.loads((distribution.read_text("direct_url.json") or "")[:_MAX_URL_FILE_CHARS])
        address = bare_url(origin["url"])
        is_editable = origin.get("dir_info", {}).get("editable") is True
        revision, inside = origin.get("vcs_info", {}), origin.get("subdirectory")
        if revision:
            address = f"{revision['vcs']}+{address}@{revision['commit_id']}"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    if inside:
        address += f"#subdirectory={inside}"
    if not address.isprintable() or " " in address:
        return ""
    if is_editable:
        folder = address if "%" in address else address.removeprefix("file://")
        return f"-e {folder}  # {name}=={version}"
    return f"{name} @ {address}"


def conda_packages() -> str:
    """Return ``name=version=build`` of all conda packages, one per line; empty without conda.

    The environment is the activated one, or else that of this Python. Only file names are read;
    conda is never run.
    """
    for prefix in (os.environ.get("CONDA_PREFIX") or sys.prefix, sys.prefix):
        with quietly(only=OSError), os.scandir(Path(prefix, "conda-meta")) as entries:
            found = [
                _CONDA_FILE.fullmatch(each.name)
                for each in itertools.islice(entries, _MAX_PACKAGES)
            ]
            if lines := sorted("=".join(each.groups()) for each in found if each):
                return "\n".join(lines)
    return ""
