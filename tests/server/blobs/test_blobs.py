"""Contents of files on the server, on both engines, without HTTP."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest

pytest.importorskip("fastapi")

from seamark.errors import ArgumentError
from seamark.server.blobs.blobs import ABANDONED_NS, RESERVED_NS, BlobLimits, Blobs
from seamark.server.blobs.tables import rebuild_blobs
from seamark.server.databases import open_databases
from seamark.server.failures import GapError, Rejected
from seamark.server.kept import layout as kept_tables
from seamark.server.objects import FolderObjects
from seamark.server.quota import Quota

HOUR_NS = 3600 * 10**9
CONTENT = bytes(range(256)) * 10
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
PART = 1000


@pytest.fixture
def objects(tmp_path):
    return FolderObjects(tmp_path / "objects")


@pytest.fixture
def databases(account_url):
    opened = open_databases(account_url)
    yield opened
    opened.close()


@pytest.fixture
def make(databases, objects, clock):
    """Make blobs on the same tables and objects, as another process would have them."""

    def one(quota=None, **limits):
        of_parts = BlobLimits(**{"part_bytes": PART, **limits})
        databases.kept.create_tables(kept_tables.metadata)
        room = Quota(databases.kept, quota, keep_s=0)
        return Blobs(databases.kept, objects, of_parts, clock, room)

    return one


@pytest.fixture
def blobs(make):
    return make()


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


# ---------------------------------------------------------------------- what is wrong


def test_what_has_another_digest_is_not_kept(blobs, objects, clock):
    """Neither in one part nor in several; nothing of it stays, and the right bytes may follow."""
    with pytest.raises(Rejected, match="is not the content"):
        blobs.put("p", "r", DIGEST, 3, 0, b"no!")
    wrong = CONTENT[:-1] + b"!"
    *first, last = range(0, SIZE, PART)
    for offset in first:
        blobs.put("p", "r", DIGEST, SIZE, offset, wrong[offset : offset + PART])
    with pytest.raises(Rejected, match="is not the content"):
        blobs.put("p", "r", DIGEST, SIZE, last, wrong[last:])
    assert read(blobs) is None
    assert blobs.progress("p", DIGEST).offset == 0
    clock.now += 2 * HOUR_NS
    blobs.collect()
    assert left(objects) == []
    send(blobs)
    assert read(blobs) == CONTENT


def test_a_hole_is_refused_and_says_where_to_go_on(blobs):
    blobs.put("p", "r", DIGEST, SIZE, 0, CONTENT[:PART])
    with pytest.raises(GapError) as refused:
        blobs.put("p", "r", DIGEST, SIZE, PART + 1, CONTENT[PART + 1 : PART + 5])
    assert refused.value.known == PART


def test_a_part_that_does_not_fit_is_refused(blobs):
    for size, offset, data, words in (
        (10, 8, b"long", "expected a part of 10 bytes"),
        (10, -1, b"x", "expected a part of 10 bytes"),
        (5000, 0, b"x" * (PART + 1), "send parts of at most"),
        (1 << 50, 0, b"x", "takes files of up to"),
    ):
        with pytest.raises((ArgumentError, Rejected), match=words):
            blobs.put("p", "r", DIGEST, size, offset, data)
    assert blobs.progress("p", DIGEST).offset == 0
    for digest in ("", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"):
        for call in (
            lambda digest=digest: blobs.missing("p", "r", [digest]),
            lambda digest=digest: blobs.find("p", digest),
            lambda digest=digest: blobs.progress("p", digest),
            lambda digest=digest: blobs.put("p", "r", digest, 1, 0, b"x"),
        ):
            with pytest.raises(ArgumentError):
                call()


def test_a_workspace_has_a_quota(make):
    """All its projects together; what is on its way counts, and what was purged does not."""
    blobs = make(SIZE + 10)
    blobs.put("p/one", "r", DIGEST, SIZE, 0, CONTENT[:PART])
    with pytest.raises(Rejected, match="purge runs that nobody needs"):
        send(blobs, b"eleven bytes", project="p/two")
    send(blobs, project="p/one")
    send(blobs, b"ten bytes.", project="p")
    for project in ("p", "p/one", "p/three/four"):
        with pytest.raises(Rejected, match=f"has {SIZE + 10:,}"):
            send(blobs, b"!", project=project)
    send(blobs, project="p/one")  # it is there
    for project in ("q", "p0", "p-one"):
        send(blobs, b"another.", project=project)
    blobs.forget_run("p", "r")
    send(blobs, b"ten others", project="p/two")


# ---------------------------------------------------------------------- taking


def test_what_is_sent_comes_back(blobs, objects):
    """Whole and in part, however many parts it came in; one part is one object."""
    for content in (b"", b"x", CONTENT[:PART], CONTENT):
        before, digest = len(left(objects)), send(blobs, content)
        assert len(content) > PART or len(left(objects)) == before + 1
        assert read(blobs, "p", digest) == content
        assert read(blobs, "p", digest, 1, len(content) - 1) == content[1 : len(content) - 1]
        assert read(blobs, "p", digest, PART - 3, PART + 3) == content[PART - 3 : PART + 3]
        assert blobs.missing("p", "r", [digest]) == []


def test_an_upload_goes_on_in_another_process(make):
    """Also where the last answer was lost: an empty part at the end completes it."""
    first = make()
    for offset in (0, PART):
        first.put("p", "r", DIGEST, SIZE, offset, CONTENT[offset : offset + PART])
    second = make()
    assert second.progress("p", DIGEST, SIZE).offset == 2 * PART
    done = second.put("p", "r", DIGEST, SIZE, 2 * PART, CONTENT[2 * PART :])
    assert done.complete
    assert first.put("p", "r", DIGEST, SIZE, SIZE, b"").complete
    assert read(first) == CONTENT


def test_parts_that_overlap_or_come_again_change_nothing(blobs, objects):
    for start, end in [(0, 700), (0, 700), (300, 1200), (0, 200), (1200, 2000), (1900, SIZE)]:
        done = blobs.put("p", "r", DIGEST, SIZE, start, CONTENT[start:end])
    assert done.complete
    assert blobs.put("p", "r", DIGEST, SIZE, 0, CONTENT[:PART]).complete
    assert read(blobs) == CONTENT


def test_many_send_the_same_at_once(make):
    """Each in its own process; all are told that it is there, and it is there once."""
    senders = [make() for _ in range(4)]
    told: list[Any] = []

    def work(blobs):
        offset = 0
        while True:
            try:
                part = CONTENT[offset : offset + PART // 3]
                done = blobs.put("p", "r", DIGEST, SIZE, offset, part)
            except GapError as gap:
                offset = gap.known
                continue
            except Exception as error:  # noqa: BLE001 - seen below
                told.append(error)
                return
            if done.complete:
                told.append(done)
                return
            offset = done.offset

    threads = [threading.Thread(target=work, args=(one,)) for one in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [getattr(one, "complete", one) for one in told] == [True] * 4
    assert read(senders[0]) == CONTENT


# ---------------------------------------------------------------------- leaving


def test_what_another_run_needs_stays(blobs, clock):
    """A purge lets go of what no other run of the project has asked for or sent."""
    send(blobs, run="a")
    other = send(blobs, b"only a needs this", run="a")
    assert blobs.missing("p", "b", [DIGEST]) == []
    blobs.forget_run("p", "a")
    clock.now += RESERVED_NS + HOUR_NS
    assert blobs.collect() == 1
    assert read(blobs) == CONTENT
    assert blobs.find("p", other) is None
    blobs.forget_run("p", "b")
    assert blobs.collect() == 1
    assert read(blobs) is None


def test_who_was_told_that_it_is_there_has_a_day(blobs, clock):
    """Somebody may be about to record what was there a moment ago."""
    send(blobs, run="a")
    clock.now += RESERVED_NS - HOUR_NS
    assert blobs.missing("p", "b", [DIGEST]) == []
    blobs.forget_run("p", "a")
    blobs.forget_run("p", "b")
    clock.now += RESERVED_NS - HOUR_NS
    assert blobs.collect() == 0
    assert read(blobs) == CONTENT
    clock.now += 2 * HOUR_NS
    assert blobs.collect() == 1
    assert read(blobs) is None


def test_whoever_reads_what_is_removed_reads_to_the_end(blobs, objects, clock):
    """Objects stay for an hour after the row is gone, then they are gone too."""
    send(blobs)
    found = blobs.find("p", DIGEST)
    blobs.forget_run("p", "r")
    assert blobs.collect(reserved=False) == 1
    assert b"".join(found.read()) == CONTENT
    clock.now += 2 * HOUR_NS
    blobs.collect()
    assert left(objects) == []


def test_an_upload_that_was_given_up_goes_after_a_day(blobs, objects, clock):
    blobs.put("p", "r", DIGEST, SIZE, 0, CONTENT[:PART])
    clock.now += ABANDONED_NS - HOUR_NS
    blobs.put("p", "r", DIGEST, SIZE, PART, CONTENT[PART : 2 * PART])
    clock.now += 2 * HOUR_NS
    assert blobs.collect() == 0
    clock.now += ABANDONED_NS
    assert blobs.collect() == 1
    clock.now += 2 * HOUR_NS
    blobs.collect()
    assert left(objects) == []
    with pytest.raises(GapError):
        blobs.put("p", "r", DIGEST, SIZE, 2 * PART, CONTENT[2 * PART :])
    send(blobs)
    assert read(blobs) == CONTENT


# ---------------------------------------------------------------------- from the objects alone


def test_the_tables_are_made_again_from_the_objects(blobs, objects, clock, tmp_path):
    """What was whole is there again, and is kept until it is known who needs it."""
    send(blobs)
    small = send(blobs, b"small")
    empty = send(blobs, b"", project="q/inner")
    blobs.put("p", "r", "0" * 64, SIZE, 0, CONTENT[:PART])  # on its way
    fresh = open_databases(f"sqlite:///{tmp_path}/fresh")
    try:
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
    finally:
        fresh.close()
