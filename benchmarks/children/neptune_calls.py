"""Calls of the package neptune in its sync mode: ``neptune_calls.py ROUNDS``; it says where it is.

Beside them, in turn and on the same connections: a call of the same library that writes nothing,
and a bare GET through its session.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import neptune
from neptune.internal.backends.hosted_client import DEFAULT_REQUEST_KWARGS

AT_ONCE = 25
run = neptune.init_run(
    mode="sync",
    capture_hardware_metrics=False,
    capture_stdout=False,
    capture_stderr=False,
    source_files=[],
)
backend = run._backend  # noqa: SLF001 - nothing public leads to it
session = backend.leaderboard_client.swagger_spec.http_client.session
address = backend._client_config.api_url  # noqa: SLF001
config = backend.backend_client.api.getClientConfig


def append() -> None:
    run["series"].append(0.5)


def assign() -> None:
    run["value"] = 0.5


def read() -> None:
    config(**DEFAULT_REQUEST_KWARGS).response()


def get() -> None:
    assert session.get(f"{address}/api/backend/v1/clients/config").status_code == 200


calls = {"append": append, "assign": assign, "read": read, "get": get}
took: dict[str, list[float]] = {name: [] for name in calls}
cpu_s = dict.fromkeys(calls, 0.0)
names = list(calls)
for turn in range(-1, int(sys.argv[1])):
    for name in names[turn % 4 :] + names[: turn % 4]:
        before_s = time.thread_time()
        for _ in range(AT_ONCE):
            begun = time.perf_counter()
            calls[name]()
            if turn >= 0:  # the first one is to be warm
                took[name].append(time.perf_counter() - begun)
        cpu_s[name] += (time.thread_time() - before_s) * (turn >= 0)
run.stop()
found = {f"{name}_ms": statistics.median(times) * 1e3 for name, times in took.items()}
found |= {f"{name}_cpu_ms": cpu_s[name] / len(took[name]) * 1e3 for name in calls}
print(json.dumps(found))
