"""Each launch happens once a test session, however many tests look at what it left."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager

import pytest
from launching import Started


@contextmanager
def locked(path):
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def launched(tmp_path_factory):
    """Start a training, once for all workers of this test session, and return its folder."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def start(name, launch):
        folder = base / f"launch-{name}"
        folder.mkdir(exist_ok=True)
        done = folder / "done.json"
        with locked(folder / "lock"):
            if not done.exists():
                started = Started(folder / "work", launch)
                found = {"codes": started.wait(), "alive": started.alive()}
                done.write_text(json.dumps(found))
                started.kill()
        said = json.loads(done.read_text())
        output = (folder / "work/output.txt").read_text(errors="replace")
        assert said["codes"] == [0] * launch.agents, output[-8000:]
        assert not said["alive"], "processes were left behind"
        return folder / "work"

    return start
