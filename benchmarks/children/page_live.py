"""Leave the page open while a run goes on: ``page_live.py POLLS``.

The page's timers run five hundred times as fast, so that many polls pass in a short time; the
folder is looked at in real time, every two seconds, and a row is recorded every 20 ms. Prints what
the page held after an hour of polls (1,800) and at the end beside what it held when it had warmed
up.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

from browsing import chromium, opened, started, throttled, used_mb
from timed_reads import Writer, writing

HOUR, WARM = 1_800, 300
CHART = "document.querySelector('.chart canvas')"
FAST = """
const slow = window.setTimeout;
window.setTimeout = (call, ms = 0, ...rest) => slow(call, ms < 1000 ? ms : ms / 500, ...rest);
"""
ROWS = 3_000
polls = int(sys.argv[1])


def log(writer: Writer, number: int) -> None:
    writer.log({f"train/metric_{at}": number % 97 + at for at in range(5)})


with writing("seamark", 10) as writer:
    for number in range(ROWS):  # more than a chart has pixels: what is drawn no longer grows
        log(writer, number)
    with started("seamark") as behind, chromium() as browser:
        context = browser.new_context()
        context.add_init_script(FAST)
        page, _ = opened(context, behind.view("project=default"), {"chart": CHART})
        session = throttled(page, 1)
        heard = {"polls": 0, "news": 0}

        def hear(response: Any) -> None:
            if "/changes" in response.url:
                heard["polls"] += 1
                heard["news"] += response.status == 200

        page.on("response", hear)
        rows = itertools.count(ROWS)

        def pass_by(count: int) -> None:
            """Let so many polls be answered."""
            end = heard["polls"] + count
            while heard["polls"] < end:
                log(writer, next(rows))
                page.wait_for_timeout(20)

        def held() -> dict[str, float]:
            used = used_mb(session)
            elements = page.evaluate("() => document.querySelectorAll('*').length")
            return {**used, "server_mb": behind.resident_mb(), "elements": elements, **heard}

        pass_by(WARM)
        sample: dict[str, Any] = {"before": held()}
        pass_by(min(HOUR, polls) - WARM)
        sample["hour"] = held()
        pass_by(max(0, polls - HOUR))
        sample["after"] = held()
print(json.dumps(sample))
