"""Times of the runs of an engine, by phase, by event and by handler: numbers only.

While an engine runs, a tape is written: two integers for everything that happens. `RunTimes.fold`
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

from seamark.profiling import Breakdown, Samples, Source, position

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes
    from seamark.values.arrays import Ints

__all__ = ["AT", "INSIDE", "EventTimes", "RunTimes", "code_of", "kind_of"]

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
"""Code of a row behind that of a handler: how many numbers were written while it ran."""
AT: Final = -1
"""Code of a row with the position from then on."""

_LOCK: Final = threading.RLock()
"""Held while results are copied and while the tape of a run is taken in."""


def kind_of(event: Any) -> int:
    """Return the kind of an event."""
    return _KINDS.get(event.name, OTHER) if isinstance(event, Events) else OTHER


def code_of(index: Any) -> Any:
    """Return the code of the event with an index, and the index of the event with a code."""
    return AT - 1 - index


_BATCH: Final = list(Events).index(Events.GET_BATCH_COMPLETED)
_CLOSE: Final = code_of(list(Events).index(Events.COMPLETED))


class EventTimes:
    """Times of the handlers of one event.

    Attributes:
        source: All handlers together.
        handlers: Each handler, by its number.
        names: Names of the handlers, as Ignite shows them.
    """

    def __init__(self, event: Any) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.kind = kind_of(event)
        self.source = Source("event", self.name, Samples())
        self.handlers: dict[int, Source] = {}
        self.names: list[str] = []


class RunTimes:
    """Times of one run of one engine, so far.

    Args:
        events: The events of the engine, in the order of their codes.
        state: The state of the engine that begins to run; None for a run that never was.
        gpu: Times between CUDA events, if asked for.
        in_epoch: Whether it begins in the middle of an epoch.

    Attributes:
        tape: Pairs of a code and a time in nanoseconds; with `AT` a position. Its first event is
            the last one that was taken in.
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
        *,
        in_epoch: bool = False,
    ) -> None:
        self.tape: list[int] = []
        self.processing = Source("processing", "processing", Samples())
        self.dataflow = Source("dataflow", "dataflow", Samples())
        self.events = [EventTimes(event) for event in events]
        self.gpu = gpu
        self.began = state is not None
        self.max_epochs: int | None = getattr(state, "max_epochs", None)
        self.events_elsewhere = self._epochs_ns = 0
        self._epochs = int(in_epoch)
        self._at = position(state.epoch, state.iteration) if self.began else 0

    def add_event(self, event: Any) -> None:
        """Expect an event; its code follows the codes of those that are known."""
        with _LOCK:
            self.events.append(EventTimes(event))

    def add_handler(self, number: int, index: int, own_name: str) -> None:
        """Expect calls of a handler of the event with this index."""
        event = self.events[index]
        if number in event.handlers:
            return
        before = event.names.count(own_name)
        name = f"{own_name} #{before + 1}" if before else own_name
        with _LOCK:
            event.handlers[number] = Source("handler", name, Samples(), event=event.name)
            event.names.append(own_name)

    # ------------------------------------------------------------ the tape

    def latest_kind(self) -> int:
        """Return the kind of the latest event of the engine itself."""
        events = (self.events[code_of(code)] for code in self.tape[-2::-2] if code < AT)
        return next((one.kind for one in events if one.kind != OTHER), OTHER)

    def now(self) -> RunTimes:
        """Return a copy in which everything is taken in that has happened so far."""
        with _LOCK:
            found = copy.deepcopy(
                self, {id(self.tape): self.tape[:]}
            )  # faster than number by number
        found.fold(closes=True)
        return found

    def fold(self, *, closes: bool = False) -> None:
        """Take in what is on the tape, and leave the last event there, with which more begins.

        Args:
            closes: Whether to take in the last event too, and what its handlers took so far.
        """
        with _LOCK:
            taken = self.tape[: len(self.tape) // 2 * 2]
            rows = [*taken, _CLOSE, 0] if closes else taken
            # Twice as fast as to make an array of a list.
            numbers = np.ndarray(len(rows), np.int64, struct.pack(f"{len(rows)}q", *rows))
            self._take(numbers[::2].copy(), numbers[1::2].copy(), closes=closes)
            del self.tape[: len(taken) - 2]

    def _take(self, code: Ints, value: Ints, *, closes: bool) -> None:
        depth, inside = np.zeros_like(code), np.zeros_like(code)
        for end in np.flatnonzero(code == INSIDE).tolist():  # the innermost come first
            within = slice(max(0, end - 1 - value[end] // 2), end - 1)
            inside[end - 1] = value[within][(code[within] > 0) & (depth[within] == 0)].sum()
            depth[within] += 1
        is_call, is_event = code > 0, code < AT
        event = np.full_like(code, -1)
        event[is_event] = code_of(code[is_event])
        index_of = {n: at for at, one in enumerate(self.events) for n in one.handlers}
        known = np.zeros(1 + max(index_of, default=0), dtype=np.int64)
        known[list(index_of)] = list(index_of.values())
        event[is_call] = known[code[is_call]]
        kind = np.array([*(one.kind for one in self.events), OTHER])[event]

        marks = code == AT
        at = np.concatenate([[self._at], value[marks]])[np.cumsum(marks)]
        self._at = int(at[-1])
        # What comes before a step belongs to it, and the position is still that of the last one.
        at += (kind >= FETCH) & (kind <= STEP) & ~(is_event & (kind == STEP))
        is_core = is_event & (kind != OTHER) & (depth == 0)
        core = np.flatnonzero(is_core)
        outer = np.cumsum(np.where(is_call & (depth == 0), value, 0))[core]
        spent, handled = np.diff(value[core]), np.diff(outer)
        if closes:
            spent[-1:] = handled[-1:]
        there, in_epoch = self._take_phases(kind[core], at[core], spent, handled)

        is_event[core[-1]] = False
        held = np.append(in_epoch, False)[np.cumsum(is_core) - 1]
        for number in np.flatnonzero(np.bincount(code[is_call])).tolist():
            rows = np.flatnonzero(code == number)
            samples = self.events[event[rows[0]]].handlers[number].samples
            samples.add(at[rows], value[rows])
            _tally(samples, value[rows], inside[rows], held[rows])
        happened = np.bincount(np.append(event[is_event | is_call], _BATCH))
        for index in np.flatnonzero(happened).tolist():
            one = self.events[index]
            calls = np.flatnonzero(is_call & (event == index))
            fired = np.flatnonzero(is_event & (event == index))
            if one.kind == FETCHED:
                fired = core[1:][there]
            spent = np.zeros(len(fired) + 1, dtype=np.int64)
            np.add.at(spent, np.searchsorted(fired, calls), value[calls])
            is_before = one.kind in (FETCH, FETCHED, STEP)  # handlers come before the row
            one.source.samples.add(at[fired], spent[:-1] if is_before else spent[1:])
            _tally(one.source.samples, value[calls], inside[calls], held[calls])

    def _take_phases(self, kind: Ints, at: Ints, spent: Ints, handled: Ints) -> tuple[Any, Any]:
        """Take in waits, steps and the time of epochs, between events of the engine itself.

        Handlers of EPOCH_COMPLETED belong to the epoch; what is between them and the next event
        does not, nor does the pause after an interruption.

        Args:
            kind: Kinds of the events.
            at: Their positions.
            spent: Time from each to the next.
            handled: Time of handlers in it.

        Returns:
            Whether each is a wait, and whether it belongs to an epoch.
        """
        began, ended, at = kind[:-1], kind[1:], at[1:]
        is_wait = (began == FETCH) & ((ended == STEP) | (ended == FETCHED))
        self.dataflow.samples.add(at[is_wait], (spent - handled)[is_wait])
        is_step = (began == STEP) & (ended == STEPPED)
        self.processing.samples.add(at[is_step], spent[is_step])
        self.processing.samples.nested_ns += int(handled[is_step].sum())

        goes_on = began < EPOCH_END
        pauses = (began == INTERRUPT) & np.concatenate([[False], goes_on])[:-1]
        in_epoch = goes_on | (began == EPOCH_END) | pauses
        self._epochs_ns += int(np.where(goes_on, spent, handled)[in_epoch].sum())
        self._epochs += int((began == EPOCH).sum())
        return is_wait, in_epoch

    # ------------------------------------------------------------ results

    def phases(self) -> list[Source]:
        """Return processing and dataflow, on the wall clock and, if asked for, on the GPU's."""
        found = [self.processing, self.dataflow]
        if self.gpu is not None:
            found.append(Source("processing", "processing", self.gpu.collected(), clock="cuda"))
        return found

    def handlers(self) -> list[Source]:
        """Return each handler of each event."""
        return [one for event in self.events for one in event.handlers.values()]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        """Return the parts of the time of a mean epoch."""
        epochs = max(1, self._epochs)
        parts = [
            ("processing (the step itself)", self.processing.own_ns),
            ("dataflow (waiting for data)", self.dataflow.own_ns),
        ]
        if by_handler:
            shown = [(f"the handler {one.name} on {one.event}", one) for one in self.handlers()]
        else:
            shown = [(f"the handlers of {one.name}", one.source) for one in self.events]
        parts += [(name, one.samples.in_epochs_ns) for name, one in shown]
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        return Breakdown(in_seconds, self._epochs_ns / 1e9 / epochs, epochs)


def _tally(samples: Samples, took: Ints, inside: Ints, in_epoch: Any) -> None:
    """Note how much of what was taken in belongs to handlers inside, and how much to epochs."""
    samples.nested_ns += int(inside.sum())
    samples.in_epochs_ns += int(((took - inside) * in_epoch).sum())
