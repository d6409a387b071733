"""Groups of runs, what is recorded of them, and claims of groups and of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import MissingFieldError, ReadOnlyError
from seamark.journal.writer import HEARTBEAT_S
from seamark.paths import check_name, given_path, is_inside
from seamark.registry.projects import table_of
from seamark.run.claims import OwnClaim, check_set, first_free, place_of
from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.tables import RunsTable
    from seamark.run.claims import Hold
    from seamark.run.handler import Handler
    from seamark.run.logbook import LogSession, Progress
    from seamark.run.run import Run

__all__ = ["Group", "claim_group", "claim_run", "group_rows", "groups_table"]

_GROUPS: Final = "groups"
_OF_RUNS: Final = "sys/group_tags"
CLAIMED: Final = "claimed_by"
"""Who has a group, below what its project's log holds of it."""
_FEW: Final = 200
"""How many runs are tried before all that match are listed."""


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
            len(self.fetch_runs_table(columns=["sys/id"], trashed=None, limit=1))
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

    def row_of(project: str, name: str) -> dict[str, Any]:
        return rows.setdefault((project, name), {"sys/id": name, "runs": 0})

    told = index.table(Selection(project=home, kind="project"), [f"{_GROUPS}/*"], lambda _: None)
    for (project, _), said in zip(told.refs, told, strict=True):
        for path, value in said.items():
            space, name, *below = path.split("/")
            if space == _GROUPS and below and home in (None, project):
                row_of(project, name)["/".join(below)] = value
    table = index.table(Selection(project=home), [_OF_RUNS], lambda _: None)
    named = [
        (project, name)
        for (project, _), row in zip(table.refs, table, strict=True)
        for name in row.get(_OF_RUNS, ())
    ]
    for project, name in named:
        row_of(home or project, name)
    for (project, name), row in rows.items():
        row["runs"] = sum(one == name and is_inside(at, project) for at, one in named)
    return {ref: rows[ref] for ref in sorted(rows)}


def claim_run(
    project: Home,
    query: str | None,
    values: Mapping[str, Any] | None,
    sort_by: str,
    *,
    ascending: bool,
    given: Mapping[str, Any],
) -> Run | None:
    """Claim a run; see `seamark.Project.claim`.

    Args:
        project: Its project.
        query: See there, as the others.
        values: What is recorded in the run that is claimed.
        sort_by: See there.
        ascending: See there.
        given: Arguments of ``init_run``.
    """
    kept = check_set(values)
    selection = Selection(project=project.path, query=query, sort_by=sort_by, ascending=ascending)
    selection.check()
    selection.expression()  # a mistake is reported before anything is read
    if not _may_claim(project, "claim"):
        return None
    index = project.session.up_to_date()
    place = project.session.recorded.place

    def matches(ref: Ref) -> bool:
        index.refresh(*ref)
        return ref in index.select(replace(selection, project=ref[0], id=ref[1]), lambda _: None)

    settling = place_of(index, place)
    first = index.select(replace(selection, limit=_FEW), project.session.warn)
    hold = first_free(settling, first, matches)
    if hold is None and len(first) == _FEW:  # as where many workers hold the first ones
        hold = first_free(settling, index.select(selection, project.session.warn)[_FEW:], matches)
    return None if hold is None else _begun(project, hold, kept, given)


def _may_claim(project: Home, verb: str) -> bool:
    """Return whether something can be claimed; nothing is with ``mode="disabled"``.

    Raises:
        ReadOnlyError: If the project was opened for reading.
    """
    if project.session.recorder.mode == "read-only":
        msg = f"{verb}: the project was opened with mode='read-only', and a claim is a record"
        raise ReadOnlyError(msg)
    return project.session.recorder.mode != "disabled"


def _begun(project: Home, hold: Hold, kept: Mapping[str, Any], given: Mapping[str, Any]) -> Run:
    """Return the run that was claimed, running; a mistake gives it back."""
    (path, run_id), session = hold.ref, project.session
    place, root = session.recorded.place, session.recorder.folder.root
    from seamark.run.run import init_run

    try:
        where: dict[str, Any] = {"root": root, "mode": session.recorder.mode}
        if isinstance(place, str):
            where |= {"remote": session.remotes, "api_token": session.token}
        elif place != root:  # another root, which is on this machine
            where |= {"root": place, "mode": "offline"}
        run = init_run(**{"owner": True, **given, **where}, project=path, with_id=run_id)
    except BaseException:
        hold.release({})
        raise
    run.session.claimed(hold)
    _keep(run, kept, run.release, run.stop)
    return run


def _keep(claimed: Run | Group, values: Mapping[str, Any], *on_error: Callable[[], object]) -> None:
    """Record values in what was claimed; a mistake gives it back."""
    try:
        for at, value in values.items():
            claimed[at] = value
    except BaseException:
        for call in on_error:
            call()
        raise


def claim_group(
    project: Home,
    query: str | None,
    values: Mapping[str, Any] | None,
    sort_by: str,
    *,
    ascending: bool,
) -> Group | None:
    """Claim a group; see `seamark.Project.claim_group`."""
    kept = check_set(values)
    Selection(query=query).expression()
    if not _may_claim(project, "claim_group"):
        return None
    index = project.session.up_to_date()

    def found(index: Catalog, only: str | None = None) -> list[tuple[Any, Ref]]:
        rows = group_rows(index, project.path)
        rows = {ref: row for ref, row in rows.items() if only is None or ref[1] == only}
        table = table_of(rows, query, project.session.tell)
        return [(row.get(sort_by), ref) for row, ref in zip(table, table.refs, strict=True)]

    def matches(ref: Ref) -> bool:
        index.refresh(project.path)
        return bool(found(index, ref[1]))

    refs = [ref for _, ref in sorted(found(index), key=_order, reverse=not ascending)]
    place = place_of(index, project.session.recorded.place, groups=True)
    hold = first_free(place, refs, matches)
    if hold is None:
        return None
    group = Group(project, hold.ref[1], hold)
    _keep(group, kept, group.release)
    return group


def _order(one: tuple[Any, Ref]) -> tuple[Any, ...]:
    """Sort numbers before texts, and what has neither last in either case."""
    value, (_, name) = one
    if isinstance(value, (int, float)):
        return (0, float(value), "", name)
    return (1, 0.0, value, name) if isinstance(value, str) else (2, 0.0, "", name)
