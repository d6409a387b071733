"""Runs that were really recorded, and the command called in several ways."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import app, main
from recording import QUIET
from through import environment_through

from seamark import init_run

SOURCE = Path(__file__).parents[2] / "src"


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

    def start_one(project="default", **given):
        return init_run(project, root=root, **{**QUIET, **given})

    return start_one


@pytest.fixture
def record(start):
    """Record a whole run with a falling loss and return its id."""

    def record_one(project="default", steps=20, **given):
        run = start(project, **given)
        for step in range(steps):
            run.log_metrics({"train/loss": 1 / (step + 1), "val/loss": 2 / (step + 1)}, step=step)
        run.stop()
        return run.id

    return record_one


@pytest.fixture
def cli():
    """Call the command in this process."""

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="seamark")

    return call


def environment(*, live=False, **more):
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    return environment_through({**os.environ, "PYTHONPATH": path, **more}, live=live)


class _Piped(io.TextIOWrapper):
    """A stream of this process that is a pipe, or a terminal if it is said to be one."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


def _stream(encoding, given=b"", *, terminal=False):
    stream = _Piped(io.BytesIO(given), encoding=encoding, write_through=True)
    stream.terminal = terminal
    return stream


def _written(stream):
    stream.flush()
    bytes_written: bytes = stream.buffer.getvalue()
    return bytes_written.decode(errors="replace")


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
        stdin, stdout, stderr = (_stream(encoding, one) for one in (given, b"", b""))
        args = [str(word) for word in words]
        with _streams(stdin, stdout, stderr, more):
            code = main(args)
        return subprocess.CompletedProcess(args, code, _written(stdout), _written(stderr))

    return call


@pytest.fixture
def terminal():
    """Call the command in this process, which takes its streams for a terminal.

    Return exit code and all that it wrote there; for a real terminal, see `live_terminal`.
    """

    def call(*words, columns=80, typed="", **more):
        shown = _stream("utf-8", terminal=True)
        stdin = _stream("utf-8", typed.encode(), terminal=True)
        size = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
        with _streams(stdin, shown, shown, {**size, **more}) as patch:
            if "NO_COLOR" not in more:
                patch.delenv("NO_COLOR", raising=False)
            # On a busy machine reading may take so long that a bar appears.
            patch.setattr("seamark.pictures.printing._DELAY_S", math.inf)
            code = main([str(word) for word in words])
        return code, _written(shown)

    return call


# On a busy machine reading may take so long that a bar appears.
WITHOUT_BAR = """
import math, runpy, seamark.pictures.printing
seamark.pictures.printing._DELAY_S = math.inf
runpy.run_module("seamark", run_name="__main__", alter_sys=True)
"""


class LiveTerminal:
    """A command in a terminal of its own, which can be read while it runs."""

    def __init__(self, *words: str, **more: str) -> None:
        self._outer, inner = pty.openpty()
        terminal = {"COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color"}
        env = environment(live=True, **{**terminal, **more})
        env.pop("NO_COLOR")
        self.process = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_BAR, *words],
            env=env,
            stdin=inner,
            stdout=inner,
            stderr=inner,
        )
        os.close(inner)
        self.shown = ""

    def read(self, wanted: str | None = None) -> str:
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

    def close(self) -> None:
        """End it, whatever became of the test."""
        self.process.kill()
        self.process.wait(timeout=60)
        with contextlib.suppress(OSError):
            self.read()


@pytest.fixture
def live_terminal():
    """Call the command in a real terminal; it can be read while it runs."""
    with contextlib.ExitStack() as stack:

        def begin(*words, **more):
            return stack.enter_context(contextlib.closing(LiveTerminal(*words, **more)))

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
