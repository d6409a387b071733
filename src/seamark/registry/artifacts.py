"""Artifacts: sets of files and references, in versions that never change."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Final

from seamark.blobs.draft import files_below
from seamark.blobs.store import open_blob
from seamark.errors import (
    ArgumentError,
    FileMissingError,
    InactiveRunError,
    RunNotNamedError,
)
from seamark.journal.folder import DRAFT, RunFolder, mint_run_id
from seamark.opening.place import artifact_root
from seamark.options.checks import given_tags
from seamark.options.run_options import folder_named
from seamark.paths import ARTIFACTS, check_artifact, home_of, model_key
from seamark.pictures.printing import is_quiet, progress_bar
from seamark.process.interrupts import quietly
from seamark.reading.contents import check_alias
from seamark.reading.names import LATEST
from seamark.reading.tables import RunsTable
from seamark.registry.draft import DraftSession
from seamark.registry.model import NUMBER, Place, Registered, check_arguments, record_facts
from seamark.run.artifact import (
    OBJECTS,
    ArtifactObject,
    destination_of,
    digest_of_objects,
    objects_in,
    uri_of,
)
from seamark.run.logbook import LogSession, Progress, append_ops
from seamark.values._numbers import argument_error

_ALIASES: Final = "sys/aliases"


def init_artifact(
    with_id: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    project: str | None = None,
    tags: Any = None,
    description: str | None = None,
    mode: str | None = None,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
    **others: Any,
) -> Artifact:
    """Create a version of an artifact, or open an existing one.

    A new version is a private draft until `Artifact.save`, or until the end of the ``with`` block.
    The same content is always the same version.

    Args:
        with_id: A version to open: ``NAME:3``, ``NAME:latest``, ``NAME:best`` (an alias),
            ``NAME@sha256:...``, or ``NAME`` for the latest, optionally prefixed by ``PROJECT/``. Or
            its folder, as a path or a ``file://`` URI.
        name: Artifact of a new version: letters, digits, ``.``, ``_`` and ``-``.
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        tags: Tags, stored in ``sys/tags``; a mapping gives keyed tags under ``tags/``.
        description: Description, free text.
        mode: ``"read-only"`` opens with_id for reading; the others as in `init_run`.
        root: Folder of all artifacts; SEAMARK_ARTIFACT_DIR, else the folder of all runs:
            SEAMARK_DIR or the nearest ``.seamark``.
        remote: Destination of a saved version, or source with ``mode="read-only"``.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune that have no effect here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        RunNotNamedError: If neither ``with_id`` nor ``name`` is given.
        RunNotFoundError: If the version does not exist.
        PathError: If the project or the name is invalid.
        ArgumentError: If another argument is invalid.
        JournalError: If the root cannot be written to.
    """
    folder = folder_named(with_id, root, "artifact", "a version of an artifact")
    word = None if folder else with_id
    check_arguments(init_artifact, others, with_id=word, name=name, description=description)
    told = given_tags("tags", tags)
    if folder is not None:
        project, root = home_of(folder.project), folder.root
    named = with_id is not None
    place = Place.of(project, mode, root, remote, api_token, named=named, otherwise=artifact_root())
    if with_id is not None:
        if name is not None:
            raise ArgumentError(
                "init_artifact: expected with_id of a version or the name of a new one, got both"
            )
        ref = (folder.project, folder.run) if folder else place.find(str(with_id), "artifact")
        made = Artifact(place.session(ref, is_new=folder is not None))
    elif name is None:
        raise RunNotNamedError(
            "init_artifact: expected name='...' of a new version, or with_id='...', got neither"
        )
    else:
        place.expect_writing("init_artifact")
        home = f"{place.project}/{ARTIFACTS}/{check_artifact(name)}"
        folder = RunFolder(place.root, home, DRAFT + mint_run_id())
        made = Artifact(DraftSession(place, folder))
    return record_facts(made, description=description, tags=told)


class Artifact(Registered):
    """A version of an artifact: objects that never change, and metadata.

    Created by `init_artifact`; ``Artifact(...)`` with its arguments is the same. It has the methods
    of a run for metadata. Objects can be added while it is a draft; `digest`, `version`, `aliases`,
    `download` and `open` need a saved version. Calls in the wrong phase raise `InactiveRunError`.
    """

    container_type: ClassVar[str] = "artifact"
    _opened = staticmethod(init_artifact)

    def __repr__(self) -> str:
        which = "draft" if self.is_draft else f"@sha256:{self.digest[:12]}"
        return f"<seamark.Artifact {self.project}/{self.name} {which}>"

    # ---------------------------------------------------------------- identity

    @property
    def is_draft(self) -> bool:
        """Whether objects can still be added; other processes do not see a draft."""
        return self._draft is not None

    @property
    def _draft(self) -> DraftSession | None:
        return self.session if isinstance(self.session, DraftSession) else None

    @property
    def name(self) -> str:
        """Name of the artifact, shared by all its versions."""
        return model_key(self.folder.project, self.folder.run)

    @property
    def digest(self) -> str:
        """SHA-256 of its objects, hex; it identifies this version globally."""
        self._expect_sealed("digest")
        return self.folder.run

    @property
    def version(self) -> int | None:
        """Number (1-based) among the versions of the artifact; None if it has none here."""
        self._expect_sealed("version")
        found = self.session.recorded.value(NUMBER)
        return None if found is None else int(found)

    @property
    def aliases(self) -> list[str]:
        """Aliases, sorted; ``latest`` belongs to the version with the greatest number."""
        self._expect_sealed("aliases")
        return list(self.session.recorded.value("sys/aliases") or ())

    # ---------------------------------------------------------------- objects

    @property
    def objects(self) -> list[ArtifactObject]:
        """Objects, sorted by name.

        Raises:
            FileMissingError: If they differ from the saved ones.
        """
        if self._draft is not None:
            return list(self._draft.objects)
        if self.session.recorded.silent:
            return []
        found = self.session.recorded.reader()
        members = None if found is None else found.attribute(OBJECTS)
        objects = objects_in(members.value if members and members.family == "file_set" else {})
        if (digest := digest_of_objects(objects)) != self.folder.run:
            raise FileMissingError(
                f"{self.session.recorded.words}: its objects differ from the saved ones: "
                f"expected the digest {self.folder.run}, got {digest}"
            )
        return objects

    def add_file(self, path: str | os.PathLike[str], destination: str | None = None) -> None:
        """Add a copy of a file.

        Args:
            path: The file; a link stands for its target.
            destination: Name within the artifact, with ``/``; a name that ends with ``/`` is the
                target folder. None for the file's own name.

        Raises:
            FileMissingError: If there is no such file, or it changes while it is read.
            ArgumentError: If the destination leads out of the artifact, or is taken.
            OSError: If it cannot be copied.
        """
        draft = self._to_change("add_file")
        source = _local("path", path)
        if not Path(source).is_file():
            hint = ": add_dir adds a folder" if Path(source).is_dir() else ""
            raise FileMissingError(
                f"path: expected an existing file, got {os.fspath(path)!r:.200}{hint}"
            )
        draft.add({destination_of(Path(source).name, destination): source})

    def add_dir(self, path: str | os.PathLike[str], destination: str | None = None) -> None:
        """Add copies of all files below a folder.

        A link stands for its target, which must be inside the folder.

        Args:
            path: The folder.
            destination: Name within the artifact; a name that ends with ``/`` is the target folder.
                None for the folder's own name.

        Raises:
            FileMissingError: If there is no such folder, an entry is not a file, a link leads out
                of it, or a file changes while it is read.
            ArgumentError: If a name is invalid for an object, or taken.
            OSError: If a file cannot be copied; nothing of the folder is added then.
        """
        draft = self._to_change("add_dir")
        source = _local("path", path)
        below = destination_of(Path(source).name, destination and destination.removesuffix("./"))
        draft.add({f"{below}/{name}": file for name, file in files_below(source).items()})

    def add_reference(self, uri: str, destination: str | None = None) -> None:
        """Add a reference to an external object, which is not read.

        Args:
            uri: URI such as ``s3://bucket/key``; user and password are removed.
            destination: As in `add_file`.

        Raises:
            ArgumentError: If the URI is invalid, or the destination leads out of the artifact or is
                taken.
        """
        draft = self._to_change("add_reference")
        told, own = uri_of(uri)
        name = destination_of(own, destination)
        uri = self.session.recorder.contents.hide(OBJECTS, told)
        draft.objects.put([ArtifactObject(name, uri=uri)])

    # ---------------------------------------------------------------- sealing

    def save(self) -> Artifact:
        """Seal the draft: it becomes an immutable version that is visible to everyone.

        If a version with the same objects exists, this object becomes that version. A killed
        process leaves either the draft or the complete version. Further calls do nothing.

        Returns:
            Itself.

        Raises:
            ArgumentError: If it has no objects.
            InactiveRunError: If it was stopped before.
            OSError: If writing fails; it stays a draft then.
        """
        draft = self._draft
        if draft is None or draft.recorder.silent:
            return self
        if not len(self._to_change("save").objects):
            raise ArgumentError(
                f"save: {self.name!r} has no objects: use add_file, add_dir or add_reference"
            )
        self.session, again = draft.seal()
        if again and self.session.recorded.value("sys/trashed"):  # it is wanted again
            self.start()
            self.session.recorder.values.assign_quietly({"sys/trashed": False})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Save and stop; after an exception, drop the draft."""
        try:
            if kind is None and self.mode != "read-only":
                self.save()
        finally:
            self.stop()

    def alias(self, name: str) -> None:
        """Give this version an alias, which is removed from its former version.

        Args:
            name: Alias such as ``"best"``; neither a number nor ``latest``.

        Raises:
            PathError: If the name is invalid.
            ArgumentError: If the name is reserved.
            ReadOnlyError: If it was opened for reading.
        """
        alias, session = f"aliases/{check_alias(name)}", self.session
        last = None
        if not (self.is_draft or session.recorded.is_empty):
            from seamark.store.query.selection import aliases_of

            place = self.folder.project
            last = aliases_of(session.up_to_date(), place).get(name)
        if session.recorder.to_share(alias) is None:
            return
        self.assign({alias: True})
        if last not in (None, self.folder.run):
            # Readers use the newest; queries would find both.
            older, op = replace(self.folder, run=str(last)), {"op": "delete", "paths": [alias]}
            with quietly():
                append_ops(older, [op], session.remotes, session.token)

    # ---------------------------------------------------------------- reading

    def download(self, to: str | os.PathLike[str] | None = None, *, verify: bool = True) -> Path:
        """Write its files below a folder and return the folder; references are omitted.

        Nothing is written outside the folder, whatever was recorded, and existing links are not
        followed. Each file is written completely or not at all.

        Args:
            to: The folder; by default one named like the artifact in the working directory.
            verify: Whether to compare the bytes of each file with its digest.

        Raises:
            FileMissingError: If objects or bytes are missing or differ from the saved ones, or a
                link or another file is in the way.
            ArgumentError: If a recorded name leads out of the folder.
        """
        self._expect_sealed("download")
        target = Path(self.name if to is None else to)
        files = [one for one in self.objects if one.sha256 is not None]
        target.mkdir(parents=True, exist_ok=True)
        contents = self.session.recorded.contents()
        with progress_bar(f"Downloading {self.name}", quiet=is_quiet()) as show:
            for done, one in enumerate(files, 1):
                contents.write(one.record, target, OBJECTS, name=one.path, verify=verify)
                show(done, len(files))
        return target

    def open(self, destination: str) -> BinaryIO:
        """Open an object for reading.

        Args:
            destination: Name of the object within the artifact.

        Raises:
            FileMissingError: If there is no such object, it is a reference, or its bytes are
                missing.
        """
        self._expect_sealed("open")
        found = {one.path: one for one in self.objects}.get(destination)
        if found is None:
            raise FileMissingError(
                f"{self.session.recorded.words} has no object {destination!r:.200}"
            )
        if found.uri is not None:
            raise FileMissingError(
                f"{destination!r:.200} is a reference to {found.uri}: its content is not stored"
            )
        if self.session.recorded.remote:
            return io.BytesIO(self.session.recorded.contents().read(found.record, destination))
        folder = RunFolder(Path(self.session.recorded.place), self.folder.project, self.folder.run)
        return open_blob(folder, str(found.sha256), found.size)

    def fetch_versions_table(
        self,
        *,
        query: str | None = None,
        columns: Iterable[str] | None = None,
        trashed: bool | None = False,
        limit: int | None = None,
        sort_by: str = NUMBER,
        ascending: bool = False,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the versions of the artifact, one row each.

        ``sys/id`` is the digest, ``sys/version`` the number, ``sys/aliases`` the aliases. Arguments
        and errors are as in `Project.fetch_runs_table`.
        """
        return self.session.table(
            columns,
            progress_bar,
            kind="artifact",
            query=query,
            trashed=trashed,
            limit=limit,
            sort_by=sort_by,
            ascending=ascending,
        )

    # ---------------------------------------------------------------- internals

    def _expect_sealed(self, verb: str) -> None:
        if self.is_draft and self.mode != "disabled":
            raise InactiveRunError(
                f"{verb}: {self.folder.words} is not saved yet: save() creates a version"
            )

    def _to_change(self, verb: str) -> DraftSession:
        recorder = self.session.recorder
        if self._draft is None or not (recorder.recording or recorder.silent):
            state = "was stopped" if self._draft is not None else "is saved and never changes"
            raise InactiveRunError(
                f"{verb}: {self.folder.words} {state}; init_artifact(name={self.name!r}) "
                "starts another version"
            )
        self._draft.expect_own()
        return self._draft


def latest_versions(
    session: LogSession,
    query: str | None,
    columns: Iterable[str] | None,
    limit: int | None,
    progress_bar: Progress,
) -> RunsTable:
    """Return the latest version of each artifact of a project; see its `fetch_artifacts_table`."""
    index, selection = session.select(progress_bar, kind="artifact", query=query, limit=limit)
    wanted = None if columns is None else list(columns)
    asked = None if wanted is None else [*wanted, _ALIASES]
    table = index.table(replace(selection, limit=None), asked, session.warn)
    pairs = zip(table.refs, table.rows, strict=True)
    latest = {ref for ref, row in pairs if LATEST in row.get(_ALIASES, ())}
    shown = wanted is None or any(fnmatchcase(_ALIASES, each) for each in wanted)
    return table.only(latest, limit, without=() if shown else (_ALIASES,))


def _local(what: str, path: str | os.PathLike[str]) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise argument_error(path, what, "a path")
    return str(Path(path).expanduser().absolute())
