"""Runs that were really recorded, and the command called in several ways."""

from __future__ import annotations

import io
import math
import re
import sys

import pytest
from click.testing import CliRunner
from command import app, main
from crew import crews
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
    """Call the command in this process, its output in pipes."""

    def call(*words, given=b"", **more):
        runner = CliRunner(charset=more.get("PYTHONIOENCODING", "utf-8"), env=more)
        return runner.invoke(app, [*map(str, words)], input=given, prog_name="seamark")

    return call


class _Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self, typed=""):
        super().__init__(io.BytesIO(typed.encode()), encoding="utf-8", write_through=True)

    def isatty(self):
        return True


@pytest.fixture
def terminal():
    """Call the command in this process, which takes its streams for a terminal.

    Return exit code and all that it wrote there.
    """

    def call(*words, columns=80, typed="", **more):
        shown = _Terminal()
        size = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("NO_COLOR")
            for name, value in {**size, **more}.items():
                patch.setenv(name, value)
            streams = {"stdin": _Terminal(typed), "stdout": shown, "stderr": shown}
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            # On a busy machine reading may take so long that a bar appears.
            patch.setattr("seamark.pictures.printing._DELAY_S", math.inf)
            code = main([str(word) for word in words])
        return code, shown.buffer.getvalue().decode(errors="replace")

    return call


@pytest.fixture
def screen(terminal):
    """Call the command, which must succeed, in a terminal; return its text without colours."""

    def call(*words, **more):
        code, shown = terminal(*words, **more)
        assert code == 0, shown
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)

    return call


@pytest.fixture(scope="session")
def _machine():
    with crews(None) as (machine,):
        yield machine


@pytest.fixture
def training(_machine, root, tmp_path):
    """A process of its own that records below the root; see `crew.Deeds`."""
    worker = _machine.hire(root, tmp_path)
    yield worker
    if worker.lives:
        worker.kill()


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
