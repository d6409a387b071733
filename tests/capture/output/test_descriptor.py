"""Output at the descriptor: the person sees the same bytes, and all of them are recorded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from printed import printed
from process_status import has_ended

from seamark.capture.output import descriptor
from seamark.capture.output.descriptor import DescriptorSource, NotCapturableError

LIMIT_S = 60
"""How long something may take before a test fails; nothing waits for it otherwise."""

CAPTURED = """
import atexit, os, sys, threading, time
from pathlib import Path
from seamark.capture.output.descriptor import DescriptorSource

if __name__ != "__main__":  # a child that multiprocessing started
    os.environ["CAPTURE"] = ""
sources = [DescriptorSource(int(fd), Path("run")) for fd in os.environ["CAPTURE"].split()]
texts = ["" for _ in sources]
at_rest = threading.Event()

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.005)

def take():
    while not at_rest.wait(0.02):
        for number, source in enumerate(sources):
            texts[number] += source.take()

for source in sources:
    source.start()
thread = threading.Thread(target=take, daemon=True)
thread.start()

def rest():
    at_rest.set()
    thread.join()
    for number in reversed(range(len(sources))):
        texts[number] += sources[number].stop()
    for number, text in enumerate(texts):
        Path(f"recorded{number}").write_bytes(text.encode())
    Path("lost").write_text(str(sum(source.lost for source in sources)))

if sources:
    atexit.register(rest)
"""

PRINTING = """
import ctypes, os, subprocess, sys, time
import rich.console, rich.progress, tqdm
print("Python", os.isatty(1), os.isatty(2))
sys.stdout.flush()
os.write(1, b"fd 1 \\xff\\n")
libc = ctypes.CDLL(None)
libc.puts(b"C")
libc.fflush(None)
subprocess.run([sys.executable, "-c", "print('subprocess')"])
os.system("echo shell; echo to standard error >&2")
for _ in tqdm.tqdm(range(30), mininterval=0, bar_format="{l_bar}{bar}|{n_fmt}"):
    print("between", flush=True)
tqdm.tqdm.write("beside a bar")
with rich.progress.Progress("{task.percentage}", auto_refresh=False) as bar:
    task = bar.add_task("a", total=3)
    for _ in range(3):
        bar.advance(task)
        bar.refresh()
rich.console.Console().print("[bold]bold[/] [red]red[/]")
sys.stdout.flush()
if os.isatty(1):
    print(os.get_terminal_size(), file=sys.stderr, flush=True)
print("no end of line", end="")
"""


class Training:
    """A script in a process of its own, whose output goes where a person would send it."""

    def __init__(self, folder: Path, code: str, captured: str, where: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        script = folder / "script.py"
        script.write_text(CAPTURED + textwrap.dedent(code))
        self.shown = bytearray()
        self.outer = -1
        self._reader: threading.Thread | None = None
        self._go_on = threading.Event()
        self._go_on.set()
        environment = {**os.environ, "CAPTURE": captured, "TERM": "xterm", "TRAINING": str(folder)}
        environment.pop("NO_COLOR", None)
        if where == "terminal":
            self.outer, inner = pty.openpty()
            resize(inner, 31, 97)
        elif where == "pipe":
            self.outer, inner = os.pipe()
        else:
            (folder / "log").write_bytes(b"before\n")
            flags = os.O_APPEND if where == "appended" else os.O_TRUNC
            inner = os.open(folder / "log", os.O_WRONLY | flags)
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        if self.outer >= 0:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.outer, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.shown += data

    def wait_for(self, text: bytes) -> None:
        wait_until(lambda: text in self.shown)

    def say(self, name: str) -> None:
        """Let the script go on that waits for a file of this name."""
        (self.folder / name).touch()

    def end(self) -> bytes:
        """Wait until nobody can write any more, and return what was shown."""
        self.process.wait(LIMIT_S)
        wait_until(lambda: not self.helpers())
        if self._reader is None:
            return (self.folder / "log").read_bytes()
        self._reader.join(LIMIT_S)
        assert not self._reader.is_alive(), "somebody still holds the terminal or the pipe"
        return bytes(self.shown)

    def recorded(self, number: int = 0) -> bytes:
        return (self.folder / f"recorded{number}").read_bytes()

    def helpers(self) -> list[psutil.Process]:
        """Return the processes that copy."""
        found = []
        for process in psutil.process_iter():
            try:
                if not any(each.endswith("_copier.py") for each in process.cmdline()):
                    continue
                if process.environ().get("TRAINING") == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return found


def resize(terminal: int, lines: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    """Return a function that starts a training; all of them are gone at the end."""
    started: list[Training] = []

    def start(code: str, captured: str = "1 2", where: str = "pipe", name: str = "a") -> Training:
        started.append(Training(tmp_path / name, code, captured, where))
        return started[-1]

    yield start
    for training in started:
        training.process.kill()
        training.process.wait()
        for helper in training.helpers():
            with contextlib.suppress(psutil.NoSuchProcess):
                helper.kill()
        if training.outer >= 0:
            os.close(training.outer)


class Piped:
    """Has descriptor 1 of this process lead to a pipe, which is read."""

    saved = -1

    def begin(self) -> None:
        """Begin; within a test, for pytest puts its own file there before each."""
        reading, writing = os.pipe()
        self.saved = os.dup(1)
        os.dup2(writing, 1)
        os.close(writing)
        self.shown = bytearray()
        self._file = os.fdopen(reading, "rb", buffering=0)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while data := self._file.read(1 << 16):
            self.shown += data

    def end(self) -> str:
        """Put back what was there, and return everything that was shown."""
        if self.saved >= 0:
            os.dup2(self.saved, 1)
            os.close(self.saved)
            self.saved = -1
            self._thread.join(LIMIT_S)
            self._file.close()
        return self.shown.decode()


@pytest.fixture
def piped() -> Iterator[Piped]:
    """Return what has a pipe at descriptor 1, which is gone at the end."""
    found = Piped()
    yield found
    found.end()


# --------------------------------------------------------------------- what the person sees


@pytest.mark.parametrize("where", ["pipe", "terminal", "file", "appended"])
def test_what_is_shown_is_the_same_byte_for_byte(trained, where):
    """Python, C, subprocesses, tqdm and Rich: through a pipe, a terminal and a file."""
    plain = trained(PRINTING, "", where, "plain").end()
    assert b"subprocess" in plain
    captured = trained(PRINTING, "1 2", where, "captured")
    assert captured.end() == plain
    shown = plain.replace(b"\r\n", b"\n") if where == "terminal" else plain
    shown = shown.removeprefix(b"before\n").replace(b"\xff", "�".encode())
    assert captured.recorded(0) == shown
    assert captured.recorded(1) == b"", "one helper for both, so that their order is kept"


def test_a_terminal_stays_one(trained):
    """isatty, the attributes that matter and the size are those of the terminal."""
    training = trained(
        """
        import termios
        print(os.isatty(1), os.isatty(2), os.get_terminal_size(1), flush=True)
        one, other = termios.tcgetattr(1), termios.tcgetattr(sources[0].channel.original)
        print("alike", one[:1] + one[2:] == other[:1] + other[2:], flush=True)
        """,
        where="terminal",
    )
    shown = training.end()
    assert b"True True os.terminal_size(columns=97, lines=31)" in shown
    assert b"alike True" in shown


def test_lines_of_two_processes_stay_whole(trained):
    """A line that is written at once is shown at once, whoever else writes to the same pipe."""
    training = trained(
        """
        line = b"captured " + b"x" * 90 + b"\\n"
        other = sources[0].channel.original
        import subprocess
        child = subprocess.Popen(
            [sys.executable, "-c", "import os, sys\\nfor _ in range(3000):"
             " os.write(int(sys.argv[1]), b'beside ' + b'y' * 90 + b'\\\\n')", str(other)],
            pass_fds=[other],
        )
        while child.poll() is None:
            os.write(1, line * 12)
        """,
        "1",
    )
    lines = training.end().splitlines()
    whole = {b"captured " + b"x" * 90, b"beside " + b"y" * 90}
    torn = [line for line in lines if line not in whole]
    assert lines.count(b"beside " + b"y" * 90) > 2000
    assert len(torn) < len(lines) / 300, "only where 64 KiB end"


def test_order_at_the_end(trained):
    """What was printed before the capture ends is shown before what is printed after it."""
    training = trained(
        """
        for round in range(20):
            for line in range(500):
                os.write(1, b"%d %d captured\\n" % (round, line))
            sources[0].stop()
            os.write(1, b"%d after\\n" % round)
            sources[0].start()
        """,
        "1",
    )
    lines = [
        b"%d %d captured\n" % (r, line) if line < 500 else b"%d after\n" % r
        for r in range(20)
        for line in range(501)
    ]
    assert training.end() == b"".join(lines)


def test_one_stream_alone(trained):
    training = trained("os.write(1, b'out\\n'); os.write(2, b'err\\n')", "2")
    assert sorted(training.end().splitlines()) == [b"err", b"out"]
    assert training.recorded() == b"err\n"


def test_two_files_have_two_helpers(tmp_path, trained):
    """Standard error that goes elsewhere is recorded by itself."""
    training = trained(
        """
        for source in reversed(sources): source.stop()
        os.dup2(os.open("elsewhere", os.O_CREAT | os.O_WRONLY), 2)
        for source in sources: source.start()
        os.write(1, b'out\\n'); os.write(2, b'err\\n')
        assert len({os.fstat(fd).st_ino for fd in (1, 2)}) == 2
        """
    )
    assert training.end() == b"out\n"
    assert (training.recorded(0), training.recorded(1)) == (b"out\n", b"err\n")
    assert (tmp_path / "a" / "elsewhere").read_bytes() == b"err\n"


# --------------------------------------------------------------------- a file


@pytest.mark.parametrize("where", ["file", "appended"])
def test_a_file_is_written_by_the_training_itself(trained, where):
    """Nothing lies in between: what seeks still can, and what is written is there at once."""
    training = trained(
        """
        import io, subprocess, sys
        print("one", flush=True)
        sys.stdout.reconfigure(encoding="latin-1")
        print("two", os.fstat(1).st_ino == os.stat("log").st_ino, flush=True)
        sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="utf-8")
        print("three", sys.stdout.tell() > 0, flush=True)
        subprocess.run(["sh", "-c", "echo sub; echo err >&2"])
        assert Path("log").read_bytes().endswith(b"err\\n")
        """,
        where=where,
    )
    expected = b"one\ntwo True\nthree True\nsub\nerr\n"
    assert training.process.wait(LIMIT_S) == 0
    assert not training.helpers()
    assert training.end() == (b"before\n" if where == "appended" else b"") + expected
    assert training.recorded(0) == expected
    assert training.recorded(1) == b"", "one open file, recorded once"


@contextlib.contextmanager
def leading_to(path: Path, flags: int) -> Iterator[None]:
    """Have fd 1 lead to a file."""
    saved, file = os.dup(1), os.open(path, os.O_CREAT | os.O_WRONLY | flags)
    os.dup2(file, 1)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@pytest.mark.parametrize("flags", [os.O_APPEND, 0])
def test_a_file_that_is_truncated(tmp_path, flags):
    """What was written before is recorded once, what comes later too; no hole is recorded."""
    (tmp_path / "log").write_bytes(b"" if flags else b"old text, behind the position\n")
    source = DescriptorSource(1, tmp_path)
    before = held()
    with leading_to(tmp_path / "log", flags):
        os.write(1, b"before\n")
        source.start()
        assert source.take() == ""
        os.write(1, b"one\n")
        assert source.take() == "one\n"
        os.truncate(tmp_path / "log", 0)  # as logrotate does it
        assert source.take() == ""
        os.write(1, b"two\n")
        assert source.take() == "two\n"
        os.write(1, b"three\n")
        assert source.stop() == "three\n"
    nothing_stays(before)
    assert (tmp_path / "log").read_bytes().lstrip(b"\0") == b"two\nthree\n"


def test_a_file_that_grows_too_fast(tmp_path):
    """At most some MiB at once; what is left out is counted."""
    source = DescriptorSource(1, tmp_path)
    with leading_to(tmp_path / "log", os.O_APPEND):
        source.start()
        os.truncate(tmp_path / "log", 100 << 20)
        found = source.take()
        assert len(found) == 8 << 20
        assert source.lost == 92 << 20
        os.write(1, b"end\n")
        assert source.stop() == "end\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_cannot_be_read(tmp_path):
    before = held()
    with leading_to(tmp_path / "log", os.O_APPEND):
        (tmp_path / "log").chmod(0o200)
        with pytest.raises(NotCapturableError, match="cannot be captured at the descriptor"):
            DescriptorSource(1, tmp_path).start()
        os.write(1, b"line")
    nothing_stays(before)


# --------------------------------------------------------------------- who prints


def test_children_are_recorded_by_their_parent(trained):
    """Fork, spawn and exec: what they print is recorded once, and nothing of ours runs there."""
    training = trained(
        """
        import multiprocessing, warnings

        # A fork beside another thread is warned of by Python 3.12 and later.
        warnings.simplefilter("ignore", DeprecationWarning)

        def work(how):
            print(how, [source.take() for source in sources], flush=True)
            [source.stop() for source in sources]
            os.write(1, b"still\\n")

        if __name__ == "__main__":
            for how in ("fork", "spawn", "forkserver"):
                child = multiprocessing.get_context(how).Process(target=print, args=(how,))
                child.start(); child.join()
            if (pid := os.fork()) == 0:
                at_rest.set()
                work("forked")
                os.execlp("echo", "echo", "executed")
            os.waitpid(pid, 0)
        """
    )
    shown = training.end()
    assert shown == b"fork\nspawn\nforkserver\nforked ['', '']\nstill\nexecuted\n"
    assert training.recorded() == shown


def test_a_child_that_goes_on_is_shown(trained):
    """The end of the training waits for none of its children; what they print later is shown."""
    training = trained(
        """
        subprocess = __import__("subprocess")
        subprocess.Popen(["sh", "-c", "while ! test -e later; do sleep 0.01; done; echo late"])
        print("early", flush=True)
        """
    )
    training.process.wait(LIMIT_S)
    training.say("later")
    assert training.end() == b"early\nlate\n"
    assert training.recorded() == b"early\n"


@pytest.mark.parametrize(
    ("how", "where"), [("kill", "pipe"), ("segfault", "terminal"), ("exit", "pipe")]
)
def test_what_a_killed_training_printed_is_shown(trained, how, where):
    """The helper outlives the training until everything is shown."""
    training = trained(
        f"""
        import ctypes, faulthandler, signal
        faulthandler.enable()
        for line in range(3000):
            os.write(1, b"%d\\n" % line)
        if {how!r} == "kill": os.kill(os.getpid(), signal.SIGKILL)
        if {how!r} == "segfault": ctypes.string_at(0)
        os._exit(3)
        """,
        where=where,
    )
    shown = training.end().replace(b"\r\n", b"\n")
    lines = b"".join(b"%d\n" % line for line in range(3000))
    assert shown.startswith(lines)
    assert (b"Segmentation fault" in shown[len(lines) :]) == (how == "segfault")


def test_signals_for_the_training_spare_the_helper(trained):
    """A scheduler signals every process of a job before it kills."""
    training = trained("print('begin', flush=True); wait_for('go'); print('end', flush=True)")
    training.wait_for(b"begin")
    helpers = training.helpers()
    assert len(helpers) == 2
    for helper in helpers:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            helper.send_signal(number)
        assert os.getpgid(helper.pid) != os.getpgid(training.process.pid)
    training.say("go")
    assert training.end() == b"begin\nend\n"
    assert training.recorded() == b"begin\nend\n"


# --------------------------------------------------------------------- a helper that is killed

NUMBERED = """
number = 0
while number < 60_000 or not os.path.exists("enough"):
    line = b"%07d %s\\n" % (number, b"x" * (number * 7 % 90))
    number += 1
    while line:
        line = line[os.write(1, line):]
    if number > 60_000:
        time.sleep(0.001)  # it goes on for as long as the test takes
Path("written").write_text(str(number))
"""


@pytest.mark.once
@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_a_killed_helper_is_replaced_and_nothing_is_lost(trained, where):
    """It may be killed again and again in the middle of output: every byte is shown once, in
    order, and recorded.
    """
    training = trained(NUMBERED, "1", where)
    kills = 0
    killed: set[int] = set()
    while training.process.poll() is None:
        helpers = training.helpers()
        for helper in helpers:
            with contextlib.suppress(psutil.Error):  # it went meanwhile
                copies = helper.ppid() in {each.pid for each in helpers}
                if helper.pid not in killed and copies:
                    killed.add(helper.pid)
                    helper.kill()
                    kills += 1
        if kills == 4:
            training.say("enough")
    assert kills >= 4
    shown = training.end().replace(b"\r\n", b"\n").removeprefix(b"before\n")
    written = int((training.folder / "written").read_text())
    lines = b"".join(b"%07d %s\n" % (number, b"x" * (number * 7 % 90)) for number in range(written))
    assert shown == lines
    assert training.recorded() == lines


def test_a_killed_helper_is_replaced_while_the_gil_is_held(trained):
    """C code that fills the pipe does not wait for ever for what nobody in its process can do."""
    training = trained(
        """
        import ctypes
        write = ctypes.PyDLL(None).write
        print("begin", flush=True)
        wait_for("killed")
        lines = b"x" * 199_999 + b"\\n"
        assert write(1, lines, len(lines)) == len(lines)
        """,
        "1",
    )
    training.wait_for(b"begin")
    helpers = training.helpers()
    pids = {helper.pid for helper in helpers}
    copiers = [helper for helper in helpers if helper.ppid() in pids]
    assert len(copiers) == 1
    copiers[0].suspend()
    training.say("killed")
    time.sleep(0.5)
    copiers[0].kill()
    assert training.end() == b"begin\n" + b"x" * 199_999 + b"\n"
    assert training.recorded() == b"begin\n" + b"x" * 199_999 + b"\n"


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_without_any_helper_the_original_is_put_back(trained, where):
    """What is in the pipe is shown; children that still write get no SIGPIPE, and are shown."""
    training = trained(
        """
        import subprocess
        child = subprocess.Popen(["sh", "-c", "while ! test -e go; do :; done; echo child"])
        print("begin", flush=True)
        Path("alone").touch()
        wait_for("killed")
        os.write(1, b"in the pipe\\n" * 100)
        while not sources[0].broken: pass
        os.write(1, b"restored\\n")
        open("go", "w").close()
        assert child.wait() == 0
        open("why", "w").write(sources[0].broken)
        """,
        where=where,
    )
    training.wait_for(b"begin")
    wait_until((training.folder / "alone").exists)
    helpers = training.helpers()
    for helper in helpers:
        helper.suspend()
    for helper in helpers:
        helper.kill()
    training.say("killed")
    shown = training.end().replace(b"\r\n", b"\n")
    assert shown == b"begin\n" + b"in the pipe\n" * 100 + b"restored\nchild\n"
    assert "was killed" in (training.folder / "why").read_text()
    assert training.process.returncode == 0


def test_a_child_that_prints_without_end_does_not_hold_up_the_end(tmp_path, piped):
    piped.begin()
    source = DescriptorSource(1, tmp_path)
    source.start()
    with subprocess.Popen(["yes"]) as child:
        os.write(1, b"here")
        before = time.monotonic()
        text = source.stop(LIMIT_S)
        child.kill()
    assert "here" in text
    assert time.monotonic() - before < LIMIT_S / 2


def test_stopped_helpers_are_continued(trained):
    """Whoever prints does not wait for ever; in order, all is shown."""
    training = trained(
        """
        print("begin", flush=True)
        wait_for("stopped")
        for number in range(30_000):
            os.write(1, b"%d\\n" % number)
        """,
        "1",
    )
    training.wait_for(b"begin")
    for helper in training.helpers():
        helper.suspend()
    training.say("stopped")
    assert training.process.wait(LIMIT_S) == 0
    assert training.end() == b"begin\n" + b"".join(b"%d\n" % number for number in range(30_000))


def test_a_file_that_cannot_be_read_any_more(tmp_path):
    """As on a file server that is gone: the source says so, and ends as ever."""
    with (tmp_path / "log").open("wb") as file:
        source = DescriptorSource(file.fileno(), tmp_path)
        source.start()
        os.write(file.fileno(), b"line")
        os.dup2(file.fileno(), source.channel.reading)  # opened for writing only
        assert source.take() == ""
        assert "cannot be read" in source.broken
        assert source.stop() == ""
        source.start()
        os.write(file.fileno(), b"again")
        assert source.stop() == "again"


# --------------------------------------------------------------------- a kernel that can less

WITH_LESS = """
import ctypes
from seamark.capture.output import _copier, descriptor

# Not every kernel, sandbox, file system and destination has these.
missing = "def no(*given, **named): raise OSError(22, 'no')\\nos.splice = os.sendfile = no\\n"
program = Path(_copier.__file__).read_text().replace("import sys\\n", "import sys\\n" + missing, 1)
Path("less.py").write_text(program)
_copier.__file__ = os.path.abspath("less.py")
if IN_A_FILE:
    del os.memfd_create
source = DescriptorSource(1, Path("run"))
source.start()
for number in range(3000):
    os.write(1, b"%05d %s\\n" % (number, b"x" * (number % 90)))
if SHOWN_HERE:
    os.splice = os.sendfile = lambda *given, **named: os.read(-1, 1)
    source.settle(time.monotonic() + 30)
    sys.executable = "/nowhere/python"
    os.killpg(source.channel._group, 9)
    while not source.broken:
        source.take()
for number in range(3000, 6000):
    os.write(1, b"%05d %s\\n" % (number, b"x" * (number % 90)))
source.stop(30)
"""
NUMBERS = b"".join(b"%05d %s\n" % (number, b"x" * (number % 90)) for number in range(6000))


@pytest.mark.parametrize(
    ("where", "in_a_file", "shown_here"),
    [
        ("pipe", False, False),
        ("terminal", True, False),
        ("pipe", True, True),
        ("terminal", False, True),
    ],
)
def test_bytes_are_read_and_written_where_the_kernel_cannot_move_them(
    trained, where, in_a_file, shown_here
):
    """No byte is lost without splice, sendfile and files in memory."""
    given = f"IN_A_FILE, SHOWN_HERE = {in_a_file}, {shown_here}\n"
    training = trained(given + WITH_LESS, "", where)
    assert training.end().replace(b"\r\n", b"\n") == NUMBERS
    assert training.process.returncode == 0


def test_a_record_that_is_full(trained):
    training = trained(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        source = DescriptorSource(1, Path("run"))
        source.start()
        for number in range(30_000):
            os.write(1, b"%d\\n" % number)
        source.stop(30)
        """,
        "",
    )
    assert training.end() == b"".join(b"%d\n" % number for number in range(30_000))


def test_the_record_takes_a_bounded_part_of_memory(tmp_path, piped):
    """What is older than the last 16 MiB is given back."""
    piped.begin()
    source = DescriptorSource(1, tmp_path)
    source.start()
    for _ in range(800):
        os.write(1, b"0123456789abcde\n" * 4096)
    source.settle(time.monotonic() + LIMIT_S)
    held = os.fstat(source.channel.reading)
    source.stop()
    assert held.st_size == 800 << 16
    assert held.st_blocks * 512 <= 18 << 20


# --------------------------------------------------------------------- where it goes


def test_a_reader_that_goes_away(trained):
    """The training and its subprocesses learn of it as they would have."""
    training = trained(
        """
        import signal, subprocess
        child = subprocess.Popen(["yes"], preexec_fn=lambda: signal.signal(13, signal.SIG_DFL))
        try:
            while True:
                os.write(1, b"line\\n")
        except BrokenPipeError:
            Path("told").write_text(str(child.wait()))
        """,
        "1",
        "file",
    )
    training.process.kill()  # only the script is of use here
    script = training.folder / "script.py"
    environment = {**os.environ, "CAPTURE": "1", "TRAINING": "head"}
    subprocess.run(
        f"{sys.executable} {script} | head -c 100000 > seen",
        shell=True,
        cwd=training.folder,
        env=environment,
        timeout=LIMIT_S,
        check=True,
    )
    wait_until((training.folder / "told").exists)
    assert (training.folder / "told").read_text() == str(-signal.SIGPIPE)
    assert (training.folder / "seen").stat().st_size == 100000


def test_a_device_is_left_alone(trained):
    """Who can seek must be able to for ever; and the errors of a device are those it gives."""
    training = trained(
        """
        import errno
        from seamark.capture.output.descriptor import NotCapturableError
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        try:
            DescriptorSource(1, Path("run")).start()
        except NotCapturableError as error:
            Path("told").write_text(str(error))
        try:
            os.write(1, b"line\\n")
        except OSError as error:
            Path("code").write_text(errno.errorcode[error.errno])
        """,
        "",
    )
    training.end()
    assert "a device that is no terminal" in (training.folder / "told").read_text()
    assert (training.folder / "code").read_text() == "ENOSPC"


@pytest.mark.parametrize("fd", [1, 2])
def test_a_descriptor_that_is_closed(trained, fd):
    training = trained(
        f"""
        from seamark.capture.output.descriptor import NotCapturableError
        os.close({fd})
        try:
            DescriptorSource({fd}, Path("run")).start()
        except NotCapturableError as error:
            Path("told").write_text(str(error))
        try:
            os.fstat({fd})
        except OSError:
            Path("closed").touch()
        """,
        "",
    )
    training.end()
    assert f"fd {fd} cannot be captured at the descriptor" in (training.folder / "told").read_text()
    assert (training.folder / "closed").exists()


@pytest.mark.parametrize("python", ["", "/nowhere/python", "/bin/false", "hanging"])
def test_a_helper_that_does_not_start(monkeypatch, tmp_path, piped, python):
    """Nothing has changed then, and an error says so."""
    piped.begin()
    if python == "hanging":
        python = str(tmp_path / "hanging")
        Path(python).write_text("#!/bin/sh\nexec sleep 1000\n")
        Path(python).chmod(0o755)
        monkeypatch.setattr(descriptor, "_START_S", 0.2)
    monkeypatch.setattr(sys, "executable", python)
    before = held()
    file = os.fstat(1)
    with pytest.raises(NotCapturableError, match="cannot be captured at the descriptor"):
        DescriptorSource(1, tmp_path).start()
    nothing_stays(before)
    assert os.path.samestat(os.fstat(1), file)
    if Path(python).is_file():  # not once more: it may take as long each time
        monkeypatch.setattr(descriptor.subprocess, "Popen", None)
        with pytest.raises(NotCapturableError, match="did not start"):
            DescriptorSource(1, tmp_path).start()
    os.write(1, b"as before")
    assert piped.end() == "as before"


def test_a_slow_reader_is_waited_for(trained):
    """A reader that takes nothing holds up the training as it would have; the end is not held up
    for longer than it may be.
    """
    reading, writing = os.pipe()
    training = trained("", "", "file", "unused")
    training.process.wait(LIMIT_S)
    script = training.folder / "script.py"
    script.write_text(
        CAPTURED
        + textwrap.dedent(
            """
            os.write(1, b"x" * 100_000)
            assert sources[0].stop(0.1) is not None
            Path("stopped").touch()
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=training.folder,
        env={**os.environ, "CAPTURE": "1"},
        stdout=writing,
    )
    os.close(writing)
    assert process.wait(LIMIT_S) == 0
    assert (training.folder / "stopped").exists()
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"x" * 100_000


# --------------------------------------------------------------------- runs beside each other


@pytest.mark.parametrize("first", [0, 1])
def test_two_runs_capture_the_same_output(tmp_path, piped, first):
    """Each records what was written while it lasted, whichever ends first; all is put back."""
    piped.begin()
    before, file = held(), os.fstat(1)
    sources = [DescriptorSource(1, tmp_path / name) for name in "ab"]
    texts = ["", ""]
    sources[0].start()
    os.write(1, b"1")
    sources[1].start()
    os.write(1, b"2")
    texts[first] = sources[first].stop()
    os.write(1, b"3")
    texts[1 - first] = sources[1 - first].stop()
    os.write(1, b"4")
    assert texts == (["12", "23"] if first == 0 else ["123", "2"])
    assert os.path.samestat(os.fstat(1), file)
    nothing_stays(before)
    assert piped.end() == "1234"


def test_what_somebody_else_put_there_stays(tmp_path, piped):
    """A redirection that began under the capture and outlives it is not undone."""
    piped.begin()
    original = os.dup(1)
    before = held()
    source = DescriptorSource(1, tmp_path)
    source.start()
    saved = os.dup(1)
    with (tmp_path / "redirected").open("wb") as file:
        os.dup2(file.fileno(), 1)
    assert source.stop() == ""
    os.write(1, b"there")
    os.dup2(saved, 1)
    os.close(saved)
    os.write(1, b"here")
    wait_until(lambda: b"here" in piped.shown)
    os.dup2(original, 1)
    assert (tmp_path / "redirected").read_bytes() == b"there"
    nothing_stays(before)
    os.close(original)


# --------------------------------------------------------------------- how much


def test_what_nobody_takes_is_bounded_and_counted(tmp_path, piped):
    """What is not taken in time is shown and counted, and the gap lies where `take` ended."""
    piped.begin()
    source = DescriptorSource(1, tmp_path)
    source.start()
    line = b"0123456789abcde\n" * 4096
    for _ in range(300):
        os.write(1, line)
    os.write(1, "Ä"[:1].encode()[:1])
    source.settle(time.monotonic() + LIMIT_S)
    first = source.take()
    lost = source.lost
    os.write(1, "Ärger\n".encode()[1:])
    second = source.stop()
    assert first == ""
    assert lost == 300 * len(line) + 1
    assert source.lost == lost
    assert second == "�rger\n"
    assert len(piped.end()) > 300 * len(line)


def test_a_character_may_come_in_two_halves(tmp_path, piped):
    """Taking in the middle of a character waits for its end."""
    piped.begin()
    source = DescriptorSource(1, tmp_path)
    source.start()
    os.write(1, "Ä".encode()[:1])
    source.settle(time.monotonic() + LIMIT_S)
    assert source.take() == ""
    os.write(1, "Ä".encode()[1:])
    assert source.stop() == "Ä"
    assert piped.end() == "Ä"


def test_nothing_is_left_at_rest(tmp_path, piped):
    """No descriptor, no process, no thread and no file; and it may begin again."""
    piped.begin()
    before, file = held(), os.fstat(1)
    sources = [DescriptorSource(fd, tmp_path) for fd in (1, 2)]
    for _ in range(3):
        for source in sources:
            source.start()
        helpers = [p for p in psutil.process_iter() if is_helper(p)]
        assert helpers
        os.write(1, b"text\n")
        for source in sources:
            source.stop()
        wait_until(lambda pids=[p.pid for p in helpers]: all(map(has_ended, pids)))
    nothing_stays(before)
    assert os.path.samestat(os.fstat(1), file)
    assert list(tmp_path.iterdir()) == []
    assert piped.end() == "text\n" * 3


def is_helper(process: psutil.Process) -> bool:
    try:
        if not any(each.endswith("_copier.py") for each in process.cmdline()):
            return False
        return process.environ().get("PYTEST_CURRENT_TEST") == os.environ["PYTEST_CURRENT_TEST"]
    except psutil.Error:
        return False


def held() -> set[object]:
    """Return which descriptors are open and where they lead, the threads and the children."""
    found: set[object] = {*threading.enumerate(), *psutil.Process().children()}
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.add(f"{path.name} {path.readlink()}")
    return found


def nothing_stays(before: set[object]) -> None:
    """Wait until nothing is held that was not before; what other tests left may go meanwhile."""
    wait_until(lambda: held() <= before)


# --------------------------------------------------------------------- notebooks


@pytest.mark.once
def test_a_notebook_shows_and_records_what_is_written_to_the_descriptor(monkeypatch, tmp_path):
    """A kernel reads the descriptor itself; what it shows in a cell is shown there still."""
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # a kernel that finds it leaves descriptors alone
    cells = [
        (
            "import os, pathlib, seamark\n"
            "run = seamark.init_run('demo', capture_stdout='fd', root='runs')"
        ),
        (
            "print('Python', flush=True)\nos.write(1, b'raw\\n')\n"
            "journals = pathlib.Path('runs').glob\n"
            "while not any(b'raw' in each.read_bytes() for each in journals('*/*/journal/*')): pass"
        ),
        "run.stop()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    outputs = [each for each in notebook.cells[1].outputs if each.output_type == "stream"]
    assert "".join(each.text for each in outputs) == "Python\nraw\n"
    assert printed(Path("runs"))["stdout"] == "Python\nraw\n"
