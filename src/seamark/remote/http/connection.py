"""HTTP connection to a server: sockets, compression and errors.

A connection does not retry; the caller decides whether a retry is useful.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import BadStatusLine, RemoteDisconnected
from typing import Any, Final
from urllib.parse import quote, urlencode

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util import Retry, Timeout

from seamark.remote.http.address import API, Address, is_loopback, shown, token_of
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    Missing,
    Purged,
    Refused,
    RemoteError,
    RunKey,
    TooLong,
    Unfit,
    Unreachable,
)

__all__ = ["OTHER_VERSION", "Address", "Answer", "Connection", "run_path"]


STALLED_S: Final = 30.0
"""Time limit for the peer to accept further bytes, in seconds."""


class _Http(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        if self.sock is not None:  # otherwise each piece on a slow link would have a limit of 5 s
            self.sock.settimeout(STALLED_S)


class _Https(_Http, HTTPSConnection):
    pass


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


CONNECT_S: Final = 5.0
"""Time limit for connecting to a server, in seconds."""
ANSWER_S: Final = 30.0
"""Time limit for silence while an answer is expected, in seconds."""
_MAX_WAIT_S: Final = 3600.0
_MAX_JSON: Final = 256 << 20
"""Maximum size of an answer read into memory, unless a connection has another limit; bytes."""
_MIN_BYTES_PER_S: Final = 1 << 16
"""Minimum speed of a long answer after an initial silence, in bytes per second."""
_MAX_ERROR_BYTES: Final = 1 << 16
_SUCCESS: Final = frozenset({*range(200, 300), HTTPStatus.NOT_MODIFIED})
_PIECE_BYTES: Final = 1 << 16
_MAX_HINT_CHARACTERS: Final = 600
_TEMPORARY: Final = frozenset({408, 425, 500, 502, 504})
_BUSY_STATUSES: Final = frozenset({429, 503})
_PROXY_STATUSES: Final = frozenset({502, 504})
OTHER_VERSION: Final = frozenset({"no-address", "method-not-allowed"})
"""Error codes of servers for unknown requests."""
_OFFSET_ERRORS: Final[Mapping[str, type[Gap | Diverged]]] = {"gap": Gap, "diverged": Diverged}
_REFUSALS: Final[Mapping[int, type[Refused]]] = {
    HTTPStatus.BAD_REQUEST: Unfit,
    HTTPStatus.NOT_FOUND: Missing,
    HTTPStatus.GONE: Purged,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: TooLong,
    HTTPStatus.UNPROCESSABLE_ENTITY: Unfit,
}


def run_path(run: RunKey, *more: str) -> str:
    """Return the quoted path of a run, or of a part of it, below `API` on a server."""
    parts = (quote(run.project, safe="/"), *(quote(each, safe="") for each in (run.run, *more)))
    return "/".join(("runs", *parts))


# --------------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a server; its header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the decoded body; `RemoteError` if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise RemoteError("the answer is not JSON: is it a Seamark server?") from None

    def record(self) -> dict[str, Any]:
        """Return the body as a JSON object; `RemoteError` if it is not one."""
        found = self.json()
        if not isinstance(found, dict):
            raise RemoteError(
                f"unexpected answer: expected a JSON object, got {type(found).__name__}"
            )
        return found


class Connection:
    """Connection to one server; usable by any number of threads and in forked children.

    Args:
        uri: ``https://host[:port][/prefix]``, or ``http://`` on this machine.
        token: Token to send with each request. None uses ``SEAMARK_API_TOKEN`` or the token that
            `seamark login` stored for this server; an empty text sends none.
        answer_s: Time limit for silence while an answer is expected, in seconds.
        most: Maximum size of an answer of `ask` in bytes, before and after decompression.
        api: Path prefix of all requests on the server.
    """

    def __init__(
        self,
        uri: str | Address,
        token: str | None = None,
        *,
        answer_s: float = ANSWER_S,
        most: int = _MAX_JSON,
        api: str = API,
    ) -> None:
        self.address = Address.of(uri) if isinstance(uri, str) else uri
        self._api = api
        self._most = most
        self._token = token
        self._answer_s = answer_s
        self._pool: Any = None
        self._pid = -1

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.clear()

    # ---------------------------------------------------------------- requests

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        answer_s: float | None = None,
        most: int | None = None,
    ) -> Answer:
        """Send one request and return the answer.

        Args:
            method: HTTP method.
            path: Quoted path below `API`; see `run_path`.
            query: Query parameters; those that are None are left out.
            body: Body of the request.
            headers: Additional headers.
            answer_s: Time limit instead of the connection's, in seconds.
            most: Maximum size of the answer instead of the connection's, in bytes.

        Raises:
            Unreachable: If the server cannot be reached or failed.
            Busy: If the server requests a pause.
            Refused: If the request is refused, the object does not exist (`Missing`) or the run was
                purged (`Purged`).
            Gap: If bytes are missing on the server.
            Diverged: If the server stores other bytes.
            RemoteError: If the answer is invalid.
        """
        with (
            self.open(
                method,
                path,
                query=query,
                body=body,
                headers=headers,
                answer_s=answer_s,
            ) as response,
            self.translate_errors(),
        ):
            limit = self._most if most is None else most
            data = self._read_body(response, limit)
            return Answer(response.status, response.headers, data)

    def _read_body(self, response: Any, most: int) -> bytes:
        # Decompress here: some versions of urllib3 do not decompress zstd, and others decompress
        # without a size limit.
        until = time.monotonic() + self._answer_s + most / _MIN_BYTES_PER_S
        parts, size = [], 0
        while part := response.read1(_PIECE_BYTES, decode_content=False):
            parts.append(part)
            size += len(part)
            if size > most:
                raise self._too_long_error(most)
            if time.monotonic() > until:
                raise Unreachable(f"{self.address} answers too slowly")
        packed = b"".join(parts)
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        try:
            data = _decompress(packed, encoding, most + 1)
        except ValueError as error:
            raise RemoteError(f"the answer of {self.address} cannot be decoded: {error}") from error
        if len(data) > most:
            raise self._too_long_error(most)
        return data

    def _too_long_error(self, most: int) -> RemoteError:
        return RemoteError(f"{self.address} answered with more than {most} bytes")

    def send_json(self, method: str, path: str, value: Any, **more: Any) -> Answer:
        """Send a request with a JSON body; see `ask`."""
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        return self.ask(method, path, body=json.dumps(value).encode(), headers=headers, **more)

    @contextlib.contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        answer_s: float | None = None,
    ) -> Iterator[Any]:
        """Send a request and yield the response with its unread body; see `ask`.

        Wrap reads of the body in `translate_errors`.
        """
        url = f"{self.address}{self._api}{path}"
        if query:
            given = {key: value for key, value in query.items() if value is not None}
            url = f"{url}?{urlencode(given, doseq=True)}"
        sent = {**self._headers(), **(headers or {})}
        if body is not None:
            sent["Content-Length"] = str(len(body))
        with self.translate_errors():
            response = self._open_pool().request(
                method,
                url,
                # Send in pieces: the time limit of a socket applies to each of them, and a slow
                # link may take minutes for all.
                body=None if body is None else io.BytesIO(body),
                headers=sent,
                timeout=Timeout(CONNECT_S, self._answer_s if answer_s is None else answer_s),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        try:
            if response.status not in _SUCCESS:
                with self.translate_errors(), contextlib.suppress(RemoteError):
                    said = b""
                    said = self._read_body(response, _MAX_ERROR_BYTES)
                details = _parse_object(said)
                failure = self._to_error(response.status, response.headers, details, path)
                failure.status, failure.said = response.status, details
                raise failure
            yield response
        finally:
            # A connection with an unread rest of a body cannot be reused.
            if response.closed or response.length_remaining == 0:
                response.drain_conn()  # does not raise if the connection is broken
                response.release_conn()
            else:
                response.close()

    # ---------------------------------------------------------------- inside

    def _headers(self) -> dict[str, str]:
        from seamark import __version__

        found = {"User-Agent": f"seamark/{__version__}", "Accept-Encoding": "zstd, gzip"}
        token = token_of(str(self.address)) if self._token is None else self._token
        if token:
            found["Authorization"] = f"Bearer {token}"
        return found

    def _open_pool(self) -> Any:
        # Connections of a parent process must not be used after a fork.
        if self._pool is None or self._pid != os.getpid():
            self._pool, self._pid = _make_pool(self.address), os.getpid()
        return self._pool

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors of urllib3 and sockets to `Unreachable`."""
        try:
            yield
        except RemoteError:
            raise
        except (HTTPError, OSError) as error:
            raise Unreachable(
                f"{self.address} cannot be reached: {_describe_error(error)}"
            ) from error

    def _to_error(
        self, status: int, headers: Mapping[str, str], said: Mapping[str, Any], path: str
    ) -> RemoteError:
        slug, hint, known = _parse_error(said)
        where = f"{self.address} answered {status}"
        message = f"{where}: {hint or self._describe_status(status)}"
        if status in _BUSY_STATUSES:
            return Busy(message, _retry_after(headers))
        if status in _TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Unreachable(message)
        if status == HTTPStatus.CONFLICT and known is not None and slug in _OFFSET_ERRORS:
            return _OFFSET_ERRORS[slug](message, known)
        if status < HTTPStatus.BAD_REQUEST:
            to = shown(str(headers.get("Location", "another address")))
            msg = f"{self.address} has moved to {to}: use that address (no token was sent there)"
            return Refused(msg)
        if status == HTTPStatus.UNAUTHORIZED:
            message = message if hint else f"{where}: no valid token"
            message += self._token_hint()
        if slug in OTHER_VERSION:
            from seamark import __version__

            message = (
                f"{where} to {self._api}{path}: this Seamark server has another version than "
                f"Seamark {__version__} on this machine; update the older one"
            )
        return _REFUSALS.get(status, Refused)(message)

    def _describe_status(self, status: int) -> str:
        if status in _PROXY_STATUSES:
            return "a proxy in front of the server cannot reach it"
        if not self._api:  # server of another protocol
            return "no reason was given"
        if status in _BUSY_STATUSES or status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return "the answer is not from a Seamark server"
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return "a proxy in front of the server accepts only smaller requests"
        other = "http" if self.address.scheme == "https" else "https"
        scheme = f", or {other}:// in front of it" if status == HTTPStatus.BAD_REQUEST else ""
        return f"no Seamark server answers there; is it the right address{scheme}?"

    def _token_hint(self) -> str:
        if self._token:  # given explicitly: stored tokens and the variable were not used
            return "; administrators of the server create tokens with `seamark token create`"
        if self._token is None and os.environ.get("SEAMARK_API_TOKEN", "").strip():
            return "; SEAMARK_API_TOKEN is set and overrides the token of `seamark login`"
        return f"; use `seamark login {self.address}` or SEAMARK_API_TOKEN"


def _decompress(packed: bytes, encoding: str, most: int) -> bytes:
    if not packed or encoding in ("", "identity"):
        return packed
    if encoding == "zstd":
        import zstandard

        try:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as it:
                found: bytes = it.read(most)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
        return found
    if encoding == "gzip":
        import zlib

        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, most)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"unexpected encoding {encoding:.40}")


def _parse_object(body: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body)
        if isinstance(found, dict):
            return found
    return {}


def _parse_error(details: Mapping[str, Any]) -> tuple[str, str, int | None]:
    slug, hint, known = details.get("error"), details.get("hint"), details.get("known")
    is_count = isinstance(known, int) and not isinstance(known, bool) and known >= 0
    words = hint if isinstance(hint, str) else slug if isinstance(slug, str) else ""
    plain = "".join(each if each.isprintable() else " " for each in words)[:_MAX_HINT_CHARACTERS]
    return slug if isinstance(slug, str) else "", plain, known if is_count else None


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        seconds = Retry().parse_retry_after(headers.get("Retry-After", ""))
    except (HTTPError, OverflowError, ValueError):
        return 0.0
    return min(_MAX_WAIT_S, seconds)


def _describe_error(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _describe_error(reason)
    cause = error.__cause__ or (error.__context__ if not str(error) else None)
    if isinstance(cause, OSError) and cause.strerror:
        return _describe_tls_error(str(cause.strerror))
    if isinstance(error, OSError) and error.strerror:
        return _describe_tls_error(str(error.strerror))
    found = next((one for one in error.args if isinstance(one, BaseException)), error)
    if isinstance(found, RemoteDisconnected):
        return "it closed the connection without an answer"
    if isinstance(found, BadStatusLine):
        return "no HTTP server answers there: is it the right port, or https://?"
    text = re.sub(r"^<?\w*Connection\w*\(.*?\)>?: ", "", str(error))
    return _describe_tls_error((text or type(error).__name__)[:200])


def _describe_tls_error(text: str) -> str:
    text = re.sub(r"^\[\w+: \w+\] | \(_ssl\.c:\d+\)$", "", text)
    if "wrong version number" in text or "record layer failure" in text:
        return "no TLS server answers there: is it the right port, or http:// on this machine?"
    if "certificate verify failed" in text:
        return f"{text}; set SSL_CERT_FILE to a file of certificates to trust"
    return text


def _make_pool(address: Address) -> Any:
    import urllib.request

    import urllib3

    proxy = None
    if not is_loopback(address.host) and not urllib.request.proxy_bypass(address.host):
        proxy = urllib.request.getproxies().get(address.scheme)
    made: Any = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()
    made.connection_pool_kw.update(maxsize=4, blocksize=_PIECE_BYTES)
    if not proxy:
        made.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return made
