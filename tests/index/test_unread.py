"""What cannot be looked into is said, once and with its path, and takes nothing else with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil

import pytest
from humble import humbly
from recording import QUIET

import seamark
from seamark.cli import main
from seamark.errors import RunNotFoundError
from seamark.index import updater
from seamark.index.index import Index
from seamark.journal.folder import hashed_run_id, iter_runs

pytestmark = pytest.mark.once


@pytest.fixture
def index(root):
    """An index that is opened without a right to read everything."""
    with humbly(lambda: Index.open(root)) as index:
        yield index


@pytest.fixture
def look(index, caplog):
    """Return a function that looks at the root and tells what is known and what was logged."""

    def look(project=None):
        caplog.clear()
        humbly(lambda: index.refresh(project))
        runs = sorted(name for _, name in index.runs())
        unread = [list(one) for one in index.unread()]
        return {"runs": runs, "unread": unread, "said": caplog.messages.copy()}

    return look


@pytest.fixture
def closed():
    """Return a function that takes rights from folders, which they have again in the end."""
    with contextlib.ExitStack() as stack:

        def close(path, mode=0):
            stack.callback(path.chmod, path.stat().st_mode & 0o777)
            path.chmod(mode)

        yield close


@pytest.fixture
def root(tmp_path):
    """A root with four runs in two projects and one in another."""
    for project, name in (("p", "a"), ("p", "b"), ("p/sub", "c"), ("q", "d")):
        with seamark.init_run(
            project, name=name, root=tmp_path / "root", custom_run_id=name, **QUIET
        ) as run:
            run["x"] = 1
    return tmp_path / "root"


A, B = hashed_run_id("p", "a"), hashed_run_id("p", "b")
C, D = hashed_run_id("p/sub", "c"), hashed_run_id("q", "d")
SHUT = [
    (f"p/{A}", 0, [B, C, D]),
    (f"p/{A}", 0o400, [B, C, D]),  # it may be listed, and what is in it not be looked at
    (f"p/{A}/journal", 0, [B, C, D]),
    ("p", 0, [D]),
]


@pytest.mark.parametrize(("place", "mode", "rest"), SHUT)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_unreadable_folder_is_named_once_and_the_others_are_read(
    root, closed, look, place, mode, rest, known
):
    if known:
        with Index.open(root) as index:
            index.refresh()
    closed(root / place, mode)
    first, again = look(), look()
    (root / place).chmod(0o700)
    opened, last = look(), look()
    assert first["runs"] == sorted([A, B, C, D] if known else rest)
    path = str(root / place.removesuffix("/journal"))
    assert first["unread"] == again["unread"] == [[path, "Permission denied"]]
    (said,) = first["said"]
    for text in ("one folder", f"{path} (Permission denied)", "chmod", "fsck"):
        assert text in said
    assert again["said"] == []
    for found in (opened, last):
        assert found == {"runs": sorted([A, B, C, D]), "unread": [], "said": []}


def test_several_unreadable_folders_are_counted_and_three_named(root, closed, look):
    """What lies in an unreadable folder is not named once more; of one project only its own."""
    with Index.open(root) as index:
        index.refresh()
    for place in (f"p/{A}", f"p/{B}", "p/sub", f"q/{D}"):
        closed(root / place)
    told = [look(), look("q"), look()]
    assert [len(one["unread"]) for one in told] == [4, 4, 4]
    (said,) = told[0]["said"]
    assert (said.count("4 folders"), said.count("Permission denied")) == (1, 3)
    assert "and 1 more" in said
    assert told[1]["said"] == told[2]["said"] == []
    closed(root / "p")
    unread = look()["unread"]
    assert [path for path, _ in unread] == [str(root / "p"), str(root / "q" / D)]


def test_names_of_unreadable_folders_are_escaped(root, closed, look):
    odd = root / "p" / "x\x1b[31m\ny"
    odd.mkdir()
    closed(odd)
    told = look()
    assert told["unread"] == [[str(odd), "Permission denied"]]
    (said,) = told["said"]
    assert "x\\x1b[31m\\ny (Permission denied)" in said
    assert said.isprintable()


def test_unreadable_runs_and_models_are_not_said_to_be_missing(root, closed, index, look):
    with seamark.init_model(key="RES", project="p", root=root) as model:
        pass
    places = [str(model.folder.path), str(root / "p" / A)]
    closed(root / "p" / A)
    with pytest.raises(RunNotFoundError, match="cannot be read") as caught:
        humbly(lambda: index.fresh_view("p", A))
    assert places[1] in str(caught.value)
    closed(model.folder.path)
    found = look()
    assert found["unread"] == [[place, "Permission denied"] for place in places]
    assert found["runs"] == sorted([B, C, D])


def test_ls_and_sync_name_the_unreadable_run_and_go_on(root, closed, tmp_path, capsys, caplog):
    closed(root / "p" / A)
    capsys.readouterr()
    assert humbly(lambda: main(["ls", "--root", str(root), "--json"])) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(row["run"] for row in rows) == sorted([B, C, D])
    (line,) = [one for one in caplog.messages if "cannot be read" in one]
    assert str(root / "p" / A) in line
    there = (tmp_path / "there").as_uri()
    assert humbly(lambda: main(["sync", "--root", str(root), "--to", there])) == 0
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "cannot be read" in one]
    assert f"{root / 'p' / A} " in line
    assert {folder.run for folder in iter_runs(tmp_path / "there")} == {B, C, D}


def test_run_that_is_removed_while_it_is_listed_is_left_out(root, monkeypatch):
    found = updater.iter_runs

    def going(*args, **given):
        for folder in found(*args, **given):
            if folder.run == B:
                shutil.rmtree(folder.path)
            yield folder

    monkeypatch.setattr(updater, "iter_runs", going)
    odd = root / "p" / ("0" * 16)
    odd.mkdir()
    (odd / "journal").touch()
    (root / "p" / ("e" * 16)).symlink_to("nowhere")
    journals = root / "q" / D / "journal"
    (journals / "folder").mkdir()
    (journals / "link").symlink_to("nowhere")
    os.mkfifo(journals / "pipe")
    with Index.open(root) as index:
        for name in ("1" * 16, odd.name):  # asking for a run does not create it
            said = f"run '{name}' does not exist in project 'p' below"
            with pytest.raises(RunNotFoundError, match=said):
                index.fresh_view("p", name)
        index.refresh()
        assert {name for _, name in index.runs()} == {A, C, D}
        assert index.unread() == []
