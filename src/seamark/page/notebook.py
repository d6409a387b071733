"""``seamark.ui()``: the page in a cell of a notebook.

The page runs in a separate process, which ends with this one. Cell output is saved with the
notebook, so the address of the frame contains a ticket for a single use; see `seamark.page.app`.
"""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from seamark.errors import ArgumentError, SeamarkError
from seamark.page import opening, roots
from seamark.page.roots import Root, named_roots
from seamark.page.start import Given, Started, check, check_extra, serve

_RUN: Final = (
    "import sys\n"
    "sys.path[:] = [each for each in sys.path if each]\n"  # never modules in the working directory
    "from seamark.page.notebook import main\n"
    "sys.exit(main(sys.argv[1:]))\n"
)
_REQUEST_S: Final = 10.0
_MIN_HEIGHT: Final = 100
_pages: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], Started]] = {}
"""Pages started by this process, by roots. They end when their standard input is closed."""


class Frame:
    """Page that is displayed in a frame as the last expression of a cell.

    Attributes:
        url: Address of the page, without its token.
    """

    def __init__(self, started: Started, roots: Sequence[Root], height: int) -> None:
        self._started, self._roots, self._height = started, roots, height
        self.url = opening.proxied(started.port) or started.url

    def __repr__(self) -> str:
        names = ", ".join(str(root.path) for root in self._roots)
        return f"the page of {names} (in a terminal: seamark ui)"

    def _repr_html_(self) -> str:
        address = html.escape(f"{self.url}{self._ticket()}", quote=True)
        return (
            f'<iframe src="{address}" width="100%" height="{self._height}" '
            'style="border:0" title="Seamark" allow="clipboard-write"></iframe>'
        )

    def _ticket(self) -> str:
        started = self._started
        if started.token is None:
            return ""
        connection = http.client.HTTPConnection(started.host, started.port, timeout=_REQUEST_S)
        try:
            connection.request("POST", "/open", headers={"X-Seamark-Token": started.token})
            return str(json.loads(connection.getresponse().read())["path"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise SeamarkError(
                "the page of seamark.ui() has ended; call the function again"
            ) from error
        finally:
            connection.close()


def ui(*folders: str | os.PathLike[str], height: int = 800) -> Frame:
    """Show runs in a notebook cell: tables, curves and output, updated live.

    The page runs in a separate process, shared by calls with the same folders, which ends with the
    kernel. It needs ``pip install "seamark[ui]"``, and behind a JupyterHub jupyter-server-proxy;
    otherwise the browser must run on this machine, or reach the port over ssh. No token is saved
    with the notebook: the frame's address works once, within a minute. Run the cell again to see
    the page again.

    Args:
        *folders: Roots; without any, the root to which runs are recorded.
        height: Height of the frame, in pixels.

    Returns:
        The frame, displayed as the last expression of a cell; its ``url`` has no token.

    Raises:
        ArgumentError: If a folder does not exist, or ``height`` is not a number of pixels.
        MissingExtraError: If FastAPI or uvicorn is not installed.
        SeamarkError: If the page cannot start.
    """
    check_extra()
    if not isinstance(height, int) or isinstance(height, bool) or height < _MIN_HEIGHT:
        raise ArgumentError(f"height: expected at least {_MIN_HEIGHT} pixels, got {height!r}")
    roots = named_roots(folders)
    for root in roots:
        if folders and not root.path.is_dir():
            raise ArgumentError(f"folders: {str(root.path)!r} does not exist")
    check(Given(roots))
    paths = tuple(str(root.path) for root in roots)
    process, started = _pages.get(paths, (None, None))
    if started is None or process is None or process.poll() is not None:
        _pages[paths] = _, started = _start(paths)
    return Frame(started, roots, height)


def _start(paths: Sequence[str]) -> tuple[subprocess.Popen[bytes], Started]:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [sys.executable, "-c", _RUN, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # interrupting a cell does not end the page
        )
        assert process.stdin is not None  # noqa: S101 - a pipe, as asked for
        assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
        with process.stdout as said:
            port = said.readline().strip()
        if port:
            host = "127.0.0.1"
            url = opening.address(host, int(port))
            return process, Started(url, roots.keep(), host, int(port))
        process.wait()
        process.stdin.close()
        errors.seek(0)
        words = errors.read().decode("utf-8", "replace").strip().split("\n")[-1]
    raise SeamarkError(f"the page did not start: {words or 'no output'}")


def main(paths: Sequence[str]) -> int:
    """Serve a page for roots at given paths until standard input is closed."""
    given = Given(named_roots(paths), embed=True)

    def send_port(started: Started, _: object) -> None:
        with contextlib.suppress(OSError):
            os.write(1, b"%d\n" % started.port)

    try:
        return serve(given, send_port, until=0)
    except SeamarkError as error:
        sys.stderr.write(f"{error}\n")
        return 1
