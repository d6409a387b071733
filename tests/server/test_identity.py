"""Tables and objects that belong together, and a place of objects that goes away."""

from __future__ import annotations

import contextlib
import shutil
import threading

import pytest
from folding import Place, a_journal

from seamark.server import failures
from seamark.server.checks import CannotStart
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.refold import refold_server
from seamark.server.kept.plan import FullError
from seamark.server.objects import ObjectsUnreachable
from seamark.server.run import prepare
from seamark.server.settings import Settings

RUN = ("team/x", "run0")


@pytest.fixture
def folder(tmp_path):
    """Folder of the objects of a server that keeps a journal, and is stopped."""
    with contextlib.closing(Place(tmp_path / "server", store(tmp_path))) as place:
        prepare(place.settings)
        place.send(*RUN, a_journal("one", *RUN).assign(a=1))
    return tmp_path / "server" / "objects"


def store(tmp_path, name="server"):
    return f"sqlite:///{tmp_path / name}"


def settings(tmp_path, folder, name="server"):
    return Settings.at(tmp_path / "server", store(tmp_path, name), folder.as_uri())


def test_server_starts_with_the_objects_of_its_tables_alone(folder, tmp_path):
    """Not with an empty place or none, as of a mount that did not come up; none is made."""
    prepare(settings(tmp_path, folder))
    away = folder.rename(tmp_path / "away")
    for empty in (False, True):
        if empty:
            folder.mkdir()
        with pytest.raises(CannotStart, match=r"--blobs: .*mount.*seamark server refold --objects"):
            prepare(settings(tmp_path, folder))
        assert folder.exists() == empty
    folder.rmdir()
    away.rename(folder)
    prepare(settings(tmp_path, folder))
    prepare(settings(tmp_path, tmp_path / "theirs", "other"))
    for name, place in (("server", tmp_path / "theirs"), ("other", folder), ("third", folder)):
        with pytest.raises(CannotStart, match=r"--blobs: the objects in .* belong to another"):
            prepare(settings(tmp_path, place, name))
    # Objects that are given up are asked for again.
    shutil.rmtree(folder)
    refold_server(settings(tmp_path, folder), objects=True)
    prepare(settings(tmp_path, folder))
    with contextlib.closing(Place(tmp_path / "server", store(tmp_path))) as place:
        assert place.kept.journals(*RUN) == {}


def test_lost_tables_of_journals_are_made_again_where_users_are_known(folder, tmp_path):
    """Where those are lost, too, it may be the wrong database: nothing starts."""
    for file in (tmp_path / "server").glob("kept.db*"):
        file.unlink()
    prepare(settings(tmp_path, folder))
    with contextlib.closing(Place(tmp_path / "server", store(tmp_path))) as place:
        assert len(place.kept.journals(*RUN)) == 1
    (folder / "identity").unlink()
    with pytest.raises(CannotStart, match="the database is empty"):
        prepare(settings(tmp_path, folder, "other"))


def test_folder_that_goes_away_is_not_written_until_it_is_back(
    folder, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(failures, "_logged_kinds", {})
    away = tmp_path / "away"
    with contextlib.closing(Place(tmp_path / "server", store(tmp_path))) as place:
        journal = a_journal("two", "team/x", "run1").assign(a=1)
        place.send("team/x", "run1", journal)
        worker = FoldWorker(place.databases, place.kept, threading.Event())
        folder.rename(away)
        for _ in range(2):
            journal.assign(b=2)
            with pytest.raises(FullError) as refused:
                place.send("team/x", "run1", journal)
            assert refused.value.headers["Retry-After"]
            with pytest.raises(ObjectsUnreachable, match="--blobs: the folder"):
                worker.round()
            folder.mkdir(exist_ok=True)
        assert list(folder.iterdir()) == []
        folder.rmdir()
        away.rename(folder)
        position = place.send("team/x", "run1", journal)
        while worker.round():
            pass
        assert place.positions.folded("team/x", "run1") == position
    assert "Traceback" not in caplog.text
    assert caplog.text.count("--blobs") == 1
