"""Processes of a server: the supervisor, and workers that answer requests or fold journals.

Only the supervisor starts workers. It sends the settings to each worker as one line of standard
input, which stays open; end of file means that the supervisor has exited.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from starlette.types import ASGIApp

from seamark import __version__
from seamark.errors import SeamarkError
from seamark.server import checks
from seamark.server.checks import lock_server
from seamark.server.database import DatabaseUnreachable
from seamark.server.settings import Settings

EXIT_PERMANENT: Final = 78
"""Exit status of a process that would fail again if restarted."""
EXIT_TEMPORARY: Final = 75
ANSWERS: Final = b"a"
"""Message of a process to the supervisor once it answers requests."""
_KEEP_ALIVE_S: Final = 75
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ANSWER_STOP_S: Final = 60
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: list[str]) -> int:
    """Run a process: ``answer SOCKET READY`` or ``fold READY`` (descriptors); return its status."""
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO)
    for name in ("uvicorn.error", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_logged)
    settings = Settings.from_json(sys.stdin.readline())
    what, *descriptors = arguments
    try:
        if what == "answer":
            _answer(settings, *map(int, descriptors))
        else:
            _fold(settings, *map(int, descriptors))
    except DatabaseUnreachable as error:
        _print_failure(error)
        return EXIT_TEMPORARY
    except SeamarkError as error:
        _print_failure(error)
        return EXIT_PERMANENT
    return 0


def _is_logged(record: logging.LogRecord) -> bool:
    return "upgrade request" not in str(record.msg) and "WebSocket" not in str(record.msg)


def _answer(settings: Settings, listening: int, ready: int) -> None:
    from seamark.server.app import make_app
    from seamark.server.state import open_server

    serve_app(
        make_app(open_server(settings)),
        socket.socket(fileno=listening),
        lambda: _report_ready(ready, ANSWERS),
        until=0,
        idle_s=settings.limits.idle_s,
        stop_s=_ANSWER_STOP_S,
        header_bytes=settings.limits.header_bytes + settings.limits.target_bytes,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


def serve_app(
    app: ASGIApp,
    listening: socket.socket,
    begin: Callable[[], object],
    *,
    until: int | None,
    idle_s: float,
    stop_s: int,
    header_bytes: int,
    **options: Any,
) -> None:
    """Serve an application until a signal, or until the descriptor `until` is closed.

    `begin` is called once requests are accepted. `stop_s` limits the time for running requests at
    the end, `idle_s` that for headers, both in seconds. Other options are those of uvicorn.
    """
    import uvicorn

    from seamark.server.app import protocol_for

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol_for(idle_s),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=stop_s,
        h11_max_incomplete_event_size=header_bytes,
        **options,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # Existing objects stay; requests need not wait for the collector to examine them.
            gc.collect()
            gc.freeze()
            if not self.should_exit:
                begin()

    server = Announced(config)

    def end(*_: object) -> None:
        server.should_exit = True

    if until is not None:
        _when_closed(until, end)
    # uvicorn handles SIGTERM and SIGINT while it runs, and raises the signal that ended it again.
    # SIGHUP is sent when a terminal is closed; if it is ignored (`nohup`), it stays ignored.
    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        server.run([listening])


def _fold(settings: Settings, ready: int) -> None:
    stop = _stop_event()  # before NumPy starts threads that would not block the signals
    from seamark.server.folding.main import main as fold

    _when_closed(0, stop.set)  # when the supervisor ends
    _report_ready(ready, b"f")
    fold(settings, stop)


def _stop_event() -> threading.Event:
    # A handler interrupts the main thread, which may hold the lock of the event while it waits for
    # it. Setting the event there would be a deadlock, so a thread handles the signals.
    stop = threading.Event()
    numbers = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def wait_for_stop() -> None:
        signal.sigwait(numbers)
        stop.set()

    threading.Thread(target=wait_for_stop, name="seamark-signals", daemon=True).start()
    return stop


def _when_closed(descriptor: int, do: Callable[[], Any]) -> None:
    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, 4096):
                pass
        do()

    threading.Thread(target=watch, name="seamark-parent", daemon=True).start()


def _report_ready(ready: int, what: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(ready, what)
        os.close(ready)


def _print_failure(error: Exception) -> None:
    sys.stderr.write(f"seamark server: {error}\n")


Say = Callable[[str], Any]
_MIN_PAUSE_S: Final = 0.2
_MAX_PAUSE_S: Final = 30.0
_STABLE_S: Final = 30.0
"""Lifetime after which a dead process is restarted immediately, in seconds."""
_CHECK_S: Final = 0.05
"""Interval at which the supervisor checks for signals and processes, in seconds."""
_STOP_LIMIT_S: Final = 75.0
"""Time after which stopping processes are killed, in seconds; they give up slightly earlier."""
_MALLOC_SETTINGS: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Environment variables that make glibc return the memory of large bodies immediately."""
_CHILD_PROGRAM: Final = (
    "import sys\n"
    "sys.path[:] = [each for each in sys.path if each]\n"  # never modules of the working directory
    "from seamark.server.run import main\n"
    "sys.exit(main(sys.argv[1:]))\n"
)


def prepare(settings: Settings) -> str | None:
    """Check the resources of a server and upgrade its tables.

    Returns:
        The token of the first admin if it was just created, else None.
    """
    from seamark.server.accounts.accounts import Accounts
    from seamark.server.accounts.logins import load_authentication
    from seamark.server.accounts.tables import instance_of
    from seamark.server.checks import open_matching_objects
    from seamark.server.databases import open_databases
    from seamark.server.kept.rebuild import needs_rebuild
    from seamark.server.state import make_tables

    if settings.is_sqlite:
        checks.check_folder(settings.database_folder, "--store")
    load_authentication(settings.auth)
    databases = open_databases(settings.store)
    try:
        make_tables(databases)
        accounts = Accounts(databases.account)
        with contextlib.closing(open_matching_objects(databases, settings.blobs)) as place:
            if needs_rebuild(databases.kept, place):
                if not accounts.has_users():
                    raise checks.lost_database(settings)
                from seamark.server.folding.refold import take_up  # which imports NumPy

                take_up(databases, place)
        databases.store()
        instance_of(databases.account)
        made = accounts.first_admin()
    finally:
        databases.close()
    return made.secret if made else None


def serve(
    settings: Settings, say: Say, tell: Callable[[str | None, str], None] | None = None
) -> int:
    """Run a server until a signal ends it; return an exit code.

    After the first signal the server finishes accepted work; a second signal stops it at once.
    `tell` is called once the server answers, with the token of a new first admin or None, and the
    URL.
    """
    # The port first: if it failed later, the new token of the admin would never be shown.
    with (
        contextlib.closing(checks.bind(settings.host, settings.port)) as listening,
        lock_server(settings),
    ):
        token, url, is_announced = prepare(settings), url_of(settings, listening), False

        def ready() -> None:
            nonlocal is_announced
            is_announced = True
            if tell is not None:
                tell(token, url)

        try:
            return Supervisor(settings, listening, say, ready).run()
        finally:
            if token is not None and not is_announced:
                say(f"token of the first admin, shown this once: {token}")


def url_of(settings: Settings, listening: socket.socket) -> str:
    """Return the address of a server on this machine."""
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
        self.restart_at = 0.0
        self._started_s = 0.0
        self._pause_s = _MIN_PAUSE_S

    def start(self, ready: int) -> None:
        self._started_s = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - runs a module of this package
            [sys.executable, "-c", _CHILD_PROGRAM, *self._arguments, str(ready)],
            stdin=subprocess.PIPE,
            pass_fds=(*self._fds, ready),
            env=os.environ | _MALLOC_SETTINGS,
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which forwards it once
        )
        assert self.process.stdin is not None  # noqa: S101 - always a pipe
        with contextlib.suppress(OSError):  # it exited at once, which `ended` reports
            self.process.stdin.write(self._settings.encode() + b"\n")
            self.process.stdin.flush()

    def ended(self) -> int | None:
        if self.process is None or (code := self.process.poll()) is None:
            return None
        assert self.process.stdin is not None  # noqa: S101 - always a pipe
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process = None
        now = time.monotonic()
        self._pause_s = (
            _MIN_PAUSE_S
            if now - self._started_s > _STABLE_S
            else min(2 * self._pause_s, _MAX_PAUSE_S)
        )
        self.restart_at = now + self._pause_s
        return code

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Supervisor of the processes of a server; calls `ready` once the first answers."""

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
        """Start all processes; return when all have ended."""
        heard, tell = os.pipe()
        os.set_blocking(heard, False)
        try:
            with self._handlers():
                self._supervise(heard, tell)
        finally:
            for child in self._children:
                child.signal(signal.SIGKILL)
            os.close(heard)
            os.close(tell)
        return self._code

    def _supervise(self, heard: int, tell: int) -> None:
        announced = False
        stop_by: float | None = None
        while True:
            self._handle_exits()
            if self._signals or self._code:
                if stop_by is None:
                    stop_by = time.monotonic() + _STOP_LIMIT_S
                    self._stop_children()
                if self._all_ended(stop_by):
                    return
            else:
                self._start_missing(tell)
            with contextlib.suppress(BlockingIOError):
                if ANSWERS in os.read(heard, 4096) and not announced:
                    announced = True
                    self._ready()
            time.sleep(_CHECK_S)

    def _start_missing(self, tell: int) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None and now >= child.restart_at:
                child.start(tell)

    def _all_ended(self, stop_by: float) -> bool:
        if self._signals > 1 or time.monotonic() >= stop_by:
            for child in self._children:
                child.signal(signal.SIGKILL)
        return all(child.process is None for child in self._children)

    def _handle_exits(self) -> None:
        for child in self._children:
            code = child.ended()
            if code is None or self._signals:
                continue
            if code == EXIT_PERMANENT:
                self._code = 1  # the process has printed the reason
            elif not self._code:
                pause = child.restart_at - time.monotonic()
                self._say(f"{child.name} ended ({_exit_reason(code)}); restarting in {pause:.1f} s")

    def _stop_children(self) -> None:
        if self._signals:
            self._say("finishing accepted requests; a second signal stops the server at once")
        for child in self._children:
            child.signal(signal.SIGTERM)

    @contextlib.contextmanager
    def _handlers(self) -> Iterator[None]:
        def on_signal(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._signals += 1

        before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
        # If the parent ignored SIGCHLD, exit codes of children would be lost.
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def started_words(settings: Settings, token: str | None, url: str) -> list[str]:
    """Return the lines that are printed once a server answers: its address and the next steps."""
    from seamark.server.databases import redacted

    kept = settings.database_folder if settings.is_sqlite else redacted(settings.store)
    lines = [f"Seamark server {__version__} answers at {url}", f"  databases  {kept}"]
    lines.append(f"  objects    {checks.folder_of(settings.blobs) or redacted(settings.blobs)}")
    if token is not None:
        lines += [
            "",
            "  Token of the first admin, shown this once:",
            "",
            f"    {token}",
            "",
            "  Log in with it, and create tokens for users and training machines:",
            "",
            f"    seamark login {url}",
            "    seamark token create alice --project team --role contributor",
        ]
    return [*lines, "", "Ctrl-C finishes accepted requests, then stops."]
