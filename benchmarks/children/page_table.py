"""Turn, sort and query the page's table: ``page_table.py TIMES``.

The CPU time is that of the process that answers: until the rows are shown, and with all that the
page asks after them (curves, losses, attempts) until nothing more comes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from browsing import changed_by, chromium, opened, started

TABLE = "document.querySelector('table.runs tbody tr')"
QUIET_S = 1.5
times = int(sys.argv[1])
sample: dict[str, Any] = {}

with started("seamark") as behind, chromium() as browser:
    context = browser.new_context()
    opened(context, behind.address, {"table": TABLE})[0].close()
    page, _ = opened(context, behind.view("project=default"), {"table": TABLE})
    page.keyboard.press("Escape")
    field = page.locator("[data-key='/']")
    time.sleep(5)

    def measure(name: str, acts: list[Callable[[], Any]], *kinds: str) -> None:
        shown, until_shown, whole = [], [], []
        for act in acts:
            before = behind.cpu_s()
            shown.append(changed_by(page, act, kinds or ("click",)))
            until_shown.append((behind.cpu_s() - before) * 1e3)
            time.sleep(QUIET_S)
            whole.append((behind.cpu_s() - before) * 1e3)
        sample[f"{name}_ms"] = statistics.median(shown)
        # The system counts CPU time in steps of 10 ms: the mean says more than the middle one.
        sample[f"{name}_cpu_ms"] = statistics.mean(until_shown)
        sample[f"{name}_all_cpu_ms"] = statistics.mean(whole)

    def ask(query: str) -> Callable[[], Any]:
        def act() -> None:
            field.fill(query)
            time.sleep(QUIET_S / 3)
            field.press("Enter")

        return act

    turn = page.get_by_role("button", name="Next")
    measure("turn", [turn.click] * times)
    columns = page.locator("table.runs thead button").evaluate_all(
        "(all) => all.map((one) => one.title)"
    )
    some = [title for title in columns if title.startswith("Sort by")][:times]
    sorts = [page.get_by_title(title, exact=True).first.click for title in some]
    measure("sort", sorts)
    queries = [f"parameters/model/width_0 > {100 * (1 + number)}" for number in range(times)]
    # From the key that sends it: what is typed is completed, which is not what is measured.
    measure("query", [ask(query) for query in queries], "keydown")
print(json.dumps(sample))
