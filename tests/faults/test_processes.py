"""Forks, workers, threads and signals under a real run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from journals import journals
from recording import QUIET

import seamark
from seamark import init_run

BEGIN = """
    import json, multiprocessing, os, signal, sys, threading, time, warnings
    # Python 3.12 warns of every fork in a process with threads; that it works is what is tested.
    warnings.filterwarnings("ignore", ".*multi-threaded.*", DeprecationWarning)
    from seamark import init_run

    def begin(**given):
        quiet = {"capture": dict(git=False, packages=False, script=False)}
        return init_run("p", root=sys.argv[1], custom_run_id="job", **{**quiet, **given})
"""


def script(tmp_path, text, *args):
    """Run a script of its own (spawned workers import it) and return what it prints as JSON."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text))
    command = [sys.executable, str(path), str(tmp_path / "root"), *args]
    given = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 240}
    done = subprocess.run(command, check=False, **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def headers(tmp_path):
    """Return the HEADER of each journal, the oldest first; every journal is whole."""
    found = journals(read(tmp_path))
    assert not any(journal.rest for journal in found)
    return [journal.header for journal in found]


def read(tmp_path):
    return init_run("p", root=tmp_path / "root", custom_run_id="job", mode="read-only")


def steps(run, path):
    return run[path].fetch_points().step.tolist()


WORKER = """
    class Data:
        '''A data set that holds the run, as people write them.'''
        def __init__(self, run, logs):
            self.run, self.logs = run, logs
        def __getitem__(self, index):
            print("loading", index, file=sys.stderr)
            if self.logs:
                self.run.log_metrics({f"worker/{index}": 1.0}, index)
                self.run["worker/log"].append(f"item {index}")
            return index

    def wait_at(barrier):
        global both
        both = barrier

    def load(data, index):
        if index % 4 == 0:  # so that no worker loads both parts
            both.wait(120)
        return data[index]

    if __name__ == "__main__":
        run = begin()
        loaded = []
        for logs in (False, True):
            for step in range(5):
                run.log_metrics({"loss": 1.0}, 5 * len(loaded) + step)
            data = Data(run, logs)
            context = multiprocessing.get_context(sys.argv[2])
            with context.Pool(2, wait_at, [context.Barrier(2)]) as pool:
                found = pool.starmap(load, [(data, index) for index in range(8)], chunksize=4)
                pool.close()
                pool.join()
            loaded.append([found, len(list(run.folder.journals()))])
        for step in range(10, 15):
            run.log_metrics({"loss": 1.0}, step)
        run.stop()
        print(json.dumps(loaded))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_record_in_journals_of_their_own_or_leave_no_trace(tmp_path, method):
    (quiet, before), (loud, after) = script(tmp_path, WORKER, method)
    assert quiet == loud == list(range(8))
    assert before == 1
    found = headers(tmp_path)
    assert after == len(found) == len({header["pid"] for header in found}) == 3
    assert found[0]["owner"]
    reader = read(tmp_path)
    assert steps(reader, "loss") == list(range(15))
    for index in range(8):
        assert steps(reader, f"worker/{index}") == [index]
    assert len(reader.session.recorded.view().texts("worker/log")) == 8
    assert reader["sys/state"].fetch() == "completed"


def test_end_of_a_forked_helper_does_not_change_the_state(tmp_path):
    """It owns none, though it records: not by its exit, an exception, `stop` or SIGTERM."""
    told = script(
        tmp_path,
        """
        run = begin()
        run.log_metrics({"a": 1.0}, 0)
        codes, states = [], []
        ends = ["sys.exit(0)", "raise ValueError", "run.stop()", "with run: sys.exit(0)"]
        for step, end in enumerate([*ends, "os.kill(os.getpid(), signal.SIGTERM)"]):
            pid = os.fork()
            if not pid:
                sys.stderr = open(os.devnull, "w")
                run.log_metrics({"child": 1.0}, step)
                exec(end)
                sys.exit(0)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            states.append(run["sys/state"].fetch())
        run.log_metrics({"a": 1.0}, 1)
        run.stop()
        states.append(run["sys/state"].fetch())
        print(json.dumps([codes, states]))
        """,
    )
    assert told == [[0, 1, 0, 0, -15], ["running"] * 5 + ["completed"]]
    found = headers(tmp_path)
    assert [header["owner"] for header in found] == [True] + [False] * 5
    assert {header["continues"] for header in found[1:]} == {found[0]["writer"]}
    reader = read(tmp_path)
    assert steps(reader, "child") == [0, 1, 2, 3, 4]
    assert steps(reader, "a") == [0, 1]


def test_handlers_that_record_lose_and_double_nothing(tmp_path):
    """They strike all over our code, and each other: a timer at each few of its calls."""
    run = init_run("p", root=tmp_path / "root", custom_run_id="job", **QUIET)
    ours, calls, handled, depth = str(Path(seamark.__file__).parent), 0, 0, 0

    def strike(frame, event, _):
        nonlocal calls
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(ours):
            calls += 1
            if calls % 7 == 0 and depth < 3 and handled < 1000:
                signal.raise_signal(signal.SIGUSR1)

    def handler(*_):
        nonlocal handled, depth
        mine, handled, depth = handled, handled + 1, depth + 1
        run.log_metrics({"signals": mine}, mine)
        if mine % 10 == 0:
            run["log"].append(f"signal {mine}")
            run[f"atoms/{mine}"] = mine
        depth -= 1

    before = signal.signal(signal.SIGUSR1, handler)
    sys.setprofile(strike)
    try:
        for step in range(40):
            run.log_metrics({"loss": step, "acc": 0.5}, step)
            run["column"].extend([1.0, 2.0])
            run["value"] = step
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    run.stop()
    assert handled == 1000
    assert run.session.recorder.writer.dropped == {}
    assert len(headers(tmp_path)) == 1
    reader = read(tmp_path)
    for path, count in (("signals", handled), ("loss", 40)):
        points = reader[path].fetch_points()
        assert points.step.tolist() == points.value.tolist() == list(range(count))
    assert steps(reader, "column") == list(range(80))
    assert reader["value"].fetch() == 39
    logged = len(reader.session.recorded.view().texts("log"))
    assert len(reader["atoms"].fetch()) == logged == len(range(0, handled, 10))


def test_threads_and_forks_do_not_deadlock(tmp_path):
    counts = script(
        tmp_path,
        """
        run = begin()
        done = threading.Event()
        counts = [0] * 3

        def work(number):
            while not done.is_set():
                run.log_metrics({f"t{number}": counts[number]}, counts[number])
                counts[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for child in range(15):
            pid = os.fork()
            if not pid:
                run.log_metrics({"children": child}, child)
                run.stop()
                os._exit(0)
            os.waitpid(pid, 0)
        done.set()
        for thread in threads:
            thread.join()
        run.stop()
        print(json.dumps(counts))
        """,
    )
    found = headers(tmp_path)
    assert [header["owner"] for header in found] == [True] + [False] * 15
    assert {header["continues"] for header in found[1:]} == {found[0]["writer"]}
    reader = read(tmp_path)
    assert reader["sys/state"].fetch() == "completed"
    for number, count in enumerate(counts):
        assert steps(reader, f"t{number}") == list(range(count))
    assert steps(reader, "children") == list(range(15))
