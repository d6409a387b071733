"""``seamark sync`` tells a server that a process of its machine has ended."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("fastapi")

from click.testing import CliRunner
from command import app
from scripts import start_script
from server_waits import until

import seamark
from seamark.journal.folder import iter_runs
from seamark.journal.format import Kind
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.process.liveness import Evidence
from seamark.remote.unrecorded_ends import observations_of

TRAINING = """
import sys, time
import seamark
from recording import QUIET
project, root, name = sys.argv[1:]
run = seamark.init_run(project, root=root, custom_run_id=name, **QUIET)
run["loss"].append(1.0)
print("ready", flush=True)
time.sleep(600)
"""


def killed(process):
    process.kill()
    process.communicate()


@pytest.fixture
def train(tmp_path):
    """Start a training in a process of its own; at the end it is killed."""
    begun = []

    def start(project, name="one"):
        begun.append(start_script(TRAINING, project, str(tmp_path / "root"), name))
        assert begun[-1].stdout.readline() == "ready\n"
        return begun[-1]

    yield start
    for process in begun:
        if process.returncode is None:
            killed(process)


@pytest.fixture
def team(server, tmp_path, monkeypatch):
    """A project on the server, and the state of its only run there."""
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


def test_a_killed_process_is_known_at_once(team, train):
    """The server does not wait: the run is crashed, as here; resumed, it is running."""
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
    sync()
    train(project)
    sync()
    until(lambda: '"running"' in state())
    assert "process gone" not in state()


def test_only_the_host_of_a_process_observes_its_end(tmp_path, train, monkeypatch):
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
            assert observations_of(folder.run, folder.journals(), {}) == {}
    with seamark.init_run("q", root=tmp_path / "other", custom_run_id="ended") as run:
        run["loss"].append(1.0)
    assert observations_of(run.id, run.folder.journals(), {}) == {}


def test_the_observation_of_another_machine_is_ignored(team, train, monkeypatch):
    project, sync, state = team
    killed(train(project))
    place = "seamark.remote.unrecorded_ends._host_and_boot"
    monkeypatch.setattr(place, lambda header: {"host": header["host"], "boot": "another"})
    sync()
    until(lambda: '"running"' in state())
    assert "process gone" not in state()


def test_a_process_that_ends_by_itself_meanwhile_is_no_crash(tmp_path, monkeypatch):
    run = seamark.init_run("p", root=tmp_path, custom_run_id="one")
    run["loss"].append(1.0)

    def ends(self, header):
        run.stop()
        return False

    monkeypatch.setattr(Evidence, "alive", ends)
    assert observations_of(run.id, run.folder.journals(), {}) == {}
