"""A signal handler that raises is heard wherever it strikes in the parts that training calls."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import seamark
from seamark.blobs import BlobWriter
from seamark.journal.folder import RunFolder
from seamark.journal.writer import JournalWriter
from seamark.process.rank import current_rank
from seamark.types import File
from seamark.values import histograms, parameters, shown, to_floats, to_time_ns

SOURCE = str(Path(seamark.__file__).parent)


class TimeIsUpError(TimeoutError):
    """What a time limit raises; an ``OSError``, as many of them are."""


@pytest.fixture(autouse=True)
def _limit():
    def handler(*_):
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


class Talkative:
    """Describes itself by code of its own, in which a signal may be handled as well."""

    def __repr__(self) -> str:
        return "".join(map(str.lower, ["TALK"]))

    def __float__(self) -> float:
        return sum(map(float, ["1"]))


def strike(work, number):
    """Have the handler run at the ``number``-th place of our code that ``work`` comes by.

    Python looks for signals on entry of a function, and after a call. Returns whether there was
    such a place.
    """
    left = number

    def count(frame, event, arg):
        nonlocal left
        code = frame.f_code
        # Python itself ignores what is raised while it closes a generator, and what is being
        # passed on already has been heard.
        heard = code.co_flags & inspect.CO_GENERATOR or "/interrupts" in code.co_filename
        if event in ("call", "c_return") and code.co_filename.startswith(SOURCE) and not heard:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGUSR1)

    sys.setprofile(count)
    try:
        work()
    except TimeIsUpError:
        assert left <= 0
        return True
    finally:
        sys.setprofile(None)
    assert left > 0, f"what was raised at place {number} was swallowed"
    return False


some_or_all = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.thorough)])


def strike_everywhere(make, every=1):
    number = 1
    # A collection would call, for what other tests left, functions that nothing may be raised in.
    gc.collect()
    gc.disable()
    try:
        while strike(make(), number):
            number += every
    finally:
        gc.enable()
    assert number > every


def odd_values():
    return {
        "plain": 1.0,
        "text": "no",
        "numpy": np.float32(1),
        "array": np.ones(2),
        "decimal": Decimal(1),
        "talkative": Talkative(),
        "set": {"b", 1},
        "nested": {"list": [1, Talkative(), np.ones(100)], "it": object},
    }


@pytest.mark.parametrize(
    "work",
    [
        lambda: to_floats(odd_values()),
        lambda: parameters(odd_values(), "params"),
        lambda: shown(Talkative()),
        lambda: to_time_ns(1.5),
        lambda: to_time_ns(np.float32(1.5)),
        current_rank,
    ],
)
def test_interrupt_is_heard_where_values_and_ranks_are_looked_at(work):
    strike_everywhere(lambda: work)


def test_interrupt_is_heard_where_tensors_are_looked_at():
    torch = pytest.importorskip("torch")
    tensors = {"a": torch.ones(3), "b": torch.ones(2, dtype=torch.complex64)}
    strike_everywhere(lambda: lambda: histograms(tensors, 4))
    strike_everywhere(lambda: lambda: to_floats({"a": torch.tensor(1.0), **tensors}))


@some_or_all
def test_interrupt_is_heard_in_the_journal_and_loses_nothing(tmp_path, every):
    writers: list[JournalWriter] = []

    def make():
        folder = RunFolder(tmp_path, "p", f"r{len(writers)}")
        writers.append(writer := JournalWriter(folder, dict, sync_s=3600.0))

        def work():
            for step in range(3):
                writer.append_row({"a": 1.0, "b": np.float32(2)}, step)
            writer.append_row({"a": Talkative()})
            writer.append_row({"p": 1.0})
            writer.append_column("c", [1.0, 2.0])
            writer.append_op({"op": "clear", "path": "x"})
            writer.positions()

        return work

    strike_everywhere(make, every)
    for writer in writers:
        writer.close()
        assert not writer.dropped


@some_or_all
def test_interrupt_is_heard_during_uploads_and_changes_nothing(tmp_path, every):
    """Uploads fall back from one way of keeping bytes to another; this is no reason to."""
    source = tmp_path / "file.bin"
    source.write_bytes(b"x" * 1000)
    made: list[tuple[JournalWriter, BlobWriter]] = []
    troubles: list[object] = []

    def make():
        folder = RunFolder(tmp_path / "root", "p", f"r{len(made)}")
        writer = JournalWriter(folder, dict, sync_s=3600.0)
        lane = BlobWriter(folder, writer.append_op, lambda *given: troubles.append(given))
        made.append((writer, lane))

        def work():
            lane.upload("a", File.from_content(b"y" * len(made)))
            lane.upload("b", File.from_path(source))

        return work

    strike_everywhere(make, every)
    for writer, lane in made:
        lane.close(60)
        writer.close()
    assert troubles == []
