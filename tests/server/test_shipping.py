"""A training that sends to a real server, is read there, and is gone on with on another machine."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.remote import shipper as shippers
from seamark.remote.protocol import RunKey
from seamark.remote.schemes import open_remote
from seamark.remote.sync import sync_run, unsent_data
from seamark.testing import RemoteContract


class TestServer(RemoteContract):
    """A Seamark server keeps what every remote promises, on either engine."""

    @pytest.fixture
    def remote(self, team):
        with contextlib.closing(open_remote(team.url, team.token)) as remote:
            yield remote


def test_run_is_opened_by_its_name_and_goes_on_on_another_machine(team, tmp_path):
    given: Any = {"remote": team.url, "api_token": team.token, "project": "lab/named", **QUIET}
    first = seamark.init_run(root=tmp_path / "one", name="baseline", **given)
    first["train/loss"].extend([1 / (step + 1) for step in range(10)])
    first.stop()
    assert shippers.flush(team.url, 30)
    for number, word in enumerate(("baseline", "latest", "lab/named/baseline")):
        other = seamark.init_run(root=tmp_path / f"{number}", with_id=word, **given)
        assert (other.id, other.project) == (first.id, "lab/named")
        if number == 0:
            other["train/loss"].append(0.01)
        other.stop()
    here = seamark.init_run("lab/named", root=tmp_path / "0", with_id=first.id, mode="read-only")
    assert list(here["train/loss"].fetch_values()["step"]) == [10]  # of its own part alone
    with pytest.raises(RunNotFoundError):
        seamark.init_run(root=tmp_path / "none", with_id="baselin", **given)
    seamark.init_run(root=tmp_path / "one", name="baseline", **given).stop()
    assert shippers.flush(team.url, 30)
    with pytest.raises(ArgumentError, match="baseline"):  # several have this name
        seamark.init_run(root=tmp_path / "three", with_id="baseline", **given)


def test_moved_run_is_sent_under_its_new_project(team, tmp_path):
    """Its journals name the project in which they were recorded; another run id is refused."""
    run = seamark.init_run("lab/old", root=tmp_path, **QUIET)
    run["train/loss"].append(1.0)
    run.stop()
    (tmp_path / "lab" / "new").mkdir()
    run.folder.path.rename(tmp_path / "lab" / "new" / run.id)
    moved = RunFolder(tmp_path, "lab/new", run.id)
    with contextlib.closing(open_remote(team.url, team.token)) as remote:
        assert sync_run(unsent_data(moved, remote), remote).problems == []
        assert remote.journals(RunKey("lab/new", run.id)) == {
            each.path.name: each.path.stat().st_size for each in moved.journals()
        }
        assert remote.journals(RunKey("lab/old", run.id)) == {}
        renamed = RunFolder(tmp_path, "lab/new", "other")
        moved.path.rename(renamed.path)
        (problem,) = sync_run(unsent_data(renamed, remote), remote).problems
    assert f"recorded as run {run.id!r}" in problem
    assert "restore its old name" in problem
