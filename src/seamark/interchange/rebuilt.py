"""The journals of a run that is made again from a document.

One journal speaks for the run: it tells its owner, when it was created and began, and for how long
it ran; where it was resumed, one more tells when it ended. One holds values, and ends when the run
was changed last. Points lie in one for each attempt, because the attempt of a point is that of its
journal. None but the first two owns anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.interchange.found import uid_of
from seamark.journal.format import MAX_PAYLOAD_BYTES
from seamark.values import Atom, escape

if TYPE_CHECKING:
    from seamark.interchange.columns import Columns
    from seamark.interchange.draft import Draft
    from seamark.interchange.journal import GivenJournal

__all__ = ["Rebuilt"]

_SOURCE: Final = "seamark export"
_MICROSECOND_NS: Final = 1000  # the times of a document are no finer
_LONG_CHARACTERS: Final = MAX_PAYLOAD_BYTES // 16
"""A longer text may need more bytes than a record has, whatever its characters."""


class Rebuilt:
    """Writes them.

    Args:
        draft: Of the run.
        said: Project and id that the document says.
        facts: What is derived of a run, by path; times in nanoseconds since the Unix epoch.
        digest: Of the document.
    """

    def __init__(
        self, draft: Draft, said: tuple[str, str], facts: Mapping[str, Any], digest: str
    ) -> None:
        self._draft, self._facts, self._said, self._digest = draft, facts, said, digest
        self._t = facts["sys/creation_time"]
        self._attempts: dict[int, GivenJournal] = {}
        self._owners(facts["sys/state"])
        self._values = self._journal("values", owner=False, attempt=None)

    def _owners(self, state: str) -> None:
        """Say when the run began and ended, how it ended, and for how long it ran.

        Each record of a journal is at least a nanosecond later than the one before.
        """
        facts = self._facts
        began = max(facts.get("sys/start_time", self._t), self._t + 1)
        ran = round(facts.get("sys/running_time", 0.0) * 1e9)
        end = facts.get("sys/end_time", began + ran)
        if 0 < end - began - ran < _MICROSECOND_NS:
            began = end - ran
        owner = self._journal("owner", owner=True, attempt=0)
        if state == "created":
            owner.close(end)
            return
        last: list[dict[str, Any]] = []
        if state not in ("running", "crashed"):
            detail = facts.get("sys/state_detail")
            last = [{"op": "state", "state": state} | ({"detail": detail} if detail else {})]
        owner.at(began)
        owner.op({"op": "state", "state": "running"})
        if end > began + ran:  # it was resumed: another one tells of the end
            owner.close(began + ran - 1 - len(last))
            owner = self._journal("end", owner=True, attempt=0, begun_ns=end)
        else:
            end = began + ran
            owner.at(end - len(last))
        for op in last:
            owner.op(op)
        owner.close(end)

    def _journal(
        self, name: str, *, owner: bool, attempt: int | None, begun_ns: int | None = None
    ) -> GivenJournal:
        project, run = self._said
        header: dict[str, Any] = {
            "attempt": attempt,
            "owner": owner,
            "user": escape(self._facts["sys/owner"])[:1000] or None,
            "imported": _SOURCE,
            "imported_project": escape(project)[:1000],
            "imported_run": escape(run)[:1000],
        }
        if (second := self._facts["sys/id"]) and second != run:
            header["sys_id"] = escape(second)[:1000]
        place = self._draft.folder
        uid = uid_of(_SOURCE, place.project, project, run, name, self._digest)
        begun_ns = self._facts["sys/creation_time"] if begun_ns is None else begun_ns
        return self._draft.journal(uid, header, begun_ns)

    def _write(self, journal: GivenJournal, call: Callable[[GivenJournal], None]) -> None:
        """Write to a journal, with times after those of all earlier writes to any journal."""
        journal.at(self._t)
        call(journal)
        self._t = max(self._t, journal.last_t) + 1

    # ---------------------------------------------------------------- what it holds

    def values(self, atoms: Mapping[str, Atom], ops: Sequence[Mapping[str, Any]]) -> None:
        """Write what has no points."""
        kept = {path: self._short(atom) for path, atom in atoms.items()}
        self._write(self._values, lambda to: to.assign(kept))
        for op in ops:
            self._write(self._values, lambda to, op=op: to.op(op))  # type: ignore[misc]

    def _short(self, atom: Atom) -> Atom:
        """Return a value that fits into a record: a longer text becomes a blob."""
        if atom.type != "string" or len(atom.value) <= _LONG_CHARACTERS:
            return atom
        if len(json.dumps(atom.value).encode()) < MAX_PAYLOAD_BYTES // 2:
            return atom
        kept = self._draft.text(atom.value)
        return atom if isinstance(kept, str) else Atom("text", kept)

    def changes(self, changes: Sequence[tuple[int, str, Atom]]) -> None:
        """Write what parameters were, and are since when."""
        for time_ns, path, atom in changes:
            self._t = max(self._t, time_ns)
            self._write(self._values, lambda to, one={path: atom}: to.assign(one))  # type: ignore[misc]

    def series(self, family: str, path: str, columns: Columns) -> None:
        """Write the points of a series; one without points is one all the same."""
        write = _WRITERS[family]
        for attempt, places in columns.parts():
            journal = self._of_attempt(attempt)
            times = columns.time_ns[places].tolist()
            steps, values = columns.step[places], _select(columns.value, places)
            self._write(journal, lambda to: write(self._draft, to, path, steps, values, times))  # noqa: B023
        if not len(columns.step):  # a point, and then the end of all points
            point = [_POINTS[family]]
            self._write(self._values, lambda to: write(self._draft, to, path, [0.0], point, [0]))
            self._write(self._values, lambda to: to.op({"op": "clear", "path": path}))

    def _of_attempt(self, attempt: int) -> GivenJournal:
        if attempt < 0:
            return self._values
        if attempt not in self._attempts:
            made = self._journal(f"attempt {attempt}", owner=False, attempt=attempt)
            self._attempts[attempt] = made
        return self._attempts[attempt]

    def close(self) -> None:
        """Write the end of all of them."""
        for journal in self._attempts.values():
            journal.close(0)
        self._values.close(self._facts["sys/modification_time"])


def _select(values: Any, places: Any) -> Any:
    return [values[at] for at in places] if isinstance(values, list) else values[places]


# -------------------------------------------------------------------- points


def _floats(_: Draft, to: GivenJournal, path: str, steps: Any, values: Any, times: Any) -> None:
    to.column(path, values, steps, times)


def _texts(draft: Draft, to: GivenJournal, path: str, steps: Any, values: Any, times: Any) -> None:
    rows = zip(steps, values, times, strict=True)
    to.texts(
        path,
        (
            [float(step), draft.text(text) if isinstance(text, str) else text, time]
            for step, text, time in rows
        ),
    )


def _histograms(_: Draft, to: GivenJournal, path: str, steps: Any, values: Any, times: Any) -> None:
    rows = zip(steps, values, times, strict=True)
    to.histograms(path, ([float(step), *value, time] for step, value, time in rows))


def _files(_: Draft, to: GivenJournal, path: str, steps: Any, values: Any, times: Any) -> None:
    for step, (file, said), time in zip(steps, values, times, strict=True):
        op = {"op": "file_point", "path": path, "step": float(step), "file": file, **said}
        to.op({**op, "time": time})


_WRITERS: Final[Mapping[str, Callable[..., None]]] = {
    "float_series": _floats,
    "string_series": _texts,
    "file_series": _files,
    "histogram_series": _histograms,
}
_POINTS: Final[Mapping[str, Any]] = {
    "float_series": 0.0,
    "string_series": "",
    "file_series": ({"name": "", "ext": "", "lost": "not stored"}, {}),
    "histogram_series": [[0.0], []],
}
"""Some value of each family."""
