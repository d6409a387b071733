"""What parameters were before they were changed."""

from __future__ import annotations

import itertools

import pytest
from journal_builder import START

from seamark.store.fold.fold import fold
from seamark.store.fold.run_state import JournalState, RunState


def changes(journals):
    run = RunState()
    for journal in journals:
        run.add_journal(JournalState(journal.writer, journal.uid), journal.header)
        fold(run, journal.writer, journal.block())
    return {path: [value for _, _, value in told] for path, told in run.changes().items()}


@pytest.mark.parametrize("many", [3, 30])
def test_every_order_of_journals_gives_the_same(builder, many):
    """Of many the newest are kept; of one that was deleted only what came after."""
    journals = [builder("a"), builder("b"), builder("c")]
    for number in range(-5, many):
        journal = journals[number % 3]
        journal.t = START + 10 * (number + 10)
        if number == -1:
            journal.op("delete", paths=["parameters"])
        else:
            journal.assign(**{"parameters/lr": number, "parameters/x": 1, "lr": number})
    for order in itertools.permutations(journals):
        wanted = list(range(many))[-21:]
        assert changes(order) == {"parameters/lr": wanted}
