"""Asking for runs that are the same: by what they were given at the start, or what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog

__all__ = ["find_duplicate", "same_as", "with_hash"]


def with_hash(text: str) -> str:
    """Return the query for runs that were given the same, by its hash."""
    return f'sys/start_hash = "{text}"'


def same_as(text: str) -> str:
    """Return the query for runs that were given the same, or have it now."""
    return f'({with_hash(text)} OR sys/content_hash = "{text}")'


def find_duplicate(
    catalog: Catalog, project: str, text: str, revision: int | None = None
) -> str | None:
    """Return the id of the newest run of a project that is the same; None if there is none.

    Args:
        catalog: What has the runs, up to date.
        project: The project; runs of those below are others.
        text: Hash, as the run has it now or had it at its start.
        revision: Which of them; None for any.
    """
    query = same_as(text)
    if revision is not None:
        query += f" AND sys/revision = {revision}"
    refs = catalog.select(Selection(project=project, query=query), lambda _: None)
    return next((run for at, run in refs if at == project), None)
