"""What was started is recorded in every way there is to start Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW = (
    "from seamark.capture.code import Script; s = Script.running(); "
    "print(s.entrypoint, list(s.arguments))"
)


def shown(scripts, *command: str, **kwargs) -> str:
    ended = scripts.start([sys.executable, *command], **kwargs)
    assert ended.code == 0, ended.stderr
    return ended.stdout.strip()


def test_script_is_named_relative_to_the_working_directory(scripts):
    (scripts.folder / "jobs").mkdir()
    script = scripts.write(SHOW, "jobs/train.py")
    assert shown(scripts, "jobs/train.py", "--lr", "1") == "jobs/train.py ['--lr', '1']"
    (scripts.folder / "elsewhere").mkdir()
    run = f"runpy.run_path({str(script)!r}, run_name='__main__')"
    assert shown(scripts, "-c", f"import os, runpy; os.chdir('elsewhere'); {run}") == f"{script} []"


def test_folder_code_and_standard_input_are_named_as_they_were_started(scripts):
    (scripts.folder / "app").mkdir()
    scripts.write(SHOW, "app/__main__.py")
    assert shown(scripts, "app", "x") == "app/__main__.py ['x']"
    assert shown(scripts, "-c", SHOW, "x") == "-c ['x']"
    done = subprocess.run([sys.executable, "-", "x"], input=SHOW, text=True, stdout=-1, check=True)
    assert done.stdout == "<stdin> ['x']\n"


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("", "<notebook>"),
        ("work/train.ipynb", "work/train.ipynb"),
        ("https://me:hunter2@host/x.ipynb?token=hunter2", "https://host/x.ipynb"),
    ],
)
def test_notebook_is_named_by_its_path_where_the_front_end_tells_it(scripts, variable, named):
    """ipykernel is what every notebook runs in; arguments are the kernel's own and say nothing."""
    code = f"import sys, types; sys.modules['ipykernel'] = types.ModuleType('ipykernel'); {SHOW}"
    env = {"JPY_SESSION_NAME": variable}
    assert shown(scripts, "-c", code, "-f", "kernel.json", env=env) == f"{named} []"
