"""Views are saved for a project of a folder as for one of a server, and by several at once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from at_once import at_once
from databases import fresh_database
from page_served import client_of, page
from served import served

from seamark.page.editing import NotWritable
from seamark.page.views import FolderViews
from seamark.server.views import MOST_ADDRESS, View

PROJECT = "team/vision"
ADDRESS = "?v=1&sort=train%2Floss&pinned=val/loss&unheard=of"


def asker(client, base="", project=PROJECT):
    """Return a function that changes a view, or lists them."""

    def ask(name="", **change):
        if not name:
            return client.post(f"{base}views", json={"project": project})
        body = {"project": project, "name": name, "was": None, **change}
        return client.patch(f"{base}views", json=body)

    return ask


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A folder of its own for what is saved outside of roots."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def root(tmp_path, own_state):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(params=["folder", "sqlite", "postgresql"])
def ask(request, postgresql, tmp_path, root):
    """Ask a page of a folder, or a server on either engine."""
    with contextlib.ExitStack() as stack:
        if request.param == "folder":
            here = stack.enter_context(page(root, look=False))
            yield asker(here.client, here.base)
            return
        store = None
        if request.param == "postgresql":
            store = stack.enter_context(fresh_database(postgresql()))
        there = stack.enter_context(served(tmp_path / "server", store=store))
        client = stack.enter_context(client_of(f"{there.url}/api/v1/", there.token))
        yield asker(client)


def names(answer):
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["views"]]


def test_views_are_saved_renamed_made_the_default_and_removed(ask):
    empty = {"project": PROJECT, "views": [], "may_save": True, "apart": ""}
    assert ask().json() == empty
    assert names(ask("Löss, by lr", address=ADDRESS)) == ["Löss, by lr"]
    assert names(ask("b", address="", default=True)) == ["Löss, by lr", "b"]
    (view,) = [one for one in ask().json()["views"] if one["name"] != "b"]
    assert (view["address"], view["default"], bool(view["by"])) == (ADDRESS, False, True)
    for was in (None, "?other"):
        again = ask("Löss, by lr", was=was, address="?mine")
        assert (again.status_code, again.json()["error"]) == (409, "changed")
        assert again.json()["address"] == ADDRESS
    assert ask("Löss, by lr", was=ADDRESS, to="b").json()["error"] == "taken"
    assert names(ask("Löss, by lr", was=ADDRESS, to="a", default=True)) == ["a", "b"]
    assert [one["default"] for one in ask().json()["views"]] == [True, False]
    assert ask("a", was=ADDRESS, address="?2").json()["views"][0]["default"] is True
    assert ask("a", was="?2", default=False).json()["views"][0]["default"] is False
    assert names(ask("a", was="?2", address=None)) == ["b"]
    assert ask("a", to="c").status_code == 404
    assert names(ask()) == ["b"]


def test_views_that_are_saved_at_once_are_all_kept(ask):
    with ThreadPoolExecutor(4) as pool:
        own = [pool.submit(ask, f"v{n}", address="?1") for n in range(8)]
        same = [pool.submit(ask, "same", address=f"?{n}") for n in range(8)]
    assert [one.result().status_code for one in own] == [200] * 8
    assert sorted(one.result().status_code for one in same) == [200] + [409] * 7
    assert names(ask()) == ["same", *(f"v{n}" for n in range(8))]


def test_wrong_views_are_refused(root):
    """Too long, with characters that nobody sees, or with members that nobody knows."""
    cases = [
        *({"name": name, "address": ""} for name in ("", "x" * 101, " x", "x\u202ey", "x\0")),
        *({"name": "x", "address": one} for one in ("a b", "\u00e9", "a" * ((64 << 10) + 1))),
        {"name": "x", "to": "\n"},
        {"name": "x", "address": "", "more": 1},
        {"name": "x"},
    ]
    with page(root, look=False) as here:
        for change in cases:
            body = {"project": PROJECT, "was": None, **change}
            answer = here.client.patch(f"{here.base}views", json=body)
            assert answer.status_code == 422, ascii(change)[:60]
        assert here.stranger.patch(f"{here.base}views", json=body).status_code == 401
    assert not list(root.iterdir())


def test_viewers_open_views_and_save_none(tmp_path):
    with served(tmp_path) as there, client_of(f"{there.url}/api/v1/") as client:
        admin = {"Authorization": f"Bearer {there.token}"}
        for role, saves in (("contributor", True), ("viewer", False)):
            body = {"user": role, "project": PROJECT, "role": role, "service": True}
            made = client.post("accounts/tokens", json=body, headers=admin)
            client.headers["Authorization"] = f"Bearer {made.json()['token']}"
            ask = asker(client)
            assert ask(role, address="?1").status_code == (200 if saves else 403)
            assert ask().json()["may_save"] is saves
            assert names(ask()) == ["contributor"]
            everything = asker(client, project="")
            assert everything("mine", address="?1").status_code == 403
            none = {"project": "", "views": [], "may_save": False, "apart": ""}
            assert everything().json() == none


def test_views_are_deleted_with_their_project(tmp_path):
    one = View(name="mine", address="?1")
    with served(tmp_path) as there:
        for project in (PROJECT, f"{PROJECT}-2"):
            there.server.views.change(project, lambda _: {one.name: one})
        there.server.accounts.forget_project(PROJECT)
        assert there.server.views.read(PROJECT) == {}
        assert there.server.views.read(f"{PROJECT}-2") == {one.name: one}


def test_a_project_has_at_most_200_views(tmp_path):
    many = {name: View(name=name, address="?1") for name in map(str, range(200))}
    FolderViews(tmp_path).change(PROJECT, lambda _: many)
    with page(tmp_path, look=False) as here:
        ask = asker(here.client, here.base)
        full = ask("more", address="?1")
        assert (full.status_code, full.json()["limit"]) == (413, 200)
        assert len(names(ask("7", was="?1", address="?2"))) == 200
        assert names(asker(here.client, here.base, "")("all", address="?1")) == ["all"]


def test_a_project_name_too_long_for_the_database_is_refused(tmp_path, postgresql):
    """PostgreSQL cannot index it, which is no error of the server."""
    project = "/".join(f"a{random.Random(one).randbytes(45).hex()}" for one in range(44))
    with (
        fresh_database(postgresql()) as store,
        served(tmp_path, store=store) as there,
        client_of(f"{there.url}/api/v1/", there.token) as client,
    ):
        answer = asker(client, project=project)("v", address="?1")
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid")


SAVING = """
import sys
from pathlib import Path
from seamark.page.views import FolderViews
from seamark.server.views import View
views, me = FolderViews(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    def work(before):
        counted = int(before["shared"].address if "shared" in before else 0) + 1
        new = [View(name=f"{me}-{number}", address="?1"), View(name="shared", address=str(counted))]
        return {**before, **{one.name: one for one in new}}
    views.change("p", work)
"""


def test_processes_that_save_at_once_lose_nothing(tmp_path):
    """Each change of one view begins with the one before."""
    at_once(SAVING, *((tmp_path, f"w{number}") for number in range(3)))
    found = {name: one.address for name, one in FolderViews(tmp_path).read("p").items()}
    wanted = {f"w{number}-{n}": "?1" for number in range(3) for n in range(10)}
    assert found == {**wanted, "shared": "30"}
    left = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {".json", ".lock"}


def test_views_of_a_read_only_folder_are_saved_for_oneself(root, tmp_path, monkeypatch):
    with page(root, look=False) as here:
        ask = asker(here.client, here.base)
        ask("theirs", address="?1")
        (file,) = root.rglob("*.json")
        before = file.read_bytes()
        monkeypatch.setattr("seamark.page.views.os.access", lambda *_: False)
        assert names(ask("mine", address="?2")) == ["mine", "theirs"]
        assert names(ask("theirs", was="?1", address="?3")) == ["mine", "theirs"]
        told = ask().json()
        assert (told["may_save"], told["views"][1]["address"]) == (True, "?3")
        assert told["apart"].startswith(f"you may not write to {root}")
        assert file.read_bytes() == before
        assert len(list((tmp_path / "state" / "seamark" / "views").rglob("*.json"))) == 2


def put(views: FolderViews, name: str, address: str) -> None:
    views.change("p", lambda before: {**before, name: View(name=name, address=address)})


def drop(views: FolderViews, name: str) -> None:
    views.change("p", lambda before: {one: before[one] for one in before if one != name})


def test_own_views_and_those_of_a_read_only_root(root, tmp_path, monkeypatch):
    """An own view hides one of the root; who may not write changes none of the root's."""
    allowed = {"write"}
    monkeypatch.setattr("seamark.page.views.os.access", lambda *_: bool(allowed))
    views = FolderViews(root)
    put(views, "theirs", "?1")
    allowed.clear()
    with pytest.raises(NotWritable, match="'theirs' is in "):
        drop(views, "theirs")
    with pytest.raises(NotWritable, match="'theirs' is in "):
        views.change("p", lambda _: {"new": View(name="new", address="?1")})
    assert list(views.read("p")) == ["theirs"]
    put(views, "theirs", "?2")
    drop(views, "theirs")
    assert views.read("p")["theirs"].address == "?1"
    put(views, "a", "?1")
    allowed.add("write")
    put(views, "a", "?2")  # in the root: the own one is removed
    assert views.read("p")["a"].address == "?2"
    allowed.clear()
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(NotWritable, match="XDG_STATE_HOME"):
        put(views, "b", "?1")


def test_the_lock_of_views_is_shared_by_the_group_and_follows_no_link(tmp_path):
    views = FolderViews(tmp_path)
    mask = os.umask(0o002)
    try:
        put(views, "a", "?1")
    finally:
        os.umask(mask)
    (lock,) = tmp_path.rglob("*.lock")
    assert lock.stat().st_mode & 0o777 == 0o664
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotWritable, match=f"cannot write to {lock}: "):
        put(views, "b", "?1")
    assert not (tmp_path / "elsewhere").exists()


def test_the_longest_view_is_read(tmp_path):
    """Quotation marks take two characters in its file."""
    put(FolderViews(tmp_path), "\U0001f600" * 100, '"' * MOST_ADDRESS)
    (found,) = FolderViews(tmp_path).read("p").values()
    assert found.address == '"' * MOST_ADDRESS


def test_other_files_in_a_root_are_no_views(root, tmp_path):
    with page(root, look=False) as here:
        ask = asker(here.client, here.base)
        ask("good", address="?1")
        (file,) = root.rglob("*.json")
        folder, good = file.parent, json.loads(file.read_bytes())
        (folder / "copied.json").write_text(json.dumps(good))
        (folder / "list.json").write_text("[" * 100_000)
        (folder / "huge.json").write_bytes(b" " * (1 << 20))
        (folder / "link.json").symlink_to(file)
        os.mkfifo(folder / "pipe.json")
        for number in range(300):
            (folder / f"0{number}.json").write_text("{}")
            (folder / f"{number:032x}.json").write_text(json.dumps(good))
        assert names(ask()) == ["good"]
        file.write_text(json.dumps(good | {"address": "a b"}))
        assert names(ask()) == []
        file.write_text(json.dumps(good | {"later": "version"}))
        assert names(ask()) == ["good"]
        moved = Path(folder).rename(tmp_path / "elsewhere")
        before = sorted(moved.iterdir())
        folder.symlink_to(moved)
        assert names(ask()) == []
        assert ask("new", address="?1").json()["error"] == "read-only"
        assert sorted(moved.iterdir()) == before
