"""Projects: their own log (name, description, tags, metadata), and tables of their runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

from seamark.errors import ReadOnlyError
from seamark.journal.folder import RunFolder, root_dir
from seamark.opening.place import place_to_read
from seamark.options.settings import check_argument, remotes_of
from seamark.paths import PROJECT_LOG
from seamark.pictures.drawing import PlotOptions, plot_runs
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.groups import GroupCurve, group_curves
from seamark.reading.html import html_or_text
from seamark.reading.points import check_attempt
from seamark.registry.model import check_arguments
from seamark.registry.references import References, curves_of, path_list
from seamark.run.logbook import Logbook, LogSession, Progress, set_trashed
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Changes, Ref, RunField
    from seamark.reading.groups import RunGroups
    from seamark.reading.points import Attempt
    from seamark.reading.report import Report
    from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
    from seamark.registry.group import Group
    from seamark.run.run import Run


def init_project(
    project: str | None = None,
    *,
    mode: str | None = None,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
    **others: Any,
) -> Project:
    """Open a project to read tables of its runs or to record facts; nothing is written yet.

    Args:
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        mode: ``"read-only"`` refuses to write, ``"disabled"`` does nothing; other modes are
            equivalent.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Server from which runs are read, the first of several; SEAMARK_REMOTE unless
            ``root`` is given. The project's own records are sent to all of them, like runs.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        PathError: If the project's path is invalid.
        ArgumentError: If the mode is unknown, or the remote cannot be read.
    """
    check_arguments(init_project, others)
    path, stated = check_argument("project", project), check_argument("mode", mode)
    place = place_to_read(root, remote)
    folder = RunFolder(root_dir(root), path, PROJECT_LOG)
    remotes = remotes_of(remote, stated, api_token)
    session = LogSession(folder, stated, place=place, remotes=remotes, token=api_token)
    return Project(session)


class Project(Logbook):
    """A project with the runs in it and its sub-projects; created by `init_project`.

    It has the methods of a run (``project["description"] = "..."``), which write to the project's
    own log. ``Project(...)`` with the arguments of `init_project` is the same.
    """

    container_type: ClassVar[str] = "project"
    _opened = staticmethod(init_project)

    def __iter__(self) -> NoReturn:
        """Refuse iteration, which would be ambiguous: runs or the project's own attributes."""
        raise TypeError(
            "a project is not iterable: fetch_runs_table() returns its runs, "
            "get_structure() the fields of the project itself"
        )

    def __repr__(self) -> str:
        return f"<seamark.Project {self.folder.project}>"

    def _repr_html_(self) -> str:
        from seamark.pictures.notebook import page_of_project

        def page() -> str:
            states = self.fetch_runs_table(columns=["sys/state"], progress_bar=False)
            columns = ["sys/name", "sys/state", "sys/creation_time"]
            newest = self.fetch_runs_table(columns=columns, limit=5, progress_bar=False)
            return page_of_project(self.session.recorded, self.path, states, newest)

        return html_or_text(page, self.__repr__)

    @property
    def path(self) -> str:
        """Project path."""
        return self.folder.project

    def report(self, short: bool = False) -> Report:  # noqa: FBT001, FBT002 - as people call it
        """Return a summary of the project: a dict that prints itself.

        Keys: ``name``, ``description``, ``tags``, ``keyed_tags``, ``metadata``, ``groups`` (those
        with metadata) and ``runs`` (their number in it and below, by state). Times are strings, so
        that ``json.dumps`` accepts it. ``short`` omits ``project``, ``owner`` and
        ``creation_time``.
        """
        from seamark.reading.report import report_of_project, with_plain_values

        states = self.fetch_runs_table(columns=["sys/state"])["sys/state"]
        return with_plain_values(
            report_of_project(self.path, self.session.recorded.attributes(), states, short=short)
        )

    def fetch_runs_table(
        self,
        *,
        query: str | None = None,
        id: str | Iterable[str] | None = None,  # noqa: A002 - Neptune's name
        state: str | Iterable[str] | None = None,
        owner: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        trashed: bool | None = False,
        limit: int | None = None,
        offset: int = 0,
        sort_by: str = "sys/creation_time",
        ascending: bool = False,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the runs that match all given arguments, one row each, with their current values.

        A path that no run has yields an empty column and matches nothing, as does an unknown ``id``
        or project. A warning is logged once.

        Args:
            query: Query such as ``'val/loss:min < 0.3 AND sys/tags CONTAINS "best"'``; see the page
                on queries. Empty for all runs. Times without an offset are in UTC.
            id: One run or several alternatives: ids, prefixes of ids, names, generated names,
                ``"latest"``, or one of these prefixed by ``PROJECT/``.
            state: ``"running"``, ``"completed"``, ``"failed"``, ``"interrupted"``, ``"suspended"``,
                ``"crashed"`` or ``"created"``, or several of them; ``"error"`` and ``"finished"``,
                and Neptune's ``"active"`` and ``"inactive"``, each stand for several states.
            owner: One owner or several alternatives.
            tag: One tag, or several that must all be present.
            columns: Paths (``"hyperparams/lr"``), aggregates of series (``"val/loss:min"``,
                ``:max``, ``:mean``, ``:last``, ``:count``, ``:first_step``, ``:last_step``),
                patterns (``"hyperparams/*"``, and ``"hyperparams/*:differing"`` for the columns in
                which the runs differ); of the parts of each run (see ``parent`` of `init_run`)
                ``"children/val/acc:max"``, ``:min``, ``:mean`` and ``:count``. None for everything.
                ``sys/id`` is always there.
            trashed: False for runs outside the trash, True for those in it, None for both.
            limit: Maximum number of runs; ``total`` of the table counts all matching runs.
            offset: Number of runs to skip at the beginning.
            sort_by: Path, optionally with an aggregate. NaN and runs without a value come last.
            ascending: Smallest first.
            progress_bar: False for none; a function, called with the numbers of folded and of all
                runs to fold; or a class such as `seamark.utils.TqdmProgressBar`. None and True show
                progress on a terminal if it takes a while.

        Raises:
            ArgumentError: If an argument is invalid, or one of ``id`` is ambiguous.
            QueryError: If the query, a column or ``sort_by`` is invalid, for example because of an
                unknown aggregate. The message points at the position.
        """
        words = list(id) if isinstance(id, Iterable) and not isinstance(id, str) else id
        index, selection = self.session.select(
            progress_bar,
            query=query,
            id=words,
            state=state,
            owner=owner,
            tag=tag,
            trashed=trashed,
            limit=limit,
            offset=offset,
            sort_by=sort_by,
            ascending=ascending,
        )
        if words is not None:
            known = References(self.session, index, trashed=trashed)
            selection = replace(selection, id=known.ids(words))
        table = index.table(selection, columns, self.session.warn)
        if self.session.recorded.remote and not len(table):
            self.session.check_exists()
        return table

    def fetch_fields(
        self,
        *,
        query: str | None = None,
        contains: str = "",
        trashed: bool | None = False,
        limit: int | None = None,
        progress_bar: Progress = None,
    ) -> list[RunField]:
        """Return the paths of the matching runs: number of runs, type, and whether values differ.

        Derived attributes of every run (``sys/id``, ``sys/state``, times) are omitted. ``contains``
        selects paths that contain it, ignoring case; ``limit`` restricts the search to the newest
        runs. Other arguments and errors are as in `fetch_runs_table`.
        """
        index, selection = self.session.select(
            progress_bar, query=query, trashed=trashed, limit=limit
        )
        return index.fields(selection, contains, self.session.warn)

    def fetch_changes(self, cursor: str = "", *, progress_bar: Progress = None) -> Changes:
        """Return the runs that changed since a cursor, with their current values.

        ``cursor`` comes from an earlier answer, of this process or another one; initially empty.
        """
        return self.session.up_to_date(progress_bar).changes(cursor, self.folder.project)

    def group_runs(
        self,
        by: str | Iterable[str],
        columns: str | Iterable[str] = (),
        *,
        query: str | None = None,
        trashed: bool | None = False,
        limit: int | None = None,
        offset: int = 0,
        sort_by: str = "sys/creation_time",
        ascending: bool = False,
        progress_bar: Progress = None,
    ) -> RunGroups:
        """Return the matching runs grouped by columns, with statistics of other columns.

        Only finite numbers count in ``mean``, ``std`` (of a sample, n - 1), ``min`` and ``max``;
        ``odd`` counts runs with NaN, an infinity or no number. Runs without a value in ``by`` form
        a group, as do those with NaN.

        ``by`` is one column or several, such as ``"parameters/lr"``; ``columns`` are summarized,
        such as ``"val/loss:min"``. Groups are in the order of their first runs; ``limit`` and
        ``offset`` count groups. Other arguments and errors are as in `fetch_runs_table`.
        """
        keys, summed = path_list(by, "by"), path_list(columns, "columns")
        named = [*keys, *summed]
        if not keys or any(mark in one for one in named for mark in "*?"):
            raise argument_error(named, "by, columns", "paths such as 'parameters/lr'")
        index, selection = self.session.select(
            progress_bar,
            query=query,
            trashed=trashed,
            limit=limit,
            offset=offset,
            sort_by=sort_by,
            ascending=ascending,
        )
        return index.groups(selection, keys, summed, self.session.warn)

    def fetch_models_table(
        self,
        *,
        query: str | None = None,
        columns: Iterable[str] | None = None,
        trashed: bool | None = False,
        limit: int | None = None,
        sort_by: str = "sys/creation_time",
        ascending: bool = False,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the models of the project and of its sub-projects, one row each.

        ``sys/id``, the key of a model, is always there. Arguments and errors are as in
        `fetch_runs_table`.
        """
        return self.session.table(
            columns,
            progress_bar,
            kind="model",
            query=query,
            trashed=trashed,
            limit=limit,
            sort_by=sort_by,
            ascending=ascending,
        )

    def fetch_artifacts_table(
        self,
        *,
        query: str | None = None,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the latest version of each artifact of the project and its sub-projects.

        ``sys/name`` is the name, ``sys/version`` the number of the latest version, ``sys/id`` its
        digest. `Artifact.fetch_versions_table` returns all versions of an artifact. Arguments and
        errors are as in `fetch_runs_table`; a query examines only the latest versions.
        """
        from seamark.registry.artifacts import latest_versions

        return latest_versions(self.session, query, columns, limit, progress_bar)

    def claim(
        self,
        query: str | None = None,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - what it does
        sort_by: str = "sys/creation_time",
        ascending: bool = True,
        **given: Any,
    ) -> Run | None:
        """Claim a matching run that no other process holds; return None if there is none.

        Exactly one of any number of workers that use the same root or server gets the run. The
        process holds it until `Run.release` or `Run.stop`, or until it counts as crashed: it has
        ended or been silent for 90 s. Runs in the trash are skipped. The query is evaluated again
        after the claim; a query that also matches finished runs finds them again.

        Args:
            query: As in `fetch_runs_table`, including errors; empty for any run.
            set: Values by path, recorded in the run immediately.
            sort_by: Path, optionally with an aggregate, that determines the order in which runs are
                tried.
            ascending: Smallest first; without ``sort_by`` the oldest first.
            **given: Further arguments of `init_run`, such as ``capture_stdout=False``.

        Raises:
            PathError: If a path in ``set`` is invalid or derived.
            ValueKindError: If a value in ``set`` is not supported.
            ReadOnlyError: If the project was opened for reading.
            OSError: If the project's folder is not writable.
            RemoteError: If the server is unreachable or refuses the claim.
        """
        from seamark.registry.group import claim_run

        return claim_run(self, query, set, sort_by, ascending=ascending, given=given)

    def find_run(self, *, content_hash: str, revision: int | None = None) -> Run | None:
        """Return the newest run with given parameters and code, for reading; None if there is none.

        Args:
            content_hash: ``sys/content_hash`` of the run, currently or at its start.
            revision: ``sys/revision``: 1-based number among the runs with the same initial inputs;
                None for any.

        Raises:
            ArgumentError: If an argument is invalid.
            RemoteError: If the server is unreachable.
        """
        from seamark.registry.references import find_run

        return find_run(self.session, content_hash, revision)

    def claim_group(
        self,
        query: str | None = None,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - what it does
        sort_by: str = "sys/id",
        ascending: bool = True,
    ) -> Group | None:
        """Claim a matching group that no other process holds; return None if there is none.

        The process holds it until `Group.release` or the project's `stop`. ``query`` and
        ``sort_by`` are as in `fetch_groups_table`; ``set`` is metadata by key, recorded for the
        group immediately. Errors are as for `claim`.
        """
        from seamark.registry.group import claim_group

        return claim_group(self, query, set, sort_by, ascending=ascending)

    def group(self, name: str) -> Group:
        """Return a group of runs of the project and its sub-projects; nothing is created.

        Args:
            name: As in ``sys/group_tags`` of its runs; see ``groups`` of `init_run`.

        Raises:
            PathError: If the name is invalid.
        """
        from seamark.registry.group import Group

        return Group(self, name)

    def fetch_groups_table(
        self, *, query: str | None = None, progress_bar: Progress = None
    ) -> RunsTable:
        """Return the groups of the project, one row each, by name.

        ``sys/id`` is the name, ``runs`` the number of its runs; ``description`` and
        ``metadata/...`` come from the project's log. A query filters groups, such as ``"runs > 4
        AND metadata/seed = 1"``.

        Raises:
            QueryError: If the query breaks the grammar, or has a regular expression.
        """
        from seamark.reading.catalog import Selection
        from seamark.registry.group import group_rows, table_of
        from seamark.store.query.selection import expression_of

        expression_of(Selection(query=query))  # a mistake in it is told before anything is read
        rows = group_rows(self.session.up_to_date(progress_bar), self.path)
        return table_of(rows, query, self.session.warn_once)

    def trash(self, runs: Any, *, trashed: bool = True) -> list[str]:
        """Move runs of the project and its sub-projects to the trash, or restore them.

        Their files are kept; ``seamark purge`` deletes them permanently.

        Args:
            runs: As in `fetch_series`, including errors, but not None.
            trashed: False restores them.

        Returns:
            Their ids.

        Raises:
            ReadOnlyError: If the project was opened for reading.
            JournalError: If a folder cannot be written.
            RemoteError: If a server refuses the change.
        """
        if runs is None:
            raise argument_error(runs, "runs", "runs, their names or a query")
        if self.session.recorder.silent:
            return []
        if self.session.recorder.mode == "read-only":
            raise ReadOnlyError(
                f"{self.folder.words} was opened with mode='read-only' and cannot be written to"
            )
        index = self.session.up_to_date()
        refs = References(self.session, index, trashed=not trashed).refs(runs)
        root = None if self.session.recorded.remote else self.folder.root
        set_trashed(index, root, refs, trashed=trashed)
        return [run for _, run in refs]

    @overload
    def fetch_series(
        self,
        paths: str | Iterable[str],
        runs: Any = None,
        *,
        attempt: Attempt = "latest",
        points: None = None,
        progress_bar: Progress = None,
    ) -> SeriesTable: ...
    @overload
    def fetch_series(
        self,
        paths: str | Iterable[str],
        runs: Any = None,
        *,
        attempt: Attempt = "latest",
        points: int,
        progress_bar: Progress = None,
    ) -> CurveTable: ...
    def fetch_series(
        self,
        paths: str | Iterable[str],
        runs: Any = None,
        *,
        attempt: Attempt = "latest",
        points: int | None = None,
        progress_bar: Progress = None,
    ) -> SeriesTable | CurveTable:
        """Return the points of float series of many runs as one long table.

        A path that is not a series of any run adds nothing; a warning is logged once.

        Args:
            paths: One path or several; ``*`` matches anything (``"val/*"``).
            runs: Runs, names of runs (see ``id`` of `fetch_runs_table`), a query, a `RunsTable`, or
                rows of one, alone or in a list; None for all runs outside the trash. A string that
                is a valid query is not used as a name, except in a list.
            attempt: ``"latest"``, ``"all"``, or a number: the runs as of the end of that attempt.
            points: Maximum number of representative points of each series, for drawing, in parts
                that keep their minimum and maximum; None for every point.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument is invalid, or a name is ambiguous.
            QueryError: If a string is neither a query nor a run.
            RunNotFoundError: If a name does not exist in this project.
        """
        patterns = path_list(paths)
        check_attempt(attempt)
        if points is not None:
            check_points(points)
        index = self.session.up_to_date(progress_bar)
        refs = References(self.session, index).refs(runs)
        return index.series(refs, patterns, attempt, points=points, unknown=self.session.warn)

    def fetch_curves(
        self,
        paths: str | Iterable[str],
        runs: Any = None,
        *,
        x: str = "step",
        points: int = 1000,
        low: float | None = None,
        high: float | None = None,
        smooth: float | None = None,
        half_life: float | None = None,
        log_x: bool = False,
        attempt: Attempt = "latest",
        since: Iterable[RunCurve] = (),
        progress_bar: Progress = None,
    ) -> list[RunCurve]:
        """Return float series of many runs as `plot` draws them, in parts that keep their extremes.

        There is one curve for each series with points, run by run; series with fewer than
        ``points`` points are complete. ``x="time"`` is in seconds since the Unix epoch. With
        ``log_x`` parts are equally wide in log2 x, and points at or below zero are counted.
        ``attempt="replaced"`` returns points that a later attempt repeated. ``since`` is an earlier
        answer to the same call: only changes are requested. Other arguments and errors are as in
        `fetch_series` and `Handler.plot`.
        """
        patterns = path_list(paths)
        look = Look(points, x, low, high, smooth, half_life, log_x)
        look.check()
        check_attempt(attempt)
        index = self.session.up_to_date(progress_bar)
        refs = References(self.session, index).refs(runs)
        return curves_of(index, refs, patterns, look, attempt, since)

    def fetch_group_curves(
        self,
        paths: str | Iterable[str],
        by: str | Iterable[str],
        *,
        query: str | None = None,
        x: str = "step",
        points: int = 1000,
        low: float | None = None,
        high: float | None = None,
        smooth: float | None = None,
        half_life: float | None = None,
        log_x: bool = False,
        attempt: Attempt = "latest",
        progress_bar: Progress = None,
    ) -> list[GroupCurve]:
        """Return mean, std (n - 1) and n of float series over groups of runs, as curves.

        There is one curve for each path and group with points. ``paths`` must not be patterns;
        ``by`` is as in `group_runs`. There are at most ``points`` parts of one x each, or half as
        many of equal width. If lines are smoothed, the smoothed lines of the runs are averaged.
        Other arguments and errors are as in `fetch_curves` and `fetch_runs_table`.
        """
        series = path_list(paths)
        look = Look(points, x, low, high, smooth, half_life, log_x)
        look.check()
        check_attempt(attempt)
        found = self.group_runs(by, query=query, progress_bar=progress_bar)
        index = self.session.recorded.index
        draw = partial(index.curves, attempt=attempt)
        return group_curves(draw, [(one.by, one.refs) for one in found], series, look)

    def plot(
        self,
        *paths: str,
        runs: Any = None,
        x: str = "step",
        smooth: float | None = None,
        log_x: bool = False,
        log_y: bool = False,
        attempt: Attempt = "latest",
        points: int = 1000,
        half_life: float | None = None,
        low: float | None = None,
        high: float | None = None,
        refresh: float | None = None,
        progress_bar: Progress = None,
    ) -> Any:  # a figure of plotly, which has no types
        """Return a figure of series of many runs, given by paths, namespaces or patterns.

        A run has the same colour in each figure, unless two runs of a figure would share it. Of
        more than 20 runs with such a series the first 20 are drawn, which are the newest if
        ``runs`` is None or a query. ``runs`` and ``progress_bar`` are as in `fetch_series`; other
        arguments and errors are as in `Handler.plot`.
        """
        look = Look(points, x, low, high, smooth, half_life, log_x, log_y)

        def found() -> tuple[Catalog, list[Ref]]:
            index = self.session.up_to_date(progress_bar)
            return index, References(self.session, index).refs(runs)

        where = f"the runs of project {self.path!r}"
        order = "newest" if runs is None or isinstance(runs, str) else "first"
        return plot_runs(found, paths, PlotOptions(look, attempt), where, refresh, order)
