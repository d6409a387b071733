"""How a process ends is seen, and is the same as without us."""

from __future__ import annotations

import signal
import sys

import pytest

# Python tells of the exit of a script since 3.12; before, nobody can know its code.
EXITED = "failed" if sys.version_info >= (3, 12) else "completed"

# Each script runs twice: as it is, and with a run (or two) started where OBSERVED stands.
BARE = "pass"
WITH_RUN = "import seamark; run = seamark.init_run(capture=dict(git=False, packages=False))"
WITH_TWO = WITH_RUN + "; other = seamark.init_run(capture=dict(git=False, packages=False))"


def both(scripts, code: str, *, started: str = WITH_RUN):
    """Run a script without and with us; return both ends. Tracebacks name the same lines."""
    # Python 3.12 warns of any fork where there are threads, and a run has one.
    quiet = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
    bare = scripts.run(code.replace("OBSERVED", BARE), env=quiet)
    ours = scripts.run(code.replace("OBSERVED", started), env=quiet)
    return bare, ours


@pytest.mark.parametrize("started", [WITH_RUN, WITH_TWO], ids=["one run", "two runs"])
def test_an_uncaught_exception_fails_every_run_and_ends_the_process_as_before(scripts, started):
    """Same exit code, same output on stderr; the run says failed, and why."""
    code = """
        OBSERVED
        def train():
            raise ValueError("loss is gone")
        train()
    """
    bare, ours = both(scripts, code, started=started)
    assert (ours.code, ours.stdout, ours.stderr) == (bare.code, bare.stdout, bare.stderr)
    assert ours.code == 1
    runs = scripts.all_recorded()
    assert len(runs) == (2 if started is WITH_TWO else 1)
    for run in runs:
        assert [one["state"] for one in run.states] == ["running", "failed"]
        assert run.states[-1]["error"] == {"type": "ValueError", "message": "loss is gone"}
        assert 'raise ValueError("loss is gone")' in run.one("/traceback")


def test_ctrl_c_interrupts_the_run_and_still_dies_of_sigint(scripts):
    code = """
        import os, signal
        OBSERVED
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    """
    bare, ours = both(scripts, code)
    assert (ours.code, ours.stderr) == (bare.code, bare.stderr)
    assert ours.code == -signal.SIGINT
    last = scripts.recorded().states[-1]
    assert last["state"] == "interrupted"
    assert last["error"]["type"] == "KeyboardInterrupt"


@pytest.mark.parametrize("exit_code", ["None", "3", "'a message'"])
def test_a_script_that_exits(scripts, exit_code):
    """With 0 the run is completed, with another code it has failed where Python tells of it."""
    bare, ours = both(scripts, f"import sys\nOBSERVED\nsys.exit({exit_code})\n")
    assert (ours.code, ours.stderr) == (bare.code, bare.stderr)
    last = scripts.recorded().states[-1]
    assert last["state"] == (EXITED if ours.code else "completed")
    if last["state"] == "failed":
        assert last["error"] == {"type": "SystemExit", "message": exit_code.strip("'")}


def test_an_exit_that_is_caught_and_the_end_of_a_thread_end_nothing(scripts):
    """The process goes on, and nobody has to call stop at its end."""
    code = """
        import sys, threading
        OBSERVED
        for work in (lambda: sys.exit(3), lambda: 1 / 0):
            thread = threading.Thread(target=work)
            thread.start(); thread.join()
        try:
            sys.exit(3)
        except SystemExit:
            pass
    """
    bare, ours = both(scripts, code)
    assert ours.code == bare.code == 0
    assert ours.stderr.count("ZeroDivisionError") == bare.stderr.count("ZeroDivisionError") == 1
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "completed"]
    assert not [path for path in recorded.atoms if path.endswith("traceback")]


def test_the_excepthook_that_was_there_runs_as_before(scripts):
    """Ours stands in front of it and calls it, whatever it does."""
    code = """
        import sys
        def hook(kind, error, trace):
            print("mine", kind.__name__, error, trace.tb_lineno)
            raise SystemError("hook is broken")
        sys.excepthook = hook
        OBSERVED
        raise ValueError("x")
    """
    bare, ours = both(scripts, code)
    assert (ours.code, ours.stdout) == (bare.code, bare.stdout)
    assert "mine ValueError x 8" in ours.stdout
    assert "SystemError: hook is broken" in ours.stderr
    assert scripts.recorded().states[-1]["state"] == "failed"


def test_a_failure_is_seen_though_our_hook_was_replaced(scripts):
    """rich.traceback.install() puts its hook in place of ours and does not call it."""
    code = """
        import sys
        OBSERVED
        sys.excepthook = lambda kind, error, trace: print("pretty", error)
        raise ValueError("x")
    """
    bare, ours = both(scripts, code)
    assert (ours.code, ours.stdout, ours.stderr) == (bare.code, bare.stdout, bare.stderr)
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "failed"]
    assert "ValueError: x" in recorded.one("/traceback")


def test_a_hook_over_ours_that_calls_it_does_not_tell_the_run_twice(scripts):
    """Layers of hooks are one end of the process."""
    code = """
        import sys
        OBSERVED
        before = sys.excepthook
        sys.excepthook = lambda *what: before(*what)
        second = seamark.init_run(capture=dict(git=False, packages=False))
        raise ValueError("x")
    """
    scripts.run(code.replace("OBSERVED", WITH_RUN))
    for run in scripts.all_recorded():
        assert [one["state"] for one in run.states] == ["running", "failed"]


@pytest.mark.parametrize(
    ("switches", "state", "traced"),
    [
        ("capture_traceback=False", "failed", False),
        ("fail_on_exception=False", "completed", True),
    ],
)
def test_each_part_of_a_failure_has_a_switch(scripts, switches, state, traced):
    scripts.run(f"import seamark\nrun = seamark.init_run({switches})\nraise ValueError('x')\n")
    recorded = scripts.recorded()
    assert recorded.states[-1]["state"] == state
    assert any(path.endswith("/traceback") for path in recorded.atoms) is traced


# --------------------------------------------------------------------- SIGTERM

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize("started", [WITH_RUN, WITH_TWO], ids=["one run", "two runs"])
def test_sigterm_interrupts_every_run_and_still_kills(scripts, started):
    """The exit status is that of the signal: a launcher must be able to tell."""
    # On a slow disk the handler returns, and the process dies a moment later.
    code = f"import time\nOBSERVED\n{KILL}\ntime.sleep(60)\nprint('lived on')\n"
    bare, ours = both(scripts, code, started=started)
    assert (ours.code, ours.stdout, ours.stderr) == (bare.code, bare.stdout, bare.stderr)
    assert ours.code == -signal.SIGTERM
    for run in scripts.all_recorded():
        assert run.states[-1] == {"op": "state", "state": "interrupted", "signal": "SIGTERM"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sigterm_handler_of_the_script_decides(scripts, when):
    """One that was there before is called by ours; one that comes later replaces ours."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: (print('saving'), sys.exit(7)))"
    lines = [handler, "OBSERVED"] if when == "before" else ["OBSERVED", handler]
    code = "\n".join(["import signal, sys", *lines, KILL])
    bare, ours = both(scripts, code)
    assert (ours.code, ours.stdout) == (bare.code, bare.stdout) == (7, "saving\n")
    state = scripts.recorded().states[-1]["state"]
    assert state == ("interrupted" if when == "before" else EXITED)


def test_a_handler_over_ours_that_calls_it_decides(scripts):
    """Lightning does so: ours marks the run and returns, for what stands above decides."""
    code = f"""
import signal
OBSERVED
found = signal.getsignal(signal.SIGTERM)
def graceful(*what):
    if callable(found):
        found(*what)
    print("graceful")
signal.signal(signal.SIGTERM, graceful)
{KILL}
print("went on")
"""
    bare, ours = both(scripts, code)
    assert (ours.code, ours.stdout) == (bare.code, bare.stdout) == (0, "graceful\nwent on\n")
    assert scripts.recorded().states[-1].get("signal") == "SIGTERM"


def test_ignored_sigterm_stays_ignored(scripts):
    """Who ignores SIGTERM goes on, and is not called interrupted."""
    bare, ours = both(
        scripts,
        f"import signal\nsignal.signal(15, signal.SIG_IGN)\nOBSERVED\n{KILL}\nprint('on')\n",
    )
    assert (ours.code, ours.stdout) == (bare.code, bare.stdout) == (0, "on\n")
    assert scripts.recorded().states[-1]["state"] == "completed"


def test_handlers_go_with_the_last_run(scripts):
    """Two runs, one registration; what was found is put back when the last one stops, or in a
    forked child, which dies of SIGTERM at once only so. What others put over ours stays.
    """
    code = """
        import os, signal, sys, seamark
        tools = getattr(sys, "monitoring", None)
        handlers = lambda: (signal.getsignal(signal.SIGTERM), sys.excepthook)
        begin = lambda: seamark.init_run(capture=dict(git=False, packages=False))
        found = handlers()
        runs = [begin() for _ in range(2)]
        ours = handlers()
        if os.fork() == 0:
            os._exit(0 if handlers() == found else 1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        runs[0].stop()
        assert handlers() == ours
        runs[1].stop()
        assert handlers() == found
        assert all(one not in ours for one in found)
        assert tools is None or [tools.get_tool(number) for number in range(6)] == [None] * 6
        run = begin()
        mine, hook = lambda *_: None, lambda *_: None
        signal.signal(signal.SIGTERM, mine); sys.excepthook = hook
        run.stop()
        assert handlers() == (mine, hook)
    """
    ended = scripts.run(code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"})
    assert (ended.code, ended.stderr) == (0, "")


OVER_OURS = """
import signal, sys, threading, seamark
found = signal.getsignal(signal.SIGTERM), sys.excepthook

def begin():
    return seamark.init_run(capture=dict(git=False, packages=False))

def put_over():
    before = signal.getsignal(signal.SIGTERM), sys.excepthook
    signal.signal(signal.SIGTERM, lambda *what: before[0](*what))
    sys.excepthook = lambda *what: before[1](*what)
    return before

def put_back(before):
    signal.signal(signal.SIGTERM, before[0])
    sys.excepthook = before[1]

run = begin()
before = put_over()
"""


def test_what_was_found_is_put_back_when_what_stood_over_ours_goes_later(scripts):
    """Lightning's handler is still there when a stage ends, and puts back the one it found."""
    code = """
run.stop()
assert (signal.getsignal(signal.SIGTERM), sys.excepthook) != found
put_back(before)
assert (signal.getsignal(signal.SIGTERM), sys.excepthook) == found
for thread in threading.enumerate():
    if thread.name == "seamark-sigterm":
        thread.join()
assert signal.set_wakeup_fd(-1) == -1
"""
    ended = scripts.run(OVER_OURS + code)
    assert (ended.code, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("end", "state"), [("raise ValueError('x')", "failed"), (KILL, "interrupted")]
)
def test_a_run_that_begins_before_ours_is_put_back_is_told(scripts, end, state):
    """What is left of an earlier run serves the next one."""
    code = f"""
run.stop()
second = begin()
put_back(before)
assert (signal.getsignal(signal.SIGTERM), sys.excepthook) == before
{end}
"""
    scripts.run(OVER_OURS + code)
    states = [run.states[-1]["state"] for run in scripts.all_recorded()]
    assert sorted(states) == sorted(["completed", state])


RESTING = """
import os, signal, sys, seamark
found = signal.getsignal(signal.SIGTERM), sys.excepthook
run = seamark.init_run(capture=dict(git=False))
capture = run.session.ending._capture
run.set_state("completed")
for _ in range(2):
    capture.stop()
assert (signal.getsignal(signal.SIGTERM), sys.excepthook) == found
"""


@pytest.mark.parametrize("end", ["raise ValueError('x')", KILL])
def test_the_end_of_the_process_says_nothing_about_a_run_at_rest(scripts, end):
    """A sweep goes on with the next trial; what happens there is no business of this one."""
    assert scripts.run(RESTING + end).code != 0
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "completed"]
    assert not [path for path in recorded.atoms if path.endswith("traceback")]


@pytest.mark.parametrize(
    ("end", "state"),
    [("raise ValueError('x')", "failed"), ("sys.exit(3)", EXITED), (KILL, "interrupted")],
)
def test_a_run_that_goes_on_is_told_again(scripts, end, state):
    """Once, however often it went on; and what was captured is there once."""
    code = """
for _ in range(3):
    capture.start()
    capture.stop()
for _ in range(2):
    capture.start()
run.set_state("running")
"""
    assert scripts.run(RESTING + code + end).code != 0
    recorded = scripts.recorded()
    states = [one["state"] for one in recorded.states]
    assert states == ["running", "completed", "running", state]
    assert "source_code/packages" in recorded.atoms
    captured = [path for path in recorded.assigned if path != "sys/hostname"]
    assert len(captured) == len(set(captured))


def test_signals_that_are_not_ours_are_left_alone(scripts):
    """A handler of SIGUSR1 would turn Lightning's SLURM requeue off; SIGTERM has a switch, and
    only the main thread may install a handler: elsewhere that is no error.
    """
    code = """
        import signal, threading, seamark
        names = signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP
        before = [signal.getsignal(name) for name in names]
        made = [seamark.init_run(capture=dict(signals=False))]
        thread = threading.Thread(target=lambda: made.append(seamark.init_run()))
        thread.start(); thread.join()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        made[1]["a"] = 1
        made.append(seamark.init_run())
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert [signal.getsignal(name) for name in names] == before
    """
    ended = scripts.run(code)
    assert (ended.code, ended.stderr) == (0, "")
    assert [run.states[-1]["state"] for run in scripts.all_recorded()] == ["completed"] * 3


def test_sigterm_in_the_middle_of_a_record_loses_neither(scripts):
    """What the handler notes is written after the call that it interrupted; then we die."""
    code = """
        import os, signal, threading, seamark
        from seamark.capture.ending import sigterm
        sigterm._GRACE_S = sigterm._SETTLE_S = 60  # however busy this machine is
        run = seamark.init_run(capture=dict(git=False, packages=False))
        for step in range(3):
            run.log_metrics({"loss": 1.0}, step=step)
        write, sent = os.write, []
        def interrupted(fd, data):
            # In the middle of a record of the training's thread: others write, too.
            if not sent and threading.current_thread() is threading.main_thread():
                sent.append(True)
                os.kill(os.getpid(), signal.SIGTERM)
            return write(fd, data)
        os.write = interrupted
        while True:
            step += 1
            run.log_metrics({"loss": 1.0}, step=step)
    """
    ended = scripts.run(code)
    assert (ended.code, ended.stderr) == (-signal.SIGTERM, "")
    assert scripts.recorded().states[-1].get("signal") == "SIGTERM"


IN_C = """
import ctypes, fcntl, os, signal, sys, termios, threading, seamark
from seamark.capture.ending import sigterm
sigterm._TELL_S = 60  # however busy this machine is
run = seamark.init_run(capture=dict(git=False, packages=False))
run["loss"].append(1.0)
"""


def test_a_process_that_waits_in_c_code_dies_of_sigterm_as_it_would_without_us(scripts):
    """No handler of Python's is ever called there; a rank in a collective is such a process.

    To lock a mutex that is locked goes on in C whatever signal arrives; glibc writes 2 into it when
    somebody waits for it.
    """
    code = (
        IN_C
        + """
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
def strike():
    while int.from_bytes(mutex.raw[:4], sys.byteorder) != 2:
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=strike, daemon=True).start()
for _ in range(2):
    libc.pthread_mutex_lock(mutex)
"""
    )
    assert scripts.run(code).code == -signal.SIGTERM
    run = scripts.recorded()
    assert run.states[-1] == {"op": "state", "state": "interrupted", "signal": "SIGTERM"}


def test_signals_of_a_forked_child_are_not_taken_for_our_own(scripts):
    """The child handles SIGTERM in its own way; nobody tells its parent, who would die of it."""
    code = (
        IN_C
        + """
sigterm._GRACE_S = sigterm._REST_S = 0
died = []
sigterm.SigtermWatcher._die = lambda self: died.append(self)
signal.signal(signal.SIGUSR1, lambda *_: None)
child = os.fork()
if child == 0:
    caught = []
    signal.signal(signal.SIGTERM, lambda *_: caught.append(1))
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(len(caught))
caught = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for _ in range(2):  # when the second one is read, what stood before the first one has been seen to
    os.kill(os.getpid(), signal.SIGUSR1)
    unread = bytearray(b"1234")
    while any(unread):
        fcntl.ioctl(sigterm._watcher._ends[0], termios.FIONREAD, unread)
print(caught, died)
"""
    )
    ended = scripts.run(code)
    assert (ended.code, ended.stdout) == (0, "1 []\n")


def test_the_descriptor_of_signals_is_left_as_it_was_found(scripts):
    """An event loop may have it already; it is given back with the last run."""
    code = """
        import os, signal, seamark
        ours, its = os.pipe()
        os.set_blocking(its, False)
        for taken in (False, True):
            if taken:
                signal.set_wakeup_fd(its)
            run = seamark.init_run(capture=dict(git=False, packages=False))
            current = signal.set_wakeup_fd(-1)
            assert (current == its) == taken
            assert current != -1
            signal.set_wakeup_fd(current)
            run.stop()
            assert signal.set_wakeup_fd(-1) == (its if taken else -1)
    """
    ended = scripts.run(code)
    assert ended.code == 0, ended.stderr


# --------------------------------------------------------------------- fork

ENDS = (
    "sys.exit(3)",
    "raise ValueError('in the child')",
    "os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit(0)",
)
CHILDREN = f"""
import os, signal, sys
OBSERVED
for end in {ENDS!r}:
    pid = os.fork()
    if pid == 0:
        exec(end)
        signal.pause()
    print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_how_a_forked_child_ends_says_nothing_about_the_run(scripts):
    """DataLoader workers are forked, fail and are killed; the run is their parent's."""
    bare, ours = both(scripts, CHILDREN)
    assert (ours.code, ours.stdout, ours.stderr) == (bare.code, bare.stdout, bare.stderr)
    assert ours.stdout == "child 3\nchild 1\nchild -15\nchild 0\n"
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "completed"]
    assert recorded.journals == 1
    assert not [path for path in recorded.atoms if path.endswith("traceback")]
