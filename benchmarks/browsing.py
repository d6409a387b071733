"""A page in the system's Chromium, the processes behind it, and when what one waits for was shown.

What is timed is timed in the page, from mutations of its document to the frame that shows them:
asking it from outside while one waits slows down what is measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from harness import TRACKIO_PYTHON
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

__all__ = [
    "Behind",
    "changed_by",
    "chromium",
    "opened",
    "started",
    "throttled",
    "used_mb",
]

VIEWPORT = {"width": 1280, "height": 900}
# A promise of the time, by the page's own clock, of the first frame in which something holds.
WHEN = """
window.benchWhen = (holds) => new Promise((done) => {
  const shown = () => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      done(performance.now());
    };
    channel.port2.postMessage(0);
  });
  let over = false;
  const look = () => {
    if (over || !holds()) return;
    over = true;
    observer.disconnect();
    shown();
  };
  const observer = new MutationObserver(look);
  observer.observe(document, {
    childList: true, subtree: true, characterData: true, attributeFilter: ["aria-busy"] });
  look();
});
window.benchTasks = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.benchTasks.push(one.duration);
}).observe({ type: "longtask", buffered: true });
"""
PAINT = """() => new Promise((done) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  const look = () => (painted() ? done(painted().startTime) : requestAnimationFrame(look));
  look();
})"""
COMMANDS = {
    "seamark": (
        [sys.executable, "-m", "seamark", "ui", "--port", "0", "--no-browser", ".seamark"],
        r"(http://127\.0\.0\.1:\d+/#token=\S+)",
    ),
    "tensorboard": (
        [sys.executable, "-m", "tensorboard.main", "--port", "0", "--logdir", "tensorboard"],
        r"(http://localhost:\d+/)",
    ),
    "trackio": (
        [TRACKIO_PYTHON, "-c", "import trackio; trackio.show('bench', open_browser=False)"],
        r"(http://127\.0\.0\.1:\d+/\?project=bench)",
    ),
}


class Behind:
    """What answers a page: a process with its children."""

    def __init__(self, address: str, process: int) -> None:
        self.address = address
        self._process = psutil.Process(process)

    @property
    def place(self) -> str:
        """The address without the token."""
        return self.address.partition("#")[0]

    @property
    def token(self) -> str:
        """The token of the address."""
        return urlsplit(self.address).fragment.removeprefix("token=")

    def view(self, query: str) -> str:
        """Return the address of a view."""
        return f"{self.place}?{query}#token={self.token}"

    def cpu_s(self) -> float:
        """Return its CPU time, seconds."""
        times = [each.cpu_times() for each in self._tree()]
        return sum(one.user + one.system for one in times)

    def resident_mb(self) -> float:
        """Return how much memory it holds, MB."""
        return sum(each.memory_info().rss for each in self._tree()) / 1e6

    def _tree(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]


@contextmanager
def started(which: str) -> Iterator[Behind]:
    """Run the page of what lies in the working directory for a block."""
    command, wanted = COMMANDS[which]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TRACKIO_DIR": str(Path("trackio").absolute()),
    }
    if which == "trackio":
        environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if found := re.search(wanted, line):
                yield Behind(found[1], process.pid)
                return
        msg = f"{which} said no address: {said}"
        raise RuntimeError(msg)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's Chromium for a block, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        # Without the flag its clock of memory and of time is rounded.
        flags = ["--no-sandbox", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


def throttled(page: Page, factor: float) -> CDPSession:
    """Slow down a page's CPU; return what talks to its debugger."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": factor})
    return session


def opened(
    context: BrowserContext,
    address: str,
    conditions: Mapping[str, str],
    throttle: float = 1,
    viewport: Mapping[str, int] | None = None,
) -> tuple[Page, dict[str, float]]:
    """Open a page; return it, and when it painted first and each condition held, milliseconds.

    Args:
        context: Whose cache it uses.
        address: What is opened.
        conditions: Expressions of JavaScript by name, true when what is waited for is there.
        throttle: How many times slower its CPU is.
        viewport: Its size.
    """
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.set_viewport_size({**VIEWPORT, **(viewport or {})})  # type: ignore[typeddict-item]
    waits = "".join(
        f"window.benchSeen[{name!r}] = benchWhen(() => {holds});\n"
        for name, holds in conditions.items()
    )
    page.add_init_script(f"{{ {WHEN}\nwindow.benchSeen = {{}};\n{waits} }}")
    if throttle != 1:
        throttled(page, throttle)
    page.goto(address, wait_until="commit")
    found = {"paint": page.evaluate(PAINT)}
    for name in conditions:
        found[name] = page.evaluate("(name) => window.benchSeen[name]", name)
    return page, found


# How long it takes from the next click or key to the frame that shows the rows that it asked for:
# another first row or number of runs, or a table that was busy and no longer is.
NEXT = """(kinds) => {
  const said = (place) => document.querySelector(place)?.textContent;
  const row = () => `${said(".found")}: ${said("table.runs tbody th")}`;
  const before = row();
  let asked = false;
  const holds = () => {
    const busy = Boolean(document.querySelector(".sheet[aria-busy=true]"));
    asked ||= busy;
    return row() !== before || (asked && !busy);
  };
  window.benchNext = new Promise((done) => {
    const begun = (event) => {
      for (const kind of kinds) removeEventListener(kind, begun, true);
      benchWhen(holds).then((now) => done(now - event.timeStamp));
    };
    for (const kind of kinds) addEventListener(kind, begun, true);
  });
}"""


def changed_by(page: Page, act: Callable[[], Any], kinds: tuple[str, ...] = ("click",)) -> float:
    """Return how long it takes until a table shows other rows, milliseconds.

    Args:
        page: Where.
        act: Clicks or presses a key.
        kinds: The events that it counts from.
    """
    page.evaluate(NEXT, list(kinds))
    act()
    return float(page.evaluate("() => window.benchNext"))


def used_mb(session: CDPSession) -> dict[str, float]:
    """Return what a page holds after its garbage was collected: heap in MB, nodes, listeners."""
    for _ in range(3):  # what a finalizer let go of is collected the next time
        session.send("HeapProfiler.collectGarbage")
    counters = session.send("Memory.getDOMCounters")
    heap = session.send("Runtime.getHeapUsage")
    return {
        "heap_mb": heap["usedSize"] / 1e6,
        "nodes": counters["nodes"],
        "listeners": counters["jsEventListeners"],
    }
