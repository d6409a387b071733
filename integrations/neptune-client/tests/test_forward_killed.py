"""A training that is sent to ``neptune://`` or its server is killed: each point arrives once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

TRAINS = """
import sys, time
import seamark
life = int(sys.argv[1])
run = seamark.init_run(
    "kills", custom_run_id="one", root="root", remote="neptune://killed/forward",
    capture=dict.fromkeys(("packages", "git", "script", "host"), False),
    **{f"capture_{what}": False for what in (
        "stdout", "stderr", "hardware_metrics", "traceback")},
)
for step in range(life * 100_000, life * 100_000 + 20_000):
    run.log_metrics({"loss": step / 7, "acc": -step}, step=step)
    if step % 50 == 0:
        run["log"].append(f"line {step}", step=step)
        print(step, flush=True)
    time.sleep(0.002)
"""
READS = """
import json, neptune
project = neptune.init_project(mode="read-only")
name = project.fetch_runs_table().to_pandas()["sys/id"][0]
run = neptune.init_run(with_id=name, mode="read-only")
found = {path: run[path].fetch_values(include_timestamp=False) for path in ("loss", "acc", "log")}
told = {path: one[["step", "value"]].values.tolist() for path, one in found.items()}
open("found.json", "w").write(json.dumps(told))
"""


class Kills:
    """A training that is started several times, and kills of it and its server."""

    def __init__(self, server, folder, env, seed):
        self.server, self.folder = server, folder
        self.env = {**os.environ, **env, "PYTHONWARNINGS": "ignore"}
        self.chance = random.Random(seed)

    def run(self, *words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def live(self, life, whom):
        """Train; kill the server or none; then the training."""
        process = subprocess.Popen(
            [sys.executable, "-c", TRAINS, str(life)],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout.readline()
        time.sleep(self.chance.uniform(0.3, 4.0))
        if whom == "server":
            self.server.kill()
            self.server.start()
            time.sleep(self.chance.uniform(0.5, 4.0))
            assert process.poll() is None, "the training ended with its server"
        process.kill()
        process.wait(60)
        process.stdout.close()

    def check(self):
        """Compare all points on the server with those on this disk."""
        import seamark

        sync = ["-m", "seamark", "sync", "--root", "root", "--to", "neptune://killed/forward"]
        self.run(*sync)
        assert "was at neptune://killed/forward already" in self.run(*sync).stderr
        root = str(self.folder / "root")
        run = seamark.init_run("kills", custom_run_id="one", root=root, mode="read-only")
        self.run("-c", READS)
        there = json.loads((self.folder / "found.json").read_text())
        for path in ("loss", "acc", "log"):
            frame = run[path].fetch_values(include_timestamp=False)
            wanted = Counter(map(tuple, frame[["step", "value"]].values.tolist()))
            found = Counter((step, value) for step, value in there[path])
            assert wanted, path
            assert not wanted - found, f"{path}: lost {list(wanted - found)[:5]}"
            assert not found - wanted, f"{path}: twice {list(found - wanted)[:5]}"


def run_kills(new_server, folder, ways, seed):
    server = new_server(folder / "server")
    try:
        kills = Kills(server, folder, server.environment("killed/forward"), seed)
        for life, whom in enumerate(ways):
            kills.live(life, whom)
        kills.check()
    finally:
        server.stop()


@pytest.mark.slow
def test_each_point_arrives_once_after_kills_of_server_and_training(new_server, tmp_path):
    """The training is started again after each; ``seamark sync`` sends the rest."""
    run_kills(new_server, tmp_path, ["server", "training"], 1)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_each_point_arrives_once_after_twenty_kills(new_server, tmp_path):
    run_kills(new_server, tmp_path, ["server", "training"] * 10, 2)
