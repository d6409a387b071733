"""What a signal handler raises goes through our code as if it were not there."""

from __future__ import annotations

import functools
import os
import signal

import pytest

from seamark.process.interrupts import let_pass, logged, quietly, raised_by_signal_handler


class TimeLimitError(TimeoutError):
    """What a time limit raises; an ``OSError``, as many of them are."""


def interrupt():
    """Have the handler run here, as it could between any two steps."""
    os.kill(os.getpid(), signal.SIGUSR1)


class Limit:
    """A handler that is an object."""

    def __call__(self, number: int, frame: object) -> None:
        raise TimeLimitError

    def method(self, number: int, frame: object) -> None:
        raise TimeLimitError


def limit(number, frame):
    raise TimeLimitError


@pytest.fixture(
    params=[limit, Limit(), Limit().method, functools.partial(limit)],
    ids=["function", "object", "method", "partial"],
)
def handled(request):
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


def fail():
    msg = "ours"
    raise TimeLimitError(msg)


def test_what_a_handler_raises_passes_a_quiet_block(handled):
    """A time limit that ends in our code ends the training nevertheless, and is no loss."""
    lost: list[Exception] = []
    with pytest.raises(TimeLimitError), quietly(lost.append):
        interrupt()
    assert lost == []


def test_what_is_ours_stops_there():
    """An exception of ours goes no further, is told once, and needs no listener."""
    lost: list[Exception] = []
    with quietly(lost.append):
        fail()
    with quietly():
        fail()
    assert [str(error) for error in lost] == ["ours"]


def test_one_may_be_used_again_and_inside_itself():
    lost: list[Exception] = []
    quiet = quietly(lost.append)
    with quiet:
        with quiet:
            fail()
        fail()
    with quiet:
        fail()
    assert len(lost) == 3


def test_a_decorated_function_is_quiet(handled):
    """It returns what it returns, or None; what a handler raised in it passes."""

    @quietly()
    def call(what):
        return what()

    assert call(lambda: 7) == 7
    assert call(fail) is None
    with pytest.raises(TimeLimitError):
        call(interrupt)


def test_only_what_was_named_is_swallowed(handled):
    """Other exceptions go on, those that stop a process among them."""
    with pytest.raises(ValueError, match="x"), quietly(only=(OSError, KeyError)):
        raise ValueError("x")  # noqa: EM101
    with pytest.raises(KeyboardInterrupt), quietly():
        raise KeyboardInterrupt
    with quietly(only=OSError):
        fail()
    with pytest.raises(TimeLimitError), quietly(only=OSError):
        interrupt()


def test_what_is_swallowed_is_logged_in_few_words(caplog):
    """Also where the error has none."""
    for error in (TimeoutError(), OSError("no disk " * 1000)):
        with logged("reading failed"):
            raise error
    empty, long = (one.getMessage() for one in caplog.records)
    assert empty == "seamark: reading failed: TimeoutError()"
    assert long.startswith("seamark: reading failed: no disk no disk")
    assert len(long) < 500


def test_let_pass_raises_what_a_handler_raised(handled):
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


def test_an_exception_without_a_traceback_is_nobodys():
    """Such as one that was made and never raised."""
    assert not raised_by_signal_handler(TimeLimitError())
