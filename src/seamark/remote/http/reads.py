"""Read requests to a server, with caching and its clock, errors and notices."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote

from msgspec import UNSET

from seamark.errors import ArgumentError, QueryError, RunNotFoundError
from seamark.reading.codec import WireError, unpack
from seamark.reading.reader import Answer as ReadAnswer
from seamark.remote import shipper
from seamark.remote.http.connection import OTHER_VERSION, Answer, Connection
from seamark.remote.protocol import Busy, Missing, RemoteError, RunKey, TooLong

T = TypeVar("T")

_SEND_S: Final = 2.0
"""Time limit for sending the records of this process before a read, in seconds."""
_BUSY_S: Final = 10.0
"""Total time limit of a read for waiting for a busy server, in seconds."""
_MAX_CACHED: Final = 128
_MAX_CACHED_BYTES: Final = 4 << 20
"""Maximum size of a cached answer, in bytes; the server may reply "unchanged" for these."""
_MAX_PARTS: Final = 10_000
_NOW_HEADER: Final = "Seamark-Now"
_POSITION_HEADER: Final = "Seamark-Position"
_BEHIND_HEADER: Final = "Seamark-Behind"
_MAX_MESSAGE: Final = 4000


class ServerClient:
    """Client for requests to one server; usable by any number of threads.

    `behind` is whether the last answer lacked records that were sent before the request.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._clock_offset_ns = 0
        self.behind = False
        self._cache: OrderedDict[bytes, tuple[str, bytes]] = OrderedDict()

    @property
    def where(self) -> str:
        """Address of the server."""
        return str(self.connection.address)

    def now_ns(self) -> int:
        """Return the current time of the server's clock, in nanoseconds since the Unix epoch."""
        return time.time_ns() + self._clock_offset_ns

    def send_first(self, seconds: float = _SEND_S) -> bool:
        """Wait until the server has the records of this process; return False on timeout."""
        return shipper.flush(self.where, seconds)

    def edited(self, run: RunKey, position: int) -> None:
        """Note the position of an edit, as returned by the server, so that later reads see it."""
        shipper.note_position(self.where, run, position)

    # ---------------------------------------------------------------- requests

    def read(self, verb: str, kind: Any, question: Mapping[str, Any]) -> Any:
        """Return the answer to a read request; see `parts`."""
        return self.whole(verb, kind, question).answer

    def whole(self, verb: str, kind: Any, question: Mapping[str, Any]) -> ReadAnswer[Any]:
        """Return the whole answer to a read request with its additional fields; see `parts`."""
        parts = self.parts(verb, kind, question)
        found = next(parts)
        if found.next is not None and not isinstance(found.answer, list):
            raise WireError(f"unexpected answer: a {type(found.answer).__name__} in parts")
        for part in parts:
            found.answer += part.answer
        return found

    def parts(self, verb: str, kind: Any, question: Mapping[str, Any]) -> Iterator[ReadAnswer[Any]]:
        """Yield the answer to a read request in the parts that the server sends.

        `verb` is one of `seamark.server.reads`, `kind` the type of the answer. Raises `RemoteError`
        if the request fails. Errors in the request itself raise `QueryError`, `ArgumentError` or
        `RunNotFoundError`.
        """
        asked = question
        for _ in range(_MAX_PARTS):
            part = self._read_part(verb, kind, asked)
            if part.next is None:
                yield part
                return
            if part.answer == [] or part.next == asked.get("next"):
                break
            yield part
            asked = {**question, "next": part.next}
        raise WireError("unexpected answer: an endless sequence of parts")

    def _read_part(self, verb: str, kind: Any, question: Mapping[str, Any]) -> ReadAnswer[Any]:
        key = f"{verb} ".encode() + json.dumps(question, default=_to_json).encode()
        with self._lock:
            if known := self._cache.get(key):
                self._cache.move_to_end(key)
        asked = {**question, "seen": known[0]} if known else question
        answer = self._send("POST", f"read/{verb}", asked, {"Accept": "application/msgpack"})
        found: ReadAnswer[Any] = self._decode(answer, kind)
        if found.unchanged and known:  # decoded again, because callers may change the answer
            before: ReadAnswer[Any] = unpack(known[1], ReadAnswer[kind])
            return before
        if found.answer is UNSET:
            raise WireError("unexpected answer: it has no content")
        if found.seen and len(answer.body) < _MAX_CACHED_BYTES:
            with self._lock:
                self._cache[key] = found.seen, answer.body
                while len(self._cache) > _MAX_CACHED:
                    self._cache.popitem(last=False)
        return found

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request for a change and return the answer; see `read`."""
        return self._send(method, path, body, {}).record()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Answer:
        data = json.dumps(body, default=_to_json).encode()
        headers = {"Content-Type": "application/json", **headers}
        answer = self._retry_while_busy(
            lambda: self.connection.ask(
                method, path, body=data, headers=self._with_positions(headers)
            ),
            path,
        )
        self._note_time(answer)
        return answer

    def _with_positions(self, headers: Mapping[str, str]) -> dict[str, str]:
        known = shipper.positions(self.where)
        if not known:
            return dict(headers)
        value = ", ".join(
            f"{quote(f'{run.project}/{run.run}', safe='/')}={number}"
            for run, number in known.items()
        )
        return {**headers, _POSITION_HEADER: value}

    def _retry_while_busy(self, ask: Callable[[], Answer], path: str) -> Answer:
        until = time.monotonic() + _BUSY_S
        while True:
            try:
                return ask()
            except Busy as error:
                wait = max(0.2, error.wait_s)
                if time.monotonic() + wait > until:
                    raise
                time.sleep(wait)
            except RemoteError as error:
                _raise_specific(error, path)

    def _decode(self, answer: Answer, kind: Any) -> ReadAnswer[Any]:
        from seamark import __version__

        try:
            found: ReadAnswer[Any] = unpack(answer.body, ReadAnswer[kind])
        except WireError as error:
            if _NOW_HEADER in answer.headers:
                msg = f"{self.where}: {error}; is that server newer than Seamark {__version__}?"
            else:
                msg = f"no Seamark server answers at {self.where}: is it the right address?"
            raise WireError(msg) from error
        return found

    def _note_time(self, answer: Answer) -> None:
        self.behind = bool(answer.headers.get(_BEHIND_HEADER))
        value = answer.headers.get(_NOW_HEADER, "")
        if value.isascii() and value.isdigit() and len(value) < 20:  # noqa: PLR2004 - 64 bits
            self._clock_offset_ns = int(value) - time.time_ns()


def _raise_specific(error: RemoteError, path: str) -> NoReturn:
    slug, hint = error.said.get("error"), error.said.get("hint")
    words = _printable(hint) if isinstance(hint, str) else ""
    if slug == "query" and words:
        raise QueryError(words) from None
    if error.status == 422 and words and not isinstance(error, TooLong):  # noqa: PLR2004
        raise ArgumentError(words) from None
    known = slug and slug not in OTHER_VERSION
    if isinstance(error, Missing) and known and path.startswith(("runs/", "read/")):
        raise RunNotFoundError(words or str(error)) from None
    raise error


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)[:_MAX_MESSAGE]


def expect_member(found: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a member of an answer; raise `WireError` if it is missing or of another type."""
    value = found.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WireError(
            f"unexpected answer: expected {name} to be {kind.__name__}, got {value!r:.80}"
        )
    return value


def _to_json(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else list(value)
