"""A page that is left open for long keeps nothing of what was."""

from __future__ import annotations

import page_roots
import pytest
from page_looking import opening, plotted
from page_process import until

POLLS = 40
ROUNDS = 5
POLL_MS = 10_500
"""More than a page waits that nothing keeps busy."""
HEAP = 4_000_000
"""Bytes that what is kept of all these polls must stay below; one of the page's tables is more
than that when it is kept a few times."""
NODES = """() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let count = 1;
  while (walker.nextNode()) count += 1;
  return count;
}"""


@pytest.fixture
def live(tmp_path):
    """A run that goes on, and what records another row of it."""
    root = tmp_path / "live" / "runs"
    for number in range(30):
        with page_roots.begin(str(root), "long", f"old-{number}") as old:
            old.log_metrics({"train/loss": float(number)}, step=0)
    run = page_roots.begin(str(root), "long", "goes-on")
    for step in range(3_000):
        run.log_metrics({"train/loss": step % 97, "train/acc": step % 89}, step=step)
    steps = iter(range(3_000, 1_000_000))

    def record():
        step = next(steps)
        run.log_metrics({"train/loss": step % 97, "train/acc": step % 89}, step=step)
        return step

    yield root, record
    run.stop()


class Asked:
    """How often the page asked what has changed, and anything at all."""

    def __init__(self, tab):
        self.polls = self.answers = self.requests = 0
        tab.on("request", lambda _: setattr(self, "requests", self.requests + 1))
        tab.on("response", self._answered)

    def _answered(self, response):
        self.polls += "/changes" in response.url
        self.answers += 1


def pass_by(tab, asked, polls, record):
    """Move the page's clock on until it has polled so often; each time there is something new."""
    end = asked.polls + polls

    def polled():
        before = asked.polls
        record()
        tab.clock.run_for(POLL_MS)
        for _ in range(20):
            if asked.polls > before:
                break
            tab.wait_for_timeout(10)
        return asked.polls >= end

    until(polled)


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


def test_an_open_page_keeps_nothing(live, serve, tab):
    """Two hundred polls of a run that goes on: no node, no listener and little memory more.

    And none while nobody sees it.
    """
    root, record = live
    page = serve(root)
    tab.clock.install()
    asked = Asked(tab)
    tab.goto(opening(page, "?project=long"))
    plotted(tab, "train/loss")
    session = tab.context.new_cdp_session(tab)
    pass_by(tab, asked, POLLS, record)
    taken = [held(tab, session)]
    last = record()
    for _ in range(ROUNDS):
        pass_by(tab, asked, POLLS, record)
        taken.append(held(tab, session))

    # What was recorded meanwhile has come: it was no page that stood still.
    def drawn():
        tab.clock.run_for(POLL_MS)
        return plotted(tab, "train/loss")["x"]["max"] > last

    until(drawn)
    first = taken[0]
    # What is shown may have a word more or less at one time; a leak grows with every poll.
    for name, room in (("nodes", 40), ("detached", 200), ("listeners", 40), ("heap", HEAP)):
        least = min(one[name] for one in taken[1:])
        assert least - first[name] <= room, (name, taken)

    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    tab.evaluate(hide, True)
    until(lambda: not busy(tab, asked))
    before = asked.requests
    tab.clock.run_for(120_000)
    assert not busy(tab, asked)
    assert asked.requests == before
    tab.evaluate(hide, False)

    def again():
        tab.clock.run_for(100)
        return asked.requests > before

    until(again)


def busy(tab, asked):
    """Return whether an answer has come since a moment ago, or is still to come."""
    before = asked.requests
    tab.clock.run_for(1_000)
    tab.wait_for_timeout(200)
    return asked.requests > before
