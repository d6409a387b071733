"""What the host of a process knows of its end reaches the server with ``seamark sync``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from click.testing import CliRunner
from command import app
from server_waits import until

import seamark
from seamark.journal.folder import iter_runs
from seamark.journal.format import Kind
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.process.liveness import Evidence
from seamark.remote.ended import observations_of

TRAINING = """
import sys, time
sys.path.insert(0, {support!r})
import seamark
from recording import QUIET
run = seamark.init_run({project!r}, root={root!r}, custom_run_id={name!r}, **QUIET)
run["loss"].append(1.0)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def train(tmp_path):
    """Start a training in a process of its own; those that are left are killed."""
    begun = []

    def start(project, name="one", root="root"):
        support = str(Path(__file__).parents[1] / "support")
        given = {"support": support, "project": project, "root": str(tmp_path / root), "name": name}
        command = [sys.executable, "-c", TRAINING.format(**given)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def team(server, tmp_path, monkeypatch):
    """A project on the server, and its state there of the only run."""
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    project = f"observed/{tmp_path.name.replace('_', '-')}"

    def sync():
        words = ["sync", "--root", str(tmp_path / "root"), "--to", server.url]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output

    def state():
        words = ["ls", "--project", project, "--remote", server.url, "--json"]
        said = CliRunner().invoke(app, [*words, "--columns", "sys/state,sys/crash_reason"])
        return said.stdout

    return project, sync, state


def killed(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_killed_process_is_known_at_once(team, train):
    """The server waits for nothing: the run is crashed, as here, and resumed it is running."""
    project, sync, state = team
    process = train(project)
    sync()
    until(lambda: '"running"' in state())
    began = time.monotonic()
    killed(process)
    sync()
    until(lambda: '"crashed"' in state())
    assert time.monotonic() - began < SETTLE_NS / 1e9 / 2
    assert "process gone" in state()
    sync()  # nothing is told twice
    train(project)
    sync()
    until(lambda: '"running"' in state())
    assert "process gone" not in state()


def test_only_the_host_of_a_process_tells_of_its_end(tmp_path, train, monkeypatch):
    process = train("p", "lives")
    (folder,) = iter_runs(tmp_path / "root")
    assert observations_of(folder.run, folder.journals(), {}) == {}
    killed(process)
    told = observations_of(folder.run, folder.journals(), {})
    ((name, data),) = told.items()
    file = tmp_path / name
    file.write_bytes(data)
    with JournalReader(file) as reader:
        last = reader.last_frame()
    assert last is not None
    assert (last.kind, last.end) == (Kind.CLOSE, len(data))
    assert observations_of(folder.run, folder.journals(), told.keys()) == {}
    assert observations_of(folder.run, folder.journals(), {}) == told
    for name in ("host_name", "boot_id"):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(f"seamark.process.liveness.{name}", lambda: "another")
            elsewhere.setattr(f"seamark.process.liveness.{name}", lambda: "another")
            assert observations_of(folder.run, folder.journals(), {}) == {}
    with seamark.init_run("q", root=tmp_path / "other", custom_run_id="ended") as run:
        run["loss"].append(1.0)
    assert observations_of(run.id, run.folder.journals(), {}) == {}


def test_what_another_machine_says_of_a_process_is_not_believed(team, train, monkeypatch):
    project, sync, state = team
    killed(train(project))
    place = "seamark.remote.ended._place"
    monkeypatch.setattr(place, lambda header: {"host": header["host"], "boot": "another"})
    sync()
    until(lambda: '"running"' in state())
    assert "process gone" not in state()


def test_a_process_that_ends_by_itself_meanwhile_is_not_said_to_be_gone(tmp_path, monkeypatch):
    run = seamark.init_run("p", root=tmp_path, custom_run_id="one")
    run["loss"].append(1.0)

    def ends(self, header):
        run.stop()
        return False

    monkeypatch.setattr(Evidence, "alive", ends)
    assert observations_of(run.id, run.folder.journals(), {}) == {}
