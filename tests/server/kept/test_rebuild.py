"""The tables of journals are made again from the objects alone."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise

from keeping import PROJECT, RUN, journal, places

from seamark.server.kept.rebuild import rebuild

LISTS = [
    *(b"[]", b"{}", b"not json", b'{"format":2,"shared":true,"parts":[]}'),
    b'{"format":1,"shared":true,"parts":[["../x","r","w.0",0,8,1,0,1]]}',
    *(b'{"format":1,"shared":true,"parts":%s}' % parts for parts in (b"[[1]]", b"7")),
]
"""What begins objects of somebody else, whose heads are as those of ours."""


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
