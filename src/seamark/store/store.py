"""A store: the tables of folded runs, and one run between them and its journals."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.database import Database
    from seamark.store.fold.run_state import RunState
    from seamark.store.path_numbers import PathNumbers

__all__ = ["Store", "StoredRun"]


@dataclass(slots=True, eq=False)
class Store:
    """A database with the tables of a store, and the numbers of its paths.

    Attributes:
        database: Which has the tables.
        numbers: Of its paths.
        here: Whether processes of its runs may be on this machine, which then knows best whether
            they live. Where it is false, as on a server, runs are judged by when they were heard
            of alone, by the clock of whoever folds.
        is_shared: Whether several threads may use it at the same time.
        last: The run that was loaded or saved last, as it is in the database; None if it is shared.
    """

    database: Database
    numbers: PathNumbers
    here: bool = True
    is_shared: bool = True
    last: StoredRun | None = None

    def reading(self, given: sa.Connection | None) -> AbstractContextManager[sa.Connection]:
        """Return the transaction that is given, or a new one."""
        return self.database.reading() if given is None else contextlib.nullcontext(given)


@dataclass(slots=True)
class StoredRun:
    """A run between the tables and its journals.

    Attributes:
        project: Project path.
        name: Run id.
        number: Of its row; None if it has none yet.
        version: Of the row as it was loaded.
        state: What was loaded and folded since.
    """

    project: str
    name: str
    number: int | None
    version: int
    state: RunState

    def saved(self, number: int | None) -> None:
        """Take note that the store has everything, under this number."""
        self.number, self.version = number, self.version + 1
        self.state.dirty.clear()
        for journal in self.state.journals.values():
            journal.touched = False
            journal.names.new_paths.clear()
            journal.names.new_schemas.clear()
