"""Inputs and outputs of a run, each identified by its digest, id or address."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from seamark.errors import ArgumentError, FileMissingError, PathError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.opening.catalogs import first_remote, open_catalog, readable
from seamark.opening.place import artifact_root
from seamark.paths import ARTIFACTS, check_path, check_place, home_of, kind_of, model_key
from seamark.reading.artifacts import ArtifactName
from seamark.run.artifact import artifact_op
from seamark.run.container import Container
from seamark.run.objects import uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seamark.options.settings import Settings
    from seamark.reading.catalog import Ref
    from seamark.reading.names import RunName
    from seamark.run.recorder import Recorder

__all__ = [
    "SPACES",
    "Associations",
    "Reference",
    "artifact_folder",
    "described",
    "find_among",
    "hash_of",
]

SPACES: Final = {"input": "artifacts/inputs", "output": "artifacts/outputs"}
"""Namespaces of both kinds."""
_KINDS: Final = ("dataset", "model", "branch", "tag", "commit")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that lies elsewhere, as an input or output of a run; nothing is read of it.

    Attributes:
        uri: Such as ``"s3://bucket/key"`` or ``"https://git.lab/team/code@1f3a9c"``. User and
            password in it are not kept.
        kind: ``"dataset"``, ``"model"``, ``"branch"``, ``"tag"`` or ``"commit"``; None if it is
            none of them.

    Raises:
        ArgumentError: If the URI is none, or there is no such kind.
    """

    uri: str
    kind: str | None = None

    def __post_init__(self) -> None:
        """Check both."""
        uri_of(self.uri)
        if self.kind is not None and self.kind not in _KINDS:
            msg = f"kind: expected one of {', '.join(map(repr, _KINDS))} or None, got {self.kind!r}"
            raise ArgumentError(msg)


def hash_of(kind: str, name: str) -> str:
    """Return the digest that identifies a container; of an artifact, its own."""
    return name if kind == "artifact" else hashlib.sha256(f"{kind}:{name}".encode()).hexdigest()


def artifact_folder(of: object, root: Path) -> RunFolder | None:
    """Return the folder of an artifact that is an input or output; None if this disk has none.

    Args:
        of: Record of the input or output, which may be a stranger's.
        root: Root of the run; SEAMARK_ARTIFACT_DIR comes first.
    """
    if not isinstance(of, dict) or of.get("kind") != "artifact":
        return None
    place = f"{of.get('project')}/{ARTIFACTS}/{of.get('name')}"
    try:
        check_place(place, of.get("id"))
    except PathError:
        return None
    roots = (artifact_root(), root)
    known = (RunFolder(one, place, str(of["id"])) for one in roots if one is not None)
    return next((one for one in known if one.exists()), None)


class Associations:
    """The inputs and outputs of a run.

    Args:
        recorder: Recorder of the run.
        options: Options of the run.
    """

    def __init__(self, recorder: Recorder, options: Settings) -> None:
        self._recorder, self._options = recorder, options
        self._marked: dict[str, str] = {}

    def mark(self, kind: str, what: Any, name: str | None) -> RunFolder | None:
        """Record an input or output, if it is this rank's to say; `op` says what else is raised.

        Returns:
            The folder of an artifact that lies on this disk.

        Raises:
            ArgumentError: If this process called something else so.
            FamilyError: If something that is no input or output is in its place.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        writer = self._recorder.to_share(SPACES[kind])
        if writer is None:
            return None
        op = self.op(kind, what, name)
        path, digest = op["path"], op["hash"]
        if self._marked.setdefault(path, digest) != digest:
            msg = f"mark_{kind}: {path!r} is another {kind} already; give this one a name="
            raise ArgumentError(msg)
        writer.claim(path, "artifact")
        writer.append_op(op)
        return artifact_folder(op.get("of"), self._recorder.folder.root)

    def op(self, kind: str, what: Any, name: str | None) -> dict[str, Any]:
        """Return the op that records an input or output.

        Args:
            kind: ``input`` or ``output``.
            what: A container, a `Reference`, a URL, an existing path, or
                ``[PROJECT/]NAME:VERSION``.
            name: Name in the run; None for its own name.

        Raises:
            ArgumentError: If it is nothing of that kind, or a text may mean two.
            FileMissingError: If a path leads nowhere.
            RunNotFoundError: If there is no such artifact.
            PathError: If the name cannot be a path.
            InactiveRunError: If an artifact is not saved yet.
            OSError: If a file cannot be read.
        """
        if name is not None and (not isinstance(name, str) or not name.strip("/")):
            msg = f"name: expected a text or None, got {name!r:.80}"
            raise ArgumentError(msg)
        if isinstance(what, str) and _URL.match(what) and not what.startswith("file://"):
            what = Reference(what)
        if isinstance(what, Reference):
            uri, own = uri_of(what.uri)
            path = _path(kind, name, own)
            uri = self._recorder.contents.hide(path, uri)
            of = {"kind": what.kind or "reference", "uri": uri}
            return _op(kind, path, of, hash_of("reference", uri), [uri])
        if isinstance(what, Container):
            found: dict[str, Any] | None = _of_container(what)
        elif isinstance(what, str):
            found = self._find_artifact(kind, what)
        elif isinstance(what, os.PathLike):
            found = None
        else:
            msg = (
                f"mark_{kind}: expected a container, an existing path, '[PROJECT/]NAME:VERSION' "
                f"or a seamark.Reference, got {type(what).__name__}: {what!r:.80}"
            )
            raise ArgumentError(msg)
        if found is not None:
            path = _path(kind, name, str(found.get("name") or found["id"]))
            return _op(kind, path, found, hash_of(found["kind"], found["id"]))
        path = _path(kind, name, Path(os.fspath(what)).absolute().name or "root")
        return artifact_op(path, kind, what, hide=partial(self._recorder.contents.hide, path))

    def _find_artifact(self, kind: str, word: str) -> dict[str, Any] | None:
        """Return the record of the artifact that a text names; None if it is a path.

        Raises:
            ArgumentError: If it may mean both.
            RunNotFoundError: If it may mean an artifact, and means neither.
            FileMissingError: If it can only be a path, and there is nothing.
        """
        meant = ArtifactName.of(word)
        there = word.startswith("file://") or os.path.lexists(Path(word).expanduser())
        if meant is None or not meant.has_version:
            if not there:
                msg = f"mark_{kind}: expected an existing path, got {word!r:.200}"
                raise FileMissingError(msg)
            return None
        try:
            of = self._artifact(word)
        except RunNotFoundError as error:
            if there:
                return None
            msg = f"mark_{kind}: {error}, and no path is called so"
            raise RunNotFoundError(msg) from None
        if there:
            msg = (
                f"mark_{kind}: {word!r:.200} is a path and an artifact: give {f'./{word}'!r:.200} "
                f"for the path, or what init_artifact({word!r:.200}) returns"
            )
            raise ArgumentError(msg)
        return of

    def _artifact(self, word: str) -> dict[str, Any]:
        """Return the record of an artifact of this disk, else of the remote of the run.

        Raises:
            RunNotFoundError: If there is none in either.
            ArgumentError: If several may be meant.
        """
        from seamark.store.query.registered import number_of

        options, folder = self._options, self._recorder.folder
        places: list[Path | str] = list(filter(None, (artifact_root(), folder.root)))
        if (uri := first_remote(options.remotes)) is not None:
            places.append(readable(uri))
        found = find_among(places, options.api_token, word, folder.project, "artifact")
        return described(found.ref, number_of(found))


def find_among(
    places: Iterable[Path | str], token: str | None, word: str, project: str, kind: str
) -> RunName:
    """Return the model, version or artifact that a word names in the first place that has one.

    Args:
        places: Roots, or addresses of servers.
        token: Token for servers.
        word: Word of a person; see `seamark.store.query.registered`.
        project: Project in which to look, unless the word names one.
        kind: Kind of container.

    Raises:
        RunNotFoundError: If no place has one; it is of the first.
        ArgumentError: If several may be meant.
    """
    from seamark.store.query.registered import find_registered

    missing = []
    for place in places:
        with contextlib.closing(open_catalog(place, token)) as catalog:
            catalog.refresh(None if "/" in word else project)
            try:
                return find_registered(catalog, word, project, (kind,))
            except RunNotFoundError as error:
                missing.append(error)
    raise missing[0]


def _path(kind: str, name: str | None, own: str) -> str:
    return check_path(f"{SPACES[kind]}/{own if name is None else name}")


def _op(
    kind: str, path: str, of: dict[str, Any], digest: str, references: list[str] | None = None
) -> dict[str, Any]:
    told = {"kind": kind, "files": [], "references": references or [], "hash": digest, "of": of}
    return {"op": "artifact", "path": path, **told}


def described(ref: Ref, number: object = None) -> dict[str, Any]:
    """Return the record of a container that a run reads or made.

    Args:
        ref: Place below the project, and id.
        number: Number of a version, for people; None if it is not known.
    """
    kind, home = kind_of(*ref), home_of(ref[0])
    if kind == "project":
        return {"kind": kind, "id": home}
    of = {"kind": kind, "project": home, "id": ref[1]}
    if kind == "model":
        of["id"] = f"{home}/{ref[1]}"  # a key is one of a project's
    if kind != "run":
        of["name"] = model_key(*ref)
    return of if number is None else {**of, "version": number}


def _of_container(what: Container) -> dict[str, Any]:
    """Return the record of a container.

    Raises:
        InactiveRunError: If it is an artifact that is not saved yet.
    """
    folder, number = what.folder, None
    if folder.kind == "artifact":
        artifact = cast("Any", what)  # its class is of a higher layer
        return described((folder.project, artifact.digest), artifact.version)
    if folder.kind == "model_version":
        with contextlib.suppress(Exception):  # a number is for people
            number = int(what["sys/version"].fetch())
    return described((folder.project, folder.run), number)
