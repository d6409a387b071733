"""Purging: what an owner removes is gone for good, its files too and no others."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import zlib
from functools import partial

import pytest
from asking import ask
from folding import a_journal, says
from keeping import at_once
from served import folding
from server_waits import until

from seamark.journal.format import ZLIB, Kind
from seamark.server.accounts import tables as account_tables
from seamark.server.blobs.blobs import Blobs
from seamark.server.databases import open_databases
from seamark.server.failures import Refusal
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.refold import take_up
from seamark.server.kept.journals import IntakeJournals
from seamark.server.purging import is_purged, purge
from seamark.server.state import make_tables
from seamark.server.writer import ServerWriter

PROJECT = "team/x"
HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS


@pytest.fixture
def blobs(place, clock):
    return Blobs(place.databases.kept, place.objects, now_ns=clock)


@pytest.fixture
def worker(place, clock):
    return FoldWorker(place.databases, place.kept, threading.Event(), clock)


def remove(place, run):
    databases = place.databases
    purge(databases.account, place.kept, databases.store(), PROJECT, run, who="a", now_ns=1)


def content(blobs, data):
    """Have bytes of run a kept; return their digest."""
    digest = hashlib.sha256(data).hexdigest()
    blobs.put(PROJECT, "a", digest, len(data), 0, data)
    return digest


def uploads(journal, digest, **more):
    return journal.op("upload", path="file", size=1, sha256=digest, **more)


def tended(kept, clock):
    """Have everything done that is due in the next two days."""
    for _ in range(8):
        clock.now += DAY_NS // 4
        kept.tend()


def names(objects, prefix=""):
    return [one.name for one in objects.listed(prefix)]


def test_purge_during_sending_and_folding_leaves_nothing(place):
    journal = a_journal("one", PROJECT, "run0", attempt=0)
    refused = threading.Event()

    def send():
        try:
            for step in range(100_000):  # until it is refused
                journal.row({"loss": float(step)}, step)
                place.send(PROJECT, "run0", journal)
        except Refusal:
            refused.set()

    with folding(place):
        sender = threading.Thread(target=send)
        sender.start()
        until(lambda: place.positions.folded(PROJECT, "run0"))
        remove(place, "run0")
        sender.join()
        assert refused.is_set()
        assert is_purged(place.databases.account, PROJECT, "run0")
        assert place.kept.journals(PROJECT, "run0") == {}
        other = a_journal("two", PROJECT, "run1").assign(a=1)
        position = place.send(PROJECT, "run1", other)
        assert place.positions.wait_for({(PROJECT, "run1"): position}, 60) == 0
        until(lambda: says(place.reader(PROJECT, "run0")) == {})
        with pytest.raises(Refusal, match="was purged on this server"):
            place.intake.take(PROJECT, "run0", journal.file, 0, journal.data)
    remove(place, "run0")  # again, as after one that was cut short


def test_edits_come_after_records_whose_clock_is_ahead(place, worker):
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

    assert at_once(*(partial(edit, number) for number in range(3))) == [None] * 3
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


def test_files_of_rebuilt_tables_go_with_the_last_run_that_names_them(
    place, clock, blobs, tmp_path
):
    """Also those that a compressed record names, or the list of a folder.

    Where a journal is lost, nobody knows what it named: then all that was taken up stays.
    """
    own, shared, packed, member, stray = (
        content(blobs, data) for data in (b"own", b"shared", b"packed", b"member", b"stray")
    )
    folder = content(blobs, json.dumps({"member": [6, member]}).encode())
    first = uploads(uploads(a_journal("one", PROJECT, "a"), own), shared)
    uploads(first, folder, dir=True)
    record = json.dumps({"op": "upload", "path": "p", "size": 6, "sha256": packed}).encode()
    first.frame(Kind.OP, zlib.compress(record), flags=ZLIB)
    place.send(PROJECT, "a", first)
    place.send(PROJECT, "b", uploads(a_journal("two", PROJECT, "b"), shared))
    every = {own, shared, packed, member, stray, folder}
    named = names(place.objects, "journals/")[0]
    path = place.objects.folder / named
    whole = path.read_bytes()
    for damaged in (True, False):
        path.chmod(0o600)
        path.write_bytes(b"!" + whole[1:] if damaged else whole)
        with contextlib.closing(open_databases(f"sqlite:///{tmp_path}/fresh{damaged}")) as opened:
            make_tables(opened)
            take_up(opened, place.objects)
            kept = IntakeJournals(opened.kept, place.objects, clock)
            again = Blobs(opened.kept, place.objects, now_ns=clock)

            def there(again=again):
                return {each for each in every if again.find(PROJECT, each)}

            if damaged:
                tended(kept, clock)
                tended(kept, clock)
                assert there() == every
                continue
            clock.now += HOUR_NS
            kept.tend()
            assert there() == every  # nobody is hurried
            tended(kept, clock)
            assert there() == every - {stray}
            kept.forget(PROJECT, "a")
            tended(kept, clock)
            assert there() == {shared}
            kept.forget(PROJECT, "b")
            tended(kept, clock)
            assert there() == set()
            assert names(place.objects, "blobs/") == []


def test_file_that_arrives_after_its_run_was_purged_goes_too(place, clock, blobs):
    """It was let in before the tombstone."""
    place.send(PROJECT, "a", a_journal("one", PROJECT, "a"))
    remove(place, "a")
    late = content(blobs, b"late")
    tended(place.kept, clock)
    assert blobs.find(PROJECT, late) is None
    assert names(place.objects, "blobs/") == []


def test_purge_that_was_killed_after_its_tombstone_is_finished(place, clock, blobs, worker):
    own = content(blobs, b"own")
    position = place.send(PROJECT, "a", uploads(a_journal("one", PROJECT, "a"), own))
    until(lambda: worker.round() or place.positions.folded(PROJECT, "a") >= position)
    with place.databases.account.writing() as connection:  # what a purge does first
        grave = {"project": PROJECT, "run": "a", "t_ns": clock(), "who": "o"}
        connection.execute(account_tables.tombstone.insert(), grave)
    worker.tend(place.databases.store())
    assert place.kept.journals(PROJECT, "a") == {}
    assert place.positions.folded(PROJECT, "a") == 0
    tended(place.kept, clock)
    assert blobs.find(PROJECT, own) is None
    assert names(place.objects) == []


def test_everything_sent_to_a_purged_run_is_answered_410(team):
    data = b"a file"
    digest = hashlib.sha256(data).hexdigest()
    journal = a_journal("one", "team/x", "run0")
    requests = (
        ("GET", "journals", None),
        ("PUT", f"journals/{journal.file}?offset=0", journal.data),
        ("POST", "blobs", {"digests": [digest]}),
        ("PUT", f"blobs/{digest}?offset=0&size={len(data)}", data),
    )

    def statuses():
        return [
            ask(team.url, method, f"runs/team/x/run0/{path}", team.token, body).status
            for method, path, body in requests
        ]

    def changes(cursor=""):
        question = {"cursor": cursor, "project": "team/x"}
        return ask(team.url, "POST", "read/changes", team.token, question).json()["answer"]

    assert statuses() == [200, 200, 200, 200]
    until(lambda: not team.server.behind({("team/x", "run0"): journal.offset}))
    cursor = changes()["cursor"]
    for _ in range(2):
        assert ask(team.url, "DELETE", "runs/team/x/run0", team.token).status == 200
        assert statuses() == [410, 410, 410, 410]
    (gone,) = until(lambda: changes(cursor)["runs"])
    assert (gone["run"], gone["gone"]) == ("run0", True)
    assert ask(team.url, "DELETE", "runs/team/x/other", team.token).status == 404
