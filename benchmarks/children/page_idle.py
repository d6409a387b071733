"""Leave tabs of the page open: ``page_idle.py TABS SECONDS``; prints shares of a core."""

from __future__ import annotations

import json
import sys
import time

from browsing import chromium, opened, started

TABLE = "document.querySelector('table.runs tbody tr')"
SETTLED_S = 20
tabs, seconds = int(sys.argv[1]), float(sys.argv[2])

with started("seamark") as behind, chromium() as browser:
    context = browser.new_context()
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    pages = [opened(context, behind.address, {"table": TABLE})[0] for _ in range(tabs)]
    pages[0].wait_for_timeout(SETTLED_S * 1e3)
    asked.clear()
    before, begun = behind.cpu_s(), time.perf_counter()
    pages[0].wait_for_timeout(seconds * 1e3)
    took, after = time.perf_counter() - begun, behind.cpu_s()
share = (after - before) / took
print(json.dumps({"share": share, "requests": len(asked), "took_s": took}))
