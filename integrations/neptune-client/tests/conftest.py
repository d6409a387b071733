"""A real server in processes of its own, and scripts that use the real client."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from isolation import *  # noqa: F403 - its fixtures and hooks
from isolation import reset_signals

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
        self.folder, self.port, self.token = folder, 0, ""
        self.start()

    def start(self):
        words = ["--folder", str(self.folder), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "seamark", "server", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        lines, ready = [], threading.Event()

        def read():
            for line in self.process.stdout:
                lines.append(line)
                if line.startswith("Ctrl-C"):
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        assert ready.wait(120), lines
        text = "".join(lines)
        self.url = re.search(r"answers at (\S+)", text)[1]
        self.port = int(self.url.rpartition(":")[2])
        self.token = (re.search(r"seamark_[A-Za-z0-9_-]{43}", text) or [self.token])[0]

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def seamark(self, *words, token=None):
        """Run our own command and return what it printed."""
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
        """Return the variables that somebody sets who only changes the token."""
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
        """Run a script of a user and return what it told."""
        process = self.start_script(folder, script, env)
        text, _ = process.communicate(timeout=200)
        assert process.returncode == 0, text
        found = {}
        for line in text.splitlines():
            if line.startswith("TOLD "):
                found |= json.loads(line.removeprefix("TOLD "))
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server a module; its tests use projects of their own."""
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.stop()


def free_port():
    """Return a port that nobody has, below those from which connections are given any."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            return port


@pytest.fixture
def s3():
    """A server that speaks S3's protocol; returns the variables by which clients find it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        [S3_PYTHON, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            assert process.poll() is None, "moto is not installed: nothing can be proved"
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": url,
            "S3_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def new_server():
    """Return what starts a server for one test."""
    return Server


@pytest.fixture
def _environment():
    """The Python of the client, where it is another one."""
    return {"SEAMARK_NEPTUNE_PYTHON": PYTHON}
