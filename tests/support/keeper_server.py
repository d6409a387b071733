"""A server of the tests' own that takes journals and files, and misbehaves as a test asks for it.

It has nothing of Seamark's server but the protocol, so that what is tested with it is the client.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import zstandard
from asking import serving

PATH = re.compile(
    r"/api/v1/runs/(?P<project>.+)/(?P<run>[^/]+)/(?P<kind>journals|blobs)(?P<more>/.*)?$"
)

NOTHING_KNOWN = {
    "largest_t": 0,
    "journals": {},
    "families": {},
    "last_steps": {},
    "trained": [],
    "failed": False,
    "resumable": False,
}
"""What is answered about a run that is resumed, where a test says nothing else."""


class Keeper:
    """What is kept, what is answered about runs that are resumed, and what was asked.

    What `meddle` returns for method, path and query is answered instead.
    """

    def __init__(self):
        self.journals = {}
        self.blobs = {}
        self.parts = {}
        self.openings = {}
        self.gaps = []
        self.meddle = lambda *_: None
        self.asked = []
        self.tokens = set()
        self.wait_s = 0.0
        self.lock = threading.Lock()

    def answer(self, method, path, query, body, headers):
        with self.lock:
            self.asked.append((method, path))
            self.tokens.add(headers.get("Authorization", ""))
            if (instead := self.meddle(method, path, query)) is not None:
                return instead
            if headers.get("Content-Encoding") == "zstd":
                body = zstandard.ZstdDecompressor().decompress(body, 1 << 27)
            if path == "/api/v1/read/opening":
                asked = json.loads(body)
                told = self.openings.get((asked["project"], asked["run"]))
                if told is None:
                    return _no(404, "no-run")
                return 200, msgspec.msgpack.encode({"answer": NOTHING_KNOWN | told}), {}
            found = PATH.match(path)
            if found is None:
                return _no(404, "not-found")
            key, more = (found["project"], found["run"]), (found["more"] or "/")[1:]
            if found["kind"] == "journals":
                return self._journal(method, key, more, query, body)
            return self._blob(method, key[0], more, query, body)

    def _journal(self, method, key, name, query, body):
        kept = self.journals.get(key, {})
        if method == "GET" and name:
            at = int(query["offset"])
            rest = bytes(kept.get(name, b"")[at:])
            return (200, rest, {"Seamark-Offset": str(at)}) if rest else (204, b"", {})
        if method == "GET":
            sizes = {name: len(data) for name, data in kept.items()}
            return 200, {"journals": sizes, "position": sum(sizes.values())}, {}
        offset, data = int(query["offset"]), kept.get(name, bytearray())
        if "gap" in query:
            self.gaps.append((name, offset, int(query["gap"])))
            body = bytes(int(query["gap"]))
            if offset < len(data):
                body = bytes(data[offset : offset + len(body)]).ljust(len(body), b"\0")
        if offset > len(data):
            return _no(409, "gap", known=len(data))
        overlap = min(len(body), len(data) - offset)
        if data[offset : offset + overlap] != body[:overlap]:
            return _no(409, "diverged", known=len(data))
        data += body[overlap:]
        self.journals.setdefault(key, {})[name] = data
        position = sum(map(len, self.journals[key].values()))
        return 200, {"offset": len(data), "position": position, "wait_s": self.wait_s}, {}

    def _blob(self, method, project, more, query, body):
        if method == "POST":
            asked = json.loads(body)["digests"]
            return (
                200,
                {"missing": [each for each in asked if (project, each) not in self.blobs]},
                {},
            )
        digest, _, upload = more.partition("/")
        part = self.parts.setdefault((project, digest), bytearray())
        if upload:
            done = self.blobs.get((project, digest))
            return 200, {"offset": len(part) if done is None else len(done)}, {}
        if (project, digest) in self.blobs:
            return 200, {"offset": int(query["size"])}, {}
        if int(query["offset"]) > len(part):
            return _no(409, "gap", known=len(part))
        part[int(query["offset"]) :] = body
        if len(part) == int(query["size"]):
            if hashlib.sha256(part).hexdigest() != digest:
                return _no(422, "digest")
            self.blobs[project, digest] = bytes(part)
        return 200, {"offset": len(part)}, {}


def _no(status, slug, **more):
    return status, {"error": slug, "hint": f"the tests say {slug}", **more}, {}


@contextlib.contextmanager
def keeping(port=0):
    """Give a server that runs, and its address."""
    keeper = Keeper()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self):
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            status, told, headers = keeper.answer(
                self.command, unquote(parts.path), query, body, self.headers
            )
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do  # noqa: N815

        def log_message(self, *_):
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """A connection that is cut is what the tests are about."""

    with serving(Server(("127.0.0.1", port), Handler)) as taken:
        yield keeper, ("127.0.0.1", taken)
