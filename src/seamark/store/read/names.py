"""Names of the runs of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import model_key
from seamark.reading.names import RunName, generated_name
from seamark.store import schema
from seamark.store.query.known import in_projects
from seamark.store.read.versions import version_numbers
from seamark.store.runs import numbers_of

if TYPE_CHECKING:
    from seamark.reading.catalog import Ref
    from seamark.store.runs import Store

__all__ = ["names_of", "run_names"]

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


def names_of(store: Store, connection: sa.Connection, refs: Sequence[Ref]) -> list[str]:
    """Return what some runs are called, in their order: the name given, or the generated one.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        refs: (project, run id) of the runs.
    """
    number = store.numbers.number(connection, _NAME)
    given: dict[Ref, str | None] = {}
    if number is not None:
        runs = numbers_of(store, connection, refs)
        asked = sa.select(_value.run, _value.text).where(
            _value.run.in_(list(runs)),
            _value.path == number,
            _value.visible == 1,
            _value.type == "string",
        )
        given = {runs[run]: name for run, name in store.database.query(connection, asked)}
    return [given.get(ref) or generated_name(ref[1]) for ref in refs]


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
