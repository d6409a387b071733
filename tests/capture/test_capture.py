"""What a run captures without being asked, from end to end."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from seamark.capture import Capture, Switches, environment
from seamark.capture.facts import Facts
from seamark.process.interrupts import quietly

SECRET = "topsecret99"
# However busy this machine is, git gets the time it needs, and the run waits for what is found out.
SCRIPT = """
    import sys, threading, seamark.capture.code.code
    import seamark.capture.facts, seamark.capture.hardware
    seamark.capture.code.code.TIMEOUT_S = 60
    seamark.capture._STOP_TIMEOUT_S = seamark.capture.facts._GRACE_S = 60
    seamark.capture.hardware.BEGIN_S = 60  # facts of the machine: see test_hardware.py
    run = seamark.init_run(SWITCHES)
    sys.argv.append("--too-late")
    run.log_metrics({"loss": 1.0}, step=0)
    print(run.writer)
    run.stop()
    assert not [one.name for one in threading.enumerate() if "capture" in one.name]
"""


def recorded_with(scripts, switches: str = "", *arguments: str, env=None):
    ended = scripts.run(SCRIPT.replace("SWITCHES", switches), *arguments, env=env)
    assert (ended.code, ended.stderr) == (0, "")
    return scripts.recorded(), ended.stdout.strip()


def test_run_records_script_packages_host_and_process(scripts):
    recorded, writer = recorded_with(scripts, "", "--lr", "0.1")
    atoms = recorded.atoms
    assert atoms["source_code/entrypoint"] == "script.py"
    assert atoms["source_code/arguments"] == ["--lr", "0.1"]
    assert atoms["source_code/python"] == platform.python_version()
    assert "pytest==" in atoms["source_code/packages"]
    assert atoms["sys/hostname"] == socket.gethostname()
    told = recorded.below("monitoring/")
    environment = f"monitoring/{writer}/environment/"
    system = {path: told.pop(path) for path in list(told) if path.startswith(environment)}
    assert system[f"{environment}kernel"] == platform.release()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    assert system[f"{environment}python"] == python
    assert socket.gethostname() not in system.values()
    assert told == {
        f"monitoring/{writer}/hostname": socket.gethostname(),
        f"monitoring/{writer}/pid": int(writer.split("-")[-2]),
    }


def test_each_capture_has_a_switch_for_its_facts_only(scripts):
    code = {f"source_code/{name}" for name in ("entrypoint", "arguments", "version")}
    missing_of = {
        "script": code,
        "packages": {"source_code/packages", "source_code/python"},
        "host": {"hostname", "pid", "environment"},
    }

    def name(path: str) -> str:
        parts = path.split("/")
        return parts[2] if parts[0] == "monitoring" else path

    everything, _ = recorded_with(scripts)
    names = set(map(name, everything.atoms))
    for switch, missing in missing_of.items():
        shutil.rmtree(scripts.root)
        without, _ = recorded_with(scripts, f"capture=dict({switch}=False)")
        assert names - set(map(name, without.atoms)) == missing, switch


def test_monitoring_namespace_stands_in_for_the_writer(scripts):
    """Neptune's argument of that name; the traceback goes there too, once, from a block."""
    code = """
        import seamark
        with seamark.init_run(monitoring_namespace='mon/one'):
            raise ValueError('x')
    """
    assert scripts.run(code).code == 1
    recorded = scripts.recorded()
    paths = {path for path in recorded.below("mon") if "/environment/" not in path}
    assert paths == {f"mon/one/{name}" for name in ("hostname", "pid", "traceback")}
    assert recorded.one("/traceback").endswith("ValueError: x\n")
    assert [one["state"] for one in recorded.states] == ["running", "failed"]


def test_loading_the_captures_loads_nothing_heavy():
    code = (
        "import sys, seamark.capture, seamark.process.rank\n"
        "heavy = {'numpy', 'torch', 'pandas', 'sqlalchemy', 'rich', 'asyncio', 'seamark.run.run'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_dependencies_are_inferred_or_a_file(scripts):
    (scripts.folder / "needs.txt").write_text("--index-url https://host\ntorch>=2\n")
    kept = {}
    for given in ("infer", "needs.txt"):
        recorded, _ = recorded_with(
            scripts, f"dependencies={given!r}, capture=dict(packages=False)"
        )
        assert "source_code/packages" not in recorded.atoms
        scripts.reopened()["source_code/requirements"].download(str(scripts.folder / "kept.txt"))
        kept[given] = (scripts.folder / "kept.txt").read_text()
        shutil.rmtree(scripts.root)
    assert "pytest==" in kept["infer"]
    assert kept["needs.txt"] == "--index-url https://host\ntorch>=2\n"


def test_repository_and_its_changes_are_kept_without_secrets(scripts):
    script = scripts.write(SCRIPT.replace("SWITCHES", ""))
    (scripts.folder / "settings.py").write_text("lr = 1\n")
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
        ["remote", "add", "origin", f"https://me:{SECRET}@host/repo.git"],
    ):
        subprocess.run(["git", *command], cwd=script.parent, check=True)
    (scripts.folder / "settings.py").write_text(f'lr = 2\npassword = "{SECRET}"\n')
    asked = ["git", "rev-parse", "HEAD"]
    commit = subprocess.check_output(asked, cwd=script.parent, text=True).strip()
    recorded, _ = recorded_with(scripts, env={"BUILD_TOKEN": commit})
    assert recorded.below("source_code/git/") == {
        "source_code/git/commit": commit,  # never hidden
        "source_code/git/branch": "main",
        "source_code/git/remote": "https://host/repo.git",
        "source_code/git/dirty": True,
        "source_code/git/files_changed": 1,
    }
    run = scripts.reopened()
    run["source_code/diff"].download(str(scripts.folder / "kept.patch"))
    patch = (scripts.folder / "kept.patch").read_text()
    assert patch.endswith('-lr = 1\n+lr = 2\n+password = "***"\n')
    assert run["sys/masked"].fetch() == {"source_code/diff"}
    disk = b"".join(path.read_bytes() for path in scripts.root.rglob("*") if path.is_file())
    assert SECRET.encode() not in disk
    shutil.rmtree(scripts.root)
    without, _ = recorded_with(scripts, "capture=dict(git=False)")
    assert not without.below("source_code/git/")
    assert not without.below("source_code/diff")


@pytest.mark.parametrize(
    ("where", "beginning"),
    [
        *(("shutil.which", False), ("subprocess.Popen", False)),
        *(("site.getusersitepackages", False), ("site.getusersitepackages", True)),
    ],
)
@pytest.mark.once
def test_disk_that_hangs_holds_up_beginning_and_end_of_a_run_for_a_moment(
    scripts, where, beginning
):
    """A home, a folder of PATH, or git's own: what comes too late is left out."""
    hang = f"{where} = lambda *_, **__: threading.Event().wait()"
    code = f"""
        import os, shutil, site, subprocess, threading
        import seamark, seamark.capture, seamark.opening.restarts
        seamark.capture._STOP_TIMEOUT_S = seamark.opening.restarts._PATIENCE_S = 0.2
        {hang if beginning else ""}
        run = seamark.init_run(params={{"a": 1}}, capture_hardware_metrics=False)
        {hang}
        run["b"] = 2
        run.stop()
        print("stopped", flush=True)
        os._exit(0)
    """
    ended = scripts.run(code)
    assert (ended.code, ended.stdout) == (0, "stopped\n")
    atoms = scripts.recorded().atoms
    assert (atoms["parameters/a"], atoms["b"]) == (1, 2)
    if beginning:
        assert "source_code/version" not in atoms


def test_all_parts_together_get_the_time_of_the_end(monkeypatch):
    now, given = [100.0], []

    class Slow:
        def stop(self, timeout_s: float) -> None:
            given.append(timeout_s)
            now[0] += 1.5

    monkeypatch.setattr("seamark.capture.time.monotonic", lambda: now[0])
    capture = Capture(None, Switches())
    capture._parts = [Slow(), Slow(), Slow()]
    capture.stop(2.0)
    assert given == [2.0, 0.5, 0.0]


def test_facts_of_a_run_that_goes_on_wait_for_those_that_hang(monkeypatch):
    """The training needs the cores: one thread at a time. It owns the run only when it goes on."""
    may_end, recorded, owns = threading.Event(), [], iter((False, True))
    monkeypatch.setattr(environment, "environment_facts", lambda _: {} if may_end.wait() else None)
    run = SimpleNamespace(assign_quietly=recorded.append)
    switches = Switches(git=False, packages=False, script_file=False)
    facts = Facts(run, "m", switches, lambda: next(owns), quietly())
    for timeout_s in (0.0, 0.2):
        facts.start()
        facts.stop(timeout_s)
    assert recorded == []
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "seamark-capture":
            thread.join()
    assert [min(each) for each in recorded[:2]] == ["m/hostname", "source_code/arguments"]
