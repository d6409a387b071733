"""Timed reads: one at a time, each a whole public call, in a loop or with a second between them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Spent", "Writer", "empty_cache", "settled", "spent", "writing"]

HERE = Path(__file__).resolve().parent
SETTLED_S = 2.5
"""A file that was changed more recently may change again without its time changing: whoever reads
looks at it more closely. What is measured as *nothing new* is older than that."""


class Spent:
    """Wall and CPU time of several calls, milliseconds."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []

    def call(self, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns, and note what that took."""
        cpu, begun = time.process_time(), time.perf_counter()
        found = work()
        self.wall_ms.append((time.perf_counter() - begun) * 1e3)
        self.cpu_ms.append((time.process_time() - cpu) * 1e3)
        return found

    def figures(self, name: str) -> dict[str, float]:
        """Return the medians, as ``NAME_ms`` and ``NAME_cpu_ms``."""
        return {
            f"{name}_ms": statistics.median(self.wall_ms),
            f"{name}_cpu_ms": statistics.median(self.cpu_ms),
        }


def spent(
    name: str,
    work: Callable[[], Any],
    times: int = 1,
    *,
    apart_s: float = 0.0,
    check: Callable[[Any], object] = bool,
) -> dict[str, float]:
    """Call ``work`` several times and return the medians.

    Args:
        name: Of the figures.
        work: What is measured.
        times: How often.
        apart_s: How long to sleep before each call, seconds.
        check: Called with what each call returned, outside the timed part; must be true.
    """
    taken = Spent()
    for _ in range(times):
        if apart_s:
            time.sleep(apart_s)
        found = taken.call(work)
        assert check(found)
    return taken.figures(name)


def empty_cache() -> None:
    """Have no index yet: whatever is read from now on is folded from the journals."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(dir=".")


def settled() -> None:
    """Wait until what was written before is old."""
    time.sleep(SETTLED_S)


# ---------------------------------------------------------------- another process that writes


class Writer:
    """A process that holds a run open and records one row whenever it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.run = self._answer()

    def log(self, metrics: Mapping[str, float]) -> None:
        """Return when the call that records these has returned, over there."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(metrics) + "\n")
        self.process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that writes has ended"
        return line.strip()


@contextmanager
def writing(*arguments: object) -> Iterator[Writer]:
    """Start ``children/live_writer.py`` with these arguments; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "children" / "live_writer.py"), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Writer(process)
        assert process.stdin is not None
        process.stdin.close()
