"""Runs that are the same, begun by machines that share a server alone."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from recording import QUIET

import seamark
from seamark import errors
from seamark.cli._app import app
from seamark.journal.reservations import REVISIONS
from seamark.remote import shipper as shippers

PARAMS = {"lr": 0.1, "layers": [1, 2]}


def begin(given, **more):
    run = seamark.init_run(**QUIET, **given, **{"params": PARAMS, "on_duplicate": "reuse", **more})
    run.stop()
    return run


def test_one_that_is_there(there, monkeypatch):
    first = begin(there("one"))
    assert begin(there("two")).id == first.id
    with pytest.raises(errors.DuplicateRunError, match=first.id):
        begin(there("three"), on_duplicate="error")
    assert begin(there("three"), params={"lr": 7}).id != first.id
    with seamark.init_project(**there("one")) as project:
        project.trash(first.id)
    assert shippers.flush(there("one")["remote"], 60)
    second = begin(there("four"))
    assert second.id != first.id
    monkeypatch.setenv("SEAMARK_REMOTE", there("one")["remote"])
    given = ["purge", f"{second.project}/{second.id}", "--yes", "--force"]
    done = CliRunner().invoke(app, given, prog_name="seamark")
    assert done.exit_code == 0, done.output
    assert begin(there("five")).id not in (first.id, second.id)


def test_one_that_waits_has_no_number_yet(there):
    waits = seamark.init_run(
        **QUIET, **there("one"), params=PARAMS, on_duplicate="reuse", start=False
    )
    waits.start()
    waits.stop()
    assert begin(there("two")).id == waits.id


def test_without_an_answer_this_disk_decides(tmp_path, caplog):
    given = {"project": "p", "root": tmp_path / "root", "remote": "http://127.0.0.1:9"}
    first = seamark.init_run(**QUIET, **given, params=PARAMS, on_duplicate="reuse")
    first.stop(seconds=0)
    again = seamark.init_run(**QUIET, **given, params=PARAMS, on_duplicate="reuse")
    again.stop(seconds=0)
    shippers._shippers.clear()
    assert again.id == first.id
    assert len(list((tmp_path / "root/p" / REVISIONS).iterdir())) == 1
    told = [one for one in caplog.records if "was not asked for the same run" in one.getMessage()]
    assert len(told) == 1
