"""Tab completion of runs, paths and projects; nothing here raises or prints, and little is read.

A shell inserts words unchanged, and their source may be untrusted, so words with special
characters are left out.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from seamark.cli._app import place_of
from seamark.errors import SeamarkError
from seamark.reading.words import clean

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["paths", "projects", "run_or_path", "runs", "states", "tags"]

_MOST_RUNS: Final = 100
_MOST_PATHS: Final = 200
_MOST_FOLDED: Final = 64
"""If more runs than these are new, the next ``seamark ls`` reads them."""
_WORD: Final = re.compile(r"\w[\w./@+-]*")
_OF_TRASH: Final = ("purge", "untrash")
_NAME, _STATE, _TAGS = "sys/name", "sys/state", "sys/tags"

Words = Iterable[CompletionItem]
Finder = Callable[["Catalog", click.Context, str], Words]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _EnoughError(Exception):
    """There is too much to read while a user waits for completion."""


def _completer(find: Finder) -> Completer:
    @functools.wraps(find)
    def found(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception), _opened(context) as here:
            every = (one for one in find(here, context, incomplete) if _fits(one, incomplete))
            return list({one.value: one for one in every}.values())
        return []

    return found


def _fits(word: CompletionItem, incomplete: str) -> bool:
    value = str(word.value)
    return value.startswith(incomplete) and _WORD.fullmatch(value) is not None


@contextlib.contextmanager
def _opened(context: click.Context) -> Iterator[Catalog]:
    from seamark.opening.place import open_catalog

    place, _ = place_of(context)
    if isinstance(place, Path) and not place.is_dir():
        raise _EnoughError
    with contextlib.closing(open_catalog(place)) as index:
        with contextlib.suppress(_EnoughError):
            index.refresh(progress=_not_much)
        yield index


def _not_much(done: int, total: int) -> None:
    if not done and total > _MOST_FOLDED:
        raise _EnoughError


def _newest(index: Catalog, context: click.Context) -> list[tuple[Ref, dict[str, Any]]]:
    from seamark.store.query.selection import Selection

    project, trashed = context.params.get("project"), context.info_name in _OF_TRASH
    inside = project if isinstance(project, str) else None
    chosen = Selection(project=inside, trashed=trashed, limit=_MOST_RUNS)
    table = index.table(chosen, ["sys/id", _NAME, _STATE, _TAGS])
    return list(zip(table.refs, table.to_rows(), strict=True))


def _runs(index: Catalog, context: click.Context, incomplete: str) -> Words:
    rows = _newest(index, context)
    if rows:
        yield CompletionItem("latest", help="the newest run")
    for (_, run), row in rows:
        name, state = str(row.get(_NAME) or ""), str(row[_STATE])
        if row["sys/id"] != run and _WORD.fullmatch(row["sys/id"]):
            yield CompletionItem(row["sys/id"], help=f"{state} {clean(name)}".strip())
        if _WORD.fullmatch(name):
            yield CompletionItem(name, help=f"{state} {run}")
        if incomplete or not _WORD.fullmatch(name):
            yield CompletionItem(run, help=f"{state} {clean(name)}".strip())


def _projects(index: Catalog, _: click.Context, __: str) -> Words:
    return (CompletionItem(project) for project in sorted({project for project, _ in index.runs()}))


def _paths(index: Catalog, context: click.Context, incomplete: str) -> Words:
    from seamark.reading.finding import Finder

    known = index.paths()
    if isinstance(word := context.params.get("run"), str):
        with contextlib.suppress(SeamarkError):
            known = [one.path for one in index.view(*Finder(index).find(word)).attributes()]
    dull = ("monitoring/", "ranks/")  # of them there are hundreds
    wanted = (one for one in known if incomplete.startswith(dull) or not one.startswith(dull))
    found = [one for one in wanted if one.startswith(incomplete)]
    return (CompletionItem(one) for one in found[:_MOST_PATHS])


def _run_or_path(index: Catalog, context: click.Context, incomplete: str) -> Words:
    yield from _runs(index, context, incomplete)
    if context.params.get("words") or context.params.get("query"):
        yield from _paths(index, context, incomplete)


def _tags(index: Catalog, context: click.Context, _: str) -> Words:
    found = {tag for _, row in _newest(index, context) for tag in row.get(_TAGS) or ()}
    return (CompletionItem(tag) for tag in sorted(found))


def _states(_: Catalog, __: click.Context, ___: str) -> Words:
    from seamark.store.query.kinds import GROUPS, STATES

    return (CompletionItem(state) for state in (*STATES, *GROUPS))


runs: Final = _completer(_runs)
projects: Final = _completer(_projects)
paths: Final = _completer(_paths)
run_or_path: Final = _completer(_run_or_path)
tags: Final = _completer(_tags)
states: Final = _completer(_states)
