"""Projects and the trash of a folder, which has no accounts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from seamark.errors import SeamarkError
from seamark.index.purging import is_live, remove
from seamark.journal.folder import RunFolder, iter_runs
from seamark.journal.safe import is_folder
from seamark.neptune.management.exceptions import ManagementOperationFailure, ProjectAlreadyExists
from seamark.paths import ARTIFACTS, MODELS, PROJECT_LOG, home_of
from seamark.reading.catalog import Catalog, Ref

_SUFFIXES = {
    "run": "",
    "model": f"/{MODELS}",
    "model_version": f"/{MODELS}",
    "artifact": f"/{ARTIFACTS}",
}

log = logging.getLogger("seamark")


class FolderBackend:
    """Management of the runs of one root folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def close(self) -> None:
        """Do nothing: no resource is held between calls."""

    # ------------------------------------------------------------------ projects

    def projects(self) -> list[str]:
        """Return the projects with records."""
        walked: list[str] = []
        found = {
            home_of(each.project) for each in iter_runs(self._root, None, (), walked, models=True)
        }
        for path in walked:
            if is_folder(f"{path}/{PROJECT_LOG}/journal"):
                found.add(Path(path).relative_to(self._root).as_posix())
        return sorted(found)

    def create(
        self, project: str, key: str | None, visibility: str, description: str | None
    ) -> str:
        """Create a project by recording its name; keys and visibility exist only on servers."""
        from seamark.registry.project import init_project

        del key, visibility
        if project in self.projects():
            raise ProjectAlreadyExists(f"project {project!r} exists already in {self._root}")
        with init_project(project, root=self._root, mode="offline") as made:
            made["sys/name"] = project.rpartition("/")[2]
            if description:
                made["sys/description"] = description
        return project

    def delete(self, project: str) -> NoReturn:
        """Raise an error that describes how to delete a project."""
        raise ManagementOperationFailure(
            f"{self._root}: a project cannot be deleted as a whole: delete its runs with "
            f"`seamark purge --force --project {project} --query ...`"
        )

    # ------------------------------------------------------------------ accounts

    def _no_accounts(self, *_: object, **__: object) -> NoReturn:
        raise ManagementOperationFailure(
            f"{self._root} is a folder, which has no members and no workspaces: set SEAMARK_REMOTE "
            "to a server, or pass an api_token of `seamark token create --neptune`"
        )

    members = add = remove = expect_service = _no_accounts
    workspace_members = service_accounts = status = invite = _no_accounts

    # ------------------------------------------------------------------ the trash

    def trash(self, project: str, ids: Sequence[str]) -> None:
        """Move objects to the trash, and models with their versions."""
        from seamark.run.logbook import set_trashed

        done = 0
        with self._catalog(project) as catalog:
            for word in ids:
                with _warn_and_continue():
                    found = self._with_versions(catalog, _resolve_id(catalog, project, word))
                    set_trashed(catalog, self._root, found, trashed=True)
                    done += 1
        log.info("seamark: moved %d of %d objects to the trash of %s", done, len(ids), project)

    def delete_trashed(self, project: str, ids: Sequence[str]) -> None:
        """Permanently delete objects in the trash."""
        with self._catalog(project) as catalog:
            trashed = _trashed(catalog, project)
            for word in ids:
                with _warn_and_continue():
                    ref = _resolve_id(catalog, project, word, trashed=True)
                    if ref not in trashed:
                        raise ManagementOperationFailure(
                            f"{word!r:.200} of project {project} is not in the trash"
                        )
                    self._delete(catalog, ref, trashed)

    def clear(self, project: str) -> None:
        """Permanently delete everything in the trash."""
        with self._catalog(project) as catalog:
            trashed = _trashed(catalog, project)
            for ref in trashed:
                with _warn_and_continue():
                    self._delete(catalog, ref, trashed)

    def _delete(self, catalog: Catalog, ref: Ref, trashed: Sequence[Ref]) -> None:
        found = self._with_versions(catalog, ref)
        if left := [each for each in found if each not in trashed]:
            raise ManagementOperationFailure(
                f"{'/'.join(ref)}: {len(left)} of its versions are not in the trash"
            )
        folders = [RunFolder(self._root, *each) for each in found]
        folders = [each for each in folders if each.path.is_dir()]
        for folder in folders:
            if is_live(folder):
                raise ManagementOperationFailure(
                    f"{folder.project}/{folder.run}: a process is still writing to it"
                )
        for folder in folders:
            remove(folder)

    def _with_versions(self, catalog: Catalog, ref: Ref) -> list[Ref]:
        if not ref[0].endswith(f"/{MODELS}"):
            return [ref]
        place = "/".join(ref)
        versions = catalog.runs(place, "model_version")
        return [*(each for each in versions if each[0] == place), ref]

    @contextlib.contextmanager
    def _catalog(self, project: str) -> Iterator[Catalog]:
        from seamark.opening.place import open_catalog

        with contextlib.closing(open_catalog(self._root)) as catalog:
            catalog.refresh(project)
            yield catalog


@contextlib.contextmanager
def _warn_and_continue() -> Iterator[None]:
    # An error of one object does not affect the others, as with Neptune.
    try:
        yield
    except (SeamarkError, OSError) as error:
        log.warning("seamark: %s", error)


def _resolve_id(catalog: Catalog, project: str, word: str, *, trashed: bool = False) -> Ref:
    from seamark.errors import RunNotFoundError
    from seamark.reading.finding import Finder
    from seamark.store.query.selection import MODEL_KINDS, find_registered

    try:
        finder = Finder(catalog)
        found = finder.find(word, project, elsewhere=False, trashed=trashed, beginnings=False)
    except RunNotFoundError as error:
        try:
            found = find_registered(catalog, word, project, MODEL_KINDS).ref
        except RunNotFoundError:
            raise error from None
    if home_of(found[0]) != project:
        raise RunNotFoundError(f"{word!r:.200} is in project {home_of(found[0])}, not in {project}")
    return found


def _trashed(catalog: Catalog, project: str) -> list[Ref]:
    # Versions come before models.
    from seamark.reading.catalog import Selection

    found: list[Ref] = []
    for kind, below in reversed(_SUFFIXES.items()):
        selected = catalog.select(Selection(project=project + below, trashed=True, kind=kind))
        found += [ref for ref in selected if home_of(ref[0]) == project]
    return found
