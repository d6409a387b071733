"""What goes when a run is purged: its files too, and no others, whatever happened to the tables."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib

import pytest

pytest.importorskip("fastapi")

import urllib3
from folding import Place, a_journal, eventually

from seamark.journal.format import ZLIB, Kind
from seamark.server.accounts import tables as account_tables
from seamark.server.blobs.blobs import Blobs
from seamark.server.databases import open_databases
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.refold import take_up
from seamark.server.kept.journals import IntakeJournals
from seamark.server.purging import purge
from seamark.server.state import make_tables

PROJECT = "team/x"
HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS


@pytest.fixture
def place(account_url, tmp_path, clock):
    """Databases, objects and intake of a server."""
    made = Place(tmp_path / "server", account_url, clock)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path, place, clock):
    """The same objects behind tables that were made again from them alone."""
    opened = open_databases(f"sqlite:///{tmp_path}/fresh")
    make_tables(opened)

    def again():
        take_up(opened, place.objects)
        kept = IntakeJournals(opened.kept, place.objects, clock)
        return kept, Blobs(opened.kept, place.objects, now_ns=clock)

    yield again
    opened.close()


def content(blobs, run, data):
    """Send a file; return its digest."""
    digest = hashlib.sha256(data).hexdigest()
    blobs.put(PROJECT, run, digest, len(data), 0, data)
    return digest


def uploads(journal, digest, **more):
    """Record a file."""
    return journal.op("upload", path="file", size=1, sha256=digest, **more)


def tended(kept, clock):
    """Have everything done that is due in the next two days."""
    for _ in range(8):
        clock.now += DAY_NS // 4
        kept.tend()


def test_files_that_were_taken_up_go_with_the_last_run_that_names_them(place, clock, fresh):
    """Also what is named by a compressed record, or by the list of a folder; the rest goes."""
    blobs = Blobs(place.databases.kept, place.objects, now_ns=clock)
    own, shared, packed, member, stray = (
        content(blobs, "a", data) for data in (b"own", b"shared", b"packed", b"member", b"stray")
    )
    folder = content(blobs, "a", json.dumps({"member": [6, member]}).encode())
    first = uploads(uploads(a_journal("one", PROJECT, "a"), own), shared)
    uploads(first, folder, dir=True)
    record = json.dumps({"op": "upload", "path": "p", "size": 6, "sha256": packed}).encode()
    first.frame(Kind.OP, zlib.compress(record), flags=ZLIB)
    place.send(PROJECT, "a", first)
    place.send(PROJECT, "b", uploads(a_journal("two", PROJECT, "b"), shared))
    kept, again = fresh()

    def there():
        every = (own, shared, packed, member, stray, folder)
        return {each for each in every if again.find(PROJECT, each)}

    clock.now += HOUR_NS
    kept.tend()
    assert there() == {own, shared, packed, member, stray, folder}  # nobody is hurried
    tended(kept, clock)
    assert there() == {own, shared, packed, member, folder}
    kept.forget(PROJECT, "a")
    tended(kept, clock)
    assert there() == {shared}
    kept.forget(PROJECT, "b")
    tended(kept, clock)
    assert there() == set()
    assert [one.name for one in place.objects.listed("blobs/")] == []


def test_files_stay_where_a_journal_that_may_name_them_is_lost(place, clock, fresh):
    """Who knows what it named: nothing that was taken up goes then."""
    blobs = Blobs(place.databases.kept, place.objects, now_ns=clock)
    own = content(blobs, "a", b"own")
    place.send(PROJECT, "a", uploads(a_journal("one", PROJECT, "a"), own))
    (name,) = (one.name for one in place.objects.listed("journals/"))
    path = place.objects.folder / name
    path.chmod(0o600)
    path.write_bytes(b"!" + path.read_bytes()[1:])
    kept, again = fresh()
    tended(kept, clock)
    tended(kept, clock)
    assert b"".join(again.find(PROJECT, own).read()) == b"own"


def test_what_comes_for_a_run_in_the_moment_of_its_purge_goes_too(place, clock):
    """The file was let in before the tombstone, and arrived after everything was removed."""
    blobs = Blobs(place.databases.kept, place.objects, now_ns=clock)
    place.send(PROJECT, "a", a_journal("one", PROJECT, "a"))
    databases = place.databases
    store = databases.store()
    purge(databases.account, place.kept, store, PROJECT, "a", who="o", now_ns=clock())
    late = content(blobs, "a", b"late")
    tended(place.kept, clock)
    assert blobs.find(PROJECT, late) is None
    assert [one.name for one in place.objects.listed("blobs/")] == []


def test_a_purge_that_died_after_its_tombstone_is_brought_to_its_end(place, clock):
    """Whoever tends removes what is kept and what was folded, without being asked again."""
    worker = FoldWorker(place.databases, place.kept, threading.Event(), clock)
    blobs = Blobs(place.databases.kept, place.objects, now_ns=clock)
    own = content(blobs, "a", b"own")
    position = place.send(PROJECT, "a", uploads(a_journal("one", PROJECT, "a"), own))
    eventually(lambda: worker.round() or place.positions.folded(PROJECT, "a") >= position)
    account = place.databases.account
    with account.writing() as connection:  # what a purge does first
        grave = {"project": PROJECT, "run": "a", "t_ns": clock(), "who": "o"}
        connection.execute(account_tables.tombstone.insert(), grave)
    worker.tend(place.databases.store())
    assert place.kept.journals(PROJECT, "a") == {}
    assert place.positions.folded(PROJECT, "a") == 0
    tended(place.kept, clock)
    assert blobs.find(PROJECT, own) is None
    assert [one.name for one in place.objects.listed()] == []


def test_a_purged_run_is_refused_at_every_door(team):
    """Journals, questions about files and files are answered 410, again after the same purge."""
    project, run, base = "team/x", "run0", f"{team.url}/api/v1/runs/team/x/run0"
    data = b"a file"
    digest = hashlib.sha256(data).hexdigest()
    journal = a_journal("one", project, run)
    of_journal, of_file = f"{base}/journals/{journal.file}", f"{base}/blobs/{digest}"
    with urllib3.PoolManager(headers={"Authorization": f"Bearer {team.token}"}) as pool:

        def ask(method, url, **rest):
            return pool.request(method, url, retries=False, **rest).status

        def doors():
            return [
                ask("GET", f"{base}/journals"),
                ask("PUT", f"{of_journal}?offset=0", body=journal.data),
                ask("POST", f"{base}/blobs", json={"digests": [digest]}),
                ask("PUT", f"{of_file}?offset=0&size={len(data)}", body=data),
            ]

        assert doors() == [200, 200, 200, 200]
        for _ in range(2):
            assert ask("DELETE", base) == 200
            assert doors() == [410, 410, 410, 410]
        assert ask("DELETE", f"{team.url}/api/v1/runs/team/x/other") == 404
