"""Supervisor of a server: it listens, starts worker processes and restarts dead ones."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from seamark import __version__
from seamark.server import checks
from seamark.server.checks import alone
from seamark.server.worker import ANSWERS, EXIT_FOR_GOOD

if TYPE_CHECKING:
    from seamark.server.settings import Settings

__all__ = ["Prepared", "prepare", "serve"]

Say = Callable[[str], Any]

_FIRST_S: Final = 0.2
_LAST_S: Final = 30.0
_SETTLED_S: Final = 30.0
"""Who lived that long and dies is started again at once."""
_STOP_S: Final = 75.0
"""After how long processes that were told to stop are killed; they give up a little earlier."""
_ASKED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MEMORY: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Has glibc give back at once what large bodies took, whichever thread read them."""
_RUN: Final = (
    "import sys\n"
    "sys.path[:] = [each for each in sys.path if each]\n"  # never what lies in the working folder
    "from seamark.server.worker import main\n"
    "sys.exit(main(sys.argv[1:]))\n"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of the checks: token of the first admin, if it was just made, and warnings."""

    token: str | None
    notes: tuple[str, ...]


def prepare(settings: Settings) -> Prepared:
    """Check the resources of a server, upgrade its tables, and create the first admin."""
    from seamark.server.accounts.accounts import Accounts
    from seamark.server.accounts.logins import deciding_by
    from seamark.server.accounts.tables import instance_of
    from seamark.server.checks import open_matching_objects
    from seamark.server.databases import open_databases
    from seamark.server.kept.rebuild import needs_rebuild
    from seamark.server.state import make_tables

    if settings.is_sqlite:
        checks.check_folder(settings.database_folder, "--store")
    deciding_by(settings.auth)
    databases = open_databases(settings.store)
    try:
        make_tables(databases)
        accounts = Accounts(databases.account)
        with contextlib.closing(open_matching_objects(databases, settings.blobs)) as place:
            if needs_rebuild(databases.kept, place):
                checks.check_not_lost(settings, is_new=not accounts.has_users())
                from seamark.server.folding.refold import take_up  # which imports NumPy

                take_up(databases, place)
        databases.store()
        instance_of(databases.account)
        made = accounts.first_admin()
        note = checks.check_clock(databases)
    finally:
        databases.close()
    return Prepared(made.secret if made else None, (note,) if note else ())


def serve(settings: Settings, say: Say, tell: Callable[[Prepared, str], None] | None = None) -> int:
    """Run a server until a signal ends it; return an exit code.

    The first signal lets it finish what it accepted, a second one ends it at once. `tell` is called
    once the server answers, with what is known and its URL.
    """
    # First the port: the token of an admin that `prepare` makes would be shown by nobody.
    with (
        contextlib.closing(checks.bind(settings.host, settings.port)) as listening,
        alone(settings),
    ):
        prepared, url, told = prepare(settings), url_of(settings, listening), False

        def ready() -> None:
            nonlocal told
            told = True
            if tell is not None:
                tell(prepared, url)

        try:
            return Supervisor(settings, listening, say, ready).run()
        finally:
            if prepared.token is not None and not told:
                say(f"token of the first admin, shown this once: {prepared.token}")


def url_of(settings: Settings, listening: socket.socket) -> str:
    """Return the address at which a server on this machine is reached."""
    scheme = "https" if settings.tls_cert else "http"
    host = settings.host
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listening.getsockname()[1]}"


class _Child:
    def __init__(
        self, name: str, arguments: list[str], settings: str, fds: tuple[int, ...]
    ) -> None:
        self.name, self._arguments, self._settings, self._fds = name, arguments, settings, fds
        self.process: subprocess.Popen[bytes] | None = None
        self.again_at = 0.0
        self._began = 0.0
        self._pause_s = _FIRST_S

    def start(self, ready: int) -> None:
        self._began = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [sys.executable, "-c", _RUN, *self._arguments, str(ready)],
            stdin=subprocess.PIPE,
            pass_fds=(*self._fds, ready),
            env=os.environ | _MEMORY,
            start_new_session=True,  # Ctrl-C reaches the supervisor, which passes it on once
        )
        assert self.process.stdin is not None  # noqa: S101 - a pipe, as asked for
        with contextlib.suppress(OSError):  # it died at once: noticed like any other death
            self.process.stdin.write(self._settings.encode() + b"\n")
            self.process.stdin.flush()

    def ended(self) -> int | None:
        if self.process is None or (code := self.process.poll()) is None:
            return None
        assert self.process.stdin is not None  # noqa: S101 - a pipe, as asked for
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process = None
        now = time.monotonic()
        self._pause_s = (
            _FIRST_S if now - self._began > _SETTLED_S else min(2 * self._pause_s, _LAST_S)
        )
        self.again_at = now + self._pause_s
        return code

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Keeps the processes of a server running; `ready` is called once the first answers."""

    def __init__(
        self,
        settings: Settings,
        listening: socket.socket,
        say: Say,
        ready: Callable[[], None],
    ) -> None:
        self._say, self._ready = say, ready
        line, shared = settings.to_json(), listening.fileno()
        answering = [
            _Child(f"worker {number}", ["answer", str(shared)], line, (shared,))
            for number in range(1, settings.workers + 1)
        ]
        folding = [
            _Child(f"fold worker {number}", ["fold"], line, ())
            for number in range(1, settings.fold_workers + 1)
        ]
        self._children = [*answering, *folding]
        self._signals = 0
        self._code = 0

    def run(self) -> int:
        """Start everything and return when everything has ended."""
        woken, wake = os.pipe()
        heard, tell = os.pipe()
        for fd in (woken, wake, heard, tell):
            os.set_blocking(fd, False)
        with self._handlers(wake), selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            selector.register(heard, selectors.EVENT_READ)
            try:
                self._work(selector, heard, tell)
            finally:
                for child in self._children:
                    child.signal(signal.SIGKILL)
        for fd in (woken, wake, heard, tell):
            os.close(fd)
        return self._code

    def _work(self, selector: selectors.BaseSelector, heard: int, tell: int) -> None:
        announced = False
        stop_by: float | None = None
        while True:
            self._reap()
            if self._signals or self._code:
                if stop_by is None:
                    stop_by = time.monotonic() + _STOP_S
                    self._stop_children()
                if self._is_over(stop_by):
                    return
            else:
                self._start_missing(tell)
            for key, _ in selector.select(self._pause(stop_by)):
                data = os.read(int(key.fd), 4096)
                if key.fd == heard and ANSWERS in data and not announced:
                    announced = True
                    self._ready()

    def _start_missing(self, tell: int) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None and now >= child.again_at:
                child.start(tell)

    def _is_over(self, stop_by: float) -> bool:
        if self._signals > 1 or time.monotonic() >= stop_by:
            for child in self._children:
                child.signal(signal.SIGKILL)
        return all(child.process is None for child in self._children)

    def _pause(self, stop_by: float | None) -> float | None:
        if stop_by is not None:
            return max(0.0, stop_by - time.monotonic())
        waiting = [child.again_at for child in self._children if child.process is None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _reap(self) -> None:
        for child in self._children:
            code = child.ended()
            if code is None or self._signals:
                continue
            if code == EXIT_FOR_GOOD:
                self._code = 1  # it has said why
            elif not self._code:
                pause = child.again_at - time.monotonic()
                self._say(f"{child.name} ended ({_code_words(code)}); again in {pause:.1f} s")

    def _stop_children(self) -> None:
        if self._signals:
            self._say("finishing what was accepted; a second signal ends it at once")
        for child in self._children:
            child.signal(signal.SIGTERM)

    @contextlib.contextmanager
    def _handlers(self, wake: int) -> Iterator[None]:
        def on_signal(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._signals += 1

        before = {number: signal.signal(number, on_signal) for number in _ASKED}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        old = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)


def _code_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def started_words(settings: Settings, prepared: Prepared, url: str) -> list[str]:
    """Return the text that is printed once a server answers: its address and the next steps."""
    from seamark.server.databases import redacted

    kept = settings.database_folder if settings.is_sqlite else redacted(settings.store)
    lines = [f"Seamark server {__version__} answers at {url}", f"  databases  {kept}"]
    lines.append(f"  objects    {checks.folder_of(settings.blobs) or redacted(settings.blobs)}")
    if prepared.token is not None:
        lines += [
            "",
            "  Token of the first admin, shown this once:",
            "",
            f"    {prepared.token}",
            "",
            "  Log in with it, and make tokens for people and training machines:",
            "",
            f"    seamark login {url}",
            "    seamark token create alice --project team --role contributor",
        ]
    lines += ["", *(f"  {note}" for note in prepared.notes)]
    lines.append("Ctrl-C finishes what was accepted, then stops.")
    return lines
