"""A model and its versions: what is known of a network beside the trainings that made it."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from seamark.errors import (
    ArgumentError,
    KeyTakenError,
    PathError,
    RunNotFoundError,
    RunNotNamedError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder, mint_run_id
from seamark.journal.numbers import take_number
from seamark.opening.place import expect_writable
from seamark.options.run_options import WITHOUT_MEANING, refuse_unknown
from seamark.paths import MODELS, STAGES, check_key, check_name, check_project, home_of
from seamark.paths import model_key as key_of
from seamark.reading.registered import find_registered, key_in
from seamark.registry.place import Place, check_texts, expect_writing, names_there, session_at, tell
from seamark.run.logbook import Logbook, LogSession, Progress

if TYPE_CHECKING:
    from seamark.reading.tables import RunsTable

__all__ = ["Model", "ModelVersion", "init_model", "init_model_version", "opened_at"]

_STAGE: Final = "sys/stage"
_NUMBER: Final = "sys/version"
_MODEL: Final = "sys/model_id"
_NAME: Final = "sys/name"
_TAKEN: Final = WITHOUT_MEANING - {"enable_remote_signals"}

Kind = TypeVar("Kind", bound=Logbook)

log = logging.getLogger("seamark")


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
    own = {"with_id", "name", "key", "project", "mode", "root", "remote", "api_token"}
    refuse_unknown("init_model", others, own | _TAKEN)
    check_texts(with_id=with_id, name=name, key=key)
    place = Place.of(project, mode, root, remote, api_token, named=with_id)
    if with_id is not None:
        return _begun(_open(Model, place, with_id), name)
    if key is None:
        msg = "init_model: expected key='...' of a new model, or with_id='...', got neither"
        raise RunNotNamedError(msg)
    return _begun(_make_model(place, check_key(key)), name)


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
    own = {"with_id", "name", "model", "project", "mode", "root", "remote", "api_token"}
    refuse_unknown("init_model_version", others, own | _TAKEN)
    check_texts(with_id=with_id, name=name, model=model)
    place = Place.of(project, mode, root, remote, api_token, named=with_id or model)
    if with_id is not None:
        return _begun(_open(ModelVersion, place, with_id), name)
    if model is None:
        msg = "init_model_version: expected model='KEY', or with_id='...', got neither"
        raise RunNotNamedError(msg)
    return _begun(_make_version(place, model), name)


class Model(Logbook):
    """A model; made by `init_model`, and ``Model(...)`` with its arguments is the same.

    It has the verbs of a run, which write to the model's own log.
    """

    container_type: ClassVar[str] = "model"

    @classmethod
    def _opened(cls, *given: Any, **named: Any) -> Model:
        return init_model(*given, **named)

    def __repr__(self) -> str:
        """Return which model it is."""
        return f"<seamark.Model {self.project}/{self.key}>"

    @property
    def key(self) -> str:
        """Id within its project."""
        return self.folder.run

    @property
    def project(self) -> str:
        """Project path."""
        return home_of(self.folder.project)

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
        from seamark.store.query.selection import Selection

        selection = Selection(
            project=f"{self.folder.project}/{self.key}",
            kind="model_version",
            query=query,
            limit=limit,
            sort_by=sort_by,
            ascending=ascending,
        )
        return self.session.table(selection, columns, progress_bar)


class ModelVersion(Logbook):
    """A version of a model; made by `init_model_version`.

    ``ModelVersion(...)`` with its arguments is the same. It has the verbs of a run.
    """

    container_type: ClassVar[str] = "model_version"

    @classmethod
    def _opened(cls, *given: Any, **named: Any) -> ModelVersion:
        return init_model_version(*given, **named)

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

    @property
    def project(self) -> str:
        """Project path."""
        return home_of(self.folder.project)

    def change_stage(self, stage: str) -> None:
        """Say how far this version has come.

        Args:
            stage: ``"none"``, ``"staging"``, ``"production"`` or ``"archived"``.

        Raises:
            ArgumentError: If there is no such stage.
            InactiveRunError: If the version was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if stage not in STAGES:
            near = difflib.get_close_matches(str(stage), STAGES, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            msg = f"stage: expected one of {', '.join(map(repr, STAGES))}, got {stage!r:.80}{hint}"
            raise ArgumentError(msg)
        if self.session.recorder.to_share(_STAGE) is not None:
            self.session.recorder.assign_quietly({_STAGE: stage})


def opened_at(folder: RunFolder) -> Model | ModelVersion:
    """Return the model or version of a folder, to change something of it on this disk alone."""
    kind = Model if folder.kind == "model" else ModelVersion
    return kind(LogSession(folder, "offline"))


# ---------------------------------------------------------------------- where they are


def _begun(opened: Kind, name: str | None) -> Kind:
    """Return a model or version with the name that it was given; an empty one is none."""
    if name and name.strip(" ") and opened.session.recorder.recording:
        opened[_NAME] = name
    return opened


def _open(kind: type[Kind], place: Place, word: str) -> Kind:
    """Open a model or version that exists.

    Raises:
        RunNotFoundError: If none is meant.
        ArgumentError: If several may be.
    """
    found, elsewhere = _found(place, word, kind.container_type)
    return kind(session_at(place, found, elsewhere=elsewhere))


def _found(place: Place, word: str, kind: str) -> tuple[tuple[str, str], bool]:
    """Return where what a word means lies, and whether nothing of it lies on this disk.

    Raises:
        RunNotFoundError: If nothing is meant.
        ArgumentError: If several may be.
    """
    if place.mode in ("disabled", "debug"):
        return _made_up(place, word, kind), False
    below = "" if "/" in word else place.project
    places = dict.fromkeys([place.reads, place.asked])
    missing: SeamarkError | None = None
    for at in places:
        try:
            with place.catalog(below, at) as catalog:
                ref = find_registered(catalog, word, place.project, (kind,))
        except RunNotFoundError as error:
            missing = missing or error
        else:
            return ref, not place.folder(*ref).is_there()
    assert missing is not None  # noqa: S101 - one place was asked at least
    raise missing


def _made_up(place: Place, word: str, kind: str) -> tuple[str, str]:
    """Return where something would lie that nobody looks for: nothing there is kept."""
    left, _, rest = word.rpartition("/")
    key, number = (key_in(rest), "") if kind == "model" else (rest.split("-")[-2:] * 2)[:2]
    try:
        project = check_project(left) if left else place.project
        check_key(key)
        check_name(number or key)
    except PathError:
        project, key, number = place.project, "MODEL", "1"
    models = f"{project}/{MODELS}"
    return (models, key) if kind == "model" else (f"{models}/{key}", number)


# ---------------------------------------------------------------------- new ones


def _make_model(place: Place, key: str) -> Model:
    """Make a model.

    Raises:
        RunNotNamedError: If it is to be read only.
        KeyTakenError: If there is one with this key.
        JournalError: If the root cannot be written to.
    """
    expect_writing(place, "init_model")
    ref = (f"{place.project}/{MODELS}", key)
    if place.mode != "disabled":
        if any(one.casefold() == key.casefold() for one in _keys_elsewhere(place)):
            raise _taken(key, place.project, str(place.asked))
        _take_key(place.folder(*ref))
    made = Model(session_at(place, ref))
    tell(made, {_MODEL: key})
    return made


def _make_version(place: Place, model: str) -> ModelVersion:
    """Make a version of a model, with the next number.

    Raises:
        RunNotNamedError: If it is to be read only.
        RunNotFoundError: If there is no such model.
        JournalError: If the root cannot be written to.
    """
    expect_writing(place, "init_model_version")
    (models, key), _ = _found(place, model, "model")
    ref = (f"{models}/{key}", mint_run_id())
    made = ModelVersion(session_at(place, ref))
    if place.mode != "disabled":
        places = dict.fromkeys((None, place.asked))
        known = {number for at in places for number in _numbers(place, at, ref[0])}
        try:
            number = take_number(place.folder(models, key), made.id, known)
        except OSError:
            expect_writable(made.folder)  # which says what is wrong with the place
            raise
        tell(made, {_MODEL: key, _NUMBER: number, _STAGE: "none"})
    return made


def _take_key(folder: RunFolder) -> None:
    """Make the folder of a model, which only one process can.

    Raises:
        KeyTakenError: If it was there, or if the model was purged.
        JournalError: If the root cannot be written to.
    """
    key, project = folder.run, home_of(folder.project)
    if folder.is_purged:
        msg = (
            f"key: model {key!r} of project {project!r} was purged; "
            f"use another key, or remove {folder.purged_mark}"
        )
        raise KeyTakenError(msg)
    models = folder.path.parent
    try:
        folder.refuse_links()
        models.mkdir(parents=True, exist_ok=True)
        for one in os.listdir(models):  # noqa: PTH208 - names, and no paths
            if one != key and one.casefold() == key.casefold():
                raise _taken(one, project, str(folder.root))
        folder.path.mkdir()
    except FileExistsError:
        if not folder.is_there():
            msg = (
                f"key: {folder.path} holds no model: a process is making it now, or was killed "
                "when it did; remove the folder in that case"
            )
            raise KeyTakenError(msg) from None
        raise _taken(key, project, str(folder.root)) from None
    except OSError:
        expect_writable(folder)  # which says what is wrong with the place
        raise


def _taken(key: str, project: str, where: str) -> KeyTakenError:
    msg = (
        f"key: project {project!r} of {where} has a model {key!r} already; "
        f"init_model(with_id={key!r}) opens it"
    )
    return KeyTakenError(msg)


def _keys_elsewhere(place: Place) -> list[str]:
    """Return the keys of the project's models on the remote; none if it does not answer."""
    models = f"{place.project}/{MODELS}"
    return [run for project, run in _runs(place, place.asked, models) if project == models]


def _runs(place: Place, at: Path | str | None, project: str) -> list[tuple[str, str]]:
    return [] if at is None else [one.ref for one in names_there(place, at, project, "model")]


def _numbers(place: Place, at: Path | str | None, model: str) -> list[int]:
    """Return the numbers that the versions of a model go by in some place."""
    names = (
        one.name for one in names_there(place, at, model, "model_version") if one.project == model
    )
    key = model.rpartition("/")[2]
    found = (re.fullmatch(rf"{re.escape(key)}-([1-9][0-9]{{0,8}})", name or "") for name in names)
    return [int(one[1]) for one in found if one]
