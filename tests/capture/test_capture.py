"""What a run captures without being asked, from end to end."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys

import pytest

SECRET = "topsecret99"
# However busy this machine is, git gets the time it needs, and the run waits for what is found out.
SCRIPT = """
    import sys, threading, seamark.capture.git
    seamark.capture.git.TIMEOUT_S = 60
    run = seamark.init_run(SWITCHES)
    sys.argv.append("--too-late")
    run.log_metrics({"loss": 1.0}, step=0)
    print(run.writer)
    for thread in threading.enumerate():
        if thread.name == "seamark-capture":
            thread.join()
    run.stop()
"""


def recorded_with(scripts, switches: str = "", *arguments: str, env=None):
    ended = scripts.run(SCRIPT.replace("SWITCHES", switches), *arguments, env=env)
    assert (ended.code, ended.stderr) == (0, "")
    return scripts.recorded(), ended.stdout.strip()


def test_a_run_says_what_ran_where_and_with_what(scripts):
    """Script, arguments as they were at the start, Python, packages, host and process."""
    recorded, writer = recorded_with(scripts, "", "--lr", "0.1")
    assert recorded.atoms["source_code/entrypoint"] == "script.py"
    assert recorded.atoms["source_code/arguments"] == ["--lr", "0.1"]
    assert recorded.atoms["source_code/python"] == platform.python_version()
    assert "pytest==" in recorded.atoms["source_code/packages"]
    assert recorded.atoms["sys/hostname"] == socket.gethostname()
    assert recorded.below("monitoring/") == {
        f"monitoring/{writer}/hostname": socket.gethostname(),
        f"monitoring/{writer}/pid": int(writer.split("-")[-2]),
    }


def test_git_is_that_of_the_script(scripts):
    """Commit and a remote without its password."""
    script = scripts.write(SCRIPT.replace("SWITCHES", ""))
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "script.py"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
        ["remote", "add", "origin", f"https://me:{SECRET}@host/repo.git"],
    ):
        subprocess.run(["git", *command], cwd=script.parent, check=True)
    recorded, _ = recorded_with(scripts)
    git = recorded.below("source_code/git/")
    assert git.pop("source_code/git/commit")
    assert git == {
        "source_code/git/branch": "main",
        "source_code/git/remote": "https://host/repo.git",
        "source_code/git/dirty": False,
    }


@pytest.mark.parametrize(
    ("switch", "missing"),
    [
        ("capture_script=False", {"source_code/entrypoint", "source_code/arguments"}),
        ("capture_packages=False", {"source_code/packages", "source_code/python"}),
        ("capture_host=False", {"hostname", "pid"}),
    ],
)
def test_each_capture_has_a_switch(scripts, switch, missing):
    """Off means that its facts, and only these, are not there."""
    everything, _ = recorded_with(scripts)
    names = {
        path.rpartition("/")[2] if path.startswith("mon") else path for path in everything.atoms
    }
    for run in (scripts.root / "default").iterdir():
        subprocess.run(["rm", "-r", str(run)], check=True)
    without, _ = recorded_with(scripts, switch)
    left = {path.rpartition("/")[2] if path.startswith("mon") else path for path in without.atoms}
    assert names - left == missing


def test_a_monitoring_namespace_stands_in_for_the_writer(scripts):
    """Neptune's argument of that name; the traceback goes there too."""
    code = "import seamark\nrun = seamark.init_run(monitoring_namespace='mon/one')\n1 / 0\n"
    assert scripts.run(code).code == 1
    assert set(scripts.recorded().below("mon")) == {
        "mon/one/hostname",
        "mon/one/pid",
        "mon/one/traceback",
    }


def test_no_secret_reaches_the_disk(scripts):
    """Not from arguments, variables, messages, tracebacks, remotes or the token argument."""
    token = "eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwLm5lcHR1bmUuYWkifQ=="
    code = f"""
        import os, sys, pickle, seamark
        run = seamark.init_run(api_token="{SECRET}-argument")
        pickle.dump(run, open("run.pickle", "wb"))
        def connect(password):
            token = os.environ["NEPTUNE_API_TOKEN"]
            raise ConnectionError(f"no answer from https://me:{{password}}@host, {{token}}")
        try:
            connect(password="{SECRET}-literal")
        except ConnectionError as error:
            raise RuntimeError("{SECRET}-argument refused") from error
    """
    ended = scripts.run(
        code,
        "--api-key",
        SECRET,
        f"logger.token={SECRET}",
        "--url",
        f"postgres://u:{SECRET}@host",
        env={"NEPTUNE_API_TOKEN": token, "MY_PASSWORD": f"{SECRET}-variable"},
    )
    assert ended.code == 1
    assert SECRET in ended.stderr  # what a person sees on the screen is not ours to change
    kept = b"".join(path.read_bytes() for path in scripts.root.rglob("*") if path.is_file())
    kept += (scripts.folder / "run.pickle").read_bytes()
    assert SECRET.encode() not in kept
    assert token.encode() not in kept
    assert b"refused" in kept


def test_an_exception_that_leaves_the_with_block_is_recorded_once(scripts):
    """Though the hook sees it again afterwards."""
    scripts.run("import seamark\nwith seamark.init_run() as run:\n    raise ValueError('x')\n")
    recorded = scripts.recorded()
    assert [one["state"] for one in recorded.states] == ["running", "failed"]
    assert recorded.one("/traceback").endswith("ValueError: x\n")


def test_captures_cost_nothing_once_they_are_done(scripts):
    """The thread is gone; nothing wakes up again."""
    code = """
        import threading, seamark
        run = seamark.init_run()
        run["a"] = 1
        for thread in threading.enumerate():
            if thread.name == "seamark-capture":
                thread.join()
        print([one.name for one in threading.enumerate() if "capture" in one.name])
    """
    assert scripts.run(code).stdout == "[]\n"


def test_loading_the_captures_loads_nothing_heavy():
    """They are loaded when a run starts, in the training process."""
    code = (
        "import sys, seamark.capture, seamark.process.rank\n"
        "heavy = {'numpy', 'torch', 'pandas', 'sqlalchemy', 'rich', 'asyncio', 'seamark.run.run'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
