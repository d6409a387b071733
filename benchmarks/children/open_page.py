"""Open a page of curves in a browser: ``open_page.py seamark|tensorboard THROTTLE``.

Starts ``seamark ui`` or TensorBoard on what lies in the working directory, opens it twice in the
system's Chromium (the second time is what is reported: everything has been read), and prints when
what a person waits for was there, milliseconds.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from typing import Any

from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAINT = """() => new Promise((done) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  const look = () => (painted() ? done(painted().startTime) : requestAnimationFrame(look));
  look();
})"""
DRAWN = {
    "seamark": ".chart canvas",
    "tensorboard": "tb-line-chart canvas, line-chart canvas, vz-line-chart2 svg path",
}
which, throttle = sys.argv[1], float(sys.argv[2])


def start() -> tuple[subprocess.Popen[str], str]:
    if which == "seamark":
        command = ["seamark", "ui", "--port", "0", "--no-browser", ".seamark"]
        wanted = r"(http://127\.0\.0\.1:\d+/#token=\S+)"
    else:
        command = ["tensorboard.main", "--port", "0", "--logdir", "tensorboard"]
        wanted = r"(http://localhost:\d+/)"
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(wanted, line):
            return process, found[1]
    raise RuntimeError(which)


def since(page: Page, selector: str, begun: float) -> float:
    page.locator(selector).first.wait_for(state="attached", timeout=300_000)
    return (time.perf_counter() - begun) * 1e3


def opened(page: Page, address: str) -> dict[str, float]:
    begun = time.perf_counter()
    page.goto(address)
    sample = {"paint_ms": page.evaluate(PAINT)}
    if which == "seamark":
        sample["table_ms"] = since(page, "table.runs tbody tr", begun)
    sample["chart_ms"] = since(page, DRAWN[which], begun)
    return sample


def sorted_by(page: Page, name: str) -> float:
    """Return how long it takes until the table is in another order."""
    first = "() => document.querySelector('table.runs tbody tr')?.textContent"
    before, begun = page.evaluate(first), time.perf_counter()
    page.get_by_title(f"Sort by {name}", exact=True).click()
    while page.evaluate(first) == before:
        pass
    return (time.perf_counter() - begun) * 1e3


begun = time.perf_counter()
process, address = start()
sample: dict[str, Any] = {"address_s": time.perf_counter() - begun}
try:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        if which == "seamark":
            page.goto(address)
            sample["rows_s"] = since(page, "table.runs tbody tr", begun) / 1e3
            place, token = address.split("#token=")
            asked = {"headers": {"X-Seamark-Token": token}}
            looked = partial(page.request.get, f"{place}r0/api/v1/projects", **asked)
            while "seamark-left" in looked().headers:  # runs that nobody has read before
                time.sleep(0.5)
        else:
            opened(page, address)
            time.sleep(10)  # it goes on reading after it has shown something
        page.context.new_cdp_session(page).send(
            "Emulation.setCPUThrottlingRate", {"rate": throttle}
        )
        page.goto("about:blank")
        sample |= opened(page, address)
        if which == "seamark":
            sample["sort_ms"] = sorted_by(page, "sys/name")
        browser.close()
finally:
    process.terminate()
    process.wait()
print(json.dumps(sample))
