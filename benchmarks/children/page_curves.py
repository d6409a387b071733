"""Draw one series of many runs: ``page_curves.py RUNS``; of what ``write_runs.py`` wrote."""

from __future__ import annotations

import gzip
import json
import sys
import urllib.request
from typing import Any

from browsing import chromium, opened, started

PX, AT_FIRST = 1_000, 10
runs = int(sys.argv[1])


def lines(count: int) -> str:
    drawn = f"one.uplot && one.uplot.series.length > {count}"
    return f"[...document.querySelectorAll('.chart')].some((one) => {drawn})"


with started("seamark") as behind, chromium() as browser:
    context = browser.new_context()
    page, _ = opened(
        context, behind.address, {"table": "document.querySelector('table.runs tbody tr')"}
    )
    api = f"{behind.place}r0/api/v1"
    asked = {"headers": {"X-Seamark-Token": behind.token}}
    body: dict[str, Any] = {"project": "default", "limit": runs}
    refs = page.request.post(f"{api}/read/select", data=body, **asked).json()["answer"]
    body = {"refs": refs, "paths": ["metrics/loss"], "px": PX}
    request = urllib.request.Request(f"{api}/read/curves", json.dumps(body).encode())
    for name, value in (*asked["headers"].items(), ("Content-Type", "application/json")):
        request.add_header(name, value)
    request.add_header("Accept-Encoding", "gzip")
    with urllib.request.urlopen(request) as answer:
        sent = answer.read()
    curves = json.loads(gzip.decompress(sent))["answer"]["curves"]
    sample: dict[str, Any] = {"bytes": len(sent), "curves": len(curves)}
    page.close()
    chosen = ",".join(run for _, run in refs)
    view = behind.view(f"project=default&filter=metrics/loss&drawn={chosen}")
    conditions = {"first": lines(min(AT_FIRST, runs)), "all": lines(runs)}
    for _ in range(2):  # what is drawn of a series is kept when it was read once
        page, seen = opened(context, view, conditions)
        begun = page.evaluate(
            """() => Math.min(...performance.getEntriesByType("resource")
              .filter((one) => /\\/curves$/.test(one.name)).map((one) => one.startTime))"""
        )
        page.close()
    sample |= {f"{name}_ms": value for name, value in seen.items()}
    sample["asked_ms"] = begun
    sample["after_ms"] = seen["first"] - begun
print(json.dumps(sample))
