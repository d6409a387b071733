"""What was started is recorded in every way there is to start Python."""

from __future__ import annotations

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


def test_a_script_is_named_relative_to_the_working_directory(scripts):
    """That is what a person would type."""
    (scripts.folder / "jobs").mkdir()
    scripts.write(SHOW, "jobs/train.py")
    assert shown(scripts, "jobs/train.py", "--lr", "1") == "jobs/train.py ['--lr', '1']"
    outside = scripts.folder / "jobs" / "train.py"
    (scripts.folder / "elsewhere").mkdir()
    run = f"runpy.run_path({str(outside)!r}, run_name='__main__')"
    code = f"import os, runpy; os.chdir('elsewhere'); {run}"
    assert shown(scripts, "-c", code) == f"{outside} []"


def test_a_module_is_named_as_it_was_started(scripts):
    """python -m package.module, and a package's __main__."""
    (scripts.folder / "pack").mkdir()
    scripts.write("", "pack/__init__.py")
    scripts.write(SHOW, "pack/train.py")
    scripts.write(SHOW, "pack/__main__.py")
    assert shown(scripts, "-m", "pack.train", "a") == "-m pack.train ['a']"
    assert shown(scripts, "-m", "pack") == "-m pack []"


def test_a_folder_that_is_run_is_named_as_its_file(scripts):
    """python folder/"""
    (scripts.folder / "app").mkdir()
    scripts.write(SHOW, "app/__main__.py")
    assert shown(scripts, "app", "x") == "app/__main__.py ['x']"


def test_code_on_the_command_line_has_no_file(scripts):
    """python -c; the code itself is not recorded."""
    assert shown(scripts, "-c", SHOW, "x") == "-c ['x']"


def test_standard_input_has_no_file(scripts):
    """python - < script"""
    code = f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-", "x"], input={SHOW!r}, text=True, check=True)
    """
    assert scripts.run(code).stdout == "<stdin> ['x']\n"


def test_a_spawned_worker_names_the_script_of_its_parent(scripts):
    """ddp_spawn: rank 0 is a child."""
    code = f"""
        import multiprocessing
        def work():
            {SHOW}
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=work)
            process.start(); process.join()
    """
    scripts.write(code, "train.py")
    assert shown(scripts, "train.py", "--x") == "train.py ['--x']"


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("", "<notebook>"),
        ("work/train.ipynb", "work/train.ipynb"),
        ("https://me:hunter2@host/x.ipynb?token=hunter2", "https://host/x.ipynb"),
    ],
)
def test_a_notebook_is_named_by_its_path_where_the_front_end_tells_it(scripts, variable, named):
    """ipykernel is what every notebook runs in; arguments are the kernel's own and say nothing."""
    code = f"import sys, types; sys.modules['ipykernel'] = types.ModuleType('ipykernel'); {SHOW}"
    env = {"JPY_SESSION_NAME": variable}
    assert shown(scripts, "-c", code, "-f", "kernel.json", env=env) == f"{named} []"
