"""What is taken of journals, in which order and how often it comes, by how many workers."""

from __future__ import annotations

import resource
from itertools import pairwise

import pytest
from journal_builder import START, JournalBuilder
from keeping import PROJECT, RUN, at_once, journal, places

from seamark.errors import PathError
from seamark.journal.format import Kind, frame_bytes, salt_of
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import GAP_BYTES
from seamark.journal.walk import walk
from seamark.server.failures import Rejected
from seamark.server.kept.intake import AHEAD_NS
from seamark.server.kept.plan import (
    DivergedError,
    FullError,
)


def test_what_a_worker_remembers_is_only_believed_as_long_as_it_is_true(place):
    """Who goes on where they ended is not looked up; others and a purge are noticed."""
    one, two, made = place.intake(), place.intake(), journal()
    ends = places(made)
    for number, (start, end) in enumerate(pairwise(ends[:8])):
        worker = (one, one, two)[number % 3]
        kept = worker.put(PROJECT, RUN, made.file, start, made.data[start:end])
        assert (kept.offset, kept.position) == (end, end)
    other = journal("other", rows=1)
    beside = two.put(PROJECT, RUN, other.file, 0, other.data)
    last = one.put(PROJECT, RUN, made.file, ends[7], made.data[ends[7] : ends[8]])
    assert (beside.position, last.position) == (ends[7] + other.offset, ends[8] + other.offset)
    two.put(PROJECT, RUN, made.file, ends[8], made.data[ends[8] : ends[9]])
    forged = frame_bytes(salt_of(made.uid), Kind.HEARTBEAT, made.t + 1, b"")
    with pytest.raises(DivergedError):
        one.put(PROJECT, RUN, made.file, ends[8], forged)
    assert one.put(PROJECT, RUN, made.file, ends[9], made.data[ends[9] :]).offset == made.offset
    assert place.bytes_of(made.file) == made.data
    place.kept().forget(PROJECT, RUN)
    with pytest.raises(Rejected, match="was purged here"):
        one.put(PROJECT, RUN, made.file, made.offset, gap=64)


def test_other_bytes_in_the_same_place_are_refused(place):
    """Whether they are shorter, longer, or a gap; nothing of what is kept changes."""
    intake, made = place.intake(), journal()
    other = JournalBuilder("one", project=PROJECT, run=RUN).assign(x=1)
    for step in range(12):
        other.row({"a": step, "c": 7.0}, step)
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    with pytest.raises(DivergedError) as raised:
        intake.put(PROJECT, RUN, made.file, 0, other.data)
    assert raised.value.more == {"known": made.offset}
    at = made.ends[3]
    with pytest.raises(DivergedError):
        intake.put(PROJECT, RUN, made.file, at, gap=made.ends[4] - at)
    intake.put(PROJECT, RUN, made.file, made.offset, gap=64)
    made.row({"a": 1.0}, 99)
    with pytest.raises(DivergedError):
        intake.put(PROJECT, RUN, made.file, made.ends[-3], made.data[made.ends[-3] :])
    assert place.bytes_of(made.file)[: made.ends[-4]] == made.data[: made.ends[-4]]


def test_gaps_are_declared_once(place):
    """The same gap again is nothing new; readers are told where it is."""
    intake, made = place.intake(), journal()
    at, end = made.ends[3], made.ends[4]
    intake.put(PROJECT, RUN, made.file, 0, made.data[:at])
    for _ in range(2):
        assert intake.put(PROJECT, RUN, made.file, at, gap=end - at).offset == end
    intake.put(PROJECT, RUN, made.file, end, made.data[end:])
    source = place.kept().source(PROJECT, RUN, made.file)
    assert source.pread(made.offset, 0) == made.data[:at] + bytes(end - at) + made.data[end:]
    assert [source.gap_end(each) for each in (0, at, at + 8, end)] == [None, end, end, None]


def test_many_at_once_are_kept_together(place):
    """Every sender is answered, and there are fewer objects than batches."""
    intake = place.intake(window_s=0.25)
    made = [journal(f"j{number}", run=f"run{number % 7}") for number in range(40)]
    intake.put(PROJECT, "warm", made[0].file, 0, journal("j0", run="warm").data)
    results = at_once(
        *(
            lambda each=each: intake.put(PROJECT, each.header["run"], each.file, 0, each.data)
            for each in made
        )
    )
    assert [result.offset for result in results] == [each.offset for each in made]
    for each in made:
        assert place.bytes_of(each.file, run=each.header["run"]) == each.data
    assert len([one.name for one in place.objects.listed("journals/")]) < len(made)


def test_two_workers_race_with_different_bytes(place):
    """One of a cloned machine's journals is kept, the other one is refused."""
    one, two = place.intake(), place.intake()
    made, other = journal(), JournalBuilder("one", project=PROJECT, run=RUN).assign(x=1)
    results = at_once(
        lambda: one.put(PROJECT, RUN, made.file, 0, made.data),
        lambda: two.put(PROJECT, RUN, made.file, 0, other.data),
    )
    kinds = {type(result).__name__ for result in results}
    assert kinds == {"Receipt", "DivergedError"}
    assert place.bytes_of(made.file) in (made.data, other.data)


def test_many_workers_and_runs_do_not_wait_for_each_other_for_ever(place):
    workers = [place.intake() for _ in range(3)]
    made = [journal("j", rows=3, run=f"run{number}") for number in range(8)]
    calls = [
        lambda worker=worker, each=each: worker.put(
            PROJECT, each.header["run"], each.file, 0, each.data
        )
        for worker in workers
        for each in made
    ]
    assert all(result.offset == made[0].offset for result in at_once(*calls))


NAMES = [
    *((project, RUN) for project in ("../x", "", "a//b", "a/journal")),
    ("/".join(["a"] * 33), RUN),
    ("/".join(["a" * 100] * 11), RUN),
    *((PROJECT, run) for run in ("..", ".trash", "a/b", "")),
]


def test_names_that_lead_elsewhere_are_refused(place):
    """No object is ever named by what somebody sent, and no row either."""
    intake = place.intake()
    for project, run in NAMES:
        made = journal(project=project, run=run)
        with pytest.raises(PathError):
            intake.put(project, run, made.file, 0, made.data)
        with pytest.raises(PathError):
            intake.known(project, run)


def test_a_purged_run_is_not_taken_back(place):
    """Neither where the tables know it nor where only the tombstone does."""
    intake, made, new = place.intake(), journal(), journal(run="run2")
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    place.kept().forget(PROJECT, RUN)
    place.purged.add((PROJECT, "run2"))
    for each in (made, new):
        run = each.header["run"]
        with pytest.raises(Rejected, match="was purged here"):
            intake.put(PROJECT, run, each.file, 0, each.data)
        with pytest.raises(Rejected, match="was purged here"):
            intake.known(PROJECT, run)
    assert place.kept().journals(PROJECT, RUN) == {}
    assert list(place.kept().runs()) == []
    assert place.kept().unfolded(10) == []


def test_a_run_has_only_so_many_journals(place):
    """Also where they come in one group, or to two workers; those that it has go on."""
    workers = [place.intake(most_journals=5, window_s=0.25) for _ in range(2)]
    made = [journal(f"j{number}", rows=1) for number in range(20)]
    results = at_once(
        *(
            lambda number=number, each=each: workers[number % 2].put(
                PROJECT, RUN, each.file, 0, each.data[: each.ends[1]]
            )
            for number, each in enumerate(made)
        )
    )
    refused = [result for result in results if isinstance(result, Rejected)]
    assert {one.slug for one in refused} == {"too-large"}
    assert len(refused) == 15
    known = place.kept().journals(PROJECT, RUN)
    assert len(known) == 5
    (one, *_) = (each for each in made if each.file in known)
    assert workers[0].put(PROJECT, RUN, one.file, 0, one.data).offset == one.offset
    other = journal("c", run="run2")
    workers[0].put(PROJECT, "run2", other.file, 0, other.data)


def test_a_client_in_the_future_is_accepted_and_marked(place):
    import sqlalchemy as sa

    from seamark.server.kept import layout

    intake, made = place.intake(), journal()
    place.now = START - 2 * AHEAD_NS
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    with place.database.reading() as connection:
        row = connection.execute(
            sa.select(layout.journals.c.ahead_ns, layout.journals.c.heard_ns)
        ).one()
    assert row == (made.t - place.now, place.now)
    assert place.kept().journals(PROJECT, RUN)[made.file] == (made.offset, place.now)


def test_what_was_accepted_is_kept_when_it_is_closed(place):
    """A server that stops finishes what it took, and takes nothing more."""
    intake, made = place.intake(window_s=0.25), journal()
    intake.put(PROJECT, RUN, made.file, 0, made.data[: made.ends[3]])
    future = intake.submit(PROJECT, RUN, made.file, 0, made.data)
    intake.close()
    assert future.result(0).offset == made.offset
    assert place.bytes_of(made.file) == made.data
    with pytest.raises(FullError):
        intake.put(PROJECT, RUN, made.file, 0, made.data)
    intake.close()


def test_a_full_disk_is_said_and_passes(place, tmp_path):
    """Nothing is acknowledged that could not be written; later the same is taken."""
    intake, made = place.intake(), journal()
    folder = place.objects.folder
    away = tmp_path / "away"
    folder.rename(away)
    folder.write_bytes(b"")  # no object can be written here
    with pytest.raises(FullError) as raised:
        intake.put(PROJECT, RUN, made.file, 0, made.data)
    assert raised.value.wait_s
    folder.unlink()
    away.rename(folder)
    assert intake.put(PROJECT, RUN, made.file, 0, made.data).offset == made.offset
    assert place.bytes_of(made.file) == made.data


def test_runs_that_wait_to_be_folded_are_told_in_their_order(place):
    intake, kept = place.intake(), place.kept()
    made = [journal(run=f"run{number}") for number in range(3)]
    for each in reversed(made):
        place.now += 1
        intake.put(PROJECT, each.header["run"], each.file, 0, each.data[: each.ends[4]])
    place.now += 1
    intake.put(PROJECT, "run2", made[2].file, 0, made[2].data)
    assert [run.run for run in kept.unfolded(10)] == ["run2", "run1", "run0"]
    assert [run.run for run in kept.unfolded(2)] == ["run2", "run1"]
    kept.note(PROJECT, "run2", made[2].ends[4])  # more is kept by now
    kept.note(PROJECT, "run1", made[1].ends[4])
    assert [run.run for run in kept.unfolded(10)] == ["run2", "run0"]
    assert [(run.run, run.position) for run in kept.runs()] == [
        ("run0", made[0].ends[4]),
        ("run1", made[1].ends[4]),
        ("run2", made[2].offset),
    ]


@pytest.mark.once
def test_a_long_gap_costs_no_memory(place):
    """Somebody may declare gigabytes: they are passed over, and shown as one gap."""
    intake, made = place.intake(window_s=0), journal(rows=5)
    end = made.ends[3]
    intake.put(PROJECT, RUN, made.file, 0, made.data[:end])
    at = end
    for _ in range(8):
        at = intake.put(PROJECT, RUN, made.file, at, gap=GAP_BYTES).offset
    intake.put(PROJECT, RUN, made.file, at, made.data[end:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with JournalReader(place.kept().source(PROJECT, RUN, made.file), walk=walk) as reader:
        assert len(list(reader.frames())) == len(made.ends)
        assert reader.gaps == [(end, 8 * GAP_BYTES)]
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 3 * GAP_BYTES / 1024  # KiB
