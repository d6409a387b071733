"""Rows of what is read: by their numbers, and those of some runs."""

from __future__ import annotations

import pytest

from seamark.reading.points import number_of
from seamark.reading.tables import RunsTable


def test_row_numbers_count_from_either_end_as_of_a_list():
    numbers = {0: 0, 2: 2, -1: 2, -3: 0, True: 1}
    assert {at: number_of(at, 3) for at in numbers} == numbers
    for at in (3, -4, 10**30):
        with pytest.raises(IndexError, match=f"row {at} of 3 rows"):
            number_of(at, 3)


def test_table_of_some_runs_keeps_their_order():
    refs = [("p", "a"), ("p", "b"), ("q", "a")]
    table = RunsTable({"sys/id": ["a", "b", "c"], "x": [1, 2, 3], "y": [4, 5, 6]}, refs, 3)
    some = table.only({("q", "a"), ("p", "a")}, without=["y"])
    assert (some.refs, some["x"], some.columns) == ([refs[0], refs[2]], [1, 3], ["sys/id", "x"])
    assert table.only(refs, limit=2).refs == refs[:2]
