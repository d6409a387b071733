"""What is taken of journals, in which order and how often it comes, by how many workers."""

from __future__ import annotations

import resource
from itertools import pairwise

import pytest
import sqlalchemy as sa
from journal_builder import START, JournalBuilder
from keeping import PROJECT, RUN, at_once, journal, places

from seamark.errors import PathError
from seamark.journal.format import Kind, frame_bytes, salt_of
from seamark.journal.frames import walk
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import GAP_BYTES
from seamark.server.failures import Refusal
from seamark.server.kept import layout
from seamark.server.kept.intake import AHEAD_NS
from seamark.server.kept.plan import DivergedError, FullError


def test_worker_notices_what_others_kept_or_purged(place):
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
    with pytest.raises(Refusal, match="was purged on this server"):
        one.put(PROJECT, RUN, made.file, made.offset, gap=64)


def test_other_bytes_in_the_same_place_are_refused(place):
    """Whether they are shorter, longer, or a gap; and of two that race, one is kept."""
    intake, made = place.intake(), journal()
    other = JournalBuilder("one", project=PROJECT, run=RUN).assign(x=1)
    for step in range(12):
        other.row({"a": step, "c": 7.0}, step)
    raced = JournalBuilder("one", project=PROJECT, run="race").assign(x=1)
    results = at_once(
        lambda: place.intake().put(PROJECT, "race", made.file, 0, journal(run="race").data),
        lambda: intake.put(PROJECT, "race", made.file, 0, raced.data),
    )
    assert {type(result).__name__ for result in results} == {"Sent", "DivergedError"}
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    with pytest.raises(DivergedError) as raised:
        intake.put(PROJECT, RUN, made.file, 0, other.data)
    assert raised.value.more == {"known": made.offset}
    at = made.ends[3]
    with pytest.raises(DivergedError):
        intake.put(PROJECT, RUN, made.file, at, gap=made.ends[4] - at)
    for _ in range(2):  # the same gap again is nothing new
        assert intake.put(PROJECT, RUN, made.file, made.offset, gap=64).offset == made.offset + 64
    source = place.kept().source(PROJECT, RUN, made.file)
    end = made.offset
    assert source.pread(end + 64, 0) == made.data + bytes(64)
    assert [source.gap_end(each) for each in (0, end, end + 8)] == [None, end + 64, end + 64]
    made.row({"a": 1.0}, 99)
    with pytest.raises(DivergedError):
        intake.put(PROJECT, RUN, made.file, made.ends[-3], made.data[made.ends[-3] :])
    assert place.bytes_of(made.file)[: made.ends[-4]] == made.data[: made.ends[-4]]


def test_batches_at_once_are_kept_in_fewer_objects(place):
    """And many workers that are sent the same do not wait for each other for ever."""
    intake = place.intake(window_s=0.25)
    made = [journal(f"j{number}", run=f"run{number % 7}") for number in range(40)]
    intake.put(PROJECT, "warm", made[0].file, 0, journal("j0", run="warm").data)

    def sends(worker, each):
        return lambda: worker.put(PROJECT, each.header["run"], each.file, 0, each.data)

    results = at_once(*(sends(intake, each) for each in made))
    assert [result.offset for result in results] == [each.offset for each in made]
    for each in made:
        assert place.bytes_of(each.file, run=each.header["run"]) == each.data
    assert len([one.name for one in place.objects.listed("journals/")]) < len(made)
    workers = [place.intake() for _ in range(3)]
    others = [journal("k", rows=3, run=f"run{number}") for number in range(8)]
    results = at_once(*(sends(worker, each) for worker in workers for each in others))
    assert {result.offset for result in results} == {others[0].offset}


NAMES = [
    *((project, RUN) for project in ("../x", "", "a//b", "a/journal")),
    ("/".join(["a"] * 33), RUN),
    ("/".join(["a" * 100] * 11), RUN),
    *((PROJECT, run) for run in ("..", ".trash", "a/b", "")),
]


def test_names_that_lead_elsewhere_are_refused(place):
    intake = place.intake()
    for project, run in NAMES:
        made = journal(project=project, run=run)
        with pytest.raises(PathError):
            intake.put(project, run, made.file, 0, made.data)
        with pytest.raises(PathError):
            intake.known(project, run)


def test_purged_run_is_not_taken_back(place):
    """Neither where the tables know it nor where only the tombstone does."""
    intake, made, new = place.intake(), journal(), journal(run="run2")
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    place.kept().forget(PROJECT, RUN)
    place.purged.add((PROJECT, "run2"))
    for each in (made, new):
        run = each.header["run"]
        with pytest.raises(Refusal, match="was purged on this server"):
            intake.put(PROJECT, run, each.file, 0, each.data)
        with pytest.raises(Refusal, match="was purged on this server"):
            intake.known(PROJECT, run)
    assert place.kept().journals(PROJECT, RUN) == {}
    assert list(place.kept().runs()) == []
    assert place.kept().unfolded(10) == []


def test_run_has_a_bounded_number_of_journals(place):
    """Also where they come in one group, or to two workers; those that it has go on."""
    workers = [place.intake(max_journals=5, window_s=0.25) for _ in range(2)]
    made = [journal(f"j{number}", rows=1) for number in range(20)]

    def sends(worker, each):
        return lambda: worker.put(PROJECT, RUN, each.file, 0, each.data[: each.ends[1]])

    results = at_once(*(sends(workers[at % 2], each) for at, each in enumerate(made)))
    refused = [result for result in results if isinstance(result, Refusal)]
    assert {one.error for one in refused} == {"too-large"}
    assert len(refused) == 15
    known = place.kept().journals(PROJECT, RUN)
    assert len(known) == 5
    (one, *_) = (each for each in made if each.file in known)
    assert workers[0].put(PROJECT, RUN, one.file, 0, one.data).offset == one.offset
    other = journal("c", run="run2")
    workers[0].put(PROJECT, "run2", other.file, 0, other.data)


def test_clock_that_is_ahead_is_accepted_and_marked(place):
    intake, made = place.intake(), journal()
    place.now = START - 2 * AHEAD_NS
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    with place.database.reading() as connection:
        row = connection.execute(
            sa.select(layout.journals.c.ahead_ns, layout.journals.c.heard_ns)
        ).one()
    assert row == (made.t - place.now, place.now)
    assert place.kept().journals(PROJECT, RUN)[made.file] == (made.offset, place.now)


def test_closing_keeps_what_was_accepted_and_takes_no_more(place):
    intake, made = place.intake(window_s=0.25), journal()
    intake.put(PROJECT, RUN, made.file, 0, made.data[: made.ends[3]])
    future = intake.submit(PROJECT, RUN, made.file, 0, made.data)
    intake.close()
    assert future.result(0).offset == made.offset
    assert place.bytes_of(made.file) == made.data
    with pytest.raises(FullError):
        intake.put(PROJECT, RUN, made.file, 0, made.data)
    intake.close()


def test_runs_to_fold_are_listed_by_their_last_batch(place):
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
def test_long_gap_costs_no_memory(place):
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
