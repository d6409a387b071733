"""Git commands, bounded in time, memory and output, that run nothing a repository names.

The repository may be a stranger's. Its configuration can name programs that git runs when it looks
at files (``filter.*.clean`` and ``process``, ``core.fsmonitor``, textconv, hooks), or when it wants
an object that is not there (a promisor's ``ext::`` address, ``core.sshCommand``). So git is asked
in two ways. Where the repository is, its head and its settings are read by commands that look at no
file of it. Everything else is found out with a configuration of our own, in which no program is
named: `Git.isolate`. There is nothing to switch off then, and nothing to forget.
"""

from __future__ import annotations

import os
import re
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

__all__ = ["Git", "StoppedError", "has_git", "listing"]

# Bytes that are read of what one command prints; one that goes on is killed.
_MAX_OUTPUT: Final = 1 << 20
# What a command of git may allocate; packs, which it maps, do not count.
_MAX_MEMORY: Final = 1 << 30
# How long a killed command may take to end, in seconds.
_PATIENCE_S: Final = 2.0

_KEPT: Final = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
# What the user's own variables of git begin with that name settings, such as safe.directory.
_CONFIGURATION: Final = "GIT_CONFIG_"

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


class StoppedError(Exception):
    """Git or a search for files has ended early; why, in words."""


class Answer(NamedTuple):
    """Output, and exit status of a git command: None if it was killed as it printed too much."""

    code: int | None
    output: bytes

    @property
    def text(self) -> str:
        """The output, empty if the command failed."""
        return self.output.decode("utf-8", "replace").strip() if self.code == 0 else ""


def has_git() -> bool:
    """Return whether there is a git to ask."""
    return shutil.which("git") is not None


class Git:
    """Runs git in a folder; as a context manager, it kills what takes longer than ``timeout_s``."""

    def __init__(self, folder: str | os.PathLike[str], timeout_s: float) -> None:
        self.folder = os.fspath(folder)
        self._environment: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self._timer = threading.Timer(timeout_s, self.cancel)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join(1.0)  # so that no thread is left of what has ended

    def cancel(self) -> None:
        """Kill the command that runs, and start no other; from any thread."""
        self._cancelled = True  # before the process is looked for: see `_begin`
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
        """Make git use a folder of our own as the repository of the working tree ``top``.

        It is nearly empty: objects and index may be those of a real one, and of a configuration it
        has only ``settings``. So no filter, hook or helper is known to git.
        """
        (own / "refs").mkdir()
        (own / "HEAD").write_text(f"{head or 'ref: refs/heads/none'}\n", encoding="ascii")
        lines = ("[{}]\n{} = {}\n".format(*key.split("."), settings[key]) for key in settings)
        (own / "config").write_text("".join(lines), encoding="ascii")
        self._environment = {
            **_NO_CONFIGURATION,
            "HOME": str(own),  # for git before 2.32, which does not know GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(own),
            "GIT_DIR": str(own),
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects or str(own),
            "GIT_INDEX_FILE": index or str(own / "index"),
        }

    def ask(self, *arguments: str, given: bytes = b"", at_most: int = _MAX_OUTPUT) -> Answer:
        """Return what one git command prints; it is killed after ``at_most`` bytes.

        Raises:
            StoppedError: If the time is over, or git cannot be started.
        """
        process = self._begin(arguments, given)
        output = bytearray()
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while len(output) <= at_most and (part := process.stdout.read(1 << 16)):
            output += part
        is_cut = len(output) > at_most
        if is_cut:
            _kill(process)
        _reap(process)
        self._process = None
        self._check()
        return Answer(None if is_cut else process.returncode, bytes(output[:at_most]))

    def _begin(self, arguments: tuple[str, ...], given: bytes) -> subprocess.Popen[bytes]:
        # Looked for here: before 3.11.4 Python holds the interpreter while the new process searches
        # PATH, whose folders may hang.
        program = shutil.which("git")
        self._check()
        if program is None:
            msg = "git is not found"
            raise StoppedError(msg)
        # fsmonitor off: its daemon would be started by us and outlive the training.
        command = ["git", "-C", self.folder, "-c", "core.fsmonitor=false", *arguments]
        try:
            with tempfile.TemporaryFile() as file:
                file.write(given)
                file.seek(0)
                process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                    command,
                    executable=os.path.abspath(program),  # noqa: PTH100 - of a relative PATH
                    bufsize=0,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**_own_environment(), **_NOT_ASKING, **self._environment},
                    start_new_session=True,  # to be killed with what it starts, and not by Ctrl-C
                )
        except OSError as error:
            let_pass(error)
            msg = "git cannot be started"
            raise StoppedError(msg) from None
        # No lock: starting it may hang, and who cancels waits for nothing. Either he sees the
        # process, or this sees that he was there.
        self._process = process
        _bound_memory(process)
        if self._cancelled:
            _kill(process)
        return process

    def _check(self) -> None:
        if self._cancelled:
            msg = "git takes too long"
            raise StoppedError(msg)


def listing(top: str, aside: str | None, *more: str, rules: str = ".gitignore") -> list[str]:
    """Return a command of git that lists files that are not in the index, and not ignored.

    Args:
        top: The working tree.
        aside: A folder whose files are not listed: that of all runs.
        more: Further files with rules.
        rules: Name of files with rules for the folder that they lie in.
    """
    command = ["ls-files", "--others", f"--exclude-per-directory={rules}"]
    command += [f"--exclude-from={file}" for file in more if os.path.isfile(file)]  # noqa: PTH113
    if aside is not None:
        place, above = Path(os.path.realpath(aside)), Path(os.path.realpath(top))
        if above in place.parents:
            inside = re.sub(r"([*?\[\]\\!#])", r"\\\1", place.relative_to(above).as_posix())
            command.append(f"--exclude=/{inside}/")
    return command


def _own_environment() -> dict[str, str]:
    # Without what leads git elsewhere or has it run things. The user's own settings stay:
    # safe.directory may be one of them.
    kept = (*_KEPT, _CONFIGURATION)
    named = os.environ.items()
    return {key: value for key, value in named if key[:4] != "GIT_" or key.startswith(kept)}


def _bound_memory(process: subprocess.Popen[bytes]) -> None:
    # Set from this process: in one with threads, no Python code may run between fork and exec.
    if sys.platform == "linux":
        try:
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)
            limits = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
            wanted = min([*limits, _MAX_MEMORY])
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


def _reap(process: subprocess.Popen[bytes]) -> None:
    # A killed one that waits for a dead network mount is left alone.
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # else its destructor warns
