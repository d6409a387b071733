"""Objects and tables that belong together: both hold the same random name.

A server on another place for its objects, or on the empty folder below a mount that did not come
up, would acknowledge what nobody finds again, and miss what it had acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.accounts import tables
from seamark.server.accounts.facts import instance_of
from seamark.server.checks import CannotStart, check_folder, folder_of
from seamark.server.databases import redacted
from seamark.server.kept import tables as kept_tables
from seamark.server.kept.parts import PREFIX
from seamark.server.objects import open_objects
from seamark.store.database import Upsert

if TYPE_CHECKING:
    from seamark.server.databases import Databases
    from seamark.server.objects import ObjectStore
    from seamark.store.database import Database

__all__ = ["open_matching_objects"]

_NAME: Final = "identity"
"""Name of the object, and key of the fact, that hold the same text."""
_FACT: Final = sa.select(tables.fact.c.value).where(tables.fact.c.key == _NAME)
_NOTE: Final = Upsert(tables.fact, ("key", "value"), ("key",), overwrite=True)
_NEWEST: Final = (
    sa.select(kept_tables.objects.c.name)
    .where(kept_tables.objects.c.state == kept_tables.LIVE)
    .order_by(kept_tables.objects.c.number.desc())
    .limit(1)
)

_OTHERWISE: Final = (
    "make the tables again from what is there (what is missing is sent again by"
    " `seamark sync`): seamark server refold --objects, with the same options"
)


def open_matching_objects(databases: Databases, uri: str, *, adopt: bool = False) -> ObjectStore:
    """Open the objects of a server, and see that they belong to its tables.

    Args:
        databases: Of the server, with their tables.
        uri: Of the place; see `open_objects`.
        adopt: Whether the tables are to be made again from whatever objects are there.

    Raises:
        CannotStart: If the place is empty although the tables name objects, or belongs to other
            tables.
        SeamarkError: If it cannot be opened.
    """
    with databases.account.reading() as connection:
        known = connection.execute(_FACT).scalar_one_or_none()
    folder = folder_of(uri)
    if folder is not None:
        if known is not None and not adopt and not (folder / _NAME).is_file():
            raise _missing(uri)
        check_folder(folder, "--blobs")
    objects = open_objects(uri)
    try:
        _match(databases, objects, uri, known, adopt=adopt)
    except BaseException:
        objects.close()
        raise
    return objects


def _match(
    databases: Databases, objects: ObjectStore, uri: str, known: str | None, *, adopt: bool
) -> None:
    expected = known or instance_of(databases.account)
    found = _read(objects)
    if found is None and not adopt:
        if known is not None:
            raise _missing(uri)
        newest = _newest_object(databases.kept)  # made before there were identities, or new
        if newest is None and next(objects.listed(PREFIX), None) is not None:
            return  # tables were lost: not decided here (`checks.check_not_lost`)
        if newest is not None and not _object_exists(objects, newest):
            raise _missing(uri)
    if found is None:
        try:
            objects.put(_NAME, expected.encode())
        except FileExistsError:  # another process of this server was faster
            found = _read(objects)
    found = found or expected
    if found != expected and not adopt:
        msg = (
            f"--blobs: the objects in {_shown(uri)} belong to another database: name the database"
            f" and the objects that belong together, or {_OTHERWISE}"
        )
        raise CannotStart(msg)
    if found != known:
        with databases.account.writing() as connection:
            databases.account.run(connection, _NOTE, key=_NAME, value=found)


def _read(objects: ObjectStore) -> str | None:
    try:
        return objects.get(_NAME).decode("ascii", "replace")
    except FileNotFoundError:
        return None


def _newest_object(kept: Database) -> str | None:
    with kept.reading() as connection:
        return connection.execute(_NEWEST).scalar_one_or_none()


def _object_exists(objects: ObjectStore, name: str) -> bool:
    try:
        objects.get(name, 0, 1)
    except FileNotFoundError:
        return False
    return True


def _missing(uri: str) -> CannotStart:
    return CannotStart(
        f"--blobs: {_shown(uri)} does not hold the objects of this database, such as where a mount"
        f" did not come up: name or mount the right one, or {_OTHERWISE}"
    )


def _shown(uri: str) -> str:
    folder = folder_of(uri)
    return repr(str(folder)) if folder is not None else redacted(uri)
