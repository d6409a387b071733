"""A store: the tables of folded runs, as those have it who read and write them."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.database import Database
    from seamark.store.path_numbers import PathNumbers
    from seamark.store.runs import StoredRun

__all__ = ["Store"]


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
