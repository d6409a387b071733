"""What a request may cost, and what every answer has."""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import socket
import threading

import pytest
from asking import ask
from fastapi import APIRouter
from fastapi.responses import Response
from served import serving as serve

from seamark.server import app as app_module
from seamark.server.app import make_app, protocol_for
from seamark.server.kept import intake
from seamark.server.settings import Limits, Settings
from seamark.server.state import open_server


@contextlib.contextmanager
def serving(folder, **limits):
    """Serve in a thread of this process, with limits that a test reaches."""
    server = open_server(Settings.at(folder, limits=Limits(**limits)))
    protocol = protocol_for(limits.get("idle_s", 30.0))
    with serve(make_app(server), http=protocol) as url:
        yield url.rstrip("/")


@contextlib.contextmanager
def connected(url):
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        yield wire


def everything(wire):
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(1 << 16):
            found += part
    return found


def admin_token(folder):
    with contextlib.closing(open_server(Settings.at(folder))) as server:
        return server.accounts.first_admin().secret


def head(path, length):
    return f"POST /api/v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


def journal_head(token, length):
    path = "/api/v1/runs/team/x/run1/journals/a.journal?offset=0"
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\n{authorization}{length}\r\n\r\n".encode()


CHUNKED = "Transfer-Encoding: chunked"
LONG = b" " * 2000
LIMITS = {"json_bytes": 1000, "target_bytes": 2000, "header_bytes": 2000}
LIMITS |= dict.fromkeys(("batch_bytes", "frame_bytes"), 4000)
REFUSED = [
    ("PUT", "runs/a/b/journals/j?offset=0", b" " * 5000, {}, 413),
    ("GET", "?" + "q" * 3000, None, {}, 414),
    ("GET", "", None, {"X-Long": "x" * 3000}, 431),
    ("GET", "nothing", None, {}, 404),
    ("BREW", "", None, {}, 405),
    ("POST", "accounts/tokens", b"{", {"Content-Type": "application/json"}, 422),
    ("OPTIONS", "", None, {"Origin": "https://evil.test"}, 405),
    # Only what is streamed may be long: a body that is read whole is JSON, whatever the method.
    ("PUT", "accounts/members", LONG, {}, 413),
    ("POST", "read/table", LONG, {}, 413),
]


def test_refusals_are_json_with_a_hint_and_no_answer_repeats_the_host(tmp_path):
    """All have the headers of every answer, and none those that let other pages read it."""
    evil = {"Host": "evil.test", "Origin": "https://evil.test"}
    with serving(tmp_path, **LIMITS) as url:
        for method, path, body, headers, status in REFUSED:
            answer = ask(url, method, path, "", body, headers)
            assert answer.status == status, (method, path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert set(answer.json()) >= {"error", "hint"}
        with connected(url) as wire:
            begun = head("accounts/tokens", 0).replace(b"Content-Length: 0", CHUNKED.encode())
            wire.sendall(begun + b"7d0\r\n" + LONG + b"\r\n0\r\n\r\n")
            came = everything(wire)
        assert came.startswith(b"HTTP/1.1 413 ")
        assert set(json.loads(came.partition(b"\r\n\r\n")[2])) >= {"error", "hint"}
        for path in ("", "accounts/me/", "accounts/me"):
            answer = ask(url, "GET", path, "", None, evil)
            assert answer.headers["content-type"].split(";")[0] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert b"evil.test" not in answer.body
            assert not any("evil.test" in value for value in answer.headers.values())
            assert not any(name.startswith("access-control") for name in answer.headers)


def test_unguarded_answers_and_unforeseen_errors_tell_nothing(tmp_path, monkeypatch):
    router = APIRouter()

    def broken():
        raise RuntimeError("secret")

    router.get("/forgotten")(lambda: "secret")
    router.get("/streamed")(lambda: Response(b"secret"))
    router.get("/broken")(broken)
    monkeypatch.setattr(app_module, "routers", lambda _names: iter([router]))
    with serving(tmp_path) as url:
        for path in ("forgotten", "streamed", "broken"):
            answer = ask(url, "GET", path)
            assert (answer.status, answer.json()["error"]) == (500, "internal")
            assert b"secret" not in answer.body
            assert b"Traceback" not in answer.body


@pytest.mark.parametrize(("known", "senders", "places"), [(False, 40, 4), (True, 28, 8)])
def test_slow_senders_take_a_bounded_part_of_the_places(tmp_path, known, senders, places):
    """An address without a token has an eighth of the places, a token a quarter."""
    token = admin_token(tmp_path)
    begun = head("accounts/tokens", 1000) + b"{"
    if known:
        begun = journal_head(token, "Content-Length: 1000") + b"x"
    with serving(tmp_path, at_once=32) as url, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(connected(url)) for _ in range(senders)]
        for wire in wires:
            wire.sendall(begun)
        waiting = set(wires)
        while len(waiting) > places:  # those too many are answered at once
            readable, _, _ = select.select(waiting, [], [], 20)
            assert readable
            for wire in readable:
                assert b" 503 " in wire.recv(1 << 16)
            waiting -= set(readable)
        assert ask(url, "GET", "accounts/me", token).status == 200


def test_body_that_comes_byte_by_byte_is_refused(tmp_path):
    token = admin_token(tmp_path)
    for begun, limits in (
        (head("accounts/tokens", 1000), {"request_s": 0.5}),
        (journal_head(token, "Content-Length: 100000"), {"idle_s": 0.5}),
    ):
        with serving(tmp_path, **limits) as url, connected(url) as wire:
            ended = threading.Event()

            def trickle(wire=wire, ended=ended):
                with contextlib.suppress(OSError):
                    while not ended.wait(0.05):
                        wire.sendall(b" ")

            wire.sendall(begun)
            thread = threading.Thread(target=trickle)
            thread.start()
            try:
                assert b" 408 " in wire.recv(1 << 16)
            finally:
                ended.set()
                thread.join()


def test_endless_body_of_a_stranger_is_not_read(tmp_path):
    with serving(tmp_path) as url:
        for token in ("", "wrong"):
            with connected(url) as wire:
                wire.sendall(journal_head(token, CHUNKED))
                sent, part = 0, b"10000\r\n" + bytes(1 << 16) + b"\r\n"
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    while sent < 1 << 26:
                        wire.sendall(part)
                        sent += len(part)
                assert sent < 1 << 26


def test_files_on_their_way_are_bounded_over_all_senders(tmp_path, monkeypatch):
    content = b"content"
    monkeypatch.setattr(intake, "ARRIVING_BYTES", len(content) - 1)
    token = admin_token(tmp_path)
    with serving(tmp_path) as url:
        path = f"runs/team/x/run1/blobs/{hashlib.sha256(content).hexdigest()}?offset=0&size=7"
        answer = ask(url, "PUT", path, token, content)
    assert (answer.status, answer.json()["error"]) == (503, "busy")
    assert answer.headers["retry-after"]
