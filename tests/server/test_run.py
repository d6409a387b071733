"""The supervisor: what a server checks, prints, survives, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import urllib3
from asking import ask
from process_status import has_ended
from recording import QUIET
from server_waits import until

import seamark
from seamark.cli import main
from seamark.errors import ArgumentError
from seamark.remote import shipper as shippers
from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import RunKey, Unreachable
from seamark.server import checks, run
from seamark.server.checks import lock_server
from seamark.server.databases import open_databases
from seamark.server.folding.refold import refold_server
from seamark.server.settings import Settings


def test_server_keeps_its_folder_to_itself(run_server, tmp_path, capsys):
    """From other users, whatever the umask, and from a second server, however it is spelled."""
    before = os.umask(0)
    try:
        server = run_server()
    finally:
        os.umask(before)
    greeting = ask(server.url, "GET", "").json()
    assert (greeting["api"], greeting["journal"], greeting["login"]) == (1, [1, 0], "account")
    assert greeting["limits"]["batch_bytes"] == 8 << 20
    assert address_in_audit(server) == "127.0.0.1"  # no proxy is named: no header is believed
    found = [server.folder, *server.folder.rglob("*")]
    assert len(found) > 3
    for path in found:
        with contextlib.suppress(FileNotFoundError):  # as the log of a database that was closed
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
            assert path.is_dir() or server.token.encode() not in path.read_bytes()
    (tmp_path / "link").symlink_to(server.folder)
    assert main(["server", "--folder", str(tmp_path / "link"), "--port", "0"]) != 0
    (said,) = capsys.readouterr().err.splitlines()
    assert "--store: a server already runs on" in said
    assert f"(process {server.process.pid})" in said
    assert "use that server, or stop it" in said
    with pytest.raises(checks.CannotStart, match="stop it before the tables are rebuilt"):
        refold_server(Settings.at(server.folder), objects=True)
    assert ask(server.url, "GET", "accounts/me", server.token).json()["admin"]


def test_killed_server_loses_nothing_and_is_started_again(run_server, tmp_path):
    """As the same one, whose tokens go on; no process and no lock is left behind."""
    first = run_server()
    instance = ask(first.url, "GET", "").json()["instance"]
    given = {"remote": first.url, "api_token": first.token, **QUIET}
    training = seamark.init_run("lab/z", root=tmp_path / "root", **given)
    for step in range(50):
        training.log_metrics({"loss": 1.0}, step=step)
    assert shippers.flush(first.url, 60)
    until(lambda: len(first.workers()) == 2)
    killed = set(first.workers())
    for pid in killed:  # whoever of them dies is started again
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(first.workers()) == 2 and not killed & set(first.workers()))
    assert ask(first.url, "GET", "accounts/me", first.token).status == 200
    assert sum("SIGKILL" in line for line in first.lines) == 2
    before = first.workers()
    first.process.kill()
    first.process.wait(30)
    until(lambda: all(map(has_ended, before)))
    with lock_server(Settings.at(first.folder)):
        pass
    for step in range(50, 100):
        training.log_metrics({"loss": 1.0}, step=step)
    second = run_server(None, "--port", first.url.rpartition(":")[2])
    assert second.token == ""
    assert ask(second.url, "GET", "").json()["instance"] == instance
    assert ask(second.url, "GET", "accounts/me", first.token).status == 200
    training.stop()
    with contextlib.closing(open_remote(second.url, first.token)) as remote:
        sent = remote.journals(RunKey("lab/z", training.id))
    recorded = training.folder.journals()
    assert sent == {each.path.name: each.path.stat().st_size for each in recorded}
    shippers._shippers.clear()
    assert second.stop() == 0


@contextlib.contextmanager
def begun_request(url, body):
    """Give a connection whose request is half sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = (
        f"POST /api/v1/accounts/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(head.encode())
        assert b"100 Continue" in wire.recv(4096)  # a route reads the body by now
        wire.sendall(body[: len(body) // 2])
        yield wire


@pytest.mark.thorough
def test_first_signal_lets_requests_finish_and_a_second_ends_the_server_at_once(run_server):
    server, body = run_server(), b'{"label": "in flight"}'
    with begun_request(server.url, body) as wire:
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)  # it waits for the request
        wire.sendall(body[len(body) // 2 :])
        assert b"401 Unauthorized" in wire.recv(4096)
    assert server.process.wait(60) == 0
    server = run_server()
    with begun_request(server.url, body):
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)
        server.process.send_signal(signal.SIGINT)
        server.process.wait(30)


def test_missing_server_extra_is_named(monkeypatch, capsys):
    find = importlib.util.find_spec

    def found(name, *rest):
        return None if name == "fastapi" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    assert main(["server"]) == 2
    assert 'pip install "seamark[server]"' in capsys.readouterr().err


IN_THE_CLEAR = "tokens would be sent unencrypted"
REFUSED = [
    ({"tls_cert": Path("cert.pem")}, "must be used together"),
    ({"tls_cert": Path("no.pem"), "tls_key": Path("no.pem")}, "--tls-key no.pem: expected a"),
    ({"proxies": ("nginx",)}, "--proxy: expected an address"),
    *(({"host": host}, IN_THE_CLEAR) for host in ("10.0.0.5", "::", "seamark.lab")),
]
TAKEN = [
    ({"host": "localhost"}, False),
    ({"host": "::1"}, False),
    ({"host": "10.0.0.5", "proxies": ("10.0.0.1", "10.1.0.0/16")}, False),
    ({"host": "0.0.0.0"}, True),
    ({"workers": 8}, False),
]


def test_settings_that_cannot_work_are_refused(tmp_path):
    for options, words in REFUSED:
        with pytest.raises(ArgumentError, match=re.escape(words)):
            checks.check_settings(Settings.at(tmp_path, "postgresql://x", **options))
    for options, insecure in TAKEN:
        settings = Settings.at(tmp_path, "postgresql://x", **options)
        checks.check_settings(settings, insecure=insecure)
        assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.slow
def test_workers_share_a_port_and_learn_of_revocations(run_server, postgresql_url):
    server = run_server(None, "--workers", "3", "--proxy", "10.0.0.1", store=postgresql_url)
    assert address_in_audit(server) == "127.0.0.1"
    made = ask(server.url, "POST", "accounts/tokens", server.token, {"label": "x"}).json()["token"]
    for _ in range(12):
        assert ask(server.url, "GET", "accounts/me", made).status == 200
    assert ask(server.url, "DELETE", f"accounts/tokens/{made[:16]}", server.token).status == 200

    def refused():  # as wrong, and after some as too often wrong
        return {ask(server.url, "GET", "accounts/me", made).status for _ in range(12)} <= {401, 429}

    until(refused)


FORWARDED = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}


def address_in_audit(server, **pool):
    """Return from where the server believes that it was asked, with an address made up."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with urllib3.PoolManager(retries=False, headers=headers, **pool) as asks:
        at = f"{server.url}/api/v1/accounts"
        made = asks.request("POST", f"{at}/tokens", json={}, headers=headers | FORWARDED)
        assert made.status == 201
        (row,) = asks.request("GET", f"{at}/audit?limit=1").json()["audit"]
    assert row["subject"] == made.json()["id"]
    return row["address"]


def test_server_with_a_certificate_answers_tls_alone(run_server, tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=seamark.lab"
    alt = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make.split(), *alt, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--proxy", "127.0.0.0/8")
    server = run_server(None, *options)
    assert server.url.startswith("https://127.0.0.1:")
    with urllib3.PoolManager(ca_certs=str(cert), retries=False) as pool:
        assert pool.request("GET", f"{server.url}/api/v1/").status == 200
    assert address_in_audit(server, ca_certs=str(cert)) == "203.0.113.9"

    def journals(url):
        with contextlib.closing(open_remote(url, server.token)) as remote:
            return dict(remote.journals(RunKey("team", "run1")))

    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        journals(server.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    assert journals(server.url) == {}
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        journals(server.url.replace("127.0.0.1", "localhost"))  # which it does not name
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(server.url.replace("https", "http"), "GET", "")


def test_taken_port_does_not_use_up_the_first_token(tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings.at(tmp_path / "server", None, None, port=taken.getsockname()[1])
        monkeypatch.setattr(checks, "_PORT_RETRY_S", 0)
        with pytest.raises(checks.CannotStart, match="--port"):
            run.serve(settings, str)
    assert run.prepare(settings)


def test_folder_takes_one_server_and_a_postgresql_several(tmp_path):
    settings = Settings.at(tmp_path, f"sqlite:///{tmp_path / 'one'}")
    other = Settings.at(tmp_path, f"sqlite:///{tmp_path / 'other'}")
    with lock_server(settings), lock_server(other):
        for each in (settings, other):
            with (
                pytest.raises(checks.CannotStart, match="a server already runs"),
                lock_server(each),
            ):
                pass
    with lock_server(settings):
        pass
    shared = Settings.at(tmp_path / "shared", "postgresql://seamark@db/seamark")
    with lock_server(shared), lock_server(shared):
        assert not (tmp_path / "shared").exists()


def test_folder_that_cannot_hold_a_database_or_objects_is_named(tmp_path, monkeypatch):
    place = Path("/proc/self")  # nobody makes a file there, whoever they are
    for given in ({"store": f"sqlite:///{place}"}, {"blobs": place.as_uri()}):
        settings = Settings.at(tmp_path, **given)
        words = f"--{next(iter(given))}: cannot write to the folder '/proc/self'"
        with pytest.raises(checks.CannotStart, match=words):
            run.prepare(settings)
        with pytest.raises(checks.CannotStart, match=words):
            run.serve(dataclasses.replace(settings, port=0), str)
    # SQLite loses data on a network file system.
    mounts = [("/", "nfs4"), (str(tmp_path), "ext4"), (f"{tmp_path}/net", "nfs4")]
    found = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: found)  # noqa: A006
    with pytest.raises(ArgumentError, match=r"network file system \(nfs4\)"):
        open_databases(f"sqlite:///{tmp_path}/net/server")
    open_databases(f"sqlite:///{tmp_path}/network").close()


PROCESSES = 12


WAITS = """
import os, signal, sys
from seamark.server.run import _stop_event
for _ in range(int(sys.argv[1])):
    waits, tell = os.pipe()
    if not (child := os.fork()):
        signal.alarm(60)  # ends one that would wait for ever
        stop = _stop_event()
        os.write(tell, b"w")
        while not stop.wait(0):
            pass
        os._exit(0)
    os.close(tell)
    os.read(waits, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitpid(child, 0)[1])
"""


def test_signal_while_waiting_ends_the_process():
    """Where the event was set by the handler, half of these waited for themselves for ever."""
    command = [sys.executable, "-c", WAITS, str(PROCESSES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] * PROCESSES


def test_sigterm_ends_a_fold_worker_whose_numpy_has_threads(tmp_path):
    settings = Settings.at(tmp_path)
    run.prepare(settings)
    heard, tell = os.pipe()
    code = "import sys; from seamark.server.run import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "fold", str(tell)]
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=(tell,), env=os.environ | threads
    ) as worker:
        os.close(tell)
        worker.stdin.write(settings.to_json().encode() + b"\n")
        worker.stdin.flush()
        assert os.read(heard, 1) == b"f"
        os.close(heard)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
