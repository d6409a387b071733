"""A connection whose headers have to arrive in time."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol", "protocol_for"]


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with an end to waiting for the headers of a request.

    uvicorn bounds how long a connection may rest between requests, and nothing before the first
    one: who opens connections and says nothing would keep them for ever.
    """

    headers_s: ClassVar[float] = 30.0
    """How long the headers of a request may take to arrive, seconds."""
    _late: asyncio.TimerHandle | None = None

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
        super().connection_lost(exc)

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
