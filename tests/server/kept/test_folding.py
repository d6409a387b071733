"""Journals that lie in objects fold as those in files do."""

from __future__ import annotations

import resource

import pytest
from journal_builder import fold_run
from keeping import PROJECT, RUN, journal, places

from seamark.journal.reader import JournalReader
from seamark.journal.shipping import GAP_BYTES
from seamark.journal.walk import walk
from seamark.store import schema
from seamark.store.database import Database, memory_engine
from seamark.store.read.run import RunReader
from seamark.store.runs import Store
from seamark.store.schema import PathNumbers


def folded(place):
    kept = place.kept()
    database = Database(memory_engine())
    database.create_tables(schema.metadata)
    store = Store(database, PathNumbers(database))

    def opened(name):
        return kept.source(PROJECT, RUN, name)

    sources = {name: (lambda name=name: opened(name)) for name in kept.journals(PROJECT, RUN)}
    fold_run(store, PROJECT, RUN, sources, place.now_ns)
    return RunReader(lambda: store, PROJECT, RUN, opened, now_ns=place.now_ns)


def test_a_journal_in_many_objects_folds_as_a_file(place):
    """Whatever batches it came in, before and after compaction."""
    intake, made = place.intake(window_s=0), journal(rows=60)
    ends = places(made)
    for start, end in zip(ends, ends[3::3], strict=False):
        intake.put(PROJECT, RUN, made.file, ends[ends.index(start)], made.data[start:end])
        intake.put(PROJECT, RUN, made.file, 0, made.data[:end])
    intake.put(PROJECT, RUN, made.file, 0, made.data)
    for _ in range(2):
        with JournalReader(place.kept().source(PROJECT, RUN, made.file), walk=walk) as reader:
            assert len(list(reader.frames())) == len(made.ends)
            assert reader.stopped is None
        assert folded(place).last("a") == 29.5
        place.now += 10**15
        place.caretaker().compact(lambda: False)


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
    assert folded(place).last("a") == 2.0
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 3 * GAP_BYTES / 1024  # KiB
