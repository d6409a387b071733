"""Which commit of which repository runs: asked of ``git``, which gets two seconds for it.

The repository may be a stranger's. Its configuration can name programs that git runs when it looks
at files (``filter.*.clean`` and ``process``, ``core.fsmonitor``, textconv, hooks), or when it wants
an object that is not there (a promisor's ``ext::`` address, ``core.sshCommand``). So git is asked
in two ways. Where the repository is, its head and its settings are read by commands that look at no
file of it. What has changed is found out with a configuration of our own, in which no program is
named: `_Comparison`. There is nothing to switch off then, and nothing to forget.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.capture.masking import bare_url
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.capture.script import Script

__all__ = ["TIMEOUT_S", "GitProbe", "repository_of"]

TIMEOUT_S = 2.0
"""What all of git's commands together may take, in seconds."""

_MAX_OUTPUT: Final = 1 << 20
"""Bytes that are read of what one command prints; one that goes on is killed."""

_MAX_NAMES: Final = 1 << 14
_MAX_ASKED: Final = 100
_MAX_TEXT: Final = 2048

_KEPT: Final = frozenset({"GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"})
_CONFIGURATION: Final = "GIT_CONFIG_"
"""What the user's own variables of git begin with that name settings, such as safe.directory."""

_NOT_ASKING: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # leaves the index alone, which somebody may be committing
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for git before 2.45: no transport has that name
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_NO_CONFIGURATION: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_ATTR_NOSYSTEM": "1",
}
_SETTINGS: Final = (
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.trustctime",
    "extensions.objectformat",
)
"""What of a repository's configuration says how its files are compared, and runs nothing."""

_WANTED: Final = (
    r"^(remote\..*\.url|filter\..*\.(clean|process)|" + "|".join(map(re.escape, _SETTINGS)) + ")$"
)
_PLACES: Final = ("objects", "index", "info/attributes")


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


class _Answer(NamedTuple):
    """What a git command printed.

    Attributes:
        code: Its exit status, or None if it was killed because it printed too much.
        output: At most as many bytes as were asked for.
    """

    code: int | None
    output: bytes

    @property
    def text(self) -> str | None:
        """The output, or None if the command failed."""
        return _decoded(self.output) if self.code == 0 else None


class GitProbe:
    """Asks git about one folder. A git that hangs is killed, with everything it started.

    Args:
        folder: Where git is asked.
        timeout_s: What all commands together may take, in seconds.
    """

    def __init__(self, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None

    def find(self, record: Callable[[Mapping[str, Any]], None]) -> None:
        """Hand what is found to ``record``, by path, as soon as it is known.

        Takes two seconds at most. In a repository all four facts are recorded, as null where there
        is none (a detached head has no branch, a repository without a commit has no commit);
        outside of one, or without git, nothing is. Whether it is dirty is null if that cannot be
        told without running a program that the repository names; why is then told beside it.
        """
        timer = threading.Timer(self._timeout_s, self.cancel)
        timer.daemon = True
        timer.start()
        try:
            head = self._head()
            if head is None:
                return
            record(head)
            listed = self.ask("config", "-z", "--get-regexp", _WANTED)
            settings = _Settings(listed.text or "")
            record({"source_code/git/remote": settings.remote})
            if listed.code is None:  # which filters there are is not known
                record(_unknown("the configuration of the repository is too long"))
            else:
                record(self._dirty(head["source_code/git/commit"], settings))
        except (_Cancelled, OSError) as error:
            let_pass(error)
        finally:
            timer.cancel()

    def cancel(self) -> None:
        """Kill the command that runs, and start no other; from any thread."""
        with self._lock:
            self._cancelled = True
            process = self._process
        if process is not None:
            _kill(process)

    def _head(self) -> dict[str, Any] | None:
        """Return commit and branch, or None outside of a repository."""
        known = self.ask("rev-parse", "HEAD", "--symbolic-full-name", "HEAD").text
        if known is not None:
            commit, _, reference = known.strip().partition("\n")
        else:
            commit, reference = "", (self.ask("symbolic-ref", "HEAD").text or "").strip()
            if not reference:
                return None
        branch = reference.removeprefix("refs/heads/")[:_MAX_TEXT]
        return {
            "source_code/git/commit": commit if re.fullmatch("[0-9a-f]{40,64}", commit) else None,
            "source_code/git/branch": None if branch in ("", "HEAD") else branch,
        }

    def _dirty(self, commit: str | None, settings: _Settings) -> dict[str, Any]:
        """Return whether files that git tracks have changed; nothing without a working tree."""
        asked = [word for place in _PLACES for word in ("--git-path", place)]
        found = self.ask("rev-parse", "--show-toplevel", *asked).text
        places = (found or "").splitlines()
        if len(places) != 1 + len(_PLACES):
            return {}
        with tempfile.TemporaryDirectory(prefix="seamark-git-") as folder:
            places = [os.path.join(self._folder, place) for place in places]  # noqa: PTH118
            comparison = _Comparison(self.ask, Path(folder), places, settings)
            dirty, why = comparison.dirty(commit)
        return {"source_code/git/dirty": dirty} if dirty is not None else _unknown(why)

    def ask(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        at_most: int = _MAX_OUTPUT,
    ) -> _Answer:
        """Return what one git command prints.

        Args:
            *arguments: Of git.
            environment: Further variables.
            at_most: How many bytes of output are read. One that prints more is killed.

        Raises:
            _Cancelled: If time is up, or git cannot be started.
        """
        process = self._begin(arguments, environment or {})
        output = bytearray()
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while len(output) <= at_most and (part := process.stdout.read(1 << 16)):
            output += part
        more = len(output) > at_most
        if more:
            _kill(process)
        _reap(process, self._timeout_s)
        with self._lock:
            self._process = None
        if self._cancelled:
            raise _Cancelled
        return _Answer(None if more else process.returncode, bytes(output[:at_most]))

    def _begin(
        self, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        # fsmonitor off: its daemon would be started by us and outlive the training.
        command = ["git", "-C", str(self._folder), "-c", "core.fsmonitor=false", *arguments]
        with self._lock:
            if self._cancelled:
                raise _Cancelled
            try:
                self._process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                    command,
                    bufsize=0,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**_own_environment(), **_NOT_ASKING, **environment},
                    start_new_session=True,  # to be killed with what it starts, and not by Ctrl-C
                )
            except OSError:
                raise _Cancelled from None
            return self._process


def _unknown(why: str) -> dict[str, Any]:
    return {"source_code/git/dirty": None, "source_code/git/dirty_unknown": why}


class _Settings:
    """What a repository's configuration says.

    Args:
        listed: As ``git config -z --get-regexp`` lists it.

    Attributes:
        plain: Values of `_SETTINGS`, by key.
        filters: Names of the filters that a program is named for.
        remote: The address of ``origin``, else of the first remote, without secrets; or None.
    """

    def __init__(self, listed: str) -> None:
        # Not `git remote get-url`: that applies url.<base>.insteadOf, where tokens are often kept.
        self.plain: dict[str, str] = {}
        self.filters: set[str] = set()
        urls: dict[str, str] = {}
        for entry in listed.split("\0"):
            key, _, value = entry.partition("\n")
            if key.startswith("remote."):
                urls.setdefault(key, value)
            elif key.startswith("filter."):
                self.filters.add(key.removeprefix("filter.").rpartition(".")[0])
            elif key in _SETTINGS and re.fullmatch("[A-Za-z0-9]{1,12}", value):
                self.plain[key] = value
        url = urls.get("remote.origin.url") or next(iter(urls.values()), None)
        self.remote = None if url is None else bare_url(url[:_MAX_TEXT])


class _Comparison:
    """Compares a working tree with its index and a commit, with a configuration of our own.

    A folder that is nearly empty plays the repository: it takes objects and index from the real
    one, and of its configuration only `_SETTINGS`. So no filter, hook or helper is known to git.

    Args:
        ask: Asks git.
        folder: An empty folder.
        places: The top of the working tree, and where the real repository has `_PLACES`.
        settings: Of the real repository.
    """

    def __init__(
        self, ask: Callable[..., _Answer], folder: Path, places: list[str], settings: _Settings
    ) -> None:
        top, objects, index, attributes = places
        self._ask = ask
        self._folder = folder
        self._filters = settings.filters
        self._environment = {
            **_NO_CONFIGURATION,
            "HOME": str(folder),  # for git before 2.32, which does not know GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(folder),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_INDEX_FILE": index,
        }
        self._plain = {"core.repositoryformatversion": "1", **settings.plain}
        self._options = ["-C", top, "-c", f"core.attributesFile={attributes}"]

    def dirty(self, commit: str | None) -> tuple[bool | None, str]:
        """Return whether tracked files have changed; None with the reason if that is not known."""
        (self._folder / "refs").mkdir()
        head = commit or "ref: refs/heads/none"
        (self._folder / "HEAD").write_text(f"{head}\n", encoding="ascii")
        lines = ("[{}]\n{} = {}\n".format(*key.split("."), self._plain[key]) for key in self._plain)
        (self._folder / "config").write_text("".join(lines), encoding="ascii")
        # Not `git diff`, which writes the index whatever GIT_OPTIONAL_LOCKS says. Of submodules
        # only the commits are compared: git would run itself in them, with their configuration.
        status = self._git(
            *("status", "--porcelain=v1", "-z", "--no-renames"),
            *("--untracked-files=no", "--ignore-submodules=dirty"),
            at_most=_MAX_NAMES,
        )
        if status.code:
            return None, "git cannot compare the files with the commit"
        changes = status.output.split(b"\0")[:-1]
        if not status.output:
            return False, ""
        if any(change[:1] != b" " for change in changes):
            return True, ""
        return self._judge([change[3:] for change in changes], whole=status.code == 0)

    def _judge(self, names: list[bytes], *, whole: bool) -> tuple[bool | None, str]:
        """Return whether files that differ have changed: those with a filter differ anyway."""
        asked = [os.fsdecode(name) for name in names[:_MAX_ASKED]]
        told = self._git("check-attr", "-z", "filter", "--", *asked)
        filters = [_decoded(name) for name in told.output.split(b"\0")[2::3]]
        if told.code != 0 or len(filters) != len(asked) or not asked:
            return None, "git cannot tell which of the changed files have a filter"
        if not self._filters.issuperset(filters):
            return True, ""
        count = f"{len(names)}" if whole else f"more than {len(names)}"
        named = ", ".join(sorted(set(filters)))[:200]
        return None, f"{count} of the files can only be compared by running a filter: {named}"

    def _git(self, *arguments: str, at_most: int = _MAX_OUTPUT) -> _Answer:
        environment = self._environment
        return self._ask(*self._options, *arguments, environment=environment, at_most=at_most)


def _own_environment() -> dict[str, str]:
    """Return this process's variables without those that lead git elsewhere or have it run things.

    The user's own settings stay: safe.directory may be one of them.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_CONFIGURATION)
    }


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started, which holds the pipe open otherwise."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError as error:
        let_pass(error)


def _reap(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Collect a process; a killed one that waits for a dead network mount is left alone."""
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # else its destructor warns
