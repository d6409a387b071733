"""A job that its launcher restarts goes on with the runs that it recorded, as a new attempt.

Which run that is: see ``opening/test_restarts.py``. Here real processes are killed and restarted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import journals
import pytest

import seamark

PROGRAM = """
import os, signal
import seamark

run = seamark.init_run(capture=dict(git=False, packages=False, signals=False))
run.log_metrics({"a": 1.0}, step=int(os.environ["VALUE"]))
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SLURM = {"SLURM_JOB_ID": "17"}


@pytest.fixture
def start(forks):
    def start(environment, value, *arguments):
        more = {**environment, "VALUE": str(value)}
        (done,) = forks.run(PROGRAM, *arguments, name="train.py", environments=[more])
        return done.stdout.strip()

    return start


def again(count):
    return {**SLURM, "SLURM_RESTART_COUNT": str(count)}


def test_a_restarted_job_goes_on_with_its_run(start):
    """Nothing is hidden: no checkpoint says from where it goes on."""
    first = start(SLURM, 1)
    assert start(again(1), 2) == first
    assert start(again(2), 3) == first
    assert [one.name for one in Path(".seamark/default").iterdir()] == [first]
    run = seamark.init_run(with_id=first, mode="read-only")
    assert run["a"].fetch_points().step.tolist() == [1, 2, 3]
    assert sorted(header["attempt"] for header in journals.headers(run)) == [0, 1, 2]
    assert start(again(2), 3, "--fold=1") != first  # another command line


SPAWNED = """
import multiprocessing, os, sys
import seamark

def work(name):
    with seamark.init_run(custom_run_id=None, capture=dict(signals=False)) as run:
        run[name] = 1
        print(name, run.id, flush=True)

if __name__ == "__main__":
    work("parent")
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=work, args=(method,))
        child.start()
        child.join()
"""


@pytest.mark.once
def test_the_first_run_of_a_child_is_not_taken_for_that_of_its_parent():
    Path("spawned.py").write_text(SPAWNED)

    def ids(environment):
        words, env = [sys.executable, "spawned.py"], {**os.environ, **environment}
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, timeout=240, check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    assert ids(SLURM) == ids(again(1))
    assert len(list(Path(".seamark/default").iterdir())) == 3
