"""Runs that were really recorded, and the command called in three ways."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from recording import QUIET
from through import environment_through

from seamark.cli import app
from seamark.run.run import Run, init_run

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty root that the command finds by SEAMARK_DIR."""
    place = tmp_path / "runs"
    place.mkdir()
    monkeypatch.setenv("SEAMARK_DIR", str(place))
    return place


@pytest.fixture
def start(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Start a run below the root, without captures."""

    def start_one(project: str = "default", **given: Any) -> Run:
        return init_run(project, root=root, **{**QUIET, **given})

    return start_one


@pytest.fixture
def record(start: Callable[..., Run]) -> Callable[..., str]:
    """Record a whole run with a falling loss and return its id."""

    def record_one(project: str = "default", steps: int = 20, **given: Any) -> str:
        run = start(project, **given)
        for step in range(steps):
            run.log_metrics({"train/loss": 1 / (step + 1), "val/loss": 2 / (step + 1)}, step=step)
        run.stop()
        return run.id

    return record_one


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Call the command in this process."""

    def call(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="seamark")

    return call


def environment(*, live: bool = False, **more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    return environment_through({**os.environ, "PYTHONPATH": path, **more}, live=live)


@pytest.fixture
def shell() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Call the command as a process of its own, its output in pipes."""

    def call(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "seamark", *map(str, words)],
            env=environment(**more),
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return call


# On a busy machine reading may take so long that a bar appears.
WITHOUT_BAR = """
import math, runpy, seamark.pictures.progress
seamark.pictures.progress._DELAY_S = math.inf
runpy.run_module("seamark", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Call the command in a terminal of its own; return exit code and all that it wrote there."""

    def call(*words: object, columns: int = 80, typed: str = "", **more: str) -> tuple[int, str]:
        outer, inner = pty.openpty()
        terminal = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
        env = environment(**{**terminal, **more})
        env.pop("NO_COLOR", None) if "NO_COLOR" not in more else None
        process = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_BAR, *map(str, words)],
            env=env,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            close_fds=True,
        )
        os.close(inner)
        if typed:
            os.write(outer, typed.encode())
        written = b""
        while True:
            try:
                block = os.read(outer, 1 << 16)
            except OSError:  # Linux says so when the other side is closed
                break
            if not block:
                break
            written += block
        os.close(outer)
        return process.wait(timeout=240), written.decode(errors="replace").replace("\r\n", "\n")

    return call


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
                assert wanted is None, self.shown
                os.close(self._outer)
                break
            self.shown += block.decode(errors="replace")
        return self.shown


@pytest.fixture
def live_terminal() -> type[LiveTerminal]:
    """What calls the command in a terminal and is read while it runs."""
    return LiveTerminal
