"""How a run begins, goes on and ends: arguments, modes, states, processes; and its metrics."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from journals import headers, journals
from journals import operations as ops
from recording import QUIET

from seamark import errors, init_run
from seamark.reading.names import generated_name
from seamark.run.run import make_run
from seamark.types import File

ID = re.compile(r"[a-z0-9]{16}")


def reopened(run):
    return init_run(run.project, root=run.root, with_id=run.id, mode="read-only")


def states(run):
    return [op["state"] for op in ops(run) if op["op"] == "state"]


def in_python(code, *args, **environment):
    words = [sys.executable, "-c", textwrap.dedent(code), *args]
    more = {"env": {**os.environ, **environment}, "capture_output": True, "text": True}
    return subprocess.run(words, check=False, timeout=240, **more)


def test_a_wrong_argument_is_an_exact_error_and_creates_nothing(start, root):
    for given, error, message in (
        ({"tag": 1}, errors.UnknownArgumentError, "'tag'.*did you mean 'tags'"),
        ({"custom_id": 1}, errors.UnknownArgumentError, "'custom_id'.*mean 'custom_run_id'"),
        ({"mode": "ofline"}, errors.ArgumentError, "mode.*'offline'"),
        ({"ranks": "one"}, errors.ArgumentError, "ranks"),
        ({"resume": True}, errors.ArgumentError, "resume"),
        ({"resume": "must"}, errors.RunNotFoundError, "resume='must': expected with_id"),
        ({"dependencies": 3}, errors.ArgumentError, "dependencies: expected 'infer'"),
        ({"dependencies": "missing.txt"}, errors.ArgumentError, "dependencies.*'missing.txt'"),
        ({"checkpoints": "copy"}, errors.ArgumentError, "checkpoints"),
        ({"name": 5}, errors.ArgumentError, "name: expected a string"),
        ({"params": 5}, errors.ArgumentError, "params: expected a mapping, .*, got int: 5"),
        ({"with_id": "a", "custom_run_id": "b"}, errors.ArgumentError, "with_id and custom_run_id"),
        ({"mode": "read-only"}, errors.ArgumentError, "with_id"),
        ({"tags": [1]}, errors.ValueKindError, "tags"),
        ({"project": "a/blobs"}, errors.PathError, "such as 'blobs-project'"),
        ({"project": "../up"}, errors.PathError, "project"),
    ):
        with pytest.raises(error, match=message) as caught:
            start(**given)
        assert isinstance(caught.value, errors.SeamarkError)
        assert not root.exists(), given


def test_arguments_are_recorded_as_they_were_at_the_start(start):
    params = {"lr": 0.1, "model": {"layers": [1, 2]}, "loss": math.sqrt, "big": "x" * (5 << 20)}
    run = start(name="First run", description="about", tags=["a", "b"], params=params)
    params["lr"] = 0.2
    reader = reopened(run)
    paths = ("sys/name", "sys/description", "sys/tags", "parameters")
    assert [reader[path].fetch() for path in paths] == [
        *("First run", "about", {"a", "b"}),
        {"lr": 0.1, "model": {"layers": [1, 2]}, "loss": "math.sqrt", "big": "x" * (5 << 20)},
    ]
    assert (run.name, run.project, ID.fullmatch(run.id) is not None) == ("First run", "p", True)


def test_arguments_win_over_variables_and_those_of_seamark_over_those_of_neptune(
    start, monkeypatch, tmp_path
):
    run = start(None, root=None)  # without anything
    assert (run.project, run.root, run.mode) == ("default", Path.cwd() / ".seamark", "online")
    assert run.get_url() == (Path.cwd() / ".seamark/default" / run.id).as_uri()
    monkeypatch.setenv("NEPTUNE_PROJECT", "workspace/theirs")
    monkeypatch.setenv("NEPTUNE_CUSTOM_RUN_ID", "nightly")
    first = start(None)
    assert first.project == "workspace/theirs"
    monkeypatch.setenv("SEAMARK_PROJECT", "ours")
    monkeypatch.setenv("SEAMARK_CUSTOM_RUN_ID", "weekly")
    assert start(None).project == "ours"
    assert start("argument").project == "argument"
    assert len({first.id, start(None).id, start(None, custom_run_id="other").id}) == 3
    for name in ("SEAMARK_CUSTOM_RUN_ID", "NEPTUNE_CUSTOM_RUN_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("NEPTUNE_MODE", "disabled")
    assert (start(None).mode, start(None, mode="debug").mode) == ("disabled", "debug")
    monkeypatch.setenv("SEAMARK_MODE", "nonsense")
    with pytest.raises(errors.ArgumentError, match=r"^SEAMARK_MODE: .*nonsense"):
        start(None)
    monkeypatch.setenv("SEAMARK_MODE", "online")
    monkeypatch.setenv("SEAMARK_DIR", str(tmp_path / "elsewhere"))
    assert start("p", root=None).root == tmp_path / "elsewhere"


@pytest.mark.parametrize("mode", ["async", "sync", "offline"])
def test_modes_that_write_are_the_same(start, mode):
    run = start(mode=mode)
    run["a"] = 1
    run.sync()
    run.wait()
    assert run["a"].fetch() == 1
    run.stop()
    assert reopened(run)["sys/state"].fetch() == "completed"


def test_a_disabled_run_answers_and_creates_nothing(start, root):
    """Nothing is written, rendered, digested or indexed, and no thread starts."""
    threads = set(threading.enumerate())
    run = start(mode="disabled", name="x", tags="y", params={"a": 1}, source_files="*.py")
    run["a"] = 1
    run["long"] = "x" * (5 << 20)
    run["a"].append(File.from_content("x"))
    run["a"].append(1.0, step=2)
    run["a"].extend([1, 2])
    run["a"].clear()
    for verb in ("append", "log", "add", "remove", "upload", "upload_files", "delete_files"):
        getattr(run["a"], verb)("not/there")
    run["a"].track_files("/not/there")
    run["a/b"]["c"].log_metrics({"x": 1.0})
    run.assign({"x": object()})
    run.log_metrics({"a": 0.5}, step=1)
    run.log_metrics({"a": 0.5}, timestamp=1.0)
    del run["a"]
    run["a"].pop()
    assert (run.exists("a"), run["a"].fetch(), run["a"].fetch_last()) == (False, None, None)
    assert run.fetch() == run.get_structure() == {}
    run.print_structure()
    assert (run.session.recorder.positions(), run.writer) == ({}, None)
    run.set_state("failed", error=ValueError())
    run.wait()
    run.sync()
    with run:
        pass
    run.stop()
    assert not root.exists()
    assert set(threading.enumerate()) <= threads
    assert list(Path(os.environ["XDG_CACHE_HOME"]).iterdir()) == []


def test_a_read_only_run_writes_nothing(start, frames, caplog):
    run = start()
    run["a"] = 1
    run.log_metrics({"m": 0.5}, step=3)
    before = frames(run)
    reader = reopened(run)
    assert (reader["a"].fetch(), reader["m"].fetch_points().step.tolist()) == (1, [3])
    with pytest.raises(errors.ReadOnlyError, match=run.id):
        reader["a"] = 2
    for step in range(3):
        reader.log_metrics({"m": 1.0}, step=step)
    assert caplog.text.count("nothing is recorded") == 1
    reader.stop()
    reader.stop()
    assert reader["a"].fetch() == 1
    assert (frames(run), reader.session.recorder.positions()) == (before, {})


def test_the_root_of_a_debug_run_is_gone_with_the_process():
    done = in_python(
        """
        import sys, tempfile
        from pathlib import Path
        from seamark import init_run
        other = init_run(root=sys.argv[1])  # whose end is registered first
        run = init_run(mode="debug")
        assert Path(tempfile.gettempdir()) in run.root.parents
        run["a"] = 1
        assert run["a"].fetch() == 1
        assert run.folder.journal_dir.is_dir()
        run.stop()
        print(run.root)
        """,
        str(Path.cwd() / "seamark-debug-runs"),  # not one of these, despite its name
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("(debug mode: deleted when this process ends)") == 2
    assert not Path(done.stdout.strip()).exists()
    assert not Path(".seamark").exists()


def test_an_owner_goes_on_with_a_run_where_it_was(start):
    first = start(name="first")
    first.log_metrics({"a": 1.0, "b": 1.0})
    first.log_metrics({"a": 1.0}, step=41)
    first["text"].append("x", step=5)
    first["atom"] = 1
    first.stop()
    second = start(with_id=first.id, owner=True)
    second.log_metrics({"a": 2.0})
    second["text"].append("y")
    with pytest.raises(errors.SeamarkError, match="'atom'"):
        second["atom"].append(1.0)
    assert second["sys/state"].fetch() == "running"
    assert second["a"].fetch_points().step.tolist() == [0, 41, 42]
    assert [p.step for p in second.session.recorded.view().texts("text")] == [5, 6]
    assert second["sys/name"].fetch() == "first"
    second.stop()
    assert states(second) == ["running", "completed"] * 2
    assert [header["continues"] for header in headers(second)] == [None, None]
    assert headers(second)[1]["prior_t"] > 0


@pytest.mark.parametrize("owner", [True, None])
@pytest.mark.parametrize("state", ["failed", "completed"])
def test_a_run_that_failed_and_goes_on_has_not_failed(start, state, owner):
    """As in one process; what a person said of a run that did not fail stays."""
    first = start()
    first["sys/failed"] = True
    first.set_state(state)
    first.stop()
    second = start(with_id=first.id, owner=owner)
    second.session.own()  # as a framework's logger does that trains an open run
    assert second["sys/failed"].fetch() is (state == "completed")
    second.set_state("failed")
    assert second["sys/failed"].fetch() is True


def test_processes_with_one_custom_run_id_write_to_one_run_of_a_project(start):
    first, second = start(custom_run_id="x y/z \udc80"), start(custom_run_id="x y/z \udc80")
    assert first.id == second.id != start("q", custom_run_id="x y/z \udc80").id
    first["a"], second["b"] = 1, 2
    assert reopened(first)["sys/custom_run_id"].fetch() == "x y/z \\udc80"
    assert reopened(first).fetch()["b"] == 2
    assert len(first.folder.journals()) == 2


def test_a_stopped_run_is_completed_and_can_be_read(start, capsys, caplog):
    """It tells where it is; writing raises and says how; log_metrics only warns, once."""
    run = start()
    run["a"] = 1
    run.log_metrics({"m": 1.0})
    assert (run.get_state(), run.state) == ("started", "running")
    run.stop()
    run.stop()
    assert (run.get_state(), run.state) == ("stopped", "completed")
    assert states(run) == ["running", "completed"]
    assert journals(run)[0].closed
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(run.id in line for line in told)
    assert "seamark show" in told[1]
    with pytest.raises(errors.InactiveRunError, match="with_id"):
        run["b"] = 2
    for step in range(3):
        run.log_metrics({"m": 1.0}, step=step)
        run.log_metrics({"other": 1.0}, step=step)
    assert len([one for one in caplog.records if "stopped" in one.getMessage()]) == 1
    assert run["a"].fetch() == 1
    assert run["m"].fetch_points().step.tolist() == [0]


def test_the_lines_for_people_call_a_new_run_by_its_name(start, capsys):
    """The generated one, as long as nobody gave another; a run that was opened goes by its id."""

    def called(**given):
        run = start(**given)
        run.stop()
        found = re.findall(r"see it with: seamark show (\S+) ", capsys.readouterr().err)
        return run, found

    run, names = called()
    assert names == [generated_name(run.id)] * 2
    assert called(with_id=run.id, owner=True)[1] == [run.id] * 2
    run, names = called(name="mine")
    assert names == [run.id] * 2


def test_stop_waits_for_files(start):
    run = start()
    run["big"].upload(File.from_content(os.urandom(8 << 20)))
    run.stop()
    assert "sha256" in reopened(run).session.recorded.attribute("big").value


def test_the_error_of_a_with_block_decides_the_state(start):
    """An exception fails the run and goes on; Ctrl-C interrupts it; an exit counts by its code."""
    hiding = SystemExit(1)
    hiding.__context__ = OSError("why")
    for error, state, why in (
        (None, "completed", []),
        (ValueError("no \udc80 such"), "failed", [("ValueError", "no \\udc80 such")]),
        (KeyboardInterrupt(), "interrupted", [("KeyboardInterrupt", "")]),
        (SystemExit(), "completed", []),
        (SystemExit(0), "completed", []),
        (SystemExit(3), "failed", [("SystemExit", "3")]),
        (hiding, "failed", [("OSError", "why")]),
    ):
        run = start()
        with contextlib.nullcontext() if error is None else pytest.raises(type(error)), run:
            if error is not None:
                raise error
        assert reopened(run)["sys/state"].fetch() == state
        assert [tuple(op["error"].values()) for op in ops(run) if op.get("error")] == why
    run = start(fail_on_exception=False)
    with pytest.raises(ValueError, match="x"), run:
        raise ValueError("x")
    assert reopened(run)["sys/state"].fetch() == "completed"


@pytest.mark.parametrize("code", ["del run", "sys.stderr.close()"])
def test_a_process_that_ends_without_stop_completes_its_run(root, code):
    done = in_python(
        f"""
        import os, sys
        from seamark import init_run
        run = init_run("p", root=sys.argv[1], capture=dict(git=False, packages=False))
        run.log_metrics({{"a": 1.0}}, step=1)
        print(run.id, flush=True)
        {code}
        """,
        str(root),
    )
    assert done.returncode == 0, done.stderr
    reader = init_run("p", root=root, with_id=done.stdout.split()[0], mode="read-only")
    assert reader["sys/state"].fetch() == "completed"
    assert reader["a"].fetch_points().value.tolist() == [1.0]


class Wild:
    def __getattribute__(self, name: str) -> Any:
        raise WordlessError(3)


class WordlessError(Exception):
    def __str__(self):
        return self.args[0]  # which is no text

    __repr__ = __str__


class Broken(dict):
    def items(self):
        raise WordlessError(3)


def test_log_metrics_never_raises(tmp_path):
    """Not for any argument, whether the run was started, is silent, for reading or stopped."""
    wild = Wild()
    rows: list[Any] = [None, 1, "a", [], {}, math.nan, math.inf, wild]
    rows += [{1: 2}, {"a": None}, {"": 1}, {"a": wild}, {"sys/id": 1}, Broken(a=1.0)]
    given = [(row, None, None) for row in rows]
    given += [("a", step, at) for step in (1, "a", math.nan, wild) for at in (None, "a", math.inf)]
    given += [("a", 1, wild), ("a", wild, wild)]
    for row, step, at in given:
        with make_run(project="p", root=tmp_path, **QUIET) as run:
            run.log_metrics(row, step, timestamp=at)
            run.log_metrics({"a": 1.0}, 0)
            run.log_metrics(row, step, timestamp=at)
            run["below"].log_metrics(row, step, timestamp=at)
        run.log_metrics(row, step, timestamp=at)
    reopened(run).log_metrics(row, step, timestamp=at)


def test_log_metrics_keeps_what_it_can(start, caplog, capsys):
    """One odd value costs itself; losses are counted by reason, and warned about once each."""
    run = start()
    run["atom"] = 1
    for step in range(3):
        run.log_metrics({"good": 0.5, "text": "x", "atom": 1.0, "/bad": 1.0, "nan": math.nan}, step)
    run.log_metrics({"good": 0.5}, step=math.nan)
    run.log_metrics({"good": 0.5}, step=4, timestamp="never")
    run.session.drop("own reason", 3)
    when = datetime(2020, 2, 3, 4, 5, 6, 789013, timezone.utc)
    run.log_metrics({"timed": 1.0}, step=1, timestamp=when)
    run.log_metrics({"timed": 2.0}, step=1, timestamp=12.5)
    reader = reopened(run)
    assert reader["good"].fetch_points().step.tolist() == [0, 1, 2, 4]
    assert len(reader["nan"].fetch_points().value) == 3
    assert reader["atom"].fetch() == 1
    points = reader["timed"].fetch_points()  # kept exactly; order does not depend on it
    assert points.value.tolist() == [1.0, 2.0]
    assert points.time_ns.tolist() == [1580702706789013000, 12_500_000_000]
    assert len(caplog.records) == 6
    run.stop()
    told = {"value": 3, "path": 6, "step": 1, "timestamp": 1, "own reason": 3}
    assert journals(run)[0].frames[-1].record["dropped"] == told
    assert reopened(run)["monitoring/seamark/dropped"].fetch() == told
    assert "14 values or records were lost" in capsys.readouterr().err


def test_nothing_is_on_disk_before_the_first_record(root):
    run = make_run(project="p", root=root, name="x", **QUIET)
    for verb, value, more in (
        ("assign", object(), {}),
        ("append", object(), {}),
        ("append", 1, {"step": "x"}),
        ("upload", "not/there", {}),
        ("upload_files", "not/there/x", {}),
    ):
        with pytest.raises((TypeError, ValueError, OSError)):
            getattr(run["a"], verb)(value, **more)
    assert not run.exists("a")
    assert (run.get_state(), run.session.recorder.positions()) == ("created", {})
    run.stop()
    assert not root.exists()


def test_a_pickled_run_is_the_same_run(start):
    run = start(name="n", tags=["a"], params={"lr": 1, "fn": lambda: 0})
    run["parameters/lr"] = 2
    run["sys/name"] = "renamed"
    run["sys/tags"].remove("a")
    twin = pickle.loads(pickle.dumps(run))
    assert (twin.id, twin.root, twin.project, twin.name) == (run.id, run.root, "p", "n")
    assert len(run.folder.journals()) == 1
    twin.log_metrics({"x": 1.0}, 0)
    assert len(run.folder.journals()) == 2
    found = [reopened(run)[path].fetch() for path in ("parameters/lr", "sys/name", "sys/tags")]
    assert found == [2, "renamed", set()]
    twin.stop()
    assert copy.deepcopy({"run": run})["run"] is run  # a deep copy is the run itself


def test_a_token_is_in_no_pickle_repr_message_or_structure_of_a_run(start, monkeypatch):
    """That no file holds it is tested with all other secrets."""
    token = "sEcReT-tOkEn-1234567890"
    monkeypatch.setenv("NEPTUNE_API_TOKEN", token)
    for given in ({"api_token": token}, {}):
        run = start(**given)
        run["x"] = 1
        with pytest.raises(errors.PathError) as caught:
            run["bad\npath"] = 1
        assert token not in repr(run) + repr(vars(run)) + str(run.get_structure())
        assert token not in str(caught.value)
        assert token.encode() not in pickle.dumps(run)


def test_threads_may_start_a_lazy_run_together(root):
    run = make_run(project="p", root=root, **QUIET)
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait(30)
        run.log_metrics({f"t{number}": 1.0}, 0)
        run[f"a/{number}"] = number

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(run.folder.journals()) == 1
    reader = reopened(run)
    assert reader["a"].fetch() == {str(number): number for number in range(8)}
    assert all(reader.exists(f"t{number}") for number in range(8))
    run.stop()
    assert states(run) == ["running", "completed"]


def test_an_unusable_root_does_not_end_a_training(root, caplog):
    """A logger finds out late: one warning says so, another what was lost; every verb works."""
    root.touch()
    run = make_run(project="p", root=root, **QUIET)
    for step in range(5):
        run.log_metrics({"a": 1.0}, step)
        run["b"] = step
        run["c"].append("x")
    run.stop()
    assert run.session.recorder.writer.dropped["disk"] >= 15
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) == 2
    assert all(str(root) in text for text in said)


def points(run, path):
    found = run[path].fetch_points()
    return list(zip(found.step.tolist(), found.value.tolist(), strict=True))


def dropped(run):
    run.stop()
    return reopened(run)["monitoring/seamark/dropped"].fetch()


def test_each_word_for_a_phase_means_one_place(run):
    for place, words in (
        ("train", ("train", "training")),
        ("val", ("val", "validate", "validation")),
        ("test", ("test", "testing", "eval", "evaluate", "evaluation")),
        ("warmup/2", ("warmup/2",)),
    ):
        for step, word in enumerate(words):
            run.log_metrics({"loss": 0.5}, step, phase=word)
            run["fold/1"].log_metrics({"loss": 0.5}, step, phase=word)
        expected = [(step, 0.5) for step in range(len(words))]
        assert points(run, f"{place}/loss") == points(run, f"fold/1/{place}/loss") == expected


def test_the_epoch_stands_beside_the_metrics_at_their_step(run):
    """Once: a metric of that name is left out, and the others are not."""
    run.log_metrics({"loss": 1.0}, 10, phase="train", epoch=0)
    run.log_metrics({"loss": 0.5, "epoch": 7.0}, 20, phase="train", epoch=1)
    run.log_metrics({"loss": 0.5}, 30, epoch=2)
    run.log_metrics({}, 40, epoch=3)
    run["a"].log_metrics({"loss": 0.5}, epoch=1)
    run.log_metrics({"loss": 0.5}, phase="val", epoch="first")
    assert points(run, "train/epoch") == [(10, 0), (20, 1)]
    assert points(run, "train/loss") == [(10, 1.0), (20, 0.5)]
    assert points(run, "epoch") == [(30, 2), (40, 3)]
    assert (points(run, "a/epoch"), points(run, "a/loss")) == ([(0, 1)], [(0, 0.5)])
    assert not run.exists("val/epoch")
    assert points(run, "val/loss") == [(0, 0.5)]
    assert dropped(run) == {"epoch": 1, "value": 1}


@pytest.mark.parametrize("phase", ["", 3])
def test_a_phase_that_is_no_path_loses_the_call_and_nothing_else(run, phase, caplog):
    run.log_metrics({"loss": 1.0, "acc": 1.0}, phase=phase)
    run.log_metrics([1.0], phase="train")
    run.log_metrics({"loss": 2.0}, phase="train")
    assert "log_metrics: phase: path: expected" in caplog.text
    assert points(run, "train/loss") == [(0, 2.0)]
    assert dropped(run) == {"metrics": 3}


def test_steps_may_be_datetimes(run):
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    local = noon.astimezone().replace(tzinfo=None)
    run.log_metrics({"a": 1.0}, noon)
    run.log_metrics({"a": 2.0}, local)
    run["a"].append(3.0, step=noon)
    run["b"].extend([1.0], steps=[local])
    assert run["a"].fetch_points().step.tolist() == [noon.timestamp()] * 3
    assert run["b"].fetch_points().step.tolist() == [noon.timestamp()]
    with pytest.raises(errors.ArgumentError, match="step: expected a finite number"):
        run["a"].append(3.0, step=datetime(3000, 1, 1, tzinfo=timezone.utc))


CALLS = 1_000
SCRIPT = f"""
import os
import seamark

run = seamark.init_run()
metrics = {{f"train/metric_{{number}}": 0.5 for number in range(10)}}
os.write(1, b"begin")
for step in range({CALLS}):
    run.log_metrics(metrics, step)
os.write(1, b"end")
run.stop()
"""
WRITES = "write|pwrite64|writev|pwritev|pwritev2|sendto|sendmsg"
SYNCS = "fsync|fdatasync|sync|syncfs|sync_file_range|msync"
TRACED = f"trace=/^({WRITES}|{SYNCS}|open|openat|creat)$"
# Random digits within the name of a journal, which may begin like this, do not end it.
DATABASE = re.compile(r"\.db(-\w+|\.lock)?[\">]|sqlite")
LINE = re.compile(r"^(?P<thread>\d+) +(?P<call>\w+)\((?P<arguments>.*)")


def traced(folder):
    strace = shutil.which("strace")
    probe = [strace or "", "-o", os.devnull, "true"]
    if not strace or subprocess.run(probe, check=False, capture_output=True).returncode:
        # `.ci/run` names at its end what was not there.
        pytest.skip("this needs a strace that may trace (Debian: apt-get install strace)")
    log = folder / "trace"
    command = [strace, "-f", "-y", "-s", "16", "-e", TRACED, "-o", str(log)]
    subprocess.run([*command, sys.executable, "-c", SCRIPT], check=True, cwd=folder, timeout=240)
    found = map(LINE.match, log.read_text().splitlines())
    return [(line["thread"], line["call"], line["arguments"]) for line in found if line]


def test_each_call_is_one_write_to_one_journal_without_sync_and_no_database_is_opened(tmp_path):
    calls = traced(tmp_path)
    [begin] = [at for at, call in enumerate(calls) if '"begin' in call[2]]
    [end] = [at for at, call in enumerate(calls) if '"end' in call[2]]
    thread = calls[begin][0]
    logging = [call for call in calls[begin + 1 : end] if call[0] == thread]
    kinds = Counter(call for _, call, _ in logging)
    assert kinds == {"write": CALLS}
    (file,) = {re.search(r"<(.*?)>", arguments)[1] for _, _, arguments in logging}
    assert Path(file).parent.name == "journal"
    synced = {each for each, call, _ in calls if re.fullmatch(SYNCS, call)}
    assert thread not in synced
    assert synced, "the sync thread should have forced the journal to disk"
    opened = [arguments for _, call, arguments in calls if call.startswith("open")]
    assert any("/journal/" in name for name in opened)
    assert not [name for name in opened if DATABASE.search(name)]
