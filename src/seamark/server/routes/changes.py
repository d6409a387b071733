"""Changes of runs since a cursor; see `seamark.server.reads`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from seamark.reading.catalog import Changes
from seamark.reading.verbs import Answer, Path
from seamark.server.answering import Several
from seamark.server.reads import of_all

__all__: list[str] = []


def _tag(every: Several) -> str:
    # Without a cursor the answer is one for whoever begins now, and as new as the question.
    return every.tag() if every.question.cursor else ""


@of_all(tag=_tag)
def changes(
    every: Several, cursor: Annotated[str, Meta(max_length=200)] = "", project: Path = ""
) -> Answer[Changes]:
    """Return the runs that changed since a cursor; without one, the cursor to begin with.

    ``reset`` says that everything may have changed: the runs were folded anew, or the cursor is
    none. Their paths say where to look first. With ``next`` there is more already; its value is
    also the new cursor.
    """
    since = every.question.next or cursor
    return every.server.changing.since(since, project, every.may_read, every.now_ns)
