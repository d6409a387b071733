"""The supervisor: what a server checks, prints, survives, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
import urllib3

pytest.importorskip("fastapi")

from asking import ask
from process_status import has_ended
from recording import QUIET
from server_process import start_server

from seamark import init_run
from seamark.cli import main
from seamark.errors import ArgumentError
from seamark.journal.folder import RunFolder
from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import RunKey, Unreachable
from seamark.remote.sync import sync_run, unsent_data
from seamark.server import checks, run
from seamark.server.accounts import tables as account_tables
from seamark.server.checks import alone
from seamark.server.databases import SchemaNewer, open_databases
from seamark.server.folding.refold import refold_server
from seamark.server.settings import Settings
from seamark.store import schema


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A server that was started with an umask that hides nothing; no test ends it."""
    old = os.umask(0)
    try:
        server = start_server(tmp_path_factory.mktemp("started") / "server")
    finally:
        os.umask(old)
    with contextlib.closing(server.process.stdout):
        yield server
        server.stop()


def test_a_server_says_what_it_is_to_everybody(started):
    """The greeting needs no token; the token that was printed is an admin's."""
    said = ask(started.url, "GET", "").json()
    assert (said["api"], said["journal"], said["login"]) == (1, [1, 0], "account")
    assert said["limits"]["batch_bytes"] == 8 << 20
    assert ask(started.url, "GET", "accounts/me", started.token).json()["admin"]


@pytest.mark.thorough
def test_it_runs_on_postgresql(run_server, postgresql_url):
    """Its token is an admin's there too."""
    server = run_server(store=postgresql_url)
    assert ask(server.url, "GET", "accounts/me", server.token).json()["admin"]


def test_nobody_else_can_read_what_it_keeps(started):
    """Folders 0700 and files 0600, whatever the umask; and no secret is in any file."""
    found = [started.folder, *started.folder.rglob("*")]
    assert len(found) > 3
    for path in found:
        with contextlib.suppress(FileNotFoundError):  # as the log of a database that was closed
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
            assert path.is_dir() or started.token.encode() not in path.read_bytes()


def test_a_second_server_on_one_folder_is_refused(started, tmp_path, capsys):
    """SQLite takes one, however its folder is spelled; the first one goes on undisturbed."""
    (tmp_path / "link").symlink_to(started.folder)
    assert main(["server", "--folder", str(tmp_path / "link"), "--port", "0"]) != 0
    (said,) = capsys.readouterr().err.splitlines()
    assert "--store: a server runs on" in said
    assert f"(process {started.process.pid})" in said
    assert "use that one, or stop it" in said
    with pytest.raises(checks.CannotStart, match="stop it before what it keeps is made again"):
        refold_server(Settings.at(started.folder), objects=True)
    assert ask(started.url, "GET", "accounts/me", started.token).status == 200


def test_after_a_kill_it_is_started_again_with_its_name_and_no_second_token(run_server):
    """Whoever kills only the one that was started leaves no process behind, and no lock.

    Started again in the same folder it is the same server, and its tokens go on; told to end, it
    ends well.
    """
    first = run_server()
    instance = ask(first.url, "GET", "").json()["instance"]
    until(lambda: len(first.workers()) == 2)
    before = first.workers()
    first.process.kill()
    first.process.wait(30)
    until(lambda: all(map(has_ended, before)))
    with alone(Settings.at(first.folder)):
        pass
    second = run_server()
    assert second.token == ""
    assert ask(second.url, "GET", "").json()["instance"] == instance
    assert ask(second.url, "GET", "accounts/me", first.token).status == 200
    assert second.stop() == 0


def begin_request(url, body):
    """Send the headers of a request and half of its body."""
    host, _, port = url.removeprefix("http://").partition(":")
    wire = socket.create_connection((host, int(port)), timeout=60)
    head = (
        f"POST /api/v1/accounts/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    wire.sendall(head.encode())
    assert b"100 Continue" in wire.recv(4096)  # a route reads the body by now
    wire.sendall(body[: len(body) // 2])
    return wire


@pytest.mark.thorough
def test_what_was_accepted_is_finished(run_server):
    """A request in flight is answered after SIGTERM; new ones are not taken; exit code 0."""
    server = run_server()
    body = b'{"label": "in flight"}'
    with begin_request(server.url, body) as wire:
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)  # it waits for the request
        wire.sendall(body[len(body) // 2 :])
        assert b"401 Unauthorized" in wire.recv(4096)
    assert server.process.wait(60) == 0


@pytest.mark.thorough
def test_a_second_signal_ends_it_at_once(run_server):
    """Also with a request in flight."""
    server = run_server()
    with begin_request(server.url, b"{" + b" " * 100):
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)
        server.process.send_signal(signal.SIGINT)
        server.process.wait(30)


def until(condition):
    """Wait for what other processes do."""
    waiting = threading.Event()
    for _ in range(2400):
        if condition():
            return
        waiting.wait(0.025)
    pytest.fail("it did not happen")


@pytest.mark.thorough
def test_what_dies_is_started_again(run_server):
    """Every process but the supervisor may be killed."""
    server = run_server()
    until(lambda: len(server.workers()) == 2)
    before = server.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(server.workers()) == 2 and not set(before) & set(server.workers()))
    assert ask(server.url, "GET", "accounts/me", server.token).status == 200
    assert sum("SIGKILL" in line for line in server.lines) == 2


def failing(folder, *options, **rest):
    """Start a server that cannot start; return the one line that it says."""
    with pytest.raises(RuntimeError) as error:
        start_server(folder, *options, **rest)
    said = str(error.value).removeprefix("the server did not start: ")
    assert len(said.splitlines()) == 1, said
    assert "Traceback" not in said
    return said


@pytest.mark.thorough
def test_one_line_says_what_is_wrong(tmp_path):
    """Each trouble at the start names the option and what to do; nothing is left running."""
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    file = tmp_path / "file"
    file.write_text("")
    with taken:
        for options, rest, words in (
            (("--port", port), {}, f"--port {port}: another program listens there already"),
            ((), {"store": "mysql://x"}, "postgresql://"),
            (
                (),
                {"store": "postgresql://nobody@127.0.0.1:1/none"},
                "database cannot be reached",
            ),
            (("--blobs", (file / "x").as_uri()), {}, "--blobs: the folder"),
            (("--host", "192.0.2.1", "--insecure"), {}, "this machine does not have that address"),
            (("--workers", "2"), {}, "SQLite takes one process"),
            (("--host", "0.0.0.0"), {}, "--tls-cert"),
            (("--auth", "ldap"), {}, "offers 'ldap'"),
        ):
            assert words in failing(tmp_path / "server", *options, **rest)


@pytest.mark.thorough
def test_a_lost_database_is_noticed_before_anything_is_sent(run_server, tmp_path):
    """Journals that no table knows are taken up again, or nothing starts beside them."""
    folder = tmp_path / "server"
    server = run_server(folder)
    run = init_run("team", root=tmp_path / "runs", **QUIET)
    run["lr"] = 0.5
    run.stop()
    journals = RunFolder(tmp_path / "runs", "team", run.id)
    with contextlib.closing(open_remote(server.url, server.token)) as remote:
        assert sync_run(unsent_data(journals, remote), remote).problems == []
        known = remote.journals(RunKey("team", run.id))
    server.stop()
    for file in folder.glob("kept.db*"):
        file.unlink()
    again = run_server(folder)
    with contextlib.closing(open_remote(again.url, server.token)) as remote:
        assert remote.journals(RunKey("team", run.id)) == known
    again.stop()
    for file in folder.glob("*.db*"):
        file.unlink()
    assert "seamark server refold --objects" in failing(folder)


def test_a_missing_extra_is_named(tmp_path):
    """Who has installed Seamark alone is told how to get the server."""
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'fastapi' else find(name, *a)\n"
        "from seamark.cli import main\n"
        "sys.exit(main(['server']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "seamark[server]"' in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_cert": Path("cert.pem")}, "belong together"),
        ({"tls_cert": Path("no.pem"), "tls_key": Path("no.pem")}, "--tls-cert: 'no.pem' cannot be"),
        ({"proxies": ("nginx",)}, "--proxy: expected an address"),
        ({"workers": 0}, "--workers: expected 1 to"),
        ({"fold_workers": 0}, "--fold-workers: expected 1 to"),
        ({"host": "10.0.0.5"}, "tokens would cross the network in the clear"),
        ({"host": "::"}, "tokens would cross the network in the clear"),
        ({"host": "seamark.lab"}, "tokens would cross the network in the clear"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, options, words):
    """Before anything is opened."""
    settings = Settings.at(tmp_path, "postgresql://x", **options)
    with pytest.raises(ArgumentError, match=re.escape(words)):
        checks.check_settings(settings)


@pytest.mark.parametrize(
    ("options", "insecure"),
    [
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"host": "10.0.0.5", "proxies": ("10.0.0.1", "10.1.0.0/16")}, False),
        ({"host": "0.0.0.0"}, True),
        ({"workers": 8}, False),
    ],
)
def test_settings_that_work_are_taken(tmp_path, options, insecure):
    """This machine alone; a named proxy; what somebody asked for by name."""
    settings = Settings.at(tmp_path, "postgresql://x", **options)
    checks.check_settings(settings, insecure=insecure)
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.slow
def test_several_workers_answer_on_one_port(run_server, postgresql_url):
    """And a revocation in one of them is known to the others within seconds."""
    server = run_server(None, "--workers", "3", store=postgresql_url)
    made = ask(server.url, "POST", "accounts/tokens", server.token, {"label": "x"}).json()["token"]
    for _ in range(12):
        assert ask(server.url, "GET", "accounts/me", made).status == 200
    assert ask(server.url, "DELETE", f"accounts/tokens/{made[:16]}", server.token).status == 200

    def refused():  # as wrong, and after some as too often wrong
        return {ask(server.url, "GET", "accounts/me", made).status for _ in range(12)} <= {401, 429}

    until(refused)


FORWARDED = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}


def address_in_audit(server, headers):
    """Return from where the server believes that it was asked."""
    made = ask(server.url, "POST", "accounts/tokens", server.token, {}, headers)
    assert made.status == 201
    row = ask(server.url, "GET", "accounts/audit?limit=1", server.token).json()["audit"][0]
    assert row["subject"] == made.json()["id"]
    return row["address"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(("--proxy", "127.0.0.1"), "203.0.113.9", marks=pytest.mark.thorough),
        (("--proxy", "127.0.0.0/8"), "203.0.113.9"),
        pytest.param(("--proxy", "10.0.0.1"), "127.0.0.1", marks=pytest.mark.slow),
    ],
)
def test_only_a_named_proxy_says_who_asks(run_server, options, expected):
    """Nobody hides behind an address that they made up, also not in front of a real one."""
    server = run_server(None, *options)
    assert address_in_audit(server, FORWARDED) == expected


def test_nobody_says_who_asks_where_no_proxy_is_named(started):
    """Not even somebody on the machine itself."""
    assert address_in_audit(started, FORWARDED) == "127.0.0.1"


def test_it_speaks_tls_itself(run_server, tmp_path, monkeypatch):
    """With a certificate of its own; plain HTTP on that port gets no answer."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=seamark.lab"
    alt = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make.split(), *alt, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    server = run_server(None, "--tls-cert", str(cert), "--tls-key", str(key))
    assert server.url.startswith("https://127.0.0.1:")
    with urllib3.PoolManager(ca_certs=str(cert), retries=False) as pool:
        assert pool.request("GET", f"{server.url}/api/v1/").status == 200
    key = RunKey("team", "run1")
    with (
        contextlib.closing(open_remote(server.url, server.token)) as remote,
        pytest.raises(Unreachable, match=r"(?i)certificate"),
    ):
        remote.journals(key)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with contextlib.closing(open_remote(server.url, server.token)) as remote:
        assert dict(remote.journals(key)) == {}
    other = server.url.replace("127.0.0.1", "localhost")  # which the certificate does not name
    with (
        contextlib.closing(open_remote(other, server.token)) as remote,
        pytest.raises(Unreachable, match=r"(?i)certificate"),
    ):
        remote.journals(key)
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(server.url.replace("https", "http"), "GET", "")
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(urllib3.exceptions.SSLError):
        ask(server.url, "GET", "")


def test_a_port_that_is_taken_costs_no_token(tmp_path, monkeypatch):
    """The token of the first admin is shown once: not before somebody can see it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings.at(tmp_path / "server", None, None, port=taken.getsockname()[1])
        monkeypatch.setattr(checks, "_TAKEN_S", 0)
        with pytest.raises(checks.CannotStart, match="--port"):
            run.serve(settings, str)
    assert run.prepare(settings).token


def test_a_port_is_waited_for_while_workers_of_a_killed_server_end():
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    threading.Timer(0.5, taken.close).start()
    with contextlib.closing(checks.bind("127.0.0.1", port)) as made:
        assert made.getsockname()[1] == port


@pytest.mark.parametrize("name", ["", "lab.db"])
def test_each_set_of_files_has_a_lock_of_its_own(tmp_path, name):
    """Where databases are named by a file, two of them in one folder are two servers."""
    settings = Settings.at(tmp_path, f"sqlite:///{tmp_path / name}")
    other = Settings.at(tmp_path, f"sqlite:///{tmp_path / 'other.db'}")
    with alone(settings), alone(other):
        for each in (settings, other):
            with pytest.raises(checks.CannotStart, match="a server runs"), alone(each):
                pass
    assert all(path.is_file() for path in tmp_path.iterdir())
    with alone(settings):
        pass


def test_several_servers_may_share_a_postgresql(tmp_path):
    """They may be on several machines; nothing is locked."""
    settings = Settings.at(tmp_path, "postgresql://seamark@db/seamark")
    with alone(settings), alone(settings):
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def prepared(account_url, tmp_path):
    """Databases of a server that was started once."""
    settings = Settings.at(tmp_path / "server", account_url)
    first = run.prepare(settings)
    assert first.notes == ()
    databases = open_databases(settings.store)
    yield settings, databases
    databases.close()


def test_a_clock_that_cannot_be_right_is_told(prepared):
    """That of the database beside ours; and ours beside what was written down before."""
    settings, databases = prepared
    for off_s in (-3600.0, 3600.0, -30.0, 30.0):
        said = checks.check_clock(databases, lambda: time.time() + off_s)  # noqa: B023
        if off_s in (-30.0, 30.0):
            assert said == ""
        elif settings.is_sqlite:
            assert ("behind what this server has written down" in said) == (off_s < 0)
        else:
            ahead = "ahead of" if off_s < 0 else "behind"
            assert re.search(rf"the clock of the database is 3[56]\d\d s {ahead}", said)
        assert not said or ("set" in said and "NTP" in said)
    with databases.account.writing() as connection:
        later = time.time_ns() + 7200 * 10**9
        connection.execute(sa.update(account_tables.user).values(created_ns=later))
    note = run.prepare(settings).notes
    assert len(note) == 1
    assert "s behind what this server has written down already" in note[0]
    shown = run.started_words(settings, run.Prepared(None, note), "http://127.0.0.1:8400")
    assert any(note[0] in line for line in shown)


def test_tables_of_a_newer_version_are_refused(prepared):
    """Those of accounts and those that are folded, each in a sentence that says what to do."""
    settings, databases = prepared
    newer = int(schema.SCHEMA_VERSION) + 1
    with databases.kept.writing() as connection:
        connection.execute(sa.text(f"UPDATE live SET version = {newer}"))
    with pytest.raises(SchemaNewer, match=r"folded by a newer Seamark .* update this Seamark"):
        run.prepare(settings)
    with databases.kept.writing() as connection:
        connection.execute(sa.text(f"UPDATE live SET version = {schema.SCHEMA_VERSION}"))
    assert run.prepare(settings).token is None
    with databases.account.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaNewer, match=r"changed by a newer Seamark .* update this Seamark"):
        run.prepare(settings)


@pytest.mark.parametrize("what", ["--store", "--blobs"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, what):
    """Also one that is there: a disk may be mounted for reading only."""
    place = Path("/proc/self")  # nobody makes a file there, whoever they are
    given = {"store": f"sqlite:///{place}"} if what == "--store" else {"blobs": place.as_uri()}
    settings = Settings.at(tmp_path, **given)
    with pytest.raises(checks.CannotStart, match=f"{what}: the folder '/proc/self' cannot be"):
        run.prepare(settings)
    with pytest.raises(checks.CannotStart, match=f"{what}: the folder '/proc/self' cannot be"):
        run.serve(dataclasses.replace(settings, port=0), str)
