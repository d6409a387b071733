"""Tables of runs, of which some rows are taken."""

from __future__ import annotations

from seamark.reading.tables import RunsTable


def test_table_of_some_runs_keeps_their_order():
    refs = [("p", "a"), ("p", "b"), ("q", "a")]
    table = RunsTable({"sys/id": ["a", "b", "c"], "x": [1, 2, 3], "y": [4, 5, 6]}, refs, 3)
    some = table.only({("q", "a"), ("p", "a")}, without=["y"])
    assert (some.refs, some["x"], some.columns) == ([refs[0], refs[2]], [1, 3], ["sys/id", "x"])
    assert table.only(refs, limit=2).refs == refs[:2]
