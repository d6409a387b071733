"""A training that is killed, again and again; started by ``test_sigkill.py``.

``python killed.py ROOT KILLS SEED`` forks a child for each kill. The child makes the calls that
`calls` lists and says after each that it returned; it is killed with SIGKILL at a random moment.
For each kill one line of JSON tells the run's id, the seed of its calls, and how many had returned.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = [f"train/m{number}" for number in range(6)]
SLOWEST_START_S = 0.04


def calls(seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield verbs with their arguments, without end; the same ones for the same seed."""
    draw = random.Random(seed)
    step = 0
    while True:
        step += 1
        kind = draw.random()
        if kind < 0.6:
            yield "row", {path: draw.random() for path in PATHS[:4]}, step
        elif kind < 0.75:
            yield "row", dict.fromkeys(draw.sample(PATHS, 3), step), None
        elif kind < 0.8:
            yield "append", draw.choice(PATHS), draw.random()
        elif kind < 0.85:
            yield "extend", "history", [draw.random()] * draw.choice([1, 10, 1000, 50_000])
        elif kind < 0.9:
            yield "text", "log", f"line {step} " + "x" * draw.choice([0, 10, 100_000])
        elif kind < 0.97:
            yield "assign", f"params/p{step % 7}", step
        else:
            yield "tag", draw.choice(["add", "remove"]), f"t{step % 3}"


def make(run: Any, verb: str, *given: Any) -> None:
    if verb == "row":
        run.log_metrics(given[0], given[1])
    elif verb in ("append", "text"):
        run[given[0]].append(given[1])
    elif verb == "extend":
        run[given[0]].extend(given[1])
    elif verb == "assign":
        run[given[0]] = given[1]
    else:
        getattr(run["sys/tags"], given[0])(given[1])


class Model:
    """What a run holds after a number of calls, by the rules of the manual alone."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.last: dict[str, float] = {}
        self.texts: list[str] = []
        self.atoms: dict[str, int] = {}
        self.tags: set[str] = set()

    def take(self, verb: str, *given: Any) -> None:
        if verb == "row":
            values, step = given
            known = [self.last[path] for path in values if path in self.last]
            at = step if step is not None else max(known) + 1 if known else 0
            for path, value in values.items():
                self._point(path, at, value)
        elif verb == "append":
            self._point(given[0], self.last.get(given[0], -1) + 1, given[1])
        elif verb == "extend":
            for value in given[1]:
                self._point(given[0], self.last.get(given[0], -1) + 1, value)
        elif verb == "text":
            self.texts.append(given[1])
        elif verb == "assign":
            self.atoms[given[0]] = given[1]
        elif given[0] == "add":
            self.tags.add(given[1])
        else:
            self.tags.discard(given[1])

    def _point(self, path: str, step: float, value: float) -> None:
        self.last[path] = step
        self.series[path].append((step, value))

    def state(self) -> dict[str, Any]:
        """Return everything, series sorted by step as they are read (stable)."""
        series = {path: sorted(points, key=lambda p: p[0]) for path, points in self.series.items()}
        return {"series": series, "texts": self.texts, "atoms": self.atoms, "tags": self.tags}


def train(root: str, run_id: str, seed: int, said: int) -> None:
    """Record until killed; after each call that returned, say so with one byte."""
    from seamark import init_run

    quiet = ("git", "script", "packages", "host", "signals")
    run = init_run(
        "killed",
        root=root,
        custom_run_id=run_id,
        capture=dict.fromkeys(quiet, False),
        capture_traceback=False,
    )
    for call in calls(seed):
        make(run, *call)
        os.write(said, b".")


def kill_one(root: str, run_id: str, seed: int, draw: random.Random) -> int:
    """Return how many calls had returned when the child was killed."""
    hear, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hear)
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - ends with the process
        try:
            train(root, run_id, seed, say)
        finally:
            os._exit(1)  # only reached if something raised: seen as a status that is no SIGKILL
    os.close(say)
    deadline = time.monotonic() + draw.uniform(0.0, SLOWEST_START_S) + draw.choice([0, 0.05, 0.2])
    returned = 0
    while (left := deadline - time.monotonic()) > 0:
        if select.select([hear], [], [], left)[0]:
            if not (data := os.read(hear, 1 << 16)):
                break
            returned += len(data)
    os.kill(pid, signal.SIGKILL)
    while data := os.read(hear, 1 << 16):
        returned += len(data)
    os.close(hear)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status), f"the training ended by itself: {status}"
    return returned


def main(root: str, kills: int, seed: int) -> None:
    # What is slow to import would only put off the first kill.
    from seamark.journal import writer

    draw = random.Random(seed)
    # Rounds of the sync thread, heartbeats and new journals shall fall under the kills too.
    writer.ROTATE_BYTES = 300_000  # type: ignore[misc]
    defaults = writer.JournalWriter.__init__.__kwdefaults__
    defaults["sync_s"], defaults["heartbeat_s"] = 0.003, 0.005
    for number in range(kills):
        run_id, own = f"run{number}", draw.randrange(1 << 30)
        returned = kill_one(root, run_id, own, draw)
        print(json.dumps({"run": run_id, "seed": own, "returned": returned}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
