from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys

import pytest
from command import main

from seamark.cli._app import _COMMANDS

HEAVY = {"numpy", "pandas", "matplotlib", "plotly", "plotille", "torch", "lightning"}


def test_help_names_every_command(cli):
    """Each with one line; without any word the same help is shown."""
    shown = cli("--help").stdout
    for name in _COMMANDS:
        assert f"\n  {name} " in shown
    assert cli().stdout == shown


_WITHOUT_RUNS = ("completion", "import", "login", "logout", "server", "token")


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_teaches_with_examples(cli, command):
    """Help of a command holds examples that name it, within 80 columns."""
    shown = cli(command, "--help").stdout
    assert "Example" in shown
    assert f"  seamark {command}" in shown
    assert "--root" in shown or command in _WITHOUT_RUNS
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("--quiet") == 1


def test_a_root_that_is_named_must_exist(shell, tmp_path):
    """By option or by environment; without either there are simply no runs yet."""
    assert shell("ls", "--root", tmp_path / "no").returncode == 2
    assert shell("ls", SEAMARK_DIR=str(tmp_path / "no")).returncode == 2
    done = shell("ls", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert "no runs here yet" in done.stderr


def test_root_stands_before_or_after_the_command(cli, record, root, monkeypatch):
    """Both are what people type; the one after the command wins."""
    run = record()
    monkeypatch.delenv("SEAMARK_DIR")
    assert run in cli("ls", "--root", root).stdout
    assert run in cli("--root", root, "ls").stdout
    assert run in cli("--root", root / "no", "ls", "--root", root).stdout


def test_a_reader_that_goes_away_ends_it_quietly(record, root):
    """``seamark ... | head -1`` writes no complaint."""
    run = record(steps=3000)
    line = f"{sys.executable} -m seamark export {run} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines() == ["run,path,step,value,time,attempt", "141"]
    assert done.stderr == ""


def test_closed_output_is_no_error(root):
    """Nobody wants to see anything, so nothing is shown."""
    line = f"{sys.executable} -m seamark ls >&- 2>&-"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(["bash", "-c", line], timeout=240, check=False, env=env).returncode == 0


def test_a_full_disk_is_told(root):
    """Output that cannot be written is a failure."""
    line = f"{sys.executable} -m seamark --help > /dev/full"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_ctrl_c_ends_it_quietly(root, capfd, monkeypatch):
    """Exit code 130, no traceback."""
    monkeypatch.setattr(
        "seamark.cli._runs.open_runs", lambda *_, **__: signal.raise_signal(signal.SIGINT)
    )
    monkeypatch.setattr(
        "seamark.cli.ls.open_runs", lambda *_, **__: signal.raise_signal(signal.SIGINT)
    )
    assert main(["ls"]) == 130
    assert capfd.readouterr().err.strip() == ""


def test_unexpected_errors_are_told_in_one_line(root, capfd, monkeypatch):
    """A mistake of ours shows no traceback unless somebody asks for it."""

    def fail(*_, **__):
        msg = "a mistake\nof ours"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr("seamark.cli.ls.open_runs", fail)
    assert main(["ls"]) == 1
    shown = capfd.readouterr().err
    assert "unexpected ZeroDivisionError: a mistake of ours" in shown
    assert shown.count("\n") == 1
    monkeypatch.setenv("SEAMARK_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["ls"])


def test_an_output_that_knows_ascii_alone_stays_readable(record, monkeypatch):
    """Signs of our own have stand-ins of the same width; what a person chose is escaped."""
    run = record(name="größe")
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert main(["show", run]) == 0
    stdout.flush()
    shown = written.getvalue().decode("ascii")
    assert r"gr\xf6\xdfe" in shown
    assert "0~19\n" in shown
    assert r"\u" not in shown


def test_version(shell):
    """Also from a source tree."""
    import seamark

    assert shell("--version").stdout == f"seamark {seamark.__version__}\n"


IMPORTS = """
import sys
from seamark.__main__ import main

def call(*words, lacks):
    assert main(words) == 0
    print(*words, *sorted(set(sys.modules) & lacks), sep=",", file=sys.stderr)

heavy = {heavy!r}
call("--help", lacks=heavy | {{"sqlalchemy", "rich", "seamark.blobs"}})
call("ls", lacks=heavy | {{"rich"}})
call("ls", "--json", lacks=heavy | {{"rich"}})
"""


@pytest.mark.once
def test_help_and_listing_import_nothing_heavy(record, cli):
    """`seamark --help` and `seamark ls` answer at once where nothing is new; folding needs NumPy.

    Help imports nothing that opens files either.
    """
    record()
    cli("ls")
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(heavy=HEAVY)],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stderr.splitlines() == ["--help", "ls", "ls,--json"]
