"""Compaction, rewriting and collection lose nothing, whoever dies or is late."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from keeping import PROJECT, RUN, Meddling, at_once, died, journal, places

from seamark.server.kept import layout
from seamark.server.kept.caretaker import ORPHAN_NS, REST_NS
from seamark.server.kept.layout import REMOVE_NS
from seamark.server.kept.plan import FullError
from seamark.server.kept.rebuild import rebuild

NEVER = lambda: False  # noqa: E731


def fill(place):
    """Keep two journals of each of three runs, whose batches share objects; return them."""
    intake = place.intake(window_s=0.25)
    made = [journal(f"j{n % 2}", 4, run=f"run{n // 2}") for n in range(6)]
    for index in range(4):
        calls = []
        for each in made:
            start, end = places(each)[index : index + 2]
            data = each.data[start:end]
            calls.append(partial(intake.put, PROJECT, each.header["run"], each.file, start, data))
        at_once(*calls)
    for each in made:
        intake.put(PROJECT, each.header["run"], each.file, 0, each.data)
    return made


def check(place, made):
    for each in made:
        assert place.bytes_of(each.file, run=each.header["run"]) == each.data


def names(place):
    return sorted(one.name for one in place.objects.listed("journals/"))


def rows_of(place, table):
    with place.database.reading() as connection:
        return connection.execute(sa.select(table)).all()


def test_run_at_rest_gets_an_object_of_its_own(place):
    """The shared ones are removed a day later; who reads from them goes on."""
    made = fill(place)
    gap = made[0]
    place.intake().put(PROJECT, "run0", gap.file, gap.offset, gap=64)
    gap.data += bytes(64)
    source = place.kept().source(PROJECT, "run0", gap.file)
    before, caretaker = names(place), place.caretaker()
    caretaker.tend(NEVER)
    assert names(place) == before
    place.now += REST_NS + 1
    both = (caretaker, place.caretaker())  # two may compact the same
    assert at_once(*(partial(each.compact, NEVER) for each in both)) == [None, None]
    assert set(names(place)) == {row.name for row in rows_of(place, layout.objects)}
    caretaker.tend(NEVER)
    assert source.pread(source.size(), 0) == gap.data
    after = set(names(place)) - set(before)
    assert len(after) == 3
    assert len(rows_of(place, layout.segments)) == 7
    check(place, made)
    caretaker.tend(NEVER)
    assert set(before) <= set(names(place))
    place.now += REMOVE_NS + 1
    for _ in range(2):
        caretaker.tend(NEVER)
    assert set(names(place)) == after
    check(place, made)
    assert {row.name for row in rows_of(place, layout.objects)} == after
    assert all(row.loose == 0 for row in rows_of(place, layout.runs))


def test_damaged_object_is_not_copied_into_one_that_looks_whole(place, caplog):
    made = journal()
    place.intake().put(PROJECT, RUN, made.file, 0, made.data)
    (name,) = names(place)
    path = place.objects.folder / name
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    place.now += REST_NS + 1
    place.caretaker().tend(NEVER)
    assert names(place) == [name]
    assert "cannot compact" in caplog.text


def age(place, name):
    then = (place.now - ORPHAN_NS) / 1e9 - 10
    os.utime(Path(place.objects.folder, name), (then, then))


def test_object_that_nobody_named_is_removed_once_its_bytes_are_kept_elsewhere(place):
    made, kept = journal(), journal("two")
    place.intake().put(PROJECT, RUN, kept.file, 0, kept.data)
    before = set(names(place))
    with pytest.raises(FullError):
        place.intake(Meddling(place.objects, died)).put(PROJECT, RUN, made.file, 0, made.data)
    (orphan,) = set(names(place)) - before
    caretaker = place.caretaker()
    then, place.now = place.now, time.time_ns()
    caretaker.claim_orphans(NEVER)  # what is young may be named yet
    assert len(rows_of(place, layout.objects)) == 1
    place.now = then
    for name in names(place):
        age(place, name)
    caretaker.claim_orphans(NEVER)
    place.now += REMOVE_NS + 1
    caretaker.remove_due(NEVER)
    assert orphan in names(place)  # whoever sent it may be gone
    place.intake().put(PROJECT, RUN, made.file, 0, made.data)
    caretaker.claim_orphans(NEVER)
    assert orphan in names(place)
    place.now += REMOVE_NS + 1
    caretaker.remove_due(NEVER)
    assert orphan not in names(place)
    check(place, [made, kept])


def test_tables_of_an_older_backup_lose_no_bytes(place):
    """What came after the backup is named by no row, and is kept until it is taken up again."""
    intake, before, after = place.intake(), journal(), journal("two")
    intake.put(PROJECT, RUN, before.file, 0, before.data)
    backup = {each: rows_of(place, each) for each in layout.metadata.sorted_tables}
    purged = journal("gone", run="run9")
    intake.put(PROJECT, RUN, after.file, 0, after.data)
    intake.put(PROJECT, "run9", purged.file, 0, purged.data)
    place.purged.add((PROJECT, "run9"))
    with place.database.writing() as connection:
        for table, rows in backup.items():
            connection.execute(sa.delete(table))
            if rows:
                connection.execute(sa.insert(table), [row._asdict() for row in rows])
    caretaker = place.caretaker()

    def tend():
        for name in names(place):
            age(place, name)
        caretaker.claim_orphans(NEVER)
        place.now += REMOVE_NS + 1
        caretaker.remove_due(NEVER)

    tend()
    assert len(names(place)) == 3
    rebuild(place.database, place.objects, gone=place.gone)
    check(place, [before, after])
    tend()  # what was purged is known as such again, and goes
    assert len(names(place)) == 2
    check(place, [before, after])


@pytest.mark.parametrize("removed", [False, True])
def test_commit_that_comes_late_fails_and_is_done_again(place, *, removed):
    """The caretaker is held up so long that its object counts as nobody's."""
    made = journal()
    place.intake().put(PROJECT, RUN, made.file, 0, made.data)
    (before,) = names(place)
    place.now += REST_NS + 1
    claimed: list[str] = []

    def held_up(name):
        if not claimed:
            age(place, name)
            place.caretaker().claim_orphans(NEVER)
            claimed.append(name)
            if removed:
                place.now += REMOVE_NS + 1
                place.caretaker().remove_due(NEVER)

    def named():
        numbers = {row.object for row in rows_of(place, layout.segments)}
        return {row.name for row in rows_of(place, layout.objects) if row.number in numbers}

    slow = Meddling(place.objects, held_up)
    place.caretaker(slow).compact(NEVER)
    assert claimed
    assert named() == {before}
    check(place, [made])
    place.caretaker(slow).compact(NEVER)
    assert not named() & {before, *claimed}
    check(place, [made])


def test_purge_removes_the_bytes_of_a_run_and_no_others(place):
    made = fill(place)
    place.kept().forget(PROJECT, "run1")
    others = [each for each in made if each.header["run"] != "run1"]
    check(place, others)
    caretaker = place.caretaker()
    for _ in range(6):
        caretaker.rewrite(NEVER)
    place.now += REMOVE_NS + 1
    for _ in range(3):
        caretaker.remove_due(NEVER)
    check(place, others)
    everything = b"".join(place.objects.get(name) for name in names(place))
    for each in made:
        there = each.data in everything or each.data[100:200] in everything
        assert there is (each in others)
