"""Reading runs of a server: the same answers and the same errors as a root gives."""

from __future__ import annotations

import logging
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")

from proxy import Proxy, Trouble
from server_process import Running, running_server

from seamark import init_project, init_run
from seamark.errors import (
    FileMissingError,
    MissingFieldError,
    ReadOnlyError,
    RunNotFoundError,
)
from seamark.index.index import Index
from seamark.journal.folder import iter_runs
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.http.run import RemoteRun
from seamark.remote.places import open_remote
from seamark.remote.protocol import Refused, RunKey, Unreachable
from seamark.remote.sync import sync_run, unsent_data
from seamark.store.query.selection import Selection

QUIET: dict[str, Any] = {
    "capture_stdout": True,
    "capture_hardware_metrics": False,
    "capture": {"host": False, "packages": False},
    "git_ref": False,
}


class Both:
    """Some runs below a root, and the same on a server.

    Attributes:
        root: The root.
        server: The server.
        ids: Run ids by name.
    """

    def __init__(self, root: Path, server: Running) -> None:
        self.root, self.server = root, server
        self.ids = {name: self._record(name, slope) for name, slope in _SLOPES.items()}
        self.send()

    def _record(self, name: str, slope: float) -> str:
        run = init_run("team/digits", root=self.root, name=name, tags=["all", name], **QUIET)
        run["params"] = {
            "lr": slope,
            "layers": 3,
            "name": "résumé",
            "big": 2**70,
            "odd": float("nan"),
        }
        run["started"] = datetime(2026, 2, 28, 22, tzinfo=timezone.utc)
        for step in range(120):
            run["val/loss"].append(slope / (step + 1), step=step)
        run["notes"].append("first line\n", step=1)
        run["long"] = "x" * 300_000
        file = self.root.parent / f"{name}.bin"
        file.write_bytes(name.encode() * 50_000)
        run["model"].upload(str(file), wait=True)
        sys.stdout.write(f"{name} says hello\n")
        run.stop()
        return str(run.id)

    def send(self) -> None:
        """Send what is below the root to the server."""
        remote = open_remote(self.server.url, self.server.token)
        for folder in iter_runs(self.root):
            done = sync_run(unsent_data(folder, remote), remote)
            assert done.problems == []
        catalog = self.there()
        wanted = {
            key: sum(remote.journals(key).values())
            for key in (RunKey(one.project, one.run) for one in iter_runs(self.root))
        }
        for key, position in wanted.items():
            catalog._asking.edited(key, position)
        remote.close()
        for key in wanted:  # reads wait until that much is folded
            catalog.view(*key)

    def there(self) -> RemoteCatalog:
        """Return the runs of the server."""
        return RemoteCatalog(Connection(self.server.url, self.server.token))

    def here(self) -> Index:
        """Return the runs of the root."""
        index = Index.open(self.root)
        index.refresh()
        return index


_SLOPES = {"steep": 2.0, "flat": 0.5}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield Both(tmp_path_factory.mktemp("home") / "runs", server)


@pytest.fixture(autouse=True)
def _token(both, monkeypatch):
    monkeypatch.setenv("SEAMARK_API_TOKEN", both.server.token)


def test_a_token_that_is_given_is_shown_for_reading(both, monkeypatch):
    monkeypatch.setenv("SEAMARK_API_TOKEN", "wrong")
    there = {"remote": both.server.url, "api_token": both.server.token, "mode": "read-only"}
    run = init_run("team/digits", with_id="steep", **there)
    assert run["params/lr"].fetch() == 2.0
    run.stop()
    project = init_project("team/digits", **there)
    assert project.fetch_runs_table(columns=[]).total == 2
    project.stop()


def test_times_of_a_query_are_those_of_who_asks(both, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # fourteen hours before UTC
    time.tzset()
    try:
        here, there = both.here(), both.there()
        for query in (
            "started = 2026-03-01T12:00",
            "started > '2026-03-01 11:59' and started < \"2026-03-01 12:01:00\"",
            "started = '2026-02-28T22:00:00+00:00'",
            "started in (2026-03-01T12:00, 2020-01-01)",
            "started = 2026-02-28T22:00",
            "sys/creation_time > 2026-03-01",
            "sys/name = '2026-03-01'",
        ):
            asked = Selection(query=query, local=True, sort_by="sys/name")
            assert there.select(asked) == here.select(asked), query
        assert len(there.select(Selection(query="started = 2026-03-01T12:00", local=True))) == 2
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_run_is_opened_for_reading(both, tmp_path):
    run = init_run("team/digits", with_id="steep", remote=both.server.url, mode="read-only")
    assert run.id == both.ids["steep"]
    assert run["params/big"].fetch() == 2**70
    assert run["long"].fetch() == "x" * 300_000
    assert len(run["val/loss"].fetch_points()) == 120
    assert run["model"].fetch_bytes() == b"steep" * 50_000
    run["model"].download(tmp_path / "model.bin")
    assert (tmp_path / "model.bin").read_bytes() == b"steep" * 50_000
    assert [one.name for one in tmp_path.iterdir()] == ["model.bin"]
    with pytest.raises(MissingFieldError, match="did you mean 'params/lr'"):
        run["params/lrr"].fetch()
    with pytest.raises(ReadOnlyError):
        run["params/lr"] = 1
    run.stop()
    with pytest.raises(RunNotFoundError, match="did you mean 'steep'"):
        init_run("team/digits", with_id="stepe", remote=both.server.url, mode="read-only")


def test_a_project_is_read(both, monkeypatch, caplog):
    monkeypatch.setenv("SEAMARK_REMOTE", both.server.url)
    project = init_project("team/digits")
    assert sorted(project.fetch_runs_table()["sys/name"]) == ["flat", "steep"]
    assert len(project.fetch_series("val/loss", "flat")) == 120
    with caplog.at_level(logging.WARNING, "seamark"):
        init_project("team/digit").fetch_runs_table()
    assert "there is no project 'team/digit'" in caplog.text
    root = init_project("team/digits", root=both.root.parent / "empty")
    assert root.fetch_runs_table().total == 0  # a root that is named comes first


@pytest.mark.parametrize("variable", [False, True], ids=["not set", "same server"])
def test_what_the_code_names_is_read(both, monkeypatch, *, variable):
    if variable:
        monkeypatch.setenv("SEAMARK_REMOTE", both.server.url)
    empty, url = both.root.parent / "empty", both.server.url
    run = init_run("team/digits", with_id="flat", remote=url, root=empty, mode="read-only")
    assert run["params/lr"].fetch() == 0.5
    run.stop()
    for remote in (url, both.root.as_uri()):
        project = init_project("team/digits", remote=remote, root=empty)
        assert project.fetch_runs_table().total == 2
    with pytest.raises(RunNotFoundError, match="empty"):
        init_run("team/digits", with_id="flat", root=empty, mode="read-only")
    with pytest.raises(RunNotFoundError, match="does not exist"):  # as the server answers
        init_run("team/digits", custom_run_id="no", remote=url, root=empty, mode="read-only")


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "reset"])
@pytest.mark.thorough
def test_a_download_goes_on_where_it_broke_off(both, tmp_path, *, reset):
    address = urlsplit(both.server.url)
    model = both.there().view("team/digits", both.ids["steep"]).attribute("model")
    assert model is not None
    proxy = Proxy(
        (str(address.hostname), int(address.port or 0)),
        lambda _: Trouble(after_answered=100_000, reset=reset),
    )
    catalog = RemoteCatalog(Connection(proxy.url, both.server.token))
    try:
        view = RemoteRun(catalog._asking, "team/digits", both.ids["steep"])
        assert view.contents.read(model.value, "model") == b"steep" * 50_000
        assert proxy.count <= 5
        view.contents.write(model.value, tmp_path / "model.bin", "model")
        assert (tmp_path / "model.bin").read_bytes() == b"steep" * 50_000
    finally:
        catalog.close()
        proxy.close()


def test_what_is_not_there_is_said(both):
    view = both.there().view("team/digits", both.ids["flat"])
    with pytest.raises(FileMissingError, match="not on http"):
        view.contents.read({"sha256": "0" * 64, "size": 1}, "model")
    with pytest.raises(FileMissingError, match="only the machine"):
        view.contents.read({"ref": "/etc/hostname"}, "model")
    assert view.contents.whereabouts({"sha256": "0" * 64}) == "pending"
    model = view.attribute("model")
    assert model is not None
    assert view.contents.whereabouts(model.value) == "kept"
    assert view.contents.begin_of(model.value["sha256"], model.value["size"], 4) == b"flat"


def test_a_server_that_is_away_or_refuses_is_said(both):
    with pytest.raises(Unreachable, match="cannot be reached"):
        RemoteCatalog(Connection("http://127.0.0.1:9", "")).names()
    with pytest.raises(Refused, match="seamark token create"):
        RemoteCatalog(Connection(both.server.url, "seamark_" + "x" * 43)).names()
