"""LightningCLI in a job that is restarted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from steady import attempts, runs

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

PROGRAM = """
import importlib, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {here!r})
host = importlib.import_module({host!r})
cli = importlib.import_module({host!r} + ".cli")
from steady import tiny_class
Steady = tiny_class(host)
cli.LightningCLI(Steady, seed_everything_default=1)
"""


@pytest.fixture
def host(one_host):
    """One package: what starts so many processes is proven with one of them."""
    return one_host


def test_configurations_do_not_stop_a_restarted_job(host, cli_arguments):
    """LightningCLI refuses to start where it saved one before; earlier ones give way."""
    pytest.importorskip("jsonargparse")
    Path("program.py").write_text(
        PROGRAM.format(here=str(Path(__file__).parent), host=host.__name__)
    )
    for count in range(3):
        done = subprocess.run(
            [sys.executable, "program.py", "fit", *cli_arguments],
            env={**os.environ, "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(count)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (run,) = runs().values()
    assert attempts(run) == [0, 1, 2]
    kept = {path.name for path in Path(".seamark").rglob("*.yaml")}
    assert kept == {
        "config.yaml",
        "config-before-start-1.yaml",
        "config-before-start-2.yaml",
    }
