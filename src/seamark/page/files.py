"""Static files of the page: location, version and delivery to browsers.

Addresses contain the version, a hash of the files, so that a browser can cache them permanently and
never mixes two versions. Only ``index.html`` is requested each time.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seamark import __version__
from seamark.server.failures import Refusal
from seamark.server.guard import public

FOLDER: Final = Path(__file__).parent / "static"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
_COMMENTS: Final = re.compile(
    r"/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*|^[ \t]*/\*(?:[^*]|\*(?!/))*\*/[ \t]*$|^[ \t]*//.*$",
    re.MULTILINE,
)
"""Comments and type annotations in our modules, an eighth of their size; they are not served."""
_INDENTATION: Final = re.compile(r"^[ \t]+", re.MULTILINE)
_VENDORED: Final = "vendor/"
_MIN_COMPRESSED: Final = 1 << 10
_VERSION_MARK: Final = "@VERSION@"
_MISSING_PAGE: Final = (
    "<!doctype html><title>Seamark</title><p>The files of this page are not installed."
)
_EMBEDDED: Final = "http://localhost:* http://127.0.0.1:*"


def policy(*, embed: bool = False) -> str:
    """Return the ``Content-Security-Policy``; `embed` allows frames in pages of this machine."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "media-src 'self' blob:",
            "frame-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors 'self'{f' {_EMBEDDED}' if embed else ''}",
        )
    )


class PageFiles:
    """Files below a folder, read once; `version` combines Seamark's version and a hash of them."""

    def __init__(self, folder: Path = FOLDER, *, embed: bool = False) -> None:
        self._headers = {"Content-Security-Policy": policy(embed=embed)}
        self._files: dict[str, bytes] = {}
        self._packed: dict[str, bytes] = {}
        digest = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not any(part.startswith(".") for part in path.parts[-2:]):
                name = path.relative_to(folder).as_posix()
                body = self._files[name] = _strip_comments(name, path.read_bytes())
                digest.update(f"{name}\0{len(body)}\0".encode() + body)
        self.version = f"{__version__}-{digest.hexdigest()[:10]}"
        index = self._files.get(_INDEX, _MISSING_PAGE.encode())
        self._files[_INDEX] = index.replace(_VERSION_MARK.encode(), self.version.encode())

    def mount(self, app: FastAPI, expect: Callable[[Request], object]) -> None:
        """Serve the page at the root of an application, and its other files below ``static/``.

        `expect` raises an error for a request that may not see the page.
        """

        @app.get("/", include_in_schema=False)
        def index(request: Request) -> Response:
            expect(request)
            return self.index(request.headers.get("accept-encoding", ""))

        @app.get("/static/{version}/{name:path}", include_in_schema=False)
        def static(request: Request, version: str, name: str) -> Response:
            public(request)
            found = self.file(version, name, request.headers.get("accept-encoding", ""))
            if found is None:
                raise Refusal(404, "no-file", "the page has no such file; reload it")
            return found

    def index(self, accepted: str = "") -> Response:
        """Return the main page, compressed if ``Accept-Encoding`` allows it."""
        return self._answer(_INDEX, "no-store", accepted)

    def file(self, version: str, name: str, accepted: str = "") -> Response | None:
        """Return a file by name, or None; only files of the current version may be cached."""
        if name not in self._files:
            return None
        kept = "public, max-age=31536000, immutable" if version == self.version else "no-store"
        return self._answer(name, kept, accepted)

    def _answer(self, name: str, kept: str, accepted: str) -> Response:
        body = self._files[name]
        suffix = name[name.rfind(".") :].lower()
        kind = _TYPES.get(suffix, "application/octet-stream")
        headers = {**self._headers, "Cache-Control": kept, "Vary": "Accept-Encoding"}
        if len(body) > _MIN_COMPRESSED and kind.startswith(("text/", "application/json")):
            codes = {one.partition(";")[0].strip() for one in accepted.lower().split(",")}
            if "gzip" in codes:
                if name not in self._packed:
                    self._packed[name] = gzip.compress(body, 9, mtime=0)
                body = self._packed[name]
                headers["Content-Encoding"] = "gzip"
        # The type is in `headers` because Starlette would add a charset.
        return Response(body, headers={**headers, "Content-Type": kind})


def _strip_comments(name: str, body: bytes) -> bytes:
    # Line numbers are preserved for error messages.
    if name.startswith(_VENDORED) or not name.endswith((".css", ".js")):
        return body
    text = body.decode("utf-8")
    if name.endswith(".css"):
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        # No string in our style sheets has these.
        return re.sub(r"\s*([{};,\n])\s*|(:) +", r"\1\2", bare).encode()
    bare = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _INDENTATION.sub("", bare).encode()  # no string in our code has indented lines


class Marked:
    """Middleware that adds the version of the page and the time to every response."""

    def __init__(self, app: ASGIApp, files: PageFiles, now_ns: Callable[[], int]) -> None:
        self._app, self._files, self._now_ns = app, files, now_ns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(b"seamark-version", self._files.version.encode())]
                given = {name.lower() for name, _ in message.get("headers", [])}
                if b"seamark-now" not in given:
                    more.append((b"seamark-now", str(self._now_ns()).encode()))
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        await self._app(scope, receive, marked)
