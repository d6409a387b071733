"""Errors, damage and missing data are explained; what is shown stays."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys

import page_roots
import pytest
from page_looking import address, expect, findings, opening, plotted
from page_process import running_page

from seamark.reading.names import generated_name


@pytest.fixture
def live(tmp_path, home):
    """A training that logs a step for each line it is sent: its root and its process."""
    root = tmp_path / "live" / "runs"
    root.parent.mkdir()
    process = subprocess.Popen(
        [sys.executable, page_roots.__file__, "live", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=page_roots.environment(home),
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield root, process
    process.kill()
    process.communicate()


def test_new_points_and_a_crash_are_shown_without_reload(live, serve, tab, hasten):
    root, process = live
    hasten(20)
    page = serve(root)
    tab.goto(opening(page, "?project=live"))
    row = tab.get_by_role("row").filter(has_text="live")
    expect(row).to_contain_text("running")
    expect(tab).to_have_title(re.compile("1 running"))
    assert len(plotted(tab, "train/loss")["data"][0]) == 1
    process.stdin.write("\n" * 4)
    process.stdin.flush()
    found = plotted(tab, "train/loss", lambda found: len(found["data"][0]) == 5)
    assert found["data"][1] == [1, 2, 3, 4, 5]
    process.send_signal(signal.SIGKILL)
    process.wait()
    expect(row).to_contain_text("crashed", timeout=100_000)
    expect(tab).to_have_title(re.compile("1 crashed"))
    tab.get_by_role("link", name="seamark").click()
    project = tab.get_by_role("row").filter(has_text="live")
    expect(project.get_by_role("cell")).to_have_text(["1", "0", "0", "1", "0", re.compile("ago")])
    project.get_by_role("link", name="1", exact=True).click()
    expect(tab.get_by_role("row").filter(has_text="live")).to_contain_text("crashed")


def test_a_page_whose_server_went_away_clears_nothing(recorded, own_home, tab, watched, hasten):
    hasten(20)
    watched.allow("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
    root = recorded("few")
    with running_page(root, **own_home) as page:
        page.settle()
        tab.goto(opening(page, "?project=sweep"))
        row = tab.get_by_role("row").filter(has_text="sweep-001")
        plotted(tab, "val/loss")
    tab.get_by_role("button", name="look now").click()
    banner = tab.get_by_role("alert").filter(has_text="What you see is from before")
    expect(banner).to_be_visible()
    expect(row).to_be_visible()
    plotted(tab, "val/loss")
    tab.get_by_role("checkbox", name="log y").check()
    refused = tab.locator(".chart-error")
    expect(refused.first).to_be_visible()
    with running_page(root, "--port", page.port, **own_home) as again:
        assert again.token == page.token
        # It is asked again by itself, ever later.
        expect(banner).to_have_count(0, timeout=100_000)
        expect(row).to_be_visible()
        expect(refused).to_have_count(0)
        plotted(tab, "val/loss")


def test_damage_and_a_failure_are_explained(main_page, tab):
    tab.goto(opening(main_page, "?project=vision/digits"))
    row = tab.get_by_role("row").filter(has_text="bad-disk")
    expect(row).to_contain_text(re.compile(r"damage|gap", re.IGNORECASE))
    row.get_by_role("link", name="bad-disk").click()
    expect(tab.get_by_role("main")).to_contain_text(re.compile(r"damage|gap", re.IGNORECASE))
    tab.get_by_role("button", name="damaged bytes").click()
    expect(tab.get_by_text(re.compile("fsck")).first).to_be_visible()
    tab.goto(address(main_page, "?project=vision/digits"))
    tab.get_by_role("row").filter(has_text="sad-crab").get_by_role("link").first.click()
    expect(tab.get_by_role("main")).to_contain_text("failed")
    expect(tab.get_by_text("could not convert string to float").first).to_be_visible()


def test_files_are_saved_by_the_browser_and_missing_ones_cannot_be_clicked(
    recorded, serve_here, tab
):
    root = recorded("heron")
    digest = hashlib.sha256(b"\0" * 2_000).hexdigest()
    (blob,) = root.glob(f"vision/digits/*/blobs/{digest}")
    blob.unlink()
    page = serve_here(root)
    run = blob.parent.parent.name
    tab.goto(opening(page, f"?project=vision/digits&run={run}&tab=files"))
    gone = tab.get_by_role("row").filter(has_text="checkpoints/last")
    expect(gone.get_by_text("gone")).to_be_visible()
    expect(gone.get_by_role("button")).to_have_count(0)
    there = tab.get_by_role("row").filter(has_text="report")
    expect(there).to_contain_text("with the run")
    with tab.expect_download() as told:
        there.get_by_role("button").click()
    # Neither the page nor a script of it holds what may be of many gigabytes.
    assert told.value.url.startswith(address(page, "r0/api/v1/linked/"))
    assert b"owned" in told.value.path().read_bytes()


def test_unreadable_runs_are_named_and_the_others_shown(recorded, serve, tab, hasten):
    hasten(20)
    root = recorded("hurt")
    journals = {
        name: path
        for path in root.glob("vision/digits/*/journal/*")
        for name in ("closed-book", "shut-door")
        if name.encode() in path.read_bytes()
    }
    closed, shut = journals["closed-book"], journals["shut-door"].parent.parent
    closed.chmod(0)
    shut.chmod(0)
    try:
        page = serve(root, humble=True)
        tab.goto(opening(page, "?project=vision/digits"))
        rows = tab.get_by_role("table").first.get_by_role("row")
        for name in ("torn-tail", "bad-disk"):
            expect(rows.filter(has_text=name)).to_contain_text("completed ⚠ 1 gap")
            expect(rows.filter(has_text=name)).to_contain_text("0.0016667")
        whole = rows.filter(has_text="quiet-hare")
        expect(whole).to_contain_text("completed")
        expect(whole).not_to_contain_text("gap")
        plotted(tab, "train/loss", lambda found: len(found["data"]) == 4)
        # Its name stands in what cannot be read: it goes by the one made of its id.
        unread = rows.filter(has_text=generated_name(closed.parent.parent.name))
        expect(unread).to_contain_text("created ⚠ 1 gap")
        expect(unread).not_to_contain_text("1970")
        expect(rows.filter(has_text="shut-door")).to_have_count(0)
        said = tab.get_by_role("alert").filter(has_text="cannot be read")
        for words in ("1 folder cannot be read", f"{shut} (Permission denied)", "chmod"):
            expect(said).to_contain_text(words)
        unread.get_by_role("link").first.click()
        tab.get_by_role("button", name="records that could not be read").click()
        for words in (closed.name, "fsck"):
            expect(tab.get_by_role("main")).to_contain_text(words)
        shut.chmod(0o700)
        expect(said).to_have_count(0, timeout=100_000)
        tab.goto(opening(page, "?project=vision/digits"))
        expect(rows.filter(has_text="shut-door")).to_have_count(1, timeout=100_000)
    finally:
        closed.chmod(0o600)
        shut.chmod(0o700)


def test_a_read_only_root_says_so(recorded, serve, tab):
    root = recorded("few")
    root.chmod(0o555)
    tab.goto(opening(serve(root, humble=True), "?project=sweep"))
    expect(tab.get_by_text("read-only", exact=True)).to_be_visible()
    root.chmod(0o755)


def test_an_empty_folder_says_what_to_do(tmp_path, serve_here, tab, hasten):
    hasten(20)
    root = tmp_path / "empty"
    root.mkdir()
    page = serve_here(root)
    tab.goto(opening(page))
    expect(tab.get_by_role("heading", name=f"No runs in {root} yet")).to_be_visible()
    expect(tab.get_by_role("combobox")).to_have_count(0)
    names = [one.inner_text() for one in tab.get_by_role("tab").all()]
    assert names == ["Lightning", "Ignite", "Python"]
    tab.goto(address(page, "?project=a/b"))
    expect(tab.get_by_role("heading", name="No runs in a/b yet")).to_be_visible()
    expect(tab.get_by_role("tabpanel").locator("pre")).to_contain_text('project="a/b"')
    for name in names:
        tab.get_by_role("tab", name=name).click()
        lines = tab.get_by_role("tabpanel", name=name).locator("pre")
        expect(lines).to_contain_text("seamark")
        code = lines.inner_text()
        compile(code, name, "exec")
        assert str(root) in code
        assert len(code.splitlines()) <= 5
    assert findings(tab) == []
    recording = {**os.environ, "SEAMARK_CAPTURE_HARDWARE_METRICS": "false"}
    subprocess.run([sys.executable, "-c", code], check=True, env=recording, timeout=120)
    page.watch.look()
    expect(tab.locator(".run-head h1")).to_be_visible(timeout=30_000)
    plotted(tab, "train/loss", lambda found: len(found["data"][0]) == 100)


def test_a_query_without_matches_says_what_each_part_finds(main_page, tab):
    query = 'val/loss < 3 AND (parameters/seed = 2 OR sys/name = "a AND b") AND val/loss > 200'
    tab.goto(opening(main_page, f"?project=sweep&q={query}"))
    expect(tab.get_by_role("heading", name="No run matches")).to_be_visible()
    told = tab.get_by_role("main").get_by_role("row")
    either = '(parameters/seed = 2 OR sys/name = "a AND b")42'
    expect(told).to_have_text(["aloneruns", "val/loss < 33", either, "val/loss > 20010"])
    assert findings(tab) == []
    tab.get_by_role("button", name="val/loss > 200").click()
    expect(tab.locator("tbody tr")).to_have_count(10)
    tab.go_back()
    tab.get_by_role("button", name="Clear", exact=True).click()
    expect(tab.locator("tbody tr")).to_have_count(200)
