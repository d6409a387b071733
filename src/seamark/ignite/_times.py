"""Times of the runs of an engine, by phase, by event and by handler: numbers only.

While an engine runs, a tape is written: two integers for everything that happens. `RunTimes.settle`
turns it into durations, thousands of rows at a time.
"""

from __future__ import annotations

import copy
import struct
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from ignite.engine import Events

from seamark.profiling import Breakdown, Samples, Source

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes
    from seamark.values.arrays import Ints

__all__ = ["AT", "INSIDE", "EventTimes", "HandlerTimes", "RunTimes", "code_of", "kind_of"]

OTHER, FETCH, FETCHED, STEP, STEPPED, EPOCH, EPOCH_END, END, INTERRUPT = range(9)
"""Kinds of events. Waits for batches and steps begin with the last handler of FETCH and STEP."""

_KINDS: Final[dict[str, int]] = {
    "GET_BATCH_STARTED": FETCH,
    "GET_BATCH_COMPLETED": FETCHED,
    "ITERATION_STARTED": STEP,
    "ITERATION_COMPLETED": STEPPED,
    "EPOCH_STARTED": EPOCH,
    "EPOCH_COMPLETED": EPOCH_END,
    "STARTED": END,
    "TERMINATE": END,
    "COMPLETED": END,
    "INTERRUPT": INTERRUPT,
}

# A row of the tape is a code and a number. A positive code is that of a handler that has ended,
# with its time; a code below AT is that of an event, with the moment.
INSIDE: Final = 0
"""Code of a row before that of a handler: how many numbers were written while it ran."""
AT: Final = -1
"""Code of a row with the position from then on."""


def kind_of(event: Any) -> int:
    """Return the kind of an event."""
    return _KINDS.get(event.name, OTHER) if isinstance(event, Events) else OTHER


_BATCH: Final = [list(Events).index(Events.GET_BATCH_COMPLETED)]


def code_of(index: Any) -> Any:
    """Return the code of the event with an index, and the index of the event with a code."""
    return AT - 1 - index


class HandlerTimes:
    """Times of one handler of one event.

    Attributes:
        own_name: As Ignite shows it.
        name: The same, with a number where several handlers of the event are called so.
        in_epochs_ns: Time of its own that belongs to epochs.
    """

    def __init__(self, own_name: str, name: str) -> None:
        self.own_name = own_name
        self.name = name
        self.samples = Samples()
        self.in_epochs_ns = 0


class EventTimes:
    """Times of the handlers of one event, together and each."""

    def __init__(self, event: Any) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.kind = kind_of(event)
        self.samples = Samples()
        self.handlers: dict[int, HandlerTimes] = {}
        # The latest time that it was fired, which is not over; before FETCH and STEP, the next.
        self._held_at: int | None = None
        self._held_ns = 0

    def take(self, fired: Ints, at: Ints, calls: Ints, took: Ints, inside_ns: int) -> None:
        """Take in how often it was fired, and the calls of its handlers.

        Args:
            fired: Rows in which it was fired: before the handlers, or after them for FETCH and
                STEP.
            at: Positions of them.
            calls: Rows of calls.
            took: Their durations.
            inside_ns: How much of that belongs to handlers of events that they fired.
        """
        self.samples.nested_ns += inside_ns
        spent = np.zeros(len(fired) + 1, dtype=np.int64)  # the first or the last is no row's
        np.add.at(spent, np.searchsorted(fired, calls), took)
        if self.kind in (FETCH, FETCHED, STEP):
            spent[0] += self._held_ns
            self._held_ns = int(spent[-1])
            self.samples.add(at, spent[:-1])
            return
        spent[0] += self._held_ns
        if self._held_at is not None:
            at = np.concatenate([[self._held_at], at])
        else:
            spent = spent[1:]
        if len(at):
            self.samples.add(at[:-1], spent[:-1])
            self._held_at, self._held_ns = int(at[-1]), int(spent[-1])

    def close(self) -> None:
        """Take in the latest time that it was fired."""
        if self._held_at is not None:
            self.samples.add(np.array([self._held_at]), np.array([self._held_ns]))
            self._held_at, self._held_ns = None, 0

    @property
    def names(self) -> list[str]:
        """Names of the handlers, as Ignite shows them."""
        return [one.own_name for one in list(self.handlers.values())]

    def source(self) -> Source:
        """Return all handlers of the event together."""
        return Source("event", self.name, self.samples)

    def handler_sources(self) -> list[Source]:
        """Return each handler."""
        return [
            Source("handler", one.name, one.samples, event=self.name)
            for one in list(self.handlers.values())
        ]


def _nested(code: Ints, value: Ints) -> tuple[Ints, Ints]:
    """Return inside of how many handlers each row was written, and time of handlers inside."""
    depth, inside = np.zeros_like(code), np.zeros_like(code)
    ends = np.flatnonzero(code == INSIDE).tolist()
    for end in ends:
        depth[max(0, end - value[end] // 2) : end] += 1
    for end in ends:
        within = slice(max(0, end - value[end] // 2), end)
        called = (code[within] > 0) & (depth[within] == depth[end] + 1)
        inside[end + 1] = value[within][called].sum()
    return depth, inside


class RunTimes:
    """Times of one run of one engine, so far.

    Args:
        events: The events of the engine, in the order of their codes.
        state: The state of the engine that begins to run; None for a run that never was.
        gpu: Times between CUDA events, if asked for.
        at: Position where it begins.
        in_epoch: Whether it begins in the middle of an epoch.

    Attributes:
        tape: Pairs of a code and a time in nanoseconds; with `AT` a position.
        dataflow: The waits for batches.
        processing: The steps.
        events: Times of the handlers of each event.
        gpu: Times between CUDA events, if asked for.
        began: Whether there was a run at all.
        max_epochs: As the engine had it at the start.
        events_elsewhere: The number of events that other threads fired; they are not timed.
    """

    def __init__(
        self,
        events: Iterable[Any] = Events,
        state: Any = None,
        gpu: GpuTimes | None = None,
        at: int = 0,
        *,
        in_epoch: bool = False,
    ) -> None:
        self.tape: list[int] = []
        self.dataflow, self.processing = Samples(), Samples()
        self.events = [EventTimes(event) for event in events]
        self.gpu = gpu
        self.began = state is not None
        self.max_epochs: int | None = getattr(state, "max_epochs", None)
        self.events_elsewhere = self._epochs_ns = 0
        self._index_of: dict[int, int] = {}
        self._taken = 0  # so many numbers of the tape were taken in
        # The last position, kind of event, and moment; time of handlers since then.
        self._at, self._kind, self._last_ns, self._inside_ns = at, OTHER, 0, 0
        self._in_epoch, self._epochs = in_epoch, int(in_epoch)
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Travel as numbers, with those that the device has still to tell."""
        self.settle()
        if self.gpu is not None:
            self.gpu.collected()
        return {**self.__dict__, "tape": [], "_taken": 0, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the same numbers elsewhere."""
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def add_event(self, event: Any) -> None:
        """Expect an event; its code follows the codes of those that are known."""
        self.events.append(EventTimes(event))

    def add_handler(self, number: int, index: int, own_name: str) -> None:
        """Expect calls of a handler of the event with this index."""
        event = self.events[index]
        if number not in self._index_of:
            before = event.names.count(own_name)
            name = f"{own_name} #{before + 1}" if before else own_name
            event.handlers[number] = HandlerTimes(own_name, name)
            self._index_of[number] = index

    def apart(self) -> RunTimes:
        """Return the numbers as they are now, apart from a run that goes on."""
        return copy.deepcopy(self)

    # ------------------------------------------------------------ the tape

    def is_interrupted(self) -> bool:
        """Tell whether the latest event was an interruption."""
        for row in range(len(self.tape) - 2, -1, -2):
            if self.tape[row] < AT:
                return bool(self.events[code_of(self.tape[row])].kind == INTERRUPT)
        return self._kind == INTERRUPT

    def forget(self) -> None:
        """Take in what is on the tape, and make room."""
        with self._lock:
            self.settle()
            del self.tape[: self._taken]
            self._taken = 0

    def settle(self, *, is_still: bool = False) -> None:
        """Take in what is on the tape, up to the latest event that the engine itself fired.

        Args:
            is_still: Whether all handlers that were called have ended.
        """
        with self._lock:
            taken = self.tape[self._taken : len(self.tape) // 2 * 2]
            # Twice as fast as to make an array of a list.
            numbers = np.ndarray(len(taken), np.int64, struct.pack(f"{len(taken)}q", *taken))
            code, value = numbers[::2], numbers[1::2]
            if not is_still:  # behind, there may be handlers inside of one that is running
                kinds = np.array([OTHER, OTHER, *(one.kind for one in self.events)])
                core = np.flatnonzero(kinds[np.maximum(-code, 0)] != OTHER)
                size = core[-1] + 1 if len(core) else 0
                code, value = code[:size], value[:size]
            if len(code):
                self._take(code.copy(), value.copy())
                self._taken += 2 * len(code)
            for event in list(self.events) if is_still else ():
                event.close()

    def _take(self, code: Ints, value: Ints) -> None:
        kinds = np.array([one.kind for one in self.events])
        marks = code == AT
        at = np.concatenate([[self._at], value[marks]])[np.cumsum(marks)]
        depth, inside = _nested(code, value)
        calls, fired = np.flatnonzero(code > 0), np.flatnonzero(code < AT)
        known = self._index_of.copy()  # at once: the engine's thread may add handlers meanwhile
        index_of = np.zeros(1 + max(known, default=0), dtype=np.int64)
        index_of[list(known)] = list(known.values())
        event, index = index_of[code[calls]], code_of(code[fired])
        # What comes before a step belongs to it, and the position is still that of the last one.
        is_early = (kinds >= FETCH) & (kinds <= STEP)
        at[calls] += is_early[event]
        at[fired] += (is_early & (kinds != STEP))[index]
        is_core = np.zeros(len(code), dtype=bool)
        is_core[fired] = (kinds != OTHER)[index] & (depth[fired] == 0)
        core = np.flatnonzero(is_core)
        outer = np.cumsum(np.where((code > 0) & (depth == 0), value, 0))
        there, in_epoch = self._take_phases(core, kinds[code_of(code[core])], value, at, outer)
        for number in np.flatnonzero(np.bincount(np.concatenate([_BATCH, index, event]))).tolist():
            one = self.events[number]
            rows = there if one.kind == FETCHED else fired[index == number]
            these = calls[event == number]
            one.take(rows, at[rows], these, value[these], int(inside[these].sum()))
        held = in_epoch[np.cumsum(is_core)[calls]]
        for number in np.flatnonzero(np.bincount(code[calls])).tolist():
            these = code[calls] == number
            rows = calls[these]
            handler = self.events[self._index_of[number]].handlers[number]
            handler.samples.add(at[rows], value[rows])
            handler.samples.nested_ns += int(inside[rows].sum())
            handler.in_epochs_ns += int(((value[rows] - inside[rows]) * held[these]).sum())
        self._at = int(at[-1])

    def _take_phases(
        self, core: Ints, kind: Ints, value: Ints, at: Ints, outer: Ints
    ) -> tuple[Ints, Ints]:
        """Take in waits, steps and the time of epochs, between events of the engine itself.

        Handlers of EPOCH_COMPLETED belong to the epoch; what is between them and the next event
        does not, nor does the pause after an interruption.

        Args:
            core: Rows of the events.
            kind: Their kinds.
            value: Moments of these rows.
            at: Positions.
            outer: Time of handlers up to each row.

        Returns:
            Rows by which a batch was there, and whether the engine was in an epoch before each
            event and after the last one.
        """
        before = np.concatenate([[self._kind], kind])[:-1]
        began_ns = np.concatenate([[self._last_ns], value[core]])
        spent_ns = np.diff(began_ns)
        inside_ns = np.diff(np.concatenate([[-self._inside_ns], outer[core]]))
        is_wait = (before == FETCH) & ((kind == STEP) | (kind == FETCHED))
        self.dataflow.add(at[core[is_wait]], (spent_ns - inside_ns)[is_wait])
        is_step = (before == STEP) & (kind == STEPPED)
        self.processing.add(at[core[is_step]], spent_ns[is_step])
        self.processing.nested_ns += int(inside_ns[is_step].sum())

        turns = (kind == EPOCH) | (kind == END) | (before == EPOCH_END)
        latest = np.maximum.accumulate(np.where(turns, np.arange(len(core)), -1))
        after = np.where(latest >= 0, kind[latest] == EPOCH, self._in_epoch)
        in_epoch = np.concatenate([[self._in_epoch], after]).astype(bool)
        pauses = turns | (before == INTERRUPT) | (before == OTHER)
        took_ns = np.where(pauses, inside_ns, spent_ns)
        self._epochs_ns += int((took_ns * in_epoch[:-1]).sum())
        self._epochs += int((kind == EPOCH).sum())
        if len(core):
            self._kind, self._last_ns, self._inside_ns = int(kind[-1]), int(began_ns[-1]), 0
        self._inside_ns += int(outer[-1] - (outer[core[-1]] if len(core) else 0))
        self._in_epoch = bool(in_epoch[-1])
        return core[is_wait], in_epoch

    # ------------------------------------------------------------ results

    def phases(self) -> list[Source]:
        """Return processing and dataflow, on the wall clock and, if asked for, on the GPU's."""
        found = [
            Source("processing", "processing", self.processing),
            Source("dataflow", "dataflow", self.dataflow),
        ]
        if self.gpu is not None:
            gpu = self.gpu.collected()
            found.append(Source("processing", "processing", gpu, clock="cuda"))
        return found

    def handler_sources(self) -> list[Source]:
        """Return each handler of each event."""
        return [one for event in list(self.events) for one in event.handler_sources()]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        """Return the parts of the time of a mean epoch."""
        epochs = max(1, self._epochs)
        parts = [
            ("processing (the step itself)", self.phases()[0].own_ns),
            ("dataflow (waiting for data)", self.phases()[1].own_ns),
        ]
        for event in list(self.events):
            handlers = [(one.name, one.in_epochs_ns) for one in list(event.handlers.values())]
            if by_handler:
                parts += [(f"the handler {name} on {event.name}", ns) for name, ns in handlers]
            else:
                parts.append((f"the handlers of {event.name}", sum(ns for _, ns in handlers)))
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        whole_ns = self._epochs_ns + self._inside_ns * self._in_epoch
        return Breakdown(in_seconds, whole_ns / 1e9 / epochs, epochs)
