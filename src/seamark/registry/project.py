"""A project: its own log (name, description, tags, metadata), and tables over its runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

from seamark.errors import ReadOnlyError
from seamark.journal.folder import PROJECT_LOG, RunFolder, root_dir
from seamark.opening.place import place_to_read
from seamark.options.settings import check_argument, remotes_of
from seamark.pictures.drawing import PlotOptions, plot_runs
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.groups import GroupCurve, group_curves
from seamark.reading.html import harmless
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
    """Open a project to read tables of its runs or to record facts; nothing is created on disk yet.

    Args:
        project: Path of the project; SEAMARK_PROJECT, NEPTUNE_PROJECT or ``"default"``.
        mode: ``"read-only"`` refuses to write, ``"disabled"`` does nothing; the others are alike.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Server whose runs are read, of several the first; SEAMARK_REMOTE unless ``root`` is
            given. What is recorded in the project itself is sent to all of them, as runs are.
        api_token: For remotes; kept in memory only.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        PathError: If the project's path breaks the grammar.
        ArgumentError: If there is no such mode, or the remote cannot be read.
    """
    check_arguments(init_project, others)
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
        """Refuse iteration, which could mean the runs or the project's own attributes."""
        msg = (
            "a project is not iterable: fetch_runs_table() returns its runs, "
            "get_structure() the fields of the project itself"
        )
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<seamark.Project {self.folder.project}>"

    def _repr_html_(self) -> str:
        from seamark.pictures.notebook import page_of_project

        def page() -> str:
            states = self.fetch_runs_table(columns=["sys/state"], progress_bar=False)
            columns = ["sys/name", "sys/state", "sys/creation_time"]
            newest = self.fetch_runs_table(columns=columns, limit=5, progress_bar=False)
            return page_of_project(self.session.recorded, self.path, states, newest)

        return harmless(page, self.__repr__)

    @property
    def path(self) -> str:
        """Project path."""
        return self.folder.project

    def report(self, short: bool = False) -> Report:  # noqa: FBT001, FBT002 - as people call it
        """Return a summary of the project: a dict that prints itself.

        Its keys: ``name``, ``description``, ``tags``, ``keyed_tags``, ``metadata``, ``groups``
        (those with metadata) and ``runs`` (their number in it and below, by state). Times are text,
        so that ``json.dumps`` takes it. ``short`` leaves out ``project``, ``owner`` and
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
                several, as do Neptune's ``"active"`` and ``"inactive"``.
            owner: One owner, or several of which a run must have one.
            tag: One tag, or several that a run must all have.
            columns: Paths (``"hyperparams/lr"``), aggregates of series (``"val/loss:min"``,
                ``:max``, ``:mean``, ``:last``, ``:count``, ``:first_step``, ``:last_step``),
                patterns (``"hyperparams/*"``, and ``"hyperparams/*:differing"`` for the columns in
                which the runs differ); of the parts of each run (see ``parent`` of `init_run`)
                ``"children/val/acc:max"``, ``:min``, ``:mean`` and ``:count``. None for everything.
                ``sys/id`` is always there.
            trashed: False for runs outside the trash, True for those in it, None for both.
            limit: Maximum number of runs; ``total`` of the table is the number of all that match.
            offset: Number of runs to skip at the beginning.
            sort_by: Path, perhaps with an aggregate. NaN and runs without a value come last.
            ascending: Smallest first.
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
        """Return the paths of the runs that match: in how many, of which type, whether they differ.

        What is derived of every run (``sys/id``, ``sys/state``, times) is left out. ``contains``
        selects paths that contain it, in upper or lower case; ``limit`` looks at so many of the
        newest runs. Other arguments and errors are as in `fetch_runs_table`.
        """
        index, selection = self.session.select(
            progress_bar, query=query, trashed=trashed, limit=limit
        )
        return index.fields(selection, contains, self.session.warn)

    def fetch_changes(self, cursor: str = "", *, progress_bar: Progress = None) -> Changes:
        """Return the runs that changed since a cursor, as recorded up to now.

        ``cursor`` is of an earlier answer, of this process or another one; empty to begin.
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
        """Return the runs that match, grouped by columns, with statistics of others in each group.

        Only finite numbers count in ``mean``, ``std`` (of a sample, n - 1), ``min`` and ``max``;
        ``odd`` counts runs that show NaN, an infinity or no number. Runs that show nothing in
        ``by`` are a group, and so are those that show NaN.

        ``by`` is one column or several, such as ``"parameters/lr"``; ``columns`` are those whose
        numbers are summarized, such as ``"val/loss:min"``. Groups come in the order of their first
        runs; ``limit`` and ``offset`` count groups. Other arguments and errors are as in
        `fetch_runs_table`.
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
        """Return the artifacts of the project and its sub-projects: of each the latest version.

        ``sys/name`` is the name, ``sys/version`` the number of the latest, ``sys/id`` its digest.
        `Artifact.fetch_versions_table` has all versions of one. Arguments and errors are as in
        `fetch_runs_table`; a query looks at the latest versions alone.
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
        """Claim a run that matches and that nobody else has; return None if there is none.

        Of any number of workers on any machines that see the same root or server, one gets it. It
        is this process's until `Run.release` or `Run.stop`, or until the process counts as crashed:
        it is gone, or has been silent for 90 s. Runs in the trash are left out. The query is asked
        again once the run is claimed; one that a finished run matches finds it again.

        Args:
            query: As in `fetch_runs_table`, also for what is raised; empty for any run.
            set: Values by path, recorded in the run at once.
            sort_by: Path, perhaps with an aggregate, by which runs are tried.
            ascending: Smallest first; by itself that is the oldest.
            **given: Further arguments of `init_run`, such as ``capture_stdout=False``.

        Raises:
            PathError: If a path in ``set`` is illegal, or derived.
            ValueKindError: If a value in ``set`` cannot be kept.
            ReadOnlyError: If the project was opened for reading.
            OSError: If nothing can be claimed in the project's folder.
            RemoteError: If the server cannot be asked, or refuses it.
        """
        from seamark.registry.group import claim_run

        return claim_run(self, query, set, sort_by, ascending=ascending, given=given)

    def find_run(self, *, content_hash: str, revision: int | None = None) -> Run | None:
        """Return the newest run with some parameters and code, for reading; None if there is none.

        Args:
            content_hash: ``sys/content_hash`` of the run, as it is now or was at its start.
            revision: ``sys/revision``: its number among those that began alike (1-based); None for
                any.

        Raises:
            ArgumentError: If an argument cannot be used.
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
        """Claim a group of the project that matches and nobody else has; None if there is none.

        It is this process's until `Group.release` or the end of the project's `stop`. ``query`` and
        ``sort_by`` are as in `fetch_groups_table`; ``set`` is metadata by key, recorded of the
        group at once. Errors are as for `claim`.
        """
        from seamark.registry.group import claim_group

        return claim_group(self, query, set, sort_by, ascending=ascending)

    def group(self, name: str) -> Group:
        """Return a group of runs of the project and its sub-projects; nothing is made for it.

        Args:
            name: As in ``sys/group_tags`` of its runs; see ``groups`` of `init_run`.

        Raises:
            PathError: If it cannot be the name of a group.
        """
        from seamark.registry.group import Group

        return Group(self, name)

    def fetch_groups_table(
        self, *, query: str | None = None, progress_bar: Progress = None
    ) -> RunsTable:
        """Return the groups of the project, one row each, by name.

        ``sys/id`` is the name, ``runs`` the number of its runs; ``description`` and
        ``metadata/...`` are recorded of it in the project. A query selects groups that match, such
        as ``"runs > 4 AND metadata/seed = 1"``.

        Raises:
            QueryError: If the query breaks the grammar, or has a regular expression.
        """
        from seamark.registry.group import groups_table

        return groups_table(self.session, query, progress_bar)

    def trash(self, runs: Any, *, trashed: bool = True) -> list[str]:
        """Put runs of the project and of its sub-projects into the trash, or take them out again.

        Their files stay; ``seamark purge`` deletes them for good.

        Args:
            runs: As in `fetch_series`, also for what is raised, but not None.
            trashed: False takes them out.

        Returns:
            Their ids.

        Raises:
            ReadOnlyError: If the project was opened for reading.
            JournalError: If a folder cannot be written.
            RemoteError: If a server refuses it.
        """
        if runs is None:
            raise argument_error(runs, "runs", "runs, their names or a query")
        if self.session.recorder.silent:
            return []
        if self.session.recorder.mode == "read-only":
            msg = f"{self.folder.words} was opened with mode='read-only' and cannot be written to"
            raise ReadOnlyError(msg)
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
        """Return float series of many runs as `plot` draws them: in parts that keep their extremes.

        There is one for each series that has points, run by run; of fewer than ``points`` points
        each comes. ``x="time"`` is in seconds since the Unix epoch. With ``log_x`` parts are
        equally wide in log2 x, and points at or below zero are counted. ``attempt="replaced"``
        gives what a later attempt did again. ``since`` is the answer to the same question before:
        only what changed since is asked for. Other arguments and errors are as in `fetch_series`
        and `Handler.plot`.
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

        There is one for each path and group that has points. ``paths`` are no patterns; ``by`` is
        as in `group_runs`. At most ``points`` parts are made, each of one x, or half as many of
        equal width. Where lines are smoothed, the smoothed lines of the runs count. Other arguments
        and errors are as in `fetch_curves` and `fetch_runs_table`.
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
        """Return a figure of series of many runs: of paths, namespaces, or patterns.

        A run has the same colour in each figure, unless two of one figure would share it. Of more
        than 20 runs that have such a series the first 20 are drawn, which are the newest if
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
