"""What people change on a page of folders, the files that they open, and what is not there."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import sqlalchemy as sa
from page_served import HTML, PNG, PROJECT, Clock, page, read, record

import seamark
from seamark.index.file import index_path, is_damaged
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.page.editing import Edits
from seamark.reading.codec import Table, unpack
from seamark.reading.reader import Answer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A root with runs that no test changes."""
    root = tmp_path_factory.mktemp("recorded") / "root"
    return root, record(root)


@pytest.fixture(scope="module")
def unlooked(recorded):
    """A page of these runs, of which it knows none yet, and their ids."""
    root, ids = recorded
    (root.parent / "blobs").mkdir()
    (root.parent / "blobs" / ("0" * 64)).write_bytes(b"secret")
    with page(root, look=False) as here:
        yield here, ids


@pytest.fixture
def runs(recorded, tmp_path):
    """A copy of it for one test."""
    shutil.copytree(recorded[0], tmp_path / "root")
    return tmp_path / "root", recorded[1]


def headers_of(root, run):
    found = []
    for journal in RunFolder(root, PROJECT, run).journals():
        with JournalReader(journal.path) as reader:
            found.append(dict(reader.header()))
    return found


def test_an_edit_is_a_record_of_a_journal_that_owns_nothing(runs, monkeypatch):
    """State, times and owner stay; several edits of one run are in one journal.

    An answer that lacks an edit says how many bytes.
    """
    root, ids = runs
    run = ids["run-0"]
    before = seamark.init_run(PROJECT, with_id=run, root=str(root), mode="read-only")
    derived = {
        path: before[path].fetch() for path in ("sys/state", "sys/owner", "sys/running_time")
    }
    before.stop()
    with page(root) as here:
        at = f"{here.base}runs"
        first = {"refs": [[PROJECT, run]], "name": "best", "add_tags": ["x"], "remove_tags": ["a"]}
        told = here.client.patch(at, json=first).json()["runs"][0]
        second = {"refs": [[PROJECT, run]], "description": "why", "trashed": True}
        told = here.client.patch(at, json=second).json()["runs"][0]
        assert told["ok"] is True
        seen = {"Seamark-Position": f"{PROJECT}/{run}={told['position']}"}
        columns = ["sys/name", "sys/tags", "sys/description", "sys/trashed", *derived]
        asked = {"columns": columns, "trashed": None, "id": run}
        seen["Accept"] = "application/msgpack"
        answer = here.client.post(f"{here.base}read/table", json=asked, headers=seen)
        assert "seamark-behind" not in answer.headers
        (row,) = unpack(answer.content, Answer[Table]).answer.table.rows
        assert (row["sys/name"], sorted(row["sys/tags"])) == ("best", ["t0", "x"])
        assert (row["sys/description"], row["sys/trashed"]) == ("why", True)
        assert {path: row[path] for path in derived} == derived
        stale = {"refs": [[PROJECT, run]], "description": "mine", "description_was": "other"}
        refused = here.client.patch(at, json=stale)
        assert (refused.status_code, refused.json()["description"]) == (409, "why")
        monkeypatch.setattr("seamark.page.folder._WAIT_S", 0.05)
        here.watch.look_now = lambda *_: None
        told = here.client.patch(at, json=first).json()["runs"][0]
        seen["Seamark-Position"] = f"{PROJECT}/{run}={told['position']}"
        answer = here.client.post(f"{here.base}read/table", json=asked, headers=seen)
        assert int(answer.headers["seamark-behind"]) > 0
    written = [one for one in headers_of(root, run) if one["owner"] is False]
    assert len(written) == 1
    assert written[0]["attempt"] is None
    with seamark.init_run(PROJECT, with_id=run, root=str(root), mode="read-only") as after:
        assert after["sys/description"].fetch() == "why"
        assert {path: after[path].fetch() for path in derived} == derived


def test_many_runs_are_edited_at_once_and_each_is_told_of(runs):
    """Chosen by a query; one that is not there is one answer among others."""
    root, ids = runs
    with page(root) as here:
        at = f"{here.base}runs"
        asked = {"project": PROJECT, "query": '`sys/state` = "completed"', "add_tags": ["all"]}
        told = here.client.patch(at, json=asked).json()["runs"]
        assert {one["run"] for one in told if one["ok"]} == set(ids.values()) - {ids["bad"]}
        some = [[PROJECT, ids["bad"]], [PROJECT, "never-was"], ["../..", "etc"]]
        told = here.client.patch(at, json={"refs": some, "trashed": True}).json()["runs"]
        assert [one["ok"] for one in told] == [True, False, False]
        alone = here.client.patch(at, json={"refs": some[1:2], "trashed": True})
        assert alone.status_code == 404
        for field in ("state", "owner", "sys/state"):
            refused = here.client.patch(at, json={"refs": some[:1], field: "x"})
            assert refused.status_code == 422, field
        log = [[PROJECT, ".project"]]
        for change in ({"trashed": True}, {"name": "run"}):
            refused = here.client.patch(at, json={"refs": log, "add_tags": ["all"], **change})
            assert refused.status_code == 422, change
    assert not (root.parent / "etc").exists()


def test_a_journal_is_closed_when_nobody_edits_any_more(runs):
    """A minute after the last edit; the next one opens another."""
    root, ids = runs
    now = [0.0]
    edits = Edits(root, clock=lambda: now[0])
    op = {"op": "add", "path": "sys/tags", "values": ["x"]}
    edits.record(PROJECT, ids["run-0"], [op])
    now[0] = 59.0
    edits.record(PROJECT, ids["run-1"], [op])
    edits.close_idle()
    edits.record(PROJECT, ids["run-0"], [op])
    now[0] = 60.0
    edits.close_idle()
    edits.record(PROJECT, ids["run-0"], [op])
    now[0] = 121.0
    edits.close_idle()
    edits.record(PROJECT, ids["run-0"], [op])
    edits.close()
    edits.close()
    counts = [
        sum(one["owner"] is False for one in headers_of(root, ids[name]))
        for name in ("run-0", "run-1", "run-2")
    ]
    assert counts == [2, 1, 0]


def test_a_root_that_is_read_only_says_so_before_and_after(runs, monkeypatch):
    """The greeting, and who edits all the same, give the same reason; nothing is written."""
    root, ids = runs
    access = os.access

    def asked(path: Any, mode: int, **more: Any) -> bool:
        return str(path) != str(root) and access(path, mode, **more)

    monkeypatch.setattr("seamark.page.folder.os.access", asked)
    why = f"you may not write to {root}"
    with page(root) as here:
        said = here.client.get("api/v1/").json()["roots"][0]
        assert (said["read_only"], said["why"]) == (True, why)
        body = {"refs": [[PROJECT, ids["run-0"]]], "trashed": True}
        answer = here.client.patch(f"{here.base}runs", json=body)
        assert (answer.status_code, answer.json()) == (403, {"error": "read-only", "hint": why})
    assert all(one["owner"] for one in headers_of(root, ids["run-0"]))


def test_a_run_that_is_somebody_elses_is_refused_by_itself(runs, monkeypatch):
    """Others of the same question are edited."""
    root, ids = runs
    denied = str(RunFolder(root, PROJECT, ids["run-0"]).journal_dir)
    access = os.access

    def asked(path, mode, **more):
        return str(path) != denied and access(path, mode, **more)

    monkeypatch.setattr("seamark.page.editing.os.access", asked)
    with page(root) as here:
        refs = [[PROJECT, ids["run-0"]], [PROJECT, ids["run-1"]]]
        body = {"refs": refs, "add_tags": ["x"]}
        told = here.client.patch(f"{here.base}runs", json=body).json()["runs"]
        assert [(one["ok"], one["error"]) for one in told] == [(False, "read-only"), (True, None)]
        assert "cannot be written to by you" in told[0]["hint"]


def digest_of(client, base, run, path):
    found = read(client, base, "attribute", project=PROJECT, run=run, path=path)
    digest: str = found["value"]["sha256"]
    return digest


def test_a_file_is_given_to_who_has_the_token_or_an_address_of_it(recorded):
    """Pictures are shown, what would run is shown in a sandbox of its own, all else is saved."""
    root, ids = recorded
    run = ids["run-0"]
    with page(root) as here:
        stranger = here.stranger

        def link(path, **more):
            digest = digest_of(here.client, here.base, run, path)
            body = {"project": PROJECT, "run": run, "sha256": digest, **more}
            answer = here.client.post(f"{here.base}link", json=body)
            assert answer.status_code == 200, answer.text
            url: str = answer.json()["url"]
            assert TOKEN_PART not in url
            return url

        picture = stranger.get(link("picture", name="a.png"))
        assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
        assert picture.headers["content-disposition"].startswith("inline")
        report = stranger.get(link("report", name='x"\n;.html'))
        assert report.content == HTML
        assert report.headers["content-type"] == "application/octet-stream"
        assert report.headers["content-disposition"].startswith("attachment")
        assert report.headers["content-security-policy"] == "sandbox; default-src 'none'"
        shown = stranger.get(link("report", name="x.html", preview=True))
        assert shown.headers["content-type"] == "text/html; charset=utf-8"
        assert shown.headers["content-security-policy"] == (
            "sandbox allow-scripts; default-src 'unsafe-inline' data: blob:"
        )
        disguised = stranger.get(link("report", name="x.png"))
        assert disguised.headers["content-disposition"].startswith("attachment")
        for one in (picture, report, shown, disguised):
            assert one.headers["x-content-type-options"] == "nosniff"
            assert one.headers["cache-control"] == "private, no-store"
        film = stranger.get(link("film", name="f.mp4"), headers={"Range": "bytes=10-19"})
        assert (film.status_code, film.content) == (206, b"0123456789")
        assert film.headers["content-range"] == "bytes 10-19/3000"
        assert film.headers["content-type"] == "video/mp4"
        digest = digest_of(here.client, here.base, run, "picture")
        at = f"{here.base}runs/{PROJECT}/{run}/blobs/{digest}"
        assert here.client.get(at).content == PNG
        assert stranger.get(at).status_code == 401


TOKEN_PART = "seamark_"


def test_addresses_are_good_for_a_minute_to_begin_with(recorded):
    """Parts are given for hours; what was signed for one root is none of another."""
    root, ids = recorded
    run, clock = ids["run-0"], Clock()
    with page(root, root, now_ns=clock) as here:
        stranger = here.stranger
        digest = digest_of(here.client, here.base, run, "film")
        body = {"project": PROJECT, "run": run, "sha256": digest, "name": "f.mp4"}
        url = here.client.post(f"{here.base}link", json=body).json()["url"]
        part, other = {"Range": "bytes=0-9"}, {"Range": "bytes=0-9", "If-Range": '"another"'}
        assert stranger.get(url.replace("r0/", "r1/")).status_code == 404
        clock.ns += 60 * 10**9
        assert stranger.get(url).status_code == 200
        assert stranger.get(url, headers=other).status_code == 200
        clock.ns += 1
        for whole in ({}, other, {"Range": "bytes=-"}, {"Range": "bytes=0-1,3-4"}):
            assert stranger.get(url, headers=whole).status_code == 404, whole
        assert stranger.get(url, headers=part).content == b"0123456789"
        clock.ns += 12 * 3600 * 10**9 - 1
        assert stranger.get(url, headers=part).status_code == 206
        clock.ns += 1
        assert stranger.get(url, headers=part).status_code == 404
        clock.ns -= 12 * 3600 * 10**9 + 1
        assert stranger.get(url).status_code == 200
        flipped = url.replace("linked/W", "linked/X", 1)
        assert flipped != url
        assert stranger.get(flipped).status_code == 404


def test_a_run_that_cannot_be_edited_says_why(runs):
    """A link in the place of its journals, which is not followed; and what is there no more."""
    root, ids = runs
    with page(root) as here:
        for run, what in (("run-0", "is a link"), ("run-1", "is not there any more")):
            folder = RunFolder(root, PROJECT, ids[run])
            body = {"refs": [[PROJECT, ids[run]]], "add_tags": ["one"]}
            assert here.client.patch(f"{here.base}runs", json=body).status_code == 200
            moved = folder.journal_dir.rename(root.parent / run)
            before = sorted(path.name for path in moved.iterdir())
            if what == "is a link":
                folder.journal_dir.symlink_to(moved)
            body["add_tags"] = ["two"]
            answer = here.client.patch(f"{here.base}runs", json=body)
            assert (answer.status_code, answer.json()["error"]) == (403, "read-only")
            assert answer.json()["hint"].startswith(f"{folder.journal_dir} {what}")
            assert sorted(path.name for path in moved.iterdir()) == before


HOSTILE = ["..", ".", "../..", "%2e%2e", "a/../../b", "x\0y", "C:\\x", "<img onerror=1>", "\u202e"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_lead_to_nothing_outside_of_the_root(unlooked, name):
    """Whatever stands in the place of a project, a run or a file: it is not there."""
    here, ids = unlooked
    asked: list[tuple[str, str, Any]] = []
    for project, run in ((name, ids["run-0"]), (PROJECT, name), (name, name)):
        body = {"project": project, "run": run, "sha256": "0" * 64}
        asked += [
            ("POST", "link", body),
            ("POST", "read/losses", {"refs": [[project, run]]}),
            ("PATCH", "runs", {"refs": [[project, run]], "trashed": True}),
        ]
        for verb, more in (("overview", {}), ("attributes", {}), ("points", {"paths": ["x"]})):
            question = {"project": project, "run": run, **more}
            asked.append(("POST", f"read/{verb}", question))
        blob = f"runs/{_quoted(project)}/{_quoted(run)}/blobs/{'0' * 64}"
        asked.append(("GET", blob, None))
    asked.append(("GET", f"runs/{PROJECT}/{ids['run-0']}/blobs/{_quoted(name)}", None))
    for method, path, body in asked:
        answer = here.client.request(method, here.base + path, json=body)
        assert answer.status_code in {200, 404, 422}, (path, answer.text)
        assert b"secret" not in answer.content
        if answer.status_code == 200:
            assert answer.json() == {"answer": []}


def _quoted(name):
    from urllib.parse import quote

    return quote(name, safe="")


def test_what_is_folded_so_far_is_answered_before_the_first_look_has_ended(runs):
    """With how much is left; and what comes then is told as a change."""
    root, ids = runs
    with page(root, look=False) as here:
        index_path(root)
        at = f"{here.base}read/changes"
        first = here.client.post(at)
        assert first.headers["seamark-left"] == "7"
        assert first.headers["seamark-looked"] == "0"
        assert read(here.client, here.base, "table")["table"]["total"] == 0
        begin = here.client.get(f"{here.url}api/v1/").json()["roots"][0]["cursor"]
        here.watch.look()
        since = read(here.client, here.base, "changes", cursor=begin)
        assert {one["run"] for one in since["runs"]} >= set(ids.values())
        told = here.client.post(at, json={"cursor": first.json()["answer"]["cursor"]})
        assert {one["run"] for one in told.json()["answer"]["runs"]} >= set(ids.values())
        assert "seamark-left" not in told.headers
        cursor = told.json()["answer"]["cursor"]
        assert read(here.client, here.base, "changes", cursor=cursor)["runs"] == []
        shutil.rmtree(RunFolder(root, PROJECT, ids["run-2"]).path)
        here.watch.look()
        (gone,) = read(here.client, here.base, "changes", cursor=cursor)["runs"]
        assert (gone["run"], gone["gone"]) == (ids["run-2"], True)
        assert read(here.client, here.base, "changes", cursor="made.1.2")["reset"] is True


def test_a_run_that_lies_in_two_roots_is_in_both(runs, tmp_path):
    """Each root is asked by itself, and an edit of one is none of the other."""
    root, ids = runs
    shutil.copytree(root, tmp_path / "second")
    with page(root, tmp_path / "second") as here:
        body = {"refs": [[PROJECT, ids["run-0"]]], "name": "only here"}
        told = here.client.patch("r1/api/v1/runs", json=body).json()["runs"][0]
        seen = {"Seamark-Position": f"{PROJECT}/{ids['run-0']}={told['position']}"}
        names = []
        for place in range(2):
            one = {"project": PROJECT, "run": ids["run-0"]}
            found = read(here.client, f"r{place}/api/v1/", "overview", headers=seen, **one)
            names.append(found["name"])
        assert names == ["run-0", "only here"]


def test_an_index_that_is_made_again_or_damaged_is_not_the_end(runs):
    """The next answers come from the new one; every cursor begins anew."""
    root, _ = runs
    with page(root) as here:
        cursor = read(here.client, here.base, "changes")["cursor"]
        at = f"{here.base}read/table"
        before = here.client.post(at).json()["seen"]
        file = index_path(root)
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{file}{end}").unlink()
        here.watch.look()
        answer = here.client.post(at, json={"seen": before})
        assert answer.json()["answer"]["table"]["total"] == 4
        assert read(here.client, here.base, "changes", cursor=cursor)["reset"] is True
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("DROP TABLE series")
            connection.commit()
        table = {"columns": ["train/loss"]}
        while True:  # it is folded again beside the answers
            answer = here.client.post(at, json=table)
            if answer.status_code == 200 and answer.json()["answer"]["table"]["total"] == 4:
                break
            assert answer.status_code in {200, 503}, answer.text


def test_what_somebody_looks_for_is_no_damage():
    """An error of SQLAlchemy says the statement and its values, too; the index is not made anew."""
    looked_for = {"name": "malformed, not a database"}
    busy = sqlite3.OperationalError("interrupted")
    bad = sqlite3.DatabaseError("database disk image is malformed")
    assert not is_damaged(sa.exc.OperationalError("SELECT ...", looked_for, busy))
    assert is_damaged(sa.exc.DatabaseError("SELECT ...", {}, bad))
    assert is_damaged(bad)
