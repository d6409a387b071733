"""Starts trainings of several processes."""

from __future__ import annotations

import importlib.metadata
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).with_name("training.py")
MODERN = int(importlib.metadata.version("pytorch-lightning").partition(".")[0]) >= 2
MARK = "TEST_MARK"
FOREIGN = ("SEAMARK_", "NEPTUNE_", "SLURM_", "TORCHELASTIC_", "HOROVOD_", "PL_", "TEST_")
VARIABLES = {"RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
TIMEOUT_S = 240  # bounds a hang; a launch takes seconds


@dataclass
class Launch:
    """How a training of two ranks is started.

    Attributes:
        strategy: What the script hands to Trainer.
        becomes: Class of the strategy that this must become.
        launcher: What is put before the script; ``{port}`` is a port that the kernel
            gave, ``{agent}`` the agent's number.
        agents: How many times that is started, all at once.
        scenarios: What the script does.
        env: Further variables.
    """

    strategy: str
    becomes: str
    launcher: tuple[str, ...] = ()
    agents: int = 1
    scenarios: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


class Started:
    """Processes that were started together, in a folder and a session of their own."""

    def __init__(self, folder, launch, scenarios=None):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.mark = uuid.uuid4().hex
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and name not in VARIABLES
        }
        env = kept | {
            MARK: self.mark,
            "TEST_STRATEGY": launch.becomes,
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONUNBUFFERED": "1",
        }
        port = free_port()
        script = [str(SCRIPT), launch.strategy, *(scenarios or launch.scenarios)]
        launcher = launch.launcher or (sys.executable,)
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.processes = [
                subprocess.Popen(
                    [part.format(port=port, agent=agent) for part in launcher] + script,
                    cwd=folder,
                    env=env | launch.env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                for agent in range(launch.agents)
            ]

    def wait(self):
        """Return the exit codes, None for each process that had to be killed in the end."""
        until = time.monotonic() + TIMEOUT_S
        while any(one.poll() is None for one in self.processes) and time.monotonic() < until:
            time.sleep(0.05)
        codes = [one.poll() for one in self.processes]
        if None in codes:
            self.kill()
        return codes

    def kill(self):
        """Leave nothing behind."""
        for pid in marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def alive(self, patience_s=20.0):
        """Return the processes of this launch that do not end, however they were started."""
        until = time.monotonic() + patience_s
        while (found := marked(self.mark)) and time.monotonic() < until:
            time.sleep(0.05)
        return found


def marked(mark):
    """Return the pid of each process that has this mark in its environment."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # gone, or somebody else's
            continue
    return found


def free_port():
    """Return a port that nobody has, below those from which connections are given any."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("", port))
            return port
