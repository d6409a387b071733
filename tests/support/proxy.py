"""A way between a client and a server on which anything may go wrong, as a test asks for it."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from dataclasses import dataclass


@dataclass
class Trouble:
    """What happens to one connection."""

    after_sent: int | None = None  # cut when so many bytes have gone to the server
    after_answered: int | None = None  # cut when so many bytes have come back; 0 drops the answer
    reset: bool = False  # cut with a reset instead of an orderly end
    silent: bool = False  # do not cut, but pass nothing on any more
    delay_s: float = 0.0  # before each piece is passed on


class Proxy:
    """Passes connections on to a server, a pair of host and port.

    `trouble` returns what happens to the connection with this number, counted from 0.
    """

    def __init__(self, to, trouble=None):
        self.to = to
        self.trouble = trouble or (lambda _: None)
        self.down = False
        self.count = 0
        self._ended = threading.Event()
        self._open = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.address[1]}"

    def go_down(self):
        """Refuse everything from now on, and cut what is open."""
        self.down = True
        for each in list(self._open):
            _reset(each)

    def come_back(self):
        self.down = False

    def close(self):
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a client
        self._listener.close()
        self.go_down()
        self._thread.join(5)

    def _accept(self):
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            number, self.count = self.count, self.count + 1
            if self.down:
                _reset(client)
                continue
            trouble = self.trouble(number) or Trouble()
            threading.Thread(target=self._pass, args=(client, trouble), daemon=True).start()

    def _pass(self, client, trouble):
        try:
            server = socket.create_connection(self.to, 60)
        except OSError:
            _reset(client)
            return
        self._open |= {client, server}
        try:
            self._copy(client, server, trouble)
        except OSError:
            pass
        finally:
            self._open -= {client, server}
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.close()

    def _copy(self, client, server, trouble):
        """Pass on what either side says until one of them ends, or the trouble comes."""
        left = {client: trouble.after_sent, server: trouble.after_answered}
        while not self._ended.is_set():
            ready, _, _ = select.select([client, server], [], [], 0.5)
            for source in ready:
                data = source.recv(1 << 14)
                if not data:
                    return
                time.sleep(trouble.delay_s)
                limit = left[source]
                (server if source is client else client).sendall(data[:limit])
                if limit is None:
                    continue
                left[source] = max(0, limit - len(data))
                if not left[source]:
                    if trouble.silent:
                        self._ended.wait()
                    elif trouble.reset:
                        _reset(client)
                    return


def _reset(sock):
    """Close with RST: whoever reads at the other end gets ECONNRESET."""
    with contextlib.suppress(OSError):
        linger = b"\x01\0\0\0\0\0\0\0"
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        sock.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        sock.close()


@contextlib.contextmanager
def proxied(to, trouble=None):
    proxy = Proxy(to, trouble)
    try:
        yield proxy
    finally:
        proxy.close()
