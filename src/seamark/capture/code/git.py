"""Git commands with limited time, memory and output that run no program named by a repository.

The repository is untrusted. Its configuration can name programs that git runs when it reads files
(``filter.*.clean`` and ``process``, ``core.fsmonitor``, textconv, hooks) or fetches a missing
object (``ext::`` address of a promisor, ``core.sshCommand``). Therefore git is used in two ways.
Commands that read no tracked file determine the location, head and settings of the repository. All
other commands use a separate configuration that names no program (`Git.isolate`), so that no
setting has to be disabled one by one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from seamark.process.interrupts import let_pass

if sys.platform == "linux":
    import resource


# Maximum output of one command, in bytes; a command that prints more is killed.
_MAX_OUTPUT_BYTES: Final = 1 << 20
# Maximum memory that a git command may allocate, in bytes; mapped packs are not counted.
_MAX_MEMORY_BYTES: Final = 1 << 30
# Maximum time to wait for a killed command, in seconds.
_REAP_TIMEOUT_S: Final = 2.0

_KEPT_VARIABLES: Final = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
# Prefix of the user's variables of git that contain settings, such as safe.directory.
_CONFIG_PREFIX: Final = "GIT_CONFIG_"

_NON_INTERACTIVE: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # do not lock the index, which a commit may be using
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for git before 2.45: no transport has that name
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_EMPTY_CONFIG: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_ATTR_NOSYSTEM": "1",
}


class StoppedError(Exception):
    """A git command or a search for files ended early; the message is the reason."""


class Answer(NamedTuple):
    """Exit status and output of a git command; the status is None if the output was too long."""

    code: int | None
    output: bytes

    @property
    def text(self) -> str:
        """Output of the command, empty if it failed."""
        return self.output.decode("utf-8", "replace").strip() if self.code == 0 else ""


def has_git() -> bool:
    """Return whether git is installed."""
    return shutil.which("git") is not None


class Git:
    """Runner of git commands in a folder; as a context manager, it limits their time together."""

    def __init__(self, folder: str | os.PathLike[str], timeout_s: float) -> None:
        self.folder = os.fspath(folder)
        self._environment: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        self._timer = threading.Timer(self._timeout_s, self.cancel)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join(1.0)  # leave no thread behind

    def cancel(self) -> None:
        """Kill the running command, and start no other; may be called from any thread."""
        self._cancelled = True  # before `_process` is read: see `_start`
        if (process := self._process) is not None:
            _kill(process)

    def isolate(
        self,
        own: Path,
        top: str,
        *,
        head: str = "",
        objects: str = "",
        index: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make git use the folder ``own`` as the repository of the working tree ``top``.

        The folder is nearly empty: objects and index may be those of a real repository, and the
        configuration contains only ``settings``. So git finds no filter, hook or helper.
        """
        (own / "refs").mkdir()
        (own / "HEAD").write_text(f"{head or 'ref: refs/heads/none'}\n", encoding="ascii")
        lines = ("[{}]\n{} = {}\n".format(*key.split("."), settings[key]) for key in settings)
        (own / "config").write_text("".join(lines), encoding="ascii")
        self._environment = {
            **_EMPTY_CONFIG,
            "HOME": str(own),  # for git before 2.32, which does not support GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(own),
            "GIT_DIR": str(own),
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects or str(own),
            "GIT_INDEX_FILE": index or str(own / "index"),
        }

    def ask(self, *arguments: str, given: bytes = b"", at_most: int = _MAX_OUTPUT_BYTES) -> Answer:
        """Run one git command and return its output; it is killed after ``at_most`` bytes.

        Raises:
            StoppedError: If the time limit is exceeded, or git cannot be started.
        """
        process = self._start(arguments, given)
        output = bytearray()
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while len(output) <= at_most and (part := process.stdout.read(1 << 16)):
            output += part
        is_cut = len(output) > at_most
        if is_cut:
            _kill(process)
        _wait_for_end(process)
        self._process = None
        self._check_cancelled()
        return Answer(None if is_cut else process.returncode, bytes(output[:at_most]))

    def _start(self, arguments: tuple[str, ...], given: bytes) -> subprocess.Popen[bytes]:
        # Searched here: before 3.11.4, Python holds the GIL while the new process searches PATH,
        # whose folders may hang.
        program = shutil.which("git")
        self._check_cancelled()
        if program is None:
            raise StoppedError("git is not found")
        # Without fsmonitor, whose daemon would be started here and outlive the training.
        command = ["git", "-C", self.folder, "-c", "core.fsmonitor=false", *arguments]
        try:
            with tempfile.TemporaryFile() as file:
                file.write(given)
                file.seek(0)
                process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                    command,
                    executable=os.path.abspath(program),  # noqa: PTH100 - PATH may be relative
                    bufsize=0,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**_git_environment(), **_NON_INTERACTIVE, **self._environment},
                    start_new_session=True,  # kill its children too, and ignore Ctrl-C
                )
        except OSError as error:
            let_pass(error)
            raise StoppedError("git cannot be started") from None
        # Without a lock, because starting may hang and `cancel` must not wait. Either `cancel` sees
        # the process, or the flag is seen here.
        self._process = process
        _limit_memory(process)
        if self._cancelled:
            _kill(process)
        return process

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise StoppedError("git takes too long")


def _git_environment() -> dict[str, str]:
    # Without variables that redirect git or make it run programs. The user's own settings stay,
    # because safe.directory may be one of them.
    kept = (*_KEPT_VARIABLES, _CONFIG_PREFIX)
    named = os.environ.items()
    return {key: value for key, value in named if key[:4] != "GIT_" or key.startswith(kept)}


def _limit_memory(process: subprocess.Popen[bytes]) -> None:
    # Set by the parent: with threads, no Python code may run between fork and exec.
    if sys.platform == "linux":
        try:
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)
            limits = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
            wanted = min([*limits, _MAX_MEMORY_BYTES])
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (wanted, hard))
        except (OSError, ValueError) as error:
            let_pass(error)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError as error:
        let_pass(error)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    # A killed process that waits for a dead network mount is abandoned.
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_REAP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # otherwise its destructor warns
