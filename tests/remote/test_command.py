"""The command on a server: it shows and changes what it would below a root."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi")

from click.testing import CliRunner
from command import app
from recording import QUIET

from seamark import init_run
from seamark.remote import shipper


@pytest.fixture
def project(there):
    """Project of two runs that are on the server."""
    for name, slope in (("steep", 2.0), ("flat", 0.5)):
        with init_run(name=name, **there("runs"), **QUIET) as run:
            run["params/lr"] = slope
            run["val/loss"].extend([slope / (step + 1) for step in range(30)])
    assert shipper.flush(there("runs")["remote"], 60)
    return run.project


@pytest.fixture
def call(server):
    """Call the command for the server."""

    def call(*words, code=0):
        done = CliRunner().invoke(app, [*words, "--remote", server.url])
        assert done.exit_code == code, done.output
        return done.stderr if code else done.stdout

    return call


def test_runs_are_listed_shown_and_compared(call, project):
    words = ["--project", project, "--json", "--columns", "val/loss:min"]
    rows = json.loads(call("ls", *words))
    assert sorted(row["val/loss:min"] for row in rows) == [0.5 / 30, 2.0 / 30]
    shown = call("show", f"{project}/steep")
    assert "val/loss" in shown
    assert "server " in shown
    compare = ["compare", f"{project}/steep", f"{project}/flat"]
    assert "params/lr" in call(*compare)
    assert len(call("export", f"{project}/steep", "--path", "val/loss").splitlines()) == 31
    plot = ["plot", "--project", project, "--by", "params/lr", "--height", "8"]
    assert "params/lr = 2.0 (n = 1)" in call(*plot, "val/*")
    assert "did you mean 'val/loss'" in call(*plot, "val/los", code=2)


def test_errors_are_one_line(call, project, server):
    missing = f"no run '{project}/stepe' in {server.url}"
    assert missing in call("show", f"{project}/stepe", code=2)
    assert "^" in call("ls", "--query", "params/lr >", code=2)
    assert "--root and --remote" in call("ls", "--root", "here", code=2)
    away = CliRunner().invoke(app, ["ls", "--remote", "http://127.0.0.1:9"])
    assert (away.exit_code, "cannot be reached" in away.stderr) == (1, True)
    for command in ("fsck", "reindex"):
        refused = CliRunner().invoke(app, ["--remote", server.url, command])
        assert refused.exit_code == 2
        assert "reads a root on this machine" in refused.stderr


def test_runs_are_edited_trashed_and_purged(call, project, server):
    def count():
        return len(json.loads(call("ls", "--project", project, "--json")))

    run, flat = f"{project}/steep", f"{project}/flat"
    assert "(no tags) → best" in call("tag", run, "--add", "best")
    assert "best → (no tags)" in call("tag", run, "--remove", "best")
    assert "(no description) → warmer" in call("describe", run, "warmer")
    assert "warmer → (no description)" in call("describe", run, "--remove")
    assert "steep → steeper" in call("rename", run, "steeper")
    call("trash", f"{project}/steeper")
    assert count() == 1
    call("untrash", f"{project}/steeper")
    assert count() == 2
    assert "not in the trash" in call("purge", flat, "--yes", code=2)
    words = ["purge", flat, "--yes", "--force", "--remote", server.url]
    assert (
        "copies on the machines that recorded them remain" in CliRunner().invoke(app, words).stderr
    )
    assert count() == 1
