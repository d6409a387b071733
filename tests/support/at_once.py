"""Processes that do something at the same moment."""

from __future__ import annotations

import subprocess
import sys

PIPE = subprocess.PIPE


def at_once(script, *processes):
    """Return the lines that each process printed after all were told to go on.

    The script prints ``ready`` and reads a line; each of the processes has arguments of its own.
    """
    some = [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, words)], stdin=PIPE, stdout=PIPE, text=True
        )
        for words in processes
    ]
    for one in some:
        assert one.stdout.readline() == "ready\n"
    for one in some:
        one.stdin.write("\n")
        one.stdin.flush()
    said = [one.communicate(timeout=240)[0].splitlines() for one in some]
    assert not any(one.returncode for one in some)
    return said
