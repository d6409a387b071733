"""What Tab completes: runs, projects, paths, tags and states that exist.

A shell puts these words into the line as they are, and they come from whoever recorded them: only
those are proposed in which no shell sees anything but a word. Nothing here raises or says anything,
and little is read: what is not in the index yet is folded only if it is not much.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from seamark.cli._text import clean

if TYPE_CHECKING:
    from seamark.cli._runs import Runs

__all__ = [
    "COMPLETE",
    "SHELLS",
    "complete",
    "paths",
    "projects",
    "run_or_path",
    "runs",
    "script",
    "states",
    "tags",
]

COMPLETE: Final = "_SEAMARK_COMPLETE"
"""The variable with which a shell asks for words instead of calling a command."""
SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "seamark"
_MOST_RUNS: Final = 100
_MOST_PATHS: Final = 200
_MOST_FOLDED: Final = 64
"""If more runs than these are new, the next ``seamark ls`` reads them."""
_WORD: Final = re.compile(r"\w[\w./@+-]*")
_OF_TRASH: Final = ("purge", "untrash")
_NAME, _STATE, _TAGS = "sys/name", "sys/state", "sys/tags"

Words = Iterable[CompletionItem]
Finder = Callable[["Runs", click.Context, str], Words]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _EnoughError(Exception):
    """There is more to read than somebody waits for who pressed Tab."""


def complete(group: click.Group, instruction: str) -> int:
    """Answer a shell on standard output; return the exit code. Never raises and never complains.

    Args:
        group: All commands.
        instruction: What the shell asked for: ``"bash_complete"``.
    """
    with (
        contextlib.suppress(Exception),
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        code = shell_complete(group, {}, _PROGRAM, COMPLETE, instruction)
        sys.stdout.flush()
        return code
    return 1


def script(group: click.Group, shell: str) -> str:
    """Return what a shell reads so that it completes the words of this command."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - all of SHELLS have one
    made = kind(group, {}, _PROGRAM, COMPLETE)
    # Not source(): of bash that starts a bash, to see how old it is.
    return made.source_template % made.source_vars()


def _completer(find: Finder) -> Completer:
    """Make a finder of words what click asks, which opens the runs and fails in silence."""

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
def _opened(context: click.Context) -> Iterator[Runs]:
    from seamark.cli._app import root_of
    from seamark.cli._runs import Runs
    from seamark.local.index import Index

    root, _ = root_of(context)
    if not root.is_dir():
        raise _EnoughError
    with Index.open(root) as index:
        with contextlib.suppress(_EnoughError):
            index.refresh(progress=_not_much)
        yield Runs(root, index)


def _not_much(done: int, total: int) -> None:
    """Go on folding as long as there is little to fold."""
    if not done and total > _MOST_FOLDED:
        raise _EnoughError


def _newest(here: Runs, context: click.Context) -> list[dict[str, Any]]:
    from seamark.store.query.selection import Selection

    project, trashed = context.params.get("project"), context.info_name in _OF_TRASH
    inside = project if isinstance(project, str) else None
    chosen = Selection(project=inside, trashed=trashed, limit=_MOST_RUNS)
    return here.index.table(chosen, ["sys/id", _NAME, _STATE, _TAGS]).to_rows()


def _runs(here: Runs, context: click.Context, incomplete: str) -> Words:
    rows = _newest(here, context)
    if rows:
        yield CompletionItem("latest", help="the newest run")
    for row in rows:
        name, run, state = str(row.get(_NAME) or ""), row["sys/id"], str(row[_STATE])
        if _WORD.fullmatch(name):
            yield CompletionItem(name, help=f"{state} {run}")
        if incomplete or not _WORD.fullmatch(name):
            yield CompletionItem(run, help=f"{state} {clean(name)}".strip())


def _projects(here: Runs, context: click.Context, incomplete: str) -> Words:
    del context, incomplete
    return (CompletionItem(project) for project in sorted({ref.project for ref in here.refs()}))


def _paths(here: Runs, context: click.Context, incomplete: str) -> Words:
    run = context.params.get("run")
    known = (
        [one.path for one in here.view(here.find(run)).attributes()]
        if isinstance(run, str)
        else here.index.paths()
    )
    dull = ("monitoring/", "ranks/")  # of them there are hundreds
    wanted = (one for one in known if incomplete.startswith(dull) or not one.startswith(dull))
    found = [one for one in wanted if one.startswith(incomplete)]
    return (CompletionItem(one) for one in found[:_MOST_PATHS])


def _run_or_path(here: Runs, context: click.Context, incomplete: str) -> Words:
    yield from _runs(here, context, incomplete)
    if context.params.get("words") or context.params.get("query"):
        yield from _paths(here, context, incomplete)


def _tags(here: Runs, context: click.Context, incomplete: str) -> Words:
    del incomplete
    found = {tag for row in _newest(here, context) for tag in row.get(_TAGS) or ()}
    return (CompletionItem(tag) for tag in sorted(found))


def _states(here: Runs, context: click.Context, incomplete: str) -> Words:
    from seamark.store.query.selection import STATES

    del here, context, incomplete
    return (CompletionItem(state) for state in STATES)


runs: Final = _completer(_runs)
projects: Final = _completer(_projects)
paths: Final = _completer(_paths)
run_or_path: Final = _completer(_run_or_path)
tags: Final = _completer(_tags)
states: Final = _completer(_states)
