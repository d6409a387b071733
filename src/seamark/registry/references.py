"""References to runs of a project, and their curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, QueryError, RunNotFoundError
from seamark.paths import matches
from seamark.reading.names import LATEST
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.curves import Look, RunCurve
    from seamark.reading.points import Attempt
    from seamark.run.logbook import LogSession
    from seamark.run.run import Run


def path_list(paths: str | Iterable[str], name: str = "paths") -> list[str]:
    """Return paths or patterns as a list; ``name`` is the argument in an `ArgumentError`."""
    patterns = [paths] if isinstance(paths, str) else list(paths)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise argument_error(pattern, name, "a path such as 'val/loss' or several")
    return patterns


def curves_of(
    index: Catalog,
    refs: Sequence[Ref],
    patterns: Sequence[str],
    look: Look,
    attempt: Attempt,
    since: Iterable[RunCurve],
) -> list[RunCurve]:
    """Return curves of series that match patterns; with ``since``, only changed ones."""
    before = {one.key: one.drawing for one in since}
    cursors = {key: drawing.cursor for key, drawing in before.items()}
    matching = index.series_of(refs, lambda path: matches(path, *patterns))
    paths = sorted({path for own in matching.values() for path in own})
    return [
        replace(one, drawing=one.drawing.after(before.get(one.key, one.drawing)))
        for one in index.curves(refs, paths, look, attempt, cursors)
    ]


_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_QUERY_LIKE: Final = re.compile(r"[\s=<>!~`\"']")
"""Characters that appear in queries but not in ids or names of runs."""


class References:
    """Resolver of references to runs of a project."""

    def __init__(
        self, session: LogSession, index: Catalog, *, trashed: bool | None = False
    ) -> None:
        self._session, self._index, self._trashed = session, index, trashed
        self._project = session.recorder.folder.project

    def ids(self, given: str | Iterable[str]) -> list[str]:
        """Return the ids of runs; an unknown name is kept, with a warning."""
        find = self._finder()
        ids = []
        for word in [given] if isinstance(given, str) else given:
            try:
                ids.append(find(word)[0][1])
            except RunNotFoundError as error:
                self._session.warn_once(f"id: {error}")
                ids.append(word)
        return ids

    def refs(self, runs: Any) -> list[Ref]:
        """Return project and id of the runs that the argument ``runs`` refers to.

        Raises:
            ArgumentError: If it refers to no run, or a name is ambiguous.
            QueryError: If it is neither a query nor a run.
            RunNotFoundError: If a name does not exist in the project.
        """
        from seamark.reading.catalog import Selection
        from seamark.reading.tables import RunsTable
        from seamark.store.query.language import parse

        session = self._session
        if isinstance(runs, RunsTable):
            return list(runs.refs)
        if runs is None or (isinstance(runs, str) and _is_query(runs)):
            wanted = Selection(project=self._project, query=runs, trashed=self._trashed)
            found = self._index.select(wanted, session.warn)
            if session.recorded.remote and not found:
                session.check_exists()
            return found
        is_one = isinstance(runs, (str, Mapping)) or hasattr(runs, "folder")
        if not is_one and not isinstance(runs, Iterable):
            raise argument_error(runs, "runs", "run ids, a query, a RunsTable or None")
        names = [_named(one) for one in ([runs] if is_one else runs)]
        if not names:
            raise ArgumentError("runs: got no runs; use None for all runs")
        find = self._finder()
        try:
            return list(dict.fromkeys(ref for name in names for ref in find(name)))
        except RunNotFoundError:
            if isinstance(runs, str) and _QUERY_LIKE.search(runs):
                parse(runs)  # which reports what is wrong with it
            raise

    def _finder(self) -> Callable[[str], list[Ref]]:
        """Return a function that finds the runs for a name: all with that id, else one by name."""
        from seamark.reading.finding import Finder

        finder, trashed = Finder(self._index), bool(self._trashed)
        by_id: dict[str, list[Ref]] = {}
        for ref in self._index.runs(self._project):
            by_id.setdefault(ref[1], []).append(ref)

        def find(word: str) -> list[Ref]:
            if word in by_id and word != LATEST:
                return by_id[word]
            return [finder.find(word, self._project, elsewhere=False, trashed=trashed)]

        return find


def find_run(session: LogSession, content_hash: str, revision: int | None) -> Run | None:
    """Return the newest run with given parameters and code; see `seamark.Project.find_run`."""
    from seamark.opening.restarts import check_hash
    from seamark.run.run import init_run
    from seamark.store.query.selection import find_duplicate

    check_hash(content_hash, revision)
    if session.recorder.mode == "disabled":
        return None
    project, place = session.recorder.folder.project, session.recorded.place
    found = find_duplicate(session.up_to_date(), project, content_hash, revision)
    if found is None:
        return None
    where = {"remote": place} if isinstance(place, str) else {"root": place}
    return init_run(
        project=project, with_id=found, mode="read-only", api_token=session.token, **where
    )


def _named(one: Any) -> str:
    if isinstance(one, Mapping):
        name = one.get("sys/id")
    else:
        name = one if isinstance(one, str) else getattr(getattr(one, "folder", None), "run", None)
    if isinstance(name, str):
        return name
    raise argument_error(one, "runs", "run ids, rows of a table or runs")


def _is_query(text: str) -> bool:
    from seamark.store.query.language import parse

    if _RUN_ID.fullmatch(text):
        return False
    try:
        parse(text)
    except QueryError:
        return False
    return True
