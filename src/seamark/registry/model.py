"""Models and their versions, which outlive the runs that trained them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from seamark.errors import KeyTakenError, RunNotNamedError
from seamark.journal.folder import RunFolder, mint_run_id
from seamark.opening.place import expect_writable
from seamark.options.checks import one_of
from seamark.paths import MODELS, STAGES, check_key
from seamark.paths import model_key as key_of
from seamark.registry.place import NUMBER, Place, Registered, check_arguments, record_facts

if TYPE_CHECKING:
    from seamark.reading.tables import RunsTable
    from seamark.run.logbook import Progress

__all__ = ["Model", "ModelVersion", "init_model", "init_model_version"]

_STAGE: Final = "sys/stage"
_MODEL: Final = "sys/model_id"


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
    """Make a model, or open one that exists.

    A model holds what its versions have in common. Nothing is captured, and it has no state.

    Args:
        with_id: An existing model to open: its key, or ``<anything>-KEY``, perhaps behind
            ``PROJECT/``.
        name: Display name, free text.
        key: Key of a new model, which no other model of the project has: letters, digits, ``.`` and
            ``_``.
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        mode: ``"read-only"`` opens with_id for reading; the others as in `init_run`.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Where it is sent, or read from with ``mode="read-only"``; see `init_run`.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        RunNotNamedError: If neither ``with_id`` nor ``key`` says which model.
        KeyTakenError: If the project has a model with this key.
        RunNotFoundError: If ``with_id`` names none.
        PathError: If the project or the key breaks the grammar.
        ArgumentError: If another argument has no legal value.
        JournalError: If the root cannot be written to.
    """
    check_arguments(init_model, others, with_id=with_id, name=name, key=key)
    place = Place.of(project, mode, root, remote, api_token, named=with_id is not None)
    if with_id is not None:
        return record_facts(Model(place.open(with_id, "model")), name=name)
    if key is None:
        msg = "init_model: expected key='...' of a new model, or with_id='...', got neither"
        raise RunNotNamedError(msg)
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
    """Make a version of a model, or open one that exists.

    A new version has the next number of its model, also where several processes make some at once.

    Args:
        with_id: An existing version to open: its id, or ``KEY-3``, with anything and ``-`` before
            it, perhaps behind ``PROJECT/``.
        name: Display name, free text.
        model: The model of a new version: its key, or ``<anything>-KEY``.
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        mode: As in `init_model`, also the others.
        root: Folder of all runs.
        remote: Where it is sent, or read from.
        api_token: For remotes.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        RunNotNamedError: If neither ``with_id`` nor ``model`` says which.
        RunNotFoundError: If ``with_id`` names no version, or ``model`` no model.
        PathError: If the project breaks the grammar.
        ArgumentError: If another argument has no legal value.
        JournalError: If the root cannot be written to.
    """
    check_arguments(init_model_version, others, with_id=with_id, name=name, model=model)
    place = Place.of(project, mode, root, remote, api_token, named=bool(with_id or model))
    if with_id is not None:
        return record_facts(ModelVersion(place.open(with_id, "model_version")), name=name)
    if model is None:
        msg = "init_model_version: expected model='KEY', or with_id='...', got neither"
        raise RunNotNamedError(msg)
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
    """A model, made by `init_model` or by ``Model(...)`` with the same arguments.

    It has the verbs of a run, which write to the model's own log.
    """

    container_type: ClassVar[str] = "model"
    _opened = staticmethod(init_model)

    def __repr__(self) -> str:
        """Return which model it is."""
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
        """Return the versions of the model that are not in the trash, one row each.

        ``sys/version`` is the number of each, ``sys/stage`` its stage.

        Args:
            query: See `Project.fetch_runs_table`, also for the others.
            columns: Paths and patterns; None for everything. ``sys/id`` is always there.
            limit: At most this many versions.
            sort_by: Path, perhaps with an aggregate.
            ascending: Smallest first.
            progress_bar: Whether, or with what, it is shown how far reading is.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query, a column or ``sort_by`` breaks the grammar, or can mean
                nothing.
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
    """A version of a model; made by `init_model_version`.

    ``ModelVersion(...)`` with its arguments is the same. It has the verbs of a run.
    """

    container_type: ClassVar[str] = "model_version"
    _opened = staticmethod(init_model_version)

    def __repr__(self) -> str:
        """Return which version it is."""
        return f"<seamark.ModelVersion {self.project}/{self.model}/{self.id}>"

    @property
    def id(self) -> str:
        """Id that never changes, unlike the number, which may change when folders are merged."""
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
    """Reserve the key of a model by making its folder, which only one process can.

    Raises:
        KeyTakenError: If there is one with this key, on this disk or where it is sent, or if it was
            purged.
        JournalError: If the root cannot be written to.
    """
    key, models = folder.run, folder.project

    def refuse(key: str, where: object) -> KeyTakenError:
        msg = (
            f"key: project {place.project!r} of {where} has a model {key!r} already; "
            f"init_model(with_id={key!r}) opens it"
        )
        return KeyTakenError(msg)

    there = [] if place.remote is None else place.names(place.remote, models, "model")
    if any(one.project == models and one.run.casefold() == key.casefold() for one in there):
        raise refuse(key, place.remote)
    if folder.is_purged:
        msg = (
            f"key: model {key!r} of project {place.project!r} was purged; "
            f"use another key, or remove {folder.purged_mark}"
        )
        raise KeyTakenError(msg)
    try:
        folder.refuse_links()
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        if (variant := place.case_variant(models, key)) is not None:
            raise refuse(variant, folder.root)
        folder.path.mkdir()
    except FileExistsError:
        if not folder.exists():
            msg = (
                f"key: {folder.path} holds no model: a process is making it now, or was killed "
                "when it did; remove the folder in that case"
            )
            raise KeyTakenError(msg) from None
        raise refuse(key, folder.root) from None
    except OSError:
        expect_writable(folder)  # which says what is wrong with the place
        raise
