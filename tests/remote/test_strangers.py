"""What answers at an address may be no Seamark server, or another one: it is said in one line."""

from __future__ import annotations

import http.server
import socketserver
import threading
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("urllib3")

from seamark.errors import SeamarkError
from seamark.remote.http.address import Address
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.login import login


@contextmanager
def answering(server):
    """Have a server answer for a block; its port."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def saying(status, body, **headers):
    """Return a web server that has one answer to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - by http.server

        def log_message(self, *args: Any) -> None:
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def sending(data):
    """Return what sends the same bytes to everybody, and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(data)

    return socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)


PAGE = b"<html>not what you are looking for</html>"
NOBODY = "no Seamark server answers"
NEWER = {"Seamark_Now": "1700000000000000000"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: saying(200, PAGE), NOBODY),
        (lambda: saying(403, PAGE), NOBODY),
        (lambda: saying(404, PAGE), NOBODY),
        (lambda: saying(405, PAGE), NOBODY),
        (lambda: saying(501, PAGE), NOBODY),
        (lambda: saying(404, b'{"detail": "Not Found"}'), NOBODY),
        (lambda: saying(400, PAGE), "or https://"),
        (lambda: saying(502, PAGE), "in front of the server"),
        (lambda: saying(200, b'"\x00', **NEWER), "newer than Seamark"),
        (lambda: saying(404, b'{"error": "no-address"}', **NEWER), "of another version"),
        (lambda: sending(b"SSH-2.0-OpenSSH_9.7\r\n"), "does not speak HTTP"),
        (lambda: sending(b"\x15\x03\x01\x00\x02\x02F"), "does not speak HTTP"),
        (lambda: sending(b""), "closed the connection without an answer"),
    ],
)
def test_a_stranger_is_told_from_a_server(make, said):
    """With the address that was asked, in words that say what to look at."""
    with (
        answering(make()) as port,
        RemoteCatalog(Connection(f"http://127.0.0.1:{port}")) as runs,
        pytest.raises(SeamarkError, match=said) as told,
    ):
        runs.names()
    assert f"http://127.0.0.1:{port}" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_web_page_is_no_server_to_log_in_to():
    """Nothing is kept for it."""
    asked = "is it a Seamark server"
    with answering(saying(200, PAGE)) as port, pytest.raises(SeamarkError, match=asked):
        login(f"http://127.0.0.1:{port}", "seamark_x")


def test_https_is_not_spoken_everywhere():
    """That the port speaks http is said, instead of words of OpenSSL."""
    with (
        answering(saying(200, PAGE)) as port,
        RemoteCatalog(Connection(f"https://127.0.0.1:{port}")) as runs,
        pytest.raises(SeamarkError, match="does not speak TLS there"),
    ):
        runs.names()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://seamark.lab/api/v1/", "https://seamark.lab"),
        ("https://seamark.lab/api/v1", "https://seamark.lab"),
        ("https://lab.org/seamark/api/v1/", "https://lab.org/seamark"),
        ("https://lab.org/api", "https://lab.org/api"),
    ],
)
def test_the_address_of_the_api_is_that_of_the_server(given, address):
    """Whoever copies it from a request means the server."""
    assert str(Address.of(given)) == address
