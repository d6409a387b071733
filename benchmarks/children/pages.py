"""Show the page in a browser: ``pages.py WHAT ...``, where WHAT is a function of `PAGES`.

Each starts what shows what lies in the working directory. A page is opened twice and the second
time is what is reported: what is drawn of a series is kept when it was read once.
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from browsing import Behind, changed_by, chromium, opened, started, throttled, used_mb
from timed_reads import writing

Sample = dict[str, Any]
TABLE = "document.querySelector('table.runs tbody tr')"
CHART = "document.querySelector('.chart canvas')"
DRAWN = {
    "seamark": CHART,
    "tensorboard": "document.querySelector('line-chart canvas, vz-line-chart2 svg path')",
    "trackio": "document.querySelector('.vega-embed canvas, .vega-embed svg path')",
}
ANSWERED = """(shown) => Math.max(...performance.getEntriesByType("resource")
  .filter((one) => /\\/curves$/.test(one.name) && one.responseEnd < shown)
  .map((one) => one.responseEnd))"""
ASKED = """() => Math.min(...performance.getEntriesByType("resource")
  .filter((one) => /\\/curves$/.test(one.name)).map((one) => one.startTime))"""
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
FAST = """
const slow = window.setTimeout;
window.setTimeout = (call, ms = 0, ...rest) => slow(call, ms < 1000 ? ms : ms / 500, ...rest);
"""
QUIET_S = 1.5


def posted(page: Any, behind: Behind, verb: str, body: Any) -> Any:
    """Return the answer to a read of the first folder."""
    headers = {"X-Seamark-Token": behind.token}
    return page.request.post(f"{behind.place}r0/api/v1/read/{verb}", data=body, headers=headers)


def all_runs(context: Any, behind: Behind, limit: int) -> list[list[str]]:
    """Return project and id of all runs, once the table is there."""
    page, _ = opened(context, behind.address, {"table": TABLE})
    answer = posted(page, behind, "select", {"project": "default", "limit": limit}).json()
    page.close()
    found: list[list[str]] = answer["answer"]
    return found


def opening(which: str, throttle: str) -> Sample:
    """Open a page of curves; tell when what a person waits for was shown, milliseconds."""
    conditions = {"table": TABLE} if which == "seamark" else {}
    conditions["chart"] = DRAWN[which]
    begun = time.perf_counter()
    with started(which) as behind, chromium() as browser:
        sample: Sample = {"address_s": time.perf_counter() - begun}
        context = browser.new_context()
        if which == "seamark":
            before = time.perf_counter()
            page, _ = opened(context, behind.address, {"table": TABLE})
            launched = before - begun - sample["address_s"]
            sample["rows_s"] = time.perf_counter() - begun - launched
            # Runs that nobody has read before.
            while "seamark-left" in posted(page, behind, "projects", {}).headers:
                time.sleep(0.5)
        else:
            page, _ = opened(context, behind.address, conditions)
            time.sleep(10)  # it goes on reading after it has shown something
        page.close()
        page, seen = opened(context, behind.address, conditions, float(throttle))
        sample |= {f"{name}_ms": value for name, value in seen.items()}
        if which == "seamark":
            button = page.get_by_title("Sort by sys/name", exact=True)
            sample["sort_ms"] = changed_by(page, button.click)
    return sample


def table(times: str) -> Sample:
    """Turn, sort and query the page's table.

    The CPU time is that of the process that answers: until the rows are shown, and with all that
    the page asks after them (curves, losses, attempts) until nothing more comes.
    """
    sample: Sample = {}
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
        measure("turn", [turn.click] * int(times))
        columns = page.locator("table.runs thead button").evaluate_all(
            "(all) => all.map((one) => one.title)"
        )
        some = [title for title in columns if title.startswith("Sort by")][: int(times)]
        measure("sort", [page.get_by_title(title, exact=True).first.click for title in some])
        # From the key that sends it: what is typed is completed, which is not what is measured.
        widths = [100 * (1 + number) for number in range(int(times))]
        measure("query", [ask(f"parameters/model/width_0 > {n}") for n in widths], "keydown")
    return sample


def idle(tabs: str, seconds: str) -> Sample:
    """Leave tabs of the page open; return shares of a core."""
    with started("seamark") as behind, chromium() as browser:
        context = browser.new_context()
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        for _ in range(int(tabs)):
            page, _ = opened(context, behind.address, {"table": TABLE})
        page.wait_for_timeout(20_000)
        asked.clear()
        before, begun = behind.cpu_s(), time.perf_counter()
        page.wait_for_timeout(float(seconds) * 1e3)
        took_s, after = time.perf_counter() - begun, behind.cpu_s()
    return {"share": (after - before) / took_s, "requests": len(asked), "took_s": took_s}


def curves(runs: str) -> Sample:
    """Draw one series of many runs, of what ``writes.py runs`` wrote."""

    def lines(count: int) -> str:
        drawn = f"one.uplot && one.uplot.series.length > {count}"
        return f"[...document.querySelectorAll('.chart')].some((one) => {drawn})"

    with started("seamark") as behind, chromium() as browser:
        context = browser.new_context()
        refs = all_runs(context, behind, int(runs))
        body = json.dumps({"refs": refs, "paths": ["metrics/loss"], "px": 1_000}).encode()
        headers = {"X-Seamark-Token": behind.token, "Content-Type": "application/json"}
        headers["Accept-Encoding"] = "gzip"
        address = f"{behind.place}r0/api/v1/read/curves"
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            sent = answer.read()
        found = json.loads(gzip.decompress(sent))["answer"]["curves"]
        chosen = ",".join(run for _, run in refs)
        view = behind.view(f"project=default&filter=metrics/loss&drawn={chosen}")
        conditions = {"first": lines(min(10, int(runs))), "all": lines(int(runs))}
        for _ in range(2):
            page, seen = opened(context, view, conditions)
            begun = page.evaluate(ASKED)
            page.close()
    sample: Sample = {f"{name}_ms": value for name, value in seen.items()}
    return sample | {
        "bytes": len(sent),
        "curves": len(found),
        "asked_ms": begun,
        "after_ms": seen["first"] - begun,
    }


def charts(run: str) -> Sample:
    """Open a run of many series, and look at all of its charts."""
    with started("seamark") as behind, chromium() as browser:
        context = browser.new_context()
        view = behind.view(f"project=default&run={run}&tab=charts")
        opened(context, view, {"chart": CHART})[0].close()
        page, seen = opened(context, view, {"chart": CHART})
        sample: Sample = {f"{name}_ms": value for name, value in seen.items()}
        sample["slots"] = page.evaluate("() => document.querySelectorAll('.charts-slot').length")
        page.wait_for_timeout(1_000)
        opening_tasks = page.evaluate("() => window.benchTasks.splice(0)")
        sample["alive"] = page.evaluate(SCROLL)
        tasks = page.evaluate("() => window.benchTasks")
        sample["made"] = page.evaluate("() => document.querySelectorAll('.chart').length")
    sample["opening_task_ms"] = max(opening_tasks, default=0)
    sample["scrolling_task_ms"] = max(tasks, default=0)
    sample["long_tasks"] = sum(one > 200 for one in opening_tasks + tasks)
    return sample


def grid(runs: str) -> Sample:
    """Draw six charts of many runs, of what ``writes.py runs`` wrote.

    The time is from the last answer with curves before all lines of all six are shown to the frame
    that shows them: charts out of view are answered later.
    """
    has_all = f"(one) => one.uplot?.series.length > {runs}"
    conditions = {"all": f"[...document.querySelectorAll('.chart')].filter({has_all}).length >= 6"}
    with started("seamark") as behind, chromium() as browser:
        context = browser.new_context()
        chosen = ",".join(run for _, run in all_runs(context, behind, int(runs)))
        view = behind.view(f"project=default&drawn={chosen}")
        for _ in range(2):
            size = {"width": 1440, "height": 900}
            page, seen = opened(context, view, conditions, viewport=size)
            answered = page.evaluate(ANSWERED, seen["all"])
            page.close()
    return {"all_ms": seen["all"], "drawn_ms": seen["all"] - answered}


def live(polls: str) -> Sample:
    """Leave the page open while a run goes on.

    The page's timers run five hundred times as fast, so that many polls pass in a short time; the
    folder is looked at in real time, every two seconds, and a row is recorded every 20 ms. Returns
    what the page held after an hour of polls (1,800) and at the end beside what it held when it had
    warmed up.
    """
    hour, warm, rows = 1_800, 300, itertools.count()
    with writing("seamark", 10) as writer:

        def log() -> None:
            number = next(rows)
            writer.log({f"train/metric_{at}": number % 97 + at for at in range(5)})

        for _ in range(3_000):  # more than a chart has pixels: what is drawn no longer grows
            log()
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

            def held_after(count: int) -> dict[str, float]:
                """Let so many polls be answered."""
                end = heard["polls"] + count
                while heard["polls"] < end:
                    log()
                    page.wait_for_timeout(20)
                used = used_mb(session)
                elements = page.evaluate("() => document.querySelectorAll('*').length")
                return {**used, "server_mb": behind.resident_mb(), "elements": elements, **heard}

            before = held_after(warm)
            after_hour = held_after(min(hour, int(polls)) - warm)
            return {
                "before": before,
                "hour": after_hour,
                "after": held_after(max(0, int(polls) - hour)),
            }


PAGES: dict[str, Callable[..., Sample]] = {
    one.__name__: one for one in (opening, table, idle, curves, charts, grid, live)
}

if __name__ == "__main__":
    what, *given = sys.argv[1:]
    print(json.dumps(PAGES[what](*given)))
