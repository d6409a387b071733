"""What a signal handler raises goes through our code as if it were not there."""

from __future__ import annotations

import functools
import os
import signal

import pytest

from seamark.process.interrupts import let_pass, quietly, raised_by_signal_handler


class TimeLimitError(TimeoutError):
    """What a time limit raises; an ``OSError``, as many of them are."""


def interrupt():
    """Have the handler run here, as it could between any two steps."""
    os.kill(os.getpid(), signal.SIGUSR1)


def limit(number, frame):
    raise TimeLimitError


class Limit:
    """A handler that is an object."""

    def __call__(self, number: int, frame: object) -> None:
        raise TimeLimitError


@pytest.fixture(params=[limit, Limit(), functools.partial(limit)])
def handled(request):
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


def fail():
    msg = "ours"
    raise TimeLimitError(msg)


def test_own_exception_stops_at_a_quiet_block_and_is_told_once():
    lost: list[Exception] = []
    quiet = quietly(lost.append)
    with quiet:
        with quiet:
            fail()
        fail()
    with quietly():
        fail()
    with quiet:
        fail()
    assert [str(error) for error in lost] == ["ours"] * 3


def test_decorated_function_is_quiet(handled):

    @quietly()
    def call(what):
        return what()

    assert call(lambda: 7) == 7
    assert call(fail) is None
    with pytest.raises(TimeLimitError):
        call(interrupt)


def test_only_named_exceptions_are_swallowed(handled):
    with pytest.raises(ValueError, match="x"), quietly(only=(OSError, KeyError)):
        raise ValueError("x")
    with pytest.raises(KeyboardInterrupt), quietly():
        raise KeyboardInterrupt
    with quietly(only=OSError):
        fail()
    with pytest.raises(TimeLimitError), quietly(only=OSError):
        interrupt()


def test_let_pass_raises_only_the_exception_of_a_handler(handled):
    """The very object goes on, with the traceback that leads to the handler; ours stay."""

    def call(what):
        try:
            what()
        except TimeLimitError as error:
            let_pass(error)

    with pytest.raises(TimeLimitError) as caught:
        call(interrupt)
    assert raised_by_signal_handler(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    call(fail)
    assert not raised_by_signal_handler(TimeLimitError())  # never raised, so without a traceback
