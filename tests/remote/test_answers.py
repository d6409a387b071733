"""What a server answers to who sends is bounded: a training is no place for a stranger's bytes."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import zlib
from contextlib import contextmanager

import psutil
import pytest
import zstandard

from seamark.remote.file import FileRemote
from seamark.remote.http.connection import Connection
from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    Missing,
    Purged,
    Refused,
    RemoteError,
    RunKey,
    Unfit,
    Unreachable,
)

RUN = RunKey("p", "r")
LONG = 1 << 26


@contextmanager
def answering(parts):
    """Answer each connection with these bytes, as long as they are taken; give the address."""

    def answer(connection):
        with connection:
            connection.recv(1 << 16)
            try:
                for part in parts():
                    connection.sendall(part)
            except OSError:  # nobody takes any more
                return

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=answer, args=(connection,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join(30)
            for one in threads:
                one.join(30)


def head(status, *headers):
    return "\r\n".join((f"HTTP/1.1 {status} X", *headers, "", "")).encode()


def bomb(encoding, status):
    """Return an answer that is small, and 64 MiB where it is inflated."""
    piece = b" " * (1 << 20)
    if encoding == "zstd":
        packer = zstandard.ZstdCompressor().compressobj(size=LONG)
        body = b"".join(packer.compress(piece) for _ in range(LONG >> 20)) + packer.flush()
    else:
        deflating = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        body = b"".join(deflating.compress(piece) for _ in range(LONG >> 20)) + deflating.flush()
    headers = (f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}")
    return head(status, *headers) + body


def grown(ask):
    """Return by how many bytes this process has grown while something was asked."""
    process, stop, most = psutil.Process(os.getpid()), threading.Event(), [0]
    before = process.memory_info().rss

    def watch():
        while not stop.wait(0.005):
            most[0] = max(most[0], process.memory_info().rss - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        ask()
    finally:
        stop.set()
        watching.join()
    return most[0]


@pytest.mark.parametrize(("encoding", "status"), [("zstd", 200), ("gzip", 500)])
def test_a_sender_inflates_no_bomb(encoding, status):
    """A few kilobytes that inflate to 64 MiB are refused before they do."""
    answer = bomb(encoding, status)

    def ask():
        with pytest.raises(RemoteError, match=r"more than|answered 500"):
            remote.journals(RUN)

    with answering(lambda: iter([answer])) as url:
        remote = open_remote(url, "")
        assert grown(ask) < 32 << 20
        remote.close()


@pytest.mark.parametrize("status", [200, 500])
def test_a_sender_reads_no_endless_answer(status):
    def endless():
        yield head(status, "Content-Type: application/json")
        while True:
            yield b" " * (1 << 16)

    def ask():
        with pytest.raises(RemoteError, match=r"more than|answered 500"):
            remote.journals(RUN)

    with answering(endless) as url:
        remote = open_remote(url, "")
        assert grown(ask) < 32 << 20
        remote.close()


def test_an_answer_that_hardly_comes_is_given_up():
    given = threading.Event()

    def drips():
        yield head(200, "Content-Length: 1000000")
        while not given.wait(0.05):
            yield b" "

    with answering(drips) as url:
        connection = Connection(url, "", answer_s=0.2, most=1 << 13)
        with pytest.raises(RemoteError, match="too slowly"):
            connection.ask("GET", "")
        given.set()
        connection.close()


def test_a_connection_is_used_again_after_answers_of_each_kind():
    """Also after those without a body, and in parts: each new connection costs round trips."""
    body = b'{"journals": {}}'
    packed = gzip.compress(body)
    answers = [
        head(200, f"Content-Length: {len(body)}") + body,
        head(304, "ETag: x"),
        head(200, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        head(200, "Content-Encoding: gzip", f"Content-Length: {len(packed)}") + packed,
        head(404, "Content-Length: 2") + b"{}",
    ]
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                for answer in answers:
                    seen.append(connection.recv(1 << 16))
                    connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        connection = Connection(f"http://127.0.0.1:{listening.getsockname()[1]}", "", answer_s=20)
        asked = [connection.ask("GET", "x") for _ in answers[:-1]]
        with pytest.raises(RemoteError, match="404"):
            connection.ask("GET", "x")
        serving.join(30)
        connection.close()
    assert [one.body for one in asked] == [body, b"", body, body]
    assert len(seen) == len(answers)


def test_every_error_of_a_remote_is_an_oserror():
    """As a caller expects of what goes wrong on a network."""
    for kind in (RemoteError, Unreachable, Busy, Refused, Unfit, Missing, Purged, Gap, Diverged):
        given = ("why", 3) if kind in {Busy, Diverged, Gap} else ("why",)
        error = kind(*given)
        assert isinstance(error, OSError)
        assert (str(error), error.args, error.errno) == ("why", ("why",), None)


def test_a_root_says_itself_what_is_wrong_with_a_batch(tmp_path):
    remote = FileRemote(tmp_path)
    with pytest.raises(Refused):
        remote.journals(RunKey("a//b", "x"))
    with pytest.raises(Gap):
        remote.send_gap(RunKey("a", "x"), f"w.{'0' * 32}", 7, 7)
