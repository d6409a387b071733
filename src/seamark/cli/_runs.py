"""Opening a place with runs, and finding the runs and paths that a person means."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli import _complete
from seamark.cli._app import misuse, place_of
from seamark.cli._screen import note, progress_bar
from seamark.errors import RunNotFoundError
from seamark.paths import check_project, is_inside, kind_of, matches
from seamark.reading.words import clean, hint_for

if TYPE_CHECKING:
    from seamark.index.index import Index
    from seamark.reading.catalog import Catalog
    from seamark.reading.finding import Finder
    from seamark.reading.reader import Reader
    from seamark.remote.http.catalog import RemoteCatalog

__all__ = [
    "RunRef",
    "Runs",
    "a_path",
    "a_query",
    "attempt_option",
    "expect_root",
    "filled",
    "matching_paths",
    "names_of",
    "open_runs",
    "project_option",
    "query_option",
    "run_argument",
    "runs_argument",
]


_LISTED = 8


def filled(expected: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return what refuses empty values of an option or argument.

    What is empty is nearly always a variable of a script that was never set; to take it for "all"
    would hide or delete every run there is.

    Args:
        expected: What would do instead, in words.
    """

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None and not one.strip(" \t\r\n/,") and not context.resilient_parsing:
                name = parameter.opts[-1].lstrip("-")
                misuse(f"{name}: expected {expected}, got {one!r}")
        return value

    return check


a_path = filled("a path such as val/loss")
"""Refuses an empty path."""
a_query = filled("a condition such as 'val/loss < 0.3'")
"""Refuses an empty query."""
project_option = click.option(
    "--project",
    metavar="PROJECT",
    shell_complete=_complete.projects,
    help="Only this project and its sub-projects.  [default: all]",
)
query_option = click.option(
    "-q",
    "--query",
    metavar="QUERY",
    callback=a_query,
    help="The runs that match; see seamark ls --help.",
)
run_argument = click.argument("run", metavar="RUN", shell_complete=_complete.runs)
runs_argument = click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=_complete.runs)


def _attempt(_: click.Context, __: click.Parameter, value: str) -> int | str:
    """Return the number of an attempt, or ``latest``, ``all`` or ``replaced``."""
    if value in {"latest", "all", "replaced"}:
        return value
    if value.isdecimal():
        return int(value)
    msg = f"expected latest, all, replaced or the number of an attempt, got {value!r}"
    raise click.BadParameter(msg)


attempt_option = click.option(
    "--attempt",
    default="latest",
    show_default=True,
    metavar="WHICH",
    callback=_attempt,
    help="Which attempts to include: latest, all, N: the run as attempt N left it, or replaced: "
    "only what a later attempt did again.",
)


@dataclass(frozen=True, slots=True, order=True)
class RunRef:
    """Reference to a run: its project path and its id."""

    project: str
    run: str

    def __str__(self) -> str:
        """Return ``project/id``, which names exactly this run."""
        return f"{self.project}/{self.run}"


class Runs:
    """The runs of one place, as they were when they were read last.

    Attributes:
        index: What has them: the local index of a root, or what asks a server.
    """

    def __init__(self, index: Catalog) -> None:
        """Keep it; see `open_runs`."""
        self.index = index
        self._refs: list[RunRef] | None = None
        self._finder: Finder | None = None

    @property
    def where(self) -> str:
        """The place in words: the path of a root, or the address of a server."""
        return self.index.where

    @property
    def root(self) -> Path | None:
        """The root folder; None where the runs are on a server."""
        found = getattr(self.index, "root", None)
        return found if isinstance(found, Path) else None

    @property
    def local(self) -> Index:
        """The index of the root, for commands that look into folders; see `open_runs`."""
        from seamark.index.index import Index

        assert isinstance(self.index, Index)  # noqa: S101 - it was opened for such a command
        return self.index

    @property
    def remote(self) -> RemoteCatalog:
        """The catalog of a server, where the runs are on one."""
        from seamark.remote.http.catalog import RemoteCatalog

        assert isinstance(self.index, RemoteCatalog)  # noqa: S101 - there are no other places
        return self.index

    def refresh(self, project: str | None = None, run: str | None = None) -> None:
        """Fold what is new, with a progress bar if that takes a while."""
        with progress_bar("Reading runs") as progress:
            self.index.refresh(project, run, progress=progress)
        self._refs = self._finder = None

    def refs(self, project: str | None = None) -> list[RunRef]:
        """Return every run, or those of a project and its sub-projects."""
        if self._refs is None:
            self._refs = sorted(RunRef(*pair) for pair in self.index.runs())
        if project is None:
            return self._refs
        return [ref for ref in self._refs if is_inside(ref.project, project)]

    def view(self, ref: RunRef) -> Reader:
        """Return what reads one run."""
        return self.index.view(ref.project, ref.run)

    @property
    def finder(self) -> Finder:
        """Finder of runs by name or id."""
        if self._finder is None:
            from seamark.reading.finding import Finder

            self._finder = Finder(self.index)
        return self._finder

    def label(self, ref: RunRef) -> str:
        """Return a run's name, or the generated one; its id if the name is not its own."""
        return clean(self.finder.label((ref.project, ref.run)))

    def find(
        self,
        name: str,
        project: str | None = None,
        *,
        trashed: bool = False,
        beginnings: bool = True,
    ) -> RunRef:
        """Return the run that a person means by ``name``; `seamark.reading.finding` says which.

        Args:
            name: What was typed.
            project: Only runs of this project and its sub-projects, unless ``name`` says another.
            trashed: Whether, of runs of one name, those in the trash are meant or the others.
            beginnings: Whether the beginning of an id will do.

        Raises:
            RunNotFoundError: If no run matches.
            ArgumentError: If there are several; the message lists them.
        """
        try:
            found = self.finder.find(name, project, trashed=trashed, beginnings=beginnings)
        except RunNotFoundError:
            if (there := self._at(name) or self._registered(name, project)) is None:
                raise
            return there
        return RunRef(*found)

    def _registered(self, name: str, project: str | None) -> RunRef | None:
        """Return the model, version or artifact that goes by a name; None if none does."""
        from seamark.store.query.selection import find_registered

        with contextlib.suppress(RunNotFoundError):
            return RunRef(*find_registered(self.index, name, project).ref)
        return None

    def _at(self, place: str) -> RunRef | None:
        """Return the run whose folder is at a path, as Seamark prints it; None if none is."""
        root = self.root
        if "/" not in place or root is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            inside = Path(place).expanduser().resolve().relative_to(root.resolve())
            ref = RunRef(inside.parent.as_posix(), inside.name)
            kind = kind_of(ref.project, ref.run)
            there = self.index.runs(ref.project, kind) if ref.project else []
            return ref if (ref.project, ref.run) in there else None
        return None

    def expect_project(self, project: str | None) -> None:
        """Refuse a project without runs, where others have some.

        Raises:
            Misuse: Naming the project that may be meant.
        """
        if project is None or self.refs(project) or not self.refs():
            return
        known = sorted({ref.project for ref in self.refs()})
        some = ", ".join(known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
        misuse(f"no runs in project {project!r}{hint_for(project, known, f'; there are {some}')}")

    def select(
        self,
        query: str,
        project: str | None,
        *,
        trashed: bool | None = False,
        limit: int | None = None,
        kind: str = "run",
    ) -> list[RunRef]:
        """Return the runs that match a query, newest first.

        Args:
            query: See ``seamark ls --help``; empty for all.
            project: Only this project and its sub-projects.
            trashed: Whether they are in the trash; None for both.
            limit: At most this many.
            kind: What they are; see `seamark.paths.kind_of`.

        Raises:
            QueryError: If the query breaks the grammar.
        """
        from seamark.store.query.selection import Selection

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
        """Return the runs that a command was given, by name or by query; at least one.

        Raises:
            Misuse: If none was named, both ways were used, or the query matches none.
            RunNotFoundError: If a name matches no run.
            ArgumentError: If one matches several.
        """
        if names and query is not None:
            misuse("which runs? expected names or --query, got both")
        if not names and query is None:
            misuse("which runs? name some, or choose them with --query")
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
    """Open the place that was asked for, a root or a server, and read what is new.

    Args:
        context: Of the command.
        project: Only this project and its sub-projects are read; None for all.
        refresh: Whether to read what is new.
        missing_ok: Whether a root that nobody named may be missing.
        local: Name of a command that can look at nothing but a root; else empty.

    Raises:
        Misuse: If the root does not exist where it has to, is a file, or holds the root meant; or
            if both a root and a remote were named.
        ArgumentError: If nobody named a root, and the nearest one is another user's.
        PathError: If the project's name is not legal.
    """
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
    """Make sure that a folder is a root, as far as that can be told before its runs are read.

    Raises:
        Misuse: If it does not exist, is a file, or if another root is meant: the ``.seamark`` in
            it, or the one that it lies in.
    """
    from seamark.journal.folder import iter_runs
    from seamark.journal.root import ROOT_NAME, root_inside, root_near

    if not root.is_dir():
        if root.exists():
            misuse(f"no runs here: {root} is a file, not a folder of runs")
        if not missing_ok:
            near = root_near(root)
            instead = f"; did you mean {near}?" if near else " (choose another place with --root)"
            misuse(f"no runs here: {root} does not exist{instead}")
        note(f"no runs here yet: {root} does not exist")
        return
    meant = root_inside(root)
    if meant is None and ROOT_NAME in root.parent.parts:
        meant = root_near(root)
    if meant is not None and next(iter_runs(root, models=True), None) is None:
        misuse(f"no runs in {root}; did you mean {meant}?")


def matching_paths(
    view: Reader, patterns: Sequence[str], families: Sequence[str] | None
) -> list[str]:
    """Return the paths of a run that are, lie below, or match patterns, in their order.

    Args:
        view: The run.
        patterns: Paths, namespaces, or patterns with ``*`` and ``?``, which also match ``/``; none
            for all paths.
        families: Only attributes of these.
    """
    known = [
        attribute.path
        for attribute in view.attributes()
        if families is None or attribute.family in families
    ]
    if not patterns:
        return known
    return list(dict.fromkeys(path for one in patterns for path in known if matches(path, one)))


def names_of(given: Sequence[str]) -> list[str]:
    """Return what is separated by commas."""
    return [name.strip() for one in given for name in one.split(",") if name.strip()]
