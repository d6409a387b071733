"""Train several runs at once and send them: ``send_live.py URL TOKEN RUNS CALLS METRICS``.

A call each in turn, without a pause: more than trainings do. What a batch took until it was
acknowledged is measured around the sender's own call.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from log_calls import captures_of
from timed_loop import cpu_s

import seamark
from seamark.remote.http.sender import HttpRemote

if TYPE_CHECKING:
    from seamark.remote.protocol import Sent

url, token, runs, calls, metrics = *sys.argv[1:3], *map(int, sys.argv[3:])
os.environ["SEAMARK_API_TOKEN"] = token
names = [f"train/metric_{number:03}" for number in range(metrics)]
took_ms: list[float] = []
positions: dict[str, int] = {}
send = HttpRemote.send


def timed(self: HttpRemote, run: Any, *rest: Any) -> Sent:
    begun = time.perf_counter()
    sent = send(self, run, *rest)
    took_ms.append((time.perf_counter() - begun) * 1e3)
    positions[f"{run.project}/{run.run}"] = sent.position
    return sent


HttpRemote.send = timed  # type: ignore[method-assign]
opened = [seamark.init_run(remote=url, **captures_of(on=False)) for _ in range(runs)]
begun = time.time()
for step in range(calls):
    for run in opened:
        run.log_metrics(dict.fromkeys(names, step * 0.001), step)
logged = time.time()
for run in opened:
    run.stop()
print(
    json.dumps(
        {
            "begun": begun,
            "logged": logged,
            "acknowledged": time.time(),
            "took_ms": took_ms,
            "positions": positions,
            "cpu_s": cpu_s(),
        }
    )
)
