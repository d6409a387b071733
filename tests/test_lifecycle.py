from __future__ import annotations

import contextlib
import os
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from recording import NOTHING

from seamark import init_run
from seamark.blobs.staging import SMALL
from seamark.run.lifecycle import RECORDING, RESTING
from seamark.run.run import make_run

QUIET = {"capture": NOTHING}


def open_below(folder):
    """Return the files this process holds open below a folder.

    Folders are left out: the sync thread opens one for the moment that its ``fsync`` takes.
    """
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.append(each.readlink())
    return [path for path in found if path.is_relative_to(folder) and not path.is_dir()]


@pytest.fixture
def in_python(forks):
    def in_python(code, *args, ok=True):
        code = f"quiet = {QUIET!r}\n{textwrap.dedent(code)}"
        (done,) = forks.run(code, *map(str, args), environments=[{}])
        assert not ok or done.code == 0, done.stderr
        return done

    return in_python


def reopened(root, run_id):
    return init_run("p", root=root, with_id=run_id, mode="read-only")


def state_of(root, run_id):
    return reopened(root, run_id)["sys/state"].fetch()


def test_a_run_at_rest_holds_nothing_and_goes_on(tmp_path):
    """recording → resting → resting → recording → stopped: journals that continue each other.

    What is recorded at rest changes no state: it is in a journal of its own, which is closed soon.
    """
    threads = set(threading.enumerate())

    run = init_run("p", root=tmp_path, **QUIET)
    run.log_metrics({"loss": 1.0}, 0)
    assert len(open_below(tmp_path)) == 1
    run.session.ending.rest()
    settle(threads)
    assert run.session.lifecycle.phase == RESTING
    assert open_below(tmp_path) == []
    assert state_of(tmp_path, run.id) == "completed"
    run["test/acc"] = 0.9
    run.log_metrics({"loss": 0.5})
    assert (run.session.lifecycle.phase, run.state) == (RESTING, "completed")
    # what the sync thread does after seconds
    run.session.recorder.writer._upkeep.keep(heartbeat=True)
    settle(threads)
    seen = reopened(tmp_path, run.id)
    assert (seen["sys/state"].fetch(), seen["test/acc"].fetch()) == ("completed", 0.9)
    run.set_state("running")
    assert run.session.lifecycle.phase == RECORDING
    run.log_metrics({"loss": 0.5})
    assert run["sys/state"].fetch() == "running"
    run.stop()
    assert run["loss"].fetch_points().step.tolist() == [0, 1, 2]
    assert run["sys/state"].fetch() == "completed"


def settle(before):
    """Wait for the threads that were not there before; those of other tests are no subject here."""
    for each in set(threading.enumerate()) - before:
        each.join(30)
    assert not set(threading.enumerate()) - before


@contextlib.contextmanager
def as_rank_1(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("RANK", "1")
        patched.setenv("WORLD_SIZE", "2")
        yield


def test_exit_handlers_of_a_training_record_before_its_run_ends(tmp_path, in_python):
    """Also in a run that is reopened."""
    (tmp_path / "large").write_bytes(bytes(SMALL + 1))  # a thread stores it
    code = """
        import atexit, sys
        from seamark import init_run
        at = dict(root=sys.argv[1], **quiet)
        with init_run("p", custom_run_id="one", **at) as run:
            run.set_state("interrupted")
        run = init_run("p", with_id=run.id, **at)
        run["begun"] = True
        atexit.register(lambda: run.assign({"last": 1}))
        atexit.register(lambda: run["file"].upload(sys.argv[1] + "/large"))
        run.log_metrics({"a": 1}, 1)
    """
    in_python(code, tmp_path)
    run = init_run("p", root=tmp_path, custom_run_id="one", mode="read-only")
    assert run["last"].fetch() == 1
    run["file"].download(str(tmp_path / "copy"))
    assert (tmp_path / "copy").stat().st_size == SMALL + 1


def test_reads_of_a_silent_rank_are_empty_and_never_raise(tmp_path, monkeypatch):
    """Code that every rank runs is not to end on some of them."""
    pytest.importorskip("pandas")
    with as_rank_1(monkeypatch):
        run = init_run("p", root=tmp_path, **QUIET)
        run["huge"] = "x" * (5 << 20)
        run.log_metrics({"a": 0.5})
        run["f"].upload("not/there")
        handler = run["a"]
        for verb, answer in (
            *(("fetch", None), ("fetch_last", None), ("download", None), ("download_last", None)),
            *(("fetch_hash", ""), ("fetch_bytes", b""), ("fetch_extension", "")),
            *(("fetch_files_list", []), ("list_fileset_files", [])),
        ):
            assert getattr(handler, verb)() == answer
        assert len(handler.fetch_points()) == len(handler.fetch_points(points=10)) == 0
        assert list(handler.fetch_values().columns) == ["step", "value", "timestamp"]
        assert handler.fetch_values(include_timestamp=False).empty
    assert list(Path.cwd().iterdir()) == list(tmp_path.iterdir()) == []


def test_what_is_known_is_answered_before_the_first_record(tmp_path):
    run = make_run(project="p", root=tmp_path, name="quick", tags=["a"], description="d", **QUIET)
    paths = ("id", "name", "description", "tags", "state")
    answers = [run[f"sys/{path}"].fetch() for path in paths]
    assert answers == [run.id, "quick", "d", {"a"}, "created"]
    assert run["sys/creation_time"].fetch() is not None
    assert run.exists("sys/id")
    assert list(tmp_path.iterdir()) == []


def left(root, state):
    if state == "crashed":
        if not (child := os.fork()):
            run = init_run("p", root=root, custom_run_id=state, **QUIET)
            run.log_metrics({"loss": 1.0}, 0)
            os._exit(0)
        os.waitpid(child, 0)
        return init_run("p", root=root, custom_run_id=state, mode="read-only").id
    run = init_run("p", root=root, start=state != "created", **QUIET)
    if state != "created":
        run.log_metrics({"loss": 1.0}, 0)
        run.set_state(state)
    run.stop()
    return run.id


def add(run, verb):
    if verb == "log_metrics":
        run.log_metrics({"loss": 0.5}, 1)
    elif verb == "append":
        run["loss"].append(0.5, step=1)
    else:
        run["loss"].extend([0.5], steps=[1])


@pytest.mark.parametrize(
    ("state", "verb"),
    [
        *((state, "log_metrics") for state in ("created", "crashed", "suspended")),
        *(("interrupted", verb) for verb in ("append", "extend")),
    ],
)
def test_whoever_opens_a_run_that_has_not_ended_goes_on_with_it(tmp_path, caplog, state, verb):
    """It is running from the first number on, and completed at the end; a tag changes nothing."""
    name = left(tmp_path, state)
    opened = init_run("p", root=tmp_path, with_id=name, **QUIET)
    opened["sys/tags"].add("seen")
    opened["notes"].append("seen")
    assert state_of(tmp_path, name) == state
    add(opened, verb)
    assert state_of(tmp_path, name) == "running"
    opened.stop()
    assert state_of(tmp_path, name) == "completed"
    assert reopened(tmp_path, name)["loss"].fetch_points().step.tolist()[-1] == 1
    assert "does not own" not in caplog.text


@pytest.mark.parametrize(
    ("state", "verb"), [("completed", "log_metrics"), ("failed", "append"), ("running", "extend")]
)
def test_whoever_opens_a_run_that_ended_or_has_an_owner_adds_to_it(tmp_path, caplog, state, verb):
    """Its points are recorded, the state stays, and it is told once how to own the run."""
    owner = init_run("p", root=tmp_path, **QUIET) if state == "running" else None
    if owner:
        owner.log_metrics({"loss": 1.0}, 0)
    name = owner.id if owner else left(tmp_path, state)
    opened = init_run("p", root=tmp_path, with_id=name, **QUIET)
    opened["new"].append(1.0)
    assert "does not own" not in caplog.text
    add(opened, verb)
    add(opened, verb)
    opened.stop()
    assert caplog.text.count("open it with owner=True") == 1
    assert "'loss'" in caplog.text
    seen = reopened(tmp_path, name)
    assert seen["sys/state"].fetch() == state
    assert seen["loss"].fetch_points().step.tolist() == [0, 1, 1]
    if owner:
        owner.stop()


@pytest.mark.parametrize("told", [None, "failed", "completed"])
def test_a_process_that_turns_out_to_be_another_rank_stops_recording(
    tmp_path, monkeypatch, caplog, told
):
    """Its run is interrupted unless its end was told before; it says so once, and is silent."""
    late = init_run("p", root=tmp_path, **QUIET)
    late.log_metrics({"loss": 1.0}, 0)
    if told:
        late.set_state(told)
    with as_rank_1(monkeypatch):
        late.stop()
        late["a"] = 1
        late.log_metrics({"loss": 1.0}, 1)
    seen = reopened(tmp_path, late.id)
    assert seen["sys/state"].fetch() == (told or "interrupted")
    assert seen["loss"].fetch_points().step.tolist() == [0]
    assert caplog.text.count("turned out to be rank 1") == 1


@pytest.mark.parametrize("ranks", ["zero", "all"])
def test_a_heartbeat_finds_out_that_a_process_is_another_rank(tmp_path, monkeypatch, caplog, ranks):
    """It is silent from then on; with ``ranks="all"`` it is only told how to begin."""
    horovod = SimpleNamespace(is_initialized=lambda: True, rank=lambda: 1, size=lambda: 2)
    late = init_run("p", root=tmp_path, ranks=ranks, **QUIET)
    late.log_metrics({"loss": 1.0}, 0)
    with monkeypatch.context() as met:
        met.setitem(sys.modules, "horovod.torch", horovod)
        late.session.recorder.writer._upkeep.keep(heartbeat=True)
        for each in threading.enumerate():
            if each.name == "seamark-late":
                each.join()
        assert late.session.recording == (ranks == "all")
        late.log_metrics({"loss": 1.0}, 1)
        late["later"] = 1
        late.stop()
    seen = reopened(tmp_path, late.id)
    assert seen["sys/state"].fetch() == ("interrupted" if ranks == "zero" else "completed")
    assert len(seen["loss"].fetch_points()) == (1 if ranks == "zero" else 2)
    assert caplog.text.count("turned out to be rank 1") == 1
    advice = "With ranks='all' call init_run() after init_process_group()"
    assert caplog.text.count(advice) == (ranks == "all")
