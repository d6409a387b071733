"""Whatever is sent in whatever order, and whoever dies: what is kept equals the file."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from keeping import PROJECT, Meddling, Place, at_once, died, journal, nothing, places

from seamark.server.kept import layout
from seamark.server.kept.caretaker import REST_NS
from seamark.server.kept.layout import REMOVE_NS
from seamark.server.kept.plan import FullError, GapError
from seamark.server.kept.rebuild import rebuild

JOURNALS = [journal(name, rows=8, run=run) for name in "ab" for run in ("run1", "run2")]
DAMAGED = 5
"""Index of a frame that is declared a gap in the first of the journals."""


batches = st.tuples(
    st.just("send"),
    st.integers(0, len(JOURNALS) - 1),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(0, 1),
)
steps = st.one_of(
    batches,
    batches,
    batches,
    st.tuples(st.just("race"), batches, batches),
    st.tuples(st.just("die"), batches, st.sampled_from(["before", "after"])),
    st.tuples(st.just("tend"), st.booleans()),
    st.just(("rebuild",)),
)


class Machine:
    """The place under test, and what was acknowledged of each journal."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.flaky = [Meddling(place.objects), Meddling(place.objects)]
        self.workers = [place.intake(each) for each in self.flaky]
        self.acknowledged = [0] * len(JOURNALS)

    def calls(self, batch) -> list:
        """Return the calls that send a batch: its damaged frame goes as a declared gap."""
        _, number, first, count, worker = batch
        made, put = JOURNALS[number], self.workers[worker].put
        ends = places(made)
        first = min(first, len(ends) - 2)
        last = min(first + count, len(ends) - 1)
        cuts = {first, last}
        if number == 0:
            cuts |= {each for each in (DAMAGED, DAMAGED + 1) if first < each < last}
        found = []
        for start, end in pairwise(ends[each] for each in sorted(cuts)):
            sent = {"data": made.data[start:end]}
            if number == 0 and start == ends[DAMAGED]:
                sent = {"gap": end - start}
            found.append(partial(put, PROJECT, made.header["run"], made.file, start, **sent))
        return [(number, call) for call in found]

    def send(self, batch) -> None:
        for number, call in self.calls(batch):
            try:
                kept = call()
            except GapError as error:
                self.acknowledge(number, error.more["known"])
                return
            self.acknowledge(number, kept.offset)

    def acknowledge(self, number: int, offset: int) -> None:
        assert offset >= self.acknowledged[number]
        self.acknowledged[number] = offset

    def step(self, step) -> None:
        place = self.place
        if step[0] == "send":
            self.send(step)
        elif step[0] == "race":
            both = [self.calls((*each[:4], worker)) for worker, each in enumerate(step[1:])]
            pairs = [calls[0] for calls in both]
            results = at_once(*(call for _, call in pairs))
            for (number, _), result in zip(pairs, results, strict=True):
                if not isinstance(result, Exception):
                    self.acknowledged[number] = max(self.acknowledged[number], result.offset)
                else:
                    assert isinstance(result, GapError)
        elif step[0] == "die":
            flaky = self.flaky[step[1][4]]
            setattr(flaky, step[2], died)
            with contextlib.suppress(FullError):
                self.send(step[1])
            setattr(flaky, step[2], nothing)
        elif step[0] == "tend":
            place.now += REST_NS + 1
            place.caretaker().tend(lambda: False)
            if step[1]:
                place.now += REMOVE_NS + 1
                place.caretaker().tend(lambda: False)
        else:
            # As after a database was lost: what was written and never named counts as well.
            layout.metadata.drop_all(place.database.engine)
            place.database.create_tables(layout.metadata)
            assert rebuild(place.database, place.objects, gone=place.gone).damaged == []
        self.check()

    def check(self) -> None:
        place = self.place
        for number, made in enumerate(JOURNALS):
            run, data = made.header["run"], made.data
            if number == 0:
                start, end = places(made)[DAMAGED : DAMAGED + 2]
                data = data[:start] + bytes(end - start) + data[end:]
            kept = place.bytes_of(made.file, run=run)
            assert len(kept) >= self.acknowledged[number]
            assert kept == data[: len(kept)]
            known, position = self.workers[0].known(PROJECT, run)
            assert known.get(made.file, 0) == len(kept)
            assert position == sum(known.values())


def run_steps(place, given):
    machine = Machine(place)
    for step in given:
        machine.step(step)
    for number, made in enumerate(JOURNALS):
        machine.send(("send", number, 0, 99, 0))
        assert machine.acknowledged[number] == made.offset
    machine.check()
    for worker in machine.workers:
        worker.close()


@settings(max_examples=25)
@given(st.lists(steps, max_size=14))
def test_kept_journals_equal_their_files(store, given):
    """Nothing that was acknowledged is lost, and nothing is there twice."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(store or f"sqlite:///{folder}/databases", Path(folder, "objects"))
        try:
            run_steps(place, given)
        finally:
            layout.metadata.drop_all(place.database.engine)
            place.close()
