"""Send a server what Neptune's client sends it, without it: ``neptune_requests.py KIND BATCHES``.

The operations of every batch are made before; each batch is sent once the last was answered. With
the kind ``attributes`` a run is read instead.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from seamark.neptune.server.answers import BY_NAME

OPERATIONS, ATTRIBUTES, READS = 1000, 5000, 20
connection = http.client.HTTPConnection(urlsplit(os.environ["BENCH_URL"]).netloc)
headers = {
    "Authorization": f"Bearer {os.environ['BENCH_TOKEN']}",
    "Content-Type": "application/json",
}


def call(name: str, body: Any = None, **query: str) -> bytes:
    operation = BY_NAME[name]
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    connection.request(
        operation.method, f"{operation.path}?{urlencode(query)}", data, headers=headers
    )
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return text


def new_run() -> str:
    given = {"projectIdentifier": "bench/neptune", "type": "run"}
    return str(json.loads(call("createExperiment", given))["id"])


def point(path: str, value: float) -> dict[str, Any]:
    entry = {"value": value, "timestampMilliseconds": time.time_ns() // 1_000_000}
    return {"path": path, "logFloats": {"entries": [entry]}}


def assigned(path: str, value: float) -> dict[str, Any]:
    return {"path": path, "assignFloat": {"value": value}}


BATCHES = {
    "one series": lambda _: [point("loss", each) for each in range(OPERATIONS)],
    "100 series": lambda _: [point(f"metrics/{each % 100}", each) for each in range(OPERATIONS)],
    "values": lambda number: [assigned(f"values/{each}", number) for each in range(OPERATIONS)],
    "new values": lambda number: [
        assigned(f"values/{number}/{each}", number) for each in range(OPERATIONS)
    ],
}
kind, batches = sys.argv[1], int(sys.argv[2])
run = new_run()
if kind == "attributes":
    for first in range(0, ATTRIBUTES, OPERATIONS):
        some = range(first, first + OPERATIONS)
        given = [(point if each % 2 else assigned)(f"a/{each}", 0.5) for each in some]
        assert call("executeOperations", given, experimentId=run) == b"[]"
    took = []
    for _ in range(READS + 1):
        begun = time.perf_counter()
        told = call("getExperimentAttributes", experimentId=run)
        took.append(time.perf_counter() - begun)
    assert len(json.loads(told)["attributes"]) >= ATTRIBUTES
    print(json.dumps({"ms": statistics.median(took[1:]) * 1e3}))
    sys.exit()
bodies = [json.dumps(BATCHES[kind](number)).encode() for number in range(batches)]
begun = time.perf_counter()
for body in bodies:
    assert call("executeOperations", body, experimentId=run) == b"[]"
rate = OPERATIONS * batches / (time.perf_counter() - begun)
call("executeOperations", [assigned("done", 1.0)], experimentId=run)
call("getFloatAttribute", experimentId=run, attribute="done")  # waits until all is folded
print(json.dumps({"rate": rate}))
