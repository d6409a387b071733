"""Reading runs of a server: the same answers and the same errors as a root gives."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")

from proxy import Trouble, proxied
from recording import QUIET

from seamark import init_project, init_run
from seamark.errors import FileMissingError, MissingFieldError, ReadOnlyError, RunNotFoundError
from seamark.index.index import Index
from seamark.reading.catalog import Selection
from seamark.remote import shipper as shippers
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.protocol import Refused

RUNS = {"steep": 2.0, "flat": 0.5}


@pytest.fixture(scope="module")
def root(server, tmp_path_factory):
    """A root with two runs that are on the server, too."""
    root = tmp_path_factory.mktemp("home") / "runs"
    to = {"remote": server.url, "api_token": server.token}
    for name, slope in RUNS.items():
        run = init_run("team/digits", root=root, name=name, tags=["all", name], **to, **QUIET)
        run["params"] = {"lr": slope, "layers": 3, "big": 2**70, "odd": float("nan")}
        run["started"] = datetime(2026, 2, 28, 22, tzinfo=timezone.utc)
        run["val/loss"].extend([slope / (step + 1) for step in range(120)])
        run["long"] = "x" * 300_000
        file = root.parent / f"{name}.bin"
        file.write_bytes(name.encode() * 50_000)
        run["model"].upload(str(file), wait=True)
        run.stop()
    assert shippers.flush(server.url, 60)
    return root


@pytest.fixture
def catalog(root, server, monkeypatch):
    """The runs of the server, which may be read from now on."""
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    with RemoteCatalog(Connection(server.url, server.token)) as catalog:
        yield catalog


def ref_of(name, catalog):
    found = {one.name: one.ref for one in catalog.names() if one.project == "team/digits"}
    return found[name]


def test_times_in_queries_are_local_times_of_the_reader(root, catalog, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # fourteen hours before UTC
    time.tzset()
    try:
        here = Index.open(root)
        here.refresh()
        for query in (
            "started = 2026-03-01T12:00",
            "started > '2026-03-01 11:59' and started < \"2026-03-01 12:01:00\"",
            "started = '2026-02-28T22:00:00+00:00'",
            "started in (2026-03-01T12:00, 2020-01-01)",
            "started = 2026-02-28T22:00",
            "sys/creation_time > 2026-03-01",
            "sys/name = '2026-03-01'",
        ):
            asked = Selection(project="team/digits", query=query, local=True, sort_by="sys/name")
            assert catalog.select(asked) == here.select(asked), query
        asked = Selection(project="team/digits", query="started = 2026-03-01T12:00", local=True)
        assert len(catalog.select(asked)) == 2
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.usefixtures("root")
def test_a_run_is_read_with_a_given_token(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_API_TOKEN", "wrong")
    there: Any = {"remote": server.url, "api_token": server.token, "mode": "read-only"}
    assert init_project("team/digits", **there).fetch_runs_table(columns=[]).total == len(RUNS)
    there["project"] = "team/digits"
    run = init_run(with_id="steep", **there)
    assert run["params/big"].fetch() == 2**70
    assert run["long"].fetch() == "x" * 300_000
    assert len(run["val/loss"].fetch_points()) == 120
    assert run["model"].fetch_bytes() == b"steep" * 50_000
    run["model"].download(tmp_path / "model.bin")
    assert [one.name for one in tmp_path.iterdir()] == ["model.bin"]
    with pytest.raises(MissingFieldError, match="did you mean 'params/lr'"):
        run["params/lrr"].fetch()
    with pytest.raises(ReadOnlyError):
        run["params/lr"] = 1
    run.stop()
    with pytest.raises(RunNotFoundError, match="did you mean 'steep'"):
        init_run(with_id="stepe", **there)
    with pytest.raises(Refused, match="administrators of the server create tokens"):
        RemoteCatalog(Connection(server.url, "seamark_" + "x" * 43)).names()


@pytest.mark.parametrize("variable", [False, True], ids=["not set", "same server"])
@pytest.mark.usefixtures("catalog")
def test_arguments_come_before_the_environment(root, server, monkeypatch, caplog, *, variable):
    if variable:
        monkeypatch.setenv("SEAMARK_REMOTE", server.url)
        assert init_project("team/digits").fetch_runs_table().total == 2
        assert len(init_project("team/digits").fetch_series("val/loss", "flat")) == 120
        init_project("team/digit").fetch_runs_table()
        assert "there is no project 'team/digit'" in caplog.text
    here: Any = {"project": "team/digits", "root": root.parent / "empty"}
    assert init_project(**here).fetch_runs_table().total == 0
    run = init_run(with_id="flat", remote=server.url, mode="read-only", **here)
    assert run["params/lr"].fetch() == 0.5
    run.stop()
    for remote in (server.url, root.as_uri()):
        assert init_project(remote=remote, **here).fetch_runs_table().total == 2
    with pytest.raises(RunNotFoundError, match="empty"):
        init_run(with_id="flat", mode="read-only", **here)
    with pytest.raises(RunNotFoundError, match="does not exist"):  # as the server answers
        init_run(custom_run_id="no", remote=server.url, mode="read-only", **here)


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "reset"])
@pytest.mark.thorough
def test_a_download_continues_where_it_broke_off(catalog, server, tmp_path, *, reset):
    at = urlsplit(server.url)
    ref = ref_of("steep", catalog)
    model = catalog.view(*ref).attribute("model")
    with (
        proxied(
            (str(at.hostname), int(at.port or 0)),
            lambda _: Trouble(after_answered=100_000, reset=reset),
        ) as proxy,
        RemoteCatalog(Connection(proxy.url, server.token)) as slow,
    ):
        slow._known_runs.add(ref)
        contents = slow.view(*ref).contents
        assert contents.read(model.value, "model") == b"steep" * 50_000
        assert proxy.count <= 5
        contents.write(model.value, tmp_path / "model.bin", "model")
        assert (tmp_path / "model.bin").read_bytes() == b"steep" * 50_000


def test_missing_contents_are_reported(catalog):
    view = catalog.view(*ref_of("flat", catalog))
    with pytest.raises(FileMissingError, match="not on http"):
        view.contents.read({"sha256": "0" * 64, "size": 1}, "model")
    with pytest.raises(FileMissingError, match="only on the machine"):
        view.contents.read({"ref": "/etc/hostname"}, "model")
    assert view.contents.whereabouts({"sha256": "0" * 64}) == "pending"
    model = view.attribute("model")
    assert view.contents.whereabouts(model.value) == "kept"
    assert view.contents.begin_of(model.value["sha256"], model.value["size"], 4) == b"flat"
