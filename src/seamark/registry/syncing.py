"""Moving runs from Python: `sync`, as the command ``seamark sync`` does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError, RunNotFoundError, SeamarkError
from seamark.journal.folder import RunFolder, iter_runs, root_dir
from seamark.journal.safe import is_folder
from seamark.options.named import folder_at, path_of
from seamark.process.interrupts import quietly
from seamark.reading.arriving import check_conflict
from seamark.registry.moving import Mover
from seamark.remote.protocol import RemoteError
from seamark.run.associated import SPACES, artifact_folder
from seamark.run.container import Container

if TYPE_CHECKING:
    from seamark.index.index import Index
    from seamark.reading.arriving import Conflict
    from seamark.reading.catalog import Ref
    from seamark.registry.moving import Moved
    from seamark.remote.protocol import Remote

__all__ = ["expect_other_place", "sync", "with_artifacts"]


def sync(
    what: Any,
    to: str | None = None,
    *,
    make_project: bool = True,
    conflict: Conflict = "new",
    project: str | None = None,
    root: str | os.PathLike[str] | None = None,
    api_token: str | None = None,
) -> list[Moved]:
    """Send runs, models and artifacts to a server or to another root, as ``seamark sync`` does.

    Artifacts on this disk that a run has as inputs or outputs are sent before it. A run of which
    something is there goes on there, and nothing is sent twice. One that comes for the first time
    is seen there once it is whole. It may be cut short at any time and be called again.

    Args:
        what: A run, an artifact or a model: the object, its id, its name, ``PROJECT/NAME``,
            ``"latest"``, or its folder; a version, such as ``"digits:3"``, likewise; a folder with
            any of them; or several of these.
        to: Where to, such as ``"https://seamark.lab"`` or ``"file:///mnt/runs"``; SEAMARK_REMOTE,
            if that names one place.
        make_project: Whether a project that is not there is made.
        conflict: What becomes of a run that comes where another run of its project has its name:
            ``"new"`` calls it ``<name>-2`` there, ``"skip"`` leaves it here, ``"error"`` raises,
            ``"replace"`` puts the other one into the trash there. A version of an artifact is one
            more version there with ``"new"``; the others count where an artifact has its name of
            which no version is here, and ``"replace"`` puts all of its versions into the trash.
        project: Project in which all of them come there; by default the one that each has here.
            Artifacts that a run has as inputs or outputs come there too.
        root: Folder of all runs, in which names are looked for; SEAMARK_DIR or the nearest
            ``.seamark``.
        api_token: For the server; SEAMARK_API_TOKEN, or what ``seamark login`` has kept.

    Returns:
        What became of each, in the order in which they were sent: artifacts before their run.

    Raises:
        ArgumentError: If an argument cannot be used, or a name may mean several runs.
        RunNotFoundError: If ``what`` names nothing.
        RunExistsError: If another run there has its name, with ``conflict="error"``.
        RemoteError: If something could not be sent; the rest was.
    """
    from seamark.blobs import finish_staged
    from seamark.remote.places import canonical, open_remote, shown

    check_conflict(conflict)
    uri = _place(to)
    folders = with_artifacts(dict.fromkeys(_folders(what, root)))
    if not folders:
        msg = f"what: expected runs, got nothing in {what!r:.200}"
        raise RunNotFoundError(msg)
    with contextlib.closing(open_remote(uri, api_token)) as remote:
        expect_other_place(remote, folders)
        place = shown(canonical(uri))
        mover = Mover(remote, place, conflict=conflict, make_project=make_project, project=project)
        done = []
        for folder in folders:
            finish_staged(folder)
            done.append(mover.move(mover.look(folder)))
    if problems := [line for one in done for line in one.problems]:
        msg = f"not everything was sent to {place}: {'; '.join(dict.fromkeys(problems))}"
        raise RemoteError(msg[:2000])
    return done


def with_artifacts(folders: Iterable[RunFolder]) -> list[RunFolder]:
    """Return folders, and before each run those of the artifacts that it read and made.

    Args:
        folders: Of runs and others.

    Returns:
        Each once; artifacts that are not on this disk are left out.
    """
    from seamark.index.index import Index

    found: dict[RunFolder, None] = {}
    with contextlib.ExitStack() as opened:
        indexes: dict[Path, Index] = {}
        for folder in folders:
            if folder.kind == "run" and folder.is_there():
                if folder.root not in indexes:
                    indexes[folder.root] = opened.enter_context(Index.open(folder.root))
                index = indexes[folder.root]
                found |= dict.fromkeys(_artifacts_of(index, folder))
            found[folder] = None
    return list(found)


def _artifacts_of(index: Index, folder: RunFolder) -> list[RunFolder]:
    with quietly(only=SeamarkError):  # what is wrong with the run is told when it is sent
        view = index.fresh_view(folder.project, folder.run)
        held = [one for space in SPACES.values() for one in view.attributes(space)]
        given = [one.value.get("of") for one in held if one.family == "artifact"]
        return [found for of in given if (found := artifact_folder(of, folder.root)) is not None]
    return []


def expect_other_place(remote: Remote, folders: Iterable[RunFolder]) -> None:
    """Refuse to send a root to itself.

    Raises:
        ArgumentError: If the remote is the root of one of the runs.
    """
    there = getattr(remote, "root", None)
    for root in {folder.root for folder in folders}:
        if isinstance(there, Path) and there.exists() and there.samefile(root):
            msg = f"to: expected another place than the root itself, got {there}"
            raise ArgumentError(msg)


def _place(to: str | None) -> str:
    from seamark.remote.places import check_uri

    given = [to] if to else os.environ.get("SEAMARK_REMOTE", "").replace(",", " ").split()
    if len(given) != 1:
        msg = (
            "to: expected one place, such as 'https://seamark.lab' or 'file:///mnt/runs', here or "
            f"in SEAMARK_REMOTE, got {len(given)}"
        )
        raise ArgumentError(msg)
    return check_uri(given[0])


def _folders(what: Any, root: str | os.PathLike[str] | None) -> Iterator[RunFolder]:
    """Yield the folders of what is to be moved.

    Raises:
        ArgumentError: If it is neither runs nor names of runs.
        RunNotFoundError: If a name is none of a run.
    """
    if isinstance(what, Container):
        yield what.folder
    elif isinstance(what, str | os.PathLike):
        yield from _named(what, root)
    elif isinstance(what, Iterable):
        for one in what:
            yield from _folders(one, root)
    else:
        msg = f"what: expected a run, its name, a folder or several of these, got {what!r:.80}"
        raise ArgumentError(msg)


def _named(
    what: str | os.PathLike[str], root: str | os.PathLike[str] | None
) -> Iterator[RunFolder]:
    if (place := path_of(what)) is not None:
        if not place.is_dir():
            msg = f"what: expected a folder with runs, got {os.fspath(what)!r:.200}"
            raise RunNotFoundError(msg)
        if (found := folder_at(place)) is not None:
            yield found
            return
        inside = (one for one in sorted(place.iterdir()) if is_folder(one))
        yield from filter(None, map(folder_at, inside))  # of one project
        for one in iter_runs(place, models=True):
            if not one.is_purged:
                yield folder_at(one.path) or one
        return
    from seamark.index.index import Index

    with Index.open(root_dir(root)) as index:
        index.refresh()
        try:
            ref = _found(index, str(what))
        except RunNotFoundError:
            if not is_folder(Path(what)):
                raise
            yield from _named(Path(what).absolute(), root)  # such as ".seamark"
            return
    yield RunFolder(root_dir(root), *ref)


def _found(index: Index, word: str) -> Ref:
    """Return what a word means: a run, else a model or a version of one, else an artifact's.

    Raises:
        ArgumentError: If it may mean several.
        RunNotFoundError: If it means none.
    """
    from seamark.reading.finding import Finder
    from seamark.store.query.registered import find_registered

    try:
        return Finder(index).find(word)
    except RunNotFoundError:
        with contextlib.suppress(RunNotFoundError):
            return find_registered(index, word).ref
        raise
