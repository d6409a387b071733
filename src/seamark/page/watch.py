"""Thread that reads the folders of a page: intervals and order of reads.

Requests only read the index. `Looker` schedules the reads of a root; `Watcher` is the thread that
folds new records.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from seamark.index.index import Index
from seamark.page.roots import Root
from seamark.reading.catalog import Ref, Selection
from seamark.server.access import Looked

PAUSE_S: Final = 2.0
"""Minimum pause between scans while the page is open, in seconds."""
IDLE_S: Final = 60.0
"""Minimum pause between scans while the page is closed, in seconds."""
FORGET_S: Final = 30.0
"""Time without a request until the page counts as closed, in seconds; a tab polls every 10 s."""
SHARE: Final = 20
"""Minimum ratio of a pause to the preceding scan, so that scans take at most 5 % of the time."""
CALM_SHARE: Final = 100
"""Minimum ratio of a pause to the CPU time of the preceding scan while no run is live, up to
`CALM_S`, so that open tabs take 1 % of a core for any number of runs."""
CALM_S: Final = 10.0
QUICK_S: Final = 0.1
"""Time limit for reading single runs in one step, in seconds: 5 % of a pause."""
SHOWN_S: Final = 300.0
"""Time after a request for its curves during which a run counts as shown, in seconds."""
MOST_SHOWN: Final = 400
"""Maximum number of runs of a root that count as shown, the most recently requested ones."""
_COUNT_S: Final = 2.0
_STOP_S: Final = 2.0
_MAX_LISTED: Final = 5
"""Maximum number of unreadable folders to list."""
_MAX_PATH: Final = 1000


class Looker:
    """Scheduled reader of one root; `note_request` to `rebuild` may be called by any thread.

    `cpu` returns the CPU time of the current thread in seconds. `now` is the current progress.
    `looks` counts reads of the whole root, `quick` reads of single runs.
    """

    def __init__(
        self,
        index: Index,
        report: Callable[[Looked], Any],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._index, self._report, self._clock, self._cpu = index, report, clock, cpu
        self._wake = wake
        self.now = Looked()
        self._lock = threading.Lock()
        self._shown: dict[Ref, float] = {}
        self._running: list[Ref] = []
        self._edited: set[Ref] = set()
        self._next_index = [0, 0]
        self._asked_at = clock()
        self._ended_at = self._quick_at = clock()
        self._scan_s = self._scan_cpu_s = self._quick_s = 0.0
        self._begun_s = self._counted_at = 0.0
        self._is_requested, self._damaged = True, False
        self.looks = self.quick = 0

    def note_request(self) -> None:
        """Note that the page is being viewed."""
        self._asked_at = self._clock()
        self._wake()

    def shown(self, refs: Iterable[Ref]) -> None:
        """Note that runs are displayed, in addition to earlier ones.

        While they run, they are read every 2 seconds. This ends `SHOWN_S` after their last mention.
        """
        with self._lock:
            for ref in refs:
                self._shown.pop(ref, None)
                self._shown[ref] = self._clock()
            for ref in list(self._shown)[:-MOST_SHOWN]:
                del self._shown[ref]
        self.note_request()

    def look_now(self, refs: Iterable[Ref] = ()) -> None:
        """Schedule a read of the root, or of some edited runs, as soon as possible."""
        if edited := set(refs):
            self._edited |= edited
        else:
            self._is_requested = True
        self.note_request()

    def rebuild(self) -> None:
        """Rebuild the damaged index in the next read."""
        self._damaged = True
        self.look_now()

    def due(self) -> float:
        """Return the time of the next work, by the clock."""
        if self._edited:
            return self._clock()
        soon = [self._full_at()]
        if self._is_watched() and self._running:
            soon.append(self._quick_at + max(PAUSE_S, SHARE * self._quick_s))
        return min(soon)

    def step(self) -> None:
        """Do the work that is due."""
        while self._edited:
            self._look_at(self._edited.pop())
        if self._clock() >= self._full_at():
            self._look_at_all()
        elif self._clock() >= self.due():
            self._look_at_some()

    def _is_watched(self) -> bool:
        return self._clock() - self._asked_at < FORGET_S

    def _full_at(self) -> float:
        if self._is_requested:  # half of the time at most, however often it is requested
            return self._ended_at + self._scan_s
        pause_s = PAUSE_S if self._is_watched() else IDLE_S
        if not self._running:
            pause_s = max(pause_s, min(CALM_SHARE * self._scan_cpu_s, CALM_S))
        return self._ended_at + max(pause_s, SHARE * self._scan_s)

    # ------------------------------------------------------------------ reading

    def _look_at_all(self) -> None:
        self._is_requested = False
        self.looks += 1
        cpu_s = self._cpu()
        began_ns, self._begun_s = self._index.now_ns(), self._clock()
        trouble = ""
        looked_ns = self.now.looked_ns
        try:
            if not looked_ns:
                self._count()
                self._report(self.now)
            if self._damaged:
                self._index.rebuild(progress=self._progress)
                self._damaged = False
            else:
                self._index.refresh(progress=self._progress)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
            trouble = f"{type(error).__name__}: {error}"
        else:
            looked_ns = began_ns
            if self._index.file is None:
                trouble = "the index can no longer be written"
        with contextlib.suppress(Exception):  # a repeated error is already reported
            self._count()
        unread = self._index.unread()
        self.now = replace(
            self.now,
            looked_ns=looked_ns,
            left=0,
            left_s=0.0,
            trouble=trouble,
            unread=len(unread),
            unread_first=[(one.path[:_MAX_PATH], one.why) for one in unread[:_MAX_LISTED]],
        )
        self._ended_at = self._quick_at = self._clock()
        self._scan_s, self._scan_cpu_s = self._ended_at - self._begun_s, self._cpu() - cpu_s
        self._report(self.now)

    def _progress(self, done: int, of: int) -> None:
        now = self._clock()
        if now - self._counted_at >= _COUNT_S:
            self._count()
        spent, left = now - self._begun_s, of - done
        left_s = round(spent / done * left, 1) if done and spent > 1 else 0.0
        self.now = replace(self.now, left=left, left_s=left_s)
        self._report(self.now)

    def _count(self) -> None:
        runs = self._index.select(Selection(trashed=False))
        running = self._index.select(Selection(trashed=False, state="running"))
        self._running = running
        self.now = replace(self.now, runs=len(runs), running=len(running))
        self._counted_at = self._clock()

    def _look_at_some(self) -> None:
        # Displayed runs come first. Within each group, runs take turns.
        began = self._clock()
        running = set(self._running)
        with self._lock:
            drawn = {ref: at for ref, at in self._shown.items() if began - at < SHOWN_S}
        kinds = (
            [ref for ref in drawn if ref in running],
            [ref for ref in self._running if ref not in drawn],
        )
        for kind, refs in enumerate(kinds):
            start = self._next_index[kind] % len(refs) if refs else 0
            for ref in [*refs[start:], *refs[:start]]:
                if self._clock() - began >= QUICK_S:
                    break
                self._look_at(ref)
                self._next_index[kind] += 1
        self._quick_at = self._clock()
        self._quick_s = self._quick_at - began

    def _look_at(self, ref: Ref) -> None:
        with contextlib.suppress(Exception):  # reported by the next full read
            self._index.refresh(*ref)
        self.quick += 1


class Watcher:
    """Thread that reads the folders of a page, started once; no request waits for it.

    `lookers` are the readers of the roots, in their order.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._news = threading.Condition()
        self._wake = threading.Event()
        self.lookers = [
            Looker(Index.open(root.path), self._notify, wake=self._wake.set) for root in roots
        ]
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="seamark-watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def looked(self, root: int) -> Looked:
        """Return the progress of reading a root, given its index in the page."""
        return self.lookers[root].now

    def wait_for_roots(self, wait_s: float) -> bool:
        """Wait up to ``wait_s`` seconds until every root has been read; return whether it has."""
        with self._news:
            return self._news.wait_for(
                lambda: all(one.now.looked_ns or one.now.trouble for one in self.lookers), wait_s
            )

    def note_request(self) -> None:
        """Note that the page is being viewed."""
        for one in self.lookers:
            one.note_request()

    def stop(self) -> None:
        """Stop the thread; a slow one ends with the process. Harmless when called twice."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _notify(self, _: Looked) -> None:
        if self._stopping:
            sys.exit()  # only this thread: unsaved records will be folded again
        with self._news:
            self._news.notify_all()

    def _run(self) -> None:
        while not self._stopping:
            for one in self.lookers:
                one.step()
            due = min(one.due() for one in self.lookers)
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
