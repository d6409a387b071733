"""The page in a process of its own, as people start it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_URL = re.compile(r"(http://127\.0\.0\.1:(\d+)/\S*?)#token=(\S+)")
_HIDDEN = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "JUPYTERHUB_SERVICE_PREFIX", "SSH_CONNECTION")


@dataclass
class PageProcess:
    """A page that answers.

    Attributes:
        url: Where, without the token.
        port: Of it.
        token: What its reads want.
        process: That serves.
        lines: What it has printed so far.
    """

    url: str
    port: int
    token: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def opened(self) -> str:
        """The address that people open."""
        return f"{self.url}#token={self.token}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(30)
            if self.process.stdout is not None:
                self.process.stdout.close()


def own_environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment of somebody whose home is an empty folder, without a screen.

    Args:
        folder: Below which the home, its cache and its configuration lie; made if missing.
        **more: Further variables.
    """
    homes = {}
    for name, part in (
        ("HOME", "home"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_CONFIG_HOME", "config"),
    ):
        (folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        homes[name] = str(folder / part)
    (folder / "run").mkdir(exist_ok=True, mode=0o700)
    homes["XDG_RUNTIME_DIR"] = str(folder / "run")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _HIDDEN and not name.startswith(("SEAMARK_", "NEPTUNE_", "SLURM_"))
    }
    return {**kept, **homes, "NO_COLOR": "1", **more}


def start_page(
    *roots: Path, env: Mapping[str, str], port: int = 0, options: tuple[str, ...] = ()
) -> PageProcess:
    """Start ``seamark ui`` and return when it has said where it answers.

    Args:
        *roots: Whose runs it shows.
        env: Its whole environment; see `own_environment`.
        port: On which; 0: any that is free.
        options: Further words of the command.
    """
    words = ["ui", "--port", str(port), *options, *map(str, roots)]
    process = subprocess.Popen(
        [sys.executable, "-m", "seamark", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(env),
        cwd=env["HOME"],
    )
    lines: list[str] = []
    said = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if _URL.search(line):
                said.set()
        said.set()

    threading.Thread(target=read, daemon=True).start()
    assert said.wait(120), lines
    found = _URL.search("\n".join(lines))
    assert found is not None, lines
    return PageProcess(found[1], int(found[2]), found[3], process, lines)


@contextmanager
def running_page(*roots: Path, **rest: object) -> Iterator[PageProcess]:
    """Show roots for a block; see `start_page`."""
    page = start_page(*roots, **rest)  # type: ignore[arg-type]
    try:
        yield page
    finally:
        page.stop()
