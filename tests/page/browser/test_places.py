"""The same page elsewhere: below a prefix, in a frame, on a team's server, of several roots."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

import pytest
from page_looking import expect, opening, plotted
from page_process import page_environment, until
from prefix_proxy import PREFIX, prefixed

pytest.importorskip("fastapi")


@contextlib.contextmanager
def plain_proxy(port, folder):
    """A proxy as JupyterHub's; yields the address of the page, and one that signs in."""
    with prefixed(port) as url:
        yield url, url


@contextlib.contextmanager
def jupyter_server(page_port, folder):
    """A real Jupyter server with jupyter-server-proxy; yields the same."""
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

    def answers():
        assert process.poll() is None, (folder / "jupyter.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return True
        return False

    try:
        until(answers)
        jupyter = f"http://127.0.0.1:{port}/user/anna/"
        yield f"{jupyter}proxy/{page_port}/", f"{jupyter}api/status?token=letmein"
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.parametrize(
    "proxy", [plain_proxy, pytest.param(jupyter_server, marks=pytest.mark.thorough)]
)
def test_below_a_proxy_nothing_outside_of_it_is_asked_for(proxy, main_page, tab, tmp_path):
    asked = []
    with proxy(main_page.port, tmp_path) as (place, signing_in):
        tab.goto(signing_in)
        tab.goto("about:blank")
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
    assert asked
    assert [url for url in asked if not url.startswith((place, "about:", "blob:"))] == []


def test_the_page_is_shown_in_a_frame(main_page, tab):
    """The fragment belongs to the outer address: the frame asks for the token."""
    with prefixed(main_page.port) as url:
        tab.goto(f"{url.removesuffix(PREFIX)}/frame?{PREFIX}?project=sweep#token=x")
        frame = tab.frame_locator("iframe")
        frame.get_by_label("Token").fill(main_page.token)
        frame.get_by_role("button", name="Open").click()
        expect(frame.get_by_role("row").filter(has_text="sweep-209")).to_be_visible()
        tab.goto("about:blank")


def test_a_token_of_an_account_opens_the_page_of_a_server(
    run_server, main_root, home, tab, watched
):
    watched.allow("401")
    server = run_server()
    words = ["sync", "--root", str(main_root), "--project", "vision/digits"]
    subprocess.run(
        [sys.executable, "-m", "seamark", *words],
        check=True,
        capture_output=True,
        timeout=240,
        env=page_environment(**home, SEAMARK_REMOTE=server.url, SEAMARK_API_TOKEN=server.token),
    )
    tab.goto(f"{server.url}/?project=vision/digits")
    for token in ("seamark_no", server.token):
        field = tab.get_by_label("Token")
        field.fill(token)
        field.press("Enter")
        expect(tab.get_by_role("table")).to_have_count(0 if token == "seamark_no" else 1)
    expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
    plotted(tab, "train/loss")


def test_several_roots_are_entries_of_one_list(recorded, serve_here, tab):
    page = serve_here(recorded("few"), recorded("extremes"))
    tab.goto(opening(page, "?screen=projects"))
    for root, project in (("root-1", "extremes"), ("root-0", "sweep")):
        tab.get_by_role("link", name=root).first.click()
        expect(tab.get_by_role("row").filter(has_text=project)).to_be_visible()
    # Numbers of any size are drawn.
    tab.goto(opening(page, "?root=root-1&project=extremes"))
    for path in ("huge", "tiny", "both", "near"):
        plotted(tab, path, lambda found: None not in (found["y"]["min"], found["y"]["max"]))
