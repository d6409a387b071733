"""Edits on a page of folders, files that are opened, and paths that are not there."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

import sqlalchemy as sa
from page_served import HTML, PNG, PROJECT, Clock, page, read, record

import seamark
from seamark.index.file import index_path, is_damaged
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.reading.codec import Table, unpack
from seamark.reading.reader import Answer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A root with runs that no test changes."""
    root = tmp_path_factory.mktemp("recorded") / "root"
    return root, record(root)


@pytest.fixture(scope="module")
def unlooked(recorded):
    """A page of these runs that has not read them yet, and their ids."""
    root, ids = recorded
    (root.parent / "blobs").mkdir()
    (root.parent / "blobs" / ("0" * 64)).write_bytes(b"secret")
    with page(root, look=False) as here:
        yield here, ids


def edit(here, *refs, root="r0", **change):
    """Return the answer to an edit of runs."""
    return here.client.patch(f"{root}/api/v1/runs", json={"refs": refs, **change})


@pytest.fixture
def runs(recorded, tmp_path):
    """A copy of it for one test."""
    shutil.copytree(recorded[0], tmp_path / "root")
    return tmp_path / "root", recorded[1]


def edits_of(root, run):
    """Return the headers of the journals of edits of a run."""
    found = []
    for journal in RunFolder(root, PROJECT, run).journals():
        with JournalReader(journal.path) as reader:
            found.append(dict(reader.header()))
    return [one for one in found if not one["owner"]]


def test_edits_are_in_one_journal_and_change_neither_state_nor_owner(runs, monkeypatch):
    """An answer that does not have an edit yet says how many bytes it lacks."""
    root, ids = runs
    ref = [PROJECT, ids["run-0"]]
    derived = ["sys/state", "sys/owner", "sys/running_time"]
    given = {"with_id": ref[1], "root": str(root), "mode": "read-only"}
    with seamark.init_run(PROJECT, **given) as run:
        before = {path: run[path].fetch() for path in derived}
    edited = ["sys/name", "sys/tags", "sys/description", "sys/trashed"]
    asked = {"columns": [*edited, *derived], "trashed": None, "id": ref[1]}
    with page(root) as here:

        def table(told):
            (one,) = told.json()["runs"]
            assert one["ok"] is True
            seen = {"Seamark-Position": f"{'/'.join(ref)}={one['position']}"}
            seen["Accept"] = "application/msgpack"
            return here.client.post(f"{here.base}read/table", json=asked, headers=seen)

        edit(here, ref, name="best", add_tags=["x"], remove_tags=["a"])
        answer = table(edit(here, ref, description="why", trashed=True))
        assert "seamark-behind" not in answer.headers
        (row,) = unpack(answer.content, Answer[Table]).answer.table.rows
        assert [row[path] for path in edited] == ["best", ["t0", "x"], "why", True]
        assert {path: row[path] for path in derived} == before
        refused = edit(here, ref, description="mine", description_was="other")
        assert (refused.status_code, refused.json()["description"]) == (409, "why")
        monkeypatch.setattr("seamark.page.folder._WAIT_S", 0.05)
        here.watch.lookers[0].look_now = lambda *_: None
        answer = table(edit(here, ref, name="best"))
        assert int(answer.headers["seamark-behind"]) > 0
    assert [one["attempt"] for one in edits_of(root, ref[1])] == [None]
    with seamark.init_run(PROJECT, **given) as run:
        assert run["sys/description"].fetch() == "why"
        assert {path: run[path].fetch() for path in derived} == before


def test_many_runs_are_edited_at_once_and_each_has_its_answer(runs):
    root, ids = runs
    bad, log = [PROJECT, ids["bad"]], [PROJECT, ".project"]
    with page(root) as here:
        others = [[PROJECT, run] for run in ids.values() if run != ids["bad"]]
        told = edit(here, *others, add_tags=["all"]).json()["runs"]
        assert {one["run"] for one in told if one["ok"]} == set(ids.values()) - {ids["bad"]}
        told = edit(here, bad, [PROJECT, "never-was"], ["../..", "etc"], trashed=True)
        assert [one["ok"] for one in told.json()["runs"]] == [True, False, False]
        assert edit(here, [PROJECT, "never-was"], trashed=True).status_code == 404
        for ref, change in (
            *((bad, {field: "x"}) for field in ("state", "owner", "sys/state")),
            (log, {"add_tags": ["all"], "trashed": True}),
            (log, {"add_tags": ["all"], "name": "run"}),
        ):
            assert edit(here, ref, **change).status_code == 422, change
        every = [[PROJECT, run] for run in ids.values()]
        with ThreadPoolExecutor() as pool:  # as from several tabs at once
            told = list(pool.map(lambda tag: edit(here, *every, add_tags=[tag]), "uvwxyz"))
        assert {one["ok"] for answer in told for one in answer.json()["runs"]} == {True}
        here.watch.look()
        table = read(here.client, here.base, "table", of=Table, columns=["sys/tags"], trashed=None)
        assert [{*"uvwxyz"} <= {*row["sys/tags"]} for row in table.table.rows] == [True] * 4
    assert not (root.parent / "etc").exists()


def deny(monkeypatch, module, denied):
    """Make a module believe that a folder cannot be written."""
    access = os.access

    def asked(path, mode, **more):
        return str(path) != str(denied) and access(path, mode, **more)

    monkeypatch.setattr(f"seamark.page.{module}.os.access", asked)


def test_edits_that_are_not_permitted_say_why(runs, monkeypatch):
    """Of a root that is read-only, as its greeting says, or of one run among others."""
    root, ids = runs
    refs = [[PROJECT, ids["run-0"]], [PROJECT, ids["run-1"]]]
    why = f"you may not write to {root}"
    with page(root) as here:
        with monkeypatch.context() as patch:
            deny(patch, "folder", root)
            said = here.client.get("api/v1/").json()["roots"][0]
            assert (said["read_only"], said["why"]) == (True, why)
            answer = edit(here, *refs, trashed=True)
            assert (answer.status_code, answer.json()) == (403, {"error": "read-only", "hint": why})
        deny(monkeypatch, "editing", RunFolder(root, PROJECT, ids["run-0"]).journal_dir)
        told = edit(here, *refs, add_tags=["x"]).json()["runs"]
        assert [(one["ok"], one["error"]) for one in told] == [(False, "read-only"), (True, None)]
        assert "is not writable for you" in told[0]["hint"]
    assert [len(edits_of(root, run)) for _, run in refs] == [0, 1]


def digest_of(client, base, run, path):
    found = read(client, base, "attribute", project=PROJECT, run=run, path=path)
    return found["value"]["sha256"]


def test_files_need_the_token_or_a_signed_address(recorded):
    """Pictures are shown, what would run is shown in a sandbox of its own, all else is saved."""
    root, ids = recorded
    run = ids["run-0"]
    with page(root) as here:

        def get(path, name, headers=None, **more):
            digest = digest_of(here.client, here.base, run, path)
            body = {"project": PROJECT, "run": run, "sha256": digest, "name": name, **more}
            answer = here.client.post(f"{here.base}link", json=body)
            assert answer.status_code == 200, answer.text
            assert "seamark_" not in answer.json()["url"]
            found = here.stranger.get(answer.json()["url"], headers=headers)
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.headers["cache-control"] == "private, no-store"
            return found

        def told(answer):
            policy = answer.headers.get("content-security-policy")
            disposition = answer.headers["content-disposition"].partition(";")[0]
            return answer.headers["content-type"], disposition, policy

        picture = get("picture", "a.png")
        assert (picture.content, *told(picture)[:2]) == (PNG, "image/png", "inline")
        report = get("report", 'x"\n;.html')
        alone = "sandbox; default-src 'none'"
        assert report.content == HTML
        assert told(report) == ("application/octet-stream", "attachment", alone)
        shown = get("report", "x.html", preview=True)
        assert told(shown)[0] == "text/html; charset=utf-8"
        assert told(shown)[2] == ("sandbox allow-scripts; default-src 'unsafe-inline' data: blob:")
        assert told(get("report", "x.png"))[1] == "attachment"
        film = get("film", "f.mp4", headers={"Range": "bytes=10-19"})
        assert (film.status_code, film.content) == (206, b"0123456789")
        assert film.headers["content-range"] == "bytes 10-19/3000"
        assert film.headers["content-type"] == "video/mp4"
        digest = digest_of(here.client, here.base, run, "picture")
        at = f"{here.base}runs/{PROJECT}/{run}/blobs/{digest}"
        assert here.client.get(at).content == PNG
        assert here.stranger.get(at).status_code == 401


def test_a_signed_address_lasts_a_minute_and_its_parts_twelve_hours(recorded):
    root, ids = recorded
    run, clock = ids["run-0"], Clock()
    with page(root, root, now_ns=clock) as here:
        digest = digest_of(here.client, here.base, run, "film")
        body = {"project": PROJECT, "run": run, "sha256": digest, "name": "f.mp4"}
        url = here.client.post(f"{here.base}link", json=body).json()["url"]
        begun = clock.ns

        def status(after_ns, url=url, **headers):
            clock.ns = begun + after_ns
            return here.stranger.get(url, headers=headers).status_code

        part, other = {"Range": "bytes=0-9"}, {"Range": "bytes=0-9", "If-Range": '"another"'}
        flipped = url.replace("linked/W", "linked/X", 1)
        assert flipped != url
        assert status(0, flipped) == status(0, url.replace("r0/", "r1/")) == 404
        minute, hours = 60 * 10**9, 12 * 3600 * 10**9
        assert (status(minute), status(minute, **other)) == (200, 200)
        for whole in ({}, other, {"Range": "bytes=-"}, {"Range": "bytes=0-1,3-4"}):
            assert status(minute + 1, **whole) == 404, whole
        assert [status(minute + at, **part) for at in (1, hours, hours + 1)] == [206, 206, 404]


def test_journals_that_are_a_link_or_gone_are_not_written(runs):
    root, ids = runs
    refs = [[PROJECT, ids[run]] for run in ("run-0", "run-1")]
    with page(root) as here:  # its end closes the journals: an open one is written again
        assert edit(here, *refs, add_tags=["one"]).status_code == 200
    for run, what in (("run-0", "is a link"), ("run-1", "no longer exists")):
        folder = RunFolder(root, PROJECT, ids[run])
        moved = folder.journal_dir.rename(root.parent / run)
        before = sorted(path.name for path in moved.iterdir())
        if what == "is a link":
            folder.journal_dir.symlink_to(moved)
        with page(root, look=False) as here:
            answer = edit(here, [PROJECT, ids[run]], add_tags=["two"])
        assert (answer.status_code, answer.json()["error"]) == (403, "read-only")
        assert answer.json()["hint"].startswith(f"{folder.journal_dir} {what}")
        assert sorted(path.name for path in moved.iterdir()) == before


HOSTILE = ["..", ".", "../..", "%2e%2e", "a/../../b", "x\0y", "C:\\x", "<img onerror=1>", "\u202e"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_lead_to_nothing_outside_of_the_root(unlooked, name):
    here, ids = unlooked
    run, quoted, blob = ids["run-0"], quote(name, safe=""), "0" * 64
    asked = [("GET", f"runs/{PROJECT}/{run}/blobs/{quoted}", None)]
    for project, of in ((name, run), (PROJECT, name), (name, name)):
        ref = {"project": project, "run": of}
        asked += [
            ("POST", "link", {**ref, "sha256": blob}),
            ("POST", "read/losses", {"refs": [[project, of]]}),
            ("PATCH", "runs", {"refs": [[project, of]], "trashed": True}),
            ("POST", "read/overview", ref),
            ("POST", "read/attributes", ref),
            ("POST", "read/points", {**ref, "paths": ["x"]}),
            ("GET", f"runs/{quote(project, safe='')}/{quote(of, safe='')}/blobs/{blob}", None),
        ]
    for method, path, body in asked:
        answer = here.client.request(method, here.base + path, json=body)
        assert answer.status_code in {200, 404, 422}, (path, answer.text)
        assert b"secret" not in answer.content
        if answer.status_code == 200:
            assert answer.json() == {"answer": []}


def test_answers_before_the_first_look_say_how_much_is_left(runs):
    root, ids = runs
    with page(root, look=False) as here:

        def changed(cursor):
            return read(here.client, here.base, "changes", cursor=cursor)

        first = here.client.post(f"{here.base}read/changes")
        assert (first.headers["seamark-left"], first.headers["seamark-looked"]) == ("7", "0")
        assert read(here.client, here.base, "table")["table"]["total"] == 0
        begin = here.client.get("api/v1/").json()["roots"][0]["cursor"]
        here.watch.look()
        for cursor in (begin, first.json()["answer"]["cursor"]):
            told = changed(cursor)
            assert {one["run"] for one in told["runs"]} >= set(ids.values())
        assert "seamark-left" not in here.client.post(f"{here.base}read/changes").headers
        assert changed(told["cursor"])["runs"] == []
        shutil.rmtree(RunFolder(root, PROJECT, ids["run-2"]).path)
        here.watch.look()
        (gone,) = changed(told["cursor"])["runs"]
        assert (gone["run"], gone["gone"]) == (ids["run-2"], True)
        assert changed("made.1.2")["reset"] is True


def test_an_edit_of_a_run_in_two_roots_changes_one(runs, tmp_path):
    root, ids = runs
    run = ids["run-0"]
    shutil.copytree(root, tmp_path / "second")
    with page(root, tmp_path / "second") as here:
        told = edit(here, [PROJECT, run], root="r1", name="only here").json()["runs"][0]
        seen = {"Seamark-Position": f"{PROJECT}/{run}={told['position']}"}
        asked = {"headers": seen, "project": PROJECT, "run": run}
        found = [read(here.client, f"r{n}/api/v1/", "overview", **asked) for n in range(2)]
        assert [one["name"] for one in found] == ["run-0", "only here"]


def test_an_index_that_is_deleted_or_damaged_is_made_again(runs):
    root, _ = runs
    with page(root) as here:
        cursor = read(here.client, here.base, "changes")["cursor"]
        at = f"{here.base}read/table"
        before = here.client.post(at).json()["seen"]
        file = index_path(root)
        for end in ("", "-wal", "-shm"):
            Path(f"{file}{end}").unlink(missing_ok=True)
        here.watch.look()
        answer = here.client.post(at, json={"seen": before})
        assert answer.json()["answer"]["table"]["total"] == 4
        assert read(here.client, here.base, "changes", cursor=cursor)["reset"] is True
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("DROP TABLE series")
        while True:  # it is read again beside the answers
            answer = here.client.post(at, json={"columns": ["train/loss"]})
            if answer.status_code == 200 and answer.json()["answer"]["table"]["total"] == 4:
                break
            assert answer.status_code in {200, 503}, answer.text


def test_an_error_whose_query_mentions_damage_is_no_damage():
    """An error of SQLAlchemy has the statement and its values, too; the index is not made anew."""
    looked_for = {"name": "malformed, not a database"}
    busy = sqlite3.OperationalError("interrupted")
    bad = sqlite3.DatabaseError("database disk image is malformed")
    assert not is_damaged(sa.exc.OperationalError("SELECT ...", looked_for, busy))
    assert is_damaged(sa.exc.DatabaseError("SELECT ...", {}, bad))
    assert is_damaged(bad)
