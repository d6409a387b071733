"""Output at the descriptor: the person sees the same bytes, and all of them are recorded."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import signal
import socket
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
    import termios
    attributes = termios.tcgetattr(1)
    del attributes[1]
    print(os.get_terminal_size(1), attributes, file=sys.stderr, flush=True)
print("no end of line", end="")
"""


class Training:
    """A script in a process of its own, whose output goes where a person would send it."""

    def __init__(self, folder: Path, code: str, captured: str, where: str) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "script.py").write_text(CAPTURED + textwrap.dedent(code))
        self.shown = bytearray()
        self.outer = -1
        self._reader: threading.Thread | None = None
        environment = {**os.environ, "CAPTURE": captured, "TERM": "xterm", "TRAINING": str(folder)}
        environment.pop("NO_COLOR", None)
        if where == "terminal":
            self.outer, inner = pty.openpty()
            fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        elif where == "pipe":
            self.outer, inner = os.pipe()
        else:
            (folder / "log").write_bytes(b"before\n")
            flags = os.O_APPEND if where == "appended" else os.O_TRUNC
            inner = os.open(folder / "log", os.O_WRONLY | flags)
        self.process = subprocess.Popen(
            [sys.executable, "script.py"],
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
        with contextlib.suppress(OSError):  # that of a terminal nobody has the other end of
            while data := os.read(self.outer, 1 << 16):
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
        return helpers_with("TRAINING", str(self.folder))

    def copier(self) -> psutil.Process | None:
        """Return the helper that another one has started, which copies; nobody else does."""
        with contextlib.suppress(psutil.Error):  # one went meanwhile
            helpers = self.helpers()
            pids = {helper.pid for helper in helpers}
            return next((each for each in helpers if each.ppid() in pids), None)
        return None


def helpers_with(name: str, value: str) -> list[psutil.Process]:
    """Return the processes that copy and have this variable."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = any(each.endswith("_copier.py") for each in process.cmdline())
            if ours and process.environ().get(name) == value:
                found.append(process)
    return found


@contextlib.contextmanager
def redirected(target: int) -> Iterator[None]:
    """Have descriptor 1 of this process lead elsewhere.

    No fixture: pytest puts its own file there before each test.
    """
    saved = os.dup(1)
    os.dup2(target, 1)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@contextlib.contextmanager
def piped() -> Iterator[bytearray]:
    """Have descriptor 1 lead to a pipe; what arrives is all there at the end."""
    shown = bytearray()
    reading, writing = os.pipe()

    def read() -> None:
        with os.fdopen(reading, "rb", buffering=0) as file:
            while data := file.read(1 << 16):
                shown.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    with redirected(writing):
        yield shown
    thread.join(LIMIT_S)


def opened(path: Path, flags: int = os.O_APPEND) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | flags)


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


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_output_is_shown_byte_for_byte_and_recorded(trained, where):
    plain = trained(PRINTING, "", where, "plain").end()
    assert b"subprocess" in plain
    captured = trained(PRINTING, "1 2", where, "captured")
    assert captured.end() == plain
    shown = plain.replace(b"\r\n", b"\n") if where == "terminal" else plain
    assert captured.recorded(0) == shown.replace(b"\xff", "�".encode())
    assert captured.recorded(1) == b"", "one helper for both, so that their order is kept"


def test_lines_of_two_processes_stay_whole(tmp_path):
    lines_of_child = """
        import os, sys
        for _ in range(3000):
            os.write(int(sys.argv[1]), b"beside " + b"y" * 90 + b"\\n")
    """
    with piped() as shown:
        source = DescriptorSource(1, tmp_path)
        source.start()
        other = source.channel.original
        command = [sys.executable, "-c", textwrap.dedent(lines_of_child), str(other)]
        with subprocess.Popen(command, pass_fds=[other]) as child:
            while child.poll() is None:
                os.write(1, (b"captured " + b"x" * 90 + b"\n") * 12)
        source.stop(LIMIT_S)
    lines = shown.splitlines()
    whole = {b"captured " + b"x" * 90, b"beside " + b"y" * 90}
    torn = [line for line in lines if bytes(line) not in whole]
    assert lines.count(b"beside " + b"y" * 90) > 2000
    assert len(torn) < len(lines) / 300, "only where 64 KiB end"


def test_output_before_the_end_of_a_capture_is_shown_before_output_after_it(tmp_path):
    source = DescriptorSource(1, tmp_path)
    expected = b""
    with piped() as shown:
        for number in range(20):
            source.start()
            lines = [b"%d %d captured\n" % (number, line) for line in range(500)]
            for line in lines:
                os.write(1, line)
            source.stop()
            os.write(1, b"%d after\n" % number)
            expected += b"".join(lines) + b"%d after\n" % number
    assert shown == expected


def test_one_stream_alone_is_recorded(trained):
    training = trained("os.write(1, b'out\\n'); os.write(2, b'err\\n')", "2")
    assert sorted(training.end().splitlines()) == [b"err", b"out"]
    assert training.recorded() == b"err\n"


def test_standard_error_that_goes_elsewhere_is_recorded_by_itself(tmp_path, trained):
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


@pytest.mark.parametrize("where", ["file", "appended"])
def test_file_is_written_by_the_training_itself(trained, where):
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


@pytest.mark.parametrize("flags", [os.O_APPEND, 0])
def test_truncated_file_is_recorded_once_and_without_holes(tmp_path, flags):
    (tmp_path / "log").write_bytes(b"" if flags else b"old text, behind the position\n")
    source = DescriptorSource(1, tmp_path)
    before = held()
    with redirected(opened(tmp_path / "log", flags)):
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
        assert (tmp_path / "log").read_bytes().lstrip(b"\0") == b"two\nthree\n"
    nothing_stays(before)


def test_file_that_grows_too_fast_is_recorded_in_part_and_counted(tmp_path):
    source = DescriptorSource(1, tmp_path)
    with redirected(opened(tmp_path / "log")):
        source.start()
        os.truncate(tmp_path / "log", 100 << 20)
        assert len(source.take()) == 8 << 20
        assert source.lost == 92 << 20
        os.write(1, b"end\n")
        assert source.stop() == "end\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_file_that_cannot_be_read_is_refused(tmp_path):
    before = held()
    with redirected(opened(tmp_path / "log")):
        (tmp_path / "log").chmod(0o200)
        with pytest.raises(NotCapturableError, match="cannot be captured at the descriptor"):
            DescriptorSource(1, tmp_path).start()
        os.write(1, b"line")
    nothing_stays(before)


def test_output_of_children_is_recorded_once_and_the_end_waits_for_none(trained):
    training = trained(
        """
        import multiprocessing, subprocess, warnings

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
            subprocess.Popen(["sh", "-c", "while ! test -e later; do sleep 0.01; done; echo late"])
        """
    )
    training.process.wait(LIMIT_S)
    training.say("later")
    recorded = b"fork\nspawn\nforkserver\nforked ['', '']\nstill\nexecuted\n"
    assert training.end() == recorded + b"late\n"
    assert training.recorded() == recorded


@pytest.mark.parametrize(("how", "where"), [("kill", "pipe"), ("segfault", "terminal")])
def test_everything_a_killed_training_printed_is_shown(trained, how, where):
    training = trained(
        f"""
        import ctypes, faulthandler, signal
        faulthandler.enable()
        for line in range(3000):
            os.write(1, b"%d\\n" % line)
        if {how!r} == "kill": os.kill(os.getpid(), signal.SIGKILL)
        ctypes.string_at(0)
        """,
        where=where,
    )
    shown = training.end().replace(b"\r\n", b"\n")
    lines = b"".join(b"%d\n" % line for line in range(3000))
    assert shown.startswith(lines)
    assert (b"Segmentation fault" in shown[len(lines) :]) == (how == "segfault")


def test_signals_to_a_whole_job_spare_the_helpers_and_stopped_ones_are_continued(trained):
    training = trained(
        """
        print("begin", flush=True)
        wait_for("go")
        for number in range(30_000):
            os.write(1, b"%d\\n" % number)
        """
    )
    training.wait_for(b"begin")
    helpers = training.helpers()
    assert len(helpers) == 2
    for helper in helpers:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            helper.send_signal(number)
        assert os.getpgid(helper.pid) != os.getpgid(training.process.pid)
        helper.suspend()
    training.say("go")
    assert training.process.wait(LIMIT_S) == 0
    shown = b"begin\n" + b"".join(b"%d\n" % number for number in range(30_000))
    assert training.end() == shown
    assert training.recorded() == shown


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
def test_killed_helper_is_replaced_and_every_byte_is_shown_once_and_recorded(trained, where):
    training = trained(NUMBERED, "1", where)
    killed: set[int] = set()
    while training.process.poll() is None:
        if (helper := training.copier()) and helper.pid not in killed:
            killed.add(helper.pid)
            with contextlib.suppress(psutil.Error):
                helper.kill()
        if len(killed) == 4:
            training.say("enough")
    assert len(killed) >= 4
    shown = training.end().replace(b"\r\n", b"\n")
    written = int((training.folder / "written").read_text())
    lines = b"".join(b"%07d %s\n" % (number, b"x" * (number * 7 % 90)) for number in range(written))
    assert shown == lines
    assert training.recorded() == lines


def test_killed_helper_is_replaced_while_the_gil_is_held(trained):
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
    copier = training.copier()
    copier.suspend()
    training.say("killed")
    time.sleep(0.5)
    copier.kill()
    assert training.end() == b"begin\n" + b"x" * 199_999 + b"\n"
    assert training.recorded() == b"begin\n" + b"x" * 199_999 + b"\n"


def test_original_is_put_back_when_no_helper_can_be_started_again(tmp_path, monkeypatch):
    with piped() as shown:
        before, file = held(), os.fstat(1)
        source = DescriptorSource(1, tmp_path)
        source.start()
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        os.killpg(source.channel._group, signal.SIGKILL)
        while not source.broken:
            source.take()
        assert "was killed" in source.broken
        assert os.path.samestat(os.fstat(1), file)
        os.write(1, b"restored\n")
        source.stop()
        nothing_stays(before)
    assert shown == b"restored\n"


def test_helpers_are_not_started_again_and_again_for_a_destination_that_fails(tmp_path):
    before = os.dup(1)
    here, there = socket.socketpair()
    try:
        os.dup2(here.fileno(), 1)
        there.shutdown(socket.SHUT_RD)  # each write fails, which no poll shows
        source = DescriptorSource(1, tmp_path)
        source.start()
        os.write(1, b"lost\n")
        groups = set()
        while not source.broken:
            groups.add(source.channel._group)
            source.take()
        assert len(groups) <= 2
        source.stop()
    finally:
        os.dup2(before, 1)
        os.close(before)
        here.close()
        there.close()


def test_child_that_prints_without_end_does_not_hold_up_the_end(tmp_path):
    with piped():
        source = DescriptorSource(1, tmp_path)
        source.start()
        with subprocess.Popen(["yes"]) as child:
            os.write(1, b"here")
            before = time.monotonic()
            text = source.stop(LIMIT_S)
            child.kill()
    assert "here" in text
    assert time.monotonic() - before < LIMIT_S / 2


def test_file_that_cannot_be_read_any_more_is_reported(tmp_path):
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


WITH_LESS = """
import ctypes, resource
from seamark.capture.output import _copier, descriptor

# Not every kernel, sandbox, file system and destination has these.
missing = "def no(*given, **named): raise OSError(22, 'no')\\nos.splice = os.sendfile = no\\n"
program = Path(_copier.__file__).read_text().replace("import sys\\n", "import sys\\n" + missing, 1)
Path("less.py").write_text(program)
_copier.__file__ = os.path.abspath("less.py")
if IN_A_FILE:
    del os.memfd_create
if FULL:
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
source = DescriptorSource(1, Path("run"))
source.start()
for number in range(3000):
    os.write(1, b"%05d %s\\n" % (number, b"x" * (number % 90)))
recorded = ""
if KILLED:
    source.settle(time.monotonic() + 30)
    group = source.channel._group
    os.killpg(group, 9)
    while source.channel._group == group:
        recorded += source.take()
for number in range(3000, 6000):
    os.write(1, b"%05d %s\\n" % (number, b"x" * (number % 90)))
recorded += source.stop(30)
if not FULL:
    Path("recorded0").write_text(recorded)
"""
NUMBERS = b"".join(b"%05d %s\n" % (number, b"x" * (number % 90)) for number in range(6000))


@pytest.mark.parametrize(
    ("where", "in_a_file", "full", "killed"),
    [
        ("pipe", False, True, False),
        ("terminal", True, False, False),
        ("pipe", True, False, True),
        ("terminal", False, False, True),
    ],
)
def test_no_byte_is_lost_without_splice_sendfile_files_in_memory_and_room(
    trained, where, in_a_file, full, killed
):
    given = f"IN_A_FILE, FULL, KILLED = {in_a_file}, {full}, {killed}\n"
    training = trained(given + WITH_LESS, "", where)
    assert training.end().replace(b"\r\n", b"\n") == NUMBERS
    assert full or training.recorded() == NUMBERS
    assert training.process.returncode == 0


def test_record_keeps_only_the_last_16_mib_in_memory(tmp_path):
    with piped():
        source = DescriptorSource(1, tmp_path)
        source.start()
        for _ in range(800):
            os.write(1, b"0123456789abcde\n" * 4096)
        source.settle(time.monotonic() + LIMIT_S)
        held = os.fstat(source.channel.reading)
        source.stop()
    assert held.st_size == 800 << 16
    assert held.st_blocks * 512 <= 18 << 20


def test_reader_that_goes_away_is_told_as_without_capture(tmp_path):
    reading, writing = os.pipe()
    with redirected(writing):
        source = DescriptorSource(1, tmp_path)
        source.start()
        with subprocess.Popen(["yes"]) as child:
            os.close(reading)
            while not source.broken:
                source.take()
            assert child.wait(LIMIT_S) == -signal.SIGPIPE
        with pytest.raises(BrokenPipeError):
            os.write(1, b"line")
        source.stop()


@pytest.mark.parametrize(
    ("closed", "message", "code"),
    [
        (False, "a device that is not a terminal", errno.ENOSPC),
        (True, "fd 1 cannot be captured at the descriptor", errno.EBADF),
    ],
)
def test_device_or_closed_descriptor_is_refused_and_left_alone(tmp_path, closed, message, code):
    with redirected(os.open("/dev/full", os.O_WRONLY)):
        if closed:
            os.close(1)
        with pytest.raises(NotCapturableError, match=message):
            DescriptorSource(1, tmp_path).start()
        with pytest.raises(OSError, match=rf"\[Errno {code}\]"):
            os.write(1, b"line\n")


@pytest.mark.parametrize("python", ["", "/nowhere/python", "/bin/false", "hanging"])
def test_helper_that_does_not_start_changes_nothing_and_raises(monkeypatch, tmp_path, python):
    if python == "hanging":
        python = str(tmp_path / "hanging")
        Path(python).write_text("#!/bin/sh\nexec sleep 1000\n")
        Path(python).chmod(0o755)
        monkeypatch.setattr(descriptor, "_START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(sys, "executable", python)
    with piped() as shown:
        before, file = held(), os.fstat(1)
        with pytest.raises(NotCapturableError, match="cannot be captured at the descriptor"):
            DescriptorSource(1, tmp_path).start()
        nothing_stays(before)
        assert os.path.samestat(os.fstat(1), file)
        if Path(python).is_file():  # not once more: it may take as long each time
            monkeypatch.setattr(descriptor.subprocess, "Popen", None)
            with pytest.raises(NotCapturableError, match="no process"):
                DescriptorSource(1, tmp_path).start()
        os.write(1, b"as before")
    assert shown == b"as before"


def test_slow_reader_is_waited_for_but_not_at_the_end(tmp_path):
    reading, writing = os.pipe()
    with redirected(writing):
        source = DescriptorSource(1, tmp_path)
        source.start()
        os.write(1, b"x" * 100_000)
        assert source.stop(0.1) == "x" * 100_000
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"x" * 100_000


@pytest.mark.parametrize("first", [0, 1])
def test_two_runs_each_record_what_was_written_while_they_lasted(tmp_path, first):
    texts = ["", ""]
    with piped() as shown:
        before, file = held(), os.fstat(1)
        sources = [DescriptorSource(1, tmp_path / name) for name in "ab"]
        sources[0].start()
        os.write(1, b"1")
        sources[1].start()
        os.write(1, b"2")
        texts[first] = sources[first].stop()
        os.write(1, b"3")
        texts[1 - first] = sources[1 - first].stop()
        os.write(1, b"4")
        assert os.path.samestat(os.fstat(1), file)
        nothing_stays(before)
    assert texts == (["12", "23"] if first == 0 else ["123", "2"])
    assert shown == b"1234"


def test_redirection_that_outlives_the_capture_is_not_undone(tmp_path):
    with piped() as shown:
        original = os.dup(1)
        before = held()
        source = DescriptorSource(1, tmp_path)
        source.start()
        saved = os.dup(1)
        os.dup2(file := opened(tmp_path / "redirected"), 1)
        os.close(file)
        assert source.stop() == ""
        os.write(1, b"there")
        os.dup2(saved, 1)
        os.close(saved)
        os.write(1, b"here")
        wait_until(lambda: b"here" in shown)
        os.dup2(original, 1)
        nothing_stays(before)
        os.close(original)
    assert (tmp_path / "redirected").read_bytes() == b"there"


def test_text_that_is_not_taken_in_time_is_shown_and_counted(tmp_path):
    """A take in the middle of a character waits for its end; but a gap lies where it ended."""
    line = b"0123456789abcde\n" * 4096
    with piped() as shown:
        source = DescriptorSource(1, tmp_path)
        source.start()
        os.write(1, "Ä".encode()[:1])
        source.settle(time.monotonic() + LIMIT_S)
        assert source.take() == ""
        os.write(1, "Ä".encode()[1:])
        source.settle(time.monotonic() + LIMIT_S)
        assert source.take() == "Ä"
        for _ in range(300):
            os.write(1, line)
        os.write(1, "Ä".encode()[:1])
        source.settle(time.monotonic() + LIMIT_S)
        assert source.take() == ""
        assert source.lost == 300 * len(line) + 1
        os.write(1, "Ärger\n".encode()[1:])
        assert source.stop() == "�rger\n"
        assert source.lost == 300 * len(line) + 1
    assert len(shown) == 300 * len(line) + len("ÄÄrger\n".encode())


def test_stopped_capture_leaves_nothing_and_may_begin_again(tmp_path):
    variable = "PYTEST_CURRENT_TEST"
    with piped() as shown:
        before, file = held(), os.fstat(1)
        sources = [DescriptorSource(fd, tmp_path) for fd in (1, 2)]
        for _ in range(3):
            for source in sources:
                source.start()
            pids = [each.pid for each in helpers_with(variable, os.environ[variable])]
            assert pids
            os.write(1, b"text\n")
            for source in sources:
                source.stop()
            wait_until(lambda pids=pids: all(map(has_ended, pids)))
        nothing_stays(before)
        assert os.path.samestat(os.fstat(1), file)
    assert list(tmp_path.iterdir()) == []
    assert shown == b"text\n" * 3


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


@pytest.mark.once
def test_notebook_shows_and_records_what_is_written_to_the_descriptor(monkeypatch, tmp_path):
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # a kernel that finds it leaves descriptors alone
    cells = [
        "import os, seamark\nrun = seamark.init_run('demo', capture_stdout='fd', root='runs')",
        """import pathlib
print('Python', flush=True)
os.write(1, b'raw\\n')
journals = pathlib.Path('runs').glob
while not any(b'raw' in each.read_bytes() for each in journals('*/*/journal/*')):
    pass""",
        "run.stop()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    outputs = [each for each in notebook.cells[1].outputs if each.output_type == "stream"]
    assert "".join(each.text for each in outputs) == "Python\nraw\n"
    assert printed(Path("runs"))["stdout"] == "Python\nraw\n"
