"""Keyed tags of projects, changes of parameters and parts of runs, on each engine."""

from __future__ import annotations

import pytest

from seamark.reading.catalog import Selection
from seamark.store.read.inherited import inherited_tags

START = 10**18


@pytest.fixture
def filled(store, builder, engines):
    """Return a store with logs of projects, and runs below and beside them."""
    said = {
        ("a", ".project"): {"tags/t": "top", "tags/n": 3},
        ("a/b", ".project"): {"tags/t": "hidden", "tags/m": 1.5},
        ("ab", ".project"): {"tags/t": "beside"},
        ("a/b/c", "run1"): {"tags/t": "own", "tags/o": 1, "tags/n": 9},
        ("a", "run2"): {"x": 1},
        ("ab", "run3"): {"x": 1},
        ("z", "run4"): {"tags/t": "own", "tags/n": 5},
    }
    for at, ((project, run), values) in enumerate(said.items()):
        journal = builder(f"j{at}", t=START + at * 10**9).assign(**values)
        engines.fold(store, run, [journal], project=project)
    return store


QUERIES = [
    ('tags/t = "top"', {"run1", "run2"}),
    ('tags/t = "own"', {"run4"}),
    ('tags/t = "hidden"', set()),
    ('tags/t != "top"', {"run3", "run4"}),
    ("tags/n >= 3 AND tags/m < 2", {"run1"}),
    ("NOT tags/n = 3", {"run3", "run4"}),
    ('tags/t IN ("beside", "own")', {"run3", "run4"}),
    ('tags/t =~ "^to"', {"run1", "run2"}),
    ("tags/o = 1", {"run1"}),
]


def test_queries_use_the_tag_of_the_uppermost_project_else_of_the_run(filled, engines):
    tables = engines.Tables(filled)
    for query, runs in QUERIES:
        assert {run for _, run in tables.select(Selection(query=query))} == runs, query


def test_tables_show_and_sort_by_inherited_tags(filled, engines):
    tables = engines.Tables(filled)
    table = tables.table(Selection(sort_by="tags/t", ascending=True), ["tags/*"])
    rows = [(row["sys/id"], row.get("tags/t"), row.get("tags/m")) for row in table]
    assert rows[0] == ("run3", "beside", None)
    assert rows[1] == ("run4", "own", None)
    assert set(rows[2:]) == {("run1", "top", 1.5), ("run2", "top", None)}
    for path, of_run1 in (("tags/t", "top"), ("tags/n", 3), ("tags/m", 1.5)):
        assert [row.get(path) for row in tables.table(Selection(id="run1"), [path])] == [of_run1]
    (most,) = tables.table(Selection(sort_by="tags/n", limit=1), ["tags/n"])
    assert (most["sys/id"], most["tags/n"]) == ("run4", 5)


def test_tags_of_projects_that_may_not_be_read_are_unknown(filled, engines):
    tables = engines.Tables(filled)
    only = Selection(query="tags/m > 1", readable=lambda project: project == "z")
    assert tables.select(only) == []
    assert "no run has 'tags/m'" in tables.told.pop()
    below = Selection(query="tags/m > 1", readable=lambda project: project == "a/b/c")
    assert tables.select(below) == [("a/b/c", "run1")]
    assert not tables.told


def test_tags_of_many_containers_are_asked_for_at_once(filled):
    refs = [(f"a/{number}", "run") for number in range(250)] + [("z", "run4"), ("a", ".project")]
    with filled.database.reading() as connection:
        found = dict(inherited_tags(filled, connection, refs))
    assert found.keys() == {(f"a/{number}", "run") for number in range(250)}
    assert {one.value for one in found["a/7", "run"].values()} == {"top", 3}


def test_aggregates_of_parts_count_parts_that_may_be_read(store, builder, engines):
    for at, (project, run, parent) in enumerate(
        [("p", "whole", ""), ("p", "one", "whole"), ("q", "two", "p/whole"), ("q", "no", "whole")]
    ):
        journal = builder(f"j{at}", t=START + at * 10**9).assign(sys__parent=parent, x=at)
        engines.fold(store, run, [journal], project=project)
    tables = engines.Tables(store)
    for query, runs in (
        ("children/x:max = 2 AND children/x:mean > 1.4 AND children/x:count = 2", ["whole"]),
        ("children/x:min < 1 OR children/x:max > 2", []),
        ("children/x:count IN (1, 2)", ["whole"]),
        ("NOT children/x:mean >= 1 AND children/x IS MISSING", ["no", "one", "two"]),
    ):
        assert sorted(run for _, run in tables.select(Selection(query=query))) == runs
    mine = Selection(query="children/x:max >= 1", readable=lambda project: project == "p")
    assert tables.select(mine) == [("p", "whole")]
    hidden = Selection(query="children/x:max >= 2", readable=lambda project: project == "p")
    assert tables.select(hidden) == []
    table = tables.table(Selection(), ["children/x:max", "children/x:count"])
    found = {row["sys/id"]: row.get("children/x:max") for row in table}
    assert found == {"whole": 2, "one": None, "two": None, "no": None}
