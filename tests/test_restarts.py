"""A job that its launcher restarts goes on with the runs that it recorded, as a new attempt."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forking import Ended, Forks, forking_seamark
from recording import QUIET

import seamark
from seamark.index.index import Index
from seamark.opening import resolve, restarts

PROGRAM = """
import json, os, signal, sys
import seamark
from seamark import Run

quiet = {"capture": dict(git=False, packages=False, signals=False)}
given = json.loads(os.environ["GIVEN"])
ids = []
for project in given.get("projects", ["default"]):
    run = seamark.init_run(project, **quiet, **given.get("run", {}))
    run.log_metrics({"a": float(given["value"])}, step=given["value"])
    ids.append(run.id)
print(json.dumps(ids), flush=True)
if given.get("die", True):
    os.kill(os.getpid(), signal.SIGKILL)
"""
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "1"}
SLURM = {"SLURM_JOB_ID": "17"}
ARRAY = {"SLURM_JOB_ID": "18", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking_seamark() as found:
        yield found


@pytest.fixture
def started(forks: Forks) -> Callable[..., Ended]:
    """Record in a new process: a function of environment, command line, and what is given."""

    def started(environment=None, arguments=(), **given):
        more = {**(environment or {}), "GIVEN": json.dumps(given)}
        (done,) = forks.run(PROGRAM, *arguments, name="train.py", environments=[more])
        return done

    return started


@pytest.fixture
def start(started: Callable[..., Ended]) -> Callable[..., list[str] | str]:
    """As `started`: returns the ids of its runs, or the last line of what went wrong."""

    def start(*how, **given):
        done = started(*how, **given)
        if not done.stdout:
            return done.stderr.strip().splitlines()[-1]
        return json.loads(done.stdout)

    return start


def again(environment, count):
    """Return the variables of a job that was restarted so often."""
    name = "TORCHELASTIC_RESTART_COUNT" if "RANK" in environment else "SLURM_RESTART_COUNT"
    return {**environment, name: str(count)}


def runs():
    index = Index.open(Path(".seamark").absolute())
    index.refresh()
    return {run: index.view(project, run) for project, run in index.runs()}


def attempts(view):
    return sorted(journal.header["attempt"] for journal in view.journals())


@pytest.mark.parametrize("job", [TORCHRUN, SLURM, ARRAY], ids=["torchrun", "slurm", "array"])
def test_restarted_job_goes_on(start, job):
    """Nothing is hidden: no checkpoint says from where it goes on."""
    (first,) = start(job, value=1)
    assert start(again(job, 1), value=2) == [first]
    assert start(again(job, 2), value=3) == [first]
    (run,) = runs().values()
    assert run.points("a").step.tolist() == [1, 2, 3]
    assert attempts(run) == [0, 1, 2]


@pytest.mark.once
def test_first_start_begins_a_run(start):
    """However equal the job and the script are."""
    assert start(TORCHRUN, value=1) != start(TORCHRUN, value=1)
    assert len(runs()) == 2


@pytest.mark.once
@pytest.mark.parametrize(
    "other",
    [
        {**ARRAY, "SLURM_ARRAY_TASK_ID": "4"},
        {**ARRAY, "SLURM_ARRAY_JOB_ID": "19"},
        {**SLURM, "SLURM_JOB_ID": "18"},
    ],
)
def test_other_jobs_are_left_alone(start, other):
    """Also those of the same array."""
    start(ARRAY, value=1)
    start(SLURM, value=1)
    start(again(other, 1), value=2)
    assert len(runs()) == 3


@pytest.mark.once
def test_requeued_job_with_another_agent(start):
    """Torchrun within SLURM: the requeued job has a new agent, and is the same job."""
    (first,) = start({**TORCHRUN, **SLURM}, value=1)
    requeued = {**TORCHRUN, **again(SLURM, 1), "TORCHELASTIC_RUN_ID": "another"}
    assert start(requeued, value=2) == [first]


@pytest.mark.once
def test_other_agents_are_left_alone(start):
    """An agent that watches other workers restarts other jobs."""
    (first,) = start(TORCHRUN, value=1)
    other = {**again(TORCHRUN, 1), "TORCHELASTIC_RUN_ID": "another"}
    assert start(other, value=2) != [first]


@pytest.mark.once
def test_runs_of_one_script_are_told_apart(start):
    """By their order, also where they are in one project."""
    projects = ["one", "two", "one"]
    first = start(SLURM, value=1, projects=projects)
    assert start(again(SLURM, 1), value=2, projects=projects) == first
    assert [attempts(run) for run in runs().values()] == [[0, 1]] * 3


@pytest.mark.once
def test_scripts_of_one_job_are_told_apart(start):
    """A job that trains in a loop goes on with the run of the same arguments, or begins one."""
    first = [start(SLURM, [f"--fold={fold}"], value=1) for fold in range(3)]
    restarted = again(SLURM, 1)
    assert start(restarted, ["--fold=1"], value=2) == first[1]
    (new,) = start(restarted, ["--fold=3"], value=2)
    assert len(runs()) == 4
    assert start(again(SLURM, 2), ["--fold=3"], value=3) == [new]


@pytest.mark.once
def test_another_command_line_is_told(start, started):
    """A run that stays behind is named, unless it was completed: then its work is done."""
    (done,) = start(SLURM, ["--fold=0"], value=1, die=False)
    (left,) = start(SLURM, ["--fold=1"], value=1)
    restarted = started(again(SLURM, 1), ["--fold=1", "--resume"], value=2)
    (new,) = json.loads(restarted.stdout)
    assert new not in (done, left)
    (line,) = [
        line
        for line in restarted.stderr.splitlines()
        if "was started with a different command line" in line
    ]
    assert left in line
    assert "custom_run_id" in line
    must = {"resume": "must"}
    refused = start(again(SLURM, 1), ["--fold=1", "--fresh"], value=2, run=must)
    assert refused.endswith(f"(this job recorded run {left} with a different command line)")
    assert start(again(SLURM, 2), ["--fold=1", "--resume"], value=3) == [new]
    assert start(again(SLURM, 2), ["--fold=1"], value=3) == [left]
    assert "different command line" not in started(again(SLURM, 2), ["--fold=2"], value=1).stderr


@pytest.mark.once
def test_same_script_twice_in_a_job(start):
    """A run that this restart has gone on with already is not taken a second time."""
    first, second = start(SLURM, value=1), start(SLURM, value=1)
    restarted = again(SLURM, 1)
    assert start(restarted, value=2) == second
    assert start(restarted, value=2) == first
    assert start(restarted, value=2) not in (first, second)


@pytest.mark.once
def test_run_with_a_given_id_begins_an_attempt(start):
    """It is that run anyway."""
    named = {"custom_run_id": "mine"}
    first = start(SLURM, value=1, run=named)
    assert start(SLURM, value=2, run=named) == first
    assert start(again(SLURM, 1), value=3, run=named) == first
    (run,) = runs().values()
    assert set(attempts(run)) == {0, 1}
    assert run.points("a").step.tolist() == [1, 2, 3]


@pytest.mark.once
def test_never(start):
    """Each start is a run."""
    never = {"resume": "never"}
    first = start(SLURM, value=1, run=never)
    assert start(again(SLURM, 1), value=2, run=never) != first


@pytest.mark.once
def test_must(start):
    """Without anything to go on with, it is refused at once, and nothing is on disk."""
    must = {"resume": "must"}
    for job in (SLURM, again(SLURM, 1)):
        assert "RunNotFoundError: resume='must': expected with_id" in start(job, value=1, run=must)
    named = {**must, "custom_run_id": "mine"}
    assert "RunNotFoundError: no run" in start(value=1, run=named)
    assert not Path(".seamark").exists()
    first = start(SLURM, value=1)
    assert start(again(SLURM, 1), value=2, run=must) == first
    assert start(value=3, run={**must, "with_id": first[0]}) == first


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
def test_runs_of_children_are_told_apart(method):
    """A child's first run is not taken for its parent's."""
    Path("spawned.py").write_text(SPAWNED)

    def ids(environment):
        done = subprocess.run(
            [sys.executable, "spawned.py", method],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        return dict(line.split() for line in done.stdout.splitlines())

    assert ids(SLURM) == ids(again(SLURM, 1))
    assert len(runs()) == 2


def test_the_newest_run_is_the_one_that_began_last(monkeypatch, tmp_path):
    """Whatever the ids are: they say nothing about time."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    for run in ("v" * 16, "0" * 16, "k" * 16):
        monkeypatch.setattr(resolve, "mint_run_id", lambda run=run: run)
        monkeypatch.setattr(restarts, "_ordinals", itertools.count())
        seamark.init_run(root=tmp_path, **QUIET).stop()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setattr(restarts, "_ordinals", itertools.count())
    with seamark.init_run(root=tmp_path, **QUIET) as run:
        assert run.id == "k" * 16
