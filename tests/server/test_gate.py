"""What a request may cost, and what every answer has."""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import socket
import threading

import pytest

pytest.importorskip("fastapi")

import urllib3
import uvicorn
from asking import ask
from fastapi import APIRouter
from fastapi.responses import Response
from server_waits import until

from seamark.server import app as app_module
from seamark.server.app import make_app, protocol_for
from seamark.server.kept import intake
from seamark.server.settings import Limits, Settings
from seamark.server.state import open_server


@contextlib.contextmanager
def serving(folder, **limits):
    """Serve in a thread of this process, with limits that a test reaches."""
    server = open_server(Settings.at(folder, limits=Limits(**limits)))
    config = uvicorn.Config(
        make_app(server),
        http=protocol_for(limits.get("idle_s", 30.0)),
        log_config=None,
        lifespan="on",
        ws="none",
    )
    runner = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=runner.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            runner.should_exit = True
            thread.join()


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


@contextlib.contextmanager
def trickling(wire):
    ended = threading.Event()

    def trickle():
        with contextlib.suppress(OSError):
            while not ended.wait(0.05):
                wire.sendall(b" ")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.thorough
def test_who_falls_silent_is_let_go(tmp_path):
    """Before the first request, in the middle of headers, between requests, and in a body."""
    head = b"POST /api/v1/accounts/tokens HTTP/1.1\r\nHost: x\r\n"
    greeting = b"GET /api/v1/ HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(tmp_path, idle_s=0.2) as url:
        for sent, answers in (
            (b"", []),
            (head, []),
            (greeting + head, [b"200 OK"]),
            (head + b"Content-Length: 10\r\n\r\n{", [b"408 Request Timeout"]),
        ):
            with connected(url) as wire:
                wire.sendall(sent)
                came = everything(wire)
            assert [
                line[9:] for line in came.split(b"\r\n") if line.startswith(b"HTTP/")
            ] == answers
        assert b'"error":"too-slow"' in came


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    limits = {
        "json_bytes": 1000,
        "batch_bytes": 4000,
        "frame_bytes": 4000,
        "target_bytes": 2000,
        "header_bytes": 2000,
    }
    with serving(tmp_path_factory.mktemp("narrow"), **limits) as url:
        yield url


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "accounts/tokens", b" " * 2000, {}, 413),
        ("PUT", "runs/a/b/journals/j?offset=0", b" " * 5000, {}, 413),
        ("POST", "accounts/tokens", b" " * 2000, {"Transfer-Encoding": "chunked"}, 413),
        ("GET", "?" + "q" * 3000, None, {}, 414),
        ("GET", "", None, {"X-Long": "x" * 3000}, 431),
        ("GET", "nothing", None, {}, 404),
        ("BREW", "", None, {}, 405),
        ("POST", "accounts/tokens", b"{", {"Content-Type": "application/json"}, 422),
    ],
)
def test_every_refusal_has_one_form(narrow, method, path, body, headers, status):
    """JSON with a word and a sentence, and the headers of every answer."""
    if "Transfer-Encoding" in headers:
        with connected(narrow) as wire:
            wire.sendall(
                b"POST /api/v1/accounts/tokens HTTP/1.1\r\nHost: x\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + body + b"\r\n0\r\n\r\n"
            )
            came = everything(wire)
        assert came.startswith(b"HTTP/1.1 413 ")
        told = json.loads(came.partition(b"\r\n\r\n")[2])
    else:
        answer = ask(narrow, method, path, "", body, headers)
        assert answer.status == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        told = answer.json()
    assert set(told) >= {"error", "hint"}


def test_there_is_no_cors_and_the_host_is_not_believed(narrow):
    """No other page reads an answer, and no answer repeats a Host that somebody made up."""
    evil = {"Host": "evil.test", "Origin": "https://evil.test"}
    for path in ("", "accounts/me/", "accounts/me"):
        answer = ask(narrow, "GET", path, "", None, evil)
        assert b"evil.test" not in answer.body
        assert not any("evil.test" in value for value in answer.headers.values())
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert ask(narrow, "OPTIONS", "", "", None, {"Origin": "https://evil.test"}).status == 405


def test_only_what_is_streamed_may_be_long(narrow):
    """A body that is read whole before anybody is asked is JSON, whatever the method."""
    for method, path in (("PUT", "accounts/members"), ("PATCH", "runs"), ("POST", "read/table")):
        assert ask(narrow, method, path, "", b"[" + b"1," * 1000 + b"1]").status == 413


def test_a_mistake_of_ours_tells_nothing(tmp_path, monkeypatch):
    """What nobody guarded never leaves, nor do the words of an error that nobody foresaw."""
    router = APIRouter()

    @router.get("/forgotten")
    def forgotten():
        return "secret"

    @router.get("/streamed")
    def streamed():
        return Response(b"secret")

    @router.get("/broken")
    def broken():
        msg = "secret"
        raise RuntimeError(msg)

    monkeypatch.setattr(app_module, "routers", lambda _names: iter([router]))
    with serving(tmp_path) as url:
        for path in ("forgotten", "streamed", "broken"):
            answer = ask(url, "GET", path)
            assert (answer.status, answer.json()["error"]) == (500, "internal")
            assert b"secret" not in answer.body
            assert b"Traceback" not in answer.body


def head(path, length):
    return f"POST /api/v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize(("known", "senders", "places"), [(False, 40, 4), (True, 28, 8)])
def test_who_sends_slowly_takes_no_others_place(tmp_path, known, senders, places):
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


def test_a_body_that_crawls_is_refused(tmp_path):
    """However often a byte comes, also with a token: it would hold its place for minutes."""
    token = admin_token(tmp_path)
    for begun, limits in (
        (head("accounts/tokens", 1000), {"request_s": 0.5}),
        (journal_head(token, "Content-Length: 100000"), {"idle_s": 0.5}),
    ):
        with serving(tmp_path, **limits) as url, connected(url) as wire:
            wire.sendall(begun)
            with trickling(wire):
                assert b" 408 " in wire.recv(1 << 16)


def test_a_body_without_end_is_not_read_for_a_stranger(tmp_path):
    """The answer ends the connection, before much of it was taken."""
    with serving(tmp_path) as url:
        for token in ("", "wrong"):
            with connected(url) as wire:
                wire.sendall(journal_head(token, "Transfer-Encoding: chunked"))
                sent, part = 0, b"10000\r\n" + bytes(1 << 16) + b"\r\n"
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    while sent < 1 << 26:
                        wire.sendall(part)
                        sent += len(part)
                assert sent < 1 << 26


def admin_token(folder):
    server = open_server(Settings.at(folder))
    token = server.accounts.first_admin().secret
    server.close()
    return token


def journal_head(token, length):
    path = "/api/v1/runs/team/x/run1/journals/a.journal?offset=0"
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\n{authorization}{length}\r\n\r\n".encode()


def test_who_does_not_read_is_let_go(tmp_path, monkeypatch):
    """An answer that nobody takes does not hold a place for ever."""
    router = APIRouter()

    @router.get("/much")
    def much(request):
        request.state.guarded = True
        return Response(bytes(64 << 20))

    monkeypatch.setattr(app_module, "routers", lambda _names: iter([router]))
    with serving(tmp_path, at_once=1, idle_s=0.3) as url, connected(url) as wire:
        wire.sendall(b"GET /api/v1/much HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.recv(4) == b"HTTP"  # and reads no more
        answered: list[int] = []

        def let_in():
            # On a busy machine who asks may be the one that is let go for a silence.
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                answered.append(ask(url, "GET", "openapi.json").status)
            return answered[-1:] == [200]

        until(let_in)
        assert set(answered) <= {200, 503}


def test_files_on_their_way_are_bounded_for_all_senders_together(tmp_path, monkeypatch):
    """More than a server has memory for is asked to come again."""
    content = b"content"
    monkeypatch.setattr(intake, "ARRIVING_BYTES", len(content) - 1)
    token = admin_token(tmp_path)
    with serving(tmp_path) as url:
        path = f"runs/team/x/run1/blobs/{hashlib.sha256(content).hexdigest()}?offset=0&size=7"
        answer = ask(url, "PUT", path, token, content)
    assert (answer.status, answer.json()["error"]) == (503, "busy")
    assert answer.headers["retry-after"]
