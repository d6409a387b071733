"""Another root folder as a remote, and the search for runs and names below a root."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from seamark.errors import PathError, RunNotFoundError
from seamark.index.index import Index
from seamark.journal.safe import closing_fd, is_folder, locked, make_folder, open_folder
from seamark.paths import PROJECT_LOG, check_project, home_of
from seamark.reading.catalog import Ref
from seamark.reading.finding import Finder, splits
from seamark.reading.names import Arrival, Conflict, RunName, settle, settle_artifact
from seamark.remote.file import FileRemote, root_of
from seamark.remote.protocol import RunKey

_CLAIM_FILES: Final = {"run": ".arriving", "artifact": ".arriving-artifacts"}
_MAX_CLAIMS_BYTES: Final = 4 << 20
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def _decide_locked(
    root: Path,
    project: str,
    kind: str,
    decide: Callable[[dict[str, list[object]], Iterable[RunName]], Arrival],
) -> Arrival:
    place = root / project
    make_folder(place / PROJECT_LOG)
    with closing_fd(open_folder(place / PROJECT_LOG)) as above:
        fd = os.open(_CLAIM_FILES[kind], _OPEN_FLAGS, 0o666, dir_fd=above)
    with os.fdopen(fd, "r+b") as file, locked(fd):
        held = _parse_claims(file.read(_MAX_CLAIMS_BYTES))
        with Index.open(root) as index:
            index.refresh(project)
            found = decide(held, index.names(kind))
        file.seek(0)
        file.write(json.dumps(held).encode())
        file.truncate()
        file.flush()
    return found


def _parse_claims(content: bytes) -> dict[str, list[object]]:
    try:
        held = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def find_below(root: Path, word: str, project: str, *, beginnings: bool) -> Ref:
    """Return project and id of the run below a root to which a word refers now; see `Finder.find`.

    A word without ``PROJECT/`` is looked up in ``project`` and its sub-projects.
    """
    if not root.is_dir():
        raise RunNotFoundError(f"no run {word!r:.200}: the folder {root} does not exist")
    with Index.open(root) as index:
        for one in dict.fromkeys([project, *_named_projects(root, word)]):
            index.refresh(one)
        return Finder(index).find(word, project, beginnings=beginnings)


def _named_projects(root: Path, word: str) -> Iterator[str]:
    for left, _ in splits(word):
        try:
            folder = root / check_project(left)
        except PathError:
            continue
        if is_folder(folder):
            yield left


def open_remote(uri: str, token: str | None = None) -> RootRemote:
    """Return another root as a remote without creating it; raise `ArgumentError` if invalid."""
    del token  # the file system controls access
    return RootRemote(root_of(uri))


class RootRemote(FileRemote):
    """Remote for another root folder; see `seamark.remote.protocol.Settles`."""

    def arrive(
        self,
        run: RunKey,
        name: str | None,
        conflict: Conflict,
        *,
        make_project: bool,
        versions: Sequence[str] = (),
    ) -> Arrival:
        """See `seamark.remote.protocol.Settles.arrive`."""
        home = home_of(run.project)

        def decide(held: dict[str, list[object]], known: Iterable[RunName]) -> Arrival:
            now_ns = time.time_ns()
            if versions:
                all_versions = (run.run, *versions)
                return settle_artifact(held, known, all_versions, run.project, conflict, now_ns)
            here = [one for one in known if one.project == run.project]
            return settle(held, here, run.run, name, conflict, now_ns)

        with self.translate_errors():
            if not (make_project or is_folder(self.root / home)):
                return Arrival("no project")
            if name is None and not versions:
                return Arrival("go")
            if versions:
                return _decide_locked(self.root, home, "artifact", decide)
            return _decide_locked(self.root, run.project, "run", decide)
