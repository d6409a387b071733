"""A project: its own log (name, description, tags, metadata), and tables over its runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

from seamark.errors import ArgumentError, ReadOnlyError
from seamark.journal.folder import PROJECT_LOG, RunFolder, root_dir
from seamark.opening.catalogs import place_to_read
from seamark.options.run_options import WITHOUT_MEANING, refuse_unknown
from seamark.options.settings import check_argument, remotes_of
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.drawn import GroupCurve, group_curves
from seamark.reading.points import check_attempt
from seamark.registry.curves import curves_of, path_list
from seamark.registry.edits import set_trashed
from seamark.registry.references import References
from seamark.run.drawing import PlotOptions
from seamark.run.logbook import Logbook, LogSession, Progress
from seamark.run.plotting import plot_runs

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref, RunField
    from seamark.reading.changes import Changes
    from seamark.reading.groups import RunGroups
    from seamark.reading.points import Attempt
    from seamark.reading.report import Report
    from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
    from seamark.registry.group import Group
    from seamark.run.run import Run

__all__ = ["Project", "init_project"]


def init_project(
    project: str | None = None,
    *,
    mode: str | None = None,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
    **others: Any,
) -> Project:
    """Open a project, to read tables of its runs or to record facts about the project itself.

    Nothing is created on disk before something is recorded.

    Args:
        project: Its path; this and what follows as in `init_run`.
        mode: ``"read-only"`` refuses to write, ``"disabled"`` does nothing; the others are the same
            here.
        root: Folder of all runs.
        remote: Server whose runs are read, of several the first; SEAMARK_REMOTE unless ``root`` is
            given. What is recorded in the project itself is sent to all of them, as runs are.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        PathError: If the project's path breaks the grammar.
        ArgumentError: If there is no such mode, or the remote cannot be read.
    """
    own = ("project", "mode", "root", "remote", "api_token")
    refuse_unknown("init_project", others, {*own, *WITHOUT_MEANING} - {"enable_remote_signals"})
    path, stated = check_argument("project", project), check_argument("mode", mode)
    place = place_to_read(root, remote)
    folder = RunFolder(root_dir(root), path, PROJECT_LOG)
    remotes = remotes_of(remote, stated, api_token)
    session = LogSession(folder, stated, place=place, remotes=remotes, token=api_token)
    return Project(session)


class Project(Logbook):
    """A project and the runs in it and in its sub-projects; made by `init_project`.

    It has the verbs of a run (``project["description"] = "..."``), which write to the project's own
    log. ``Project(...)`` with the arguments of `init_project` is the same.
    """

    container_type: ClassVar[str] = "project"
    _opened = staticmethod(init_project)

    def __iter__(self) -> NoReturn:
        """Refuse: some expect the runs, and others the names of what the project itself holds.

        Raises:
            TypeError: Always.
        """
        msg = (
            "a project is nothing to iterate over: fetch_runs_table() has its runs, "
            "get_structure() what is recorded in the project itself"
        )
        raise TypeError(msg)

    def __repr__(self) -> str:
        """Return which project it is."""
        return f"<seamark.Project {self.folder.project}>"

    @property
    def path(self) -> str:
        """Project path."""
        return self.folder.project

    def report(self, short: bool = False) -> Report:  # noqa: FBT001, FBT002 - as people call it
        """Return what the project comes to, as far as it is recorded: a dict that prints itself.

        Its keys: ``name``, ``description``, ``tags``, ``keyed_tags``, ``metadata``, ``groups`` (of
        which it says something) and ``runs`` (how many there are in it and below, by state). Times
        are text, so that ``json.dumps`` takes it.

        Args:
            short: Leave out ``project``, ``owner`` and ``creation_time``.
        """
        from seamark.reading.report import report_of_project, with_plain_values

        states = self.fetch_runs_table(columns=["sys/state"])["sys/state"]
        return with_plain_values(
            report_of_project(self.path, self.session.recorded.attributes(), states, short=short)
        )

    # ---------------------------------------------------------------- tables

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
        snapshot: str | None = None,
        progress_bar: Progress = None,
    ) -> RunsTable:
        """Return the runs that match every argument given, one row each, as recorded up to now.

        A path that no run has yet makes an empty column and matches nothing, as does an ``id`` that
        means no run, or a project that does not exist. A warning says so once.

        Args:
            query: Such as ``'val/loss:min < 0.3 AND sys/tags CONTAINS "best"'``; see the page on
                queries. Empty for all runs. A time without an offset is in UTC.
            id: One run, or several of which it must be one: ids, their beginnings, names, generated
                names, ``"latest"``, or one of these behind ``PROJECT/``.
            state: ``"running"``, ``"completed"``, ``"failed"``, ``"interrupted"``, ``"suspended"``,
                ``"crashed"`` or ``"created"``, or several; ``"error"`` and ``"finished"`` stand for
                several, as do ``"active"`` and ``"inactive"``, which Neptune has.
            owner: One owner, or several of which a run must have one.
            tag: One tag, or several that a run must all have.
            columns: Paths (``"hyperparams/lr"``), aggregates of series (``"val/loss:min"``,
                ``:max``, ``:mean``, ``:last``, ``:count``, ``:first_step``, ``:last_step``),
                patterns (``"hyperparams/*"``, and ``"hyperparams/*:differing"`` for the columns in
                which the runs differ); of the parts of each run (see ``parent`` of `init_run`)
                ``"children/val/acc:max"``, ``:min``, ``:mean`` and ``:count``. None for everything.
                ``sys/id`` is always there.
            trashed: False for runs that are not in the trash, True for those that are; None: both.
            limit: At most this many runs; ``total`` of the table says how many match.
            offset: How many of the first to leave out.
            sort_by: Path, perhaps with an aggregate. NaN and runs without a value come last.
            ascending: Smallest first.
            snapshot: ``cursor`` of an earlier table, to turn its pages: the same runs in the same
                order whatever was added or has changed, with their present values; a run that is
                gone leaves a gap. Empty to begin. A process remembers the last few; if this one was
                forgotten and the runs are others now, ``cursor`` of the table is another one.
            progress_bar: False for none; a function is called with the number of runs folded and to
                fold, a class such as `seamark.utils.TqdmProgressBar` is told; None and True show
                progress on a terminal if it takes a while.

        Raises:
            ArgumentError: If an argument cannot be used, or one of ``id`` may be several runs.
            QueryError: If the query, a column or ``sort_by`` breaks the grammar or can mean
                nothing, such as an aggregate that does not exist. The message points at the place.
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
        table = index.table(selection, columns, self.session.warn, snapshot)
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
        """Return which paths the runs that match show: of how many, as what, whether they differ.

        Args:
            query: As in `fetch_runs_table`.
            contains: Only paths that have this in them, whatever its case.
            trashed: As in `fetch_runs_table`.
            limit: Look at this many runs, the newest; None for all.
            progress_bar: As in `fetch_runs_table`.

        Returns:
            By path. What is derived of every run (``sys/id``, ``sys/state``, times) is left out.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or can mean nothing.
        """
        index, selection = self.session.select(
            progress_bar, query=query, trashed=trashed, limit=limit
        )
        return index.fields(selection, contains, self.session.warn)

    def fetch_changes(self, cursor: str = "", *, progress_bar: Progress = None) -> Changes:
        """Return which runs changed since a cursor, as recorded up to now.

        Args:
            cursor: Of an earlier answer, of this process or another one; empty to begin.
            progress_bar: As in `fetch_runs_table`.
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
        """Return the runs that match in groups that show the same, and what their numbers come to.

        Only finite numbers count in ``mean``, ``std`` (of a sample, n - 1), ``min`` and ``max``;
        ``odd`` counts runs that show NaN, an infinity or no number. Runs that show nothing in
        ``by`` are a group, and so are those that show NaN.

        Args:
            by: One column or several, as in `fetch_runs_table`: ``"parameters/lr"``.
            columns: Columns whose numbers are summed up: ``"val/loss:min"``.
            query: As in `fetch_runs_table`.
            trashed: As in `fetch_runs_table`.
            limit: At most this many groups.
            offset: How many of the first groups to leave out.
            sort_by: Order of the runs; groups come in that of their first runs.
            ascending: Smallest first.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query or a column breaks the grammar, or can mean nothing.
        """
        keys, summed = path_list(by, "by"), path_list(columns, "columns")
        if not keys or any(mark in one for one in (*keys, *summed) for mark in "*?"):
            msg = (
                f"by, columns: expected paths such as 'parameters/lr', got {[*keys, *summed]!r:.80}"
            )
            raise ArgumentError(msg)
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

        Args:
            query: As in `fetch_runs_table`, also the others.
            columns: Paths and patterns; None: all. ``sys/id``, a model's key, is always there.
            trashed: As in `fetch_runs_table`.
            limit: At most this many models.
            sort_by: Path, perhaps with an aggregate.
            ascending: Smallest first.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: As for `fetch_runs_table`.
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
        """Return the artifacts of the project and its sub-projects: of each the latest version.

        ``sys/name`` is the name, ``sys/version`` the number of the latest, ``sys/id`` its digest.
        `Artifact.fetch_versions_table` has all versions of one.

        Args:
            query: As in `fetch_runs_table`, also the others; of latest versions alone.
            columns: Paths and patterns; None for everything.
            limit: At most this many artifacts.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query or a column breaks the grammar, or can mean nothing.
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
        """Take a run that matches and that nobody else has; None if there is none.

        Of any number of workers on any machines that see the same root or server, one gets it. It
        is this process's until `Run.release` or `Run.stop`, or until the process counts as crashed:
        it is gone, or nothing was heard of it for 90 s. Runs in the trash are left out. The query
        is asked again once the run is claimed; one that a finished run matches finds it again.

        Args:
            query: As in `fetch_runs_table`; empty for any run.
            set: Values by path, recorded in the run at once.
            sort_by: Path, perhaps with an aggregate, by which runs are tried.
            ascending: Smallest first; by itself that is the oldest.
            **given: Further arguments of `init_run`, such as ``capture_stdout=False``.

        Returns:
            The run, opened and running.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: As for `fetch_runs_table`.
            PathError: If a path in ``set`` is illegal, or derived.
            ValueKindError: If a value in ``set`` cannot be kept.
            ReadOnlyError: If the project was opened for reading.
            OSError: If nothing can be claimed in the project's folder.
            RemoteError: If the server cannot be asked, or refuses it.
        """
        from seamark.registry.group import claim_run

        return claim_run(self, query, set, sort_by, ascending=ascending, given=given)

    def find_run(self, *, content_hash: str, revision: int | None = None) -> Run | None:
        """Return the newest run with some parameters and code; None if the project has none.

        Args:
            content_hash: ``sys/content_hash`` of the run, as it is now or was at its start.
            revision: ``sys/revision``: which it is of those that began alike, 1-based; None for
                any.

        Returns:
            The run, opened with ``mode="read-only"``.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            RemoteError: If the server cannot be asked.
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
        """Take a group of the project that matches and that nobody else has; None if there is none.

        It is this process's until `Group.release` or the end of the project's `stop`; see `claim`.

        Args:
            query: As in `fetch_groups_table`; empty for any group.
            set: Metadata by key, recorded of the group at once.
            sort_by: Column of `fetch_groups_table` by which groups are tried.
            ascending: Smallest first.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar.
            PathError: If a key in ``set`` is illegal.
            ValueKindError: If a value in ``set`` cannot be kept.
            ReadOnlyError: If the project was opened for reading.
            OSError: If nothing can be claimed in the project's folder.
            RemoteError: If the server cannot be asked, or refuses it.
        """
        from seamark.registry.group import claim_group

        return claim_group(self, query, set, sort_by, ascending=ascending)

    def group(self, name: str) -> Group:
        """Return a group of runs of the project and its sub-projects; nothing is made for it.

        Args:
            name: What stands in ``sys/group_tags`` of its runs; see ``groups`` of `init_run`.

        Raises:
            PathError: If it cannot be the name of a group.
        """
        from seamark.registry.group import Group

        return Group(self, name)

    def fetch_groups_table(
        self, *, query: str | None = None, progress_bar: Progress = None
    ) -> RunsTable:
        """Return the groups of the project, one row each, by name.

        ``sys/id`` is the name, ``runs`` the number of runs in it; ``description`` and
        ``metadata/...`` are what is recorded of it in the project.

        Args:
            query: Only groups that match, such as ``"runs > 4 AND metadata/seed = 1"``.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar.
        """
        from seamark.registry.group import groups_table

        return groups_table(self.session, query, progress_bar)

    def trash(self, runs: Any, *, trashed: bool = True) -> list[str]:
        """Put runs of the project and of its sub-projects into the trash, or take them out again.

        Their files stay; ``seamark purge`` deletes them for good.

        Args:
            runs: Which: a run, its id or name, several of these, a query, or a `RunsTable`.
            trashed: False takes them out.

        Returns:
            Their ids.

        Raises:
            ArgumentError: If one may be any of several runs, or nothing is named.
            RunNotFoundError: If one is no run of the project.
            QueryError: If it is a query that can mean nothing.
            ReadOnlyError: If the project was opened for reading.
            JournalError: If a folder cannot be written.
            RemoteError: If a server refuses it.
        """
        if runs is None:
            msg = "runs: expected runs, their names or a query, got None"
            raise ArgumentError(msg)
        if self.session.recorder.silent:
            return []
        if self.session.recorder.mode == "read-only":
            msg = f"{self.folder.words} was opened with mode='read-only' and cannot be written to"
            raise ReadOnlyError(msg)
        index = self.session.up_to_date()
        refs = References(self.session, index, trashed=not trashed).refs(runs)
        there = self.session.recorded.remote
        set_trashed(index, None if there else self.folder.root, refs, trashed=trashed)
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

        A path that is a series of no run adds nothing; a warning says so once.

        Args:
            paths: One path or several; ``*`` matches anything (``"val/*"``).
            runs: Runs, words that name runs (see ``id`` of `fetch_runs_table`), a query, a
                `RunsTable`, rows of one, or one of these; None for every run that is not in the
                trash. A text that is a query is never taken as a name, except in a list.
            attempt: ``"latest"``, ``"all"``, or a number: the runs as that attempt left them.
            points: For drawing: at most this many representative points of each series, in parts
                that keep their minimum and maximum; None for every point.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            ArgumentError: If an argument cannot be used, or a word may be any of several runs.
            QueryError: If a text is neither a query nor a run.
            RunNotFoundError: If a word names no run of this project.
        """
        patterns = path_list(paths)
        check_attempt(attempt)
        if points is not None:
            check_points(points)
        index = self.session.up_to_date(progress_bar)
        refs = self._refs(index, runs)
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
        """Return float series of many runs as `plot` draws them: in parts that keep their extremes.

        Args:
            paths: One path or several; ``*`` matches anything (``"val/*"``).
            runs: As in `fetch_series`.
            x: As in `Handler.plot`; ``"time"`` is in seconds since the Unix epoch.
            points: At most this many representative points of each; of fewer points each comes.
            low: Only points whose x is not less.
            high: Only points whose x is not greater.
            smooth: Width of the window of a smoothed line, in units of x.
            half_life: Instead, that of a moving average.
            log_x: Parts are equally wide in log2 x; points at or below zero are counted.
            attempt: As in `fetch_series`; ``"replaced"`` for what a later attempt did again.
            since: What the same question returned before: only what changed since is asked for.
            progress_bar: As in `fetch_runs_table`.

        Returns:
            One for each series that has points, run by run.

        Raises:
            ArgumentError: If an argument cannot be used, or a word may be any of several runs.
            PathError: If ``x`` breaks the grammar of paths.
            QueryError: If a text is neither a query nor a run.
            RunNotFoundError: If a word names no run of this project.
        """
        patterns = path_list(paths)
        look = Look(points, x, low, high, smooth, half_life, log_x)
        look.check()
        check_attempt(attempt)
        index = self.session.up_to_date(progress_bar)
        return curves_of(index, self._refs(index, runs), patterns, look, attempt, since)

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
        """Return what float series come to over groups of runs: mean, std (n - 1) and n as curves.

        Args:
            paths: One path or several; no patterns.
            by: Column or columns in which the runs of a group show the same; see `group_runs`.
            query: As in `fetch_runs_table`.
            x: As in `fetch_curves`.
            points: At most so many parts, each of one x, or half as many of equal width.
            low: As in `fetch_curves`.
            high: As in `fetch_curves`.
            smooth: As in `fetch_curves`: the smoothed lines of the runs are what counts then.
            half_life: As in `fetch_curves`, likewise.
            log_x: As in `fetch_curves`.
            attempt: As in `fetch_series`.
            progress_bar: As in `fetch_runs_table`.

        Returns:
            One for each path and group that has points.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            PathError: If ``x`` breaks the grammar of paths.
            QueryError: If the query or a column breaks the grammar, or can mean nothing.
        """
        series = path_list(paths)
        look = Look(points, x, low, high, smooth, half_life, log_x)
        look.check()
        check_attempt(attempt)
        found = self.group_runs(by, query=query, progress_bar=progress_bar)
        index = self.session.recorded.index

        def draw(refs: Sequence[Ref], some: Sequence[str], look: Look) -> Sequence[RunCurve]:
            return index.curves(refs, some, look, attempt)

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
        """Return a figure of series of many runs; see `Handler.plot`, also for the arguments.

        A run has the same colour in each figure, unless two of one figure would share it.

        Args:
            *paths: Series, namespaces, or patterns with ``*`` and ``?``.
            runs: As in `fetch_series`. Of more than 20 runs that have such a series the first 20
                are drawn, which are the newest if ``runs`` is None or a query.
            x: What the x axis is.
            smooth: Width of a window in units of x.
            log_x: Logarithmic x axis.
            log_y: Logarithmic y axis.
            attempt: Which attempts are shown.
            points: At most this many representative points of each curve.
            half_life: Of a moving average instead of a window, in units of x.
            low: Only points whose x is not less.
            high: Only points whose x is not greater.
            refresh: Draw again every so many seconds while one of these runs is running.
            progress_bar: As in `fetch_runs_table`.

        Raises:
            MissingExtraError: If the extra ``plot`` is not installed.
            MissingFieldError: If no run has such a series; the nearest one is named.
            ArgumentError: If an argument has a value that cannot be used.
            PathError: If ``x`` breaks the grammar of paths.
            QueryError: If a query breaks the grammar.
            RunNotFoundError: If a run id does not exist in this project.
        """
        asked = PlotOptions(x, smooth, log_x, log_y, attempt, points, half_life, low, high)

        def found() -> tuple[Catalog, list[Ref]]:
            index = self.session.up_to_date(progress_bar)
            return index, self._refs(index, runs)

        where = f"the runs of project {self.path!r}"
        order = "newest" if runs is None or isinstance(runs, str) else "first"
        return plot_runs(found, paths, asked, where, refresh, order)

    def _refs(self, index: Catalog, runs: Any) -> list[Ref]:
        return References(self.session, index).refs(runs)
