"""Which commit of which repository runs: asked of ``git``, which gets two seconds for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.masking import bare_url
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.capture.script import Script

__all__ = ["TIMEOUT_S", "GitProbe", "repository_of"]

TIMEOUT_S = 2.0
"""What all of git's commands together may take, in seconds."""

_NOT_ASKING: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # leaves the index alone, which somebody may be committing
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


class _Cancelled(Exception):  # noqa: N818 - not an error
    """Git took too long, or is no longer waited for."""


def repository_of(git_ref: Any, script: Script) -> Path | None:
    """Return the folder where git is asked, or None if it is not to be.

    Args:
        git_ref: A path; an object that has one as ``repository_path`` (Neptune's ``GitRef``);
            False, or Neptune's ``GitRef.DISABLED``, for none; None or True for the repository of
            the script.
        script: The script that runs. One that is installed with Python (a console script, ``python
            -m``) says nothing about the repository, so the working directory stands in for it.
    """
    if git_ref is False or "disabled" in type(git_ref).__name__.lower():
        return None
    path = (
        git_ref
        if isinstance(git_ref, (str, os.PathLike))
        else getattr(git_ref, "repository_path", None)
    )
    if path:
        given = Path(os.path.abspath(path))  # noqa: PTH100 - keep links
        return given.parent if given.is_file() else given
    if script.file is None or _is_installed(script.file):
        return Path.cwd()
    return script.file.parent


def _is_installed(file: Path) -> bool:
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    return any(file.is_relative_to(prefix) for prefix in prefixes)


class GitProbe:
    """Asks git about one folder. A git that hangs is killed, with everything it started.

    Args:
        folder: Where git is asked.
        timeout_s: What all commands together may take, in seconds.
    """

    def __init__(self, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._deadline = 0.0
        self._lock = threading.Lock()
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None

    def find(self, record: Callable[[Mapping[str, Any]], None]) -> None:
        """Hand what is found to ``record``, by path, as soon as it is known.

        Takes two seconds at most. In a repository all four facts are recorded, as null where there
        is none (a detached head has no branch, a repository without a commit has no commit);
        outside of one, or without git, nothing is.
        """
        self._deadline = time.monotonic() + self._timeout_s
        try:
            head = self._head()
            if head is None:
                return
            record(head)
            record({"source_code/git/remote": self._remote()})
            status = self._ask("status", "--porcelain", "--untracked-files=no")
            if status is not None:
                record({"source_code/git/dirty": bool(status.strip())})
        except _Cancelled:
            return

    def cancel(self) -> None:
        """Kill the command that runs, and start no other; from any thread."""
        with self._lock:
            self._cancelled = True
            process = self._process
        if process is not None:
            _kill(process)

    def _head(self) -> dict[str, Any] | None:
        """Return commit and branch, or None outside of a repository."""
        known = self._ask("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
        if known is not None:
            commit, _, reference = known.strip().partition("\n")
        else:
            commit, reference = "", (self._ask("symbolic-ref", "HEAD") or "").strip()
            if not reference:
                return None
        branch = reference.removeprefix("refs/heads/")
        return {
            "source_code/git/commit": commit or None,
            "source_code/git/branch": None if branch in ("", "HEAD") else branch,
        }

    def _remote(self) -> str | None:
        """Return the address of ``origin``, else of the first remote, without secrets."""
        # Not `git remote get-url`: that applies url.<base>.insteadOf, where tokens are often kept.
        lines = (self._ask("config", "--get-regexp", r"^remote\..*\.url$") or "").splitlines()
        urls = {key: url for key, _, url in (line.partition(" ") for line in reversed(lines))}
        if not urls:
            return None
        first = re.match(r"\S+", lines[0])
        return bare_url(urls.get("remote.origin.url") or urls[first[0] if first else ""])

    def _ask(self, *arguments: str) -> str | None:
        """Return what one git command prints, or None if it fails.

        Raises:
            _Cancelled: If time is up, or git cannot be started.
        """
        process = self._begin(arguments)
        try:
            output, _ = process.communicate(timeout=max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill(process)
            _reap(process)
            raise _Cancelled from None
        finally:
            with self._lock:
                self._process = None
        if self._cancelled:
            raise _Cancelled
        return output.decode("utf-8", "replace") if process.returncode == 0 else None

    def _begin(self, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        # fsmonitor off: its daemon would be started by us and outlive the training.
        command = ["git", "-C", str(self._folder), "-c", "core.fsmonitor=false", *arguments]
        with self._lock:
            if self._cancelled:
                raise _Cancelled
            try:
                self._process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_NOT_ASKING},
                    start_new_session=True,  # to be killed with what it starts, and not by Ctrl-C
                )
            except OSError:
                raise _Cancelled from None
            return self._process


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started, which holds the pipe open otherwise."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError as error:
        let_pass(error)


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Collect a killed process; one that waits for a dead network mount is left alone."""
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # else its destructor warns
