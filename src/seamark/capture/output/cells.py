"""Notebooks: IPython puts a ``write`` of its own on the streams for each cell.

It takes it off again at the end of the cell, and with it what was put over it in the meantime, as
by a run that begins in a cell. So the streams are looked at when a cell begins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from seamark.process.interrupts import quietly

__all__ = ["call_before_cells", "no_more_before_cells"]

_EVENT: Final = "pre_execute"


@quietly()
def call_before_cells(call: Callable[[], None]) -> None:
    """Register a function that IPython, where it runs, calls before each cell. Never raises."""
    if (shell := _shell()) is not None:
        shell.events.register(_EVENT, call)


@quietly()
def no_more_before_cells(call: Callable[[], None]) -> None:
    """Take that back. Never raises."""
    if (shell := _shell()) is not None:
        shell.events.unregister(_EVENT, call)


def _shell() -> Any:
    """Return the shell of this process if IPython is one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
