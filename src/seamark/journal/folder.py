"""Layout on disk: the default root, and its run folders, journals and their names.

The default root is the nearest ``.seamark`` folder from the working directory upwards. The search
ends before a folder of another user, who might have put a root there on purpose.

::

    <root>/<project path>/<run id>/journal/<writer id>.<uid>     one per writing process
    <root>/<project path>/<run id>/blobs/<sha256>                contents of files
    <root>/<project path>/<run id>/files/                        for a framework's own files
    <root>/<project path>/.project/journal/...                   the project's own log
    <root>/<project path>/.models/<key>/journal/...              the log of a model
    <root>/<project path>/.models/<key>/<id>/journal/...         that of a version of it
    <root>/<project path>/.models/<key>/.numbers/<n>             the id of its nth version
    <root>/<project path>/.artifacts/<name>/<digest>/...         an artifact: its journals and files
    <root>/<project path>/.artifacts/<name>/.draft-<id>/         one that is not sealed yet
    <root>/<project path>/.artifacts/<name>/.numbers/<n>         the digest of its nth version
    <root>/<project path>/.claims/<run id>.<n>                   its nth claim; see `journal.claims`
    <root>/<project path>/.twins/<hash>.<n>                      which run is the nth of its kind
    <root>/<project path>/.purged/<run id>                       left by ``seamark purge``

A model is, to everything that handles runs, one of the project ``<project path>/.models``, a
version one of ``<project path>/.models/<key>``, and an artifact one of
``<project path>/.artifacts/<name>``: `seamark.paths.kind_of`.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seamark.errors import ArgumentError, PathError
from seamark.journal.safe import fits, is_folder, names_in
from seamark.paths import (
    ARTIFACTS,
    MODELS,
    PROJECT_LOG,
    check_place,
    check_scope,
    home_of,
    kind_of,
    model_key,
)
from seamark.process.interrupts import let_pass, quietly
from seamark.process.liveness import host_name

__all__ = [
    "DEEPEST",
    "DRAFT",
    "OWN_FOLDERS",
    "PROJECT_LOG",
    "ROOT_NAME",
    "JournalFile",
    "RunFolder",
    "cache_folder",
    "hashed_run_id",
    "is_linked",
    "is_run_id",
    "iter_runs",
    "journal_name",
    "mint_run_id",
    "name_of",
    "nearest_root",
    "purged_ids",
    "root_dir",
    "root_inside",
    "root_near",
    "split_journal_name",
    "writer_id",
]


ROOT_NAME: Final = ".seamark"
"""Default name of the folder of all runs."""


def cache_folder() -> Path:
    """Return the folder, perhaps missing, for caches: in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seamark"


def nearest_root(*, used: bool = True) -> Path:
    """Return the nearest ``.seamark`` folder from the working directory upwards, absolute.

    The first folders that are looked in no more: the one above the home directory, one on another
    file system, and one that belongs to another user; from a working directory of another user
    nothing above it is looked in. Where there is none, it is ``.seamark`` in the working directory.

    Raises:
        ArgumentError: If it is ``used`` and another user's, or the working directory is gone.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib's is no other
    except OSError as error:
        msg = "root: the working directory is gone; name a folder (root=..., SEAMARK_DIR or --root)"
        raise ArgumentError(msg) from error
    for folder in _upwards(here):
        root = os.path.join(folder, ROOT_NAME)  # noqa: PTH118
        if os.path.isdir(root):  # noqa: PTH112 - the root itself may be a link
            if used:
                _expect_own(root)
            return Path(root)
    return Path(here, ROOT_NAME)


def root_inside(folder: Path) -> Path | None:
    """Return the ``.seamark`` folder in a folder that was named as root; None without one."""
    inside = folder / ROOT_NAME
    return inside if is_folder(inside) else None


def root_near(folder: Path) -> Path | None:
    """Return a root above or beside a folder that may have been meant; else None."""
    there = next((one for one in (folder, *folder.parents) if one.is_dir()), folder)
    for one in map(Path, _upwards(str(there))):
        if one.name == ROOT_NAME and one != folder:
            return one
        if is_folder(one / ROOT_NAME) and one / ROOT_NAME != folder:
            return one / ROOT_NAME
    return None


def _upwards(start: str) -> Iterator[str]:
    yield start
    home, me = os.path.realpath(os.path.expanduser("~")), _user()  # noqa: PTH111
    folder, device = start, None
    with quietly(only=OSError):  # what cannot be looked at is a border too
        while True:
            above = os.path.dirname(folder)  # noqa: PTH120
            for one in (folder, above):
                found = os.stat(one)  # noqa: PTH116
                device = found.st_dev if device is None else device
                if found.st_dev != device or me not in (None, found.st_uid):
                    return
            if folder in (home, above):
                return
            yield above
            folder = above


def _user() -> int | None:
    """Return the id of this process's user; None where files have no owner."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _expect_own(root: str) -> None:
    """Refuse, with ArgumentError, a root that was not named and that another user made."""
    me = _user()
    for found in (os.lstat(root), os.stat(root)):  # noqa: PTH116
        if me not in (None, found.st_uid):
            msg = (
                f"root: {root} belongs to {name_of(found.st_uid)}, not to {name_of(me)}, and is "
                "not used unless it is named: --root in the command, root= in Python, or "
                "SEAMARK_DIR"
            )
            raise ArgumentError(msg)


def name_of(user: int | None) -> str:
    """Return the text that describes a user: ``alice (uid 1000)``."""
    with quietly(only=(KeyError, ImportError)):
        import pwd

        return f"{pwd.getpwuid(user or 0).pw_name} (uid {user})"
    return f"uid {user}"


DRAFT: Final = ".draft-"
"""Name of the folder of an unsealed artifact; it is never listed."""
OWN_FOLDERS: Final = frozenset({"journal", "blobs", "files"})
"""Folders within a run folder that contain no runs."""
_INSIDE: Final = (*OWN_FOLDERS, ".staging")
DEEPEST: Final = 32
"""Maximum nesting depth at which runs are searched; projects are not nested deeper."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_ID_LENGTH: Final = 16
_ID_BYTES: Final = 10
_TIME_BITS: Final = 42
_RANDOM_BITS: Final = 5 * _ID_LENGTH - _TIME_BITS


def root_dir(root: str | os.PathLike[str] | None = None, *, used: bool = True) -> Path:
    """Return the absolute root folder: the argument, ``SEAMARK_DIR``, or the nearest ``.seamark``.

    Creates nothing. Raises ArgumentError if the argument is not a path, or if the nearest root is
    another user's although it is ``used``, read or written.
    """
    if root is not None and not isinstance(root, (str, os.PathLike)):
        msg = f"root: expected a path or None, got {type(root).__name__}: {root!r:.80}"
        raise ArgumentError(msg)
    if root is not None and "\0" in os.fspath(root):
        msg = f"root: expected a path, got one with a NUL character: {os.fspath(root)!r:.80}"
        raise ArgumentError(msg)
    named = root or os.environ.get("SEAMARK_DIR")
    if not named:
        return nearest_root(used=used)
    return Path(os.path.abspath(named))  # noqa: PTH100 - resolve() would follow links


def _base32(digits: bytes) -> str:
    return base64.b32hexencode(digits).decode().lower()


def mint_run_id() -> str:
    """Return a new run id of 16 characters, ``[0-9a-v]``, of which the first tell runs apart.

    38 bits are random, and the 42 behind them are milliseconds since the Unix epoch (enough until
    2109), so that runs of different milliseconds are never alike. The order of ids means nothing.
    """
    now_ms = time.time_ns() // 1_000_000
    stamp = now_ms & ((1 << _TIME_BITS) - 1)
    number = secrets.randbits(_RANDOM_BITS) << _TIME_BITS | stamp
    return _base32(number.to_bytes(_ID_BYTES, "big"))


def is_run_id(text: str) -> bool:
    """Return whether a text has the form of an id, random or hashed, of this release or earlier."""
    return len(text) == _ID_LENGTH and set(text) <= set(_DIGITS)


def hashed_run_id(project: str, custom_run_id: str) -> str:
    """Return the run id that every process derives from the same project and ``custom_run_id``."""
    digest = hashlib.sha256(f"{project}\0{custom_run_id}".encode("utf-8", "surrogatepass")).digest()
    return _base32(digest[:_ID_BYTES])


def writer_id(uid: bytes) -> str:
    """Return ``<host>-<pid>-<8 of uid>`` for a journal of this process."""
    return f"{host_name()}-{os.getpid()}-{uid.hex()[:8]}"


def journal_name(writer: str, uid: bytes) -> str:
    """Return a journal's file name; with the whole uid, a damaged file header can be mended."""
    return f"{writer}.{uid.hex()}"


@functools.lru_cache(maxsize=1024)
def split_journal_name(name: str) -> tuple[str, bytes | None]:
    """Return (writer id, uid) of a journal's file name; uid None if the name carries none."""
    writer, dot, tail = name.rpartition(".")
    if dot and re.fullmatch(r"[0-9a-f]{32}", tail):
        return writer, bytes.fromhex(tail)
    return name, None


@dataclass(frozen=True, slots=True)
class JournalFile:
    """Journal file on disk, and its writer id, as other journals refer to it."""

    writer: str
    path: Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run, of a project's own log, of a model, a version of one, or an artifact.

    ``project`` is a project path, of a model or version the place that holds it
    (`seamark.paths.kind_of`); ``run`` is a run id, or `PROJECT_LOG`.
    """

    root: Path
    project: str
    run: str

    @property
    def words(self) -> str:
        """Description of the object that the folder holds, for messages."""
        if self.run == PROJECT_LOG:
            return f"project {self.project!r}"
        if self.kind == "model":
            return f"model {self.run!r} of project {home_of(self.project)!r}"
        if self.kind == "model_version":
            model = f"model {model_key(self.project, self.run)!r}"
            return f"version {self.run!r} of {model} of project {home_of(self.project)!r}"
        if self.kind == "artifact":
            name = model_key(self.project, self.run)
            which = "a draft of artifact" if self.run.startswith(DRAFT) else "artifact"
            version = "" if self.run.startswith(DRAFT) else f"@sha256:{self.run:.12}"
            return f"{which} {name + version!r} of project {home_of(self.project)!r}"
        return f"run {self.run!r} of project {self.project!r}"

    @property
    def kind(self) -> str:
        """Kind of object that the folder holds; see `seamark.paths.kind_of`."""
        return kind_of(self.project, self.run)

    @property
    def path(self) -> Path:
        """The run folder itself."""
        return self.root.joinpath(self.project, self.run)

    @property
    def journal_dir(self) -> Path:
        """Folder of the journals; a folder that has one is a run."""
        return self.root.joinpath(self.project, self.run, "journal")

    @property
    def blobs_dir(self) -> Path:
        """Folder of file contents, named by their SHA-256."""
        return self.path / "blobs"

    @property
    def files_dir(self) -> Path:
        """Folder that a framework may use for files of its own, such as checkpoints."""
        return self.path / "files"

    @property
    def staging_dir(self) -> Path:
        """Folder of files that are taken but not yet blobs."""
        return self.path / ".staging"

    @property
    def purged_mark(self) -> Path:
        """File whose presence says that this run was purged and must not come back."""
        return self.root / self.project / ".purged" / self.run

    @property
    def is_purged(self) -> bool:
        """Whether it was purged and must not come back; with a model, so were its versions."""
        if self.purged_mark.exists():
            return True
        place, _, key = self.project.rpartition("/")
        return self.kind == "model_version" and (self.root / place / ".purged" / key).exists()

    def journals(self) -> list[JournalFile]:
        """Return the journals by name; no dot files, links, pipes or names that are no text."""
        folder = self.journal_dir
        if not (names := names_in(folder, above=1)):
            return []
        return [JournalFile(split_journal_name(name)[0], folder / name) for name in names]

    def sizes(self) -> dict[str, int]:
        """Return {writer id: bytes} of the journals."""
        found: dict[str, int] = {}
        for journal in self.journals():
            with contextlib.suppress(OSError):  # taken away just now
                size = journal.path.stat().st_size
                found[journal.writer] = max(size, found.get(journal.writer, 0))
        return found

    def link(self, *, inside: bool = True) -> Path | None:
        """Return a link at the run folder, above it or, if ``inside``, in it, below the root."""
        path = self.root.joinpath(self.project, self.run)
        above = path.parents[: self.project.count("/") + 1]
        within = map(path.joinpath, _INSIDE if inside else ())
        folders = (*reversed(above), path.parent / ".purged", path, *within)
        return next(filter(Path.is_symlink, folders), None)

    def refuse_links(self, *, inside: bool = True) -> None:
        """Raise OSError if a folder of the run is a link (see `link`): writes stay in the root."""
        if (link := self.link(inside=inside)) is not None:
            msg = "expected a folder, found a link, which is not followed"
            raise OSError(errno.ELOOP, msg, str(link))

    def exists(self) -> bool:
        """Return whether this is a run: a folder with journals, and no link to one."""
        return is_folder(self.journal_dir) and is_folder(self.path)


def is_linked(root: Path, project: str) -> bool:
    """Return whether a project, or one that it is in, is a link; its runs are then not found."""
    place = root / project
    return any(map(Path.is_symlink, (place, *place.parents[: project.count("/")])))


def iter_runs(
    root: Path,
    project: str | None = None,
    known: Container[str] = (),
    walked: list[str] | None = None,
    *,
    models: bool = False,
    unread: Callable[[str, OSError], None] | None = None,
) -> Iterator[RunFolder]:
    """Yield every run below ``root``, or below one project and its sub-projects, sorted.

    No link below the root is followed: a run is found once, below its own root, and a loop of links
    ends. What goes away while it is looked at is not there; what cannot be looked into takes
    nothing else with it.

    Args:
        root: The root folder; a missing one holds no runs.
        project: Project path, or None for all.
        known: ``"project/run"`` strings that are known to be runs, which spares a look inside.
        walked: Takes the path of each folder listed; one of them changes when there is a new run.
        models: Whether to yield models, their versions and artifacts as well.
        unread: Called with each folder that cannot be looked into, and why.
    """
    start = str(root / project) if project else str(root)
    if project and is_linked(root, project):
        return
    walk = _Walk(root, known, [] if walked is None else walked, unread, models=models)
    project = project or ""
    if home_of(project) == project:
        yield from walk.projects(start, project)
    elif models:
        yield from walk.registered(start, project)


class _Walk:
    def __init__(
        self,
        root: Path,
        known: Container[str],
        walked: list[str],
        unread: Callable[[str, OSError], None] | None,
        *,
        models: bool,
    ) -> None:
        self._root, self._known, self._walked, self._models = root, known, walked, models
        self._unread = unread

    def projects(self, folder: str, project: str) -> Iterator[RunFolder]:
        names = self._folders_in(folder)
        for name in names:
            if name[0] == ".":
                continue
            inner = f"{project}/{name}" if project else name
            path = f"{folder}/{name}"
            is_run = self._is_run(inner, path) if project else False
            if is_run:
                yield RunFolder(self._root, project, name)
            elif is_run is not None and name not in OWN_FOLDERS and inner.count("/") < DEEPEST:
                yield from self.projects(path, inner)
        for place in (MODELS, ARTIFACTS) if self._models and project else ():
            if place in names:
                yield from self.registered(f"{folder}/{place}", f"{project}/{place}")

    def registered(self, folder: str, project: str) -> Iterator[RunFolder]:
        # What has a name that no model, version or artifact has is somebody's own.
        below = project.endswith((f"/{MODELS}", f"/{ARTIFACTS}"))
        for name in self._folders_in(folder):
            inner, path = f"{project}/{name}", f"{folder}/{name}"
            try:
                check_scope(inner) if below else check_place(project, name)
            except PathError:
                continue
            if name in OWN_FOLDERS:
                continue
            is_one = not project.endswith(f"/{ARTIFACTS}")
            found = self._is_run(inner, path) if is_one else False
            if found:
                yield RunFolder(self._root, project, name)
            if below and found is not None:
                yield from self.registered(path, inner)

    def _is_run(self, inner: str, path: str) -> bool | None:
        # None: it may not be looked into.
        if inner in self._known:
            return True
        try:
            return stat.S_ISDIR(os.lstat(f"{path}/journal").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._walked.append(path)
            self._note(path, error)
            return None

    def _folders_in(self, folder: str) -> list[str]:
        self._walked.append(folder)
        found: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    if (
                        (name[0] != "." or name in (MODELS, ARTIFACTS))
                        and entry.is_dir(follow_symlinks=False)
                        and fits(name)
                    ):
                        found.append(name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._note(folder, error)
        return sorted(found)

    def _note(self, folder: str, error: OSError) -> None:
        let_pass(error)
        if self._unread is not None:
            self._unread(folder, error)
        elif not isinstance(error, PermissionError):
            raise error


def purged_ids(root: Path, project: str) -> set[str]:
    """Return the ids of runs of ``project`` that were purged by themselves."""
    try:
        return set(names_in(root / project / ".purged"))
    except PermissionError:
        return set()
