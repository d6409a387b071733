"""Python code that tests run in processes of their own; it can import what is in this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start_script(code, *words, **env):
    """Start Python with code, words for ``sys.argv[1:]`` and further environment variables."""
    paths = filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(code, *words, status=0, **env):
    """Run code like `start_script` until it ends with a status; return its outputs."""
    with start_script(code, *words, **env) as process:
        try:
            out, err = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == status, err
    return out, err
