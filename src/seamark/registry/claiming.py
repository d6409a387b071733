"""Implementation of `seamark.Project.claim` and `claim_group`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ReadOnlyError
from seamark.registry.group import Group, Home, group_rows
from seamark.registry.projects import table_of
from seamark.run.claims import check_set, first_free, place_of
from seamark.run.run import init_run
from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref
    from seamark.run.claims import Hold
    from seamark.run.run import Run

__all__ = ["claim_group", "claim_run"]

_FEW: Final = 200
"""How many runs are tried before all that match are listed."""


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
