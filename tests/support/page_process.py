"""A real page in processes of its own, as ``seamark ui`` starts it, for tests that ask it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from said_process import Saying, ending, reached, start_saying
from server_waits import until

__all__ = ["RunningPage", "ask", "page_environment", "running_page", "until"]

SOURCE = Path(__file__).parents[2] / "src"
_OPEN = re.compile(r"http://(127\.0\.0\.1):(\d+)/(?:#token=(\S+))?")


@dataclass
class RunningPage(Saying):
    """A page that runs; the token is empty if it wants none, the lines are what it printed."""

    port: int
    token: str
    process: subprocess.Popen[str]
    lines: list[str]

    def ask(self, method, path, *, known=False, **headers):
        """Return status, headers and body of an answer, to somebody who knows the token or not."""
        if known:
            headers["X-Seamark-Token"] = self.token
        return ask(self.port, method, path, headers)

    def greeting(self):
        return json.loads(self.ask("GET", "/api/v1/", known=True)[2])

    def settle(self):
        """Wait until all runs of its first folder have been read."""

        def has_read():
            told = self.ask("POST", "/r0/api/v1/read/changes", known=True)[1]
            return "seamark-looked" in told and not int(told.get("seamark-left", 0))

        until(has_read)


def ask(port, method, path, headers=None):
    """Return status, headers and body of an answer at a port of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        connection.close()


def page_environment(**more):
    """Return the environment of a page: no screen, no ssh, and this source."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    gone = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "JUPYTERHUB_SERVICE_PREFIX")
    kept = {k: v for k, v in os.environ.items() if k not in gone and not k.startswith("SSH_")}
    return {**kept, "PYTHONPATH": path, **more}


@contextmanager
def running_page(*words, humble=False, **more):
    """Run ``seamark ui`` for a block, with more variables; without ``--port`` it takes any."""
    given = [str(word) for word in words]
    if "--port" not in given:
        given += ["--port", "0"]
    environment = page_environment(**more)
    process, lines = start_saying(
        "ui", *given, env=environment, stdin=subprocess.DEVNULL, humble=humble
    )
    found = reached(_OPEN, process, lines)
    with ending(RunningPage(int(found[2]), found[3] or "", process, lines)) as page:
        yield page
