"""A process of the server ends when it is told to, whatever it does at that moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

PROCESSES = 12
WAITS = """
import os, signal, sys
from seamark.server.run import _set_by_signals
for _ in range(int(sys.argv[1])):
    waits, tell = os.pipe()
    if not (child := os.fork()):
        signal.alarm(60)  # ends one that would wait for ever
        stop = _set_by_signals()
        os.write(tell, b"w")
        while not stop.wait(0):
            pass
        os._exit(0)
    os.close(tell)
    os.read(waits, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitpid(child, 0)[1])
"""


def test_a_signal_in_the_middle_of_waiting_ends_it():
    """Where the event was set by the handler, half of these waited for themselves for ever."""
    command = [sys.executable, "-c", WAITS, str(PROCESSES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] * PROCESSES
