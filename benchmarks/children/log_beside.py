"""Log beside a page, or alone: ``log_beside.py alone|page SECONDS``.

A training of a step of 2 ms, whose calls of ``log_metrics`` are timed one by one. The page is open
in a browser on the folder, with the charts of the run, and polls every two seconds. Alone means
beside a process that only counts: where the other core sleeps, a call waits until it has woken.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import seamark

STEP_S = 0.002
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
    spent, clock, step = [], time.perf_counter, 1_000
    end = clock() + seconds
    while (now := clock()) < end:
        values = dict.fromkeys(names, step * 0.001)
        while clock() - now < STEP_S:  # the training itself
            pass
        before = clock()
        run.log_metrics(values, step)
        spent.append(clock() - before)
        step += 1
    polls = 0
    if page is not None:
        polls = int(page.stdout.readline())  # type: ignore[union-attr]
run.stop()
spent.sort()
median, late = spent[len(spent) // 2], spent[len(spent) * 99 // 100]
print(
    json.dumps(
        {"median_us": median * 1e6, "p99_us": late * 1e6, "calls": len(spent), "polls": polls}
    )
)
