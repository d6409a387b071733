"""Changes of runs since a cursor; see `seamark.server.reads`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from seamark.reading.answers import ChangesPage
from seamark.reading.verbs import Path, Question
from seamark.server.answering import Several
from seamark.server.reads import of_all

__all__: list[str] = []


class ChangesQuestion(Question, kw_only=True):
    """A cursor, empty to begin, and a project; empty for all."""

    cursor: Annotated[str, Meta(max_length=200)] = ""
    project: Path = ""


def _tag(every: Several, question: ChangesQuestion) -> str:
    # Without a cursor the answer is one for whoever begins now, and as new as the question.
    return every.tag() if question.cursor else ""


@of_all(tag=_tag)
def changes(every: Several, question: ChangesQuestion) -> ChangesPage:
    """Return the runs that changed since a cursor; without one, the cursor to begin with.

    ``reset`` says that everything may have changed: the runs were folded anew, or the cursor is
    none. Their paths say where to look first. ``more`` says that there is more already, to be
    asked for with the new cursor. ``looked_ns`` is when it was last looked for what is new, and
    ``left`` how many runs are still to be read for the first time.
    """
    changing = every.server.changing
    found = changing.since(question.cursor, question.project, every.may_read, every.now_ns)
    looked = changing.looked(every.now_ns)
    return ChangesPage(**found._asdict(), looked_ns=looked.looked_ns, left=looked.left)
