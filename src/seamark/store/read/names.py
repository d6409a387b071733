"""What the runs of a store are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import model_key
from seamark.reading.names import RunName
from seamark.store import schema
from seamark.store.query.known import in_projects
from seamark.store.read.versions import version_numbers

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["run_names"]

_NAME: Final = "sys/name"
_MARKS: Final = {"model_version": "-", "artifact": ":"}
"""What stands between a name and the number of a version."""

_run: Final = schema.run.c
_value: Final = schema.attribute.c


def _names(path: Any, kind: Any) -> sa.Select[Any]:
    """Return a question for the names of runs, which are at the path with a number."""
    here = sa.and_(
        _value.run == _run.id, _value.path == path, _value.visible == 1, _value.type == "string"
    )
    return (
        sa.select(_run.project, _run.name, _value.text, _run.created, _run.trashed, _run.sys_id)
        .select_from(schema.run.outerjoin(schema.attribute, here))
        .where(_run.kind == kind)
    )


_NAMES: Final = _names(sa.bindparam("path"), sa.bindparam("kind"))


def run_names(
    store: Store,
    connection: sa.Connection,
    is_meant: Callable[[str], bool] | None = None,
    kind: str = "run",
) -> list[RunName]:
    """Return every run of a store, the newest first.

    A version of a model is called by the key and its number, such as ``RESNET-3``, an artifact by
    its name and that, ``digits:3``.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        is_meant: Tells of which projects; None for all.
        kind: What they are; see `seamark.paths.kind_of`.
    """
    number = store.numbers.number(connection, _NAME)
    path = -1 if number is None else number
    within = in_projects(store, connection, is_meant)
    if within is None:
        rows = store.database.rows(connection, _NAMES, path=path, kind=kind)
    else:
        rows = store.database.query(connection, _names(path, kind).where(within))
    found = [
        RunName(project, run, name, created, bool(trashed), sys_id)
        for project, run, name, created, trashed, sys_id in rows
    ]
    if kind in _MARKS:
        numbers = version_numbers(store, connection, [one.ref for one in found])
        found = [
            one._replace(name=f"{model_key(*one.ref)}{_MARKS[kind]}{numbers[one.ref]}")
            if one.ref in numbers
            else one
            for one in found
        ]
    return sorted(found, key=lambda one: (-one.created_ns, one.ref))
