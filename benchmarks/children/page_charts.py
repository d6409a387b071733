"""Open a run of many series, and look at all of its charts: ``page_charts.py RUN``."""

from __future__ import annotations

import json
import sys
from typing import Any

from browsing import chromium, opened, started

CHART = "document.querySelector('.chart canvas')"
SLOTS = "document.querySelectorAll('.charts-slot').length"
SCROLL = """() => new Promise((done) => {
  let most = 0;
  const count = () => { most = Math.max(most, document.querySelectorAll(".uplot").length); };
  const observer = new MutationObserver(count);
  observer.observe(document, { childList: true, subtree: true });
  const place = document.querySelector("main");
  const step = () => {
    const before = place.scrollTop;
    place.scrollBy({ top: 0.8 * innerHeight, behavior: "instant" });
    setTimeout(() => {
      if (place.scrollTop !== before) return step();
      observer.disconnect();
      done(most);
    }, 60);
  };
  step();
})"""
run = sys.argv[1]

with started("seamark") as behind, chromium() as browser:
    context = browser.new_context()
    view = behind.view(f"project=default&run={run}&tab=charts")
    opened(context, view, {"chart": CHART})[0].close()
    page, seen = opened(context, view, {"chart": CHART})
    sample: dict[str, Any] = {f"{name}_ms": value for name, value in seen.items()}
    sample["slots"] = page.evaluate(f"() => {SLOTS}")
    page.wait_for_timeout(1_000)
    opening = page.evaluate("() => window.benchTasks.splice(0)")
    sample["alive"] = page.evaluate(SCROLL)
    scrolling = page.evaluate("() => window.benchTasks")
    sample["made"] = page.evaluate("() => document.querySelectorAll('.chart').length")
    sample["opening_task_ms"] = max(opening, default=0)
    sample["scrolling_task_ms"] = max(scrolling, default=0)
    sample["long_tasks"] = sum(one > 200 for one in opening + scrolling)
print(json.dumps(sample))
