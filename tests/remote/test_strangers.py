"""What answers at an address may be no Seamark server, or another one: it is said in one line."""

from __future__ import annotations

import socketserver

import pytest
from asking import answering, serving

pytest.importorskip("urllib3")

from seamark.errors import SeamarkError
from seamark.remote.http.address import Address
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.login import login


def saying(status, body, **headers):
    """Return a web server that has one answer to everything."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answering(lambda *_: (status, named, body))


def sending(data):
    """Return what sends the same bytes to everybody, and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(data)

    return serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))


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
    with (
        make() as port,
        RemoteCatalog(Connection(f"http://127.0.0.1:{port}")) as runs,
        pytest.raises(SeamarkError, match=said) as told,
    ):
        runs.names()
    assert f"http://127.0.0.1:{port}" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_web_page_is_no_server_to_log_in_to():
    asked = "is it a Seamark server"
    with saying(200, PAGE) as port, pytest.raises(SeamarkError, match=asked):
        login(f"http://127.0.0.1:{port}", "seamark_x")


def test_https_is_not_spoken_everywhere():
    with (
        saying(200, PAGE) as port,
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
    assert str(Address.of(given)) == address
