"""The process that looks at the folders of a page and folds what is new.

It is started by `seamark.page.watch` only. What it hears and says are lines of JSON::

    {"roots": [path, ...]}                       the first line it hears
    {"what": "asked"}                            somebody looks at the page
    {"what": "shown", "root": 0, "refs": [...]}  these runs are drawn
    {"what": "look", "root": 0, "refs": []}      look at this root at once, or at these runs
    {"root": 0, "looked_ns": ..., "left": ...}   what it says; see `seamark.page.watch.Looked`
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.page.watch import MOST_SHOWN, SHOWN_S, Looked

if TYPE_CHECKING:
    from seamark.index.index import Index

__all__ = ["Looker", "main"]

Ref = tuple[str, str]

PAUSE_S: Final = 2.0
"""How long after a look the next one begins, seconds, while somebody looks at the page."""
IDLE_S: Final = 60.0
"""The same while nobody does."""
FORGET_S: Final = 30.0
"""Nobody looks at the page who has not asked for so long, seconds: a tab asks every 10."""
SHARE: Final = 20
"""Pauses are so many times as long as what is done between them: looking takes 5 % of the time."""
CALM_SHARE: Final = 100
"""While nothing runs, pauses are also so many times as long as the processor time of a look, up to
`CALM_S`: tabs that are left open take 1 % of a core, however many runs there are."""
CALM_S: Final = 10.0
QUICK_S: Final = 0.1
"""How long single runs are looked at in one go, seconds: 5 % of a pause."""
_SAY_S: Final = 0.25
_COUNT_S: Final = 2.0
_STOP_S: Final = 2.0
_FIRST: Final = 5
"""So many of the folders are named that cannot be looked into."""
_LONG: Final = 1000
_NICE: Final = 5
"""Trainings on this machine come first."""


class Looker:
    """Looks at one root, as often as it should.

    Args:
        index: Of the root; only this looks at it.
        say: Is told how far it is.
        clock: Seconds, from any origin.
        cpu: Seconds that the processor was busy with this process.

    Attributes:
        looks: How often it looked at the whole root.
        quick: How often it looked at a single run.
    """

    def __init__(
        self,
        index: Index,
        say: Callable[[Looked], Any],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._index, self._say, self._clock, self._cpu = index, say, clock, cpu
        self._now = Looked()
        self._shown: dict[Ref, float] = {}
        self._running: list[Ref] = []
        self._edited: list[Ref] = []
        self._turns = [0, 0]
        self._asked_at = clock()
        self._ended_at = self._quick_at = clock()
        self._took_s = self._cpu_s = self._quick_s = 0.0
        self._begun_s = self._said_at = self._counted_at = 0.0
        self._at_once = True
        self.looks = self.quick = 0

    def asked(self) -> None:
        """Take note that somebody looks at the page."""
        self._asked_at = self._clock()

    def shown(self, refs: Iterable[Ref]) -> None:
        """Take note that runs are drawn, beside those that are already."""
        for ref in refs:
            self._shown.pop(ref, None)
            self._shown[ref] = self._clock()
        for ref in list(self._shown)[:-MOST_SHOWN]:
            del self._shown[ref]
        self.asked()

    def look_now(self, refs: Iterable[Ref] = ()) -> None:
        """Make the next read due at once, or as long after the last one as that took.

        Args:
            refs: Read only these runs, which were edited; none for all.
        """
        if edited := list(refs):
            self._edited = list(dict.fromkeys([*self._edited, *edited]))
        else:
            self._at_once = True
        self.asked()

    def due(self) -> float:
        """Return when there is something to do, on the clock."""
        if self._edited:
            return self._clock()
        soon = [self._full_at()]
        if self._is_watched() and self._running:
            soon.append(self._quick_at + max(PAUSE_S, SHARE * self._quick_s))
        return min(soon)

    def step(self) -> None:
        """Do what is due, if anything is."""
        while self._edited:
            self._look_at(self._edited.pop(0))
        if self._clock() >= self._full_at():
            self._look_at_all()
        elif self._clock() >= self.due():
            self._look_at_some()

    def _is_watched(self) -> bool:
        return self._clock() - self._asked_at < FORGET_S

    def _full_at(self) -> float:
        if self._at_once:  # half of the time at most, however often somebody wants it
            return self._ended_at + self._took_s
        pause_s = PAUSE_S if self._is_watched() else IDLE_S
        if not self._running:
            pause_s = max(pause_s, min(CALM_SHARE * self._cpu_s, CALM_S))
        return self._ended_at + max(pause_s, SHARE * self._took_s)

    # ------------------------------------------------------------------ looking

    def _look_at_all(self) -> None:
        self._at_once = False
        self.looks += 1
        cpu_s = self._cpu()
        began_ns, self._begun_s = self._index.now_ns(), self._clock()
        trouble = ""
        try:
            if not self._now.looked_ns:
                self._count()
                self._say(self._now)
            self._index.refresh(progress=self._progress)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
            trouble = f"{type(error).__name__}: {error}"
        else:
            self._now = replace(self._now, looked_ns=began_ns)
            if self._index.file is None:
                trouble = "the index cannot be written any more"
        with contextlib.suppress(Exception):  # the same trouble, if any
            self._count()
        unread = self._index.unread()
        self._now = replace(
            self._now,
            left=0,
            left_s=0.0,
            trouble=trouble,
            unread=len(unread),
            unread_first=[(one.path[:_LONG], one.why) for one in unread[:_FIRST]],
        )
        self._ended_at = self._quick_at = self._clock()
        self._took_s, self._cpu_s = self._ended_at - self._begun_s, self._cpu() - cpu_s
        self._say(self._now)

    def _progress(self, done: int, of: int) -> None:
        now = self._clock()
        if now - self._said_at < _SAY_S and done:
            return
        self._said_at = now
        if now - self._counted_at >= _COUNT_S:
            self._count()
        spent, left = now - self._begun_s, of - done
        left_s = round(spent / done * left, 1) if done and spent > 1 else 0.0
        self._now = replace(self._now, left=left, left_s=left_s)
        self._say(self._now)

    def _count(self) -> None:
        from seamark.store.query.selection import Selection

        runs = self._index.select(Selection(trashed=False))
        running = self._index.select(Selection(trashed=False, state="running"))
        self._running = running
        self._now = replace(self._now, runs=len(runs), running=len(running))
        self._counted_at = self._clock()

    def _look_at_some(self) -> None:
        """Look at runs that are running, one by one, until it is enough for now.

        Those that are drawn come first, each time; of either kind, those whose turn it is.
        """
        began = self._clock()
        running = set(self._running)
        drawn = {ref: at for ref, at in self._shown.items() if began - at < SHOWN_S}
        self._shown = drawn
        kinds = (
            [ref for ref in drawn if ref in running],
            [ref for ref in self._running if ref not in drawn],
        )
        for kind, refs in enumerate(kinds):
            start = self._turns[kind] % len(refs) if refs else 0
            for ref in [*refs[start:], *refs[:start]]:
                if self._clock() - began >= QUICK_S:
                    break
                self._look_at(ref)
                self._turns[kind] += 1
        self._quick_at = self._clock()
        self._quick_s = self._quick_at - began

    def _look_at(self, ref: Ref) -> None:
        with contextlib.suppress(Exception):  # told by the next look at everything
            self._index.refresh(*ref)
        self.quick += 1


class _Once(logging.Filter):
    """Says each thing once: a run that cannot be read cannot be at the next look either."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        words = record.getMessage()
        new = words not in self._said and len(self._said) < 1000  # noqa: PLR2004 - enough for a person
        self._said.add(words) if new else None
        return new


def main() -> int:
    """Look until the input ends."""
    from seamark.index.index import Index

    with contextlib.suppress(OSError):
        os.nice(_NICE)
    logging.getLogger("seamark").addFilter(_Once())
    out = os.dup(1)
    os.dup2(2, 1)  # whatever prints does not come between the lines
    paths = json.loads(sys.stdin.buffer.readline())["roots"]

    def say(root: int, looked: Looked) -> None:
        with contextlib.suppress(OSError):  # the page is gone, which the input tells as well
            os.write(out, json.dumps({"root": root, **asdict(looked)}).encode() + b"\n")

    lookers = [
        Looker(Index.open(Path(path)), partial(say, root)) for root, path in enumerate(paths)
    ]
    heard = _Heard(lookers)
    threading.Thread(target=heard.listen, name="seamark-page", daemon=True).start()
    while heard.wait(min((one.due() for one in lookers), default=0.0) - time.monotonic()):
        for one in lookers:
            one.step()
    return 0


class _Heard:
    """Messages of the page, received by one thread and handled by another between two reads."""

    def __init__(self, lookers: list[Looker]) -> None:
        self._lookers = lookers
        self._lines: list[bytes] = []
        self._ended = False
        self._news = threading.Condition()

    def listen(self) -> None:
        """Receive messages until the page ends; then end this process, even during a fold."""
        for line in sys.stdin.buffer:
            with self._news:
                self._lines.append(line)
                self._news.notify()
        with self._news:
            self._ended = True
            self._news.notify()
        time.sleep(_STOP_S)
        os._exit(0)  # an index is a cache: what was not saved is folded again

    def wait(self, wait_s: float) -> bool:
        """Wait at most so many seconds for messages; return False once the page has ended."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._ended, max(0.0, wait_s))
            lines, self._lines = self._lines, []
            ended = self._ended
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, LookupError):
                self._take(json.loads(line))
        return not ended

    def _take(self, message: dict[str, Any]) -> None:
        what = message["what"]
        if what == "asked":
            for one in self._lookers:
                one.asked()
        elif what == "shown":
            self._lookers[message["root"]].shown(_refs(message))
        elif what == "look":
            self._lookers[message["root"]].look_now(_refs(message))


def _refs(message: dict[str, Any]) -> list[Ref]:
    return [(str(project), str(run)) for project, run in message["refs"]]
