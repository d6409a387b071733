"""A connection whose headers have to arrive in time."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["make_protocol"]


def make_protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol, with an end to waiting for the rest of a request's headers.

    uvicorn bounds how long a connection may rest between requests, and nothing before the first
    one: who opens connections and says nothing would keep them for ever.

    Args:
        seconds: How long the headers may take.
    """

    class Patient(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            begun = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
            if not begun and self.conn.their_state is not h11.IDLE:
                self._stop()
            elif begun and self._late is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._late = self.loop.call_later(seconds, self._give_up)

        def _stop(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _give_up(self) -> None:
            self._late = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return Patient
