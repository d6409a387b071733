"""Journals of a run that is rebuilt from a document, and checks of its points.

The first journal has the owner, the times of creation and start, and the running time; if the run
was resumed, a second one has the time of its end. Another journal has the single values and ends
when the run was last modified. Points are in one journal for each attempt, because the attempt of a
point is that of its journal. Only the first two journals own the run.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.interchange.source import uid_of
from seamark.values import Atom, escape, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seamark.interchange.draft import Draft, ImportedJournal


_SPECIAL_FLOATS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_TIME: Final = re.compile(
    r"(?:1678|1679|16[89]\d|1[7-9]\d\d|2[01]\d\d|22[0-5]\d|226[01])-\d\d-\d\d"
    r"T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
)
"""Pattern of times whose nanoseconds fit into 64 bits."""
_ATTEMPTS: Final = range(-1, 1 << 31)
_MAX_ATTEMPTS: Final = 1000
"""Maximum number of attempts; each is a journal of its own."""


def place_in(where: str, key: str | int) -> str:
    """Return the name of a position in a document: ``series['loss'].value[3]``."""
    if isinstance(key, int):
        return f"{where}[{key}]"
    if key.isidentifier():
        return f"{where}.{key}" if where else key
    return f"{where}[{key!r:.200}]"


def mismatch(where: str, expected: str, got: object) -> ArgumentError:
    """Return the error for an unexpected value at a position in the document."""
    return ArgumentError(f"{where or 'the document'}: expected {expected}, got {shown(got)}")


def expect_type(given: Any, kind: Any, where: str, words: str) -> Any:
    """Return a value of a type, or of one of several; ArgumentError for any other value."""
    if not isinstance(given, kind):
        raise mismatch(where, words, given)
    return given


@dataclass(frozen=True, slots=True)
class Columns:
    """Points of one series.

    Attributes:
        step: float64 (N,).
        value: float64 (N,) or a list.
        time_ns: int64 (N,), nanoseconds since the Unix epoch.
        attempt: int64 (N,), -1 for none.
    """

    step: NDArray[np.float64]
    value: Any
    time_ns: NDArray[np.int64]
    attempt: NDArray[np.int64]

    def parts(self) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield attempts and indices of their points; points of one step keep their order."""
        import numpy as np

        if not len(self.step):
            return
        same = self.step[1:] == self.step[:-1]
        back = same & (self.attempt[1:] < self.attempt[:-1])
        turns = np.concatenate([[0], np.cumsum(back)])
        starts = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), turns, 0))
        turns = turns - starts
        for turn in np.unique(turns).tolist():
            for attempt in np.unique(self.attempt[turns == turn]).tolist():
                yield attempt, np.flatnonzero((turns == turn) & (self.attempt == attempt))


def columns_of(given: Any, where: str, check: Callable[[list[Any], str], Any]) -> Columns:
    """Return the points of a series; ``check`` converts values. ArgumentError names a position."""
    import numpy as np

    expect_type(given, Mapping, where, "an object with step, value, time and attempt")
    columns = {}
    for name in ("step", "value", "time", "attempt"):
        found = expect_type(given.get(name), list, place_in(where, name), "a list")
        columns[name] = found
        if len(found) != len(columns["step"]):
            count = len(columns["step"])
            raise ArgumentError(
                f"{place_in(where, name)}: expected length {count:,} (as step), got {len(found):,}"
            )
    steps = floats_of(columns["step"], place_in(where, "step"))
    if not np.isfinite(steps).all():
        at = int(np.flatnonzero(~np.isfinite(steps))[0])
        raise mismatch(
            place_in(place_in(where, "step"), at), "a finite number", columns["step"][at]
        )
    return Columns(
        steps,
        check(columns["value"], place_in(where, "value")),
        _times_of(columns["time"], place_in(where, "time")),
        _attempts_of(columns["attempt"], place_in(where, "attempt")),
    )


def each_of(
    given: list[Any], where: str, expected: str, make: Callable[[Any], Any] = float
) -> list[Any]:
    """Return the elements converted with ``make``; ArgumentError names a wrong position."""
    found = []
    for at, one in enumerate(given):
        try:
            found.append(make(one))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise mismatch(place_in(where, at), expected, one) from error
    return found


def floats_of(given: list[Any], where: str) -> NDArray[np.float64]:
    """Return numbers and texts such as ``"nan"`` as an array; ArgumentError if one is invalid."""
    import numpy as np

    if not set(map(type, given)) <= {int, float}:
        given = each_of(given, where, "a number, 'nan', 'inf' or '-inf'", _float_of)
    try:
        return np.asarray(given, np.float64)
    except OverflowError:
        return np.asarray(each_of(given, where, "a number that fits into 64 bits"))


def _float_of(given: Any) -> float:
    found: float = given if type(given) in (int, float) else _SPECIAL_FLOATS[given]
    return found


def _attempts_of(given: list[Any], where: str) -> NDArray[np.int64]:
    import numpy as np

    found = each_of(given, where, "the number of an attempt, or -1", _attempt_of)
    if len(set(found)) > _MAX_ATTEMPTS:
        raise ArgumentError(
            f"{where}: expected at most {_MAX_ATTEMPTS} attempts, got {len(set(found)):,}"
        )
    return np.asarray(found, np.int64)


def _attempt_of(given: Any) -> int:
    if type(given) is not int or given not in _ATTEMPTS:
        raise ValueError(given)
    return given


def _times_of(given: list[Any], where: str) -> NDArray[np.int64]:
    import numpy as np

    words = "a time such as '2025-01-31T12:00:00.000000000Z'"
    texts = each_of(given, where, words, _time_of)
    with contextlib.suppress(ValueError):
        return np.array(texts, "datetime64[ns]").view(np.int64)
    # One of them is no date.
    return np.array(each_of(given, where, words, lambda text: np.datetime64(text[:-1])))


def _time_of(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    return text[:-1]


_SOURCE: Final = "seamark export"
_MICROSECOND_NS: Final = 1000  # resolution of the times in a document


class DocumentWriter:
    """Writer of the journals of a document; times in ``facts`` are ns since the Unix epoch."""

    def __init__(
        self, draft: Draft, names: tuple[str, str], facts: Mapping[str, Any], digest: str
    ) -> None:
        self._draft, self._facts, self._names, self._digest = draft, facts, names, digest
        self._t = facts["sys/creation_time"]
        self._attempts: dict[int, ImportedJournal] = {}
        self._write_owners(facts["sys/state"])
        self._values = self._journal("values", owner=False, attempt=None)

    def _write_owners(self, state: str) -> None:
        """Write the start and the end of the run, its final state and its running time.

        Each record of a journal is at least one nanosecond later than the previous one.
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
        if end > began + ran:  # the run was resumed: a second journal has its end
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
    ) -> ImportedJournal:
        project, run = self._names
        header: dict[str, Any] = {
            "attempt": attempt,
            "owner": owner,
            "user": escape(self._facts["sys/owner"])[:1000] or None,
            "imported": _SOURCE,
            "imported_project": escape(project)[:1000],
            "imported_run": escape(run)[:1000],
        }
        if (sys_id := self._facts["sys/id"]) and sys_id != run:
            header["sys_id"] = escape(sys_id)[:1000]
        place = self._draft.folder
        uid = uid_of(_SOURCE, place.project, project, run, name, self._digest)
        begun_ns = self._facts["sys/creation_time"] if begun_ns is None else begun_ns
        return self._draft.journal(uid, header, begun_ns)

    def _write(self, journal: ImportedJournal, call: Callable[[ImportedJournal], None]) -> None:
        """Write to a journal, with times after those of all earlier writes to any journal."""
        journal.at(self._t)
        call(journal)
        self._t = max(self._t, journal.last_t) + 1

    # ---------------------------------------------------------------- contents

    def values(self, atoms: Mapping[str, Atom], ops: Sequence[Mapping[str, Any]]) -> None:
        """Write the single values."""
        kept = {path: self._draft.atom(atom) for path, atom in atoms.items()}
        self._write(self._values, lambda to: to.assign(kept))
        for op in ops:
            self._write(self._values, lambda to, op=op: to.op(op))  # type: ignore[misc]

    def changes(self, changes: Sequence[tuple[int, str, Atom]]) -> None:
        """Write the previous and current values of parameters, with their times."""
        for time_ns, path, atom in changes:
            self._t = max(self._t, time_ns)
            self._write(self._values, lambda to, one={path: atom}: to.assign(one))  # type: ignore[misc]

    def series(self, family: str, path: str, columns: Columns) -> None:
        """Write the points of a series, which may be empty."""
        for attempt, places in columns.parts():
            journal = self._of_attempt(attempt)
            times = columns.time_ns[places].tolist()
            steps, values = columns.step[places], _select(columns.value, places)
            self._write(journal, lambda to: self._points(to, family, path, steps, values, times))  # noqa: B023
        if not len(columns.step):  # a point, and then the removal of all points
            point = [_POINTS[family]]
            self._write(self._values, lambda to: self._points(to, family, path, [0.0], point, [0]))
            self._write(self._values, lambda to: to.op({"op": "clear", "path": path}))

    def _points(
        self, to: ImportedJournal, family: str, path: str, steps: Any, values: Any, times: Any
    ) -> None:
        if family == "float_series":
            to.column(path, values, steps, times)
            return
        if family == "string_series":
            values = [self._draft.text(one) if isinstance(one, str) else one for one in values]
        to.points(family, path, zip(map(float, steps), values, times, strict=True))

    def _of_attempt(self, attempt: int) -> ImportedJournal:
        if attempt < 0:
            return self._values
        if attempt not in self._attempts:
            made = self._journal(f"attempt {attempt}", owner=False, attempt=attempt)
            self._attempts[attempt] = made
        return self._attempts[attempt]

    def close(self) -> None:
        """Close all journals."""
        for journal in self._attempts.values():
            journal.close(0)
        self._values.close(self._facts["sys/modification_time"])


def _select(values: Any, places: Any) -> Any:
    return [values[at] for at in places] if isinstance(values, list) else values[places]


_POINTS: Final[Mapping[str, Any]] = {
    "float_series": 0.0,
    "string_series": "",
    "file_series": ({"name": "", "ext": "", "lost": "not stored"}, {}),
    "histogram_series": [[0.0], []],
}
"""Sample value of each family."""
