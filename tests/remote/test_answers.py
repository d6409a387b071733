"""What answers a client: it is bounded, and what is no Seamark server is named in one line."""

from __future__ import annotations

import contextlib
import gzip
import socketserver
import threading
import tracemalloc
from functools import partial

import pytest
import zstandard
from asking import answering, serving

from seamark.errors import SeamarkError
from seamark.remote import shipper
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.http.sender import open_remote
from seamark.remote.login import login
from seamark.remote.protocol import (
    RemoteError,
    RunKey,
)

RUN = RunKey("p", "r")
LONG = 1 << 26


@contextlib.contextmanager
def sending(*parts):
    """Answer each connection with these bytes, as long as they are taken; give the address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with contextlib.suppress(OSError):  # nobody takes any more
                for part in parts:
                    for piece in part() if callable(part) else [part]:
                        self.request.sendall(piece)

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def saying(status, body, **headers):
    """Run a web server with one answer to everything; give its address."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with answering(lambda *_: (status, named, body)) as port:
        yield f"http://127.0.0.1:{port}"


def head(status, *headers):
    return "\r\n".join((f"HTTP/1.1 {status} X", *headers, "", "")).encode()


def bomb(encoding, status):
    """Return an answer that is small, and 64 MiB where it is inflated."""
    body = {"zstd": zstandard, "gzip": gzip}[encoding].compress(b" " * LONG)
    return head(status, f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}") + body


def endless():
    while True:
        yield b" " * (1 << 16)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda: [bomb("zstd", 200)], id="zstd"),
        pytest.param(lambda: [bomb("gzip", 500)], id="gzip"),
        pytest.param(lambda: [head(200), endless], id="endless"),
        pytest.param(lambda: [head(500), endless], id="endless error"),
    ],
)
def test_a_sender_reads_no_bomb_and_no_endless_answer(parts):
    """A few kilobytes that inflate to 64 MiB are refused before they do."""
    parts = parts()
    tracemalloc.start()
    try:
        with (
            sending(*parts) as url,
            contextlib.closing(open_remote(url, "")) as remote,
            pytest.raises(RemoteError, match=r"more than|answered 500"),
        ):
            remote.journals(RUN)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_an_answer_that_hardly_comes_is_given_up():
    given = threading.Event()

    def drips():
        while not given.wait(0.05):
            yield b" "

    with sending(head(200, "Content-Length: 1000000"), drips) as url:
        connection = Connection(url, "", answer_s=0.2, most=1 << 13)
        with pytest.raises(RemoteError, match="too slowly"):
            connection.ask("GET", "")
        given.set()
        connection.close()


def test_an_edit_is_waited_for_by_later_reads_of_the_process():
    body = b'{"runs": [{"ok": true, "position": 7}]}'
    answer = head(200, f"Content-Length: {len(body)}") + body
    with sending(answer) as url, RemoteCatalog.open(url, "token") as runs:
        runs.edit(RUN, {"trashed": True})
        assert shipper.positions(url) == {RUN: 7}


NOT_SEAMARK = b"<html>not what you are looking for</html>"
NOBODY = "no Seamark server answers"
NEWER = {"Seamark_Now": "1700000000000000000"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(saying, status, NOT_SEAMARK), NOBODY) for status in (200, 403, 404, 405, 501)),
        (partial(saying, 404, b'{"detail": "Not Found"}'), NOBODY),
        (partial(saying, 400, NOT_SEAMARK), "or https://"),
        (partial(saying, 502, NOT_SEAMARK), "in front of the server"),
        (partial(saying, 200, b'"\x00', **NEWER), "newer than Seamark"),
        (partial(saying, 404, b'{"error": "no-address"}', **NEWER), "another version"),
        (partial(sending, b"SSH-2.0-OpenSSH_9.7\r\n"), "no HTTP server"),
        (partial(sending, b"\x15\x03\x01\x00\x02\x02F"), "no HTTP server"),
        (partial(sending, b""), "closed the connection without an answer"),
    ],
)
def test_another_server_is_named_in_one_line(make, message):
    with (
        make() as url,
        RemoteCatalog(Connection(url)) as runs,
        pytest.raises(SeamarkError, match=message) as told,
    ):
        runs.names()
    assert url in str(told.value)
    assert "\n" not in str(told.value)


def test_login_needs_a_seamark_server():
    with (
        saying(200, NOT_SEAMARK) as url,
        pytest.raises(SeamarkError, match="is it a Seamark server"),
    ):
        login(url, "seamark_x")
