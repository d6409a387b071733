"""A real page in processes of its own, as ``seamark ui`` starts it, for tests that ask it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from said_process import Saying, ending, reached, start_saying
from server_waits import until as server_until

SOURCE = Path(__file__).parents[2] / "src"
_OPEN = re.compile(r"http://(127\.0\.0\.1):(\d+)/(?:#token=(\S+))?")


@dataclass
class RunningPage(Saying):
    port: int
    token: str
    process: subprocess.Popen[str]
    lines: list[str]

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        return ask(self.port, method, path, headers)

    def greeting(self) -> dict[str, Any]:
        """Return what it says of itself to who has the token."""
        return json.loads(self.ask("GET", "/api/v1/", {"X-Seamark-Token": self.token})[2])

    def settle(self) -> None:
        """Wait until all runs of its first folder have been read."""

        def has_read() -> bool:
            told = self.ask("POST", "/r0/api/v1/read/changes", {"X-Seamark-Token": self.token})[1]
            return "seamark-looked" in told and not int(told.get("seamark-left", 0))

        until(has_read)


def ask(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        connection.close()


def page_environment(**more: str) -> dict[str, str]:
    """Return the environment of a page: no screen, no ssh, and this source."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    gone = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "JUPYTERHUB_SERVICE_PREFIX")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in gone and not name.startswith("SSH_")
    }
    return {**kept, "PYTHONPATH": path, **more}


def start_page(*words: object, humble: bool = False, **more: str) -> RunningPage:
    """Start ``seamark ui`` and return when it has said that it answers.

    Args:
        *words: Of the command; without ``--port`` it takes any port.
        humble: Without root's right to read everything.
        **more: Further variables of its environment.
    """
    given = [str(word) for word in words]
    if "--port" not in given:
        given += ["--port", "0"]
    process, lines = start_saying(
        "ui", *given, env=page_environment(**more), stdin=subprocess.DEVNULL, humble=humble
    )
    found = reached(_OPEN, process, lines)
    return RunningPage(int(found[2]), found[3] or "", process, lines)


def running_page(
    *words: object, humble: bool = False, **more: str
) -> AbstractContextManager[RunningPage]:
    """Run a page for a block; see `start_page`. It is stopped, or killed if it does not."""
    return ending(start_page(*words, humble=humble, **more))


def until(holds: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Wait until something holds and return it; fail after so many seconds."""
    return server_until(holds, seconds)
