"""The page of measurements is what the kept results make it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_made_from_the_kept_results():
    code = "import run; print(run.page_now(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PATH": ""},
        check=True,
    )
    assert made.stdout == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
