"""Runs that were really recorded, and the command called in several ways."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pty
import re
import subprocess
import sys
import textwrap
import time

import pytest
from click.testing import CliRunner
from command import app, main
from recording import QUIET

from seamark import init_run


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty root that the command finds by SEAMARK_DIR."""
    place = tmp_path / "runs"
    place.mkdir()
    monkeypatch.setenv("SEAMARK_DIR", str(place))
    return place


@pytest.fixture
def start(root, capsys):
    """Start a run below the root, without captures."""
    return lambda project="default", **given: init_run(project, root=root, **QUIET | given)


@pytest.fixture
def record(start):
    """Record a whole run with a falling loss and return its id."""

    def record_one(project="default", steps=20, **given):
        with start(project, **given) as run:
            for step in range(steps):
                loss = 1 / (step + 1)
                run.log_metrics({"train/loss": loss, "val/loss": 2 * loss}, step=step)
        return run.id

    return record_one


@pytest.fixture
def cli():
    """Call the command in this process."""
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], prog_name="seamark")


class _Stream(io.TextIOWrapper):
    """A stream of this process that is a pipe, or a terminal if it is said to be one."""

    def __init__(self, encoding="utf-8", given=b"", *, terminal=False):
        super().__init__(io.BytesIO(given), encoding=encoding, write_through=True)
        self._terminal = terminal

    def isatty(self):
        return self._terminal

    def written(self):
        """Return what was written to it."""
        self.flush()
        return self.buffer.getvalue().decode(errors="replace")


@contextlib.contextmanager
def _streams(stdin, stdout, stderr, variables):
    """Give this process other standard streams, and more variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        time.tzset()
        for name, stream in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
            patch.setattr(sys, name, stream)
        yield patch
    time.tzset()


@pytest.fixture
def shell():
    """Call the command as the program does, but in this process, its output in pipes."""

    def call(*words, given=b"", **more):
        encoding = more.get("PYTHONIOENCODING", "utf-8")
        stdin, stdout, stderr = (_Stream(encoding, one) for one in (given, b"", b""))
        args = [str(word) for word in words]
        with _streams(stdin, stdout, stderr, more):
            code = main(args)
        return subprocess.CompletedProcess(args, code, stdout.written(), stderr.written())

    return call


@pytest.fixture
def terminal():
    """Call the command in this process, which takes its streams for a terminal.

    Return exit code and all that it wrote there; for a real terminal, see `live_terminal`.
    """

    def call(*words, columns=80, typed="", **more):
        shown, stdin = _Stream(terminal=True), _Stream(given=typed.encode(), terminal=True)
        size = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
        with _streams(stdin, shown, shown, {**size, **more}) as patch:
            if "NO_COLOR" not in more:
                patch.delenv("NO_COLOR", raising=False)
            # On a busy machine reading may take so long that a bar appears.
            patch.setattr("seamark.pictures.printing._DELAY_S", math.inf)
            code = main([str(word) for word in words])
        return code, shown.written()

    return call


@pytest.fixture
def screen(terminal):
    """Call the command, which must succeed, in a terminal; return its text without colours."""

    def call(*words, **more):
        code, shown = terminal(*words, **more)
        assert code == 0, shown
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)

    return call


@pytest.fixture
def python():
    """Run code in a process of its own."""

    def call(code, *args, **more):
        words = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
        pipes = {"capture_output": True, "text": True}
        return subprocess.run(words, env=os.environ | more, timeout=240, check=False, **pipes)

    return call


TRAINING = """
import sys, seamark
{before}
run = seamark.init_run("p", name="live", git_ref=False, capture=dict(packages=False))
run.log_metrics({{"loss": 1.0}}, step=0)
run.sync()
print(run.id, flush=True)
{after}
"""


@pytest.fixture
def train():
    """Start a training that has recorded a step; return its process and the id of its run."""
    with contextlib.ExitStack() as stack:

        def begin(after="sys.stdin.readline()", before=""):
            code = TRAINING.format(before=before, after=after)
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            words = [sys.executable, "-c", code]
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL, **pipes)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process, process.stdout.readline().strip()

        yield begin


# On a busy machine reading may take so long that a bar appears.
WITHOUT_BAR = """
import math, runpy, seamark.pictures.printing
seamark.pictures.printing._DELAY_S = math.inf
runpy.run_module("seamark", run_name="__main__", alter_sys=True)
"""


class LiveTerminal:
    """A program in a terminal of its own, which can be read while it runs."""

    def __init__(self, program, **more):
        self._outer, inner = pty.openpty()
        terminal = {"COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color"}
        env = {**os.environ, **terminal, **more}
        env.pop("NO_COLOR")
        streams = {"stdin": inner, "stdout": inner, "stderr": inner}
        self.process = subprocess.Popen(program, env=env, start_new_session=True, **streams)
        os.close(inner)
        self.shown = ""

    def type(self, text):
        """Type something."""
        os.write(self._outer, text.encode())

    def read(self, wanted=None):
        """Read until something is shown, or to the end; return all that was shown."""
        while wanted is None or wanted not in self.shown:
            try:
                block = os.read(self._outer, 1 << 16)
            except OSError:  # Linux says so when the other side is closed
                block = b""
            if not block:
                os.close(self._outer)
                self._outer = -1
                assert wanted is None, self.shown
                break
            self.shown += block.decode(errors="replace")
        return self.shown

    def close(self):
        """End it, whatever became of the test."""
        self.process.kill()
        self.process.wait(timeout=60)
        with contextlib.suppress(OSError):
            self.read()


@pytest.fixture
def live_terminal():
    """Call the command, or another program, in a real terminal; it can be read while it runs."""
    with contextlib.ExitStack() as stack:

        def begin(*words, program=(sys.executable, "-c", WITHOUT_BAR), **more):
            one = LiveTerminal([*program, *words], **more)
            return stack.enter_context(contextlib.closing(one))

        yield begin


@pytest.fixture
def between(monkeypatch):
    """Say what happens between two looks of `watch` or `logs --follow`, instead of waiting."""

    def set_up(*events):
        waited: list[float] = []
        todo = iter(events)

        def wait(seconds):
            waited.append(seconds)
            next(todo)()

        for command in ("logs", "watch"):
            monkeypatch.setattr(f"seamark.cli.{command}._wait", wait)
        return waited

    return set_up
