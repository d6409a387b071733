"""The tables of journals are made again from the objects alone."""

from __future__ import annotations

import random
import struct
import zlib
from itertools import pairwise

from keeping import PROJECT, RUN, journal, places

from seamark.server.kept import layout
from seamark.server.kept.caretaker import REST_NS
from seamark.server.kept.layout import REMOVE_NS
from seamark.server.kept.rebuild import needs_rebuild, rebuild

NEVER = lambda: False  # noqa: E731
LISTS = [
    *(b"[]", b"{}", b"not json", b'{"format":2,"shared":true,"parts":[]}'),
    b'{"format":1,"shared":true,"parts":[["../x","r","w.0",0,8,1,0,1]]}',
    *(b'{"format":1,"shared":true,"parts":%s}' % parts for parts in (b"[[1]]", b"7")),
]
"""What begins objects of somebody else, whose heads are as those of ours."""


def state(place):
    kept = place.kept()
    return {
        run: {
            name: (known, place.bytes_of(name, run.project, run.run))
            for name, known in kept.journals(run.project, run.run).items()
        }
        for run in kept.runs()
    }


def drop(place):
    layout.metadata.drop_all(place.database.engine)
    place.database.create_tables(layout.metadata)


def filled(place):
    chance, intake = random.Random(5), place.intake()
    for number in range(4):
        for name in ("a", "b"):
            made = journal(name, run=f"run{number}")
            made.data += bytes(64)
            at = made.ends[-1]
            ends = [0, *sorted(chance.sample(made.ends[:-1], 4)), at]
            for start, end in pairwise(ends):
                place.now += 1000
                intake.put(PROJECT, f"run{number}", made.file, start, made.data[start:end])
            if number % 2:
                intake.put(PROJECT, f"run{number}", made.file, at, gap=64)
    return state(place)


def test_tables_are_made_again_from_the_objects(place):
    """Sizes, positions, arrivals and bytes; also after compaction, twice, and with old objects."""
    before = filled(place)
    assert len(before) == 4
    for _ in range(3):
        drop(place)
        assert needs_rebuild(place.database, place.objects)
        found = rebuild(place.database, place.objects, gone=place.gone)
        assert not needs_rebuild(place.database, place.objects)
        assert (found.damaged, found.missing) == ([], [])
        assert state(place) == before
        place.now += REST_NS + 1
        place.caretaker().tend(NEVER)
    place.now += REMOVE_NS + 1
    place.caretaker().tend(NEVER)
    drop(place)
    rebuild(place.database, place.objects, gone=place.gone)
    assert state(place) == before
    made = journal("a", rows=14, run="run0")
    kept = place.intake().put(PROJECT, "run0", made.file, 0, made.data)
    assert kept.offset == made.offset


def test_damaged_missing_and_foreign_objects_are_named(place):
    intake, made = place.intake(), journal()
    ends = places(made)[::4]
    for start, end in pairwise(ends):
        intake.put(PROJECT, RUN, made.file, start, made.data[start:end])
    second = sorted(one.name for one in place.objects.listed("journals/"))[1]
    path = place.objects.folder / second
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # of its list
    path.write_bytes(data)
    foreign = ["journals/foreign", *(f"journals/x/0/{number}" for number in range(len(LISTS)))]
    place.objects.put(foreign[0], b"no object of ours")
    for name, listed in zip(foreign[1:], LISTS, strict=True):
        head = struct.pack("<8sII", b"\x89SMO\r\n\x1a\n", len(listed), zlib.crc32(listed))
        place.objects.put(name, head + listed)
    found = rebuild(place.database, place.objects, gone=place.gone)
    assert found.damaged == sorted([*foreign, second])
    assert found.missing == [(f"{PROJECT}/{RUN}", made.file, ends[1])]
    assert place.bytes_of(made.file) == made.data[: ends[1]]
    place.intake().put(PROJECT, RUN, made.file, ends[1], made.data[ends[1] :])
    assert place.bytes_of(made.file) == made.data
