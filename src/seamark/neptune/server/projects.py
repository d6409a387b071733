"""Projects and models by the keys, ids and numbers of Neptune's client.

The id of a run, model or version consists of the key of its project and numbers. Keys and numbers
are assigned in the database of accounts; they are not recorded in journals.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.errors import PathError
from seamark.journal.folder import mint_run_id
from seamark.paths import (
    MODELS,
    PROJECT_LOG,
    check_key,
    check_place,
    home_of,
    is_inside,
    kind_of,
    model_key,
)
from seamark.server.access import Identity
from seamark.server.accounts import tables
from seamark.server.accounts.accounts import within
from seamark.server.answering import may_read
from seamark.server.failures import Refusal
from seamark.server.purging import is_purged
from seamark.store import schema
from seamark.store.database import Conflict, Upsert, can_hold
from seamark.store.read.names import version_numbers

if TYPE_CHECKING:
    from seamark.server.state import Server


_KEY_LENGTH: Final = 3


class Container(NamedTuple):
    """A run, a project itself, a model or a model version.

    `project` may be the path of models below a project, see `seamark.paths.kind_of`. `run` is a run
    id, ``.project``, the key of a model, or the id of a version.
    """

    project: str
    run: str

    @property
    def is_project(self) -> bool:
        """Whether it is the project's own log."""
        return self.run == PROJECT_LOG

    @property
    def home(self) -> str:
        """Path of the project itself."""
        return home_of(self.project)

    @property
    def kind(self) -> str:
        """Kind of the container, one of `seamark.paths.KINDS`."""
        return kind_of(*self)


def container_id(container: Container) -> str:
    """Return the client's id: both names, encoded for file names and URLs.

    The id can be decoded without a lookup and contains no other information.
    """
    text = f"{container.project}/{container.run}".encode()
    return base64.b32encode(text).decode().rstrip("=").lower()


def parse_container_id(identifier: str) -> Container | None:
    """Return the container of an id made by `container_id`; None for other texts."""
    padded = identifier.upper() + "=" * (-len(identifier) % 8)
    try:
        project, _, run = base64.b32decode(padded).decode().rpartition("/")
        check_place(project, run)
    except (binascii.Error, UnicodeError, ValueError, PathError):
        return None
    return Container(project, run)


def split_project(project: str) -> tuple[str, str]:
    """Split a project path into workspace and name; the client accepts only two parts."""
    workspace, _, name = project.partition("/")
    return workspace, name


def key_of_project(project: str) -> str:
    """Return the default prefix of run ids in a project, such as ``"SAN"``."""
    letters = re.sub(r"[^A-Z0-9]", "", project.rpartition("/")[2].upper())
    return letters[:_KEY_LENGTH] or "RUN"


_PATIENCE_S: Final = 5.0
_MAX_WAITING: Final = 1000


def wait_in(server: Server, project: str, seconds: float = _PATIENCE_S) -> None:
    """Wait until a project, or a path of models, is indexed, at most for some seconds."""
    waiting = server.kept.unfolded(_MAX_WAITING)
    wanted = {
        (one.project, one.run): one.position for one in waiting if is_inside(one.project, project)
    }
    if wanted:
        server.positions.wait_for(wanted, seconds)


_project = tables.neptune_project.c
_MAX_TRIES: Final = 50
_KEY_AND_LAST: Final = sa.select(_project.key, _project.last).where(
    _project.path == sa.bindparam("at")
)
_INSERT: Final = Upsert(tables.neptune_project, ("path", "key", "last"), ("path",))
_NEXT_NUMBER: Final = (
    sa.update(tables.neptune_project)
    .values(
        last=sa.case(
            (_project.last < sa.bindparam("known"), sa.bindparam("known")), else_=_project.last
        )
        + 1
    )
    .where(_project.path == sa.bindparam("at"))
)
_run = schema.run.c
_RUN_BY_SYS_ID: Final = sa.select(_run.name).where(
    _run.project == sa.bindparam("project"), _run.sys_id == sa.bindparam("sys_id")
)
_SYS_IDS: Final = sa.select(_run.sys_id).where(
    _run.project == sa.bindparam("project"), _run.sys_id != ""
)


def key_of(server: Server, project: str) -> str:
    """Return the key of a project: the prefix of its run ids."""
    return last_number(server, project)[0]


def choose_key(server: Server, project: str, key: str) -> None:
    """Set the key of a new project; an existing key is not changed."""
    database = server.databases.account
    with database.writing() as connection:
        database.run(connection, _INSERT, path=project, key=key, last=0)


def forget_key(server: Server, project: str) -> None:
    """Remove the key of a project without runs."""
    database, table = server.databases.account, tables.neptune_project
    with database.writing() as connection:
        connection.execute(sa.delete(table).where(table.c.path == project))


def is_project(server: Server, project: str) -> bool:
    """Return whether a project has runs or its own settings."""
    return server.has_project(project) or project in all_projects(server, Identity(admin=True))


def next_id(server: Server, project: str) -> str:
    """Reserve and return the id of the next run of a project.

    The counter may be older than the runs, for example after a backup was restored; used ids are
    skipped. A new counter starts after the largest existing id, because earlier runs may be purged.
    """
    known = 0 if last_number(server, project)[1] else _largest_number(server, project)
    for _ in range(_MAX_TRIES):
        with contextlib.suppress(Conflict):
            key, last = _next_number(server, project, key_of_project(project), known)
            if find_run(server, project, f"{key}-{last}") is None:
                return f"{key}-{last}"
            known = _largest_number(server, project)
    raise Conflict("other clients create runs in this project at the same time; try again")


def _next_number(server: Server, at: str, key: str, known: int) -> tuple[str, int]:
    """Increment a counter, created if needed, above a known number; return its key and number."""
    database = server.databases.account
    with database.writing() as connection:
        database.run(connection, _INSERT, path=at, key=key, last=0)
        database.run(connection, _NEXT_NUMBER, at=at, known=known)
        ((key, last),) = database.rows(connection, _KEY_AND_LAST, at=at)
    return str(key), int(last)


def _largest_number(server: Server, project: str) -> int:
    rows = server.store().database.fetch(_SYS_IDS, project=project)
    numbers = (sys_id.rpartition("-")[2] for (sys_id,) in rows)
    return max((int(one) for one in numbers if one.isdecimal() and len(one) < 16), default=0)  # noqa: PLR2004


def find_run(server: Server, project: str, sys_id: str) -> Container | None:
    """Return the run with an id such as ``SAN-1`` in a project; None if there is none."""
    if not sys_id or not can_hold(sys_id):
        return None
    rows = server.store().database.fetch(_RUN_BY_SYS_ID, project=project, sys_id=sys_id)
    return Container(project, str(rows[0][0])) if rows else None


def last_number(server: Server, project: str) -> tuple[str, int]:
    """Return the prefix of run ids in a project, and the number of its last run."""
    rows = server.databases.account.fetch(_KEY_AND_LAST, at=project)
    return (str(rows[0][0]), int(rows[0][1])) if rows else (key_of_project(project), 0)


def all_projects(server: Server, who: Identity) -> list[str]:
    """Return the readable projects with paths that the client can use, sorted."""
    found = {path for (path,) in server.databases.account.fetch(_CONFIGURED)}
    found |= {home_of(path) for (path,) in server.store().database.fetch(_WITH_RUNS)}
    readable = server.accounts.readable(who)
    return sorted(each for each in found if each.count("/") == 1 and may_read(readable, each))


_CONFIGURED: Final = sa.union(sa.select(_project.path), sa.select(tables.project.c.path))
_WITH_RUNS: Final = sa.select(_run.project).distinct()
API_KINDS: Final = {
    "run": "run",
    "project": "project",
    "model": "model",
    "model_version": "modelVersion",
}
"""Name of each kind in the client's API."""
_IN_PLACE: Final = sa.select(_run.name, _run.trashed).where(_run.project == sa.bindparam("project"))
_VERSION_BY_NAME: Final = sa.select(_run.project).where(
    _run.kind == "model_version", _run.name == sa.bindparam("name")
)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_ID_CONDITIONS: Final = re.compile(
    r"(`sys/(?:model_)?id`|sys/(?:model_)?id)(\s*:\s*string)?(\s*!?=\s*)"
    r"(?:\"([^\"\\]*)\"|'([^'\\]*)'|([\w.-]+))",
    re.IGNORECASE,
)


def place_of_models(project: str) -> str:
    """Return the path of a project's models; their versions are below it, by model key."""
    return f"{project}/{MODELS}"


def shown_id(server: Server, container: Container, number: object = None) -> str:
    """Return the client's id of a project, model or version; uses a version's number if known."""
    key = key_of(server, container.home)
    if container.is_project:
        return key
    key = f"{key}-{model_key(*container)}"
    if container.kind == "model":
        return key
    if not number:
        store = server.store()
        with store.database.reading() as connection:
            number = version_numbers(store, connection, [container]).get(container)
    return f"{key}-{number}" if number else container.run


def find_model(server: Server, project: str, word: str) -> Container | None:
    """Return a model or version of a project by its id, or None.

    The id is ``CLS-RESNET``, ``CLS-RESNET-3``, the same without the project key, or Seamark's id of
    a version.
    """
    place, parts = place_of_models(project), word.split("-")
    if len(parts) > 1 and parts[0] == key_of(server, project):
        del parts[0]
    if len(parts) == 1:
        return _find_single(server, place, parts[0])
    key, *rest = parts
    if len(rest) != 1 or not _NUMBER.fullmatch(rest[0]) or not can_hold(key):
        return None
    return _versions_by_number(server, f"{place}/{key}").get(int(rest[0]))


def _find_single(server: Server, place: str, word: str) -> Container | None:
    try:
        model = Container(place, check_key(word))
    except ValueError:
        return None
    if server.intake.known(*model)[0]:
        return model
    rows = server.store().database.fetch(_VERSION_BY_NAME, name=word)
    found = [Container(str(at), word) for (at,) in rows if at.startswith(f"{place}/")]
    return found[0] if len(found) == 1 else None


def _versions_by_number(server: Server, place: str) -> dict[int, Container]:
    wait_in(server, place)
    store = server.store()
    with store.database.reading() as connection:
        found = version_numbers(store, connection, [(place, "")])
    return {number: Container(*ref) for ref, number in found.items() if ref[0] == place}


# ---------------------------------------------------------------------- in the trash


def trashed_in(server: Server, project: str) -> list[Container]:
    """Return the runs, versions and models in the trash of a project, models last."""
    wait_in(server, project)
    statement = sa.select(_run.project, _run.name).where(
        within(_run.project, project), _run.trashed == 1
    )
    found = [Container(*row) for row in server.store().database.fetch(statement)]
    kept = [each for each in found if each.home == project and each.kind in API_KINDS]
    return sorted(kept, key=lambda each: each.kind == "model")


def versions_of(server: Server, model: Container) -> list[tuple[Container, bool]]:
    """Return the versions of a model, each with whether it is in the trash."""
    return _list_place(server, f"{model.project}/{model.run}")


def _list_place(server: Server, place: str) -> list[tuple[Container, bool]]:
    wait_in(server, place)
    rows = server.store().database.fetch(_IN_PLACE, project=place)
    return [(Container(place, str(name)), bool(trashed)) for name, trashed in rows]


# ---------------------------------------------------------------------- creation


def new_model(server: Server, project: str, key: object) -> tuple[Container, dict[str, Any]]:
    """Reserve a key, or refuse it (409); return the new model and its first attributes."""
    model = Container(place_of_models(project), check_key(key))
    for other, _ in _list_place(server, model.project):
        if other.run.casefold() == model.run.casefold():
            raise _taken(model, f"there is a model {other.run!r}")
    if is_purged(server.databases.account, *model):
        raise _taken(model, "a model of this key was purged")
    database, at = server.databases.account, _counter_name(model)
    with database.writing() as connection:
        database.run(connection, _INSERT, path=at, key=model.run, last=0)
        ((key, _),) = database.rows(connection, _KEY_AND_LAST, at=at)
    if key != model.run:
        raise _taken(model, f"the key {key!r} is in use")
    return model, {"sys/model_id": model.run}


def _taken(model: Container, why: str) -> Refusal:
    return Refusal(409, "taken", f"{why} in project {model.home[:200]!r}: use another key")


def new_version(server: Server, model: Container) -> tuple[Container, dict[str, Any]]:
    """Reserve the next number of a model; return the new version and its first attributes."""
    place = f"{model.project}/{model.run}"
    known = max(_versions_by_number(server, place), default=0)
    _, number = _next_number(server, _counter_name(model), model.run, known)
    return Container(place, mint_run_id()), {
        "sys/model_id": model.run,
        "sys/version": number,
        "sys/stage": "none",
    }


def _counter_name(model: Container) -> str:
    # Case-insensitive, because file systems may be.
    return f"{model.project}/{model.run.casefold()}"


# ---------------------------------------------------------------------- queries


def replace_ids(server: Server, project: str, kind: str, query: str) -> str:
    """Replace the client's ids of models and versions in a query by Seamark's."""

    def replaced(found: re.Match[str]) -> str:
        word = next(one for one in found.groups()[3:] if one is not None)
        if found[1].strip("`").lower() == "sys/model_id":
            ours = word.removeprefix(f"{key_of(server, project)}-")
        else:
            meant = find_model(server, project, word)
            ours = word if meant is None or meant.kind != kind else meant.run
        return f'{found[1]}{found[2] or ""}{found[3]}"{ours}"'

    return query if kind == "run" else _ID_CONDITIONS.sub(replaced, query)
