"""A process of the server ends when it is told to, whatever it does at that moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

WAITS = """
from seamark.server.worker import _set_by_signals
stop = _set_by_signals()
print("waits", flush=True)
while not stop.wait(0):
    pass
"""
PROCESSES, AT_ONCE = 12, 4


def test_a_signal_in_the_middle_of_waiting_ends_it() -> None:
    """Where the event was set by the handler, half of these waited for themselves for ever."""
    for _ in range(PROCESSES // AT_ONCE):
        waiting = [
            subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE)
            for _ in range(AT_ONCE)
        ]
        try:
            for one in waiting:
                assert one.stdout is not None
                assert one.stdout.readline() == b"waits\n"
                one.terminate()
            assert [one.wait(60) for one in waiting] == [0] * AT_ONCE
        finally:
            for one in waiting:
                one.kill()
                one.communicate()
