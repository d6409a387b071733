"""Models and their versions, and the place in which a registered container is recorded."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from seamark.errors import KeyTakenError, PathError, RunNotNamedError, SeamarkError
from seamark.journal.folder import RunFolder, mint_run_id
from seamark.journal.reservations import take_number
from seamark.opening.place import (
    expect_writable,
    open_catalog,
    own_root,
    place_to_read,
    remote_to_read,
)
from seamark.options.checks import Tags, check_text, one_of
from seamark.options.run_options import WITHOUT_MEANING, refuse_unknown
from seamark.options.settings import check_argument, remotes_of
from seamark.paths import ARTIFACTS, MODELS, STAGES, check_key, check_place, home_of
from seamark.paths import model_key as key_of
from seamark.reading.catalog import Ref
from seamark.reading.names import RunName
from seamark.reading.tables import RunsTable
from seamark.remote.arrival import call_within
from seamark.run.artifact import OBJECTS
from seamark.run.lineage import find_among
from seamark.run.logbook import Logbook, LogSession, Progress

log = logging.getLogger("seamark")
NUMBER: Final = "sys/version"
"""Path of the number of a version."""
Kind = TypeVar("Kind", bound="Registered")


@dataclass(frozen=True)
class Place:
    """Place in which models or artifacts are recorded, and the place `reads` to read from."""

    project: str
    mode: str
    root: Path
    remotes: tuple[str, ...]
    reads: Path | str | None
    token: str | None

    @classmethod
    def of(
        cls,
        project: str | None,
        mode: str | None,
        root: str | os.PathLike[str] | None,
        remote: str | Sequence[str] | None,
        token: str | None,
        *,
        named: bool,
        otherwise: Path | None = None,
    ) -> Place:
        """Return the place from arguments and the environment, after checking them."""
        path, stated = check_argument("project", project), check_argument("mode", mode)
        reads = place_to_read(root, remote) if stated == "read-only" else None
        own = otherwise if root is None and stated != "debug" else root
        where = own_root(stated, own, named=named)
        return cls(path, stated, where, remotes_of(remote, stated, token), reads, token)

    @property
    def remote(self) -> Path | str | None:
        """Address of the remote that is searched in addition to the root, or None."""
        if self.reads is not None or not self.remotes:
            return self.reads
        return remote_to_read(self.remotes)

    def find(self, word: str, kind: str) -> Ref:
        """Return the path of a named container, and its key, id or digest."""
        if self.mode in ("disabled", "debug"):  # nothing is looked up or recorded
            return _placeholder(self.project, word, kind)
        places = dict.fromkeys([self.reads or self.root, self.remote or self.root])
        return find_among(places, self.token, word, self.project, kind).ref

    def session(self, ref: Ref, *, is_new: bool = True) -> LogSession:
        """Return a session; nothing is written before the first record."""
        folder = RunFolder(self.root, *ref)
        is_partial = not (is_new or self.mode == "read-only" or folder.exists())
        return LogSession(
            folder,
            self.mode,
            place=self.reads,
            remotes=self.remotes,
            token=self.token,
            is_partial=is_partial,
            fixed=OBJECTS if folder.kind == "artifact" else None,
        )

    def expect_writing(self, verb: str) -> None:
        """Raise if ``mode="read-only"`` would create a container."""
        if self.mode == "read-only":
            raise RunNotNamedError(
                f"{verb}: mode='read-only': expected with_id of an existing object, got none"
            )

    def take_number(self, version: RunFolder) -> int:
        """Reserve the next number for a version; an existing number is kept."""
        from seamark.store.query.selection import number_of

        place, known = version.project, set()
        for at in dict.fromkeys((self.root, self.remote or self.root)):
            for one in self.names(at, place, version.kind):
                number = number_of(one)
                if one.project == place and number is not None:
                    if one.run == version.run:
                        return number
                    known.add(number)
        above, _, name = place.rpartition("/")
        folder, again = RunFolder(version.root, above, name), version.kind == "artifact"
        return take_number(folder, version.run, known, again=again)

    def names(self, at: Path | str, project: str, kind: str) -> list[RunName]:
        """Return the names in a root or on a server; empty if it does not answer in time.

        Two processes may then take the same key or number; the conflict is resolved where both
        arrive.
        """

        def ask() -> list[RunName]:
            with contextlib.closing(open_catalog(at, self.token)) as catalog:
                catalog.refresh(project)
                return list(catalog.names(kind))

        try:
            return call_within(ask, "seamark-names") if isinstance(at, str) else ask()
        except (SeamarkError, OSError) as error:
            log.warning("seamark: %s could not be queried: %s", at, error)
            return []


class Registered(Logbook):
    """Base of models, model versions and artifact versions."""

    @property
    def project(self) -> str:
        """Project path."""
        return home_of(self.folder.project)


def record_facts(
    made: Kind,
    facts: Mapping[str, Any] = MappingProxyType({}),
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Tags | None = None,
) -> Kind:
    """Record the given facts of a model, version or artifact; return it."""
    recorder = made.session.recorder
    if not recorder.recording:
        return made
    if facts:
        made.start()
        recorder.values.assign_quietly(facts)
    if name and name.strip(" "):
        made["sys/name"] = name
    if description is not None:
        made["sys/description"] = description
    if tags and tags.words:
        made["sys/tags"].add(tags.words)
    if tags and tags.keyed:
        recorder.values.record_atoms(tags.keyed)
    return made


def _placeholder(project: str, word: str, kind: str) -> Ref:
    name = re.split("[:@]", word.rpartition("/")[2])[0]
    key, number = (name.split("-") * 2)[-2:]
    ref = {
        "model": (f"{project}/{MODELS}", number),
        "model_version": (f"{project}/{MODELS}/{key}", number),
        "artifact": (f"{project}/{ARTIFACTS}/{name}", "0" * 64),
    }[kind]
    try:
        check_place(*ref)
    except PathError:
        return _placeholder(project, "NONE", kind)
    return ref


def check_arguments(verb: Callable[..., object], others: Iterable[str], **texts: object) -> None:
    """Check the arguments of a function that opens a project, model or artifact."""
    known = WITHOUT_MEANING - {"enable_remote_signals"} | inspect.signature(verb).parameters.keys()
    refuse_unknown(verb.__name__, others, known - {"others"})
    for what, text in texts.items():
        if text is not None:
            check_text(what, text)


_STAGE: Final = "sys/stage"
_MODEL: Final = "sys/model_id"
_OPENS: Final = "init_model(with_id={!r}) opens it"


def init_model(
    with_id: str | None = None,
    *,
    name: str | None = None,
    key: str | None = None,
    project: str | None = None,
    mode: str | None = None,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
    **others: Any,
) -> Model:
    """Create a model, or open an existing one.

    A model holds the common data of its versions. It has no captures and no state.

    Args:
        with_id: An existing model to open: its key, or ``<anything>-KEY``, optionally prefixed by
            ``PROJECT/``.
        name: Display name, free text.
        key: Key of a new model, unique within the project: letters, digits, ``.`` and ``_``.
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        mode: ``"read-only"`` opens with_id for reading; the others as in `init_run`.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Destination, or source with ``mode="read-only"``; see `init_run`.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        RunNotNamedError: If neither ``with_id`` nor ``key`` is given.
        KeyTakenError: If the project has a model with this key.
        RunNotFoundError: If ``with_id`` names none.
        PathError: If the project or the key breaks the grammar.
        ArgumentError: If another argument has no legal value.
        JournalError: If the root cannot be written to.
    """
    check_arguments(init_model, others, with_id=with_id, name=name, key=key)
    place = Place.of(project, mode, root, remote, api_token, named=with_id is not None)
    if with_id is not None:
        return record_facts(
            Model(place.session(place.find(with_id, "model"), is_new=False)), name=name
        )
    if key is None:
        raise RunNotNamedError(
            "init_model: expected key='...' of a new model, or with_id='...', got neither"
        )
    ref = (f"{place.project}/{MODELS}", check_key(key))
    place.expect_writing("init_model")
    if place.mode != "disabled":
        _take_key(place, RunFolder(place.root, *ref))
    return record_facts(Model(place.session(ref)), {_MODEL: key}, name=name)


def init_model_version(
    with_id: str | None = None,
    *,
    name: str | None = None,
    model: str | None = None,
    project: str | None = None,
    mode: str | None = None,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
    **others: Any,
) -> ModelVersion:
    """Create a version of a model, or open an existing one.

    A new version gets the next number of its model, even if several processes create versions at
    the same time.

    Args:
        with_id: An existing version to open: its id, or ``KEY-3`` or ``<anything>-KEY-3``,
            optionally prefixed by ``PROJECT/``.
        name: Display name, free text.
        model: The model of a new version: its key, or ``<anything>-KEY``.
        project: As in `init_model`.
        mode: As there.
        root: As there.
        remote: As there.
        api_token: As there.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        RunNotNamedError: If neither ``with_id`` nor ``model`` is given.
        RunNotFoundError: If ``with_id`` names no version, or ``model`` no model.
        SeamarkError: Otherwise as `init_model`.
    """
    check_arguments(init_model_version, others, with_id=with_id, name=name, model=model)
    place = Place.of(project, mode, root, remote, api_token, named=bool(with_id or model))
    if with_id is not None:
        ref = place.find(with_id, "model_version")
        return record_facts(ModelVersion(place.session(ref, is_new=False)), name=name)
    if model is None:
        raise RunNotNamedError(
            "init_model_version: expected model='KEY', or with_id='...', got neither"
        )
    place.expect_writing("init_model_version")
    models, key = place.find(model, "model")
    made = ModelVersion(place.session((f"{models}/{key}", mint_run_id())))
    if place.mode == "disabled":
        return made
    try:
        number = place.take_number(made.folder)
    except OSError:
        expect_writable(made.folder)  # which says what is wrong with the place
        raise
    return record_facts(made, {_MODEL: key, NUMBER: number, _STAGE: "none"}, name=name)


class Model(Registered):
    """A model, created by `init_model` or by ``Model(...)`` with the same arguments.

    It has the methods of a run, which write to the model's own log.
    """

    container_type: ClassVar[str] = "model"
    _opened = staticmethod(init_model)

    def __repr__(self) -> str:
        return f"<seamark.Model {self.project}/{self.key}>"

    @property
    def key(self) -> str:
        """Id within its project."""
        return self.folder.run

    def fetch_model_versions_table(
        self,
        *,
        query: str | None = None,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        sort_by: str = "sys/creation_time",
        ascending: bool = False,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the versions of the model outside the trash, one row each.

        ``sys/version`` is the number of each, ``sys/stage`` its stage. Arguments and errors are as
        in `Project.fetch_runs_table`.
        """
        return self.session.table(
            columns,
            progress_bar,
            project=f"{self.folder.project}/{self.key}",
            kind="model_version",
            query=query,
            limit=limit,
            sort_by=sort_by,
            ascending=ascending,
        )


class ModelVersion(Registered):
    """A version of a model, created by `init_model_version`.

    ``ModelVersion(...)`` with its arguments is the same. It has the methods of a run.
    """

    container_type: ClassVar[str] = "model_version"
    _opened = staticmethod(init_model_version)

    def __repr__(self) -> str:
        return f"<seamark.ModelVersion {self.project}/{self.model}/{self.id}>"

    @property
    def id(self) -> str:
        """Permanent id; the number, in contrast, may change when folders are merged."""
        return self.folder.run

    @property
    def model(self) -> str:
        """Key of its model."""
        return key_of(self.folder.project, self.folder.run)

    def change_stage(self, stage: str) -> None:
        """Set the stage of this version.

        Args:
            stage: ``"none"``, ``"staging"``, ``"production"`` or ``"archived"``.

        Raises:
            ArgumentError: If there is no such stage.
            InactiveRunError: If the version was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        one_of(*STAGES)("stage", stage)
        if self.session.recorder.to_share(_STAGE) is not None:
            self.session.recorder.values.assign_quietly({_STAGE: stage})


def _take_key(place: Place, folder: RunFolder) -> None:
    """Reserve the key of a model by creating its folder, which only one process can do."""

    def taken(key: str, where: Path | str, state: str, way: str) -> KeyTakenError:
        model = f"model {key!r} of project {place.project!r}"
        return KeyTakenError(f"key: {model} {state} ({where}); {way}")

    if folder.is_purged:
        way = f"use another key, or remove {folder.purged_mark}"
        raise taken(folder.run, folder.path, "was purged", way)
    if place.remote is not None:
        for one in place.names(place.remote, folder.project, "model"):
            if one.project == folder.project and one.run.casefold() == folder.run.casefold():
                raise taken(one.run, place.remote, "exists", _OPENS.format(one.run))
    try:
        folder.refuse_links()
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        folder.path.mkdir()
    except FileExistsError:
        if folder.exists():
            raise taken(folder.run, folder.path, "exists", _OPENS.format(folder.run)) from None
        way = "a process is making it now, or was killed when it did: remove the folder then"
        raise taken(folder.run, folder.path, "exists, but holds no model", way) from None
    except OSError:
        expect_writable(folder)
        raise
