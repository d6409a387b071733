"""Times of the runs of an engine, by phase, by event and by handler: numbers only.

While an engine runs, a tape is written: two integers for everything that happens. `RunTimes.fold`
converts it into durations, thousands of rows at a time.
"""

from __future__ import annotations

import copy
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from ignite.engine import Events

from seamark.profiling import LOCK, Breakdown, Durations, position

if TYPE_CHECKING:
    from seamark.values.arrays import Ints

__all__ = ["AT", "CODES", "IGNORED", "INSIDE", "EventTimes", "GpuTimes", "RunTimes"]

IGNORED: Final = frozenset(
    {
        "EXCEPTION_RAISED",
        "TERMINATE",
        "TERMINATE_SINGLE_EPOCH",
        "DATALOADER_STOP_ITERATION",
        "INTERRUPT",
    }
)
"""Names of the events that Ignite's profilers ignore."""

# A row of the tape is a code and a number: of an event the moment, of a handler that has ended its
# time, or one of these.
AT: Final = 0
"""Code of a row with the position from then on."""
INSIDE: Final = 1
"""Code of a row behind that of a handler: how many numbers were written while it ran."""

_CORE: Final = (
    Events.GET_BATCH_STARTED,
    Events.GET_BATCH_COMPLETED,
    Events.ITERATION_STARTED,
    Events.ITERATION_COMPLETED,
    Events.EPOCH_STARTED,
    Events.EPOCH_COMPLETED,
    Events.STARTED,
    Events.TERMINATE,
    Events.COMPLETED,
    Events.INTERRUPT,
)
CODES: Final[dict[Any, int]] = {
    event: code for code, event in enumerate(dict.fromkeys([*_CORE, *Events]), start=2)
}
"""Codes of Ignite's events, the core ones first; custom events and handlers have codes behind."""

FETCH, FETCHED, STEP, STEPPED, EPOCH, EPOCH_END, START, TERMINATE, END, INTERRUPT = (
    CODES[event] for event in _CORE
)
"""Codes of the core events. Waits and steps begin with the last handler of FETCH and STEP."""

_UNREAD: Final = 1024


class EventTimes(Durations):
    def __init__(self, event: Any) -> None:
        super().__init__("event", str(getattr(event, "name", event)))
        self.key = event
        self.handlers: dict[int, Durations] = {}
        self.names: list[str] = []


class GpuTimes(Durations):
    """Time that a device spends on each step, between two CUDA events on the current stream.

    Each step reads the pairs of events that the device has passed, so the training does not wait
    for the device. Pickling waits for the rest, because results are made from a copy.
    """

    def __init__(self) -> None:
        super().__init__("processing", "processing", clock="cuda")
        self._unread: deque[tuple[Any, Any, int]] = deque()
        self._start: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Leave out what belongs to the device, after waiting for it.
        self._read(0)
        return {**self.__dict__, "_unread": deque(), "_start": None}

    def begin(self) -> None:
        self._start = _device_event()

    def end(self, at: int) -> None:
        if self._start is not None:
            self._unread.append((self._start, _device_event(), at))
            self._start = None
            self._read(_UNREAD)

    def _read(self, limit: int) -> None:
        """Read events that the device has passed; wait if more than ``limit`` pairs are unread."""
        while self._unread and (len(self._unread) > limit or self._unread[0][1].query()):
            start, end, at = self._unread.popleft()
            end.synchronize()
            self.waiting.extend((at, round(start.elapsed_time(end) * 1e6)))


def _device_event() -> Any:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class RunTimes:
    """Times of one run of one engine, so far: steps (`processing`), waits for batches and events.

    Attributes:
        tape: Pairs of a code and a number. Its first event is the last one that was taken in.
        events: Times of the handlers of each event, by its code.
        events_elsewhere: The number of events that other threads fired; they are not timed.
    """

    def __init__(
        self, state: Any = None, gpu: GpuTimes | None = None, *, in_epoch: bool = False
    ) -> None:
        self.tape: list[int] = []
        self.processing = Durations("processing", "processing")
        self.dataflow = Durations("dataflow", "dataflow")
        self.events = {CODES[event]: EventTimes(event) for event in Events}
        self.gpu = gpu
        self.began = state is not None
        self.max_epochs: int | None = getattr(state, "max_epochs", None)
        self.events_elsewhere = self._epochs_ns = 0
        self._epochs = int(in_epoch)
        self._at = position(state.epoch, state.iteration) if self.began else 0

    def expect_event(self, code: int, event: Any) -> EventTimes:
        with LOCK:
            return self.events.setdefault(code, EventTimes(event))

    def expect_handler(self, code: int, name: str, own_name: str, event: EventTimes) -> None:
        with LOCK:
            if code not in event.handlers:
                event.handlers[code] = Durations("handler", name, event.name)
                event.names.append(own_name)

    # ------------------------------------------------------------ the tape

    def latest_code(self) -> int:
        """Return the code of the latest core event."""
        return next((code for code in self.tape[-2::-2] if FETCH <= code <= INTERRUPT), AT)

    def now(self) -> RunTimes:
        """Return a copy in which everything is taken in that has happened so far."""
        with LOCK:
            # A copied tape is given, since copying number by number is slow.
            found = copy.deepcopy(self, {id(self.tape): self.tape[:]})
        found.fold(closes=True)
        return found

    def fold(self, *, closes: bool = False) -> None:
        """Process the events on the tape but the last one, which begins the next part.

        With ``closes`` it takes in the last event too, and what its handlers took so far.
        """
        with LOCK:
            taken = self.tape[: len(self.tape) // 2 * 2]
            rows = [*taken, END, 0] if closes else taken
            # Twice as fast as to make an array of a list.
            numbers = np.ndarray(len(rows), np.int64, struct.pack(f"{len(rows)}q", *rows))
            self._take(numbers[::2].copy(), numbers[1::2].copy(), closes=closes)
            del self.tape[: len(taken) - (0 if closes else 2)]

    def _take(self, code: Ints, value: Ints, *, closes: bool) -> None:
        """Take in rows of the tape, the last of which is an event of the engine itself."""
        handlers = [number for one in self.events.values() for number in one.handlers]
        event_of = np.arange(1 + max([*self.events, *handlers]))
        for number, one in self.events.items():
            event_of[list(one.handlers)] = number
        event = event_of[code]
        is_call, is_event = event != code, (event == code) & (code > INSIDE)

        depth, inside = np.zeros_like(code), np.zeros_like(code)
        for end in np.flatnonzero(code == INSIDE).tolist():  # the innermost come first
            within = slice(max(0, end - 1 - value[end] // 2), end - 1)
            inside[end - 1] = value[within][is_call[within] & (depth[within] == 0)].sum()
            depth[within] += 1

        marks = code == AT
        at = np.concatenate([[self._at], value[marks]])[np.cumsum(marks)]
        self._at = int(at[-1])
        # What comes before a step belongs to it, and the position is still that of the last one.
        at += (event >= FETCH) & (event <= STEP) & (code != STEP)
        is_core = is_event & (code <= INTERRUPT) & (depth == 0)
        core = np.flatnonzero(is_core)
        outer = np.cumsum(np.where(is_call & (depth == 0), value, 0))[core]
        spent, handled = np.diff(value[core]), np.diff(outer)
        if closes:
            spent[-1:] = handled[-1:]
        is_wait, in_epoch = self._take_phases(code[core], at[core], spent, handled)

        is_event[core[-1]] = False
        own = value - inside
        own_in_epochs = own * np.append(in_epoch, False)[np.cumsum(is_core) - 1]
        happened = np.bincount(np.append(event[is_event | is_call], FETCHED))
        for number in np.flatnonzero(happened).tolist():
            one = self.events[number]
            fired = np.flatnonzero(is_event & (code == number))
            calls = np.flatnonzero(is_call & (event == number))
            if number == FETCHED:
                fired = core[1:][is_wait]
            took = np.zeros(len(fired) + 1, dtype=np.int64)
            np.add.at(took, np.searchsorted(fired, calls), value[calls])
            is_before = number in (FETCH, FETCHED, STEP)  # handlers come before the row
            one.add(at[fired], took[:-1] if is_before else took[1:])
            for each, handler in one.handlers.items():
                rows = calls[code[calls] == each]
                handler.add(at[rows], value[rows])
                for durations in (one, handler):
                    durations.nested_ns += int(inside[rows].sum())
                    durations.in_epochs_ns += int(own_in_epochs[rows].sum())

    def _take_phases(self, code: Ints, at: Ints, spent: Ints, handled: Ints) -> tuple[Any, Any]:
        # Handlers of EPOCH_COMPLETED belong to the epoch; what is between them and the next event
        # does not, nor does the pause after an interruption.
        began, ended, at = code[:-1], code[1:], at[1:]
        is_wait = (began == FETCH) & ((ended == STEP) | (ended == FETCHED))
        self.dataflow.add(at[is_wait], (spent - handled)[is_wait])
        is_step = (began == STEP) & (ended == STEPPED)
        self.processing.add(at[is_step], spent[is_step])
        self.processing.nested_ns += int(handled[is_step].sum())

        goes_on = began < EPOCH_END
        pauses = (began == INTERRUPT) & np.concatenate([[False], goes_on])[:-1]
        in_epoch = goes_on | (began == EPOCH_END) | pauses
        self._epochs_ns += int(np.where(goes_on, spent, handled)[in_epoch].sum())
        self._epochs += int((began == EPOCH).sum())
        return is_wait, in_epoch

    # ------------------------------------------------------------ results

    def phases(self) -> list[Durations]:
        """Return processing and dataflow, on the wall clock and, if asked for, on the GPU's."""
        found = [self.processing, self.dataflow]
        return found if self.gpu is None else [*found, self.gpu]

    def sources(self, *, by_handler: bool) -> list[Durations]:
        # Events that Ignite's profilers ignore are left out unless they happened or have handlers.
        if by_handler:
            return self.phases() + self.handlers()
        return self.phases() + [
            one
            for one in self.events.values()
            if one.name not in IGNORED or one.names or one.moments.count
        ]

    def handlers(self) -> list[Durations]:
        return [one for event in self.events.values() for one in event.handlers.values()]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        parts = [
            ("processing (the step itself)", self.processing.own_ns),
            ("dataflow (waiting for data)", self.dataflow.own_ns),
        ]
        if by_handler:
            parts += [
                (f"the handler {one.name} on {one.event}", one.in_epochs_ns)
                for one in self.handlers()
            ]
        else:
            events = self.events.values()
            parts += [(f"the handlers of {one.name}", one.in_epochs_ns) for one in events]
        epochs = max(1, self._epochs)
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        return Breakdown(in_seconds, self._epochs_ns / 1e9 / epochs, epochs)
