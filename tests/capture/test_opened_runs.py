"""What is captured where a process opens a run that exists: all that is its own, from the start."""

from __future__ import annotations

import shutil
from textwrap import dedent

import pytest
from click.testing import CliRunner
from command import app

from seamark.index.index import Index

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


@pytest.fixture
def look(scripts, first):
    """Return what the only run holds, once it was recorded by a first script."""
    if not any(first.iterdir()):
        assert scripts.run(FIRST).code == 0
        shutil.copytree(scripts.root, first / scripts.root.name)
    else:
        shutil.copytree(first, scripts.folder, dirs_exist_ok=True)

    def now():
        index = Index.open(scripts.root)
        index.refresh()
        (run,) = index.runs()
        return index.view(*run)

    return now


def values(view, prefix):
    """Return what a view holds by path, texts put together."""
    found = {}
    for one in view.attributes(prefix):
        if one.family == "string_series":
            found[one.path] = "".join(point.text for point in view.texts(one.path, "all"))
        else:
            found[one.path] = one.value
    return found


def own(view, what):
    """Return all values below monitoring that have a name."""
    return [one for path, one in values(view, "monitoring").items() if path.endswith(f"/{what}")]


def unchanged(view):
    """Return what belongs to the run, and which a process that does not train it leaves alone."""
    facts = values(view, "sys")
    del facts["sys/modification_time"]
    return str(view.state), values(view, "source_code"), facts


def test_script_that_raises_while_loading_leaves_output_and_traceback(scripts, look):
    before = unchanged(look())
    ended = scripts.run(AGAIN + 'print("loading")\nraise ValueError("no checkpoint")\n')
    assert ended.code == 1
    view = look()
    assert "loading\n" in own(view, "stdout")
    assert any("ValueError: no checkpoint" in text for text in own(view, "stderr"))
    (trace,) = own(view, "traceback")
    assert trace.endswith("ValueError: no checkpoint\n")
    assert len(own(view, "pid")) == 2
    assert unchanged(view) == before


@pytest.mark.once
def test_output_before_the_first_point_is_recorded_by_the_same_writer(scripts, look):
    assert scripts.run(LEFT).code == 0
    code = """
        print("before")
        run.log_metrics({"loss": 0.5}, step=10)
        assert run.state == "running"
        print("after")
    """
    assert scripts.run(AGAIN + dedent(code)).code == 0
    view = look()
    assert sorted(own(view, "stdout")) == ["before\nafter\n", "first\n"]
    assert str(view.state) == "completed"
    assert values(view, "source_code")["source_code/entrypoint"] == "script.py"


def test_evaluation_leaves_the_run_as_it_was(scripts, look):
    before = unchanged(look())
    code = 'print("evaluating")\nrun["test/acc"].append(0.5)\n'
    assert scripts.run(AGAIN + dedent(code), "other").code == 0
    view = look()
    assert any(text.startswith("evaluating\n") for text in own(view, "stdout"))
    assert unchanged(view) == before


def test_process_that_only_adds_captures_nothing(scripts, look):
    before = values(look(), "monitoring")
    code = AGAIN.replace("capture=", "owner=False, capture=")
    code += 'run["sys/tags"].add("best")\nprint("tagged")\nraise ValueError\n'
    assert scripts.run(code).code == 1
    assert values(look(), "monitoring") == before


def test_signals_mark_only_a_run_that_is_owned(scripts, look):
    code = """
        import os, signal
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)
    """
    ended = scripts.run(AGAIN + dedent(code))
    assert (ended.code, ended.stderr) == (-15, "")
    assert str(look().state) == "completed"


@pytest.mark.once
def test_exception_fails_a_reopened_run_from_its_first_number_on(scripts, look):
    """Before that it is as it was left; the failure stays that of the process that trained."""
    assert scripts.run(LEFT).code == 0
    assert scripts.run(AGAIN + 'raise ValueError("no data")\n').code == 1
    assert str(look().state) == "interrupted"
    code = 'run.log_metrics({"loss": 0.5}, step=10)\nraise ValueError("diverged")\n'
    assert scripts.run(AGAIN + code).code == 1
    assert str(look().state) == "failed"
    assert scripts.run(AGAIN + 'raise TypeError("evaluation")\n').code == 1
    view = look()
    assert str(view.state) == "failed"
    done = CliRunner().invoke(app, ["show", "latest", "--root", str(scripts.root)])
    line = next(one for one in done.stdout.splitlines() if one.startswith("! failed: "))
    assert "diverged" in values(view, "monitoring")[line.rpartition(" ")[2].rstrip(")")]
