"""A run on a server is copied to the disk of the process that resumes it: its journals."""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from recording import QUIET
from server_waits import until

import seamark
from seamark.journal.reader import JournalReader
from seamark.remote import shipper as shippers


def record(run, steps):
    for step in steps:
        run.log_metrics({"loss": 1 / (step + 1)}, step=step)


def steps(run, **given):
    return list(run["loss"].fetch_values(**given)["step"])


def headers(run):
    found = []
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            found.append(reader.header())
    return found


@pytest.fixture
def first(server, tmp_path, request):
    """What machine A recorded, all of it sent; and how machine B opens it."""
    given: Any = {
        **QUIET,
        "project": "x/" + request.node.originalname.replace("_", "-")[:60],
        "remote": server.url,
        "api_token": server.token,
    }
    run = seamark.init_run(root=tmp_path / "a", name="first", **given)
    record(run, range(10))
    run["params/lr"] = 0.1
    (tmp_path / "weights.bin").write_bytes(b"w" * 5000)
    run["model"].upload(str(tmp_path / "weights.bin"), wait=True)
    run.stop()
    assert shippers.flush(server.url, 60)
    return run, given


def test_what_is_recorded_is_read_whole(first, tmp_path):
    """Its own part, and what only the server has: values, series, structure, files."""
    pytest.importorskip("pandas")
    before, given = first
    run = seamark.init_run(root=tmp_path / "b", with_id=before.id, owner=True, **given)
    record(run, range(10, 15))
    run["params/more"] = 2
    assert steps(run) == list(range(15))
    assert run["loss"].fetch_last() == 1 / 15
    assert run["params/lr"].fetch() == 0.1
    assert run.exists("params/lr")
    assert set(run.get_structure()["params"]) == {"lr", "more"}
    run["model"].download(str(tmp_path / "got.bin"))
    assert (tmp_path / "got.bin").read_bytes() == b"w" * 5000
    run.stop()
    assert journals(before).items() <= journals(run).items()
    # What the second machine recorded since is copied back to the first one.
    assert shippers.flush(given["remote"], 60)
    again = seamark.init_run(root=tmp_path / "a", with_id=before.id, **{**given, "owner": True})
    again["loss"].append(0.5)
    again.stop()
    assert steps(
        seamark.init_run(
            root=tmp_path / "a", with_id=before.id, mode="read-only", project=given["project"]
        )
    ) == list(range(16))


def test_without_an_answer_a_new_writer_starts_and_the_next_start_copies(first, tmp_path, caplog):
    pytest.importorskip("pandas")
    before, given = first
    away = {**given, "remote": "http://127.0.0.1:9", "owner": True}
    run = seamark.init_run(root=tmp_path / "b", with_id=before.id, **away)
    record(run, range(10, 12))
    assert steps(run) == [10, 11]
    assert steps(run) == [10, 11]
    told = [each.getMessage() for each in caplog.records]
    assert sum("cannot be asked now" in line for line in told) == 1
    state = run.checkpoint_state()
    run.stop(seconds=0)
    again = seamark.init_run(root=tmp_path / "b", **given).resumed(state)
    assert again.id == before.id
    assert steps(again) == list(range(12))
    again.stop()
    caplog.clear()
    third = seamark.init_run(root=tmp_path / "b", with_id=before.id, **away)
    assert steps(third) == list(range(12))
    told = [each.getMessage() for each in caplog.records]
    assert sum("has records elsewhere" in line for line in told) == 1
    third.stop(seconds=0)


def test_a_checkpoint_of_a_part_hides_nothing_of_the_rest(first, tmp_path):
    pytest.importorskip("pandas")
    before, given = first
    run = seamark.init_run(root=tmp_path / "b", with_id=before.id, **given)
    record(run, range(10, 15))
    state = run.checkpoint_state()
    record(run, range(15, 18))
    run.stop()
    again = seamark.init_run(root=tmp_path / "b", **given).resumed(state)
    assert again.id == before.id
    record(again, range(15, 17))
    assert steps(again) == list(range(17))
    assert len(steps(again, attempt="all")) == 20
    again.stop()


def test_what_was_recorded_in_the_step_of_a_checkpoint_belongs_to_it(first, tmp_path):
    pytest.importorskip("pandas")
    before, given = first
    run = seamark.init_run(root=tmp_path / "b", with_id=before.id, **given)
    record(run, range(10, 12))
    state = run.checkpoint_state(marked=True)
    record(run, range(12, 13))  # still of the step in which it was saved
    run.session.resume.mark_checkpoint()
    record(run, range(13, 16))
    run.stop()
    assert shippers.flush(given["remote"], 60)
    other = seamark.init_run(root=tmp_path / "c", **given).resumed(state)
    record(other, range(13, 14))
    assert steps(other) == list(range(14))
    other.stop()
    assert journals(run).items() <= journals(other).items()
    assert shippers.flush(given["remote"], 60)
    assert steps(read(before, given, tmp_path)) == list(range(14))


def test_a_requeued_job_finds_its_run_by_the_name_that_its_script_gives(
    server, tmp_path, monkeypatch
):
    """SLURM put it on another machine: the number of the job is the same there."""
    given: Any = {**QUIET, "remote": server.url, "api_token": server.token}
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SEAMARK_CUSTOM_RUN_ID", "job-77")
    run = seamark.init_run("slurm", root=tmp_path / "a", **given)
    record(run, range(3))
    run.stop()
    assert shippers.flush(server.url, 60)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    again = seamark.init_run("slurm", root=tmp_path / "b", **given)
    assert again.id == run.id
    again["loss"].append(0.5)
    again.stop()
    copied = {each.writer for each in run.folder.journals()}
    assert {one["attempt"]: one["writer"] in copied for one in headers(again)} == {
        0: True,
        1: False,
    }


LOST = """
import os, signal, sys
sys.path.insert(0, {support!r})
import seamark
from recording import QUIET
from seamark.remote import shipper
for name in {names!r}:
    run = seamark.init_run("power", root={root!r}, remote={url!r}, custom_run_id=name, **QUIET)
    for step in range(10): run.log_metrics({{"loss": 1.0}}, step=step)
    sizes = run.session.recorder.positions()
    for step in range(10, 20): run.log_metrics({{"loss": 1.0}}, step=step)
    print(run.id, *sizes.values(), flush=True)
assert shipper.flush({url!r}, 60)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_disk_lost_to_a_power_cut_comes_back(server, tmp_path):
    """Whole records, half a record, or zeros: a file may get its length before its bytes."""
    pytest.importorskip("pandas")
    root, env = tmp_path / "root", {**os.environ, "SEAMARK_API_TOKEN": server.token}
    support = str(Path(__file__).parents[1] / "support")
    cases = ["whole records", "half a record", "zeros"]
    text = LOST.format(support=support, root=str(root), url=server.url, names=cases)
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    for left, line in zip(cases, done.stdout.splitlines(), strict=True):
        name, kept = line.split()
        (journal,) = root.glob(f"power/{name}/journal/*")
        size = journal.stat().st_size
        os.truncate(journal, int(kept) + (40 if left == "half a record" else 0))
        if left == "zeros":
            os.truncate(journal, size - 8)
        given: Any = {**QUIET, "remote": server.url, "api_token": server.token}
        run = seamark.init_run("power", root=root, custom_run_id=left, **given)
        record(run, range(20, 22))
        assert shippers.flush(server.url, 60)
        assert steps(run) == list(range(22))
        state = run.checkpoint_state()
        record(run, range(22, 25))
        run.stop()
        again = seamark.init_run("power", root=root, **given).resumed(state)
        record(again, range(22, 23))
        assert shippers.flush(server.url, 60)
        assert steps(again) == list(range(23))
        again.stop()


def test_an_evaluation_there_is_no_training_here(first, tmp_path):
    before, given = first

    def last(path):
        there = read(before, given, tmp_path)
        return there.exists(path) and there[path].fetch_points().step[-1]

    def state():
        return read(before, given, tmp_path)["sys/state"].fetch()

    until(lambda: last("loss") == 9)
    for name in ("b", "c"):
        run = seamark.init_run(root=tmp_path / name, with_id=before.id, **given)
        run.log_metrics({"eval/acc": 0.5}, step=ord(name))
        run.stop()
        assert shippers.flush(given["remote"], 60)
        until(lambda: last("eval/acc") == ord(name))  # noqa: B023 - called here
        assert not any(one["owner"] for one in headers(run))
    run = seamark.init_run(root=tmp_path / "d", with_id=before.id, owner=True, **given)
    run.set_state("interrupted")
    run.stop()
    assert shippers.flush(given["remote"], 60)
    until(lambda: state() == "interrupted")
    run = seamark.init_run(root=tmp_path / "e", with_id=before.id, **given)
    record(run, range(10, 12))
    run.stop()
    assert any(one["owner"] for one in headers(run))


# ---------------------------------------------------------------------- a copy that is cut short


def kept_by(keeper, run):
    """Have a keeper answer for a run as a server does that stores what it was sent."""
    assert shippers.flush(keeper.url, 60)
    told: dict[str, Any] = {}
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            told[journal.writer] = {**reader.header(), "bytes": journal.path.stat().st_size}
    keeper.openings[run.project, run.id] = {"journals": told, "resumable": True}


def recorded(begin, keeper, tmp_path):
    """Record a run of two journals that a keeper stores."""
    run = begin(root=tmp_path / "a", remote=keeper.url)
    record(run, range(10))
    run.session.recorder.writer.rotate()
    record(run, range(10, 20))
    run.stop()
    kept_by(keeper, run)
    return run


def journals(run):
    return {each.path.name: each.path.read_bytes() for each in run.folder.journals()}


def test_a_copy_that_was_cut_short_goes_on_where_it_stopped(begin, keeper, tmp_path, caplog):
    first = recorded(begin, keeper, tmp_path)
    one, two = sorted(journals(first))
    keeper.meddle = lambda method, path, query: (
        (403, {"error": "no", "hint": "not now"}, {})
        if method == "GET" and path.endswith(two)
        else None
    )
    run = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
    run["note"] = "without all of it"
    run.stop()
    assert any("could not be copied" in each.getMessage() for each in caplog.records)
    assert journals(run).keys() & {one, two} == {one}
    keeper.meddle = lambda *_: None
    kept_by(keeper, run)
    keeper.openings["p", first.id]["journals"] |= {
        name.rpartition(".")[0]: {"bytes": len(data)} for name, data in journals(first).items()
    }
    keeper.asked.clear()
    again = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
    again.stop()
    read = [path.rpartition("/")[2] for method, path in keeper.asked if method == "GET"]
    assert two in read
    assert one not in read
    assert journals(first).items() <= journals(again).items()


HOSTILE = {
    "another offset": (200, b"x" * 64, {"Seamark-Offset": "64"}),
    "no offset": (200, b"x" * 64, {}),
    "an offset that is none": (200, b"x" * 64, {"Seamark-Offset": "-1"}),
    "bytes that are no frames": (200, b"x" * 64, {"Seamark-Offset": "0"}),
    "a gap at the beginning": (200, b"", {"Seamark-Offset": "0", "Seamark-Gap": "64"}),
    "a gap without end": (200, b"", {"Seamark-Offset": "0", "Seamark-Gap": "9" * 40}),
    "nothing": (204, b"", {}),
    "an error": (500, b"{}", {}),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_odd_answers_are_not_copied(begin, keeper, tmp_path, answer, caplog):
    first = recorded(begin, keeper, tmp_path)
    keeper.meddle = lambda method, path, query: (
        answer if method == "GET" and "/journals/" in path else None
    )
    run = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
    run["a"] = 1
    run.stop()
    told = [each.getMessage() for each in caplog.records if "copied" in each.getMessage()]
    assert len(told) == 1
    assert not journals(run).keys() & journals(first).keys()


@pytest.mark.parametrize("name", ["../../x.bin", ".hidden", "no-journal", "a/b." + "0" * 32])
def test_names_of_journals_stay_in_the_folder(begin, keeper, tmp_path, name):
    first = recorded(begin, keeper, tmp_path)
    keeper.journals["p", first.id] = {name: bytearray(b"x" * 64)}
    before = {path for path in tmp_path.rglob("*") if "b" not in path.relative_to(tmp_path).parts}
    run = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
    run["a"] = 1
    run.stop()
    after = {path for path in tmp_path.rglob("*") if "b" not in path.relative_to(tmp_path).parts}
    assert after == before
    assert [each.name for each in (tmp_path / "b").iterdir()] == ["p"]
    assert all(
        JournalReader(each.path).header()["run"] == first.id for each in run.folder.journals()
    )


def test_the_journals_of_another_run_are_not_copied(begin, keeper, tmp_path):
    first = recorded(begin, keeper, tmp_path)
    other = begin(root=tmp_path / "a", remote=keeper.url)
    other["secret"] = 1
    other.stop()
    kept_by(keeper, other)
    keeper.journals["p", first.id] = keeper.journals["p", other.id]
    run = begin(root=tmp_path / "b", remote=keeper.url, with_id=first.id)
    run["a"] = 1
    run.stop()
    assert not journals(run).keys() & journals(other).keys()


RESUMING = """
import sys
sys.path.insert(0, {support!r})
import seamark
from recording import QUIET
sys.stdin.readline()
given = dict(QUIET, root={root!r}, remote={url!r}, custom_run_id="x", owner=True)
run = seamark.init_run({project!r}, **given)
run["mine"] = 1
run.stop()
"""


def test_several_processes_copy_one_run_at_the_same_time(server, tmp_path):
    given: Any = {**QUIET, "remote": server.url, "api_token": server.token}
    first = seamark.init_run("at-once", root=tmp_path / "a", custom_run_id="x", **given)
    for step in range(20_000):
        first.log_metrics({"loss": 1.0, "acc": 0.5}, step=step)
    first.stop()
    assert shippers.flush(server.url, 60)
    env = {**os.environ, "SEAMARK_API_TOKEN": server.token}
    support = str(Path(__file__).parents[1] / "support")
    asked = {"project": "at-once", "url": server.url}
    text = RESUMING.format(support=support, root=str(tmp_path / "b"), **asked)
    several = [
        subprocess.Popen([sys.executable, "-c", text], env=env, stdin=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in several:
        process.stdin.close()  # for which they wait once they have imported everything
    assert [process.wait(120) for process in several] == [0] * 3
    run = seamark.init_run("at-once", root=tmp_path / "b", custom_run_id="x", mode="read-only")
    assert journals(first).items() <= journals(run).items()
    assert len(journals(run)) == len(journals(first)) + 3


RECORDING = """
import sys
sys.path.insert(0, {support!r})
import seamark
from recording import QUIET
from seamark.remote import shipper
given = dict(QUIET, root={root!r}, remote={url!r}, custom_run_id="x")
run = seamark.init_run({project!r}, **given)
for step in range(20_000): run.log_metrics({{"loss": 1.0, "acc": 0.5}}, step=step)
run.stop()
assert shipper.flush({url!r}, 60)
"""


def test_a_copy_leaves_alone_what_another_process_is_copying(server, tmp_path):
    env = {**os.environ, "SEAMARK_API_TOKEN": server.token}
    given = {"support": str(Path(__file__).parents[1] / "support"), "url": server.url}
    given["project"] = "half-copied"
    text = RECORDING.format(root=str(tmp_path / "a"), **given)
    subprocess.run([sys.executable, "-c", text], env=env, check=True)
    (source,) = tmp_path.glob("a/half-copied/*/journal/*")
    data, target = source.read_bytes(), tmp_path / "b" / source.relative_to(tmp_path / "a")
    target.parent.mkdir(parents=True)
    target.write_bytes(data[: len(data) // 2])
    text = RESUMING.format(root=str(tmp_path / "b"), **given)
    with target.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiter = re.compile(rf"-> FLOCK .*:{os.fstat(file.fileno()).st_ino} ")
        process = subprocess.Popen([sys.executable, "-c", text], env=env, stdin=subprocess.DEVNULL)
        until(lambda: waiter.search(Path("/proc/locks").read_text("ascii")))
        file.write(data[len(data) // 2 :])
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
    assert process.wait(120) == 0
    assert target.read_bytes() == data


def test_a_copy_of_who_only_adds_reads_the_run_on_its_server(first, tmp_path, monkeypatch):
    before, given = first
    monkeypatch.setenv("SEAMARK_API_TOKEN", given["api_token"])
    run = seamark.init_run(root=tmp_path / "b", with_id=before.id, owner=False, **given)
    run.log_metrics({"eval/acc": 0.5}, step=1)
    assert len(journals(run)) == 1
    there = pickle.loads(pickle.dumps(run))
    assert there["loss"].fetch_last() == 0.1
    assert there["eval/acc"].fetch_last() == 0.5
    there.stop()
    run.stop()


# ---------------------------------------------------------------------- several machines in turn


def away(given):
    return {**given, "remote": "http://127.0.0.1:9"}


def sync(run, given):
    """Send what a run recorded while its server was away."""
    seamark.sync(run.folder.path, to=given["remote"], api_token=given["api_token"])


def read(run, given, tmp_path):
    """Open a run on its server once that has all of it."""
    return seamark.init_run(
        root=tmp_path / "reads", with_id=run.id, **{**given, "mode": "read-only"}
    )


def test_an_evaluation_does_not_take_over_a_run_that_this_disk_knows_better(server, tmp_path):
    given: Any = {**QUIET, "project": "x/knows-better", "api_token": server.token}
    given |= {"remote": server.url, "custom_run_id": "x", "root": tmp_path / "a"}
    run = seamark.init_run(**given)
    record(run, range(3))
    run.set_state("interrupted")
    run.stop()
    assert shippers.flush(server.url, 60)
    again = seamark.init_run(**away(given))
    record(again, range(3, 5))
    again.stop(seconds=0)
    evaluation = seamark.init_run(**given)
    evaluation.log_metrics({"eval/acc": 0.5}, step=1)
    evaluation.stop()
    assert [one["owner"] for one in headers(evaluation)].count(True) == 2


@pytest.mark.parametrize("part", ["nothing", "an old part"])
def test_a_checkpoint_without_the_server_hides_nothing_of_other_machines(first, tmp_path, part):
    pytest.importorskip("pandas")
    _, given = first
    given = {**given, "custom_run_id": part, "owner": True}
    run = seamark.init_run(root=tmp_path / "a", **given)
    record(run, range(5))
    run.stop()
    assert shippers.flush(given["remote"], 60)
    here = "a" if part == "an old part" else "c"
    if here == "a":
        between = seamark.init_run(root=tmp_path / "b", **given)
        record(between, range(5, 10))
        between.stop()
        assert shippers.flush(given["remote"], 60)
    saver = seamark.init_run(root=tmp_path / here, **away(given))
    record(saver, range(10, 12))
    state = saver.checkpoint_state()
    record(saver, range(12, 14))
    saver.stop(seconds=0)
    again = seamark.init_run(root=tmp_path / here, **given).resumed(state)
    record(again, range(12, 13))
    again.stop()
    assert steps(again) == [*range(10 if here == "a" else 5), 10, 11, 12]
