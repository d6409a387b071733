"""Objects that grow: what was acknowledged is found in them, whatever the tables have lost."""

from __future__ import annotations

import contextlib
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa
from keeping import PROJECT, RUN, Place, journal, places

from seamark.server.failures import Refusal
from seamark.server.kept import layout
from seamark.server.kept.caretaker import REST_NS
from seamark.server.kept.commit import GROWN_BYTES, SMALL_BYTES, take_up
from seamark.server.kept.layout import REMOVE_NS
from seamark.server.kept.plan import FullError
from seamark.server.kept.rebuild import rebuild

pytestmark = pytest.mark.parametrize("account_url", ["sqlite"], indirect=True)
NEVER = lambda: False  # noqa: E731


def found(place):
    return take_up(place.database, place.objects, gone=place.gone, now_ns=place.now_ns)


def states(place):
    with place.database.reading() as connection:
        return [row[0] for row in connection.execute(sa.select(layout.objects.c.state))]


def put_all(place, made, first=0, last=None, intake=None):
    intake = intake or place.intake(grows=True)
    for start, end in list(pairwise(places(made)))[first:last]:
        intake.put(PROJECT, made.header["run"], made.file, start, made.data[start:end])


def wal(place):
    return Path(place.url.removeprefix("sqlite:///"), "kept.db-wal")


@contextlib.contextmanager
def without_power(place, folder, keep):
    """Give a copy of a place after a loss of power that left `keep` bytes of SQLite's log."""
    shutil.copytree(place.folder, folder / "objects")
    shutil.copytree(wal(place).parent, folder / "databases", ignore=lambda *_: ["kept.db-shm"])
    os.truncate(folder / "databases" / "kept.db-wal", keep)
    with contextlib.closing(Place(f"sqlite:///{folder / 'databases'}", folder / "objects")) as made:
        yield made


def test_batches_share_an_object_and_large_ones_have_their_own(place):
    made = journal(rows=40)
    intake = place.intake(grows=True)
    put_all(place, made, intake=intake)
    assert states(place) == [layout.GROWING]
    assert place.bytes_of(made.file) == made.data
    large = journal("large", rows=1)
    large.op("assign", atoms={"x": ["string", "x" * SMALL_BYTES]})
    intake.put(PROJECT, RUN, large.file, 0, large.data)
    assert sorted(states(place)) == [layout.LIVE, layout.GROWING]
    intake.close()
    assert states(place) == [layout.LIVE, layout.LIVE]
    sizes = [each.size for each in place.objects.listed("journals/")]
    assert max(sizes) < GROWN_BYTES
    place.now += REST_NS + 1
    place.caretaker().tend(NEVER)  # its own objects, in the place of both
    place.now += REMOVE_NS + 1
    place.caretaker().tend(NEVER)
    assert place.bytes_of(made.file) == made.data
    assert place.bytes_of(large.file) == large.data


@pytest.mark.parametrize("lost", [1, 30_000, 1 << 30])
def test_loss_of_power_takes_rows_and_no_bytes(place, tmp_path, lost):
    """Whatever SQLite had not forced yet, the object has; but a run that was purged stays away."""
    made, other = journal(rows=60), journal("two", rows=9, run="run2")
    purged = journal("three", run="run3")
    intake = place.intake(grows=True)
    put_all(place, made, 0, 1, intake)  # with its object's own row, which is forced
    least = wal(place).stat().st_size
    put_all(place, made, 1, None, intake)
    put_all(place, other, intake=intake)
    keep = max(least, wal(place).stat().st_size - lost)
    put_all(place, purged, intake=intake)
    with without_power(place, tmp_path / "after", keep) as after:
        if lost > 1 << 20:
            assert len(after.bytes_of(made.file)) < len(made.data)
        after.purged.add((PROJECT, "run3"))
        found(after)
        assert after.bytes_of(made.file) == made.data
        assert after.bytes_of(other.file, run="run2") == other.data
        assert after.bytes_of(purged.file, run="run3") == b""
        assert layout.GROWING not in states(after)
        assert found(after) == 0
        intake = after.intake(grows=True)
        assert intake.known(PROJECT, RUN) == ({made.file: made.offset}, made.offset)
        made.row({"a": 1.0}, 100)
        intake.put(PROJECT, RUN, made.file, 0, made.data)
        assert after.bytes_of(made.file) == made.data


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_torn_end_is_passed_over(place, cut):
    """It was not acknowledged: the list of it, or its bytes, did not get to the disk."""
    made = journal(rows=20)
    put_all(place, made, 0, 19)
    (name,) = (one.name for one in place.objects.listed("journals/"))
    path = place.folder / name
    before = path.read_bytes()
    put_all(place, made, 19, 20)  # another process, whose object is set aside
    (other,) = {one.name for one in place.objects.listed("journals/")} - {name}
    more = (place.folder / other).read_bytes().rstrip(b"\0")
    end = len(before.rstrip(b"\0"))
    end += -end % 8  # frames end with what may be zeros; sections with frames
    torn = before[:end] + more[:-cut] + bytes(len(before) - end - len(more) + cut)
    path.write_bytes(torn)
    with place.database.writing() as connection:
        for table in (layout.segments, layout.journals, layout.runs):
            connection.execute(sa.delete(table))
        connection.execute(sa.delete(layout.objects).where(layout.objects.c.name == other))
    (place.folder / other).unlink()
    assert found(place) == places(made)[19]
    assert place.bytes_of(made.file) == made.data[: places(made)[19]]
    assert path.stat().st_size <= end + 8
    rebuild(place.database, place.objects, gone=place.gone)
    assert place.bytes_of(made.file) == made.data[: places(made)[19]]


@pytest.mark.parametrize(
    ("damage", "told"),
    [(Path.unlink, "is missing"), (lambda it: it.write_bytes(b"x"), "cannot read")],
)
def test_damaged_object_is_told(place, caplog, damage, told):
    put_all(place, journal())
    (name,) = (one.name for one in place.objects.listed("journals/"))
    damage(place.folder / name)
    assert found(place) == 0
    assert told in caplog.text


def no_room(*_, **__):
    raise OSError("database or disk is full")


def test_disk_that_fails_is_told_and_another_object_is_begun(place):
    """Nothing that was not acknowledged is kept, and the same is taken once there is room."""
    refuses, grow = [], place.objects.grow

    def growing(name, size):
        made = grow(name, size)
        add = made.add
        made.add = lambda *parts: no_room() if refuses else add(*parts)
        return made

    place.objects.grow = growing
    made, intake = journal(rows=20), place.intake(grows=True)
    end = places(made)[9]
    intake.put(PROJECT, RUN, made.file, 0, made.data[:end])
    refuses.append(True)
    with pytest.raises(FullError):
        intake.put(PROJECT, RUN, made.file, end, made.data[end:])
    refuses.clear()
    assert place.bytes_of(made.file) == made.data[:end]
    intake.put(PROJECT, RUN, made.file, end, made.data[end:])
    intake.close()
    found(place)
    assert place.bytes_of(made.file) == made.data


def test_refused_batch_does_not_come_before_acknowledged_ones(place, tmp_path, monkeypatch):
    """Its bytes are in an older object; then the power is lost, and the rows of the newer one."""
    made = journal(rows=20)
    intake, ends = place.intake(grows=True), places(made)
    intake.put(PROJECT, RUN, made.file, 0, made.data[: ends[4]])
    refused = made.data[ends[4] : ends[9]]
    with monkeypatch.context() as patch:
        patch.setattr("seamark.server.kept.intake.commit", no_room)
        with pytest.raises(FullError):
            intake.put(PROJECT, RUN, made.file, ends[4], refused)
    again = journal(rows=4)
    for step in range(30):
        again.row({"other": 1.0 + step}, step)
    assert again.data[: ends[4]] == made.data[: ends[4]]
    taken = [end for end in again.ends if end > ends[4]]
    intake._growing.open(1)  # as the next batch does: its row is forced
    least = wal(place).stat().st_size
    intake.put(PROJECT, RUN, made.file, ends[4], again.data[ends[4] : taken[0]])
    intake.put(PROJECT, RUN, made.file, taken[0], again.data[taken[0] : taken[1]])
    with without_power(place, tmp_path / "after", least) as after:
        found(after)
        assert after.bytes_of(made.file) == again.data[: taken[1]]
        assert layout.GROWING not in states(after)


def test_purged_bytes_leave_the_disk_though_a_batch_came_too_late(place):
    """The object that they share with others is not set aside for a batch that lost the race."""
    made, other, late = journal(rows=20), journal("two", run="run2"), journal("three", run="run3")
    intake, ends = place.intake(grows=True), places(made)
    put_all(place, other, intake=intake)
    intake.put(PROJECT, RUN, made.file, 0, made.data[: ends[9]])
    place.kept().forget(PROJECT, RUN)
    with pytest.raises(Refusal, match="was purged"):
        intake.put(PROJECT, RUN, made.file, ends[9], made.data[ends[9] :])
    place.now += 700 * 10**9
    put_all(place, late, intake=intake)
    for _ in range(3):
        place.now += REMOVE_NS + 1
        place.caretaker().tend(NEVER)
    kept = [(place.folder / one.name).read_bytes() for one in place.objects.listed("journals/")]
    assert not any(made.data[: ends[1]] in each for each in kept)
    assert states(place).count(layout.GROWING) == 1
    assert place.bytes_of(other.file, run="run2") == other.data
