"""Logging in and out, and tokens in the command, against a real server."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from asking import answering

import seamark
from seamark.errors import ArgumentError
from seamark.remote.http.address import credentials_file, keep_token
from seamark.remote.protocol import RemoteError


def kept():
    return json.loads(credentials_file().read_text())["servers"]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A server on SQLite, in this process."""
    from served import served

    with served(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_valid_token_is_saved_for_its_owner_only_and_never_printed(one, cli):
    for url, given, code, said in (
        (one.url, "seamark_wrong", 1, "401"),
        (one.url, "", 2, "token"),
        (one.url, "two words", 2, "token"),
        ("http://seamark.lab", "seamark_x", 2, "https"),
    ):
        done = cli("login", url, given=given)
        assert "`seamark login" not in done.stderr  # it was just done
        assert (done.exit_code, len(done.stderr.splitlines())) == (code, 1)
        assert said in done.stderr
    assert not credentials_file().exists()
    old = os.umask(0)
    try:
        done = cli("login", one.url, given=f"{one.token}\n")
    finally:
        os.umask(old)
    assert done.exit_code == 0, done.stderr
    assert "as admin (admin)" in done.stdout
    assert one.token not in done.stdout + done.stderr
    assert kept() == {one.url: {"token": one.token}}
    file = credentials_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) & 0o077 == 0
    assert cli("logout", one.url).stdout == f"logged out of {one.url}\n"
    assert kept() == {}


@pytest.mark.once
def test_tokens_are_created_listed_and_revoked(one, cli):
    assert cli("login", one.url, given=one.token).exit_code == 0
    given = ("--project", "team", "--role", "owner", "--expires", "30d")
    made = cli("token", "create", "alice", *given)
    assert made.exit_code == 0, made.stderr
    secret = made.stdout.strip()
    assert "shown only once" in made.stderr
    listed = cli("token", "list").stdout
    assert secret[:16] in listed
    assert secret not in listed
    assert "owner in team" in listed
    as_alice = cli("token", "create", "bob", SEAMARK_API_TOKEN=secret)
    assert (as_alice.exit_code, "require an admin" in as_alice.stderr) == (1, True)
    assert cli("token", "revoke", secret[:16]).stdout == f"revoked {secret[:16]}\n"
    refused = cli("token", "list", SEAMARK_API_TOKEN=secret)
    assert (refused.exit_code, "was revoked" in refused.stderr) == (1, True)


@pytest.mark.once
def test_tokens_of_a_stopped_server_are_created_in_its_folder(tmp_path, cli):
    """For who has lost the token of the admin, which is printed once."""
    folder = ("--folder", tmp_path)
    first, second = (cli("server", *folder, "init") for _ in range(2))
    assert first.exit_code == second.exit_code == 0, first.stderr
    assert first.stdout.startswith("seamark_")
    assert second.stdout == ""
    made = cli("token", "create", *folder)
    assert made.exit_code == 0, made.stderr
    assert cli("token", "list", *folder).stdout.count("admin") == 2
    nowhere = cli("token", "list", "--folder", "nowhere")
    assert nowhere.exit_code == 2
    assert "no databases of a server found in" in nowhere.stderr
    assert not Path("nowhere").exists()


def test_token_is_not_sent_to_the_target_of_a_redirect():
    asked = []

    def target(path, _):
        asked.append(path)
        return 200, {}, b"{}"

    def moved(path, _):
        return 307, {"Location": f"http://127.0.0.1:{port}{path}"}, b""

    with (
        answering(target) as port,
        answering(moved) as first,
        pytest.raises(RemoteError, match="has moved to"),
    ):
        seamark.login(f"http://127.0.0.1:{first}", "seamark_x")
    assert asked == []


def test_login_and_logout_from_python(one):
    who = seamark.login(one.url, one.token, timeout=30)
    assert (who.name, who.admin, who.server) == ("admin", True, one.url)
    assert seamark.logout() == [one.url]
    assert seamark.logout() == []
    assert seamark.login(f"{one.url}/api/v1/", one.token).server == one.url
    assert seamark.logout(f"{one.url}/api/v1") == [one.url]
    with pytest.raises(RemoteError, match="401"):
        seamark.login(one.url, "seamark_" + "a" * 43)
    for bad in ("", "a b"):
        with pytest.raises(ArgumentError):
            seamark.login(one.url, bad)
    assert kept() == {}


def test_an_interrupt_leaves_no_copy_of_a_token(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        keep_token("https://seamark.example", "smk-" + "a" * 32)
    assert list(credentials_file().parent.iterdir()) == []


ASKS = """
import seamark
try:
    seamark.login()
except seamark.errors.ArgumentError as error:
    print(error, "- again")
print("logged in as", seamark.login().name)
"""


def test_login_asks_for_the_token_at_a_terminal(one, monkeypatch):
    """Of the server that is configured; it is not shown, and what is no token is an error."""
    monkeypatch.setenv("SEAMARK_REMOTE", f"file:///nowhere,{one.url}")
    outer, inner = pty.openpty()
    streams = {"stdin": inner, "stdout": inner, "stderr": inner, "start_new_session": True}
    shown = ""
    with subprocess.Popen([sys.executable, "-c", ASKS], **streams) as process:
        os.close(inner)
        for wanted, typed in (
            (f"Token for {one.url}: ", "\x04"),
            (f"- again\r\nToken for {one.url}: ", f"{one.token}\n"),
            ("logged in as admin\r\n", ""),
        ):
            while wanted not in shown:
                shown += os.read(outer, 1 << 16).decode()
            os.write(outer, typed.encode())
    os.close(outer)
    assert process.returncode == 0
    assert "token: expected one word" in shown
    assert one.token not in shown
    assert kept() == {one.url: {"token": one.token}}


def test_login_without_a_terminal_raises(one, monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(ArgumentError, match=r"no server is known: name one with url="):
            seamark.login()
        assert seamark.login(one.url, one.token).server == one.url
        with pytest.raises(ArgumentError, match=f"expected token= for {one.url}, got none"):
            seamark.login()
        monkeypatch.setenv("SEAMARK_REMOTE", "https://me:secret@a.lab, https://b.lab")
        several = r"several servers are known \(https://\*\*\*@a\.lab, https://b\.lab\)"
        with pytest.raises(ArgumentError, match=several):
            seamark.login()
        assert seamark.login(one.url, one.token).server == one.url
