"""Purging: what an owner removes is gone for good, its files too and no others."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib

import pytest

pytest.importorskip("fastapi")

import urllib3
from folding import a_journal, says
from served import folding
from server_waits import until

from seamark.journal.format import ZLIB, Kind
from seamark.server.accounts import tables as account_tables
from seamark.server.blobs.blobs import Blobs
from seamark.server.databases import open_databases
from seamark.server.failures import Rejected
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.refold import take_up
from seamark.server.kept.journals import IntakeJournals
from seamark.server.purging import is_purged, purge
from seamark.server.state import make_tables
from seamark.server.writer import ServerWriter

PROJECT = "team/x"
HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS


def away(place, run):
    databases = place.databases
    purge(databases.account, place.kept, databases.store(), PROJECT, run, who="a", now_ns=1)


def test_a_purge_while_it_is_sent_and_folded_leaves_nothing(place):
    """Batches that come after it are refused, and no fold brings back what was there."""
    journal = a_journal("one", PROJECT, "run0", attempt=0)
    refused = threading.Event()

    def send():
        try:
            for step in range(100_000):  # until it is refused
                journal.row({"loss": float(step)}, step)
                place.send(PROJECT, "run0", journal)
        except Rejected:
            refused.set()

    with folding(place):
        sender = threading.Thread(target=send)
        sender.start()
        until(lambda: place.positions.folded(PROJECT, "run0"))
        away(place, "run0")
        sender.join()
        assert refused.is_set()
        assert is_purged(place.databases.account, PROJECT, "run0")
        assert place.kept.journals(PROJECT, "run0") == {}
        other = a_journal("two", PROJECT, "run1").assign(a=1)
        position = place.send(PROJECT, "run1", other)
        assert place.positions.wait_for((PROJECT, "run1"), position, 60) == 0
        until(lambda: says(place.reader(PROJECT, "run0")) == {})
        with pytest.raises(Rejected, match="was purged here"):
            place.intake.take(PROJECT, "run0", journal.file, 0, journal.data)
    away(place, "run0")  # again, as after one that was cut short


def test_edits_go_behind_all_that_a_run_holds(place):
    """From several workers at once, and also where a writer's clock is ahead."""
    worker = FoldWorker(place.databases, place.kept, threading.Event())
    ahead = place.now_ns() + 1800 * 10**9
    journal = a_journal("one", PROJECT, "run0", t=ahead, attempt=0).assign(sys__name="old")
    place.send(PROJECT, "run0", journal)
    until(lambda: worker.round() or place.positions.folded(PROJECT, "run0"))
    writers = [
        ServerWriter("instance", place.kept, place.intake.take, place.databases.store, place.now_ns)
        for _ in range(3)
    ]

    def edit(number):
        for one in range(5):
            tags = {"op": "add", "path": "sys/tags", "values": [f"t{number}-{one}"]}
            writers[number].record(PROJECT, "run0", [tags])

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    renamed = {"op": "assign", "atoms": {"sys/name": ["string", "new"]}}
    trashed = {"op": "assign", "atoms": {"sys/trashed": ["bool", True]}}
    position = writers[0].record(PROJECT, "run0", [renamed, trashed])
    until(lambda: worker.round() or place.positions.folded(PROJECT, "run0") >= position)
    reader = place.reader(PROJECT, "run0")
    assert reader.attribute("sys/name").value == "new"
    assert reader.attribute("sys/trashed").value is True
    assert len(reader.attribute("sys/tags").value) == 15
    assert len(place.kept.journals(PROJECT, "run0")) == 2
    assert [rank.rank for rank in reader.ranks()] == [0]
    assert reader.problems() == {}


def test_an_edit_by_a_clock_that_is_behind_moves_no_creation_date(place):
    """By hours, and also before anything of the run was folded."""
    began = place.now_ns()
    journal = a_journal("one", PROJECT, "run0", t=began, attempt=0).assign(sys__name="old")
    place.send(PROJECT, "run0", journal)
    behind = ServerWriter(
        "instance", place.kept, place.intake.take, place.databases.store, lambda: began - 10**14
    )
    worker = FoldWorker(place.databases, place.kept, threading.Event())
    for name in ("before it is folded", "after"):
        behind.record(PROJECT, "run0", [{"op": "assign", "atoms": {"sys/name": ["string", name]}}])
        until(lambda: not worker.round())
        [created] = [
            one.value
            for one in place.reader(PROJECT, "run0").attributes()
            if one.path == "sys/creation_time"
        ]
        assert created.timestamp() * 1e9 == pytest.approx(began, abs=1e6)


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
    digest = hashlib.sha256(data).hexdigest()
    blobs.put(PROJECT, run, digest, len(data), 0, data)
    return digest


def uploads(journal, digest, **more):
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
    until(lambda: worker.round() or place.positions.folded(PROJECT, "a") >= position)
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
