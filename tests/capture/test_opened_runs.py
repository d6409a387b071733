"""What is captured where a process opens a run that exists: all that is its own, from the start."""

from __future__ import annotations

import shutil
from textwrap import dedent

import pytest
from click.testing import CliRunner
from command import app
from printed import points

AGAIN = """
import sys, seamark
run = seamark.init_run(custom_run_id="cub", capture=dict(packages=False))
"""
FIRST = (
    AGAIN
    + """
print("first")
for step in range(3):
    run.log_metrics({"loss": 1.0}, step=step)
"""
)
LEFT = """
import seamark
quiet = {f"capture_{name}": False for name in ("stdout", "stderr", "hardware_metrics")}
quiet["capture"] = dict.fromkeys(("script", "packages", "host", "git", "signals"), False)
run = seamark.init_run(custom_run_id="cub", owner=True, **quiet)
run.set_state("interrupted")
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder for what a first script has recorded, which the first test fills."""
    return tmp_path_factory.mktemp("first")


@pytest.fixture(autouse=True)
def _recorded(scripts, first):
    """Have one run, which the first script has recorded; it is executed once."""
    if not any(first.iterdir()):
        assert scripts.run(FIRST).code == 0
        shutil.copytree(scripts.root, first / scripts.root.name)
    else:
        shutil.copytree(first, scripts.folder, dirs_exist_ok=True)


def shown(scripts, stream):
    """Return what each process has shown on a stream."""
    found = points(scripts.root).items()
    return ["".join(texts) for path, texts in found if path.endswith(f"/{stream}")]


def facts_of_run(scripts):
    """Return what belongs to the run, and which a process that does not train it leaves alone."""
    recorded = scripts.recorded()
    return recorded.states, recorded.below("sys/"), recorded.below("source_code/")


def state(scripts):
    return scripts.reopened().state


def test_script_that_raises_while_loading_leaves_output_and_traceback(scripts):
    before = facts_of_run(scripts)
    ended = scripts.run(AGAIN + 'print("loading")\nraise ValueError("no checkpoint")\n')
    assert ended.code == 1
    assert "loading\n" in shown(scripts, "stdout")
    assert any("ValueError: no checkpoint" in text for text in shown(scripts, "stderr"))
    recorded = scripts.recorded()
    assert recorded.one("/traceback").endswith("ValueError: no checkpoint\n")
    assert len([path for path in recorded.atoms if path.endswith("/pid")]) == 2
    assert facts_of_run(scripts) == before


@pytest.mark.once
def test_output_before_the_first_point_is_recorded_by_the_same_writer(scripts):
    assert scripts.run(LEFT).code == 0
    code = """
        print("before")
        run.log_metrics({"loss": 0.5}, step=10)
        assert run.state == "running"
        print("after")
    """
    assert scripts.run(AGAIN + dedent(code)).code == 0
    assert sorted(shown(scripts, "stdout")) == ["before\nafter\n", "first\n"]
    assert state(scripts) == "completed"
    assert scripts.recorded().atoms["source_code/entrypoint"] == "script.py"


def test_evaluation_leaves_the_run_as_it_was(scripts):
    before = facts_of_run(scripts)
    code = 'print("evaluating")\nrun["test/acc"].append(0.5)\n'
    assert scripts.run(AGAIN + code, "other").code == 0
    assert any(text.startswith("evaluating\n") for text in shown(scripts, "stdout"))
    assert facts_of_run(scripts) == before


def test_process_that_only_adds_captures_nothing(scripts):
    before = points(scripts.root), scripts.recorded().below("monitoring/")
    code = AGAIN.replace("capture=", "owner=False, capture=")
    code += 'run["sys/tags"].add("best")\nprint("tagged")\nraise ValueError\n'
    assert scripts.run(code).code == 1
    assert (points(scripts.root), scripts.recorded().below("monitoring/")) == before


def test_signals_mark_only_a_run_that_is_owned(scripts):
    code = """
        import os, signal
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)
    """
    ended = scripts.run(AGAIN + dedent(code))
    assert (ended.code, ended.stderr) == (-15, "")
    assert state(scripts) == "completed"


@pytest.mark.once
def test_exception_fails_a_reopened_run_from_its_first_number_on(scripts):
    """Before that it is as it was left; the failure stays that of the process that trained."""
    assert scripts.run(LEFT).code == 0
    assert scripts.run(AGAIN + 'raise ValueError("no data")\n').code == 1
    assert state(scripts) == "interrupted"
    code = 'run.log_metrics({"loss": 0.5}, step=10)\nraise ValueError("diverged")\n'
    assert scripts.run(AGAIN + code).code == 1
    assert scripts.run(AGAIN + 'raise TypeError("evaluation")\n').code == 1
    assert state(scripts) == "failed"
    done = CliRunner().invoke(app, ["show", "latest", "--root", str(scripts.root)])
    line = next(one for one in done.stdout.splitlines() if one.startswith("! failed: "))
    assert "diverged" in scripts.recorded().atoms[line.rpartition(" ")[2].rstrip(")")]
