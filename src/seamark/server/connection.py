"""A connection whose headers have to arrive in time, and whose answers have to be read."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol", "protocol_for"]

_SLOWEST: Final = 1024
"""How slowly an answer may be read while the server waits, bytes a second."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with an end to waiting for headers, and for who does not read.

    uvicorn bounds how long a connection may rest between requests, and nothing before the first
    one: who opens connections and says nothing would keep them for ever, and so would who asks for
    much and reads none of it.
    """

    headers_s: ClassVar[float] = 30.0
    """How long the headers of a request may take to arrive, and an answer rest unread, seconds."""
    _late: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of what is sent."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None and self.conn.trailing_data[0]:  # the beginning of a next request
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        self._stop()
        self._read_again()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait for who does not read what they asked for."""
        super().pause_writing()
        self._read_again()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Go on: it was read."""
        self._read_again()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(self.headers_s, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Cut a connection whose other side reads nothing, or next to nothing."""
        self._slow = None
        read = self._unread - self.transport.get_write_buffer_size()
        if read < _SLOWEST * self.headers_s:
            self.transport.abort()
        else:
            self._wait_for_reader()

    def _read_again(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self._give_up)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def protocol_for(seconds: float) -> type[PatientProtocol]:
    """Return the protocol with the time that headers may take, seconds."""
    return type("Protocol", (PatientProtocol,), {"headers_s": seconds})
