"""Commit and repository of the running code, and changes since the commit, read by ``git``.

The facts get two seconds, the changes ten; a git command that takes longer is killed.

The repository may be a stranger's. Its configuration can name programs that git runs when it looks
at files (``filter.*.clean`` and ``process``, ``core.fsmonitor``, textconv, hooks), or when it wants
an object that is not there (a promisor's ``ext::`` address, ``core.sshCommand``). So git is asked
in two ways. Where the repository is, its head and its settings are read by commands that look at no
file of it. What has changed is found out with a configuration of our own, in which no program is
named: `_Comparison`. There is nothing to switch off then, and nothing to forget.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.capture.code import is_installed
from seamark.capture.code.changes import ChangedFile, Tree, diff_of, untracked_of
from seamark.capture.secrets.masking import bare_url
from seamark.capture.switches import is_switched_off
from seamark.process.interrupts import let_pass

if sys.platform == "linux":
    import resource

if TYPE_CHECKING:
    from seamark.capture.code import Script

__all__ = [
    "CHANGES_TIMEOUT_S",
    "TIMEOUT_S",
    "GitProbe",
    "repository_of",
    "warn_of_none",
]

log = logging.getLogger("seamark")

TIMEOUT_S = 2.0
"""What all of git's commands that tell the facts may take together, in seconds."""

CHANGES_TIMEOUT_S = 10.0
"""The same for those that tell what has changed; they come after the facts."""

_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_EMPTY_TREE_SHA256: Final = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"

# Bytes that are read of what one command prints; one that goes on is killed.
_MAX_OUTPUT: Final = 1 << 20

_MAX_NAMES: Final = 1 << 14
_MAX_ASKED: Final = 100
_MAX_TEXT: Final = 2048

_KEPT: Final = frozenset({"GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"})
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
# What of a repository's configuration says how its files are compared, and runs nothing.
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

_EXCLUDES: Final = "core.excludesfile"
_WORK_TREE: Final = "core.worktree"
_WANTED: Final = (
    r"^(remote\..*\.url|filter\..*\.(clean|process)|"
    + "|".join(map(re.escape, (*_SETTINGS, _EXCLUDES, _WORK_TREE)))
    + ")$"
)
_PLACES: Final = ("objects", "index", "info/attributes", "info/exclude")
# Bytes of a file with rules that git is told of: it reads all of it into memory.
_MAX_RULES: Final = 1 << 20

# What a command of git may allocate; packs, which it maps, do not count.
_MAX_MEMORY: Final = 1 << 30


_told: set[Path] = set()


class _Cancelled(Exception):  # noqa: N818 - not an error
    """Git took too long, or is no longer waited for."""


def repository_of(git_ref: Any, script: Script) -> Path | None:
    """Return the folder where git is asked, or None if it is not to be; on a thread.

    ``git_ref`` is a path; an object that has one as ``repository_path`` (Neptune's ``GitRef``);
    False, or Neptune's ``GitRef.DISABLED``, for none; None or True for the repository of the
    script. A script that is installed with Python (a console script, ``python -m``) says nothing
    about the repository, so the working directory stands in for it.
    """
    if is_switched_off(git_ref):
        return None
    if path := _path_named(git_ref):
        given = Path(os.path.abspath(script.here / path))  # noqa: PTH100 - keep links
        return given.parent if given.is_file() else given
    if script.file is None or is_installed(script.file):
        return script.here
    return script.file.parent


def warn_of_none(git_ref: Any, folder: Path) -> None:
    """Say that there is no repository where a person named one; once for each place."""
    if _path_named(git_ref) and folder not in _told:
        _told.add(folder)
        log.warning("seamark: git_ref: git finds no repository that it may read at %s", folder)


def _path_named(git_ref: Any) -> Any:
    is_path = isinstance(git_ref, (str, os.PathLike))
    return git_ref if is_path else getattr(git_ref, "repository_path", None)


class _Places(NamedTuple):
    """Paths of a repository; `files` are those of `_PLACES`, `reference` is the head's branch."""

    top: str
    own: str
    common: str
    files: list[str]
    reference: str


class _Answer(NamedTuple):
    """Output, and exit status of a git command: None if it was killed as it printed too much."""

    code: int | None
    output: bytes

    @property
    def text(self) -> str | None:
        """The output, or None if the command failed."""
        return _decoded(self.output) if self.code == 0 else None


class GitProbe:
    """Asks git about one folder. A git that hangs is killed, with everything it started.

    ``if_none`` is called if git answers that there is no repository.
    """

    def __init__(
        self,
        folder: Path,
        timeout_s: float = TIMEOUT_S,
        if_none: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._if_none = if_none
        self._timeout_s = timeout_s
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None

    def find(
        self,
        record: Callable[[Mapping[str, Any]], None],
        take: Callable[[ChangedFile], None] | None = None,
        *,
        aside: Path | None = None,
    ) -> None:
        """Pass facts to ``record``, by path, as soon as they are known.

        In a repository all four facts are recorded, as null where there is none (a detached head
        has no branch, a repository without a commit has no commit); outside of one, or without git,
        nothing is. Whether it is dirty is null if that cannot be told without running a program
        that the repository names; why is then told beside it.

        If ``take`` is given, it gets what has changed: the diff of the files that git tracks, and
        the names of those that it neither tracks nor ignores, but for those in ``aside``, the
        folder of all runs.
        """
        with contextlib.suppress(_Cancelled), tempfile.TemporaryDirectory(prefix="seamark-") as own:
            try:
                with self._at_most(self._timeout_s):
                    comparison = self._facts(record, Path(own))
                if comparison is not None and take is not None:
                    with self._at_most(CHANGES_TIMEOUT_S):
                        comparison.record_changes(record, take, aside)
            except OSError as error:
                let_pass(error)

    @contextlib.contextmanager
    def _at_most(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self.cancel)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join(1.0)  # so that no thread is left of what has ended

    def _facts(
        self, record: Callable[[Mapping[str, Any]], None], folder: Path
    ) -> _Comparison | None:
        """Record the facts; return the object that determines the changes, or None."""
        head = self._head()
        if head is None:
            self._if_none()
            return None
        record(head)
        listed = self.ask("config", "-z", "--get-regexp", _WANTED)
        settings = _Settings(listed.text or "")
        record({"source_code/git/remote": settings.remote})
        if listed.code is None:  # which filters there are is not known
            record(_unknown("the configuration of the repository is too long"))
            return None
        places = self._places()
        if places is None:
            return None
        tree = Tree(places.top, places.own, places.common, settings.work_tree)
        if not tree.holds(self._folder) or not tree.keeps(places.files[:2], places.reference):
            record(_unknown("the repository's files lie elsewhere"))
            return None
        comparison = _Comparison(self.ask, folder, places, settings)
        dirty, why = comparison.dirty(head["source_code/git/commit"])
        record({"source_code/git/dirty": dirty} if dirty is not None else _unknown(why))
        return comparison

    def cancel(self) -> None:
        """Kill the command that runs, and start no other; from any thread."""
        self._cancelled = True  # before the process is looked for: see `_begin`
        if (process := self._process) is not None:
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

    def _places(self) -> _Places | None:
        # Without a working tree there are none.
        asked = [word for place in _PLACES for word in ("--git-path", place)]
        words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", *asked)
        places = (self.ask("rev-parse", *words).text or "").splitlines()
        if len(places) != 3 + len(_PLACES):
            return None
        top, own, common, *files = (os.path.join(self._folder, place) for place in places)  # noqa: PTH118
        reference = (self.ask("rev-parse", "--symbolic-full-name", "HEAD").text or "").strip()
        return _Places(top, own, common, files, reference)

    def ask(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        at_most: int = _MAX_OUTPUT,
    ) -> _Answer:
        """Return what one git command prints; it is killed after ``at_most`` bytes."""
        process = self._begin(arguments, environment or {})
        output = bytearray()
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while len(output) <= at_most and (part := process.stdout.read(1 << 16)):
            output += part
        more = len(output) > at_most
        if more:
            _kill(process)
        _reap(process, self._timeout_s)
        self._process = None
        if self._cancelled:
            raise _Cancelled
        return _Answer(None if more else process.returncode, bytes(output[:at_most]))

    def _begin(
        self, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        # Looked for here: before 3.11.4 Python holds the interpreter while the new process searches
        # PATH, whose folders may hang.
        program = shutil.which("git")
        if program is None or self._cancelled:
            raise _Cancelled
        # fsmonitor off: its daemon would be started by us and outlive the training.
        command = ["git", "-C", str(self._folder), "-c", "core.fsmonitor=false", *arguments]
        try:
            process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                command,
                executable=os.path.abspath(program),  # noqa: PTH100 - of a relative PATH
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**_own_environment(), **_NOT_ASKING, **environment},
                start_new_session=True,  # to be killed with what it starts, and not by Ctrl-C
            )
        except OSError:
            raise _Cancelled from None
        # No lock: starting it may hang, and who cancels waits for nothing. Either he sees the
        # process, or this sees that he was there.
        self._process = process
        _bound_memory(process)
        if self._cancelled:
            _kill(process)
        return process


def _unknown(why: str) -> dict[str, Any]:
    return {"source_code/git/dirty": None, "source_code/git/dirty_unknown": why}


class _Settings:
    """Settings read from a repository's configuration, as ``git config -z --get-regexp`` lists it.

    The path of the user's ignore file (``excludes``) and of the working tree may be empty. The
    address is that of ``origin``, else of the first remote, without secrets.
    """

    def __init__(self, listed: str) -> None:
        # Not `git remote get-url`: that applies url.<base>.insteadOf, where tokens are often kept.
        self.plain: dict[str, str] = {}
        self.filters: set[str] = set()
        self.excludes = ""
        self.work_tree = ""
        urls: dict[str, str] = {}
        for entry in listed.split("\0"):
            key, _, value = entry.partition("\n")
            if key.startswith("remote."):
                urls.setdefault(key, value)
            elif key.startswith("filter."):
                self.filters.add(key.removeprefix("filter.").rpartition(".")[0])
            elif key == _EXCLUDES:
                self.excludes = value[:_MAX_TEXT]
            elif key == _WORK_TREE:
                self.work_tree = value
            elif key in _SETTINGS and re.fullmatch("[A-Za-z0-9]{1,12}", value):
                self.plain[key] = value
        url = urls.get("remote.origin.url") or next(iter(urls.values()), None)
        self.remote = None if url is None else bare_url(url[:_MAX_TEXT])


class _Comparison:
    """Compares a working tree with its index and a commit, with a configuration of our own.

    A folder that is nearly empty plays the repository: it takes objects and index from the real
    one, and of its configuration only `_SETTINGS`. So no filter, hook or helper is known to git.
    """

    def __init__(
        self, ask: Callable[..., _Answer], folder: Path, places: _Places, settings: _Settings
    ) -> None:
        top, (objects, index, attributes, exclude) = places.top, places.files
        self._ask = ask
        self._folder = folder
        self._top = Path(top)
        self._head = ""
        self._is_clean = False
        self._filters = settings.filters
        self._ignoring = [exclude, _user_excludes(settings.excludes)]
        self._environment = {
            **_NO_CONFIGURATION,
            "HOME": str(folder),  # for git before 2.32, which does not know GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(folder),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_INDEX_FILE": index,
            "GIT_LITERAL_PATHSPECS": "1",  # names of files are no patterns
        }
        self._plain = {"core.repositoryformatversion": "1", **settings.plain}
        self._options = ["-C", top]
        if _is_short(attributes):
            self._options += ["-c", f"core.attributesFile={attributes}"]

    def dirty(self, commit: str | None) -> tuple[bool | None, str]:
        """Return whether tracked files have changed; None with the reason if that is not known."""
        self._head = commit or self._empty_tree
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
            self._is_clean = True
            return False, ""
        if any(change[:1] != b" " for change in changes):
            return True, ""
        return self._judge([change[3:] for change in changes], whole=status.code == 0)

    def _judge(self, names: list[bytes], *, whole: bool) -> tuple[bool | None, str]:
        # Files with a filter differ anyway.
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

    @property
    def _empty_tree(self) -> str:
        """The name of a tree without files, which git knows by itself."""
        is_long = self._plain.get("extensions.objectformat") == "sha256"
        return _EMPTY_TREE_SHA256 if is_long else _EMPTY_TREE

    def record_changes(
        self,
        record: Callable[[Mapping[str, Any]], None],
        take: Callable[[ChangedFile], None],
        aside: Path | None,
    ) -> None:
        """Pass on the changes; call it after `dirty`. See `GitProbe.find`."""
        diff = None
        if not self._is_clean:
            diff = diff_of(self._git, self._top, self._head, self._filters)
        if diff is not None:
            record({"source_code/git/files_changed": diff.files})
            take(diff.taken)
        ignoring = [place for place in self._ignoring if _is_short(place)]
        untracked = untracked_of(self._git, self._top, ignoring, aside)
        if untracked is not None:
            take(untracked)

    def _git(self, *arguments: str, at_most: int = _MAX_OUTPUT) -> _Answer:
        environment = self._environment
        return self._ask(*self._options, *arguments, environment=environment, at_most=at_most)


def _user_excludes(named: str) -> str:
    if named:
        return os.path.expanduser(named)  # noqa: PTH111 - may be any text
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return os.path.join(home, "git", "ignore")  # noqa: PTH118


def _is_short(file: str) -> bool:
    """Return whether git may read a file of rules: a regular one, not too long."""
    try:
        found = os.stat(file)  # noqa: PTH116 - may be any text
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_RULES


def _bound_memory(process: subprocess.Popen[bytes]) -> None:
    # Set from this process: in one with threads, no Python code may run between fork and exec.
    if sys.platform == "linux":
        try:
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)
            if soft == resource.RLIM_INFINITY or soft > _MAX_MEMORY:
                known = hard == resource.RLIM_INFINITY or hard > _MAX_MEMORY
                wanted = _MAX_MEMORY if known else hard
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (wanted, hard))
        except (OSError, ValueError) as error:
            let_pass(error)


def _own_environment() -> dict[str, str]:
    # Without what leads git elsewhere or has it run things. The user's own settings stay:
    # safe.directory may be one of them.
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_CONFIGURATION)
    }


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError as error:
        let_pass(error)


def _reap(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    # A killed one that waits for a dead network mount is left alone.
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # else its destructor warns
