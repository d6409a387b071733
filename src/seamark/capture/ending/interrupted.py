"""The exit status of a process that Ctrl-C ends: death by SIGINT, whatever our threads still do."""

from __future__ import annotations

import os

__all__ = ["keep_status"]


class _Last:
    """Tells Python once more that an interrupt ends the process, when nobody else runs any more.

    Python keeps that in one flag of the process, looks at it after everything is taken down, and
    clears it whenever a text is executed, on any thread: by ``namedtuple``, say, in a module that
    a thread of ours imports. Executing a text that is interrupted sets it. Other threads are
    stopped for good before modules are taken down, and this goes with its module.
    """

    def __init__(self) -> None:
        self._execute, self._interrupt = exec, KeyboardInterrupt
        self._pid, self._own = os.getpid, os.getpid()

    def __del__(self) -> None:
        if self._pid() != self._own:
            return
        try:  # noqa: SIM105 - at the very end of the process contextlib is empty
            self._execute("raise interrupt", {"interrupt": self._interrupt})
        except self._interrupt:
            pass


_last: _Last | None = None


def keep_status() -> None:
    """Make this process end by SIGINT, as Python intends after an uncaught interrupt."""
    global _last  # noqa: PLW0603 - the flag is that of the process
    if _last is None:
        _last = _Last()
