"""Ctrl-C ends a process by SIGINT, whatever our threads still import or execute."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("how", ["file", "-c", "-m"])
def test_a_process_dies_of_the_interrupt_though_a_text_is_executed_after_it(how, tmp_path):
    """As ``namedtuple`` does in a module that is imported; Python has one flag for that."""
    code = (
        "import atexit, seamark\n"
        "run = seamark.init_run(capture=dict(git=False))\n"
        "run['a'] = 1\n"
        "atexit.register(eval, '1')\n"
        "raise KeyboardInterrupt\n"
    )
    (tmp_path / "train.py").write_text(code)
    arguments = {"file": ["train.py"], "-c": ["-c", code], "-m": ["-m", "train"]}[how]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == -2, done.stderr.decode()
    assert done.stderr.decode().count("\nKeyboardInterrupt\n") == 1


def test_a_script_that_goes_on_after_an_interrupt_ends_well(tmp_path):
    """Also where it shows the error by the hook itself."""
    code = (
        "import sys, seamark\n"
        "run = seamark.init_run(capture=dict(git=False))\n"
        "run['a'] = 1\n"
        "try:\n"
        "    raise KeyboardInterrupt\n"
        "except KeyboardInterrupt:\n"
        "    sys.excepthook(*sys.exc_info())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
