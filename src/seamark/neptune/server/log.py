"""Journal for the requests of a client to one run, stored before they are answered.

All processes of a server append to the same journal of a run: a batch is accepted only at its
current end (`seamark.server.kept.intake`). State that is remembered between two requests is valid
exactly while this offset does not change.
"""

from __future__ import annotations

import json
import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from seamark.interchange.operations import State
from seamark.journal.folder import journal_name
from seamark.journal.format import (
    USER_TIME,
    Kind,
    dump_json,
)
from seamark.neptune.server.answers import ContainerNotFound
from seamark.neptune.server.projects import Container, container_id
from seamark.server.failures import GapError, later
from seamark.server.kept.plan import DivergedError
from seamark.server.writer import AHEAD_NS, NEPTUNE, Frames, header_of, next_journal, own_journal

if TYPE_CHECKING:
    from seamark.journal.reader import Frame
    from seamark.server.state import Server


_MAX_FRAME_POINTS: Final = 100_000
_MAX_TRIES: Final = 20
_MAX_RUNS: Final = 1000
"""Maximum number of remembered runs."""
_MAX_PATHS: Final = 200_000
"""Maximum number of paths remembered for all runs; the oldest are dropped, except the last run's.
"""
_COUNT_EVERY: Final = 100
"""Number of requests between two counts of the paths."""
_MAX_DELETED: Final = 1000
"""Maximum number of deleted paths of one run that keep their numbers."""
_BEAT_NS: Final = 25 * 10**9
"""Minimum interval between heartbeats, in nanoseconds."""
_REPEAT_NS: Final = 10**9 // 2
"""Time within which an equal request counts as new, in nanoseconds: a client retries only after a
second, and the times in two requests may be equal for milliseconds."""
_PATIENCE_S: Final = 20.0
_KINDS_IN_HEADER: Final = ("model", "model_version")
_REQUEST: Final = "request"
_NUMBER: Final = struct.Struct("<I")
_COLUMN: Final = struct.Struct("<II")


@dataclass
class RunState:
    """Remembered state of a run, for writing to it.

    Attributes:
        kinds: Kind of each path: ``"atom:float"`` and the like, or the family.
        steps: The last step of each series.
        floor: Time after which all further frames must be, nanoseconds since the Unix epoch.
        position: Number of stored bytes of all journals of the run when this state was valid.
        numbers: Number of each path in the journal.
        request: Digest of the last stored request if only heartbeats were written since; empty if
            unknown.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    uid: bytes = b""
    writer: str = ""
    size: int = 0
    last_t: int = 0
    floor: int = 0
    position: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    request: str = ""


class Batch(Frames, State):
    """Frames of a request; the state of the run is changed with them, before they are stored."""

    def __init__(self, opened: RunState, now_ns: int) -> None:
        Frames.__init__(self, opened.uid, opened.last_t, opened.floor, now_ns)
        self.kinds, self.steps = opened.kinds, opened.steps
        self._opened = opened
        self._request = ""

    def may_write(self, path: Any) -> bool:
        """Return whether a path exists and is writable, so that it needs no check.

        False means only that it must be checked. All derived paths are below ``sys/``.
        """
        return isinstance(path, str) and path in self.kinds and path[:4] != "sys/"

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """See `Records.column`."""
        number = self._number(path)
        for at in range(0, len(values), _MAX_FRAME_POINTS):
            count = len(values[at : at + _MAX_FRAME_POINTS])
            payload = _COLUMN.pack(number, count)
            for code, column in (("d", steps), ("d", values), ("q", times_ns or ())):
                payload += struct.pack(f"<{count}{code}", *column[at : at + count])
            self.frame(Kind.COLUMN, payload, USER_TIME)

    def beat(self, request: str = "") -> None:
        """Add a heartbeat with the digest of the last stored request: this one or the previous one.

        See `Log.write`.
        """
        self._request = request or self._opened.request
        payload = dump_json({_REQUEST: self._request}) if self._request else b""
        self.frame(Kind.HEARTBEAT, payload)

    def _number(self, path: str) -> int:
        numbers = self._opened.numbers
        if path not in numbers:  # numbers may be reused: each applies from its frame on
            numbers[path] = len(numbers)
            self.frame(Kind.PATH, _NUMBER.pack(numbers[path]) + path.encode())
        return numbers[path]

    def keep(self, size: int, position: int) -> None:
        """Adopt the size of the journal after the frames are stored."""
        one = self._opened
        if len(one.numbers) > len(one.kinds) + _MAX_DELETED:
            one.numbers.clear()  # they may be reused
        one.size, one.last_t, one.position = size, self._t - 1, position
        one.request = self._request


class Log:
    """Writer of a run for the requests handled by one process."""

    def __init__(self, server: Server, container: Container) -> None:
        self._server, self.container = server, container
        self._lock = threading.Lock()
        self._opened: RunState | None = None

    @property
    def remembered(self) -> int:
        """Number of remembered paths of the run."""
        opened = self._opened  # another thread may be writing
        return 0 if opened is None else len(opened.kinds)

    def create(self, header: Mapping[str, Any], fill: Callable[[Batch], None]) -> bool:
        """Create a run; return False if it exists already."""
        with self._lock:
            if self._server.intake.known(*self.container)[0]:
                return False
            uid, writer = own_journal(self._server.instance, *self.container, 0, NEPTUNE)
            opened = RunState(uid=uid, writer=writer)
            batch = Batch(opened, self._server.now_ns())
            batch.begin(self._header(opened, header, owner=True))
            fill(batch)
            try:
                self._store(opened, batch)
            except (DivergedError, GapError):  # another process created it just now
                return False
            self._opened = opened
            return True

    def write(self, fill: Callable[[Batch], None], request: str = "", arrived_ns: int = 0) -> None:
        """Append records to the run; they are durable when this returns.

        A client that got no answer repeats its request. The journal ends with the digest of the
        last request, and records of an equal digest `request` are not added again. Points have
        times, so different requests have different digests, unless one follows at once: a request
        that arrived (`arrived_ns`) immediately after the last one counts as new. Leave out
        `request` if repetition is harmless. `fill` is called again if another process was faster.

        Raises:
            ContainerNotFound: If the run does not exist.
            Refusal: If no data can be stored now, or the quota of the workspace is exceeded.
        """
        with self._lock:
            for last in range(_MAX_TRIES, 0, -1):
                # Until the records are stored, so that no invalid state remains after an error.
                opened, self._opened = self._opened, None
                if opened is None or not self._is_current(opened):
                    opened = self._open()
                batch = Batch(opened, self._server.now_ns())
                if not opened.size:
                    batch.begin(self._header(opened, {}, owner=False))
                is_soon = 0 <= arrived_ns - opened.last_t < _REPEAT_NS
                again = bool(request) and opened.request == request and not is_soon
                fill(batch)
                if again:
                    return
                try:
                    is_alone = not batch.data or self._store(opened, batch)
                except (DivergedError, GapError):
                    if last == 1:
                        raise
                    continue
                if is_alone:
                    self._opened = opened
                return

    def _is_current(self, opened: RunState) -> bool:
        # Another process may have written since.
        return self._server.intake.known(*self.container)[1] == opened.position

    def beat(self) -> None:
        """Record a heartbeat, if nothing was recorded for a while."""
        opened = self._opened
        if opened is not None and opened.last_t > self._server.now_ns() - _BEAT_NS:
            return
        self.write(Batch.beat)

    def _store(self, opened: RunState, batch: Batch) -> bool:
        data, name = batch.data, journal_name(opened.writer, opened.uid)
        kept = self._server.intake.take(*self.container, name, opened.size, data)
        is_alone = kept.position == opened.position + len(data)
        batch.keep(opened.size + len(data), kept.position)
        return is_alone

    # ------------------------------------------------------------------ opening

    def _open(self) -> RunState:
        server, container = self._server, self.container
        journals, _ = server.intake.known(*container)
        if not journals and not container.is_project:
            raise ContainerNotFound(container_id(container))
        limit = server.now_ns() + AHEAD_NS
        at = next_journal(server.kept, server.instance, container, journals, limit, NEPTUNE)
        # Only now: the attributes read below must include everything in the journal so far.
        position = server.intake.known(*container)[1]
        opened = RunState(uid=at.uid, writer=at.writer, size=at.size, position=position)
        if at.last is not None:
            opened.last_t, opened.request = at.last.t, _request_of(at.last)
        if not journals:
            return opened
        if server.positions.wait_for({container: position}, _PATIENCE_S):
            raise later(
                error="busy",
                hint="earlier data is still being processed; try again",
                seconds=2,
            )
        reader = server.reader(*container)
        opened.floor = max((one.last_t for one in reader.journals()), default=0)
        for each in reader.attributes():
            opened.kinds[each.path] = _kind_of(each.family, each.type)
            step = getattr(each.value, "last_step", None)
            if step is not None and math.isfinite(step):  # NaN if there are no points
                opened.steps[each.path] = float(step)
        return opened

    def _header(self, opened: RunState, facts: Mapping[str, Any], *, owner: bool) -> dict[str, Any]:
        header = header_of(*self.container, opened.writer, opened.floor, NEPTUNE, owner=owner)
        kind = self.container.kind
        return header | ({"kind": kind} if kind in _KINDS_IN_HEADER else {}) | dict(facts)


class Logs:
    """Writers of runs in one process; the least recently used ones are dropped."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._known: dict[Container, Log] = {}
        self._lookups = 0

    def of(self, container: Container) -> Log:
        """Return the log of a run."""
        with self._lock:
            # The least recently used ones come first.
            found = self._known.pop(container, None) or Log(self._server, container)
            self._known[container] = found
            self._lookups += 1
            # Also the known runs grow.
            if len(self._known) > _MAX_RUNS or self._lookups % _COUNT_EVERY == 0:
                self._drop_oldest()
            return found

    def _drop_oldest(self) -> None:
        left = sum(log.remembered for log in self._known.values())
        while len(self._known) > 1 and (len(self._known) > _MAX_RUNS or left > _MAX_PATHS):
            oldest = self._known.pop(next(iter(self._known)))
            left -= oldest.remembered


def _request_of(last: Frame) -> str:
    if last.kind != Kind.HEARTBEAT or not last.payload:
        return ""
    try:
        return str(json.loads(last.payload)[_REQUEST])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _kind_of(family: str, kind: str) -> str:
    return f"atom:{kind}" if family == "atom" else family
