"""Log beside a page, or alone: ``log_beside.py alone|page SECONDS``.

A training with steps of a fixed amount of work, about 2 ms. Steps and calls of ``log_metrics`` are
timed one by one. The page is open in a browser on the folder, with the charts of the run, and polls
every two seconds. Alone means beside a process that only counts: where the other core sleeps, a
call waits until it has woken.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import seamark

WORK = 80_000
METRICS = 10
how, seconds = sys.argv[1], float(sys.argv[2])
OPEN = """
import sys
from browsing import chromium, opened, started
with started("seamark") as behind, chromium() as browser:
    page, _ = opened(browser.new_context(), behind.view("project=default"),
                     {"chart": "document.querySelector('.chart canvas')"})
    polls = []
    page.on("response", lambda one: polls.append(one.url))
    print("open", flush=True)
    page.wait_for_timeout(float(sys.argv[1]) * 1e3)
    print(len([one for one in polls if "/changes" in one]), flush=True)
"""

run = seamark.init_run(capture={"packages": False, "git": False})
names = [f"train/metric_{number}" for number in range(METRICS)]
for step in range(1_000):
    run.log_metrics(dict.fromkeys(names, step * 0.001), step)
with contextlib.ExitStack() as stack:
    page = None
    if how == "alone":
        counting = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        stack.callback(counting.wait)
        stack.callback(counting.kill)
    else:
        command = [sys.executable, "-c", OPEN, str(seconds)]
        page = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert page.stdout is not None
        assert page.stdout.readline().strip() == "open"
    steps, calls, clock, step = [], [], time.perf_counter, 1_000
    end = clock() + seconds
    while (began := clock()) < end:
        values = dict.fromkeys(names, step * 0.001)
        for _ in range(WORK):
            pass
        before = clock()
        run.log_metrics(values, step)
        after = clock()
        steps.append(after - began)
        calls.append(after - before)
        step += 1
    polls = 0
    if page is not None:
        polls = int(page.stdout.readline())  # type: ignore[union-attr]
run.stop()
steps.sort()
calls.sort()
print(
    json.dumps(
        {
            "step_us": steps[len(steps) // 2] * 1e6,
            "call_us": calls[len(calls) // 2] * 1e6,
            "late_us": calls[len(calls) * 99 // 100] * 1e6,
            "polls": polls,
        }
    )
)
