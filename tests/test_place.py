"""Where a run is recorded, and the names, folders and addresses by which it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, JournalError, ReadOnlyError, RunNotFoundError
from seamark.reading.names import generated_name


def test_a_root_that_cannot_be_a_folder_is_refused_at_once(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for root in (file, file / "below"):
        with pytest.raises(JournalError, match="root: expected a writable folder"):
            seamark.init_run(root=root)
    assert file.read_text() == "x"
    with pytest.raises(ArgumentError, match="root: expected a path or None, got int: 5"):
        seamark.init_run(root=5)
    with pytest.raises(ArgumentError, match="NUL"):
        seamark.init_run(root="a\0b")


def test_a_purged_run_is_not_started_again(tmp_path):
    run = seamark.init_run(custom_run_id="k", root=tmp_path)
    run.stop()
    run.folder.purged_mark.parent.mkdir()
    run.folder.purged_mark.touch()
    with pytest.raises(ArgumentError, match="was purged"):
        seamark.init_run(custom_run_id="k", root=tmp_path)


def recorded(root, project="p", **given):
    with seamark.init_run(project, root=root, **QUIET, **given) as run:
        run["val/loss"].append(0.5)
    return run.id


@pytest.mark.parametrize("mode", ["read-only", None])
def test_a_run_is_opened_by_each_of_its_names(tmp_path, mode):
    first, second = recorded(tmp_path, "p/sub", name="a name"), recorded(tmp_path, "p/sub")
    for run, *words in (
        (first, first, "a name", generated_name(first)),
        (second, second, generated_name(second), "latest"),
    ):
        for word in words:
            for project, written in (("p", word), ("p/sub", word), (None, f"p/sub/{word}")):
                given = {"root": tmp_path, "mode": mode, "owner": False if mode is None else None}
                with seamark.init_run(project, with_id=written, **given, **QUIET) as opened:
                    assert (opened.id, opened.project) == (run, "p/sub"), written
                    assert opened["val/loss"].fetch_last() == 0.5
    assert len([*(tmp_path / "p" / "sub").iterdir()]) == 2
    assert not (tmp_path / "default").exists()


def test_the_beginning_of_an_id_opens_a_run_for_reading_only(tmp_path):
    """Which run it means may change; to record, the error says which id it is today."""
    run = recorded(tmp_path)
    with (
        seamark.init_run("p", with_id=run[:6], root=tmp_path, mode="read-only") as opened,
        pytest.raises(ReadOnlyError),
    ):
        opened["x"] = 1
    assert opened.id == run
    with pytest.raises(RunNotFoundError, match=f"prefix of the id of p/{run}"):
        seamark.init_run("p", with_id=run[:6], root=tmp_path)


@pytest.mark.parametrize("word", ["no such run", "../../etc/passwd", "a\nb", "%", "x/y", "latest"])
def test_a_name_of_no_run_makes_none(tmp_path, word):
    recorded(tmp_path, "other", custom_run_id=word)
    before = sorted(tmp_path.rglob("*"))
    for mode in ("read-only", "disabled", "debug", None):
        with pytest.raises(RunNotFoundError, match="no run"):
            seamark.init_run("p", with_id=word, root=tmp_path, mode=mode)
    assert sorted(tmp_path.rglob("*")) == before


def test_ranks_that_cannot_talk_need_a_whole_id(tmp_path, monkeypatch):
    """Each would look it up by itself; a whole id is the same for all."""
    run = recorded(tmp_path, name="n")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        for word in ("n", "p/latest", generated_name(run)):
            with pytest.raises(ArgumentError, match="or a complete with_id"):
                seamark.init_run("p", with_id=word, root=tmp_path, ranks="all", **QUIET)
        for word in (run, f"p/{run}"):
            with seamark.init_run("p", with_id=word, root=tmp_path, ranks="all", **QUIET) as found:
                assert found.id == run


ROOT = Path("here")


def record_named(name, project="team/p"):
    with seamark.init_run(project, root=ROOT, name=name, **QUIET) as run:
        run["name"] = name
    return run.id


def test_run_is_opened_by_its_folder_or_uri(monkeypatch):
    run = record_named("one")
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
    runs = [record_named(name) for name in ("one", "two", "three")]
    record_named("one", "other")
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


def test_runs_of_a_server_are_opened_and_trashed_by_uri(near_server):
    run, url = record_named("one"), near_server.url
    (moved,) = seamark.sync(ROOT / "team/p" / run, url)
    assert moved.run == run
    for name in ("one", run):
        found = seamark.init_run(with_id=f"{url}/team/p/{name}", mode="read-only")
        assert found["name"].fetch() == "one"
    project = seamark.init_project("team/p", remote=url)
    assert project.trash("one") == [run]
    assert not project.fetch_runs_table().to_rows()
    assert project.trash(run, trashed=False) == [run]
    assert project.fetch_runs_table().to_rows()
