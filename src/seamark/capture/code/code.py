"""Capture of the executed code and the installed packages."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.code.executed import ExecutedCode
from seamark.capture.code.hiding import hide_in_patch
from seamark.capture.code.repository import GitProbe, repository_of, warn_no_repository
from seamark.capture.secrets.masking import bare_url
from seamark.process.interrupts import quietly
from seamark.types import File

if TYPE_CHECKING:
    from seamark.capture.code import Script
    from seamark.capture.code.changes import Diff
    from seamark.capture.part import Recorder
    from seamark.capture.switches import Switches

__all__ = ["Code", "conda_packages", "installed_packages"]


_BRANCH: Final = "source_code/git/branch"
_DIFF: Final = "source_code/diff"


class Code:
    """Recorder of the script or notebook, the code version, packages and the repository's state.

    Created and used on a thread: any disk may hang, and its modules are slow to import.

    Attributes:
        tasks: Functions that record them; each may take a while.
    """

    def __init__(self, run: Recorder, switches: Switches, script: Script) -> None:
        self._run, self._switches = run, switches
        self._executed: ExecutedCode | None = None
        self._git: GitProbe | None = None
        self.tasks: list[Callable[[], None]] = []
        if switches.script:
            self._executed = executed = ExecutedCode(
                run,
                script,
                switches.secrets,
                stores_script=switches.script_file,
                records_version=switches.version,
                version=switches.version_at_start(),
            )
            self.tasks += [lambda: self._record_script(script), executed.find]
        if switches.dependencies is not None:
            self.tasks.append(self._store_requirements)
        where = repository_of(switches.git_ref, script) if switches.git else None
        if where is not None:
            if_none = functools.partial(warn_no_repository, switches.git_ref, where)
            self._git = probe = GitProbe(where, if_none=if_none)
            self.tasks.append(lambda: probe.find(self._record_git, self._store_diff))
        if switches.packages:
            self.tasks.append(self._record_packages)

    def record_changes(self) -> None:
        """Record modules and cells of a notebook that were executed since the start."""
        if self._executed is not None:
            self._executed.record_changes()

    def cancel(self) -> None:
        """Stop git if it is running, and do not start it again; may be called from any thread."""
        if self._git is not None:
            self._git.cancel()

    def _record_script(self, script: Script) -> None:
        facts = script.facts(self._switches.secrets)
        self._run.assign_quietly(facts)
        if facts["source_code/arguments"] != list(script.arguments):
            self._run.note_masked(["source_code/arguments"])

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
