"""Git's facts are recorded, whatever state it is in; a git that hangs is nobody's problem."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repositories import ARMED, Arm, Hostile, git, make_repository
from process_status import has_ended

import seamark
from seamark.capture.code import Script
from seamark.capture.code.git import Git, StoppedError
from seamark.capture.code.repository import record_repository, repository_of
from seamark.errors import ArgumentError
from seamark.options.settings import Settings

FACTS = "source_code/git/"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def found(folder: Path, keep=lambda diff: None, timeout_s: float = 60) -> dict[str, object]:
    """Return what is found; by default in more time than any machine takes."""
    facts: dict[str, object] = {}
    runner = Git(folder, timeout_s)
    with contextlib.suppress(StoppedError, OSError), runner:
        record_repository(runner, facts.update, keep)
    facts.pop(FACTS + "files_changed", None)
    return {path.removeprefix(FACTS): value for path, value in facts.items()}


def test_commit_branch_remote_without_password_and_dirty_are_found(repository):
    """The remote is origin, else the first, as configured: insteadOf hands tokens to git in CI."""
    git(repository, "config", "url.https://x:top-token@host/.insteadOf", "https://host/")
    git(repository, "remote", "add", "backup", "git@host:org/repo.git")
    git(repository, "remote", "add", "zweite", "/srv/x")
    commit = git(repository, "rev-parse", "HEAD")
    expected = {"commit": commit, "branch": "topic/one", "dirty": False}
    assert found(repository) == {**expected, "remote": "host:org/repo.git"}
    git(repository, "remote", "add", "origin", "https://user:ghp_abcdef123456@host/org/repo.git")
    (repository / "inside").mkdir()
    for folder in (repository, repository / "inside"):
        assert found(folder) == {**expected, "remote": "https://host/org/repo.git"}


def test_changed_file_is_dirty_and_a_new_one_is_not(repository):
    """The run's own folder would make every repository dirty otherwise."""
    index = repository / ".git" / "index"
    before = index.read_bytes()
    os.utime(repository / "train.py", (1, 1))
    (repository / "new.txt").write_text("x")
    assert found(repository)["dirty"] is False
    (repository / "train.py").write_text("changed\n")
    assert found(repository)["dirty"] is True
    # Somebody may be committing; only git status and its like write the index.
    assert index.read_bytes() == before
    assert not (repository / ".git" / "index.lock").exists()
    git(repository, "add", "train.py")
    assert found(repository)["dirty"] is True


def test_detached_head_has_no_branch_and_a_first_branch_no_commit(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "--detach")
    assert found(repository) == {"commit": commit, "branch": None, "remote": None, "dirty": False}
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    assert found(tmp_path) == {"commit": None, "branch": "main", "remote": None, "dirty": False}
    (tmp_path / "a").write_text("x")
    git(tmp_path, "add", "a")
    assert found(tmp_path)["dirty"] is True
    git(tmp_path, "commit", "-q", "-m", "a")
    expected = {"commit": git(tmp_path, "rev-parse", "HEAD"), "branch": "main", "dirty": False}
    assert found(tmp_path) == {**expected, "remote": None}


def test_nothing_is_recorded_where_there_is_no_repository_or_git(repository, tmp_path, monkeypatch):
    assert found(tmp_path) == {}
    assert found(tmp_path / "missing") == {}
    cancelled = Git(repository, 60)
    cancelled.cancel()
    with pytest.raises(StoppedError):
        record_repository(cancelled, pytest.fail, pytest.fail)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert found(repository) == {}


def put_git(folder: Path, monkeypatch, lines: str) -> None:
    (folder / "bin").mkdir()
    script = folder / "bin" / "git"
    script.write_text(f"#!/bin/sh\n{lines}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch) -> Path:
    """Put a git on PATH that starts a child, notes both pids, and hangs with the pipe open."""
    monkeypatch.setenv("SLOW_GIT_PIDS", str(tmp_path / "pids"))
    put_git(tmp_path, monkeypatch, 'sleep 300 &\necho $$ $! >> "$SLOW_GIT_PIDS"\nwait')
    return tmp_path / "pids"


def wait_until_gone(pids: Path) -> None:
    while not all(has_ended(int(pid)) for pid in pids.read_text().split()):
        os.sched_yield()


def let_time_be_up(monkeypatch, holds: Callable[[], bool]) -> None:
    """Have the time that git gets be over once a condition holds, however long that takes."""

    class Timer(threading.Timer):
        def run(self) -> None:
            while not (self.finished.is_set() or holds()):
                os.sched_yield()
            if not self.finished.is_set():
                self.function(*self.args, **self.kwargs)

    monkeypatch.setattr(threading, "Timer", Timer)


def test_git_that_hangs_is_killed_once_with_all_it_started(slow_git, tmp_path, monkeypatch):
    let_time_be_up(monkeypatch, lambda: slow_git.exists() and slow_git.read_text().endswith("\n"))
    assert found(tmp_path) == {}
    assert len(slow_git.read_text().splitlines()) == 1
    wait_until_gone(slow_git)


@pytest.mark.parametrize(("command", "known"), [("status", 3), ("diff-index", 4)])
def test_facts_that_are_known_when_time_runs_out_are_kept(
    repository, tmp_path, monkeypatch, command, known
):
    (repository / "train.py").write_text("changed\n")
    begun = tmp_path / "begun"
    hangs = f'case "$*" in *" {command} "*) touch {begun}; sleep 300;; esac'
    put_git(tmp_path, monkeypatch, f'{hangs}\nexec {shutil.which("git")} "$@"')
    let_time_be_up(monkeypatch, begun.exists)
    assert list(found(repository)) == ["commit", "branch", "remote", "dirty"][:known]


@pytest.mark.once
def test_training_neither_waits_for_a_git_that_hangs_nor_leaves_it_behind(scripts, slow_git):
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


def test_git_that_prints_without_end_is_killed_and_read_in_part(repository, slow_git):
    script = '#!/bin/sh\necho $$ >> "$SLOW_GIT_PIDS"\nexec yes\n'
    (slow_git.parent / "bin" / "git").write_text(script)
    tracemalloc.start()
    try:
        assert found(repository) == {}
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    wait_until_gone(slow_git)


class GitRef:
    def __init__(self, repository_path=None):
        self.repository_path = repository_path


class GitRefDisabled:
    pass


def test_git_ref_names_the_repository_or_none(repository, tmp_path, monkeypatch):
    """Neptune's argument: a path, an object with a path, False, or nothing.

    An installed script, as pytest, may lie in a repository of its own, which says nothing.
    """
    monkeypatch.chdir(tmp_path)
    script = Script("train.py", (), repository / "train.py")
    installed = Script("-m pytest", (), Path(sys.prefix) / "bin" / "pytest")
    here = Script("train.py", (), None)
    for ref, started, wanted in [
        *((ref, script, repository) for ref in (None, True, GitRef())),
        *((ref, script, None) for ref in (False, GitRefDisabled())),
        *((ref, here, repository) for ref in ("repo", repository / "train.py", GitRef(repository))),
        *((None, started, tmp_path) for started in (here, installed)),
    ]:
        assert repository_of(ref, started) == wanted, (ref, started)


@pytest.mark.parametrize("how", ARMED)
def test_nothing_that_a_repository_names_is_run(repository, tmp_path, how):
    hostile = Hostile(repository, tmp_path / "canary")
    command = hostile.arm(ARMED[how])
    commit = None if how == "directory elsewhere" else git(repository, "rev-parse", "HEAD")
    (repository / "untracked.py").write_text("x")
    hostile.canary.unlink(missing_ok=True)
    assert found(repository).get("commit", commit)
    assert not hostile.canary.exists()
    words = ["git", "-C", str(repository), *command]
    if how == "pagers":  # on a terminal
        words = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *words]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(words, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert hostile.canary.exists(), "the program is not armed: this shows nothing"


@pytest.mark.parametrize("place", [".git/HEAD", ".git/config", ".git/index"])
def test_pipe_in_the_place_of_a_file_costs_only_the_time_that_git_gets(repository, place):
    (repository / place).unlink()
    os.mkfifo(repository / place)
    assert "dirty" not in found(repository, timeout_s=0.5)


@pytest.mark.root
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_repository_of_another_user_is_not_asked(repository):
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert found(repository) == {}


def test_variables_of_git_lead_it_nowhere_else_and_run_nothing(repository, tmp_path, monkeypatch):
    """A training that a hook starts finds some of them; settings stay for whom they are made."""
    hostile = Hostile(repository, tmp_path / "canary")
    hostile.arm(Arm(attribute="*.py diff=evil filter=evil", changed=True))
    expected = found(repository)
    git(tmp_path, "init", "-q", "-b", "other")
    programs = ("EXTERNAL_DIFF", "PAGER", "SSH_COMMAND", "EDITOR", "ASKPASS")
    elsewhere = {"DIR": ".git", "WORK_TREE": "", "INDEX_FILE": "index", "TRACE": "canary"}
    variables = {
        "PAGER": hostile.program,
        "GIT_CONFIG": os.devnull,
        **{f"GIT_{name}": hostile.program for name in programs},
        **{f"GIT_{name}": tmp_path / place for name, place in elsewhere.items()},
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    kept = []
    assert found(repository, kept.append) == expected
    assert b"+PASS" in kept[0].content
    settings = dict.fromkeys(
        ("diff.external", "diff.evil.textconv", "diff.evil.command", "core.fsmonitor"),
        str(hostile.program),
    ) | {"remote.origin.url": "https://host/repo"}
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    assert found(repository, kept.append) == {**expected, "remote": "https://host/repo"}
    assert b"+PASS" in kept[1].content
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.evil.clean")  # of one's own, not a stranger's
    assert found(repository)["dirty"] is None
    assert not hostile.canary.exists()


def with_filter(repository: Path) -> None:
    """Keep files as git-lfs does: other bytes in the repository than in the working tree."""
    git(repository, "config", "filter.upper.clean", "tr a-z A-Z")
    (repository / ".gitattributes").write_text("*.bin filter=upper\n")
    (repository / "data.bin").write_text("abc\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "data")
    for path in repository.glob("*.*"):  # older than the index, as a moment after a commit
        os.utime(path, (1_000_000_000, 1_000_000_000))
    git(repository, "update-index", "--refresh")


def not_compared(repository: Path) -> object:
    facts = found(repository)
    assert facts["dirty"] is None
    return facts["dirty_unknown"]


def test_changed_file_with_a_filter_is_not_compared_as_that_would_run_it(repository):
    with_filter(repository)
    assert found(repository)["dirty"] is False  # size and time are those that the index knows
    (repository / "data.bin").write_text("xyz\n")
    why = "1 of the files can only be compared by running a filter: upper"
    assert not_compared(repository) == why
    (repository / "train.py").write_text("changed\n")
    assert found(repository)["dirty"] is True
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert not_compared(repository) == "git cannot compare the files with the commit"


def test_filter_without_a_program_is_none_and_too_long_configuration_is_not_read(repository):
    with_filter(repository)
    (repository / "data.bin").write_text("xyz\n")
    git(repository, "config", "--unset", "filter.upper.clean")
    assert found(repository)["dirty"] is True
    with (repository / ".git" / "config").open("a") as config:
        config.write('[remote "many"]\n' + "\turl = https://example.org/a/b\n" * 50_000)
    assert not_compared(repository) == "the configuration of the repository is too long"


def test_line_ends_and_modes_are_compared_as_git_would(repository):
    for setting in ("core.autocrlf true", "core.filemode false"):
        git(repository, "config", *setting.split())
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


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_command_of_git_has_bounded_memory(repository, tmp_path, monkeypatch):
    told = tmp_path / "told"
    wait = f'while [ "$(ulimit -d)" != {(1 << 30) // 1024} ]; do :; done; echo so >> {told}'
    put_git(tmp_path, monkeypatch, f'{wait}\nexec {shutil.which("git")} "$@"')
    assert found(repository)["dirty"] is False
    assert told.exists()


def test_git_ref_that_names_nothing_is_refused():
    with pytest.raises(ArgumentError) as caught:
        Settings.of(git_ref=["repo"])
    expected = "git_ref: expected a path, True, False, None or Neptune's GitRef, "
    assert str(caught.value) == f"{expected}got list: ['repo']"


@pytest.mark.parametrize("place", ["missing", "empty"])
def test_git_ref_without_a_repository_is_told_once(tmp_path, caplog, place):
    (tmp_path / "empty").mkdir()
    where = tmp_path / place
    for _ in range(2):
        with seamark.init_run(git_ref=str(where), capture={"packages": False}):
            pass
    with seamark.init_run(capture={"packages": False}):
        pass
    messages = [record.getMessage() for record in caplog.records if "git_ref:" in record.msg]
    assert messages == [f"seamark: git_ref: no readable git repository at {where}"]
