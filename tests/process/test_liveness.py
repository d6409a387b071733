"""Processes are known by more than their numbers."""

from __future__ import annotations

import os
import subprocess
import sys

from seamark.process.liveness import boot_id, process_start


def test_a_process_is_known_by_its_start():
    """A pid is used again; with its start time it is not."""
    own = process_start(os.getpid())
    assert own == process_start(os.getpid())
    code = (
        "import os; from seamark.process import liveness as l; print(l.process_start(os.getpid()))"
    )
    later = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert own is not None
    assert int(later.stdout) > own
    assert process_start(2**22 + 1) is None


def test_a_boot_has_an_id():
    """The same at every call."""
    assert boot_id() == boot_id()
    assert len(boot_id() or "") == 36
