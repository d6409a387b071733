"""A script of somebody who logs with the package neptune, which notes what it was told is kept.

Arguments: ``sync``, ``async`` or ``offline``; the file for the notes; the file that says "stop".
Needs nothing but neptune. A line of the notes is ``[run, what, upto]``: of what, all from 0 up to
there was acknowledged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import neptune
from neptune.types import File

MODE, NOTES, STOP = sys.argv[1], sys.argv[2], Path(sys.argv[3])
QUIET = {
    "capture_hardware_metrics": False,
    "capture_stdout": False,
    "capture_stderr": False,
    "source_files": [],
}
OF_RUN = {"sync": 300, "async": 4000, "offline": 1500}
AT_ONCE = 200
SYNC = "import sys; from neptune.cli.commands import sync; sync(sys.argv[1:])"
notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(*words):
    os.write(notes, json.dumps(words).encode() + b"\n")


def log(run, place):
    """Log one step of everything."""
    run["steps"].append(place, step=place)
    run["free"].append(place)
    run["lines"].append(f"line {place}", step=place)
    run["last"] = place


def logs_in_sync(run, name):
    for place in range(OF_RUN[MODE]):
        for what, work in [
            ("steps", lambda at=place: run["steps"].append(at, step=at)),
            ("free", lambda at=place: run["free"].append(at)),
            ("lines", lambda at=place: run["lines"].append(f"line {at}", step=at)),
            ("last", lambda at=place: run.__setitem__("last", at)),
        ]:
            work()
            note(name, what, place)
        if place % 20 == 0:
            run["file"].upload(File.from_content(f"file {place}"))
            run["set"].upload_files("part-*.txt")
            note(name, "file", place)
        if STOP.exists():
            return
        time.sleep(0.02)


def logs_in_async(run, name):
    for place in range(OF_RUN[MODE]):
        log(run, place)
        if place % AT_ONCE == AT_ONCE - 1:
            run.wait()
            for what in ("steps", "free", "lines", "last"):
                note(name, what, place)
            if STOP.exists():
                return
            time.sleep(0.1)


def logs_offline():
    """Record without a server, and send it with the command until that ends well."""
    run = neptune.init_run(mode="offline", **QUIET)
    name = f"offline-{os.getpid()}-{time.time_ns()}"
    run["mark"] = name
    for place in range(OF_RUN[MODE]):
        log(run, place)
    run.stop()
    words = [sys.executable, "-W", "ignore", "-c", SYNC, "-p", os.environ["NEPTUNE_PROJECT"]]
    while True:
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        left = list(Path(".neptune/offline").glob("*"))
        if done.returncode == 0 and not left:
            break
        note(name, "gave up", done.stdout[-300:] + done.stderr[-300:])
        time.sleep(1)
    for what in ("steps", "free", "lines", "last"):
        note(name, what, OF_RUN[MODE] - 1)


for number in range(3):
    Path(f"part-{number}.txt").write_text(str(number))
while not STOP.exists():
    try:
        if MODE == "offline":
            logs_offline()
            continue
        made = neptune.init_run(mode=MODE, **QUIET)
        found = made["sys/id"].fetch()
        note(found, "begun", 0)
        (logs_in_sync if MODE == "sync" else logs_in_async)(made, found)
        made.stop()
    except Exception as error:  # noqa: BLE001 - it gives up, as the script of a user would
        note("", "gave up", f"{type(error).__name__}: {error}"[:600])
        time.sleep(1)
