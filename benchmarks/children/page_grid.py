"""Draw six charts of many runs: ``page_grid.py RUNS``; of what ``write_runs.py`` wrote.

The time is from the last answer with curves before all lines of all six are shown to the frame
that shows them: charts out of view are answered later.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from browsing import chromium, opened, started

CHARTS, WINDOW = 6, {"width": 1440, "height": 900}
ANSWERED = """(shown) => Math.max(...performance.getEntriesByType("resource")
  .filter((one) => /\\/curves$/.test(one.name) && one.responseEnd < shown)
  .map((one) => one.responseEnd))"""
runs = int(sys.argv[1])
has_all = f"(one) => one.uplot?.series.length > {runs}"
whole = f"[...document.querySelectorAll('.chart')].filter({has_all})"

with started("seamark") as behind, chromium() as browser:
    context = browser.new_context()
    page, _ = opened(
        context, behind.address, {"table": "document.querySelector('table.runs tbody tr')"}
    )
    asked = {"headers": {"X-Seamark-Token": behind.token}}
    body: dict[str, Any] = {"project": "default", "limit": runs}
    answer = page.request.post(f"{behind.place}r0/api/v1/read/select", data=body, **asked).json()
    page.close()
    chosen = ",".join(run for _, run in answer["answer"])
    view = behind.view(f"project=default&drawn={chosen}")
    for _ in range(2):  # what is drawn of a series is kept when it was read once
        conditions = {"all": f"{whole}.length >= {CHARTS}"}
        page, seen = opened(context, view, conditions, viewport=WINDOW)
        answered = page.evaluate(ANSWERED, seen["all"])
        page.close()
sample = {"all_ms": seen["all"], "drawn_ms": seen["all"] - answered}
print(json.dumps(sample))
