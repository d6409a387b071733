"""What asks to be renewed in a forked child is, in its order, and as long as it lives."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from seamark.process import fork

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(fork.__file__).parents[1]
renewed: list[str] = []


class Thing:
    """Something with state that a child has to make anew."""

    def __init__(self, name: str, then: Callable[[], object] = lambda: None) -> None:
        self.name, self.then = name, then
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        self.then()
        renewed.append(self.name)


class Special(Thing):
    """Of a class that does it in another way."""

    def after_fork(self) -> None:
        renewed.append("special")
        super().after_fork()


def function():
    renewed.append("function")


def in_a_child():
    """Return what a forked child finds renewed."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, ",".join(renewed).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        found = told.read()
    assert os.waitpid(pid, 0)[1] == 0
    return found.split(",")


def fail():
    msg = "broken"
    raise RuntimeError(msg)


def test_in_the_order_of_registration():
    """Objects and functions alike; each once, by the method of its own class; not in the parent."""
    kept = [Thing("first"), Special("second")]
    fork.register(function)
    kept.append(Thing("third"))
    fork.register(kept[0].after_fork)
    assert in_a_child() == ["first", "special", "second", "function", "third"]
    assert renewed == []


def test_one_that_fails_keeps_no_other_from_its_turn():
    kept = [Thing("broken", fail), Thing("whole")]
    assert in_a_child()[-1] == "whole"
    assert "broken" not in in_a_child()
    assert kept


def test_nothing_is_kept_alive():
    """An object that is gone is not renewed, and being registered does not keep it."""
    thing = Thing("gone")
    there = weakref.ref(thing)
    del thing
    gc.collect()
    assert there() is None
    assert "gone" not in in_a_child()


def test_the_children_of_a_child_are_renewed_too():
    """As with DataLoader workers of a training that was forked itself."""
    thing = Thing("again")
    pid = os.fork()
    if not pid:
        renewed.clear()
        os._exit(0 if "again" in in_a_child() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert thing


def test_there_is_one_registry():
    """Nobody else in the package registers with the interpreter for state that is made anew."""
    found = [path for path in SOURCE.rglob("*.py") if "register_at_fork" in path.read_text("utf-8")]
    assert found == [Path(fork.__file__)]


# Python 3.12 warns of any fork where there are threads.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_is_whole_though_an_import_held_its_fork_off_for_long():
    """The fork goes on after a while; the child has a lock of its own, and forks later too."""
    held, leave = threading.Event(), threading.Event()

    def work():
        with fork.held_off():
            held.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(60)
    for _ in range(2):
        if not (child := os.fork()):
            try:
                with fork.held_off():
                    os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        leave.set()
        thread.join()
    with fork.held_off():
        pass
