"""Answers of a server that are kept: what did not change is not sent again."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import psutil
from recording import QUIET

import seamark
from seamark.reading.codec import pack
from seamark.reading.verbs import Answer
from seamark.remote import shipper
from seamark.remote.http import asking
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection

if TYPE_CHECKING:
    from server_process import Running


def test_the_answers_that_were_asked_for_last_are_kept(monkeypatch) -> None:
    """Of more than can be kept, the one that was asked for longest ago goes."""
    monkeypatch.setattr(asking, "_KEPT", 2)
    asked = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = question.get("seen") == "x"
            asked.append((self.path.rpartition("/")[2], known))
            body = pack(Answer(unchanged=True) if known else Answer({"a": 1}, "x"))
            self.send_response(200)
            self.send_header("Content-Type", "application/msgpack")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        questions = asking.Asking(Connection(f"http://127.0.0.1:{server.server_port}", "t"))
        for verb in ("one", "two", "one", "three", "one", "three", "two"):
            assert questions.read(verb, dict[str, int], {}) == {"a": 1}
        questions.connection.close()
        server.shutdown()
    assert asked == [
        *[("one", False), ("two", False), ("one", True), ("three", False)],
        *[("one", True), ("three", True), ("two", False)],
    ]


def test_an_edit_is_seen_by_every_later_reader_of_the_process(server: Running, there: Any) -> None:
    """Each names it to the server, which waits for it: here in vain, as nothing is folded."""
    with seamark.init_run(**QUIET, **there("one")) as run:
        run["number"] = 1
    assert shipper.flush(server.url, 60)
    with RemoteCatalog.open(server.url, server.token) as reading:
        reading.names()
        assert not reading.behind
    workers = [psutil.Process(pid) for pid in server.workers()]
    (folding,) = [worker for worker in workers if "fold" in worker.cmdline()]
    folding.suspend()
    try:
        with RemoteCatalog.open(server.url, server.token) as editing:
            editing.edit((run.project, run.id), {"trashed": True})
        with RemoteCatalog.open(server.url, server.token) as reading:
            reading.names()
            assert reading.behind
    finally:
        folding.resume()
