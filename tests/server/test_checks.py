"""An address where a server cannot listen: one line names the option and what to do."""

from __future__ import annotations

import errno
import socket

import pytest

pytest.importorskip("fastapi")

from seamark.server.checks import CannotStart, bind


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("192.0.2.1", 0, "--host 192.0.2.1: this machine does not have that address"),
        ("no.such.host.invalid", 0, "--host no.such.host.invalid: no such address"),
    ],
)
def test_an_address_of_another_machine(host, port, words):
    """192.0.2.0/24 is for documentation, and .invalid is never resolved (RFC 5737, 2606)."""
    with pytest.raises(CannotStart, match=words.replace(".", r"\.")):
        bind(host, port)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "--port 80: this user may not listen there"),
        (errno.ENOBUFS, "cannot listen at 127.0.0.1 port 80: No buffer space available"),
    ],
)
def test_what_the_system_refuses(number, words, monkeypatch):
    """The port of another user, and what nobody thought of."""

    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(number, "No buffer space available")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(CannotStart, match=words):
        bind("127.0.0.1", 80)
