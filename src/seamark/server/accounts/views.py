"""Views of projects in the tables of accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.accounts.tables import lock_account, view
from seamark.server.views import View
from seamark.store.database import Upsert, retry

if TYPE_CHECKING:
    from seamark.server.views import Work
    from seamark.store.database import Database

__all__ = ["ServerViews"]

_COLUMNS: Final = ("name", "address", "default", "by", "t_ns")
_row: Final = view.c
_OF_PROJECT: Final = sa.select(*(_row[name] for name in _COLUMNS)).where(
    _row.project == sa.bindparam("at")
)
_PUT: Final = Upsert(view, ("project", *_COLUMNS), ("project", "name"), overwrite=True)
_DROP: Final = sa.delete(view).where(
    _row.project == sa.bindparam("at"), _row.name == sa.bindparam("which")
)


class ServerViews:
    """The views of all projects of a server; see `seamark.server.views.Views`."""

    def __init__(self, account: Database) -> None:
        self._account = account

    def apart(self, project: str) -> str:
        """Return an empty text: whoever may read the project sees its views."""
        del project
        return ""

    def read(self, project: str) -> Mapping[str, View]:
        """Return the views of a project by name."""
        with self._account.reading() as connection:
            return self._read(connection, project)

    def change(self, project: str, work: Work) -> Mapping[str, View]:
        """Change the views of a project in one transaction; return them."""

        def changed() -> Mapping[str, View]:
            with self._account.writing() as connection:
                lock_account(connection)
                before = self._read(connection, project)
                after = work(before)
                for name in before.keys() - after.keys():
                    self._account.run(connection, _DROP, at=project, which=name)
                for name, one in after.items():
                    if before.get(name) != one:
                        row = {"project": project, **one.model_dump()}
                        self._account.run(connection, _PUT, **row)
            return after

        return retry(changed)

    def _read(self, connection: sa.Connection, project: str) -> dict[str, View]:
        rows = self._account.rows(connection, _OF_PROJECT, at=project)
        return {row[0]: View(**dict(zip(_COLUMNS, row, strict=True))) for row in rows}
