"""A job that its launcher restarts goes on with the runs that it recorded, as a new attempt.

Which run that is: see ``opening/test_restarts.py``. Here real processes are killed and restarted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import journals
import pytest
from forking import forking_seamark

import seamark

PROGRAM = """
import json, os, signal, sys
import seamark

quiet = {"capture": dict(git=False, packages=False, signals=False)}
given = json.loads(os.environ["GIVEN"])
value = given.pop("value")
run = seamark.init_run(**quiet, **given)
run.log_metrics({"a": float(value)}, step=value)
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SLURM = {"SLURM_JOB_ID": "17"}


@pytest.fixture(scope="module")
def forks():
    with forking_seamark() as found:
        yield found


@pytest.fixture
def start(forks):
    """Record in a new process, which is killed then.

    Returns a function of environment, command line and arguments of the run. It returns the id of
    the run, or the last line of what went wrong.
    """

    def start(environment=None, arguments=(), **given):
        more = {**(environment or {}), "GIVEN": json.dumps(given)}
        (done,) = forks.run(PROGRAM, *arguments, name="train.py", environments=[more])
        return (done.stdout or done.stderr).strip().splitlines()[-1]

    return start


def again(count):
    """Return the variables of a job that was restarted so often."""
    return {**SLURM, "SLURM_RESTART_COUNT": str(count)}


def test_a_restarted_job_goes_on_with_its_run(start):
    """Nothing is hidden: no checkpoint says from where it goes on."""
    first = start(SLURM, value=1)
    assert start(again(1), value=2) == first
    assert start(again(2), value=3) == first
    assert [one.name for one in Path(".seamark/default").iterdir()] == [first]
    run = seamark.init_run(with_id=first, mode="read-only")
    assert run["a"].fetch_points().step.tolist() == [1, 2, 3]
    assert sorted(header["attempt"] for header in journals.headers(run)) == [0, 1, 2]
    assert start(again(2), ["--fold=1"], value=3) != first  # another command line


@pytest.mark.once
def test_a_job_that_must_go_on_is_refused_without_a_run(start):
    must = {"resume": "must"}
    for job in (SLURM, again(1)):
        assert "RunNotFoundError: resume='must': expected with_id" in start(job, value=1, **must)
    assert "RunNotFoundError: no run" in start(value=1, custom_run_id="mine", **must)
    assert not Path(".seamark").exists()
    first = start(SLURM, value=1)
    assert start(again(1), value=2, **must) == first
    assert start(value=3, with_id=first, **must) == first


SPAWNED = """
import multiprocessing, os, sys
import seamark

def work(name):
    with seamark.init_run(custom_run_id=None, capture=dict(signals=False)) as run:
        run[name] = 1
        print(name, run.id, flush=True)

if __name__ == "__main__":
    method = multiprocessing.get_context(sys.argv[1])
    work("parent")
    child = method.Process(target=work, args=("child",))
    child.start()
    child.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.once
def test_the_first_run_of_a_child_is_not_taken_for_that_of_its_parent(method):
    Path("spawned.py").write_text(SPAWNED)

    def ids(environment):
        words, env = [sys.executable, "spawned.py", method], {**os.environ, **environment}
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, timeout=240, check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    assert ids(SLURM) == ids(again(1))
    assert len(list(Path(".seamark/default").iterdir())) == 2
