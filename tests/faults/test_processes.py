"""Forks, workers, threads and signals under a real run."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from journals import journals

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


def script(tmp_path, code, *args):
    """Run a script of its own (spawned workers import it) and return what it prints as JSON."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "root"), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def headers(tmp_path):
    """Return the HEADER of each journal, the oldest first; every journal is whole."""
    found = journals(read(tmp_path))
    assert [journal.rest for journal in found] == [b""] * len(found)
    return [journal.header for journal in found]


def read(tmp_path):
    return init_run("p", root=tmp_path / "root", custom_run_id="job", mode="read-only")


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

    def load(data, index):
        return data[index]

    if __name__ == "__main__":
        run = begin()
        loaded = []
        for logs in (False, True):
            for step in range(5):
                run.log_metrics({"loss": 1.0}, 5 * len(loaded) + step)
            data = Data(run, logs)
            with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
                found = pool.starmap(load, [(data, index) for index in range(8)], chunksize=4)
                pool.close()
                pool.join()
            loaded.append([found, len(list(run.folder.journals()))])
        for step in range(10, 15):
            run.log_metrics({"loss": 1.0}, step)
        run.stop()
        print(json.dumps(loaded))
"""


@pytest.mark.parametrize(
    "method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)]
)
def test_workers(tmp_path, method):
    """Workers that hold the run, however they were started: those that only print leave no trace,
    and what others record is there, beside the trainer's, in journals of their own.
    """
    (quiet, before), (loud, after) = script(tmp_path, WORKER, method)
    assert quiet == loud == list(range(8))
    assert before == 1
    found = headers(tmp_path)
    assert after == len(found)
    assert found[0]["owner"]
    assert 2 <= len(found) <= 3
    assert len({header["pid"] for header in found}) == len(found)
    reader = read(tmp_path)
    assert reader["loss"].fetch_points().step.tolist() == list(range(15))
    for index in range(8):
        assert reader[f"worker/{index}"].fetch_points().step.tolist() == [index]
    assert len(reader.session.recorded.view().texts("worker/log")) == 8
    assert reader["sys/state"].fetch() == "completed"


def test_a_forked_helper_decides_nothing(tmp_path):
    """It owns no state: neither its end, nor its exception, nor `stop`, changes the run's."""
    states = script(
        tmp_path,
        """
        run = begin()
        run.log_metrics({"a": 1.0}, 0)
        seen = []
        for end in ("exit", "raise", "stop", "with"):
            pid = os.fork()
            if not pid:
                run.log_metrics({"child": 1.0}, len(seen))
                sys.stderr = open(os.devnull, "w")
                if end == "raise":
                    raise ValueError("in the child")
                if end == "stop":
                    run.stop()
                if end == "with":
                    with run:
                        raise SystemExit(0)
                sys.exit(0)
            os.waitpid(pid, 0)
            seen.append(run["sys/state"].fetch())
        run.log_metrics({"a": 1.0}, 1)
        run.stop()
        seen.append(run["sys/state"].fetch())
        print(json.dumps(seen))
        """,
    )
    assert states == ["running"] * 4 + ["completed"]
    found = headers(tmp_path)
    assert [header["owner"] for header in found] == [True, False, False, False, False]
    assert {header["continues"] for header in found[1:]} == {found[0]["writer"]}
    reader = read(tmp_path)
    assert reader["child"].fetch_points().step.tolist() == [0, 1, 2, 3]
    assert reader["a"].fetch_points().step.tolist() == [0, 1]


def test_workers_are_terminated_as_ever(tmp_path):
    """SIGTERM ends a forked worker at once, and says nothing about the run."""
    told = script(
        tmp_path,
        """
        run = begin()
        run.log_metrics({"a": 1.0}, 0)
        context = multiprocessing.get_context("fork")
        codes = []
        for log in (False, True):
            ready = context.Event()
            def work():
                if log:
                    run.log_metrics({"worker": 1.0}, 0)
                ready.set()
                signal.pause()
            process = context.Process(target=work)
            process.start()
            ready.wait()
            process.terminate()
            process.join()
            codes.append(process.exitcode)
        state = run["sys/state"].fetch()
        run.log_metrics({"a": 1.0}, 1)
        print(json.dumps([codes, state]))
        """,
    )
    assert told == [[-15, -15], "running"]
    assert len(headers(tmp_path)) == 2
    assert read(tmp_path)["worker"].fetch_points().step.tolist() == [0]
    assert read(tmp_path)["sys/state"].fetch() == "completed"


def test_what_upload_took_hold_of_survives_a_kill(tmp_path):
    """A file whose `upload` returned is there after SIGKILL, stored by whoever reads it next."""
    code = """
        run = begin()
        with open("big.bin", "wb") as file:
            for number in range(64):
                file.write(bytes([number]) * (1 << 20))
        run["early"].upload("big.bin")
        os.unlink("big.bin")
        run["late"].append(1.0)
        print("taken", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(code))
    command = [sys.executable, str(path), str(tmp_path / "root")]
    done = subprocess.run(command, capture_output=True, check=False, timeout=240, cwd=tmp_path)
    assert done.stdout == b"taken\n", done.stderr
    read(tmp_path)["early"].download(tmp_path / "back.bin")
    data = (tmp_path / "back.bin").read_bytes()
    assert len(data) == 64 << 20
    assert all(data[number << 20] == number for number in range(64))


@pytest.mark.parametrize(("source", "count"), [("timer", 2000), ("process", 500)])
def test_signals_while_logging(tmp_path, source, count):
    """A handler that logs too, interrupting anywhere: no point is lost, doubled or torn."""
    told = script(
        tmp_path,
        """
        run = begin()
        handled = depth = 0
        wanted = int(sys.argv[3])

        def again():
            # On a slow machine a handler takes longer than the timer. That they interrupt each
            # other is wanted; that they do so without end, and nothing else runs, is not.
            if sys.argv[2] == "timer":
                at = 0.0001 if handled < wanted and depth < 20 else 0
                signal.setitimer(signal.ITIMER_REAL, at)

        def handler(number, frame):
            global handled, depth
            # No call between: handlers interrupt each other too.
            mine, handled, depth = handled, handled + 1, depth + 1
            again()
            run.log_metrics({"signals": mine}, mine)
            if mine % 100 == 0:
                run["log"].append(f"signal {mine}")
                run[f"atoms/{mine}"] = mine
            if say:
                os.write(say, b".")
            depth -= 1
            again()

        say = 0
        signal.signal(signal.SIGALRM, handler)
        if sys.argv[2] == "timer":
            again()
        else:
            me, (hear, say) = os.getpid(), os.pipe()
            pid = os.fork()
            if not pid:
                os.close(say)
                os.kill(me, signal.SIGALRM)
                while os.read(hear, 1):  # until it is handled; handlers shall not pile up
                    time.sleep(0.0003)
                    os.kill(me, signal.SIGALRM)
                os._exit(0)
        step = 0
        while handled < wanted:
            run.log_metrics({"loss": step, "acc": 0.5}, step)
            if step % 7 == 0:
                run["column"].extend([1.0, 2.0])
            step += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        if sys.argv[2] != "timer":
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        run.stop()
        print(json.dumps([handled, step, run.session.recorder.writer.dropped]))
        """,
        source,
        str(count),
    )
    handled, steps, dropped = told
    assert dropped == {}
    assert handled >= count
    assert len(headers(tmp_path)) == 1
    reader = read(tmp_path)
    signals = reader["signals"].fetch_points()
    assert signals.step.tolist() == signals.value.tolist() == list(range(handled))
    loss = reader["loss"].fetch_points()
    assert loss.step.tolist() == loss.value.tolist() == list(range(steps))
    assert len(reader["acc"].fetch_points().step) == steps
    assert reader["column"].fetch_points().step.tolist() == list(range(2 * len(range(0, steps, 7))))
    assert len(reader["atoms"].fetch()) == len(range(0, handled, 100))
    assert len(reader.session.recorded.view().texts("log")) == len(range(0, handled, 100))


def test_a_time_limit_of_the_training_is_not_swallowed(tmp_path):
    """An alarm whose handler raises ends the loop wherever it strikes, 200 times over."""
    told = script(
        tmp_path,
        """
        class TimeIsUp(Exception):
            pass

        def handler(number, frame):
            raise TimeIsUp

        run = begin()
        signal.signal(signal.SIGALRM, handler)
        returned = struck = 0
        for round in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                while True:
                    run.log_metrics({"a": returned, "b": 1.0}, returned)
                    returned += 1
            except TimeIsUp:
                struck += 1
        run.log_metrics({"a": returned, "b": 1.0}, returned)
        run.stop()
        print(json.dumps([returned, struck, run.session.recorder.writer.dropped]))
        """,
    )
    returned, struck, dropped = told
    assert (struck, dropped) == (200, {})
    points = read(tmp_path)["a"].fetch_points()
    steps = points.step.tolist()
    assert sorted(set(steps)) == list(range(returned + 1))
    # A call that was struck after its write is made again by this loop, and no other twice.
    assert len(steps) - (returned + 1) <= struck
    assert points.value.tolist() == steps


def test_threads_and_a_fork_and_a_timer_at_once(tmp_path):
    """Everything together, for deadlocks: threads log, a timer interrupts, children are forked."""
    told = script(
        tmp_path,
        """
        run = begin()
        done = threading.Event()
        counts = [0] * 3

        def work(number):
            while not done.is_set():
                run.log_metrics({f"t{number}": counts[number]}, counts[number])
                counts[number] += 1

        beats = 0
        def handler(*_):
            global beats
            mine, beats = beats, beats + 1
            run.log_metrics({"beats": mine}, mine)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for child in range(15):
            pid = os.fork()
            if not pid:
                signal.setitimer(signal.ITIMER_REAL, 0)
                run.log_metrics({"children": child}, child)
                run.stop()
                os._exit(0)
            while True:
                try:
                    os.waitpid(pid, 0)
                    break
                except InterruptedError:
                    pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        done.set()
        for thread in threads:
            thread.join()
        run.stop()
        print(json.dumps([counts, beats]))
        """,
    )
    counts, beats = told
    reader = read(tmp_path)
    for number, count in enumerate(counts):
        assert reader[f"t{number}"].fetch_points().step.tolist() == list(range(count))
    assert reader["children"].fetch_points().step.tolist() == list(range(15))
    if beats:
        assert reader["beats"].fetch_points().step.tolist() == list(range(beats))
