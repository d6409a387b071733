"""What is taken of journals, in which order and how often it comes, by how many workers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from journal_builder import JournalBuilder
from keeping import PROJECT, RUN, at_once, journal, places

from seamark.journal.format import Kind, frame_bytes, salt_of
from seamark.server.failures import Refusal
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
    """Also in the place of a gap, or as a gap; and of two that race, one is kept."""
    intake, made = place.intake(), journal()
    raced = JournalBuilder("one", project=PROJECT, run="race").assign(x=1)
    results = at_once(
        lambda: place.intake().put(PROJECT, "race", made.file, 0, journal(run="race").data),
        lambda: intake.put(PROJECT, "race", made.file, 0, raced.data),
    )
    assert {type(result).__name__ for result in results} == {"Sent", "DivergedError"}
    intake.put(PROJECT, RUN, made.file, 0, made.data)
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


def test_run_has_a_bounded_number_of_journals(place):
    """Those that it has go on, and other runs are not concerned."""
    intake, made = place.intake(max_journals=2), [journal(f"j{number}") for number in range(3)]
    for each in made[:2]:
        intake.put(PROJECT, RUN, each.file, 0, each.data[: each.ends[1]])
    with pytest.raises(Refusal) as refused:
        intake.put(PROJECT, RUN, made[2].file, 0, made[2].data)
    assert refused.value.error == "too-large"
    assert intake.put(PROJECT, RUN, made[0].file, 0, made[0].data).offset == made[0].offset
    other = journal("c", run="run2")
    assert intake.put(PROJECT, "run2", other.file, 0, other.data).offset == other.offset
