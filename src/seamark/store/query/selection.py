"""Selection and order of the runs of a table: arguments, query and sorting.

Nothing here uses a database or imports code that does, so that clients of a server can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from seamark.errors import ArgumentError
from seamark.paths import KINDS, is_inside
from seamark.store.query.kinds import GROUPS, STATES, near_state
from seamark.store.query.language import (
    Among,
    And,
    Comparison,
    Expression,
    Field,
    Value,
    parse,
)
from seamark.values import escape

__all__ = ["STATES", "Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of runs, and their order; see `seamark.Project.fetch_runs_table`.

    Attributes:
        project: Only this project and its sub-projects.
        query: In the query language.
        id: One run id or several.
        state: One state or several; ``"error"``, ``"finished"``, ``"active"`` and
            ``"inactive"`` stand for several.
        owner: One owner or several.
        tag: One tag, or several that a run must all have.
        trashed: Whether runs are in the trash; None for both.
        limit: Greatest number of runs.
        offset: Number of runs to skip at the beginning.
        sort_by: Path, perhaps with an aggregate.
        ascending: Smallest first.
        local: Times in the query that name no offset are in this computer's time zone, else in UTC.
        moments: Some of these times in the time zone of the caller, by their text: microseconds
            since the Unix epoch.
        readable: Tells which projects the caller may read; None for all. Runs of others are neither
            counted nor named anywhere.
        kind: Kind to select: ``"run"``, ``"model"`` or ``"model_version"``.
    """

    project: str | None = None
    query: str | None = None
    id: str | Iterable[str] | None = None
    state: str | Iterable[str] | None = None
    owner: str | Iterable[str] | None = None
    tag: str | Iterable[str] | None = None
    trashed: bool | None = False
    limit: int | None = None
    offset: int = 0
    sort_by: str = "sys/creation_time"
    ascending: bool = False
    local: bool = False
    moments: Mapping[str, int] | None = None
    readable: Callable[[str], bool] | None = None
    kind: str = "run"

    def expression(self) -> Expression:
        """Return the query and the other conditions as one expression.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or compares what cannot be compared so.
        """
        terms: list[Expression] = []
        if self.query is not None:
            terms.append(parse(self.query))
        for name, path in (("id", "sys/id"), ("state", "sys/state"), ("owner", "sys/owner")):
            given = _strings(name, getattr(self, name))
            if given is not None:
                values = [
                    one
                    for value in given
                    for one in (_states(value) if name == "state" else (value,))
                ]
                terms.append(Among(Field(path), tuple(map(_text, values))))
        tags = _strings("tag", self.tag) or []
        terms += [
            Comparison(Field("sys/tags", None, "string_set"), "contains", _text(tag))
            for tag in tags
        ]
        if self.trashed is not None:
            if not isinstance(self.trashed, bool):
                msg = f"trashed: expected True, False or None for both, got {self.trashed!r}"
                raise ArgumentError(msg)
            value = Value(self.trashed, str(self.trashed).lower())
            terms.append(Comparison(Field("sys/trashed"), "=", value))
        return And(tuple(terms))

    def reaches(self, project: str) -> bool:
        """Return whether runs of a project may be among those that are sought."""
        inside = self.project is None or is_inside(project, self.project)
        return inside and (self.readable is None or self.readable(project))

    def check(self) -> None:
        """Check what `expression` does not look at.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
        """
        if self.kind not in KINDS:
            msg = f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r:.80}"
            raise ArgumentError(msg)
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1
        ):
            msg = f"limit: expected a positive number of runs or None, got {self.limit!r}"
            raise ArgumentError(msg)
        if not isinstance(self.offset, int) or isinstance(self.offset, bool) or self.offset < 0:
            msg = f"offset: expected a number of runs to leave out, got {self.offset!r}"
            raise ArgumentError(msg)
        if not isinstance(self.ascending, bool):
            msg = f"ascending: expected True or False, got {self.ascending!r}"
            raise ArgumentError(msg)
        if not isinstance(self.sort_by, str):
            msg = f"sort_by: expected a path such as 'val/loss:min', got {self.sort_by!r}"
            raise ArgumentError(msg)


def _strings(name: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return one or several strings as a list; None and an empty iterable do not restrict anything.

    Raises:
        ArgumentError: If it is neither.
    """
    if given is None:
        return None
    values = (
        [given]
        if isinstance(given, str)
        else list(given)
        if isinstance(given, Iterable)
        else [given]
    )
    for value in values:
        if not isinstance(value, str):
            msg = f"{name}: expected a string or several, got {value!r:.80}"
            raise ArgumentError(msg)
    return values or None


def _states(state: str) -> tuple[str, ...]:
    wanted = state.lower()
    if wanted in GROUPS:
        return GROUPS[wanted]
    if wanted not in STATES:
        known = (*STATES, *GROUPS)
        msg = f"state: expected one of {', '.join(known)}, got {state!r}{near_state(wanted)}"
        raise ArgumentError(msg)
    return (wanted,)


def _text(value: str) -> Value:
    kept = escape(value)
    return Value(kept, kept)
