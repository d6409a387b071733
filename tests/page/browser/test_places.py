"""The same page elsewhere: below a prefix, in a frame, on a team's server, of several roots."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from page_looking import expect, opening, plotted
from page_process import page_environment, until
from prefix_proxy import PREFIX, prefixed

pytest.importorskip("fastapi")


def test_below_a_prefix(main_page, tab):
    """In a frame, too. All addresses are relative: nothing is asked for outside of it."""
    asked = []
    with prefixed(main_page.port) as url:
        origin = url.removesuffix(PREFIX)
        tab.goto(f"{origin}/frame?{PREFIX}?project=sweep#token={main_page.token}")
        frame = tab.frame_locator("iframe")
        # The fragment belongs to the outer address: the frame asks for the token.
        frame.get_by_label("Token").fill(main_page.token)
        frame.get_by_role("button", name="Open").click()
        expect(frame.get_by_role("row").filter(has_text="sweep-209")).to_be_visible()
        tab.on("request", lambda request: asked.append(urlsplit(request.url).path))
        tab.goto(f"{url}?project=vision/digits#token={main_page.token}")
        expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
        plotted(tab, "train/loss")
        tab.reload()
        expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
        tab.goto("about:blank")
    assert asked
    assert [path for path in asked if not path.startswith(PREFIX)] == []


@contextlib.contextmanager
def jupyter_server(folder):
    """A real Jupyter server with jupyter-server-proxy; yields its address and its log."""
    for name in ("jupyter_server", "jupyter_server_proxy"):
        pytest.importorskip(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--port={port}"]
    words += ["--ServerApp.port_retries=0", "--ServerApp.base_url=/user/anna/"]
    words += ["--IdentityProvider.token=letmein", f"--ServerApp.root_dir={folder}"]
    homes = {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    with (folder / "jupyter.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *words],
            env={**os.environ, **homes},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: _answers(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "jupyter.log").read_text()
        yield f"http://127.0.0.1:{port}/user/anna/"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@pytest.mark.thorough
def test_below_a_real_jupyter_server(main_page, tab, tmp_path):
    """Who is signed in there opens the page below ``proxy/PORT/``: runs, charts, files, edits."""
    asked = []
    with jupyter_server(tmp_path) as jupyter:
        place = f"{jupyter}proxy/{main_page.port}/"
        tab.goto(f"{jupyter}api/status?token=letmein")  # signs in: a cookie of Jupyter's
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(f"{place}?project=vision/digits#token={main_page.token}")
        row = tab.get_by_role("row").filter(has_text="calm-heron")
        expect(row).to_be_visible()
        plotted(tab, "train/loss")
        row.get_by_role("link").first.click()
        tab.get_by_role("tab", name="Files").click()
        file = tab.get_by_role("row").filter(has_text="checkpoints/last")
        with tab.expect_download() as told:
            file.get_by_role("button").click()
        assert told.value.path().read_bytes() == bytes(2_000)
        tab.reload()
        expect(file).to_be_visible()
        tab.goto("about:blank")
    assert [url for url in asked if not url.startswith((place, "about:", "blob:"))] == []


def test_on_a_server_with_tokens(run_server, main_root, home, tab, watched):
    """What a team's server answers at its root is the same page; a token of an account opens it."""
    watched.allow("401")
    server = run_server()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "seamark",
            "sync",
            "--root",
            str(main_root),
            "--project",
            "vision/digits",
        ],
        check=True,
        capture_output=True,
        timeout=240,
        env=page_environment(**home, SEAMARK_REMOTE=server.url, SEAMARK_API_TOKEN=server.token),
    )
    tab.goto(f"{server.url}/?project=vision/digits")
    field = tab.get_by_label("Token")
    field.fill("seamark_no")
    field.press("Enter")
    expect(tab.get_by_role("table")).to_have_count(0)
    field = tab.get_by_label("Token")
    field.fill(server.token)
    field.press("Enter")
    expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
    plotted(tab, "train/loss")


def test_several_roots_are_entries_of_one_list(recorded, serve, tab):
    """Each is opened by itself, and named on every screen."""
    page = serve(recorded("few"), recorded("extremes"))
    tab.goto(opening(page, "?screen=projects"))
    for project in ("sweep", "extremes"):
        expect(tab.get_by_role("link", name=project).first).to_be_visible()
    tab.get_by_role("link", name="extremes").first.click()
    expect(tab.get_by_role("row").filter(has_text="extremes")).to_be_visible()
