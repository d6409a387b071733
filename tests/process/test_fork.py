"""What asks to be renewed in a forked child is, in its order, and as long as it lives."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path

import pytest

from seamark.process import fork

SOURCE = Path(fork.__file__).parents[1]
renewed: list[str] = []


class Thing:
    """Something with state that a child has to make anew."""

    def __init__(self, name: str) -> None:
        self.name = name
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        renewed.append(self.name)


class Special(Thing):
    def after_fork(self) -> None:
        renewed.append("special")
        super().after_fork()


class Broken(Thing):
    def after_fork(self) -> None:
        raise RuntimeError


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


def test_state_is_renewed_in_a_child_in_the_order_of_registration():
    """Objects and functions, each once, by the method of its own class; failures stop no other."""
    kept = [Thing("first"), Special("second"), Broken("broken"), gone := Thing("gone")]
    fork.register(function)
    kept[-1] = Thing("third")
    fork.register(kept[0].after_fork)
    there = weakref.ref(gone)
    del gone
    gc.collect()
    assert there() is None, "being registered keeps nothing alive"
    expected = ["first", "special", "second", "function", "third"]
    assert in_a_child() == expected
    assert renewed == []
    pid = os.fork()
    if not pid:  # the children of a child: as DataLoader workers of a forked training
        renewed.clear()
        os._exit(in_a_child() != expected)
    assert os.waitpid(pid, 0)[1] == 0


def test_only_one_module_registers_with_the_interpreter():
    found = [path for path in SOURCE.rglob("*.py") if "register_at_fork" in path.read_text("utf-8")]
    assert found == [Path(fork.__file__)]


# Python 3.12 warns of any fork where there are threads.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_goes_on_after_a_while_though_an_import_holds_it_off():
    held, leave = threading.Event(), threading.Event()

    def work():
        with fork.delay_forks():
            held.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(60)
    for _ in range(2):
        if not (child := os.fork()):
            try:
                with fork.delay_forks():
                    os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        leave.set()
        thread.join()
    with fork.delay_forks():
        pass
