"""Real scripts print the same bytes with and without capture, through pipes and on a terminal."""

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
from pathlib import Path

import pytest
from printed import points, printed

from seamark.pictures.terminal import stripped

pytestmark = pytest.mark.once


# What depends on the moment is told a clock that goes on by a step each time it is read.
TICKS = """
import itertools
ticks = itertools.count()
def clock():
    return next(ticks) * 0.05
"""
TQDM = """
import tqdm.std
tqdm.std.time = clock
tqdm.std.tqdm.monitor_interval = 0
"""
SCRIPTS = {
    "plain": """
import contextlib, io, logging, threading, warnings

logging.basicConfig(level="INFO", format="%(levelname)s %(message)s")
logging.info("epoch %d", 1)
logging.getLogger("x").error("two\\nlines")
warnings.warn("old", DeprecationWarning)
warnings.warn("hm")

for name in "abc":
    thread = threading.Thread(target=lambda: [print(name, n) for n in range(50)])
    thread.start()
    thread.join()

with contextlib.redirect_stdout(io.StringIO()) as kept:
    print("elsewhere")
with contextlib.redirect_stderr(sys.stdout):
    print("as output", file=sys.stderr)
print(kept.getvalue().upper(), end="")

print("a", end="")
print("b", "c", sep="\\t", flush=True)
sys.stdout.writelines(["d\\n", "é 👩‍🔬\\n"])
print(sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.name)
print("no end", end="")
""",
    "tqdm": TICKS
    + TQDM
    + """
from tqdm import tqdm, trange
for epoch in trange(3, desc="epochs"):
    for step in trange(20, desc=f"epoch {epoch}", leave=False):
        if step == 10:
            tqdm.write("half way")
for step in tqdm(range(30), file=sys.stdout, ncols=60):
    pass
""",
    "rich": TICKS
    + """
import rich.console, rich.progress
from rich import print as show
from rich.progress import Progress
console = rich.console.Console(get_time=clock)
show("[bold red]loss[/] 0.25", {"lr": 0.1, "name": "x"})
with Progress(console=console, get_time=clock, auto_refresh=False) as progress:
    tasks = [progress.add_task(name, total=20) for name in ("epoch", "step")]
    for step in range(20):
        for task in tasks:
            progress.update(task, advance=1)
        progress.refresh()
        if step == 7:
            print("in between")
""",
    "Lightning's bar": TICKS
    + TQDM
    + """
import warnings, torch
warnings.simplefilter("ignore")
import lightning
from lightning.pytorch.demos.boring_classes import BoringModel
class Model(BoringModel):
    def training_step(self, batch, index):
        found = super().training_step(batch, index)
        self.log("loss", 0.25 + index, prog_bar=True)
        return found
from lightning.pytorch.callbacks import TQDMProgressBar
lightning.Trainer(
    max_epochs=2, limit_train_batches=4, limit_val_batches=2, logger=False,
    enable_checkpointing=False, accelerator="cpu", callbacks=[TQDMProgressBar()],
).fit(Model())
""",
}
# What ends up elsewhere than in the text streams of this process: the script, and what is recorded.
UNSEEN = {
    "the buffer and forks": (
        """
import multiprocessing
print("text", flush=True)
sys.stdout.buffer.write(b"bytes\\n")
sys.stdout.buffer.flush()
fork = multiprocessing.get_context("fork")  # as that of the workers of a DataLoader
child = fork.Process(target=print, args=("of a child",), kwargs={"flush": True})
child.start()
child.join()
print("of the parent")
""",
        {},
        "text\nof the parent\n",
    ),
    "at the descriptor": (
        """
import subprocess
print("text", flush=True)
os.write(1, b"of C\\n")
subprocess.run([sys.executable, "-c", "print('of a child')"])
""",
        {"SEAMARK_CAPTURE_STDOUT": "fd", "SEAMARK_CAPTURE_STDERR": "fd"},
        "text\nof C\nof a child\n",
    ),
}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    kept |= {f"SEAMARK_CAPTURE_{what}": "0" for what in ("GIT", "HOST", "PACKAGES", "SCRIPT")}
    return {**kept, "SEAMARK_QUIET": "1", "TERM": "xterm-256color", **more}


OFF = {"SEAMARK_CAPTURE_STDOUT": "0", "SEAMARK_CAPTURE_STDERR": "0"}


def run_in_pipes(path: Path, **more: str) -> tuple[int, bytes, bytes]:
    given = {"cwd": path.parent, "env": environment(**more), "timeout": 240}
    done = subprocess.run([sys.executable, path.name], capture_output=True, check=False, **given)
    return done.returncode, done.stdout, done.stderr


def run_on_terminal(path: Path, **more: str) -> tuple[int, bytes]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    given = {"cwd": path.parent, "env": environment(**more)}
    process = subprocess.Popen(
        [sys.executable, path.name], stdin=theirs, stdout=theirs, stderr=theirs, **given
    )
    os.close(theirs)
    shown = bytearray()
    with contextlib.suppress(OSError):  # nobody has the other end any more
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    return process.wait(), bytes(shown)


@pytest.fixture
def write(tmp_path):
    def write(code: str) -> Path:
        path = tmp_path / "script.py"
        begin = "import os, sys, seamark\nrun = seamark.init_run()\n"
        path.write_text(begin + textwrap.dedent(code), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough) if name.startswith("Lightning") else name
        for name in SCRIPTS
    ],
)
def test_output_is_the_same_byte_for_byte_and_recorded(name, write, tmp_path):
    for module in ("lightning", "rich", "tqdm"):
        if f"import {module}" in SCRIPTS[name]:
            pytest.importorskip(module)
    path = write(SCRIPTS[name])
    root = tmp_path / ".seamark"
    plain = run_in_pipes(path, **OFF)
    assert plain[1] or plain[2]
    assert not [one for one in points(root) if not one.endswith("/errors")]
    assert run_in_pipes(path) == plain
    recorded = printed(root)
    for stream, raw in zip(("stdout", "stderr"), plain[1:], strict=True):
        text = raw.decode()
        assert stripped(recorded.get(stream, "")) == stripped(text), stream
        if not {"\r", "\x08", "\x1b"} & set(text):
            assert recorded.get(stream, "") == text
    assert run_on_terminal(path) == run_on_terminal(path, **OFF)


@pytest.mark.parametrize("name", UNSEEN)
def test_output_beside_the_streams_is_shown_and_at_the_descriptor_also_recorded(
    name, write, tmp_path
):
    code, given, recorded = UNSEEN[name]
    path = write(code)
    assert run_in_pipes(path, **given) == run_in_pipes(path, **OFF)
    assert printed(tmp_path / ".seamark") == {"stdout": recorded}
    assert run_on_terminal(path, **given) == run_on_terminal(path, **OFF)


@pytest.mark.parametrize("lines", [10, 200_000])
def test_reader_that_is_gone_fails_the_script_as_without_capture(write, lines):
    """By the print itself; or at the end, if all was printed before."""
    path = write(f"for number in range({lines}): print('line', number)")
    reading, writing = os.pipe()
    os.close(reading)
    given = environment()
    given.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        [sys.executable, path], stdout=writing, stderr=subprocess.PIPE, env=given, check=False
    )
    os.close(writing)
    assert b"BrokenPipeError" in done.stderr
    assert (b"Traceback" in done.stderr) == (lines > 10)
    assert done.returncode in ((120,) if lines == 10 else (1, 120))


def test_process_without_stdout_fails_nowhere(write, tmp_path):
    path = write("print('nowhere')\nprint('err', file=sys.stderr)\n")
    command = ["sh", "-c", 'exec "$0" "$1" >&-', sys.executable, str(path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), stderr=-1, check=True)
    assert done.stderr == b"err\n"
    assert printed(tmp_path / ".seamark") == {"stderr": "err\n"}


@pytest.mark.parametrize(("deadly", "last"), [("SIGKILL", "unfinished"), ("SIGTERM", "line\n")])
@pytest.mark.parametrize("how", ["1", "fd"])
def test_output_before_a_deadly_signal_is_recorded(write, tmp_path, how, deadly, last):
    """At once before SIGTERM; before SIGKILL, an unfinished line once its half second is over."""
    path = write(f"""
        import pathlib, signal
        def recorded(text):
            journals = pathlib.Path(".seamark").glob("*/*/journal/*")
            return any(text in journal.read_bytes() for journal in journals)
        for number in range(20):
            print("line", number, flush=True)
        print({last!r}, end="", flush=True)
        while {deadly!r} == "SIGKILL" and not recorded(b"unfinished"): pass
        os.kill(os.getpid(), signal.{deadly})
        while True: pass
    """)
    code, out, _ = run_in_pipes(path, SEAMARK_CAPTURE_STDOUT=how)
    assert code == -signal.Signals[deadly]
    assert printed(tmp_path / ".seamark")["stdout"] == out.decode()
    assert out.decode().endswith("line 19\n" + last)


def test_output_before_sigterm_is_recorded_without_another_thread(write, tmp_path):
    """As at a limit of processes, or in Python 3.12 and later at the end of the interpreter."""
    path = write("""
        import _thread, signal
        def refuse(*_):
            raise RuntimeError("can't start new thread")
        _thread.start_new_thread = refuse
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        print("went on", flush=True)
    """)
    assert run_in_pipes(path)[:2] == (-signal.SIGTERM, b"last words\n")
    assert printed(tmp_path / ".seamark")["stdout"] == "last words\n"


def test_output_at_the_exit_and_the_traceback_are_recorded(write, tmp_path):
    path = write("import atexit\natexit.register(print, 'bye')\n1 / 0\n")
    code, out, err = run_in_pipes(path)
    assert (code, out) == (1, b"bye\n")
    assert printed(tmp_path / ".seamark") == {"stdout": "bye\n", "stderr": err.decode()}
