"""Git's facts are recorded, whatever state it is in; a git that hangs is nobody's problem."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repositories import ARMED, Hostile, git, make_repository

import seamark
from seamark.capture.code import Script
from seamark.capture.code.repository import GitProbe, repository_of
from seamark.errors import ArgumentError
from seamark.options.settings import Settings

FACTS = "source_code/git/"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def found(folder: Path, timeout_s: float = 60) -> dict[str, object]:
    """Return what is found; by default in more time than any machine takes."""
    facts: dict[str, object] = {}
    GitProbe(folder, timeout_s).find(facts.update, lambda _: None)
    facts.pop(FACTS + "files_changed", None)
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


def test_a_detached_head_has_no_branch_and_a_first_branch_no_commit(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "--detach")
    assert found(repository) == {"commit": commit, "branch": None, "remote": None, "dirty": False}
    git(tmp_path, "init", "-q", "-b", "main")
    assert found(tmp_path) == {"commit": None, "branch": "main", "remote": None, "dirty": False}


def test_the_address_is_that_of_origin_else_of_the_first_remote(repository):
    """As it is configured: url.<base>.insteadOf is how tokens are handed to git in CI."""
    git(repository, "config", "url.https://x:top-token@host/.insteadOf", "https://host/")
    git(repository, "remote", "add", "upstream", "git@host:org/repo.git")
    git(repository, "remote", "add", "zweite", "/srv/x")
    assert found(repository)["remote"] == "host:org/repo.git"
    git(repository, "remote", "add", "origin", "https://host/org/repo.git")
    assert found(repository)["remote"] == "https://host/org/repo.git"


def test_where_there_is_nothing_to_ask_nothing_is_recorded(repository, tmp_path, monkeypatch):
    """No repository, no folder, a run that has stopped, no git: no error, no message."""
    assert found(tmp_path) == {}
    assert found(tmp_path / "missing") == {}
    probe = GitProbe(repository)
    probe.cancel()
    probe.find(pytest.fail, pytest.fail)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert found(repository) == {}


# --------------------------------------------------------------------- a git that hangs


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch) -> Path:
    """Put a git on PATH that starts a child, notes both pids, and hangs with the pipe open."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text('#!/bin/sh\nsleep 300 &\necho $$ $! >> "$SLOW_GIT_PIDS"\nwait\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLOW_GIT_PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: Path) -> None:
    while any(map(lives, pids.read_text().split())):
        os.sched_yield()


class TimeIsUp(threading.Timer):
    """The time that git gets: over once a condition holds, however long that takes."""

    holds: Callable[[], bool]

    def run(self) -> None:
        while not (self.finished.is_set() or self.holds()):
            os.sched_yield()
        if not self.finished.is_set():
            self.function(*self.args, **self.kwargs)


@pytest.fixture
def time_is_up(slow_git, monkeypatch) -> None:
    """Let the time that git gets be over when the slow git hangs, however long it took to start."""
    monkeypatch.setattr(
        TimeIsUp,
        "holds",
        lambda _: slow_git.exists() and slow_git.read_text().endswith("\n"),
        raising=False,
    )
    monkeypatch.setattr(threading, "Timer", TimeIsUp)


@pytest.mark.usefixtures("time_is_up")
def test_a_git_that_hangs_is_killed_with_all_it_started(slow_git, tmp_path):
    """Once, not once a command; nothing is left behind."""
    assert found(tmp_path) == {}
    assert len(slow_git.read_text().splitlines()) == 1
    wait_until_gone(slow_git)


@pytest.mark.parametrize(("command", "known"), [("status", 3), ("diff-index", 4)])
def test_what_is_known_when_time_runs_out_is_kept(
    repository, tmp_path, monkeypatch, command, known
):
    """In a huge repository it is the comparison that takes long."""
    (repository / "train.py").write_text("changed\n")
    real = shutil.which("git")
    folder = tmp_path / "bin"
    folder.mkdir()
    script, begun = folder / "git", tmp_path / "begun"
    hangs = f'case "$*" in *" {command} "*) touch {begun}; sleep 300;; esac'
    script.write_text(f'#!/bin/sh\n{hangs}\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(TimeIsUp, "holds", lambda _: begun.exists(), raising=False)
    monkeypatch.setattr(threading, "Timer", TimeIsUp)
    assert list(found(repository)) == ["commit", "branch", "remote", "dirty"][:known]


@pytest.mark.once
def test_a_training_neither_waits_for_a_git_that_hangs_nor_leaves_it_behind(scripts, slow_git):
    code = """
        import os, seamark
        with seamark.init_run() as run:
            run.log_metrics({"loss": 1.0}, step=0)
            while not os.path.exists(os.environ["SLOW_GIT_PIDS"]):
                os.sched_yield()
    """
    ended = scripts.run(code)
    assert (ended.code, ended.stderr) == (0, "")
    recorded = scripts.recorded()
    assert recorded.states[-1]["state"] == "completed"
    assert "source_code/packages" in recorded.atoms
    assert not recorded.below(FACTS)
    wait_until_gone(slow_git)


@pytest.fixture
def endless_git(slow_git) -> Path:
    """Have the git on PATH print without end instead."""
    script = slow_git.parent / "bin" / "git"
    script.write_text('#!/bin/sh\necho $$ >> "$SLOW_GIT_PIDS"\nexec yes\n')
    return slow_git


def test_a_git_that_prints_without_end_is_killed(repository, endless_git):
    """Little of it is read, so the training's memory is its own."""
    tracemalloc.start()
    try:
        assert found(repository) == {}
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    wait_until_gone(endless_git)


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
    here = Script("train.py", (), None)
    assert repository_of("repo", here) == repository
    assert repository_of(repository / "train.py", here) == repository
    assert repository_of(GitRef(repository), here) == repository
    assert repository_of(None, here) == tmp_path


def test_an_installed_script_says_nothing_about_the_repository(tmp_path, monkeypatch):
    """pytest, torchrun and the like may lie in a repository of their own: pyenv is one."""
    monkeypatch.chdir(tmp_path)
    installed = Script("-m pytest", (), Path(sys.prefix) / "bin" / "pytest")
    assert repository_of(None, installed) == tmp_path


# --------------------------------------------------------------------- a stranger's repository


@pytest.mark.parametrize("arm", ARMED, ids=lambda arm: arm.__name__)
def test_nothing_that_a_repository_names_is_run(repository, tmp_path, arm):
    """Its configuration is a stranger's; the commit is told all the same."""
    hostile = Hostile(repository, tmp_path / "canary")
    command = arm(hostile)
    commit = None if arm.__name__ == "directory_elsewhere" else git(repository, "rev-parse", "HEAD")
    (repository / "untracked.py").write_text("x")
    hostile.canary.unlink(missing_ok=True)
    assert found(repository).get("commit", commit)
    assert not hostile.canary.exists()
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    on_terminal = "import pty, sys; pty.spawn(sys.argv[1:])" if arm.__name__ == "pagers" else None
    words = ["git", "-C", str(repository), *command]
    if on_terminal:
        words = [sys.executable, "-c", on_terminal, *words]
    subprocess.run(words, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert hostile.canary.exists(), "the program is not armed: this shows nothing"


@pytest.mark.parametrize("place", [".git/HEAD", ".git/config", ".git/index"])
def test_a_pipe_in_the_place_of_a_file_costs_the_time_that_git_gets(repository, place):
    """And no more: git waits for somebody to write into it, and is killed."""
    (repository / place).unlink()
    os.mkfifo(repository / place)
    assert "dirty" not in found(repository, timeout_s=0.5)


@pytest.mark.root
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_not_asked(repository):
    """Git itself refuses it, unless its user says that it is safe."""
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert found(repository) == {}


def test_variables_of_git_lead_it_nowhere_else(repository, tmp_path, monkeypatch):
    """A training that is started by a hook finds some of them set; others have git run programs."""
    git(tmp_path, "init", "-q", "-b", "other")
    expected = found(repository)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {tmp_path / 'canary'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "canary"))
    assert found(repository) == expected
    assert not (tmp_path / "canary").exists()


def test_settings_in_variables_run_nothing_and_stay_for_whom_they_are(repository, tmp_path):
    """safe.directory may be one of them; a filter of one's own is not a stranger's to start."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {tmp_path / 'canary'}\n")
    program.chmod(0o755)
    hostile = Hostile(repository, tmp_path / "canary")
    hostile.attribute("*.py filter=mine")
    hostile.change("PASS\n")
    settings = {"filter.mine.clean": str(program), "remote.origin.url": "https://host/repo"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GIT_CONFIG", os.devnull)
        patched.setenv("GIT_CONFIG_COUNT", str(len(settings)))
        for number, (key, value) in enumerate(settings.items()):
            patched.setenv(f"GIT_CONFIG_KEY_{number}", key)
            patched.setenv(f"GIT_CONFIG_VALUE_{number}", value)
        facts = found(repository)
    assert facts["remote"] == "https://host/repo"
    assert facts["dirty"] is None
    assert not (tmp_path / "canary").exists()


def test_the_index_stays_as_it_is(repository):
    """Somebody may be committing; only git status and its like write it."""
    index = repository / ".git" / "index"
    before = index.read_bytes()
    os.utime(repository / "train.py", (1, 1))
    assert found(repository)["dirty"] is False
    (repository / "train.py").write_text("changed\n")
    assert found(repository)["dirty"] is True
    assert index.read_bytes() == before
    assert not (repository / ".git" / "index.lock").exists()


# --------------------------------------------------------------------- filters, and settings


def with_filter(repository: Path) -> None:
    """Keep files as git-lfs does: other bytes in the repository than in the working tree."""
    git(repository, "config", "filter.upper.clean", "tr a-z A-Z")
    (repository / ".gitattributes").write_text("*.bin filter=upper\n")
    (repository / "data.bin").write_text("abc\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "data")
    settle(repository)


def settle(repository: Path) -> None:
    """Have the index be younger than the files, as it is a moment after a commit."""
    for path in repository.iterdir():
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    git(repository, "update-index", "--refresh")


def test_a_changed_file_with_a_filter_is_not_judged(repository):
    """Its filter would have to run for that; null, and why."""
    with_filter(repository)
    assert found(repository)["dirty"] is False  # size and time are those that the index knows
    (repository / "data.bin").write_text("xyz\n")
    facts = found(repository)
    assert facts["dirty"] is None
    assert facts["dirty_unknown"] == (
        "1 of the files can only be compared by running a filter: upper"
    )
    (repository / "train.py").write_text("changed\n")
    assert found(repository)["dirty"] is True
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    facts = found(repository)
    assert facts["dirty"] is None
    assert facts["dirty_unknown"] == "git cannot compare the files with the commit"


def test_a_configuration_that_is_too_long_to_read_judges_nothing(repository):
    with_filter(repository)
    (repository / "data.bin").write_text("xyz\n")
    with (repository / ".git" / "config").open("a") as config:
        config.write('[remote "many"]\n' + "\turl = https://example.org/a/b\n" * 50_000)
    facts = found(repository)
    assert facts["dirty"] is None
    assert facts["dirty_unknown"] == "the configuration of the repository is too long"


def test_a_filter_that_names_no_program_is_none(repository):
    """As git sees it: git-lfs is not installed, say."""
    with_filter(repository)
    git(repository, "config", "--remove-section", "filter.upper")
    (repository / "data.bin").write_text("xyz\n")
    assert found(repository)["dirty"] is True


def test_settings_that_say_how_files_compare_are_heeded(repository):
    """Line ends and modes are compared as git would."""
    git(repository, "config", "core.autocrlf", "true")
    git(repository, "config", "core.filemode", "false")
    (repository / "train.py").write_bytes(b"pass\r\n")
    git(repository, "add", "train.py")
    (repository / "train.py").chmod(0o755)
    os.utime(repository / "train.py", (1, 1))
    assert found(repository)["dirty"] is False
    git(repository, "config", "core.autocrlf", "false")
    assert found(repository)["dirty"] is True
    git(repository, "config", "core.autocrlf", "true")
    git(repository, "config", "core.filemode", "true")
    assert found(repository)["dirty"] is True


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_both_kinds_of_names_for_objects_are_known(tmp_path, kind):
    """A repository with SHA-256 says so in its configuration."""
    git(tmp_path, "init", "-q", "-b", "main", f"--object-format={kind}")
    (tmp_path / "a").write_text("x")
    git(tmp_path, "add", "a")
    assert found(tmp_path)["dirty"] is True
    git(tmp_path, "commit", "-q", "-m", "a")
    facts = found(tmp_path)
    assert facts["commit"] == git(tmp_path, "rev-parse", "HEAD")
    assert facts["dirty"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_command_of_git_has_bounded_memory(repository, tmp_path, monkeypatch):
    """Rules of 20 GB would be read into it."""
    told, folder = tmp_path / "told", tmp_path / "bin"
    folder.mkdir()
    wait = f'while [ "$(ulimit -d)" != {(1 << 30) // 1024} ]; do :; done; echo so >> {told}'
    (folder / "git").write_text(f'#!/bin/sh\n{wait}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert found(repository)["dirty"] is False
    assert told.exists()


@pytest.mark.parametrize("given", [5, ["repo"], object])
def test_a_git_ref_that_names_nothing_is_refused(given):
    with pytest.raises(ArgumentError) as caught:
        Settings.of(git_ref=given)
    said = "git_ref: expected a path, True, False, None or Neptune's GitRef, got "
    assert str(caught.value) == f"{said}{type(given).__name__}: {given!r}"


@pytest.mark.parametrize("place", ["missing", "empty"])
def test_a_git_ref_without_a_repository_is_told_once(tmp_path, caplog, place):
    """Whoever names one means one; where nobody does, nothing is said."""
    (tmp_path / "empty").mkdir()
    where = tmp_path / place
    for _ in range(2):
        with seamark.init_run(git_ref=str(where), capture={"packages": False}):
            pass
    said = f"seamark: git_ref: git finds no repository that it may read at {where}"
    with seamark.init_run(capture={"packages": False}):
        pass
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "git_ref:" in line] == [said]
