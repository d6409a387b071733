"""Isolation of tests: each starts from the same process state and leaves nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import pytest
from own_calls import note_others

__all__ = [
    "_environment",
    "_folder",
    "_folders",
    "_isolated",
    "_session",
    "pytest_runtest_makereport",
    "tmp_path",
]
FAILED = pytest.StashKey[bool]()
KEPT = ("PATH", "PYTHONPATH", "LANG", "PYTHONDONTWRITEBYTECODE")
KEPT_PREFIXES = ("PYTEST_", "COV_", "COVERAGE_", "OMP_", "OPENBLAS_", "NVPL_", "SSL_CERT_")
SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}


def reset_signals():
    """Undo what a shell, nohup or a service manager lets its children ignore or block."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN and number not in PYTHON_IGNORES:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def clean_environment(folder):
    """Return the environment of a test whose home, cache and temporary files are in a folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    modes = {"cache": 0o700, "config": 0o700, "temporary": 0o1777}
    places = {name: folder / name for name in modes}
    for name, place in places.items():
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(modes[name])
    return kept | {
        "HOME": str(folder),
        "NO_COLOR": "1",
        "TERM": "xterm",
        "TMPDIR": str(places["temporary"]),
        "XDG_CACHE_HOME": str(places["cache"]),
        "XDG_CONFIG_HOME": str(places["config"]),
    }


@contextlib.contextmanager
def process_state(environment, folder):
    """Run a block with an environment and a folder; restore them, the umask and the signals."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before, where, temporary = dict(os.environ), Path.cwd(), tempfile.tempdir
    umask = os.umask(0o022)
    replace_environment(environment)
    tempfile.tempdir = None
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(where)
        tempfile.tempdir = temporary
        replace_environment(before)
        os.umask(umask)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def replace_environment(wanted):
    for name in set(os.environ) - set(wanted):
        if not name.startswith("PYTEST_"):
            del os.environ[name]
    os.environ.update({k: v for k, v in wanted.items() if not k.startswith("PYTEST_")})


def remove_folder(folder):
    """Remove the folder of a test, in which a thread may still finish a file, or raise OSError."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return shutil.rmtree(folder)
        time.sleep(0.05)
    return shutil.rmtree(folder)


def children():
    """Return the command of each child process by its id, zombies included."""
    found = {}
    shared = {resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid}
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            text = (thread / "children").read_text()
            for pid in set(map(int, text.split())) - shared:
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    words = command.decode(errors="replace").replace("\0", " ").strip()
                    found[pid] = words[:300] or "a process that has ended and was not waited for"
    return found


def open_runs():
    """Return what Seamark would finish at the end of this process, such as runs, by identity."""
    lifecycle = sys.modules.get("seamark.run.lifecycle")
    return {} if lifecycle is None else dict(lifecycle._running)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session", autouse=True)
def _session(_folders, tmp_path_factory):
    """Give fixtures that several tests share a home and a cache that are not the user's."""
    tmp_path_factory.getbasetemp()  # made when it is first asked for, not in the folder of a test
    folder = next(_folders)
    with process_state(clean_environment(folder), folder):
        yield
    remove_folder(folder)


@pytest.fixture(scope="session")
def _folders():
    """New folders for tests, with short names: a socket's path has at most 107 characters."""
    place = Path(tempfile.mkdtemp(prefix="seamark-"))
    place.chmod(0o755)  # a test of root may drop its rights
    yield (place / str(number) for number in itertools.count())
    with contextlib.suppress(OSError):  # what failed is kept
        place.rmdir()


@pytest.fixture
def _folder(request, _folders, _session):
    """The only folder a test writes to. What cannot be removed of it fails the test."""
    folder = next(_folders)
    folder.mkdir(mode=0o755)
    yield folder
    if not request.node.stash.get(FAILED, False):
        remove_folder(folder)


@pytest.fixture
def tmp_path(_folder):
    """A folder beside the current one, in place of pytest's own fixture; no other has its name."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    path = _folder / f"tmp{worker}{_folder.name}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def _environment():
    """Variables that every test of a suite gets; each `conftest.py` has its own."""
    return {}


@pytest.fixture(autouse=True)
def _isolated(_folder, _environment):
    """Run in an empty folder with a home, a cache and an environment of its own.

    Above the home no root is looked for.
    """
    note_others()
    before, runs = children(), set(open_runs())
    work = _folder / "work"
    work.mkdir(mode=0o700)
    with process_state(clean_environment(_folder) | _environment, work):
        yield
        for number, finish in open_runs().items():
            if number not in runs:  # at the end of the process it would write to what is removed
                finish(None)
    for _ in range(100):  # one that was killed may still have to be waited for by a thread
        left = {pid: command for pid, command in children().items() if pid not in before}
        if not left:
            break
        time.sleep(0.1)
    assert not left, f"the test left processes behind: {left}"
