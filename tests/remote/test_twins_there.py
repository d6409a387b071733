"""Runs that are the same, begun by machines that share a server alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from recording import QUIET

import seamark
from seamark import errors
from seamark.cli._app import app
from seamark.journal.twins import TWINS
from seamark.remote import shipper as shippers

PARAMS = {"lr": 0.1, "layers": [1, 2]}
SCRIPT = (
    "import json, sys, seamark\n"
    "given = json.loads(sys.argv[1])\n"
    "input()\n"
    "run = seamark.init_run(**given, params={'lr': 0.1}, on_duplicate='reuse')\n"
    "print(run.id, flush=True)\n"
    "run.stop()\n"
)


def begin(given: dict[str, Any], **more: Any) -> Any:
    run = seamark.init_run(**QUIET, **given, **{"params": PARAMS, "on_duplicate": "reuse", **more})
    run.stop()
    return run


@pytest.mark.once
def test_machines_at_once_make_one_run(there: Any, tmp_path: Path) -> None:
    """Each of them has a folder of its own; the revision is recorded once."""
    some = []
    for number in range(2):
        given = {**QUIET, **there(str(number)), "root": str(tmp_path / str(number))}
        command = [sys.executable, "-c", SCRIPT, json.dumps(given)]
        some.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for process in some:
        process.stdin.write("\n")
        process.stdin.flush()
    ids = {process.communicate(timeout=120)[0].strip() for process in some}
    assert len(ids) == 1
    with seamark.init_project(mode="read-only", **there("reader")) as project:
        rows = project.fetch_runs_table(columns=["sys/revision"]).to_rows()
    assert [row["sys/revision"] for row in rows] == [1]


def test_one_that_is_there(there: Any) -> None:
    """Goes on, or is an error; what was thrown away is none, and its number is not given again."""
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
    with seamark.init_run(with_id=second.id, mode="read-only", **there("five")) as read:
        assert read["sys/revision"].fetch() == 2


def test_one_that_was_purged_is_none(there: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks next begins another one."""
    first = begin(there("one"))
    monkeypatch.setenv("SEAMARK_REMOTE", there("one")["remote"])
    given = ["purge", f"{first.project}/{first.id}", "--yes", "--force"]
    done = CliRunner().invoke(app, given, prog_name="seamark")
    assert done.exit_code == 0, done.output
    assert begin(there("two")).id != first.id


def test_one_that_waits_has_no_number_yet(there: Any) -> None:
    """It takes one when it begins."""
    waits = seamark.init_run(
        **QUIET, **there("one"), params=PARAMS, on_duplicate="reuse", start=False
    )
    waits.start()
    waits.stop()
    assert begin(there("two")).id == waits.id


def test_without_an_answer_this_disk_decides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so, and the training begins."""
    given = {"project": "p", "root": tmp_path / "root", "remote": "http://127.0.0.1:9"}
    first = seamark.init_run(**QUIET, **given, params=PARAMS, on_duplicate="reuse")
    first.stop(seconds=0)
    again = seamark.init_run(**QUIET, **given, params=PARAMS, on_duplicate="reuse")
    again.stop(seconds=0)
    shippers._shippers.clear()
    assert again.id == first.id
    assert len(list((tmp_path / "root/p" / TWINS).iterdir())) == 1
    told = [one for one in caplog.records if "was not asked for the same run" in one.getMessage()]
    assert len(told) == 1
