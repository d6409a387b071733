"""Capture that records the executed code, with the packages that are installed."""

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
from urllib.parse import unquote, urlsplit

from seamark.capture.code import beginning_of, repository
from seamark.capture.code.executed import ExecutedCode
from seamark.capture.code.hiding import hide_in_code, hide_in_patch
from seamark.capture.secrets.masking import bare_url
from seamark.process.interrupts import let_pass
from seamark.types import File

if TYPE_CHECKING:
    from seamark.capture.code import Script
    from seamark.capture.code.changes import ChangedFile
    from seamark.capture.part import Recorder
    from seamark.capture.switches import Switches

__all__ = ["Code", "conda_packages", "installed_packages"]


_BRANCH: Final = "source_code/git/branch"


class Code:
    """Records script or notebook, a version of the code, packages and the state of the repository.

    Made and used on a thread: any disk may hang, and its modules take a while to load.

    Attributes:
        tasks: What records them; each may take a while.
    """

    def __init__(self, run: Recorder, switches: Switches, script: Script) -> None:
        self._run, self._switches = run, switches
        self._executed: ExecutedCode | None = None
        self._git: repository.GitProbe | None = None
        self._given_up = False
        self.tasks: list[Callable[[], None]] = []
        if switches.script:
            self._executed = executed = ExecutedCode(
                run,
                script,
                switches.secrets,
                keeps_script=switches.script_file,
                tells_version=switches.version,
                version=switches.version_at_start(),
            )
            self.tasks += [lambda: self._record_script(script), executed.find]
        if switches.dependencies is not None:
            self.tasks.append(self._keep_requirements)
        if switches.git:
            self.tasks.append(lambda: self._ask_git(script))
        if switches.packages:
            self.tasks.append(self._find_packages)

    def look_again(self) -> None:
        """Record modules and cells of a notebook that have been executed meanwhile."""
        if self._executed is not None:
            self._executed.look_again()

    def give_up(self) -> None:
        """End a git that takes too long, and begin none; from any thread."""
        self._given_up = True
        if self._git is not None:
            self._git.cancel()

    def _ask_git(self, script: Script) -> None:
        where = repository.repository_of(self._switches.git_ref, script)
        if where is None:
            return
        if_none = functools.partial(repository.warn_of_none, self._switches.git_ref, where)
        self._git = probe = repository.GitProbe(where, if_none=if_none)
        if self._given_up:  # before it could be seen from there
            probe.cancel()
        probe.find(self._record_git, self._keep_change, aside=self._run.root)

    def _record_script(self, script: Script) -> None:
        facts = script.facts(self._switches.secrets)
        self._run.assign_quietly(facts)
        if facts["source_code/arguments"] != list(script.arguments):
            self._run.note_masked(["source_code/arguments"])

    def _record_git(self, facts: Mapping[str, Any]) -> None:
        # A branch may be called anything.
        branch = facts.get(_BRANCH)
        if isinstance(branch, str):
            hidden = self._switches.secrets.text(branch)
            if hidden != branch:
                facts = {**facts, _BRANCH: hidden}
                self._run.note_masked([_BRANCH])
        self._run.assign_quietly(facts)

    def _find_packages(self) -> None:
        found = {
            "source_code/python": platform.python_version(),
            "source_code/packages": installed_packages(),
        }
        if conda := conda_packages():
            found["source_code/conda"] = conda
        self._run.assign_quietly(found)

    def _keep_requirements(self) -> None:
        path, given = "source_code/requirements", self._switches.dependencies
        if given == "infer":
            self._run.keep(path, File.from_content(f"{installed_packages()}\n"))
        elif given is not None:
            self._run.keep(path, File.from_path(given))

    def _keep_change(self, change: ChangedFile) -> None:
        if change.extension == "patch":
            content = hide_in_patch(change.content, self._switches.secrets)
        else:
            names = change.content.decode("utf-8", "replace")
            content = hide_in_code(names, self._switches.secrets).encode()
        if content:
            self._run.keep(change.path, File.from_content(content, change.extension))
        if content != change.content:
            self._run.note_masked([change.path])
        if change.left_out:
            self._run.assign_quietly({f"{change.path}_left_out": change.left_out})


_MAX_NOTED: Final = 1 << 16
_DIGEST: Final = re.compile(r"[a-z0-9]{1,10}=[0-9a-f]{16,128}")
_WORD: Final = re.compile(r"[\w.+/-]{1,200}")
_NAME: Final = re.compile(r"^Name:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)


def installed_packages() -> str:
    """Return what is installed, one package a line, sorted by name: a requirements file.

    ``name==version``, as ``pip freeze`` writes it; ``name @ address`` for what was installed from
    an address or a folder, and ``-e folder  # name==version`` for what is edited where it lies.
    Where a name is found twice on ``sys.path``, the first counts, as for imports.
    """
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if known := _name_and_version(distribution):
            name, version = known
            key = re.sub(r"[-_.]+", "-", name).lower()
            if key not in found:
                found[key] = _origin_of(distribution, name, version) or f"{name}=={version}"
    return "\n".join(found[key] for key in sorted(found))


def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str] | None:
    # Parsing the whole file as an e-mail message, as ``.metadata`` does, takes thirty times as long
    # and holds the interpreter meanwhile.
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, ValueError):
        return None
    name, version = _NAME.search(text), _VERSION.search(text)
    return (name[1], version[1]) if name and version else None


def _origin_of(
    distribution: importlib.metadata.Distribution, name: str, version: str
) -> str | None:
    # What pip noted is anybody's to write.
    try:
        text = distribution.read_text("direct_url.json")
        noted = json.loads(text) if text and len(text) <= _MAX_NOTED else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(noted, dict) or not isinstance(url := noted.get("url"), str):
        return None
    if not url.isprintable() or any(mark.isspace() for mark in url):
        return None
    if _part(noted, "dir_info").get("editable") is True:
        return f"-e {_folder_of(url)}  # {name}=={version}"
    revision = _part(noted, "vcs_info")
    address = bare_url(url)
    if (vcs := _word(revision.get("vcs"))) and (commit := _word(revision.get("commit_id"))):
        address = f"{vcs}+{address}@{commit}"
    digest, inside = _part(noted, "archive_info").get("hash"), _word(noted.get("subdirectory"))
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        address += f"#{digest}"
    if inside:
        address += f"{'&' if '#' in address else '#'}subdirectory={inside}"
    return f"{name} @ {address}"


def _part(noted: dict[str, Any], key: str) -> dict[str, Any]:
    found = noted.get(key)
    return found if isinstance(found, dict) else {}


def _word(value: object) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _folder_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return bare_url(url)
    folder = unquote(parts.path)
    is_plain = parts.scheme == "file" and not parts.netloc and folder.isprintable()
    return folder if is_plain and " " not in folder else bare_url(url)


_MAX_PACKAGES: Final = 5_000
_MAX_NAME: Final = 300
_MAX_BYTES: Final = 4 << 20
_LONGEST: Final = 4096
_CHANNEL: Final = re.compile(r'"channel"\s{0,8}:\s{0,8}"((?:[^"\\\n]|\\.){1,2000})"')
_TOKEN: Final = re.compile(r"/t/[^/]+(?=/|\Z)")
# Of a download server: https://host/get/ENTITLEMENT/token/TOKEN/channel, and others like it.
_NAMED: Final = re.compile(r"/(?:get/[^/]+/)?(?:access_?)?tokens?/[^/]+(?=/|\Z)", re.IGNORECASE)
_PLATFORM: Final = re.compile(r"/(?:noarch|(?:linux|osx|win|emscripten|freebsd)-[\w]+)/?\Z")
_WELL_KNOWN: Final = re.compile(
    r"https?://(?:conda\.anaconda\.org/|repo\.(?:anaconda|continuum)\.(?:com|io)/)(?=.)"
)


def conda_packages() -> str:
    """Return ``channel::name=version=build`` of all packages, one a line; empty without conda.

    The environment is the one that is activated, else the one that Python lies in. Its own files
    are read; conda is never run.
    """
    for prefix in (os.environ.get("CONDA_PREFIX"), sys.prefix):
        if prefix and (found := _packages(Path(prefix, "conda-meta"))):
            return found
    return ""


def _packages(folder: Path) -> str:
    try:
        with os.scandir(folder) as entries:
            files = [entry.path for entry in itertools.islice(entries, 2 * _MAX_PACKAGES)]
    except OSError as error:
        let_pass(error)
        return ""
    lines = {line for file in sorted(files)[:_MAX_PACKAGES] if (line := _line_of(Path(file)))}
    return "\n".join(sorted(lines, key=lambda line: line.rpartition("::")[2]))


def _line_of(file: Path) -> str:
    # The name of the file says all but the channel. What is in it is searched rather than parsed:
    # it lists every file of the package, and parsing holds the interpreter meanwhile.
    name, _, build = file.stem.rpartition("-")
    name, _, version = name.rpartition("-")
    is_named = file.suffix == ".json" and name and version and build
    if not is_named or len(file.stem) > _MAX_NAME or not file.stem.isprintable():
        return ""
    content = beginning_of(file, _MAX_BYTES, enough=lambda read: b'"channel"' in read[:-_LONGEST])
    if content is None:
        return ""
    found = _CHANNEL.search(content.decode("utf-8", "replace"))
    channel = _channel(found[1]) if found else ""
    return f"{channel}::{name}={version}={build}" if channel else f"{name}={version}={build}"


def _channel(url: str) -> str:
    """Return a channel as it is named on a command line, without tokens and passwords."""
    bare = _PLATFORM.sub("", _NAMED.sub("", _TOKEN.sub("", bare_url(url.replace("\\/", "/")))))
    return _WELL_KNOWN.sub("", bare)
