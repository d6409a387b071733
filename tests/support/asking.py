"""Asking a server over a real socket, and answering, without any of Seamark's own code."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import urllib3


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


def ask(url, method, path, token="", body=None, headers=None):
    """Ask once for a path below ``/api/v1/``; what is not bytes is sent as JSON."""
    sent = dict(headers or {})
    if token:
        sent["Authorization"] = f"Bearer {token}"
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request(
            method, f"{url}/api/v1/{path}", body=body, headers=sent, redirect=False, timeout=60
        )
        return Answer(
            answer.status,
            {name.lower(): value for name, value in answer.headers.items()},
            answer.data,
        )


@contextlib.contextmanager
def answering(answer):
    """Answer requests with status, headers and body of ``answer(path, body)``; give the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, found = answer(self.path, body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(found)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found)

        do_POST = do_GET  # noqa: N815 - by http.server

        def log_message(self, *_):
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield port


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
