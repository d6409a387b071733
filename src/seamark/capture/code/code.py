"""Capture that records the executed code."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.code import git
from seamark.capture.code.executed import ExecutedCode
from seamark.capture.code.hiding import hide_in_code, hide_in_patch
from seamark.capture.code.packages import conda_packages, installed_packages
from seamark.types import File

if TYPE_CHECKING:
    from seamark.capture.code import Script
    from seamark.capture.code.changes import ChangedFile
    from seamark.capture.part import Recorder
    from seamark.capture.switches import Switches

__all__ = ["Code"]

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
        self._git: git.GitProbe | None = None
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
        where = git.repository_of(self._switches.git_ref, script)
        if where is None:
            return
        if_none = functools.partial(git.warn_of_none, self._switches.git_ref, where)
        self._git = probe = git.GitProbe(where, git.TIMEOUT_S, if_none)
        if not self._given_up:  # after it can be seen from there
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
        left_out: list[str] = []
        if change.extension == "patch":
            content = hide_in_patch(change.content, self._switches.secrets, left_out)
        else:
            names = change.content.decode("utf-8", "replace")
            content = hide_in_code(names, self._switches.secrets).encode()
        if content:
            self._run.keep(change.path, File.from_content(content, change.extension))
        if content != change.content:
            self._run.note_masked([change.path])
        told = [change.left_out] if change.left_out else []
        if left_out:
            told.append(f"left out because they hold secrets: {', '.join(left_out)}")
        if told:
            self._run.assign_quietly({f"{change.path}_left_out": "; ".join(told)})
