"""The numbers of versions are the same for everybody who has the same journals, on each engine."""

from __future__ import annotations

import itertools

from seamark.reading.catalog import Selection
from seamark.store.read.names import run_names, version_numbers

PLACE = "p/.models/NET"


def test_the_first_to_record_a_number_keeps_it_in_every_order_of_folding(store, builder, engines):
    claims = [("first", 1), ("second", 1), ("third", 2), ("fourth", 2), ("odd", -3), ("text", "1")]
    journals = {
        name: builder(name, t=10**18 + at * 10**9, owner=False).assign(sys__version=number)
        for at, (name, number) in enumerate(claims)
    }
    expected = {"first": 1, "third": 2, "second": 3, "fourth": 4}
    tables = engines.Tables(store)
    for some in itertools.islice(itertools.permutations(journals), 0, 720, 400):
        place = f"{PLACE}{some.index('first')}{some[0]}"
        for name in some:
            engines.fold(store, name, [journals[name]], project=place)
        engines.fold(store, "third", [journals["third"]], project="p")  # a run like any other
        engines.fold(store, "first", [journals["first"]], project="p/.models/OTHER")
        with store.database.reading() as connection:
            found = version_numbers(store, connection, [(place, "text")])
            named = {
                one.ref: one.name for one in run_names(store, connection, None, "model_version")
            }
        assert {name: number for (_, name), number in found.items()} == expected
        key = place.rpartition("/")[2]
        assert named[place, "second"] == f"{key}-3"
        assert named[place, "odd"] is None
        selection = Selection(place, "`sys/version` > 0", kind="model_version")
        shown = tables.table(selection, ["sys/version"])
        assert dict(zip(shown["sys/id"], shown["sys/version"], strict=True)) == expected
        assert "sys/state" not in tables.table(selection)
    assert tables.select(Selection("p")) == [("p", "third")]
    assert tables.select(Selection("p", kind="model")) == []
