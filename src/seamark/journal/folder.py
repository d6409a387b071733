"""Layout on disk: the default root, and the names of its run folders and journals.

The default root is the nearest ``.seamark`` folder from the working directory upwards. The search
ends before a folder of another user, who might have created a malicious root there.

::

    <root>/<project path>/<run id>/journal/<writer id>.<uid>     one per writing process
    <root>/<project path>/<run id>/blobs/<sha256>                contents of files
    <root>/<project path>/<run id>/files/                        for a framework's own files
    <root>/<project path>/.project/journal/...                   the project's own log
    <root>/<project path>/.models/<key>/journal/...              the log of a model
    <root>/<project path>/.models/<key>/<id>/journal/...         the log of a model version
    <root>/<project path>/.models/<key>/.numbers/<n>             the id of version n
    <root>/<project path>/.artifacts/<name>/<digest>/...         an artifact: its journals and files
    <root>/<project path>/.artifacts/<name>/.draft-<id>/         an unsealed artifact
    <root>/<project path>/.artifacts/<name>/.numbers/<n>         the digest of version n
    <root>/<project path>/.claims/<run id>.<n>                   claim n; see `journal.reservations`
    <root>/<project path>/.twins/<hash>.<n>                      the run with revision n
    <root>/<project path>/.purged/<run id>                       left by ``seamark purge``

Code that handles runs treats a model as a run of the project ``<project path>/.models``, a model
version as a run of ``<project path>/.models/<key>``, and an artifact as a run of ``<project
path>/.artifacts/<name>``; see `seamark.paths.kind_of`.
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
from seamark.values._numbers import argument_error

ROOT_NAME: Final = ".seamark"
"""Default name of the folder that contains all runs."""


def cache_folder() -> Path:
    """Return the cache folder, which may be missing, in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seamark"


def nearest_root(*, used: bool = True) -> Path:
    """Return the nearest ``.seamark`` folder from the working directory upwards, absolute.

    The search ends before the parent of the home directory, a folder on another file system, or a
    folder of another user. If the working directory belongs to another user, only that one is
    searched. If nothing is found, the result is ``.seamark`` in the working directory.

    Raises:
        ArgumentError: If it is ``used`` and another user's, or the working directory is missing.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib does the same
    except OSError as error:
        raise ArgumentError(
            "root: the working directory no longer exists; pass root=..., SEAMARK_DIR or --root"
        ) from error
    for folder in _searched_folders(here):
        root = os.path.join(folder, ROOT_NAME)  # noqa: PTH118
        if os.path.isdir(root):  # noqa: PTH112 - the root itself may be a link
            if used:
                _expect_own(root)
            return Path(root)
    return Path(here, ROOT_NAME)


def root_inside(folder: Path) -> Path | None:
    """Return the ``.seamark`` folder inside a folder given as root; None if it is missing."""
    inside = folder / ROOT_NAME
    return inside if is_folder(inside) else None


def root_near(folder: Path) -> Path | None:
    """Return a nearby root that may have been intended, above or next to a folder; else None."""
    there = next((one for one in (folder, *folder.parents) if one.is_dir()), folder)
    for one in map(Path, _searched_folders(str(there))):
        if one.name == ROOT_NAME and one != folder:
            return one
        if is_folder(one / ROOT_NAME) and one / ROOT_NAME != folder:
            return one / ROOT_NAME
    return None


def _searched_folders(start: str) -> Iterator[str]:
    yield start
    home, me = os.path.realpath(os.path.expanduser("~")), os.geteuid()  # noqa: PTH111
    folder, device = start, None
    with quietly(only=OSError):  # the search also ends at an inaccessible folder
        while True:
            above = os.path.dirname(folder)  # noqa: PTH120
            for one in (folder, above):
                found = os.stat(one)  # noqa: PTH116
                device = found.st_dev if device is None else device
                if found.st_dev != device or me != found.st_uid:
                    return
            if folder in (home, above):
                return
            yield above
            folder = above


def _expect_own(root: str) -> None:
    """Raise ArgumentError if a root that was found by search belongs to another user."""
    me = os.geteuid()
    for found in (os.lstat(root), os.stat(root)):  # noqa: PTH116
        if me != found.st_uid:
            raise ArgumentError(
                f"root: {root} belongs to {name_of(found.st_uid)}, not to {name_of(me)}; to use "
                "it, specify it: --root on the command line, root= in Python, or SEAMARK_DIR"
            )


def name_of(user: int) -> str:
    """Return the description of a user, such as ``alice (uid 1000)``."""
    with quietly(only=(KeyError, ImportError)):
        import pwd

        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    return f"uid {user}"


DRAFT: Final = ".draft-"
"""Prefix of the folder name of an unsealed artifact, which is never listed."""
OWN_FOLDERS: Final = frozenset({"journal", "blobs", "files"})
"""Folders within a run folder that contain no runs."""
_RUN_SUBFOLDERS: Final = (*OWN_FOLDERS, ".staging")
DEEPEST: Final = 32
"""Maximum nesting depth at which runs are searched; projects are not nested deeper."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_ID_LENGTH: Final = 16
_ID_BYTES: Final = 10
_TIME_BITS: Final = 42
_RANDOM_BITS: Final = 5 * _ID_LENGTH - _TIME_BITS


def check_location(what: str, given: object, expected: str = "a path or None") -> str | None:
    """Return a path as a text; raise ArgumentError if it cannot be one."""
    if given is None:
        return None
    path = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise argument_error(given, what, expected)
    if "\0" in path:
        raise argument_error(given, what, f"{expected} without NUL characters")
    os.fsencode(path)  # fails for lone surrogates, which file systems do not have
    return path


def root_dir(root: str | os.PathLike[str] | None = None, *, used: bool = True) -> Path:
    """Return the absolute root folder: the argument, ``SEAMARK_DIR``, or the nearest ``.seamark``.

    Creates nothing. Raises ArgumentError if the argument is not a path, or if the nearest root
    belongs to another user although it is to be ``used`` (read or written).
    """
    named = check_location("root", root) or os.environ.get("SEAMARK_DIR")
    if not named:
        return nearest_root(used=used)
    return Path(os.path.abspath(named))  # noqa: PTH100 - resolve() would follow links


def _base32(digits: bytes) -> str:
    return base64.b32hexencode(digits).decode().lower()


def mint_run_id() -> str:
    """Return a new run id of 16 characters, ``[0-9a-v]``, usually identified by a short prefix.

    The first 38 bits are random. The other 42 are milliseconds since the Unix epoch (sufficient
    until 2109), so that ids of different milliseconds differ. Their order has no meaning.
    """
    now_ms = time.time_ns() // 1_000_000
    stamp = now_ms & ((1 << _TIME_BITS) - 1)
    number = secrets.randbits(_RANDOM_BITS) << _TIME_BITS | stamp
    return _base32(number.to_bytes(_ID_BYTES, "big"))


def is_run_id(text: str) -> bool:
    """Return whether a text has the form of a run id, random or hashed, of any release so far."""
    return len(text) == _ID_LENGTH and set(text) <= set(_DIGITS)


def hashed_run_id(project: str, custom_run_id: str) -> str:
    """Return the run id derived from a project and ``custom_run_id``, the same in all processes."""
    digest = hashlib.sha256(f"{project}\0{custom_run_id}".encode("utf-8", "surrogatepass")).digest()
    return _base32(digest[:_ID_BYTES])


def writer_id(uid: bytes) -> str:
    """Return ``<host>-<pid>-<8 hex digits of uid>`` for a journal of this process."""
    return f"{host_name()}-{os.getpid()}-{uid.hex()[:8]}"


def journal_name(writer: str, uid: bytes) -> str:
    """Return a journal's file name; its full uid allows the repair of a damaged file header."""
    return f"{writer}.{uid.hex()}"


@functools.lru_cache(maxsize=1024)
def split_journal_name(name: str) -> tuple[str, bytes | None]:
    """Return (writer id, uid) of a journal's file name; uid is None if the name has none."""
    writer, dot, tail = name.rpartition(".")
    if dot and re.fullmatch(r"[0-9a-f]{32}", tail):
        return writer, bytes.fromhex(tail)
    return name, None


@dataclass(frozen=True, slots=True)
class JournalFile:
    """Journal file on disk, and its writer id, by which other journals refer to it."""

    writer: str
    path: Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Folder of a run, a project's own log, a model, a model version, or an artifact.

    ``project`` is a project path; for a model or version, it is the place that contains it (see
    `seamark.paths.kind_of`). ``run`` is a run id or `PROJECT_LOG`.
    """

    root: Path
    project: str
    run: str

    @property
    def words(self) -> str:
        """Description of the object in the folder, for messages."""
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
        """Kind of the object in the folder; see `seamark.paths.kind_of`."""
        return kind_of(self.project, self.run)

    @property
    def path(self) -> Path:
        """Path of the run folder."""
        return self.root.joinpath(self.project, self.run)

    @property
    def journal_dir(self) -> Path:
        """Folder of the journals; a folder is a run if it has this subfolder."""
        return self.root.joinpath(self.project, self.run, "journal")

    @property
    def blobs_dir(self) -> Path:
        """Folder of file contents, each named by its SHA-256."""
        return self.path / "blobs"

    @property
    def files_dir(self) -> Path:
        """Folder for a framework's own files, such as checkpoints."""
        return self.path / "files"

    @property
    def staging_dir(self) -> Path:
        """Folder of files that were accepted but are not yet stored as blobs."""
        return self.path / ".staging"

    @property
    def purged_mark(self) -> Path:
        """File that marks this run as purged; such a run must not be restored."""
        return self.root / self.project / ".purged" / self.run

    @property
    def is_purged(self) -> bool:
        """Whether the run was purged; versions of a purged model count as purged too."""
        if self.purged_mark.exists():
            return True
        place, _, key = self.project.rpartition("/")
        return self.kind == "model_version" and (self.root / place / ".purged" / key).exists()

    def journals(self) -> list[JournalFile]:
        """Return the journals by name, without dot files, links, pipes and undecodable names."""
        folder = self.journal_dir
        if not (names := names_in(folder, above=1)):
            return []
        return [JournalFile(split_journal_name(name)[0], folder / name) for name in names]

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the journals as {writer id: bytes}."""
        found: dict[str, int] = {}
        for journal in self.journals():
            with contextlib.suppress(OSError):  # removed meanwhile
                size = journal.path.stat().st_size
                found[journal.writer] = max(size, found.get(journal.writer, 0))
        return found

    def link(self, *, inside: bool = True) -> Path | None:
        """Return a link below the root: at the run folder, above it or, if ``inside``, in it."""
        path = self.root.joinpath(self.project, self.run)
        above = path.parents[: self.project.count("/") + 1]
        within = map(path.joinpath, _RUN_SUBFOLDERS if inside else ())
        folders = (*reversed(above), path.parent / ".purged", path, *within)
        return next(filter(Path.is_symlink, folders), None)

    def refuse_links(self, *, inside: bool = True) -> None:
        """Raise OSError if a folder of the run is a link (see `link`): writes stay in the root."""
        if (link := self.link(inside=inside)) is not None:
            raise OSError(
                errno.ELOOP, "expected a folder, found a link; links are not followed", str(link)
            )

    def exists(self) -> bool:
        """Return whether this is a run: a folder, not a link, with a folder of journals."""
        return is_folder(self.journal_dir) and is_folder(self.path)


def is_linked(root: Path, project: str) -> bool:
    """Return whether a project or a parent project is a link; its runs are then not found."""
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
    """Yield all runs below ``root``, or of one project and its sub-projects, sorted.

    Links below the root are not followed, so that each run is found once and loops of links do no
    harm. Folders that disappear meanwhile are ignored, and an inaccessible folder does not affect
    others.

    Args:
        root: The root folder; a missing root contains no runs.
        project: Project path, or None for all.
        known: ``"project/run"`` strings of known runs, whose folders need no check.
        walked: List that gets the path of each listed folder; a new run changes one of them.
        models: Whether to also yield models, model versions and artifacts.
        unread: Called with the path of each inaccessible folder and the error.
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
        # A folder whose name is invalid for a model, version or artifact belongs to the user.
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
        # Return None if the folder is inaccessible.
        if inner in self._known:
            return True
        try:
            return stat.S_ISDIR(os.lstat(f"{path}/journal").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._walked.append(path)
            self._report_unread(path, error)
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
            self._report_unread(folder, error)
        return sorted(found)

    def _report_unread(self, folder: str, error: OSError) -> None:
        let_pass(error)
        if self._unread is not None:
            self._unread(folder, error)
        elif not isinstance(error, PermissionError):
            raise error


def purged_ids(root: Path, project: str) -> set[str]:
    """Return the ids of individually purged runs of ``project``."""
    try:
        return set(names_in(root / project / ".purged"))
    except PermissionError:
        return set()
