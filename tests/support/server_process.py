"""A real server in processes of its own, for tests that speak to it over a socket."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from said_process import Saying, ending, reached, start_saying

_URL = re.compile(r"answers at (\S+)")
_TOKEN = re.compile(r"seamark_[A-Za-z0-9_-]{43}")


@dataclass
class Running(Saying):
    url: str
    token: str
    folder: Path
    store: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def workers(self):
        import psutil

        return [child.pid for child in psutil.Process(self.process.pid).children()]


def start_server(folder, *options, store=None, env=None):
    given = ["--folder", str(folder), *(["--store", store] if store else [])]
    if "--port" not in options:
        given += ["--port", "0"]
    process, lines = start_saying("server", *given, *options, env={**os.environ, **(env or {})})
    url = reached(_URL, process, lines)[1]
    token = _TOKEN.search("\n".join(lines))
    return Running(url, token[0] if token else "", folder, store or "", process, lines)


def running_server(folder, *options, **rest):
    """Run a server for a block; see `start_server`. It is stopped, or killed if it does not."""
    return ending(start_server(folder, *options, **rest))
