"""What the end of a block, a worker or a script says about a run."""

from __future__ import annotations

import logging
import os
import signal

import pytest

from seamark.capture import Capture, Switches, error_message
from seamark.capture.ending import cause_of, state_after

NOTHING = {"git": False, "script": False, "packages": False, "signals": False}


class Recorded:
    """A run that remembers, and during whose every record something may happen."""

    writer = "host-1-0"
    settled = True

    def __init__(self, meanwhile=lambda: None):
        self.atoms, self.states, self.dropped = {}, [], []
        self._meanwhile = meanwhile

    def assign_quietly(self, atoms):
        self._meanwhile()
        self.atoms.update(atoms)

    def drop(self, reason):
        self.dropped.append(reason)

    def note_state(self, state, *, error=None, signal=None):
        self._meanwhile()
        self.states.append((state, error or signal))


def exit_while_handling(code, handled):
    error = SystemExit(code)
    error.__context__ = handled
    return error


BAD, REFUSED, KEYS = SystemExit(3), SystemExit("refused"), KeyboardInterrupt()
WHY = ValueError("why")
REASON, AGAIN = exit_while_handling("no such file", WHY), exit_while_handling(1, SystemExit(0))


@pytest.mark.parametrize(
    ("error", "cause", "state"),
    [
        *((error, None, None) for error in (None, GeneratorExit(), SystemExit())),
        *((SystemExit(code), None, None) for code in (0, False)),
        *((error, error, "failed") for error in (BAD, REFUSED, WHY, REASON, AGAIN)),
        (KEYS, KEYS, "interrupted"),
        (exit_while_handling(1, WHY), WHY, "failed"),
        (exit_while_handling(1, KEYS), KEYS, "interrupted"),
        (exit_while_handling(0, WHY), None, None),
    ],
)
def test_exit_fails_by_its_code_or_its_reason_and_ctrl_c_interrupts(error, cause, state):
    assert cause_of(error) is cause
    recorded = Recorded()
    Capture(recorded, Switches()).on_exception(error)
    assert recorded.states == ([(state, cause)] if state else [])
    assert bool(recorded.atoms) == bool(state)
    assert state is None or state_after(cause) == state


def test_exit_that_follows_on_a_signal_says_nothing_new():
    """A handler that saves and exits with 7 ends an interrupted run; an error would fail it."""
    recorded = Recorded()
    capture = Capture(recorded, Switches())
    capture.on_signal("SIGTERM")
    capture.on_exception(SystemExit(7))
    assert recorded.states == [("interrupted", "SIGTERM")]
    capture.on_exception(WHY)
    assert recorded.states[-1] == ("failed", WHY)


class TimeIsUp(Exception):  # noqa: N818 - a limit of the training's own
    """Raised by the handler of a signal, to end the training."""


@pytest.fixture
def struck():
    """Have the signal arrive whose handler raises; it strikes in the middle of a record."""

    def strike(*_):
        raise TimeIsUp

    before = signal.signal(signal.SIGUSR1, strike)
    yield Recorded(lambda: os.kill(os.getpid(), signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "work", [Capture.start, lambda capture: capture.note_exception(WHY)], ids=["start", "error"]
)
def test_time_limit_that_strikes_during_a_capture_ends_the_training(struck, work):
    version = {"script": True, "version_at_start": lambda: struck.assign_quietly({})}
    capture = Capture(struck, Switches(**{**NOTHING, "host": False, **version}))
    with pytest.raises(TimeIsUp):
        work(capture)
    capture.stop()


def test_error_whose_text_cannot_be_read_is_described_by_its_type(struck):

    class OddError(Exception):
        def __str__(self):
            raise RuntimeError

    class SlowError(Exception):
        def __str__(self):
            os.kill(os.getpid(), signal.SIGUSR1)
            return "slow"

    assert error_message(OddError()) == "<OddError, whose text could not be read>"
    with pytest.raises(TimeIsUp):
        error_message(SlowError())


def test_capture_that_fails_ends_no_training(caplog):

    def refuse():
        raise RuntimeError("no")

    caplog.set_level(logging.DEBUG, "seamark")
    recorded = Recorded(refuse)
    capture = Capture(recorded, Switches(**NOTHING))
    capture.start()
    capture.note_exception(WHY)
    capture.stop()
    assert caplog.text.count("a capture failed") == 2
    assert recorded.dropped == ["capture"]  # one part; the others go on


WORKERS = """
import multiprocessing, os, sys

def work(n):
    from seamark.capture.ending.process_end import at_worker_end
    at_worker_end(lambda error: os.write(1, f"{n} {error!r}\\n".encode()))
    if n == 1:
        raise ValueError("why")
    if n == 2:
        sys.exit(0)
    if n == 3:
        sys.exit(3)
    if n == 4:
        try:
            raise OSError("hidden")
        except OSError:
            sys.exit(1)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for n in range(5):
        worker = context.Process(target=work, args=(n,))
        worker.start()
        worker.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_exit_of_a_worker_fails_by_the_same_rule(scripts, method):
    ended = scripts.run(WORKERS, method)
    assert ended.stdout.splitlines() == [
        "0 None",
        "1 ValueError('why')",
        "2 None",
        "3 SystemExit(3)",
        "4 OSError('hidden')",
    ]
