"""A real server in processes of its own, and scripts that use the real client."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys

import pytest
from isolation import *  # noqa: F403 - its fixtures and hooks
from isolation import reset_signals
from server_process import start_server

PROVEN = {
    "neptune-client:first": "1.0.0",
    "neptune-client:oldest": "1.8.6",
    "neptune-client:latest": "1.14.0.post2",
}
S3_PYTHON = os.environ.get("SEAMARK_S3_PYTHON", sys.executable)
PYTHON = os.environ.get("SEAMARK_NEPTUNE_PYTHON", sys.executable)
QUIET = """
import json, os, sys
import neptune
OPTIONS = dict(
    mode=os.environ.get("MODE", "sync"),
    capture_hardware_metrics=False,
    capture_stdout=False,
    capture_stderr=False,
    source_files=[],
)
def tell(**found):
    print("TOLD " + json.dumps(found, default=str), flush=True)
"""


def pytest_configure() -> None:
    """Refuse to start where the client is missing, or is another than is to be proved."""
    reset_signals()
    if "SEAMARK_NEPTUNE_PYTHON" in os.environ:
        return
    try:
        found = importlib.metadata.version("neptune")
    except importlib.metadata.PackageNotFoundError as error:
        msg = "neptune is not installed: nothing can be proved"
        raise pytest.UsageError(msg) from error
    claim = os.environ.get("SEAMARK_REQUIRE")
    if claim is not None and found != PROVEN.get(claim):
        msg = f"SEAMARK_REQUIRE={claim} means {PROVEN.get(claim)}, but installed is {found}"
        raise pytest.UsageError(msg)


class Server:
    """``seamark server`` on a folder; may be killed and started again at the same address."""

    def __init__(self, folder):
        self.folder, self.token, self._port = folder, "", "0"
        self.start()

    def start(self):
        self._running = start_server(self.folder, "--port", self._port)
        self.url, self.token = self._running.url, self._running.token or self.token
        self._port = self.url.rpartition(":")[2]

    def kill(self):
        pids = [self._running.process.pid, *self._running.workers()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._running.stop()

    def stop(self):
        try:
            self._running.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def seamark(self, *words, token=None):
        """Run the command ``seamark`` and return what it printed."""
        env = {**os.environ, "SEAMARK_API_TOKEN": token or self.token}
        made = subprocess.run(
            [sys.executable, "-m", "seamark", *words],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    def environment(self, project="", mode="sync", user=()):
        """Return the variables of a user who only changes the token."""
        limit = ["--project", project] if project else []
        told = self.seamark("token", "create", *user, "--neptune", *limit, "--server", self.url)
        return {**dict(line.split("=", 1) for line in told.splitlines()), "MODE": mode}

    def start_script(self, folder, script, env):
        path = folder / "train.py"
        path.write_text(QUIET + script)
        return subprocess.Popen(
            [PYTHON, "-W", "ignore", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, **env},
        )

    def run(self, folder, script, env):
        """Run a script; return what it told, and all that it ``printed``."""
        process = self.start_script(folder, script, env)
        text, _ = process.communicate(timeout=200)
        assert process.returncode == 0, text
        told = [line[5:] for line in text.splitlines() if line.startswith("TOLD ")]
        found = {name: value for line in told for name, value in json.loads(line).items()}
        return {"printed": text, **found}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server a module, whose tests use projects of their own."""
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.stop()


MOTO = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
"""


@pytest.fixture
def s3():
    """A server of S3's protocol; gives the environment variables by which clients find it."""
    with subprocess.Popen(
        [S3_PYTHON, "-c", MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        port = process.stdout.readline().strip()
        assert port, "moto is not installed: nothing can be proved"
        yield {
            **dict.fromkeys(("AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"), f"http://127.0.0.1:{port}"),
            **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test"),
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        process.kill()


@pytest.fixture
def new_server():
    """The class that starts a server for one test."""
    return Server


@pytest.fixture
def _environment():
    """The Python of the client, where it is another one."""
    return {"SEAMARK_NEPTUNE_PYTHON": PYTHON}
