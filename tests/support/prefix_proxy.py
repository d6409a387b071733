"""A reverse proxy that shows a server below a prefix, as JupyterHub's does, and frames of it."""

from __future__ import annotations

import contextlib
import http.client
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from asking import serving

PREFIX = "/user/anna/proxy/8765/"
_HOPS = frozenset(("connection", "keep-alive", "transfer-encoding", "host"))


@contextmanager
def prefixed(port):
    """Proxy a server of this machine for a block; yields the address below which it is.

    ``/frame`` is a page with a frame, which shows what its query names.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *given):
            """Say nothing."""

        def answer(self, status, headers, body):
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _HOPS | {"content-length"}:
                    self.send_header(name, value)
            if status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def pass_on(self):
            if self.path.startswith("/frame?"):
                frame = f'<!doctype html><title>f</title><iframe src="{self.path[7:]}"></iframe>'
                self.answer(200, [("Content-Type", "text/html")], frame.encode())
                return
            if not self.path.startswith(PREFIX):
                self.answer(204 if self.path == "/favicon.ico" else 404, [], b"")
                return
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOPS}
            to = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                # The browser's own Host goes on, as it does there.
                headers["Host"] = self.headers["Host"]
                to.request(self.command, "/" + self.path[len(PREFIX) :], sent or None, headers)
                said = to.getresponse()
                body = said.read()
                with contextlib.suppress(ConnectionError):  # what was no longer wanted
                    self.answer(said.status, said.getheaders(), body)
            finally:
                to.close()

        do_GET = do_POST = do_PATCH = do_HEAD = pass_on  # noqa: N815 - as the base class calls them

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serving(server) as own_port:
        yield f"http://127.0.0.1:{own_port}{PREFIX}"
