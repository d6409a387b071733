"""Git's facts are recorded, whatever state it is in; a git that hangs is nobody's problem."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.capture.git import GitProbe, repository_of
from seamark.capture.script import Script

FACTS = "source_code/git/"
HERE = Script("train.py", (), None)


def git(folder: Path, *arguments: str) -> str:
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic/one")
    (folder / "train.py").write_text("pass\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def found(folder: Path, **kwargs) -> dict[str, object]:
    facts: dict[str, object] = {}
    GitProbe(folder, **kwargs).find(facts.update)
    return {path.removeprefix(FACTS): value for path, value in facts.items()}


def test_a_repository_tells_commit_branch_remote_and_dirty(repository):
    """Names as in the reference; the remote without user and password."""
    git(repository, "remote", "add", "backup", "/srv/backup.git")
    git(repository, "remote", "add", "origin", "https://user:ghp_abcdef123456@host/org/repo.git")
    commit = git(repository, "rev-parse", "HEAD")
    expected = {
        "commit": commit,
        "branch": "topic/one",
        "remote": "https://host/org/repo.git",
        "dirty": False,
    }
    assert found(repository) == expected
    inside = repository / "inside"
    inside.mkdir()
    assert found(inside) == expected


def test_a_changed_file_is_dirty_and_a_new_one_is_not(repository):
    """The run's own folder would make every repository dirty otherwise."""
    (repository / "new.txt").write_text("x")
    assert found(repository)["dirty"] is False
    (repository / "train.py").write_text("changed\n")
    assert found(repository)["dirty"] is True
    git(repository, "add", "train.py")
    assert found(repository)["dirty"] is True


def test_a_detached_head_has_no_branch(repository):
    """Null, and not the word HEAD."""
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "--detach")
    assert found(repository) == {"commit": commit, "branch": None, "remote": None, "dirty": False}


def test_a_repository_without_a_commit_has_a_branch(tmp_path):
    """Straight after git init."""
    git(tmp_path, "init", "-q", "-b", "main")
    assert found(tmp_path) == {"commit": None, "branch": "main", "remote": None, "dirty": False}


def test_an_only_remote_of_another_name_is_told(repository):
    """The first one, if there is no origin."""
    git(repository, "remote", "add", "upstream", "git@host:org/repo.git")
    git(repository, "remote", "add", "zweite", "/srv/x")
    assert found(repository)["remote"] == "host:org/repo.git"


def test_a_token_that_the_configuration_puts_into_addresses_stays_out(repository):
    """url.<base>.insteadOf is how tokens are handed to git in CI."""
    git(repository, "remote", "add", "origin", "https://host/org/repo.git")
    git(repository, "config", "url.https://x:top-token@host/.insteadOf", "https://host/")
    assert found(repository)["remote"] == "https://host/org/repo.git"


def test_outside_of_a_repository_nothing_is_recorded(tmp_path):
    """And neither in a folder that is not there."""
    assert found(tmp_path) == {}
    assert found(tmp_path / "missing") == {}


def test_without_git_nothing_is_recorded(repository, tmp_path, monkeypatch):
    """No error, no message."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert found(repository) == {}


# --------------------------------------------------------------------- a git that hangs


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch) -> Path:
    """Put a git on PATH that starts a child, notes both pids, and hangs with the pipe open."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text('#!/bin/sh\nsleep 300 &\necho $$ $! >> "$GIT_PIDS"\nwait\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIT_PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: Path) -> None:
    while any(map(lives, pids.read_text().split())):
        os.sched_yield()


@pytest.fixture
def time_is_up(slow_git, monkeypatch) -> None:
    """Let the time that git gets be over when the slow git hangs, however long it took to start."""

    class Hanging(subprocess.Popen):
        def communicate(self, given=None, timeout=None):
            while not (slow_git.exists() and slow_git.read_text().endswith("\n")):
                os.sched_yield()
            return super().communicate(given, 0.0 if timeout is not None else None)

    monkeypatch.setattr(subprocess, "Popen", Hanging)


@pytest.mark.usefixtures("time_is_up")
def test_a_git_that_hangs_is_killed_with_all_it_started(slow_git, tmp_path):
    """Once, not once a command; nothing is left behind."""
    assert found(tmp_path) == {}
    assert len(slow_git.read_text().splitlines()) == 1
    wait_until_gone(slow_git)


def test_a_probe_that_was_cancelled_asks_nothing(repository):
    """A run may stop before its thread came to that."""
    probe = GitProbe(repository)
    probe.cancel()
    facts: dict[str, object] = {}
    probe.find(facts.update)
    assert facts == {}


def test_what_is_known_when_time_runs_out_is_kept(repository, tmp_path, monkeypatch):
    """In a huge repository it is the status that takes long."""
    real = shutil.which("git")
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text(f'#!/bin/sh\ncase "$*" in *status*) sleep 300;; esac\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    class SlowStatus(subprocess.Popen):
        def communicate(self, given=None, timeout=None):
            return super().communicate(given, 0.0 if "status" in self.args else None)

    monkeypatch.setattr(subprocess, "Popen", SlowStatus)
    assert set(found(repository)) == {"commit", "branch", "remote"}


@pytest.mark.slow
def test_a_training_neither_waits_for_a_git_that_hangs_nor_leaves_it_behind(scripts, slow_git):
    """Everything else is recorded; the run is completed."""
    code = """
        import os, seamark
        with seamark.init_run() as run:
            run.log_metrics({"loss": 1.0}, step=0)
            while not os.path.exists(os.environ["GIT_PIDS"]):
                os.sched_yield()
    """
    ended = scripts.run(code)
    assert (ended.code, ended.stderr) == (0, "")
    recorded = scripts.recorded()
    assert recorded.states[-1]["state"] == "completed"
    assert "source_code/packages" in recorded.atoms
    assert not recorded.below(FACTS)
    wait_until_gone(slow_git)


# --------------------------------------------------------------------- which repository


class GitRef:
    def __init__(self, repository_path=None):
        self.repository_path = repository_path


class GitRefDisabled:
    pass


def test_git_ref_names_the_repository_or_none(repository, tmp_path, monkeypatch):
    """Neptune's argument: a path, an object with a path, False, or nothing."""
    monkeypatch.chdir(tmp_path)
    script = Script("train.py", (), repository / "train.py")
    assert repository_of(None, script) == repository
    assert repository_of(True, script) == repository  # noqa: FBT003
    assert repository_of(GitRef(), script) == repository
    assert repository_of(False, script) is None  # noqa: FBT003
    assert repository_of(GitRefDisabled(), script) is None
    assert repository_of("repo", HERE) == repository
    assert repository_of(repository / "train.py", HERE) == repository
    assert repository_of(GitRef(repository), HERE) == repository
    assert repository_of(None, HERE) == tmp_path


def test_an_installed_script_says_nothing_about_the_repository(tmp_path, monkeypatch):
    """pytest, torchrun and the like may lie in a repository of their own: pyenv is one."""
    monkeypatch.chdir(tmp_path)
    installed = Script("-m pytest", (), Path(sys.prefix) / "bin" / "pytest")
    assert repository_of(None, installed) == tmp_path
