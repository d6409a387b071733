"""Open a page of curves in a browser: ``open_page.py seamark|tensorboard|trackio THROTTLE``.

Starts what shows what lies in the working directory, opens it twice in the system's Chromium (the
second time is what is reported: everything has been read), and prints when what a person waits for
was shown, milliseconds.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

from browsing import changed_by, chromium, opened, started

TABLE = "document.querySelector('table.runs tbody tr')"
DRAWN = {
    "seamark": "document.querySelector('.chart canvas')",
    "tensorboard": "document.querySelector('line-chart canvas, vz-line-chart2 svg path')",
    "trackio": "document.querySelector('.vega-embed canvas, .vega-embed svg path')",
}
which, throttle = sys.argv[1], float(sys.argv[2])
conditions = {"table": TABLE} if which == "seamark" else {}
conditions["chart"] = DRAWN[which]

begun = time.perf_counter()
sample: dict[str, Any] = {}
with started(which) as behind, chromium() as browser:
    sample["address_s"] = time.perf_counter() - begun
    context = browser.new_context()
    if which == "seamark":
        before = time.perf_counter()
        page, first = opened(context, behind.address, {"table": TABLE})
        launched = before - begun - sample["address_s"]
        sample["rows_s"] = time.perf_counter() - begun - launched
        asked = {"headers": {"X-Seamark-Token": behind.token}}
        looked = partial(
            page.request.post, f"{behind.place}r0/api/v1/read/projects", data={}, **asked
        )
        while "seamark-left" in looked().headers:  # runs that nobody has read before
            time.sleep(0.5)
    else:
        page, _ = opened(context, behind.address, conditions)
        time.sleep(10)  # it goes on reading after it has shown something
    page.close()
    page, seen = opened(context, behind.address, conditions, throttle)
    sample |= {f"{name}_ms": value for name, value in seen.items()}
    if which == "seamark":
        button = page.get_by_title("Sort by sys/name", exact=True)
        sample["sort_ms"] = changed_by(page, button.click)
print(json.dumps(sample))
