"""Contents of files on the server, on both engines, without HTTP."""

from __future__ import annotations

import contextlib
import functools
import hashlib

import pytest
from keeping import at_once

from seamark.server.blobs.blobs import ABANDONED_NS, RESERVED_NS, BlobLimits, Blobs
from seamark.server.blobs.tables import rebuild_blobs
from seamark.server.databases import open_databases
from seamark.server.failures import GapError, Refusal
from seamark.server.kept import layout as kept_tables
from seamark.server.objects import FolderObjects

HOUR_NS = 3600 * 10**9
CONTENT = bytes(range(256)) * 10
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
PART = 1000


@pytest.fixture
def objects(tmp_path):
    return FolderObjects(tmp_path / "objects")


@pytest.fixture
def make(account_url, objects, clock):
    """Make blobs on the same tables and objects, as another process would have them."""

    def one():
        opened.kept.create_tables(kept_tables.metadata)
        return Blobs(opened.kept, objects, BlobLimits(part_bytes=PART), clock)

    with contextlib.closing(open_databases(account_url)) as opened:
        yield one


@pytest.fixture
def blobs(make):
    return make()


def put(blobs, start, end=None, content=CONTENT):
    return blobs.put("p", "r", DIGEST, SIZE, start, content[start : end or start + PART])


def send(blobs, content=CONTENT, project="p", run="r"):
    digest = hashlib.sha256(content).hexdigest()
    for offset in range(0, max(1, len(content)), PART):
        part = content[offset : offset + PART]
        blobs.put(project, run, digest, len(content), offset, part)
    return digest


def read(blobs, project="p", digest=DIGEST, *where):
    found = blobs.find(project, digest)
    return None if found is None else b"".join(found.read(*where))


def left(objects):
    return [one.name for one in objects.listed("blobs/")]


def test_sent_parts_come_back_whole_and_in_ranges(make, objects):
    """Though they overlap, come again or to another process; not if they leave a hole."""
    blobs, other = make(), make()
    for content in (b"", b"x", CONTENT[:PART]):  # one part is one object
        before, digest = len(left(objects)), send(blobs, content)
        assert len(left(objects)) == before + 1
        assert read(blobs, "p", digest) == content
        assert blobs.missing("p", "r", [digest]) == []
    for start, end in [(0, 700), (0, 700), (300, 1200), (0, 200), (1200, 2000)]:
        put(blobs, start, end)
    with pytest.raises(GapError) as refused:
        put(blobs, 2001, 2005)
    assert refused.value.more["known"] == 2000
    with pytest.raises(Refusal, match="expected a part of at most"):
        put(blobs, 0, PART + 1)
    assert other.progress("p", DIGEST, SIZE).offset == 2000
    assert put(other, 1900, SIZE).complete
    # The answer may have been lost: an empty part at the end completes it, and any other.
    assert blobs.put("p", "r", DIGEST, SIZE, SIZE, b"").complete
    assert put(blobs, 0).complete
    assert read(blobs) == CONTENT
    for start, end in ((1, SIZE - 1), (PART - 3, PART + 3)):
        assert read(blobs, "p", DIGEST, start, end) == CONTENT[start:end]


def test_content_that_many_send_at_once_is_there_once(make):
    senders = [make() for _ in range(4)]

    def work(blobs):
        offset = 0
        while True:
            try:
                done = put(blobs, offset, offset + PART // 3)
            except GapError as gap:
                offset = gap.more["known"]
                continue
            if done.complete:
                return True
            offset = done.offset

    assert at_once(*(functools.partial(work, one) for one in senders)) == [True] * 4
    assert read(senders[0]) == CONTENT


def test_purge_leaves_what_another_run_sent_or_asked_for(blobs, objects, clock):
    send(blobs, run="a")
    alone = send(blobs, b"only a needs this", run="a")
    assert blobs.missing("p", "b", [DIGEST]) == []
    blobs.forget_run("p", "a")
    clock.now += RESERVED_NS + HOUR_NS
    assert blobs.collect() == 1
    assert read(blobs) == CONTENT
    assert blobs.find("p", alone) is None
    # Who was told a moment ago that it is there may be about to record it: it stays for a day.
    assert blobs.missing("p", "c", [DIGEST]) == []
    for run in ("b", "c"):
        blobs.forget_run("p", run)
    clock.now += RESERVED_NS - HOUR_NS
    assert blobs.collect() == 0
    found = blobs.find("p", DIGEST)
    clock.now += 2 * HOUR_NS
    assert blobs.collect() == 1
    assert read(blobs) is None
    # Whoever reads it meanwhile reads to the end: objects stay for another hour.
    assert b"".join(found.read()) == CONTENT
    clock.now += 2 * HOUR_NS
    blobs.collect()
    assert left(objects) == []
    send(blobs)
    blobs.forget_run("p", "r")
    clock.now += 25 * HOUR_NS
    assert blobs.collect() == 1


def test_upload_that_was_given_up_is_removed_after_a_day(blobs, objects, clock):
    put(blobs, 0)
    clock.now += ABANDONED_NS - HOUR_NS
    put(blobs, PART)
    clock.now += 2 * HOUR_NS
    assert blobs.collect() == 0
    clock.now += ABANDONED_NS
    assert blobs.collect() == 1
    clock.now += 2 * HOUR_NS
    blobs.collect()
    assert left(objects) == []
    with pytest.raises(GapError):
        put(blobs, 2 * PART)
    send(blobs)
    assert read(blobs) == CONTENT


def test_tables_are_made_again_from_the_objects(blobs, objects, clock, tmp_path):
    """What was whole is there again, and is kept until it is known who needs it."""
    send(blobs)
    small = send(blobs, b"small")
    empty = send(blobs, b"", project="q/inner")
    blobs.put("p", "r", "0" * 64, SIZE, 0, CONTENT[:PART])  # on its way
    with contextlib.closing(open_databases(f"sqlite:///{tmp_path}/fresh")) as fresh:
        assert rebuild_blobs(fresh.kept, objects, clock()) == 3
        assert rebuild_blobs(fresh.kept, objects, clock()) == 0
        again = Blobs(fresh.kept, objects, BlobLimits(), clock)
        assert read(again) == CONTENT
        assert read(again, "p", small) == b"small"
        assert read(again, "q/inner", empty) == b""
        assert again.find("q", small) is None
        clock.now += 3 * RESERVED_NS
        assert again.collect() == 0
        assert read(again) == CONTENT
