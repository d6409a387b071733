"""Separate process that reads the folders of a page, and the interface to it.

Requests only read the index. The process that folds is separate from them: no request waits for a
fold of thousands of runs, and its memory is its own. It receives on its standard input which runs
are drawn, and reports on its standard output how far it is; the end of its input means that the
page has ended (`seamark.page.looking`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from seamark.page.roots import Root

__all__ = ["ASKED_S", "MOST_SHOWN", "SHOWN_S", "Looked", "Watch", "Watcher"]

ASKED_S: Final = 1.0
"""How often it is passed on that somebody asks, at most, seconds."""
SHOWN_S: Final = 300.0
"""How long after its curves were asked for a run still counts as drawn, seconds."""
MOST_SHOWN: Final = 400
"""How many runs of a root count as drawn: those that were asked for last."""
_RENEW_S: Final = 30.0
_MOST_BYTES: Final = getattr(select, "PIPE_BUF", 512)
"""So much goes into a pipe at once, or not at all."""
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0
_STOP_S: Final = 5.0
_RUN: Final = (
    "import sys\n"
    "sys.path[:] = [each for each in sys.path if each]\n"  # never what lies in the working folder
    "from seamark.page.looking import main\n"
    "sys.exit(main())\n"
)

Ref = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Looked:
    """Progress of reading one root.

    Attributes:
        looked_ns: Start of the last complete read of the whole root, nanoseconds since the Unix
            epoch; 0 before the first is complete.
        left: Number of runs that the current read has still to read; 0 if there is no current
            read, or if the number is not known yet.
        left_s: Estimated time for these, seconds; 0 if there is no estimate.
        runs: Number of runs in the index that are not in the trash.
        running: Number of these that are running.
        trouble: Reason why the root cannot be read; empty if it can.
        unread: Number of folders that may not be read.
        unread_first: The first of these: path and reason.
    """

    looked_ns: int = 0
    left: int = 0
    left_s: float = 0.0
    runs: int = 0
    running: int = 0
    trouble: str = ""
    unread: int = 0
    unread_first: Sequence[Sequence[str]] = ()


class Watch(Protocol):
    """Interface of a page to the process that reads its folders. No method waits."""

    def looked(self, root: int) -> Looked:
        """Return the progress of reading a root.

        Args:
            root: Its index among the roots of the page.
        """

    def shown(self, root: int, refs: Iterable[tuple[str, str]]) -> None:
        """Take note that runs are drawn: while they run, they are looked at every 2 seconds.

        They are let go of `SHOWN_S` after they were last named; whoever else looks at the page
        names others, which come beside them.

        Args:
            root: Its place among the roots of the page.
            refs: (project, run id) of the runs.
        """

    def look_now(self, root: int, refs: Iterable[tuple[str, str]] = ()) -> None:
        """Request a read of a root, or of only some of its runs, at once.

        Args:
            root: Its index among the roots of the page.
            refs: (project, run id) of the runs; none for all runs.
        """


class Watcher:
    """The process that looks, started again when it dies; used once.

    Args:
        roots: What it looks at.
        clock: Seconds, from any origin.
    """

    def __init__(self, roots: Sequence[Root], clock: Callable[[], float] = time.monotonic) -> None:
        self._roots, self._clock = [str(root.path) for root in roots], clock
        self._looked = [Looked() for _ in roots]
        self._shown: list[dict[Ref, float]] = [{} for _ in roots]
        """When the process was told of each run; the one that was told of last is last."""
        self._news = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._asked = -ASKED_S
        self._heard: set[int] = set()
        self._thread = threading.Thread(target=self._keep, name="seamark-watcher", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def looked(self, root: int) -> Looked:
        """See `Watch.looked`."""
        with self._news:
            return self._looked[root]

    def told(self, wait_s: float) -> bool:
        """Return whether something is known of each root; wait for that for so many seconds."""
        with self._news:
            return self._news.wait_for(lambda: len(self._heard) == len(self._looked), wait_s)

    def asked(self) -> None:
        """Take note that somebody looks at the page."""
        now = time.monotonic()
        if now - self._asked >= ASKED_S:
            self._asked = now
            self._send({"what": "asked"})

    def shown(self, root: int, refs: Iterable[tuple[str, str]]) -> None:
        """See `Watch.shown`."""
        now = self._clock()
        with self._news:
            known = self._shown[root]
            new = [ref for ref in dict.fromkeys(refs) if now - known.get(ref, -SHOWN_S) >= _RENEW_S]
            for ref in new[:MOST_SHOWN]:
                known.pop(ref, None)
                known[ref] = now
            for ref in list(known)[:-MOST_SHOWN]:
                del known[ref]
        self._tell("shown", root, new[:MOST_SHOWN])

    def look_now(self, root: int, refs: Iterable[tuple[str, str]] = ()) -> None:
        """See `Watch.look_now`."""
        self._tell("look", root, list(refs)[:MOST_SHOWN])

    def stop(self) -> None:
        """End the process, at once if it does not end by itself; harmless when called twice."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError, ValueError):
            assert process.stdin is not None  # noqa: S101 - a pipe, as asked for
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join(_STOP_S)

    # ------------------------------------------------------------------ the process

    def _keep(self) -> None:
        """Start the process and hear what it says; again when it has died."""
        pause_s = _FIRST_S
        while not self._stopping.is_set():
            began = time.monotonic()
            with contextlib.suppress(OSError):
                self._hear_one()
            if time.monotonic() - began > _LAST_S:
                pause_s = _FIRST_S
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LAST_S)

    def _hear_one(self) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [sys.executable, "-c", _RUN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches the page alone, which ends this
        )
        assert process.stdin is not None  # noqa: S101 - a pipe, as asked for
        assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
        try:
            with process.stdout as said:
                process.stdin.write(json.dumps({"roots": self._roots}).encode() + b"\n")
                os.set_blocking(process.stdin.fileno(), False)  # no answer waits for it
                self._process = process
                if self._stopping.is_set():
                    process.stdin.close()
                last = self._clock() - SHOWN_S
                with self._news:
                    shown = [[ref for ref, at in one.items() if at > last] for one in self._shown]
                for root, refs in enumerate(shown):
                    if refs:
                        self._tell("shown", root, refs)
                buffer = b""
                while data := said.read(1 << 16):
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        self._hear(line)
        finally:
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()
            process.wait()

    def _hear(self, line: bytes) -> None:
        try:
            told = json.loads(line)
            place = int(told.pop("root"))
            news = Looked(**told)
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        with self._news:
            if 0 <= place < len(self._looked):
                self._looked[place] = news
                self._heard.add(place)
                self._news.notify_all()

    def _tell(self, what: str, root: int, refs: list[Ref]) -> None:
        """Tell the process of runs, in lines of which each goes into the pipe as a whole."""
        line: list[Ref] = []
        size = 0
        for ref in refs:
            more = len(json.dumps(ref)) + 2
            if line and size + more > _MOST_BYTES - 100:
                self._send({"what": what, "root": root, "refs": line})
                line, size = [], 0
            line.append(ref)
            size += more
        if line or what == "look":
            self._send({"what": what, "root": root, "refs": line})

    def _send(self, message: dict[str, Any]) -> None:
        """Tell the process something, if it can hear it now."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(json.dumps(message).encode() + b"\n")
