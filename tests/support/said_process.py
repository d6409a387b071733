"""Commands that serve until they are ended, and say at the start how they are reached."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None)
_PR_CAPBSET_DROP = 24
_CAP_DAC = (1, 2)


def be_humble():
    """Give up root's right to read and write whatever there is, before a program is started."""
    for one in _CAP_DAC:
        _LIBC.prctl(_PR_CAPBSET_DROP, one, 0, 0, 0)  # fails for all but root, who alone needs it


class Saying:
    """A command that serves, in a process of its own."""

    process: subprocess.Popen[str]

    def stop(self, number=signal.SIGTERM):
        """Send a signal and return the exit code, once everything has ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(90)


@contextmanager
def ending(found):
    """Stop a command after a block, or kill it if it does not."""
    process = found.process
    try:
        yield found
    finally:
        try:
            found.stop()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(30)
            process.stdout.close()


def reached(pattern, process, lines):
    """Return where a pattern is in what a command says at the start, which it must be."""
    if found := pattern.search("\n".join(lines)):
        return found
    process.wait(60)
    process.stdout.close()
    msg = f"it did not start: {lines}"
    raise RuntimeError(msg)


def start_saying(*words, env, stdin=None, humble=False):
    """Start ``seamark`` and return when it has said all that it says at the start, or has ended.

    Returns the process and what it prints, line by line, which goes on being read. A humble one
    lacks root's right to read and write whatever there is.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "seamark", *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(env),
        preexec_fn=be_humble if humble else None,  # noqa: PLW1509 - it makes two calls of the system
    )
    lines = []
    answers = threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("Ctrl-C"):  # the last line of what is printed at the start
                answers.set()
        answers.set()

    threading.Thread(target=read, daemon=True).start()
    assert answers.wait(180), lines
    return process, lines
