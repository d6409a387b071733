"""Calling ``seamark`` as a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

# On a busy machine reading may take so long that a bar appears.
WITHOUT_BAR = """
import math, runpy, seamark.cli._progress
seamark.cli._progress._DELAY_S = math.inf
runpy.run_module("seamark", run_name="__main__", alter_sys=True)
"""


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, with this source."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **more}
