"""A run on a server is copied to the disk of the process that resumes it: its journals."""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from recording import QUIET
from scripts import run_script
from server_waits import until

import seamark
from seamark.journal.reader import JournalReader
from seamark.remote import shipper as shippers

NOWHERE = "http://127.0.0.1:9"


def record(run, steps):
    for step in steps:
        run.log_metrics({"loss": 1 / (step + 1)}, step=step)


def steps(run, **given):
    return list(run["loss"].fetch_values(**given)["step"])


def journals(run):
    return {each.path.name: each.path.read_bytes() for each in run.folder.journals()}


def headers(run):
    found = []
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            found.append(reader.header())
    return found


class Machines:
    """Several machines, each with a root of its own, that send to one server.

    Attributes:
        first: A run that machine a recorded, all of which is on the server.
    """

    def __init__(self, server: Any, folder: Path) -> None:
        self.folder, self.url = folder, server.url
        self.given: Any = {**QUIET, "project": f"x/{folder.name}", "remote": server.url}
        self.first = self.open("a", name="first")
        record(self.first, range(10))
        self.first["params/lr"] = 0.1
        (folder / "weights.bin").write_bytes(b"w" * 5000)
        self.first["model"].upload(str(folder / "weights.bin"), wait=True)
        self.end(self.first)

    def open(self, machine, **more):
        return seamark.init_run(root=self.folder / machine, **{**self.given, **more})

    def go_on(self, machine, **more):
        """Open the first run."""
        return self.open(machine, with_id=self.first.id, **more)

    def end(self, run):
        """Stop a run and wait until the server has all of it."""
        run.stop()
        self.flush()

    def flush(self):
        assert shippers.flush(self.url, 60)

    def read(self):
        """Open the first run on its server."""
        return self.go_on("reads", mode="read-only")


@pytest.fixture
def machines(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    return Machines(server, tmp_path)


def test_a_resumed_run_is_read_whole(machines, tmp_path):
    """Its own part, and what was only on the server: values, series, structure, files."""
    pytest.importorskip("pandas")
    run = machines.go_on("b", owner=True)
    record(run, range(10, 15))
    run["params/more"] = 2
    run["power"].keep(seamark.Statistics())
    run["power"].extend([1.0, 2.0, 3.0])
    assert steps(run) == list(range(15))
    assert run["loss"].fetch_last() == 1 / 15
    assert run["params/lr"].fetch() == 0.1
    assert run.exists("params/lr")
    assert set(run.get_structure()["params"]) == {"lr", "more"}
    run["model"].download(str(tmp_path / "got.bin"))
    assert (tmp_path / "got.bin").read_bytes() == b"w" * 5000
    machines.end(run)
    assert journals(machines.first).items() <= journals(run).items()
    # What the second machine recorded since is copied back to the first one.
    again = machines.go_on("a", owner=True)
    again["loss"].append(0.5)
    again["power"].keep(seamark.Statistics())
    again["power"].append(6.0)
    again.stop()
    last = machines.go_on("a", mode="read-only", remote=None)
    assert steps(last) == list(range(16))
    assert (last["power"].fetch().count, last["power"].fetch().mean) == (4, 3.0)


def test_without_an_answer_a_new_writer_starts_and_the_next_start_copies(
    machines, caplog, monkeypatch
):
    pytest.importorskip("pandas")
    monkeypatch.setattr("seamark.run.recorded._SEND_S", 0.1)

    def warned(text):
        return sum(text in each.getMessage() for each in caplog.records)

    run = machines.go_on("b", remote=NOWHERE, owner=True)
    record(run, range(10, 12))
    assert steps(run) == steps(run) == [10, 11]
    assert warned("Reads use the records on this disk") == 1
    state = run.checkpoint_state()
    run.stop(seconds=0)
    again = machines.open("b").resumed(state)
    assert again.id == run.id
    assert steps(again) == list(range(12))
    again.stop()
    caplog.clear()
    third = machines.go_on("b", remote=NOWHERE, owner=True)
    assert steps(third) == list(range(12))
    assert warned("has records elsewhere") == 1
    third.stop(seconds=0)


def test_a_checkpoint_of_a_resumed_run_is_resumed_on_its_machine_and_another(machines):
    """It hides nothing of before; points of the step in which it was saved belong to it."""
    pytest.importorskip("pandas")
    run = machines.go_on("b")
    record(run, range(10, 12))
    state = run.checkpoint_state(marked=True)
    record(run, range(12, 13))  # still of the step in which it was saved
    run.session.resume.mark_checkpoint()
    record(run, range(13, 16))
    machines.end(run)
    for machine, attempts in (("b", 17), ("c", 18)):
        again = machines.open(machine).resumed(state)
        assert again.id == run.id
        record(again, range(13, 14))
        assert steps(again) == list(range(14))
        assert len(steps(again, attempt="all")) == attempts
        machines.end(again)
        assert journals(run).items() <= journals(again).items()
    assert steps(machines.read()) == list(range(14))


LOST = """
import os, signal, sys
import seamark
from recording import QUIET
from seamark.remote import shipper
root, url, *names = sys.argv[1:]
for name in names:
    run = seamark.init_run("power", root=root, remote=url, custom_run_id=name, **QUIET)
    for step in range(10): run.log_metrics({"loss": 1.0}, step=step)
    sizes = run.session.recorder.positions()
    for step in range(10, 20): run.log_metrics({"loss": 1.0}, step=step)
    print(run.id, *sizes.values(), flush=True)
assert shipper.flush(url, 60)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_records_that_a_disk_lost_in_a_power_cut_come_back(machines, tmp_path):
    """Whole records, half a record, or zeros: a file may get its length before its bytes."""
    pytest.importorskip("pandas")
    root, cases = tmp_path / "root", ["whole records", "half a record", "zeros"]
    out, _ = run_script(LOST, str(root), machines.url, *cases, status=-signal.SIGKILL)
    for left, line in zip(cases, out.splitlines(), strict=True):
        name, kept = line.split()
        (journal,) = root.glob(f"power/{name}/journal/*")
        size = journal.stat().st_size
        os.truncate(journal, int(kept) + (40 if left == "half a record" else 0))
        if left == "zeros":
            os.truncate(journal, size - 8)
        run = machines.open("root", project="power", custom_run_id=left)
        record(run, range(20, 22))
        machines.flush()
        assert steps(run) == list(range(22))
        state = run.checkpoint_state()
        record(run, range(22, 25))
        run.stop()
        again = machines.open("root", project="power").resumed(state)
        record(again, range(22, 23))
        machines.flush()
        assert steps(again) == list(range(23))
        again.stop()


def test_an_evaluation_takes_over_no_run(machines):
    """Not on another machine, and not where this disk has more of the run than the server."""
    until(lambda: machines.read()["sys/state"].fetch() == "completed")
    run = machines.go_on("b")
    run.log_metrics({"eval/acc": 0.5}, step=1)
    machines.end(run)
    assert not any(one["owner"] for one in headers(run))
    run = machines.go_on("d", owner=True)
    run.set_state("interrupted")
    machines.end(run)
    until(lambda: machines.read()["sys/state"].fetch() == "interrupted")
    run = machines.go_on("e")
    record(run, range(10, 12))
    run.set_state("interrupted")
    machines.end(run)
    assert [one["owner"] for one in headers(run)].count(True) == 3  # a training does
    again = machines.go_on("e", remote=NOWHERE)
    record(again, range(12, 14))
    again.stop(seconds=0)
    evaluation = machines.go_on("e")
    evaluation.log_metrics({"eval/acc": 0.5}, step=1)
    evaluation.stop()
    assert [one["owner"] for one in headers(evaluation)].count(True) == 4


@pytest.mark.parametrize("here", ["c", "a"], ids=["nothing", "an old part"])
def test_a_checkpoint_without_the_server_hides_nothing_of_other_machines(machines, here):
    pytest.importorskip("pandas")
    given = {"custom_run_id": "x", "owner": True}
    run = machines.open("a", **given)
    record(run, range(5))
    machines.end(run)
    if here == "a":
        between = machines.open("b", **given)
        record(between, range(5, 10))
        machines.end(between)
    saver = machines.open(here, **{**given, "remote": NOWHERE})
    record(saver, range(10, 12))
    state = saver.checkpoint_state()
    record(saver, range(12, 14))
    saver.stop(seconds=0)
    again = machines.open(here, **given).resumed(state)
    record(again, range(12, 13))
    again.stop()
    assert steps(again) == [*range(10 if here == "a" else 5), 10, 11, 12]


def test_a_process_that_only_adds_copies_nothing_and_reads_the_server(machines):
    run = machines.go_on("b", owner=False)
    run.log_metrics({"eval/acc": 0.5}, step=1)
    assert len(journals(run)) == 1
    there = pickle.loads(pickle.dumps(run))
    assert there["loss"].fetch_last() == 0.1
    assert there["eval/acc"].fetch_last() == 0.5
    there.stop()
    run.stop()


# ---------------------------------------------------------------------- a copy that is cut short


def kept_by(keeper, run):
    """Let a keeper answer for a run as a server does that stores its journals."""
    assert shippers.flush(keeper.url, 60)
    told: dict[str, Any] = {}
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            told[journal.writer] = {**reader.header(), "bytes": journal.path.stat().st_size}
    keeper.openings[run.project, run.id] = {"journals": told, "resumable": True}


@pytest.fixture
def first(begin, keeper, tmp_path):
    """A run of two journals that a keeper stores."""
    run = begin(root=tmp_path / "a", remote=keeper.url)
    record(run, range(10))
    run.session.recorder.writer.rotate()
    record(run, range(10, 20))
    run.stop()
    kept_by(keeper, run)
    return run


@pytest.fixture
def resume(begin, keeper, tmp_path, first):
    """Record a value in the first run on another machine."""

    def resume():
        run = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
        run["a"] = 1
        run.stop()
        return run

    return resume


def test_a_copy_that_was_cut_short_continues_where_it_stopped(first, resume, keeper, caplog):
    one, two = sorted(journals(first))
    keeper.meddle = lambda method, path, query: (
        (403, {"error": "no", "hint": "not now"}, {})
        if method == "GET" and path.endswith(two)
        else None
    )
    run = resume()
    assert any("could not be copied" in each.getMessage() for each in caplog.records)
    assert journals(run).keys() & {one, two} == {one}
    keeper.meddle = lambda *_: None
    kept_by(keeper, run)
    keeper.openings["p", first.id]["journals"] |= {
        name.rpartition(".")[0]: {"bytes": len(data)} for name, data in journals(first).items()
    }
    keeper.asked.clear()
    again = resume()
    read = [path.rpartition("/")[2] for method, path in keeper.asked if method == "GET"]
    assert two in read
    assert one not in read
    assert journals(first).items() <= journals(again).items()


HOSTILE = {
    "another offset": (200, b"x" * 64, {"Seamark-Offset": "64"}),
    "no offset": (200, b"x" * 64, {}),
    "a negative offset": (200, b"x" * 64, {"Seamark-Offset": "-1"}),
    "bytes that are no frames": (200, b"x" * 64, {"Seamark-Offset": "0"}),
    "a gap at the beginning": (200, b"", {"Seamark-Offset": "0", "Seamark-Gap": "64"}),
    "a gap without end": (200, b"", {"Seamark-Offset": "0", "Seamark-Gap": "9" * 40}),
    "nothing": (204, b"", {}),
    "an error": (500, b"{}", {}),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_odd_answers_are_not_copied(first, resume, keeper, answer, caplog):
    keeper.meddle = lambda method, path, query: (
        answer if method == "GET" and "/journals/" in path else None
    )
    run = resume()
    assert sum("copied" in each.getMessage() for each in caplog.records) == 1
    assert not journals(run).keys() & journals(first).keys()


@pytest.mark.parametrize("name", ["../../x.bin", ".hidden", "no-journal", "a/b." + "0" * 32])
def test_names_of_journals_stay_in_the_folder(first, resume, keeper, tmp_path, name):
    def others():
        return {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "b")}

    keeper.journals["p", first.id] = {name: bytearray(b"x" * 64)}
    before = others()
    run = resume()
    assert others() == before
    assert [each.name for each in (tmp_path / "b").iterdir()] == ["p"]
    assert all(header["run"] == first.id for header in headers(run))


def test_the_journals_of_another_run_are_not_copied(first, resume, begin, keeper, tmp_path):
    other = begin(root=tmp_path / "a", remote=keeper.url)
    other["secret"] = 1
    other.stop()
    kept_by(keeper, other)
    keeper.journals["p", first.id] = keeper.journals["p", other.id]
    assert not journals(resume()).keys() & journals(other).keys()


def test_processes_that_copy_one_run_wait_for_each_other(machines, tmp_path):
    """One waits while another one, which has copied half of a journal, copies the rest."""
    first = machines.open("a", custom_run_id="x")
    record(first, range(2000))
    machines.end(first)
    ((name, data),) = journals(first).items()
    target = tmp_path / "b" / first.folder.path.relative_to(tmp_path / "a") / "journal" / name
    target.parent.mkdir(parents=True)
    target.write_bytes(data[: len(data) // 2])
    with target.open("ab") as file, ThreadPoolExecutor(1) as pool:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiter = re.compile(rf"-> FLOCK .*:{os.fstat(file.fileno()).st_ino} ")
        resuming = pool.submit(machines.open, "b", custom_run_id="x", owner=True)
        until(lambda: waiter.search(Path("/proc/locks").read_text("ascii")))
        file.write(data[len(data) // 2 :])
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
        run = resuming.result()
    run["mine"] = 1
    machines.end(run)
    assert journals(first).items() <= journals(run).items()
    assert len(journals(run)) == 2
