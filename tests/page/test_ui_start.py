"""`seamark ui` from its start to its end, as processes of their own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import termios

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
psutil = pytest.importorskip("psutil")

from click.testing import CliRunner  # noqa: E402
from command import app  # noqa: E402
from page_process import ask, page_environment, running_page, until  # noqa: E402
from recording import QUIET  # noqa: E402

from seamark.cli import ui as cli_ui  # noqa: E402
from seamark.index.index import Index  # noqa: E402
from seamark.page import roots, start  # noqa: E402
from seamark.run.run import init_run  # noqa: E402


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The folder with the token of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "seamark"


@pytest.fixture
def root(tmp_path):
    """A root with one run."""
    return record(tmp_path / "runs" / ".seamark")


def record(root):
    run = init_run("demo", root=root, **QUIET)
    run.log_metrics({"loss": 0.5}, step=0)
    run.stop()
    return root


def command(*words):
    """Call the command in this process, without a screen; it ends by itself."""
    gone = dict.fromkeys({*os.environ} - {*page_environment()})
    return CliRunner().invoke(app, ["ui", *map(str, words)], env=gone)


def mode(path):
    return path.stat().st_mode & 0o777


@contextlib.contextmanager
def held_index(root):
    """Hold the lock of a root's index, so that a page cannot read the runs."""
    with Index.open(root) as index:
        file = index.file
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        yield
        held.execute("ROLLBACK")


def test_a_page_prints_its_address_before_it_has_read_the_runs_and_ends_well(root, state, tmp_path):
    other = record(tmp_path / "others" / ".seamark")
    with contextlib.ExitStack() as stack:
        with held_index(root):
            page = stack.enter_context(running_page(root))
            assert page.greeting()["roots"]
            assert page.ask("GET", "/")[0] == 200
        page.settle()
        with Index.open(root) as index:
            assert len(index.runs()) == 1
        assert str(root) in page.lines[0]
        token = page.token
        assert len(token) > 40
        assert mode(state) == 0o700
        assert {mode(one) for one in state.iterdir()} == {0o600}
        process = psutil.Process(page.process.pid)
        assert process.children() == []
        assert token not in " ".join(process.cmdline())

        # A notebook gets in with an address that opens the page once.
        assert page.ask("POST", "/open")[0] == 401
        assert page.ask("POST", "/open", **{"X-Seamark-Token": "guessed"})[0] == 401
        status, _, body = page.ask("POST", "/open", known=True)
        assert (status, token.encode() in body) == (200, False)
        for leads_to in (f"../#token={token}", "../"):
            status, headers, _ = page.ask("GET", "/" + json.loads(body)["path"])
            assert (status, headers["location"]) == (303, leads_to)
            assert headers["cache-control"] == "no-store"

        # Of several roots, each once; folders that are named count more than a server.
        several, remote = (root, other, root, "--no-token"), "https://seamark.lab"
        with running_page(*several, SEAMARK_REMOTE=remote) as again:
            assert (again.token, again.port == page.port) == ("", False)
            assert [one["name"] for one in again.greeting()["roots"]] == ["runs", "others"]
            assert [one for one in ("#token", "seamark.lab") if one in str(again.lines)] == []
            assert again.stop(signal.SIGTERM) == 0
        assert command("--print-token").stdout == token + "\n"
        renewed = command("--print-token", "--new-token")
        assert "restart them" in renewed.stderr
        assert renewed.stdout.strip() == roots.keep() != token
        assert page.greeting()["roots"][0]["path"] == str(root)  # it goes on with its own
        assert page.stop(signal.SIGINT) == 0


def test_the_token_is_not_printed_into_a_file_that_others_may_read(tmp_path):
    printed = tmp_path / "job.out"
    started = start.Started("http://127.0.0.1:1/", "seamark_secret", "127.0.0.1", 1)
    for others in (0o644, 0o640, 0o600):
        printed.touch(others)
        printed.chmod(others)
        with printed.open("w") as out, contextlib.redirect_stdout(out):
            said = "\n".join(cli_ui._address_lines(started))
        assert "http://127.0.0.1:1/" in said
        assert ("seamark_secret" in said, "--print-token" in said) == (
            others == 0o600,
            others != 0o600,
        )


def test_a_page_ends_with_its_terminal():
    outer, inner = pty.openpty()

    def take_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who tests under `nohup` has it ignored
        os.setsid()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "seamark", "ui", "--port", "0"],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=page_environment(SEAMARK_REMOTE="https://seamark.lab"),
        preexec_fn=take_terminal,  # noqa: PLW1509 - it makes three calls of the system
    )
    os.close(inner)
    try:
        said = b""
        while b"Ctrl-C" not in said:
            said += os.read(outer, 4096)
        assert b"no runs here yet" in said
        assert b"a server has its own page: https://seamark.lab" in said
        port = int(re.search(rb"127\.0\.0\.1:(\d+)/", said)[1])
        headers = {"X-Seamark-Token": roots.keep()}
        [shown] = json.loads(ask(port, "GET", "/api/v1/", headers)[2])["roots"]
        assert shown["path"].endswith("work/.seamark")
        os.close(outer)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)


def test_a_port_that_is_taken_is_an_error_if_it_was_given(root, monkeypatch):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        found = command(root, "--port", port)
        assert (found.exit_code, found.stdout) == (1, "")
        assert f"--port {port}: another program listens there" in found.stderr
        monkeypatch.setattr(start, "DEFAULT_PORT", port)
        with contextlib.closing(start.bind("127.0.0.1", None)) as mine:
            assert port < mine.getsockname()[1] < port + start.PORTS
        monkeypatch.setattr(start, "PORTS", 1)
        with pytest.raises(start.StartError, match="all in use"):
            start.bind("127.0.0.1", None)
    with pytest.raises(start.StartError, match="does not have that address"):
        start.bind("192.0.2.1", 0)


def test_wrong_roots_are_refused_with_the_one_that_may_be_meant(root, tmp_path):
    run = next(one.name for one in (root / "demo").iterdir())
    cases = {
        (tmp_path / "nowhere",): "does not exist (choose",
        (root.parent,): f"did you mean {root}?",
        (root.parent / "rnus" / ".seamark",): f"does not exist; did you mean {root}?",
        (root, root.parent / "nowhere"): f"does not exist; did you mean {root}?",
        (root / "demo" / run,): f"did you mean {root}?",
        (root, "--host", "0.0.0.0", "--no-token"): "--no-token needs a loopback address",
    }
    for words, said in cases.items():
        found = command(*words)
        assert (found.exit_code in (1, 2), found.stdout) == (True, ""), words
        assert said in found.stderr


def test_the_folder_of_the_token_is_closed_to_others(state):
    state.mkdir(parents=True)
    state.chmod(0o777)
    kept = roots.keep()
    assert mode(state) == 0o700
    assert roots.keep() == kept
    if os.geteuid() == 0:
        os.chown(state, 54321, -1)
        found = command("--print-token")
        assert (found.exit_code, found.stdout) == (1, "")
        assert f"{state} belongs to uid 54321, not to " in found.stderr
        assert "set XDG_STATE_HOME to another folder" in found.stderr
        os.chown(state, 0, -1)
    assert roots.keep() == kept


@pytest.mark.thorough
def test_an_index_that_cannot_be_written_is_in_a_temporary_folder(root, tmp_path, monkeypatch):
    """Several connections share it, so that it cannot be in memory; it is gone after the page."""
    target = tmp_path / "index"
    target.write_text("a file where the folder of the index should be")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running_page(root, SEAMARK_INDEX=str(target), TMPDIR=str(temporary)) as page:
        [place] = temporary.glob("seamark-page-*")
        assert mode(place) == 0o700
        monkeypatch.setenv("SEAMARK_INDEX", str(place))
        with Index.open(root) as index:
            until(index.runs)
        assert page.stop() == 0
    until(lambda: not [*temporary.iterdir()])


def run_without(modules, code):
    """Run code in a process where some modules cannot be imported."""
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({modules}))\n"
    given = {"env": page_environment(), "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([sys.executable, "-c", hidden + code], check=False, **given)


def test_a_page_needs_the_extra_ui_and_no_more():
    code = 'from seamark.cli import main\nsys.exit(main(["ui", "--port", "0"]))'
    found = run_without(["fastapi", "uvicorn"], code)
    assert found.returncode == 2
    assert "needs fastapi, uvicorn" in found.stderr
    assert 'pip install "seamark[ui]"' in found.stderr
    others = ["alembic", "psycopg", "torch", "pandas", "matplotlib", "PIL"]
    code = "import seamark.page.app, seamark.page.start, seamark.page.watch\n"
    assert run_without(others, code).returncode == 0
