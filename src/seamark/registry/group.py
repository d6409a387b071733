"""Groups: runs of a project that belong together, and what is recorded of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import MissingFieldError
from seamark.journal.writer import HEARTBEAT_S
from seamark.paths import check_name, given_path, is_inside
from seamark.registry.matching import table_of
from seamark.run.claims import OwnClaim
from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.tables import RunsTable
    from seamark.run.claims import Hold
    from seamark.run.handler import Handler
    from seamark.run.logbook import LogSession, Progress

__all__ = ["Group", "group_rows", "groups_table"]

_GROUPS: Final = "groups"
_OF_RUNS: Final = "sys/group_tags"
CLAIMED: Final = "claimed_by"
"""Who has a group, below what its project's log holds of it."""


class Home(Protocol):
    """The project of a group."""

    @property
    def path(self) -> str:
        """Project path."""

    @property
    def session(self) -> LogSession:
        """Part of this process in the project's log."""

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path of its log."""

    def exists(self, path: str) -> bool:
        """Return whether its log has something at a path."""

    @property
    def fetch_runs_table(self) -> Callable[..., RunsTable]:
        """Return its runs."""


class Group:
    """Runs of a project and of those below that have a name in ``sys/group_tags``.

    Made by `seamark.Project.group`. What is recorded of a group is in the log of the project:
    ``group["key"] = value`` under ``groups/<name>/metadata/``.
    """

    def __init__(self, project: Home, name: str, hold: Hold | None = None) -> None:
        self._project = project
        self._name = check_name(name, "group")
        self._claim = OwnClaim(project.session.recorder, self._path(CLAIMED))
        if hold is not None:
            self._begin(hold)

    def _begin(self, hold: Hold) -> None:
        """Show others who has claimed it, and that this process lives, until it is released."""
        session = self._project.session
        if (writer := session.recorder.to_write()) is not None:
            writer.beat_every(HEARTBEAT_S)
            writer.rest(0)  # the thread beside the journal that is open beats as it did
        self._claim.begin(hold)
        session.lifecycle.on(heartbeat=hold.look, stop=self.release)

    def release(self) -> bool:
        """Give back a group that `seamark.Project.claim_group` returned; stopping its project does.

        Returns:
            Whether it was still this process's: somebody else may have it, if nothing was heard of
            this process for so long that it counted as crashed.
        """
        return self._claim.release()

    def __repr__(self) -> str:
        """Return which group of which project it is."""
        return f"<Group {self._name} of {self._project!r}>"

    @property
    def name(self) -> str:
        """Name of the group, as in ``sys/group_tags`` of its runs."""
        return self._name

    @property
    def project(self) -> Home:
        """The project that it belongs to."""
        return self._project

    @property
    def description(self) -> str | None:
        """Free text, kept in the log of the project; to be assigned."""
        try:
            return str(self._project[self._path("description")].fetch())
        except MissingFieldError:
            return None

    @description.setter
    def description(self, text: str) -> None:
        self._project[self._path("description")].assign(text)

    def _path(self, *parts: str) -> str:
        return "/".join((_GROUPS, self._name, *parts))

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path of the group's metadata.

        Raises:
            PathError: If the path breaks the grammar.
        """
        return self._project[self._path("metadata", given_path(path))]

    def __setitem__(self, path: str, value: Any) -> None:
        """Record a value, or those of a mapping; see `Handler.assign`."""
        self[path].assign(value)

    def __delitem__(self, path: str) -> None:
        """Delete what is at and below a path; see `Handler.pop`."""
        self[path].pop()

    def __contains__(self, path: object) -> bool:
        """Return whether something is recorded at a path, or below it."""
        return isinstance(path, str) and self._project.exists(self._path("metadata", path))

    def exists(self) -> bool:
        """Return whether a run is in it, or something is recorded of it."""
        return self._project.exists(self._path()) or bool(
            self.fetch_runs_table(columns=["sys/id"], trashed=None, limit=1).total
        )

    def fetch_runs_table(self, *, query: str | None = None, **others: Any) -> RunsTable:
        """Return its runs, one row each.

        Args:
            query: Only runs that match, too.
            **others: As in `seamark.Project.fetch_runs_table`, which says what is raised.
        """
        Selection(query=query).expression()  # a mistake in it is shown as it was written
        wanted = f'{_OF_RUNS} CONTAINS "{self._name}"'
        query = wanted if query is None else f"{wanted} AND ({query})"
        return self._project.fetch_runs_table(query=query, **others)


def groups_table(session: LogSession, query: str | None, progress_bar: Progress) -> RunsTable:
    """Return the groups of a project; see `seamark.Project.fetch_groups_table`."""
    Selection(query=query).expression()  # a mistake in it is told before anything is read
    index = session.up_to_date(progress_bar)
    return table_of(group_rows(index, session.recorder.folder.project), query, session.tell)


def group_rows(index: Catalog, home: str | None = None) -> dict[Ref, dict[str, Any]]:
    """Return what is known of the groups of a project, by project and name; None for all projects.

    Of all projects, a group is listed with each that itself has a run in it, or says something of
    it. Runs of the projects below count.

    Args:
        index: What has the runs, up to date.
        home: Path of the project.
    """
    rows: dict[Ref, dict[str, Any]] = {}
    told = index.table(Selection(project=home, kind="project"), [f"{_GROUPS}/*"], lambda _: None)
    for (project, _), said in zip(told.refs, told, strict=True):
        for path, value in said.items():
            if path.startswith(f"{_GROUPS}/") and home in (None, project):
                _say(rows, project, path, value)
    table = index.table(Selection(project=home), [_OF_RUNS], lambda _: None)
    named = [
        (project, name)
        for (project, _), row in zip(table.refs, table, strict=True)
        for name in row.get(_OF_RUNS, ())
    ]
    for project, name in named:
        _row(rows, home or project, name)
    for (project, name), row in rows.items():
        row["runs"] = sum(one == name and is_inside(at, project) for at, one in named)
    return {ref: rows[ref] for ref in sorted(rows)}


def _row(rows: dict[Ref, dict[str, Any]], project: str, name: str) -> dict[str, Any]:
    return rows.setdefault((project, name), {"sys/id": name, "runs": 0})


def _say(rows: dict[Ref, dict[str, Any]], project: str, path: str, value: Any) -> None:
    _, name, *below = path.split("/")
    if below:
        _row(rows, project, name)["/".join(below)] = value
