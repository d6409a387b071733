"""`seamark ui` from its start to its end, as processes of their own."""

from __future__ import annotations

import contextlib
import fcntl
import io
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
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
psutil = pytest.importorskip("psutil")

from page_process import ask, page_environment, running_page, until  # noqa: E402
from process_status import has_ended  # noqa: E402
from recording import QUIET  # noqa: E402

from seamark.cli import main  # noqa: E402
from seamark.index.index import Index  # noqa: E402
from seamark.page import running, start  # noqa: E402
from seamark.page.roots import named_roots  # noqa: E402
from seamark.run.run import init_run  # noqa: E402


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Where the token of this test is kept."""
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


def command(*words, out=None):
    """Call the command in this process, without a screen; it ends by itself."""
    found = page_environment()
    out, err = out or io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(found):
            patch.delenv(name)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["ui", *map(str, words)])
    said = out.getvalue() if isinstance(out, io.StringIO) else ""
    return subprocess.CompletedProcess(words, code, said, err.getvalue())


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_page_starts_once_for_its_user_and_ends_well(root, state):
    """It prints its address, keeps its token for its user, is found again, and leaves nothing."""
    with running_page(root) as page:
        assert page.greeting()["instance"]
        assert str(root) in page.lines[0]
        token = page.token
        assert len(token) > 40
        assert [mode(one) for one in (state, state / "pages")] == [0o700, 0o700]
        noted = [*state.glob("*.json"), *(state / "pages").glob("*.json")]
        assert [mode(one) for one in noted] == [0o600, 0o600]
        [watcher] = until(page.watchers)
        for pid in (page.process.pid, watcher):
            assert token not in " ".join(psutil.Process(pid).cmdline())

        tickets_open_it_once(page)
        again = command(root)  # the root is the same, whatever it is called
        assert again.returncode == 0, again.stderr
        assert f"http://127.0.0.1:{page.port}/#token={token}" in again.stdout
        assert "runs already" in again.stdout
        assert len([*(state / "pages").iterdir()]) == 1
        refused = command(root, "--new-token")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"port {page.port}" in refused.stderr
        assert command("--print-token").stdout == token + "\n"
        the_token_is_not_printed_into_a_file_of_others(page, root)

        assert page.stop(signal.SIGINT) == 0
        until(lambda: has_ended(watcher))
        assert [*(state / "pages").iterdir()] == []
    renewed = command("--print-token", "--new-token").stdout.strip()
    assert renewed != token
    assert running.keep().token == renewed


def tickets_open_it_once(page):
    """A notebook gets in with an address that is worth nothing once it was used."""
    assert page.ask("POST", "/open")[0] == 401
    assert page.ask("POST", "/open", {"X-Seamark-Token": "guessed"})[0] == 401
    status, _, body = page.ask("POST", "/open", {"X-Seamark-Token": page.token})
    assert (status, page.token.encode() in body) == (200, False)
    path = "/" + json.loads(body)["path"]
    status, headers, _ = page.ask("GET", path)
    assert (status, headers["location"]) == (303, f"../#token={page.token}")
    assert headers["cache-control"] == "no-store"
    status, headers, _ = page.ask("GET", path)
    assert (status, headers["location"]) == (303, "../")


def the_token_is_not_printed_into_a_file_of_others(page, root):
    """What a job prints goes into a file that everybody may read; the token is asked for then."""
    printed = Path("job.out")
    for others in (0o644, 0o640, 0o600):
        printed.touch(others)
        printed.chmod(others)
        with printed.open("w") as out:
            assert command(root, out=out).returncode == 0
        said = printed.read_text()
        assert f"http://127.0.0.1:{page.port}/" in said
        assert (page.token in said) == (others == 0o600)
        assert ("--print-token" in said) == (others != 0o600)


def test_a_page_ends_with_its_terminal():
    """Who closes the terminal ends it, and what looks for it; no folder need be there to begin."""
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
        headers = {"X-Seamark-Token": running.keep().token}
        [shown] = json.loads(ask(port, "GET", "/api/v1/", headers)[2])["roots"]
        assert shown["path"].endswith("work/.seamark")
        [watcher] = until(psutil.Process(process.pid).children)
        os.close(outer)
        assert process.wait(60) == 0
        until(lambda: has_ended(watcher.pid))
    finally:
        process.kill()
        process.wait(60)


def test_what_a_killed_page_leaves_is_no_page(root, state):
    """The next start takes no notice of its file, nor of who has its port by then."""
    with running_page(root) as page:
        [watcher] = until(page.watchers)
        page.process.kill()
        page.process.wait(60)
        until(lambda: has_ended(watcher))
    [left] = (state / "pages").iterdir()
    assert running.find_page(named_roots([root])) is None
    assert not left.exists()


def test_a_file_says_nothing_without_the_process(root, state):
    """A page is one that its process, and an answer at its port, say so."""
    roots = named_roots([root])
    with contextlib.closing(start.bind("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        page = running.page_at(roots, "127.0.0.1", port, "me", token=True, embed=False)
        running._ANSWER_S, kept = 0.05, running._ANSWER_S
        try:
            with running.noted(page):
                assert [one.port for one in running.pages()] == [port]
                assert running.find_page(roots) is None  # it listens, and never answers
        finally:
            running._ANSWER_S = kept
    for text in ("", "[]", "{}", '{"roots": 1}', "\0"):
        place = state / "pages" / f"{running.host_name()}.1.json"
        place.write_text(text)
        place.chmod(0o600)
        assert list(running.pages()) == []


def test_a_port_given_by_hand_is_taken_or_an_error(root, monkeypatch):
    """Without one, the next that is free is taken."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        found = command(root, "--port", port)
        assert (found.returncode, found.stdout) == (1, "")
        assert f"--port {port}: another program listens there" in found.stderr
        monkeypatch.setattr(start, "DEFAULT_PORT", port)
        with contextlib.closing(start.bind("127.0.0.1", None)) as mine:
            assert port < mine.getsockname()[1] < port + start.PORTS
        monkeypatch.setattr(start, "PORTS", 1)
        with pytest.raises(start.StartError, match="all taken"):
            start.bind("127.0.0.1", None)
    with pytest.raises(start.StartError, match="does not have that address"):
        start.bind("192.0.2.1", 0)


def test_what_is_no_root_is_refused(root, tmp_path):
    """As other commands do, with the root that may be meant; and no page is open to strangers."""
    run = next(one.name for one in (root / "demo").iterdir())
    cases = {
        (tmp_path / "nowhere",): "does not exist (choose",
        (root.parent,): f"did you mean {root}?",
        (root.parent / "rnus" / ".seamark",): f"does not exist; did you mean {root}?",
        (root, root.parent / "nowhere"): f"does not exist; did you mean {root}?",
        (root / "demo" / run,): f"did you mean {root}?",
        (root, "--host", "0.0.0.0", "--no-token"): "--no-token is for this machine alone",
    }
    for words, said in cases.items():
        found = command(*words)
        assert (found.returncode in (1, 2), found.stdout) == (True, ""), words
        assert said in found.stderr


def test_the_token_is_kept_where_nobody_else_is(state):
    """A folder that others could look into is closed to them; one of another user is refused."""
    (state / "pages").mkdir(parents=True)
    for one in (state, state / "pages"):
        one.chmod(0o777)
    kept = running.keep()
    assert [mode(one) for one in (state, state / "pages")] == [0o700, 0o700]
    assert running.keep() == kept
    if os.geteuid() == 0:
        for one in (state, state / "pages"):
            os.chown(one, 54321, -1)
            found = command("--print-token")
            assert (found.returncode, found.stdout) == (1, "")
            assert f"{one} belongs to uid 54321, not to " in found.stderr
            assert "name another folder with XDG_STATE_HOME" in found.stderr
            os.chown(one, 0, -1)
    assert running.keep() == kept


def test_several_roots_are_one_page(root, tmp_path):
    """Each once, with a name of its own; without a token, none is printed; SIGTERM ends it well."""
    other = record(tmp_path / "others" / ".seamark")
    given = {"SEAMARK_REMOTE": "https://seamark.lab"}  # folders that are named count more
    with running_page(root, other, root, "--no-token", **given) as page:
        assert "seamark.lab" not in "\n".join(page.lines)
        assert [one["name"] for one in page.greeting()["roots"]] == ["runs", "others"]
        assert "#token" not in "\n".join(page.lines)
        assert page.stop(signal.SIGTERM) == 0


def test_it_answers_before_the_first_fold_has_ended(root):
    """The index is held by another process here, so that the fold cannot end."""
    with Index.open(root) as index:
        file = index.file
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        with running_page(root) as page:
            assert page.greeting()["roots"]
            assert page.ask("GET", "/")[0] == 200
            held.execute("ROLLBACK")
            with Index.open(root) as index:
                until(index.runs)


@pytest.mark.thorough
def test_where_no_index_can_be_written_it_lies_in_a_temporary_folder(root, tmp_path, monkeypatch):
    """Two processes share it, so that it cannot be in memory; it is gone after the page."""
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


WITHOUT = """
import runpy, sys
for name in {names}:
    sys.modules[name] = None
sys.argv = ["seamark", "ui", "--port", "0"]
runpy.run_module("seamark", run_name="__main__", alter_sys=True)
"""


def test_what_is_missing_is_named_with_its_extra():
    """Who has only the core is told what to install."""
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=["fastapi", "uvicorn"])],
        env=page_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 2
    assert "needs fastapi, uvicorn" in found.stderr
    assert 'pip install "seamark[ui]"' in found.stderr


def test_a_page_needs_nothing_of_a_server_but_its_extra():
    """Neither PostgreSQL nor what changes the tables of accounts is in the extra."""
    names = ["alembic", "psycopg", "torch", "pandas", "matplotlib", "PIL"]
    code = f"import sys\nfor name in {names}:\n    sys.modules[name] = None\n"
    code += "import seamark.page.app, seamark.page.start, seamark.page.looking\n"
    subprocess.run([sys.executable, "-c", code], env=page_environment(), timeout=120, check=True)
