"""A server that takes whatever it is sent and keeps only its length; prints its address."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import zstandard

kept: dict[str, int] = {}


class Handler(BaseHTTPRequestHandler):
    """Answers as the protocol of remotes wants it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say({"journals": {}, "position": 0})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say({"missing": []})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "zstd":
            body = zstandard.ZstdDecompressor().decompress(body, 1 << 26)
        parts = urlsplit(self.path)
        end = int(parse_qs(parts.query)["offset"][0]) + len(body)
        kept[parts.path] = max(end, kept.get(parts.path, 0))
        self._say({"offset": kept[parts.path], "position": sum(kept.values()), "wait_s": 1})

    def _say(self, told: dict[str, Any]) -> None:
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
