"""What becomes of ranks: killed, failed, ended by a signal; told by name, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from command import output_of
from recording import NOTHING, QUIET

from seamark import init_run

SIGNALS_ONLY = QUIET | {"capture": NOTHING | {"signals": True}}
HEAD = f"""
import os, signal, sys
from seamark import init_run
quiet = {SIGNALS_ONLY!r}
def begin(ranks="all"):
    run = init_run("p", root=sys.argv[1], custom_run_id="one", ranks=ranks, **quiet)
    run.log_metrics({{"loss": 1.0}}, 0)
    return run
"""


@contextlib.contextmanager
def started_ranks(code, *words, size=1):
    pipe = subprocess.PIPE
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", HEAD + textwrap.dedent(code), *map(str, words)],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size)},
        )
        for rank in range(size)
    ]
    try:
        for each in ranks:
            assert each.stdout.readline() == "ready\n"
        yield ranks
    finally:
        for each in ranks:
            each.kill()
            each.communicate(timeout=240)


def opened(root):
    return init_run("p", root=root, custom_run_id="one", mode="read-only")


def statuses(root):
    ranks = opened(root).session.recorded.view().ranks()
    return {one.rank: (one.state, one.why) for one in ranks}


@pytest.mark.once
def test_show_names_the_ranks_that_met_a_bad_end(tmp_path):
    def show(*words):
        return output_of("show", "latest", *words, "--root", str(tmp_path))

    code = """
        begin()
        print("ready", flush=True)
        if sys.stdin.readline().strip() == "fail":
            raise ValueError(f"boom on rank {os.environ['RANK']}")
    """
    with started_ranks(code, tmp_path, size=5) as ranks:
        ranks[1].kill()
        ranks[1].wait(60)
        ranks[2].communicate("fail\n", timeout=240)
        ranks[3].send_signal(signal.SIGTERM)
        ranks[3].wait(60)
        ranks[4].communicate("\n", timeout=240)
        assert statuses(tmp_path) == {
            0: ("running", ""),
            1: ("killed", ""),
            2: ("failed", "ValueError: boom on rank 2"),
            3: ("interrupted", "SIGTERM"),
            4: ("completed", ""),
        }
        shown = show()
        for words in (
            "5: 1 running, 1 completed, 1 failed, 1 interrupted, 1 killed",
            f"! rank 1 was killed (pid {ranks[1].pid} on ",
            f"! rank 2 failed (pid {ranks[2].pid} on ",
            "ValueError: boom on rank 2",
            "! rank 3 was interrupted by SIGTERM",
        ):
            assert words in shown
        assert "rank 4 " not in shown
        told = json.loads(show("--json"))["ranks"]
        assert [(one["rank"], one["state"]) for one in told][:2] == [(0, "running"), (1, "killed")]
        ranks[0].kill()
        ranks[0].wait(60)
        assert f"! rank 0 was killed (pid {ranks[0].pid} on " in show()


@pytest.mark.once
def test_a_rank_that_died_before_its_first_record_is_named(tmp_path, monkeypatch):
    """The number of ranks is known, so that it is missed: in Python and by both commands."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in ("0", "2"):
        monkeypatch.setenv("RANK", rank)
        with init_run("p", root=tmp_path, custom_run_id="one", ranks="all", **QUIET) as run:
            run.log_metrics({"profiling/step_time_s": 1.0}, 0)
    told = [(one.rank, one.state, one.last_seen is None) for one in opened(tmp_path).stragglers()]
    done, missing = ("completed", False), ("missing", True)
    assert sorted(told) == [(0, *done), (1, *missing), (2, *done), (3, *missing)]
    show = ("show", "latest", "--root", str(tmp_path))
    assert "4: 2 completed, 2 missing" in output_of(*show)
    for more in ((), ("--ranks",)):
        assert "! ranks 1, 3 never recorded anything" in output_of(*show, *more)
    ranks = json.loads(output_of(*show, "--json"))["ranks"]
    assert [one["last_seen"] is None for one in ranks] == [False, True, False, True]


@pytest.mark.parametrize(("when", "ranks"), [("before", "all"), ("after", "zero")])
def test_a_sigterm_is_noted_at_once_as_sigkill_may_follow(tmp_path, when, ranks):
    """As launchers end ranks; also where a handler of the training's own lives on."""
    code = """
        def handle(*what):
            if callable(found):
                found(*what)
            os.write(1, b"got it\\n")  # and lives on

        found = None
        if sys.argv[2] == "before":
            signal.signal(signal.SIGTERM, handle)
        run = begin(sys.argv[3])
        if sys.argv[2] == "after":
            found = signal.signal(signal.SIGTERM, handle)
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    with started_ranks(code, tmp_path, when, ranks) as (worker,):
        worker.send_signal(signal.SIGTERM)
        assert worker.stdout.readline() == "got it\n"
    assert statuses(tmp_path) == {0: ("interrupted", "SIGTERM")}
    assert opened(tmp_path)["sys/state"].fetch() == "interrupted"


def test_a_rank_that_waits_in_c_code_notes_a_sigterm_before_it_dies(tmp_path):
    """In a collective no handler of Python's is called, and SIGKILL comes soon."""
    code = """
        import ctypes
        from seamark.capture.ending import sigterm
        sigterm._EXIT_TIMEOUT_S = 600  # it does not get to die by itself
        run = begin()
        libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        print("ready", flush=True)
        libc.pthread_mutex_lock(mutex)
    """
    with started_ranks(code, tmp_path) as (worker,):
        worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while statuses(tmp_path)[0][0] == "running" and time.monotonic() < deadline:
            os.sched_yield()
    assert statuses(tmp_path) == {0: ("interrupted", "SIGTERM")}
