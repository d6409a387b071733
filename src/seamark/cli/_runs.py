"""Search for runs and paths by name, and tab completion.

A shell inserts completions unchanged, and names may be untrusted, so those with special characters
are left out.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click
from click.shell_completion import CompletionItem

from seamark.cli._app import misuse, place_of
from seamark.cli._screen import listed, note, progress_bar
from seamark.errors import RunNotFoundError, SeamarkError
from seamark.paths import check_project, is_inside, kind_of, matches
from seamark.reading.text import clean, hint_for

if TYPE_CHECKING:
    from seamark.index.index import Index
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.finding import Finder
    from seamark.reading.reader import Reader
    from seamark.remote.http.catalog import RemoteCatalog


_MAX_RUNS: Final = 100
_MAX_PATHS: Final = 200
_MAX_FOLDED: Final = 64
"""Maximum number of new runs that completion reads; more are left to the next ``seamark ls``."""
_WORD: Final = re.compile(r"\w[\w./@+-]*")
_TRASH_COMMANDS: Final = ("purge", "untrash")
_NAME, _STATE, _TAGS = "sys/name", "sys/state", "sys/tags"
Words = Iterable[CompletionItem]
Find = Callable[["Catalog", click.Context, str], Words]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _NoCompletionError(Exception):
    """Completion is impossible, or would keep the user waiting."""


def _completer(find: Find) -> Completer:
    @functools.wraps(find)
    def found(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception), _opened_catalog(context) as here:
            words = find(here, context, incomplete)
            begun = [one for one in words if one.value.startswith(incomplete)]
            return list({one.value: one for one in begun if _WORD.fullmatch(one.value)}.values())
        return []

    return found


@contextlib.contextmanager
def _opened_catalog(context: click.Context) -> Iterator[Catalog]:
    from seamark.opening.place import open_catalog

    place, _ = place_of(context)
    if isinstance(place, Path) and not place.is_dir():
        raise _NoCompletionError
    with contextlib.closing(open_catalog(place)) as index:
        with contextlib.suppress(_NoCompletionError):
            index.refresh(progress=_limit_new_runs)
        yield index


def _limit_new_runs(done: int, total: int) -> None:
    if not done and total > _MAX_FOLDED:
        raise _NoCompletionError


def _newest(index: Catalog, context: click.Context) -> list[tuple[Ref, dict[str, Any]]]:
    from seamark.reading.catalog import Selection

    project, trashed = context.params.get("project"), context.info_name in _TRASH_COMMANDS
    inside = project if isinstance(project, str) else None
    chosen = Selection(project=inside, trashed=trashed, limit=_MAX_RUNS)
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
    verbose = ("monitoring/", "ranks/")  # there are hundreds of them
    wanted = (one for one in known if incomplete.startswith(verbose) or not one.startswith(verbose))
    found = [one for one in wanted if one.startswith(incomplete)]
    return (CompletionItem(one) for one in found[:_MAX_PATHS])


def _run_or_path(index: Catalog, context: click.Context, incomplete: str) -> Words:
    yield from _runs(index, context, incomplete)
    if context.params.get("words") or context.params.get("query"):
        yield from _paths(index, context, incomplete)


def _tags(index: Catalog, context: click.Context, _: str) -> Words:
    found = {tag for _, row in _newest(index, context) for tag in row.get(_TAGS) or ()}
    return (CompletionItem(tag) for tag in sorted(found))


def _states(_: Catalog, __: click.Context, ___: str) -> Words:
    from seamark.reading.states import GROUPS, STATES

    return (CompletionItem(state) for state in (*STATES, *GROUPS))


complete_runs: Final = _completer(_runs)
complete_projects: Final = _completer(_projects)
complete_paths: Final = _completer(_paths)
complete_run_or_path: Final = _completer(_run_or_path)
complete_tags: Final = _completer(_tags)
complete_states: Final = _completer(_states)


def reject_empty(expected: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that rejects empty values; ``expected`` describes a valid value.

    An empty value usually comes from an unset variable of a script; taken for "all", it could hide
    every run.
    """

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None and not one.strip(" \t\r\n/,") and not context.resilient_parsing:
                name = parameter.opts[-1].lstrip("-")
                misuse(f"{name}: expected {expected}, got {one!r}")
        return value

    return check


nonempty_path = reject_empty("a path such as val/loss")
"""Validator that rejects an empty path."""
nonempty_query = reject_empty("a condition such as 'val/loss < 0.3'")
"""Validator that rejects an empty query."""
project_option = click.option(
    "--project",
    metavar="PROJECT",
    shell_complete=complete_projects,
    help="Only this project and its sub-projects.  [default: all projects]",
)
query_option = click.option(
    "-q",
    "--query",
    metavar="QUERY",
    callback=nonempty_query,
    help="Runs that match this query; see seamark ls --help.",
)
run_argument = click.argument("run", metavar="RUN", shell_complete=complete_runs)
runs_argument = click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_runs)


def _attempt(_: click.Context, __: click.Parameter, value: str) -> int | str:
    if value in {"latest", "all", "replaced"}:
        return value
    if value.isdecimal():
        return int(value)
    raise click.BadParameter(
        f"expected latest, all, replaced or the number of an attempt, got {value!r}"
    )


attempt_option = click.option(
    "--attempt",
    default="latest",
    show_default=True,
    metavar="WHICH",
    callback=_attempt,
    help="Attempts to include: latest, all, a number N (the run as of the end of attempt N), or "
    "replaced (only points that a later attempt recorded again).",
)


class RunRef(NamedTuple):
    project: str
    run: str

    def __str__(self) -> str:
        return "/".join(self)


class Runs:
    """Runs of a root or a server, as of the last refresh."""

    def __init__(self, index: Catalog) -> None:
        self.index = index

    @property
    def where(self) -> str:
        """Path of the root, or address of the server."""
        return self.index.where

    @property
    def root(self) -> Path | None:
        """Path of the root; None for a server."""
        return getattr(self.index, "root", None)

    @property
    def local(self) -> Index:
        """Index of a root; for commands that need one."""
        return cast("Index", self.index)

    @property
    def remote(self) -> RemoteCatalog:
        """Catalog of a server, the only other kind of place."""
        return cast("RemoteCatalog", self.index)

    def refresh(self, project: str | None = None, run: str | None = None) -> None:
        with progress_bar("Reading runs") as progress:
            self.index.refresh(project, run, progress=progress)

    def view(self, ref: RunRef) -> Reader:
        return self.index.view(*ref)

    @functools.cached_property
    def finder(self) -> Finder:
        """Search for runs by name, as of its first use."""
        from seamark.reading.finding import Finder

        return Finder(self.index)

    def label(self, ref: RunRef) -> str:
        return clean(self.finder.label(ref))

    def find(
        self,
        name: str,
        project: str | None = None,
        *,
        trashed: bool = False,
        beginnings: bool = True,
    ) -> RunRef:
        """Return the run with a name or an id; see `seamark.reading.finding`.

        Raises RunNotFoundError if no run matches, and ArgumentError, with a list, if several match.
        """
        try:
            found = self.finder.find(name, project, trashed=trashed, beginnings=beginnings)
        except RunNotFoundError:
            if (there := self._find_at(name) or self._find_registered(name, project)) is None:
                raise
            return there
        return RunRef(*found)

    def _find_registered(self, name: str, project: str | None) -> RunRef | None:
        from seamark.store.query.selection import find_registered

        with contextlib.suppress(RunNotFoundError):
            return RunRef(*find_registered(self.index, name, project).ref)
        return None

    def _find_at(self, place: str) -> RunRef | None:
        root = self.root
        if "/" not in place or root is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            inside = Path(place).expanduser().resolve().relative_to(root.resolve())
            ref = RunRef(inside.parent.as_posix(), inside.name)
            there = self.index.runs(ref.project, kind_of(*ref)) if ref.project else []
            return ref if ref in there else None
        return None

    def expect_project(self, project: str | None) -> None:
        if project is None:
            return
        known = sorted({there for there, _ in self.index.runs()})
        if known and not any(is_inside(there, project) for there in known):
            hint = hint_for(project, known, f"; there are {listed(known)}")
            misuse(f"no runs in project {project!r}{hint}")

    def select(
        self,
        query: str,
        project: str | None,
        *,
        trashed: bool | None = False,
        limit: int | None = None,
        kind: str = "run",
    ) -> list[RunRef]:
        """Return the runs (or another ``kind``) that match a query, newest first."""
        from seamark.reading.catalog import Selection

        chosen = Selection(
            project=project, query=query, trashed=trashed, limit=limit, local=True, kind=kind
        )
        return [RunRef(*pair) for pair in self.index.select(chosen)]

    def chosen(
        self,
        names: Sequence[str],
        project: str | None,
        query: str | None,
        *,
        trashed: bool | None = False,
    ) -> list[RunRef]:
        """Return the runs, at least one, that the user selected by name or by query."""
        if names and query is not None:
            misuse("which runs? expected names or --query, got both")
        if not names and query is None:
            misuse("which runs? name them, or select them with --query")
        if query is None:
            refs = (self.find(name, project, trashed=bool(trashed)) for name in names)
            return list(dict.fromkeys(refs))
        self.expect_project(project)
        found = self.select(query, project, trashed=trashed)
        if not found:
            misuse(f"no run matches the query {query!r}")
        return found


def open_runs(
    context: click.Context,
    project: str | None = None,
    *,
    refresh: bool = True,
    missing_ok: bool = False,
    local: str = "",
) -> Runs:
    """Open the requested root or server (``local`` commands: only a root), and read new records."""
    from seamark.opening.place import open_catalog

    if project is not None:
        check_project(project)
    place, named = place_of(context, local=local)
    if isinstance(place, Path):
        expect_root(place, missing_ok=missing_ok and not named)
    index = open_catalog(place)
    context.call_on_close(index.close)
    runs = Runs(index)
    if refresh:
        runs.refresh()
    return runs


def expect_root(root: Path, *, missing_ok: bool) -> None:
    """Reject a root that is missing, is a file, or was confused with a root inside or above it."""
    from seamark.journal.folder import ROOT_NAME, iter_runs, root_inside, root_near

    if not root.is_dir():
        if root.exists():
            misuse(f"no runs here: {root} is a file, not a folder of runs")
        if not missing_ok:
            near = root_near(root)
            instead = f"; did you mean {near}?" if near else " (choose another folder with --root)"
            misuse(f"no runs here: {root} does not exist{instead}")
        note(f"no runs here yet: {root} does not exist")
        return
    nearby = root_inside(root)
    if nearby is None and ROOT_NAME in root.parent.parts:
        nearby = root_near(root)
    if nearby is not None and next(iter_runs(root, models=True), None) is None:
        misuse(f"no runs in {root}; did you mean {nearby}?")


def matching_paths(
    view: Reader, patterns: Sequence[str], families: Sequence[str] | None
) -> list[str]:
    """Return the paths of a run that equal, are below or match a pattern; all without patterns."""
    known = [
        attribute.path
        for attribute in view.attributes()
        if families is None or attribute.family in families
    ]
    if not patterns:
        return known
    return list(dict.fromkeys(path for one in patterns for path in known if matches(path, one)))


def split_names(given: Sequence[str]) -> list[str]:
    return [name.strip() for one in given for name in one.split(",") if name.strip()]
