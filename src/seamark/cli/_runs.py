"""Opening the index of a root, and finding the runs and paths that a person means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seamark.cli._app import Misuse, misuse, root_of
from seamark.cli._progress import progress_bar
from seamark.cli._screen import note
from seamark.cli._text import plural
from seamark.errors import RunNotFoundError
from seamark.paths import check_project, is_inside
from seamark.run.drawing import matches

if TYPE_CHECKING:
    from seamark.local.index import Index
    from seamark.local.view import RunView

__all__ = [
    "LATEST",
    "RunRef",
    "Runs",
    "attempt_option",
    "matching_paths",
    "open_runs",
    "project_option",
    "query_option",
    "run_argument",
    "runs_argument",
]

LATEST: Final = "latest"
"""Means the newest run, unless a run is called that."""
_LISTED: Final = 8

project_option = click.option(
    "--project", metavar="PROJECT", help="Only this project and its sub-projects.  [default: all]"
)
query_option = click.option(
    "-q", "--query", metavar="QUERY", help="The runs that match; see seamark ls --help."
)
run_argument = click.argument("run", metavar="RUN")
runs_argument = click.argument("names", nargs=-1, metavar="[RUN]...")


def _attempt(_: click.Context, __: click.Parameter, value: str) -> int | str:
    """Return the number of an attempt, or ``latest`` or ``all``."""
    if value in {"latest", "all"}:
        return value
    if value.isdecimal():
        return int(value)
    msg = f"expected latest, all or the number of an attempt, got {value!r}"
    raise click.BadParameter(msg)


attempt_option = click.option(
    "--attempt",
    default="latest",
    show_default=True,
    metavar="WHICH",
    callback=_attempt,
    help="Which attempts to include: latest, all, or a number for those up to it.",
)


@dataclass(frozen=True, slots=True, order=True)
class RunRef:
    """One run: its project path and its id."""

    project: str
    run: str

    def __str__(self) -> str:
        """Return ``project/id``, which names exactly this run."""
        return f"{self.project}/{self.run}"


class Runs:
    """The runs of one root, as last folded.

    Attributes:
        root: The root folder.
        index: Its local index.
    """

    def __init__(self, root: Path, index: Index) -> None:
        """Keep both; see `open_runs`."""
        self.root, self.index = root, index
        self._refs: list[RunRef] | None = None

    def refresh(self, project: str | None = None, run: str | None = None) -> None:
        """Fold what is new, with a progress bar if that takes a while."""
        with progress_bar("Reading runs") as progress:
            self.index.refresh(project, run, progress=progress)
        self._refs = None

    def refs(self, project: str | None = None) -> list[RunRef]:
        """Return every run, or those of a project and its sub-projects."""
        if self._refs is None:
            self._refs = sorted(RunRef(*pair) for pair in self.index.runs())
        if project is None:
            return self._refs
        return [ref for ref in self._refs if is_inside(ref.project, project)]

    def view(self, ref: RunRef) -> RunView:
        """Return what reads one run."""
        return self.index.view(ref.project, ref.run)

    def label(self, ref: RunRef) -> str:
        """Return a run's name, or its id if it has none or if the name is not its own."""
        named = self.view(ref).attribute("sys/name")
        name = str(named.value) if named is not None else ""
        return name if name and self._named(name, None, trashed=False) == [ref] else ref.run

    def find(self, name: str, project: str | None = None, *, trashed: bool = False) -> RunRef:
        """Return the run that a person means by ``name``.

        Tried in this order: ``PROJECT/ID``, the whole id, the name (``sys/name``), the beginning of
        an id, ``latest``.

        Args:
            name: What was typed.
            project: Only runs of this project and its sub-projects.
            trashed: Whether, of runs of one name, those in the trash are meant or the others.

        Raises:
            RunNotFoundError: If no run matches.
            Misuse: If there are several; the message lists them.
        """
        refs = self.refs(project)
        found = (
            [ref for ref in refs if name in {ref.run, str(ref)}]
            or self._named(name, project, trashed=trashed)
            or self._named(name, project, trashed=not trashed)
            or [ref for ref in refs if name and ref.run.startswith(name)]
        )
        if not found and name == LATEST:
            found = self._newest(project)
        if not found:
            where = f"project {project!r}" if project else str(self.root)
            msg = f"no run {name!r} in {where}; seamark ls lists the runs"
            raise RunNotFoundError(msg)
        if len(found) > 1:
            raise Misuse(self._ambiguous(name, found))
        return found[0]

    def _ambiguous(self, name: str, found: Sequence[RunRef]) -> str:
        listed = ", ".join(str(ref) for ref in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        return f"{name!r} may be any of {plural(len(found), 'run')}: {listed}{more}"

    def _named(self, name: str, project: str | None, *, trashed: bool) -> list[RunRef]:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return self.select(f'sys/name = "{quoted}"', project, trashed=trashed)

    def _newest(self, project: str | None) -> list[RunRef]:
        return self.select("", project, limit=1)

    def select(
        self,
        query: str,
        project: str | None,
        *,
        trashed: bool | None = False,
        limit: int | None = None,
    ) -> list[RunRef]:
        """Return the runs that match a query, newest first.

        Args:
            query: See ``seamark ls --help``; empty for all.
            project: Only this project and its sub-projects.
            trashed: Whether they are in the trash; None for both.
            limit: At most this many.

        Raises:
            QueryError: If the query breaks the grammar.
        """
        from seamark.store.query.selection import Selection

        chosen = Selection(project=project, query=query, trashed=trashed, limit=limit)
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
        """
        if bool(names) == (query is not None):
            misuse("which runs? name some, or choose them with --query")
        if query is None:
            refs = (self.find(name, project, trashed=bool(trashed)) for name in names)
            return list(dict.fromkeys(refs))
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
) -> Runs:
    """Open the index of the root that was asked for, and fold what is new.

    Raises:
        Misuse: If an option or a variable names a root that does not exist.
        PathError: If the project's name is not legal.
    """
    from seamark.local.index import Index

    if project is not None:
        check_project(project)
    root, named = root_of(context)
    if not root.is_dir():
        if named or not missing_ok:
            misuse(f"no runs here: {root} does not exist (choose another place with --root)")
        note(f"no runs here yet: {root} does not exist")
    index = Index.open(root)
    context.call_on_close(index.close)
    runs = Runs(root, index)
    if refresh:
        runs.refresh()
    return runs


def matching_paths(
    view: RunView, patterns: Sequence[str], families: Sequence[str] | None
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
