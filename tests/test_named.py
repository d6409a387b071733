"""A run named by its place, and runs put into the trash from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, ReadOnlyError, RunNotFoundError

ROOT = Path("here")


def record(name, project="team/p"):
    with seamark.init_run(project, root=ROOT, name=name, **QUIET) as run:
        run["name"] = name
    return run.id


def test_run_is_opened_by_its_folder_or_uri(monkeypatch):
    run = record("one")
    folder = ROOT.absolute() / "team/p" / run
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"with_id": ROOT / "team"}, RunNotFoundError, "with_id: expected the folder of a run"),
        ({"with_id": "file:///nowhere/x"}, RunNotFoundError, "with_id: expected the folder of"),
        ({"with_id": "file://host/x"}, ArgumentError, "expected file:///folder"),
        ({"with_id": folder, "root": "x"}, ArgumentError, "with_id and root: exp"),
        ({"with_id": "https://a.b/p/x", "remote": "https://c.d"}, ArgumentError, "with_id and rem"),
    ]
    for given, error, said in wrong:
        with pytest.raises(error, match=said):
            seamark.init_run(mode="read-only", **given)
    assert not Path("x").exists()
    monkeypatch.chdir("/")
    for place in (folder, str(folder), folder.as_uri()):
        found = seamark.init_run(with_id=place, mode="read-only")
        assert (found.id, found["name"].fetch()) == (run, "one")
    with seamark.init_run(with_id=found.get_url(), **QUIET) as again:
        again["more"] = 1
    assert found["more"].fetch() == 1


def test_project_moves_runs_into_the_trash_and_back():
    runs = [record(name) for name in ("one", "two", "three")]
    record("one", "other")
    project = seamark.init_project("team/p", root=ROOT)

    def seen(*, trashed):
        table = project.fetch_runs_table(columns=["sys/name"], trashed=trashed)
        return {row["sys/name"] for row in table.to_rows()}

    opened = seamark.init_run("team/p", with_id=runs[1], root=ROOT, mode="read-only")
    assert project.trash(["one", opened]) == runs[:2]
    assert (seen(trashed=True), seen(trashed=False)) == ({"one", "two"}, {"three"})
    assert project.trash("one", trashed=False) == runs[:1]
    assert project.trash('name = "three"') == runs[2:]
    assert seen(trashed=True) == {"two", "three"}
    assert len(seamark.init_project("other", root=ROOT).fetch_runs_table()) == 1
    with pytest.raises(RunNotFoundError):
        project.trash("nobody")
    with pytest.raises(ArgumentError, match="runs: expected runs, their names or a query"):
        project.trash(None)
    with pytest.raises(ReadOnlyError):
        seamark.init_project("team/p", root=ROOT, mode="read-only").trash("one")


def test_runs_of_a_server_are_opened_and_trashed_by_uri(tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    from served import whole_server

    run = record("one")
    with whole_server(tmp_path / "server") as server:
        monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
        (moved,) = seamark.sync(ROOT / "team/p" / run, server.url)
        assert moved.run == run
        for name in ("one", run):
            found = seamark.init_run(with_id=f"{server.url}/team/p/{name}", mode="read-only")
            assert found["name"].fetch() == "one"
        project = seamark.init_project("team/p", remote=server.url)
        assert project.trash("one") == [run]
        assert not project.fetch_runs_table().to_rows()
        assert project.trash(run, trashed=False) == [run]
        assert project.fetch_runs_table().to_rows()
