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


def alike(scripts, code, *, started=WITH_RUN, parts=("code", "stdout", "stderr")):
    """Run a script without and with us, and return how ours ended: as the other one.

    Tracebacks name the same lines.
    """
    # Python 3.12 warns of any fork where there are threads, and a run has one.
    quiet = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
    bare = scripts.run(code.replace("OBSERVED", BARE), env=quiet)
    ours = scripts.run(code.replace("OBSERVED", started), env=quiet)
    for part in parts:
        assert getattr(ours, part) == getattr(bare, part)
    return ours


def test_uncaught_exception_fails_every_run_and_ends_the_process_as_before(scripts):
    code = """
        OBSERVED
        def train():
            raise ValueError("loss is gone")
        train()
    """
    assert alike(scripts, code, started=WITH_TWO).code == 1
    recorded = scripts.all_recorded()
    assert len(recorded) == 2
    for run in recorded:
        assert [one["state"] for one in run.states] == ["running", "failed"]
        assert run.states[-1]["error"] == {"type": "ValueError", "message": "loss is gone"}
        assert 'raise ValueError("loss is gone")' in run.one("/traceback")


KILL = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
HANDLER = "signal.signal(signal.SIGTERM, lambda *_: (print('saving'), sys.exit(7)))"
CTRL_C = {"state": "interrupted", "error": {"type": "KeyboardInterrupt", "message": ""}}
SIGTERM = {"state": "interrupted", "signal": "SIGTERM"}
# The error of an exit, where Python tells of it.
EXIT_ERROR = {"error": {"type": "SystemExit", "message": "a message"}} if EXITED == "failed" else {}
COMPLETED, FAILED = {"state": "completed"}, {"state": "failed"}
# How each script ends: its code, what it prints, and the last state of the run.
ENDS = {
    "Ctrl-C": (
        "OBSERVED\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()",
        (-signal.SIGINT, "", CTRL_C),
    ),
    "an interrupt that the script shows itself": (
        """
OBSERVED
try:
    raise KeyboardInterrupt
except KeyboardInterrupt:
    sys.excepthook(*sys.exc_info())
""",
        (0, "", {}),
    ),
    "exit with a message": (
        "OBSERVED\nsys.exit('a message')",
        (1, "", {"state": EXITED, **EXIT_ERROR}),
    ),
    "exits that are caught, and ends of threads": (
        """
OBSERVED
for work in (lambda: sys.exit(3), lambda: 1 / 0):
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
try:
    sys.exit(3)
except SystemExit:
    pass
""",
        (0, "", COMPLETED),
    ),
    "a broken hook that was there": (
        """
def hook(kind, error, trace):
    print("mine", kind.__name__, error, trace.tb_lineno)
    raise SystemError("hook is broken")
sys.excepthook = hook
OBSERVED
raise ValueError("x")
""",
        (1, "mine ValueError x 8\n", FAILED),
    ),
    "a hook in the place of ours that does not call it": (
        """
OBSERVED
sys.excepthook = lambda kind, error, trace: print("pretty", error)
raise ValueError("x")
""",
        (1, "pretty x\n", FAILED),
    ),
    "a handler of SIGTERM that was there": (
        f"{HANDLER}\nOBSERVED\n{KILL}",
        (7, "saving\n", SIGTERM),
    ),
    "a handler that comes later": (
        f"OBSERVED\n{HANDLER}\n{KILL}",
        (7, "saving\n", {"state": EXITED}),
    ),
    "a handler over ours that calls it and goes on": (
        f"""
OBSERVED
found = signal.getsignal(signal.SIGTERM)
def graceful(*what):
    if callable(found):
        found(*what)
    print("graceful")
signal.signal(signal.SIGTERM, graceful)
{KILL}
print("went on")
""",
        (0, "graceful\nwent on\n", SIGTERM),
    ),
    "SIGTERM that is ignored": (
        f"signal.signal(15, signal.SIG_IGN)\nOBSERVED\n{KILL}\nprint('on')",
        (0, "on\n", COMPLETED),
    ),
}
OTHER_STDERR = ("exits that are caught, and ends of threads", "a broken hook that was there")


@pytest.mark.parametrize("end", ENDS)
def test_process_ends_as_without_a_run_which_says_how(scripts, end):
    script, (code, stdout, state) = ENDS[end]
    parts = ("code", "stdout") if end in OTHER_STDERR else ("code", "stdout", "stderr")
    ours = alike(scripts, f"import os, signal, sys, threading\n{script}\n", parts=parts)
    assert (ours.code, ours.stdout) == (code, stdout)
    recorded = scripts.recorded()
    assert state.items() <= recorded.states[-1].items()
    assert [one["state"] for one in recorded.states[:-1]] == ["running"]
    traces = [text for path, text in recorded.atoms.items() if path.endswith("traceback")]
    if "hook" in end:
        assert traces[0].endswith("ValueError: x\n")
        assert ("hook is broken" in ours.stderr) == ("broken" in end)
    if state == COMPLETED:
        assert not traces


DIES = """
import atexit, seamark
run = seamark.init_run(capture=dict(git=False))
run['a'] = 1
atexit.register(eval, '1')
raise KeyboardInterrupt
"""


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"], ["-c", DIES]])
def test_ctrl_c_kills_the_process_though_a_text_is_executed_at_its_exit(scripts, how):
    """Python has one flag for the interrupt, which ``exec`` resets, as an import may do."""
    scripts.write(DIES)
    ended = scripts.start([sys.executable, *how])
    assert (ended.code, ended.stderr.count("\nKeyboardInterrupt\n")) == (-signal.SIGINT, 1)


@pytest.mark.parametrize(
    ("switches", "state", "traced"),
    [("capture_traceback=False", "failed", False), ("fail_on_exception=False", "completed", True)],
)
def test_each_part_of_a_failure_has_a_switch(scripts, switches, state, traced):
    scripts.run(f"import seamark\nrun = seamark.init_run({switches})\nraise ValueError('x')\n")
    recorded = scripts.recorded()
    assert recorded.states[-1]["state"] == state
    assert any(path.endswith("/traceback") for path in recorded.atoms) is traced


def test_sigterm_interrupts_every_run_and_kills_the_process(scripts):
    # On a slow disk the handler returns, and the process dies a moment later.
    code = f"import time\nOBSERVED\n{KILL}\ntime.sleep(60)\nprint('lived on')\n"
    assert alike(scripts, code, started=WITH_TWO).code == -signal.SIGTERM
    assert [run.states[-1] for run in scripts.all_recorded()] == [{"op": "state", **SIGTERM}] * 2


HANDLERS = """
import os, signal, sys, threading, seamark
handlers = lambda: (signal.getsignal(signal.SIGTERM), sys.excepthook)
begin = lambda: seamark.init_run(capture=dict(git=False, packages=False))
found = handlers()

def put_over():
    before = handlers()
    signal.signal(signal.SIGTERM, lambda *what: before[0](*what))
    sys.excepthook = lambda *what: before[1](*what)
    return before

def put_back(before):
    signal.signal(signal.SIGTERM, before[0])
    sys.excepthook = before[1]
"""


def test_handlers_go_with_the_last_run(scripts):
    """Or in a forked child, which dies of SIGTERM at once only so. What others put over ours stays.

    Lightning's handler is still there when a stage ends, and later puts back the one it found.
    """
    code = """
tools = getattr(sys, "monitoring", None)
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
before = put_over()
run.stop()
assert handlers() != found
put_back(before)
assert handlers()[0] == found[0]
sys.excepthook = found[1]  # ours only passes on
for thread in threading.enumerate():
    if thread.name == "seamark-sigterm":
        thread.join()
assert signal.set_wakeup_fd(-1) == -1
run = begin()
mine = lambda *_: None, lambda *_: None
put_back(mine)
run.stop()
assert handlers() == mine
"""
    ended = scripts.run(HANDLERS + code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"})
    assert (ended.code, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("end", "state"), [("raise ValueError('x')", "failed"), (KILL, "interrupted")]
)
def test_run_that_begins_before_our_handlers_go_is_marked_by_them(scripts, end, state):
    code = f"""
run = begin()
before = put_over()
run.stop()
second = begin()
put_back(before)
assert handlers() == before
{end}
"""
    scripts.run(HANDLERS + code)
    states = [run.states[-1]["state"] for run in scripts.all_recorded()]
    assert sorted(states) == sorted(["completed", state])


def test_hooks_that_are_taken_away_and_put_back_make_no_circle(scripts):
    """The hook that was there at the very beginning is still called, also after the last run."""
    code = """
sys.excepthook = lambda *_: print("first", end=" ")
for _ in range(2):
    run = begin()
    before = sys.excepthook
    other = lambda *given, before=before: (print("other", end=" "), before(*given))
    sys.excepthook = before
    run.stop()
    sys.excepthook = other
begin()
sys.excepthook(ValueError, ValueError("x"), None)
raise ValueError("y")
"""
    ended = scripts.run(HANDLERS + code)
    assert ended.stdout.splitlines()[-1].endswith("other other first other other first ")
    states = [[one["state"] for one in run.states] for run in scripts.all_recorded()]
    once_for_each_error = ["running", "failed", "failed"]
    assert sorted(states) == [["running", "completed"]] * 2 + [once_for_each_error]


RESTING = (
    HANDLERS
    + """
run = seamark.init_run(capture=dict(git=False))
capture = run.session.ending._capture
run.set_state("completed")
for _ in range(2):
    capture.stop()
assert handlers() == found
"""
)


@pytest.mark.parametrize("end", ["raise ValueError('x')", KILL])
def test_end_of_the_process_says_nothing_about_a_run_at_rest(scripts, end):
    assert scripts.run(RESTING + end).code != 0
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "completed"]
    assert not [path for path in recorded.atoms if path.endswith("traceback")]


@pytest.mark.parametrize(
    ("end", "state"),
    [("raise ValueError('x')", "failed"), ("sys.exit(3)", EXITED), (KILL, "interrupted")],
)
def test_run_that_goes_on_is_marked_again_by_the_end(scripts, end, state):
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


def test_other_signals_and_the_wakeup_descriptor_are_left_as_they_were(scripts):
    """A handler of SIGUSR1 would turn Lightning's SLURM requeue off; SIGTERM has a switch, and
    only the main thread may install a handler: elsewhere that is no error. An event loop may have
    the descriptor already.
    """
    code = """
ours, its = os.pipe()
os.set_blocking(its, False)
for taken in (False, True):
    if taken:
        signal.set_wakeup_fd(its)
    run = begin()
    current = signal.set_wakeup_fd(-1)
    assert (current == its) == taken
    assert current != -1
    signal.set_wakeup_fd(current)
    run.stop()
    assert signal.set_wakeup_fd(-1) == (its if taken else -1)
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
    ended = scripts.run(HANDLERS + code)
    assert (ended.code, ended.stderr) == (0, "")
    assert [run.states[-1]["state"] for run in scripts.all_recorded()] == ["completed"] * 5


def test_sigterm_in_the_middle_of_a_record_loses_neither(scripts):
    code = """
        import os, signal, threading, seamark
        from seamark.capture.ending import sigterm
        sigterm._EXIT_TIMEOUT_S = sigterm._MAX_WAIT_S = 60  # however busy this machine is
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
sigterm._NOTIFY_TIMEOUT_S = 60  # however busy this machine is
run = seamark.init_run(capture=dict(git=False, packages=False))
run["loss"].append(1.0)
"""


def test_process_that_waits_in_c_code_dies_of_sigterm(scripts):
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
    code = (
        IN_C
        + """
sigterm._EXIT_TIMEOUT_S = sigterm._READ_PAUSE_S = 0
died = []
sigterm.SigtermWatcher._handle = lambda self, answered: died.append(self)
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


CHILDREN = """
import os, signal, sys
OBSERVED
for end in (
    "sys.exit(3)", "raise ValueError('in the child')", "os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit(0)",
):
    pid = os.fork()
    if pid == 0:
        exec(end)
        signal.pause()
    print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_end_of_a_forked_child_says_nothing_about_the_run(scripts):
    assert alike(scripts, CHILDREN).stdout == "child 3\nchild 1\nchild -15\nchild 0\n"
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "completed"]
    assert recorded.journals == 1
    assert not [path for path in recorded.atoms if path.endswith("traceback")]
