"""The runs table: choosing, sorting, columns; every query against a plain Python reading of it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from seamark.errors import ArgumentError, QueryError
from seamark.reading.catalog import Selection

NOW = 10**18 + 10**14


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def index(request, engines, postgresql, builder, tmp_path_factory):
    """Seven runs of all kinds, ``r0`` the oldest, in a store on each engine."""

    def start(number, project="p", **facts):
        journal = builder(
            f"j{number}", t=10**18 + number * 10**12, user=f"user{number % 2}", **facts
        )
        journals[number] = (journal, project)
        return journal

    journals = {}
    run = start(0).assign(lr=0.1, name="resnet18", layers=18, best=False)
    run.row({"loss": 3.0}, 0).row({"loss": 1.0}, 1).row({"loss": 2.0}, 2)
    run.op("add", path="sys/tags", values=["good", "old"]).op("state", state="completed")
    run = start(1).assign(lr=1, name="resnet50", layers=50, best=True)
    run.row({"loss": math.nan}, 0).op("add", path="sys/tags", values=["good"])
    run.op("state", state="failed")
    run = start(2).assign(lr="auto", name="vgg", layers=2**60 + 1)
    run.row({"loss": math.inf}, 0).texts("log", (0, "start"), (1, "all is well"))
    run.op("assign", atoms={"when": ["datetime", "2026-01-02T12:00:00+02:00"]})
    run = start(3).assign(name="VGG", layers=2**60)
    run.row({"loss": -math.inf}, 0).row({"loss": 0.5}, 1)
    run.op("assign", atoms={"when": ["datetime", "2026-01-02T11:00:00+00:00"]})
    run.op("state", state="running")
    run = start(4).assign(lr=-0.0, layers=2**70, weird=None).row({"loss": -5.0}, 0)
    run.op("file", path="model", file={"name": "last.ckpt", "sha256": "0" * 64})
    run = start(5, project="p/sub").assign(lr=0.1)
    run = start(6).assign(lr=0.1, sys__trashed=True).op("delete", paths=["nothing"])
    run.assign(gone=1).op("delete", paths=["gone"])
    folder = tmp_path_factory.mktemp("tables")
    with engines.fresh_tables(request.param, folder, postgresql) as url:
        store = engines.open_store(url)
        for number, (journal, project) in journals.items():
            engines.fold(store, f"r{number}", [journal.close()], project=project)
        yield engines.Tables(store, NOW)
        store.database.engine.dispose()


def chosen(index, query, **given):
    given = {"trashed": None, "ascending": True, **given}
    found = index.select(Selection(query=query, **given))
    return "".join(run.removeprefix("r") for _, run in found)


CHOSEN = [
    ("", "0123456"),
    ("lr = 0.1", "056"),
    ("lr != 0.1", "14"),
    ("lr != 1180591620717411303424", "01456"),
    ("layers != 1180591620717411303424", "0123"),
    ("NOT layers != 1180591620717411303424", "456"),
    (" OR ".join(f"sys/owner = user{number}" for number in range(1, 1200)), "135"),
    (" AND ".join(f"NOT sys/owner = user{number}" for number in range(1, 1200)), "0246"),
    (" OR ".join(f"lr = {number}" for number in range(60)), "14"),
    ('name = "\udc80"', ""),
    ("lr < 1", "0456"),
    ("lr <= 1", "01456"),
    ("lr = 0", "4"),
    ("lr = auto", "2"),
    ("lr >= a", "2"),
    ("lr IS MISSING", "3"),
    ("gone IS MISSING", "0123456"),
    ("unheard/of = 1", ""),
    ("loss < 1", "34"),
    ("loss > 1", "02"),
    ("loss = nan", "1"),
    ("loss != nan", "0234"),
    ("loss = inf", "2"),
    ("loss < inf", "034"),
    ("loss >= -inf", "0234"),
    ("loss:last = 2", "0"),
    ("loss:min = 1", "0"),
    ("loss:max = 3", "0"),
    ("loss:mean = 2", "0"),
    ("loss:count >= 2", "03"),
    ("loss:last_step = 2", "0"),
    ("loss:min < inf", "034"),
    ("log:count = 2", "2"),
    ("log CONTAINS well", "2"),
    ("layers = 1152921504606846977", "2"),
    ("layers > 1152921504606846976", "24"),
    ("layers >= 1152921504606846976", "234"),
    ("layers = 1180591620717411303424", "4"),
    ("layers < 1180591620717411303424", "0123"),
    ("layers:int = 18", "0"),
    ("best != true", "0"),
    ('name =~ "^resnet"', "01"),
    ("name CONTAINS gg", "2"),
    ("name CONTAINS GG", "3"),
    ("name CONTAINS '%'", ""),
    ("name > resnet18", "12"),
    ("sys/tags NOT CONTAINS good", "23456"),
    ('sys/tags =~ "^ol"', "0"),
    ("(lr = 1 OR lr = 0.1) AND layers > 20", "1"),
    ("when = '2026-01-02T10:00:00Z'", "2"),
    ("when > 2026-01-02T10:30", "3"),
    ("sys/state = completed", "0"),
    ("sys/state = crashed", "3"),
    ("sys/state = running", ""),
    ("sys/id = r2", "2"),
    ("sys/owner = user1", "135"),
    ("sys/trashed = true", "6"),
    ("sys/creation_time > 2001-09-09T02:20:00", "23456"),
    ("sys/running_time >= 0", "0123456"),
    ("lr IN (1, auto)", "12"),
    ("NOT lr IN (0.1, 1)", "234"),
    ("layers IN (18, 1152921504606846977, 1180591620717411303424)", "024"),
    ("name IN (vgg, 'VGG')", "23"),
    ("best IN (true, false)", "01"),
    ("loss:min IN (1, 0.5)", "03"),
    ("loss IN (nan, inf)", "12"),
    ("lr IN (" + ", ".join(map(str, range(1200))) + ")", "14"),
    ("sys/tags IN (old, new)", "0"),
    ("sys/tags NOT IN (good)", "23456"),
    ("sys/state IN (completed, Failed)", "01"),
    ("sys/state NOT IN (created, completed)", "13"),
    ("sys/id IN (r1, r3, r9)", "13"),
    ('sys/creation_time >= "-27h"', "3456"),
    ("sys/creation_time > -999999999M", "0123456"),
    ("sys/modification_time > 0001-01-01 AND sys/creation_time < 9999-12-31", "0123456"),
    ("when > -1M", "23"),
    ("when IN ('2026-01-02T11:00')", "3"),
    ("model CONTAINS .ckpt", "4"),
    ("weird IS MISSING", "012356"),
]


@pytest.mark.once
def test_a_query_chooses_the_runs_that_it_describes(index):
    """NaN equals only nan, ints are exact, missing values match no operator."""
    for query, runs in CHOSEN:
        assert chosen(index, query) == runs, query[:200]


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        ("name = 5", "expected a text in quotes for 'name', got '5' at column 8", "5"),
        ("best = 1", "expected true or false for 'best', got '1' at column 8", "1"),
        ('best = "yes"', "expected true or false for 'best', got 'yes'", '"yes"'),
        ("layers > many", "expected a number for 'layers', got 'many' at column 10", "many"),
        ("layers IN (18, many)", "expected a number for 'layers', got 'many'", "many)"),
        ("layers:string = 18", "'layers' is a number, not a text at column 1", "layers:"),
        ("loss CONTAINS 3", "expected = or < for a series of numbers, got CONTAINS", "CONTAINS"),
        ("loss =~ 3", "expected = or < for a series of numbers, got =~", "=~"),
        ("when = noon", "expected a time such as .* for 'when', got 'noon'", "noon"),
        ("when > -2y", "a time before now: -30m, -2h, -1d, -2w, -1M .*, got '-2y'", "-2y"),
        ("when > 2026", "expected a time such as .*, got '2026'", "2026"),
        ("when CONTAINS 2026", "expected = or < for a time, got CONTAINS", "CONTAINS"),
        ('model = "last.ckpt"', "expected CONTAINS or =~ for a file, got '='", "="),
        (
            "weird = 3",
            "'weird' is a null value, which supports only IS MISSING and IS NOT MISSING",
            "weird",
        ),
        ("layers:min < 3", "'layers' is a number, not a series: it has no min", "layers:"),
        ("lr:last = 1", "'lr' is a number or a text, not a series: it has no last", "lr:"),
        ("log:max = 3", "'log' is a series of texts, not of numbers: it has no max", "log:"),
        ("loss < 1 AND NOT name > 3", "expected a text in quotes for 'name'", "3"),
    ],
)
def test_a_comparison_that_can_match_nothing_is_refused(index, query, message, place):
    """Its answer, no run, would be none: where a path holds another type in every run."""
    with pytest.raises(QueryError, match=message) as caught:
        chosen(index, query)
    _, line, caret = str(caught.value).splitlines()
    assert line == f"  {query}"
    assert line[caret.index("^") :].startswith(place)


@pytest.mark.parametrize("query", ["nothere = 1", "NOT nothere = 1", "nothere IS MISSING"])
def test_a_path_that_no_run_has_is_told_once(index, query):
    index.told.clear()
    chosen(index, f"{query} AND lr < 5")
    (told,) = index.told
    assert told.startswith("query: no run has 'nothere'\n  ")


NEAREST = {"LR": "lr", "los": "loss", "state": "sys/state", "tags": "sys/tags"}
NEAREST |= {"sys/tag": "sys/tags", "sys": "sys/", "params/loss": "loss"}


@pytest.mark.parametrize("path", [*NEAREST, "gone", "nothing/like/it"])
def test_the_nearest_path_that_a_run_has_is_named(index, path):
    """In queries, columns and sort orders."""
    quote = "" if path == "sys" else "'"
    hint = f"there is '{NEAREST[path]}{quote}" if path in NEAREST else rf"no run has '{path}'\n"
    for ask in (
        lambda: index.select(Selection(query=f"{path} > 0")),
        lambda: index.select(Selection(sort_by=path)),
        lambda: index.table(Selection(), [path]),
        lambda: index.table(Selection(), ["lr", f"{path}:min"]),
    ):
        index.told.clear()
        ask()
        (told,) = index.told
        assert re.search(hint, told)
        assert told.splitlines()[2] == "  ^"


def test_no_path_is_unknown_where_there_are_no_runs(engines, builder, store):
    """A dashboard may start before the first run; a project's own log is no row of the table."""
    tables = engines.Tables(store)
    tables.table(Selection(query="val/loss < 1", sort_by="val/loss:min"), ["val/*", "val/loss"])
    assert tables.told == []
    engines.fold(store, ".project", [builder("a").assign(best=1)])
    engines.fold(store, "r0", [builder("b").assign(lr=1)])
    tables.select(Selection(query="best = 1"))
    assert "no run has 'best'" in tables.told[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"sort_by": "sys/tags"},
            "sort_by: 'sys/tags' is a set of strings, which cannot be sorted",
        ),
        ({"sort_by": "layers:min"}, "sort_by: 'layers' is a number, not a series: it has no min"),
        ({"sort_by": "loss:median"}, "sort_by: expected one of last, min.*; did you mean 'mean'"),
        ({"columns": ["loss:median"]}, "column: expected one of last, min, .*got 'median'"),
        ({"columns": ["lr", "layers:max"]}, "column: 'layers' is a number, not a series"),
        ({"columns": ["sys/name:min"]}, "column: 'sys/name' is a text, not a series"),
        ({"columns": ["log:mean"]}, "column: 'log' is a series of texts, not of numbers"),
        ({"columns": ["name:float"]}, "column: 'name' is a text, not a number"),
    ],
)
def test_a_column_or_a_sort_that_means_nothing_is_refused(index, given, message):
    with pytest.raises(QueryError, match=message) as caught:
        index.table(Selection(sort_by=given.get("sort_by", "lr")), given.get("columns", ["lr"]))
    assert str(caught.value).splitlines()[2].strip() == "^"


@pytest.mark.parametrize(
    ("sort_by", "up", "down"),
    [
        ("sys/creation_time", "0123456", "6543210"),
        ("sys/id", "0123456", "6543210"),
        ("loss", "4302165", "2034165"),
        ("loss:min", "4302165", "0342165"),
        ("lr", "4650123", "1650423"),
        ("layers", "0132465", "4231065"),
        ("when", "2365410", "3265410"),
        ("name", "3012654", "2103654"),
        ("model", "4653210", "4653210"),
        ("sys/state", "0365421", "1654230"),
        ("sys/end_time", "0136542", "3106542"),
        ("unheard/of", "6543210", "6543210"),
    ],
)
def test_runs_are_sorted_and_pages_are_parts_of_that_order(index, sort_by, up, down):
    """Numbers, then texts, then NaN, then runs without a value; equal ones newest first."""
    for ascending, order in ((True, up), (False, down)):
        given = {"trashed": None, "sort_by": sort_by, "ascending": ascending}
        assert chosen(index, "", **given) == order
        for limit in (2, 5):
            pages = [
                index.table(Selection(**given, limit=limit, offset=start), ["sys/id"])
                for start in range(0, 7, limit)
            ]
            assert [row["sys/id"] for page in pages for row in page] == [f"r{n}" for n in order]
            assert {page.total for page in pages} == {7}


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ({"id": "r1"}, "1"),
        ({"id": ["r1", "r3"]}, "13"),
        ({"id": []}, "012345"),
        ({"owner": ("user0",)}, "024"),
        ({"state": "failed"}, "1"),
        ({"state": {"failed", "COMPLETED"}}, "01"),
        ({"state": "inactive"}, "013"),
        ({"state": "active"}, "245"),
        ({"tag": "good"}, "01"),
        ({"tag": ["good", "old"]}, "0"),
        ({"trashed": True}, "6"),
        ({"trashed": None}, "0123456"),
        ({"project": "p/sub"}, "5"),
        ({"project": "p"}, "012345"),
        ({"project": "other"}, ""),
        ({"query": "lr = 0.1", "tag": "old"}, "0"),
    ],
)
def test_arguments_restrict_as_they_do_in_neptune(index, given, runs):
    """Ids, states and owners: one of them; tags: all of them."""
    assert chosen(index, given.pop("query", None), **{"trashed": False, **given}) == runs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": 0}, "limit: expected a positive number of runs or None, got int: 0"),
        ({"limit": "3"}, "limit: expected a positive number"),
        ({"state": "flying"}, "state: expected one of created, running, .*got 'flying'"),
        ({"state": "done"}, "got 'done'; did you mean 'completed'"),
        ({"id": 3}, "id: expected a string or several strings, got int: 3"),
        ({"tag": ["a", 3]}, "tag: expected a string or several strings, got int: 3"),
        ({"trashed": "no"}, "trashed: expected True, False or None"),
        ({"ascending": 1}, "ascending: expected True or False, got int: 1"),
        ({"sort_by": None}, "sort_by: expected a path"),
    ],
)
def test_a_wrong_argument_is_an_exact_error(index, given, message):
    with pytest.raises(ArgumentError, match=message):
        index.select(Selection(**given))


def test_columns_may_be_chosen_by_what_the_runs_share(index):
    """The number of runs that have a path, whether they differ, and the length of texts."""
    told = []

    def choose(shared):
        told.extend(shared)
        return ["name"]

    table = index.table(Selection(id=["r0", "r1", "r3", "r4"]), choose)
    assert table.columns == ["sys/id", "name"]
    found = {one.path: (one.series, one.runs, one.differs, one.longest) for one in told}
    assert found == {
        "loss": (True, 4, True, 0),
        "lr": (False, 3, True, 0),
        "layers": (False, 4, True, 22),
        "name": (False, 3, True, 8),
        "best": (False, 2, True, 0),
    }
    told.clear()
    index.table(Selection(id=["r5", "r0", "r6"], trashed=None), choose)
    assert {one.path: one.differs for one in told if one.runs == 3} == {"lr": False}
    told.clear()
    index.table(Selection(id="nobody"), choose)
    assert told == []


def test_everything_is_shown_by_default(index):
    """The best known columns first; what a run does not have is not in its row."""
    table = index.table(Selection(id="r0"))
    assert table.columns[:4] == ["sys/id", "sys/state", "sys/owner", "sys/creation_time"]
    row = table.rows[0]
    assert (row["lr"], row["loss"], row["name"]) == (0.1, 2.0, "resnet18")
    assert (row["sys/state"], row["sys/tags"]) == ("completed", ["good", "old"])
    assert "when" not in row
    assert table.refs == [("p", "r0")]
    table = index.table(Selection(limit=3, trashed=None))
    assert (len(table), table.total) == (3, 7)
    assert [row["sys/id"] for row in table] == ["r6", "r5", "r4"]


def test_columns_are_aggregates_and_patterns_or_those_that_differ(index):
    """`val/loss:min`, `sys/*`, `l*`; a pattern with an aggregate means the series among its paths.

    Columns that differ are those that not all listed runs share.
    """
    table = index.table(Selection(id=["r0", "r2"]), ["loss:min", "l*", "log:count", "name"])
    columns = "sys/id loss:min layers log loss lr log:count name"
    assert table.columns == columns.split()
    newer, older = table.rows
    assert (older["loss:min"], older["loss"]) == (1.0, 2.0)
    assert (newer["log"], newer["log:count"], newer["layers"]) == ("all is well", 2, 2**60 + 1)
    assert "loss:min" not in newer
    assert index.table(Selection(id="r0"), ["*:max"]).columns == ["sys/id", "loss:max"]
    table = index.table(Selection(id=["r0", "r5"]), ["lr:differing", "layers:differing"])
    assert table.columns == ["sys/id", "layers"]
    table = index.table(Selection(id=["r0", "r1"]), ["*:differing"])
    assert "lr" in table.columns
    assert "sys/trashed" not in table.columns
    index.told.clear()
    index.table(Selection(), ["hyperparams/*", "l*", "*:differing"])
    (told,) = index.told
    assert told.splitlines()[0] == "column: no path matches 'hyperparams/*'"


def test_values_are_shown_as_they_are_and_in_arrays_and_frames(index):
    """Nothing is rounded; in arrays numbers are float64 with NaN for nothing, others objects."""
    selection = Selection(ascending=True)
    table = index.table(selection, ["loss", "layers", "model", "weird"])
    losses = [row.get("loss") for row in table]
    assert math.isnan(losses[1])
    assert losses[2] == math.inf
    assert (table.rows[4]["layers"], table.rows[4]["model"]) == (2**70, "last.ckpt")
    found = index.table(selection, ["loss", "name", "layers"]).to_numpy()
    np.testing.assert_array_equal(found["loss"], [2, np.nan, np.inf, 0.5, -5, np.nan])
    assert found["name"].tolist() == ["resnet18", "resnet50", "vgg", "VGG", None, None]
    assert found["layers"].dtype == object  # beyond 2**53: not as floats
    pandas = pytest.importorskip("pandas")
    frame = index.table(Selection(ascending=True, limit=2), None).to_pandas()
    assert frame["sys/tags"].tolist() == ["good,old", "good"]  # as Neptune has them
    assert pandas.api.types.is_datetime64_any_dtype(frame["sys/creation_time"])
    assert frame["lr"].tolist() == [0.1, 1]
