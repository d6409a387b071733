"""A page that is left open for long keeps nothing of what was."""

from __future__ import annotations

import itertools

import page_roots
import pytest
from page_looking import address, opening, plotted
from page_process import until

POLLS, NEWS = 60, 5
"""Polls and news between two looks at what the page holds, at least."""
UNCHANGED = '{"unchanged":true}'
HEAP = 2_000_000
"""Bytes: a tenth of a megabyte for each of the news, which is less than what is shown of them."""
NODES = """() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let count = 1;
  while (walker.nextNode()) count += 1;
  return count;
}"""
HIDE = """(state) => {
  Object.defineProperty(document, "hidden", { value: state === "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def live(tmp_path):
    """A root of a run that goes on and of others, which end; and what records another row."""
    root = tmp_path / "live" / "runs"
    for number in range(30):
        with page_roots.begin(str(root), "long", f"old-{number}") as old:
            old.log_metrics({"train/loss": float(number)}, step=0)
    run = page_roots.begin(str(root), "long", "goes-on")
    steps = itertools.count()

    def record():
        step = next(steps)
        run.log_metrics({"train/loss": step % 97, "train/acc": step % 89}, step=step)
        return step

    for _ in range(3_000):  # more than a chart has pixels: what is drawn no longer grows
        record()
    yield root, ["long", run.id], record
    run.stop()


class Asked:
    """The polls of a page, and how often there was something new."""

    def __init__(self, tab):
        self.tab = tab
        self.polls = self.news = 0
        tab.on("response", self._answered)

    def _answered(self, response):
        if response.url.endswith("/read/changes"):
            self.polls += 1
            self.news += int(response.headers["content-length"]) > len(UNCHANGED)

    def until(self, holds):
        until(lambda: self.tab.wait_for_timeout(10) or holds())


def held(tab, session):
    """Return what a page holds when its garbage was collected."""
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    counters = session.send("Memory.getDOMCounters")
    there = tab.evaluate(NODES)
    return {
        "heap": session.send("Runtime.getHeapUsage")["usedSize"],
        "nodes": there,
        "detached": counters["nodes"] - there,
        "listeners": counters["jsEventListeners"],
    }


@pytest.mark.parametrize("rounds", [2, pytest.param(6, marks=pytest.mark.thorough)])
def test_an_open_page_keeps_nothing(rounds, live, serve, tab, hasten):
    """Hundreds of polls of a run that goes on: no node, no listener and little memory more."""
    root, ref, record = live
    page = serve(root)
    hasten(500)  # a poll every few milliseconds instead of every two or ten seconds
    asked = Asked(tab)
    tab.goto(opening(page, "?project=long"))
    began = plotted(tab, "train/loss")["x"]["max"]
    session = tab.context.new_cdp_session(tab)
    headers = {"X-Seamark-Token": page.token}
    runs = address(page, "r0/api/v1/runs")

    def pass_by():
        polls = asked.polls
        for part in range(1, NEWS + 1):
            news, last, least = asked.news, record(), part * POLLS / NEWS
            # What is edited is looked at at once, with what else was recorded there.
            tab.request.patch(runs, headers=headers, data={"refs": [ref], "name": f"at-{last:07}"})
            asked.until(
                lambda news=news, least=least: asked.news > news and asked.polls - polls >= least
            )
        return held(tab, session)

    taken = [pass_by() for _ in range(1 + rounds)]
    # What is shown may have a word more or less at one time; a leak grows with every poll.
    for name, room in (("nodes", 40), ("detached", 60), ("listeners", 40), ("heap", HEAP)):
        assert min(one[name] for one in taken[-2:]) - taken[0][name] <= room, (name, taken)
    # It was no page that stood still.
    plotted(tab, "train/loss", lambda found: found["x"]["max"] > began)

    tab.evaluate(HIDE, "hidden")
    tab.wait_for_timeout(500)  # a poll may be on its way
    polls = asked.polls
    tab.wait_for_timeout(500)
    assert asked.polls == polls
    tab.evaluate(HIDE, "visible")
    asked.until(lambda: asked.polls > polls)
