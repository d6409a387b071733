"""A store keeps and answers the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import json
import math
import random
import string
import struct

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects.postgresql import dialect as postgresql_dialect

from seamark.errors import QueryError
from seamark.journal.format import Kind
from seamark.reading.catalog import Selection
from seamark.store import groups, ingest, schema

runs = map("r{}".format, itertools.count())
"""Names of runs: many examples share the tables of one test."""


def said(attributes, property_test):
    """Return attributes in the oracle's words, without those that are derived."""
    found = {}
    for one in attributes:
        value = one.value["hash"] if one.family == "artifact" else one.value
        if not one.path.startswith(("sys/", "monitoring/")):
            found[one.path] = (one.family, property_test.in_words(one.family, value, one.type))
    return found


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "journals"])
@settings(
    max_examples=8,
    # Shrinking would take minutes where a server is asked.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), seed=st.integers(0, 2**32))
@pytest.mark.once
def test_everything_that_is_read_agrees_with_the_oracle(
    builder, oracle, property_test, engines, open_store, chunked, data, seed
):
    rng, run = random.Random(seed), next(runs)
    stores = getattr(open_store, "two", None) or (open_store(), open_store())
    open_store.two = stores
    journals = property_test.build(builder, data.draw(property_test.histories), rng)
    ends = [0] * len(journals)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SMALL_BYTES", "CHUNK_BYTES"):
            patch.setattr(ingest, name, 0 if chunked else 1 << 30)
        for module in (groups, ingest):
            patch.setattr(module, "GROUP_ROWS", rng.choice([1, 3, 8]))
        patch.setattr(ingest, "BLOCK_BYTES", rng.choice([256, 1 << 20]))
        patch.setattr(ingest, "_SAVE_BYTES", rng.choice([0, 300, 1 << 20]))
        for last in (False, False, False, True):
            for at, journal in enumerate(journals):
                later = [end for end in journal.ends if end >= ends[at]]
                ends[at] = journal.offset if last else rng.choice([ends[at], *later])
            if not any(ends):
                continue
            engines.fold(rng.choice(stores), run, journals, ends)
            view = engines.look(rng.choice(stores), run, journals)
            check(engines, view, journals, ends, oracle, property_test, rng)


def check(engines, view, journals, ends, oracle, property_test, rng):
    """Compare everything that can be read of a run with the oracle."""
    same, paths = property_test.same, property_test.PATHS
    assert same(said(view.attributes(), property_test), oracle.expected(journals, ends))
    attempt = rng.choice(["latest", "latest", "all", 0, 1])
    points = view.many_points(paths, attempt)
    for path in paths:
        wanted = oracle.expected_points(journals, ends, path, attempt)
        assert same(engines.rows(points[path]), wanted)
        assert view.curve(path, rng.choice([2, 1000]), attempt).count.sum() == len(wanted)
    path = rng.choice(paths)
    found = engines.rows(points[path])
    assert same(engines.in_parts(view, path, attempt, 2), found)
    for last in (1, 3):
        assert same(engines.in_parts(view, path, attempt, 2, last), found[-last:])

    def records(family):
        return oracle.expected_records(journals, ends, path, family, attempt)

    found = [(p.step, p.text, p.time_ns, p.attempt) for p in view.texts(path, attempt)]
    assert found == records("string_series")
    found = [(p.step, p.file, p.time_ns, p.attempt) for p in view.files(path, attempt)]
    assert found == records("file_series")
    found = [
        (p.step, [p.edges, p.counts], p.time_ns, p.attempt) for p in view.histograms(path, attempt)
    ]
    assert found == records("histogram_series")


def put(store, engines, journal):
    """Fold one journal as a run of its own, and return what it shows, by path, and its reader."""
    name = next(runs)
    view = engines.fold(store, name, [journal])
    return {one.path: one.value for one in view.attributes()}, view


def noise(size):
    """Return a text that cannot be compressed into the page of an index."""
    return "".join(random.Random(size).choices(string.ascii_letters + string.digits, k=size))


def test_numbers_come_back_as_they_were(builder, engines, store):
    """To the last bit, whatever a column can hold; only SQLite's tables know no minus zero."""
    floats = [0.1, -0.0, 1e-320, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
    ints = [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**400, -(10**400)]
    journal = builder()
    for at, value in enumerate(floats):
        said = value if math.isfinite(value) else str(value)
        journal.op("assign", atoms={f"f/{at}": ["float", said]})
        journal.row({"series": value, f"s/{at}": value}, at)
    for at, value in enumerate(ints):
        long = value.bit_length() > 2048
        journal.op("assign", atoms={f"i/{at}": ["int", hex(value) if long else value]})
    found, view = put(store, engines, journal)
    for at, value in enumerate(floats):
        assert repr(found[f"s/{at}"].last) == repr(value)
        assert repr(found[f"f/{at}"] + 0.0) == repr(value + 0.0)
    assert [found[f"i/{at}"] for at in range(len(ints))] == ints
    np.testing.assert_array_equal(view.points("series").value, floats)
    row = engines.Tables(store).table(Selection(id=view.name)).rows[0]
    assert [row[f"i/{at}"] for at in range(len(ints))] == ints
    assert [repr(row[f"f/{at}"] + 0.0) for at in range(8)] == [repr(one + 0.0) for one in floats]


def test_texts_come_back_as_they_were(builder, engines, store):
    """Long ones, ones with escapes, ones with characters that SQL or its drivers mind."""
    texts = {
        "long": "ä%s" * (1 << 17),
        "odd": "%s %(x)s %% ? :x '\"`\\ \n\t\x7f {} $1 \U0001f600",
        "escaped": "a\\u0000b",
        "empty": "",
    }
    journal = builder().op("assign", atoms={path: ["string", text] for path, text in texts.items()})
    journal.op("add", path="sys/tags", values=["x" * (1 << 17), *texts.values()])
    journal.texts("log", *enumerate(texts.values()))
    found, view = put(store, engines, journal)
    assert {path: found[path] for path in texts} == texts
    assert found["sys/tags"] == {"x" * (1 << 17), *texts.values()}
    assert [point.text for point in view.texts("log")] == list(texts.values())
    tables = engines.Tables(store)
    for path, text in texts.items():
        if path != "long":
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            for query in (f'{path} = "{quoted}"', f'sys/tags CONTAINS "{quoted}"'):
                assert tables.select(Selection(query=query)) == [("p", view.name)]


def test_text_that_no_database_takes_is_escaped_or_counted(builder, engines, store):
    """NUL in texts, names, headers and paths, and paths that are too long; the rest is kept."""
    journal = builder(header=False)
    header = {**journal.header, "user": "a\0b\udc80", "note": "\0"}
    journal.frame(Kind.HEADER, json.dumps(header).encode()).assign(before=1)
    journal.op("assign", atoms={"text": ["string", "a\0b"], "a\0b": ["int", 1]})
    journal.op("add", path="sys/tags", values=["\0"]).op("delete", paths=["no\0thing", noise(3000)])
    journal.op("files", path="files", members={"\0": {"name": "\0"}})
    journal.op("file", path="file", file={"name": "\0", "sha256": "0"})
    journal.op("state", state="failed", error={"type": "E", "message": "\0"})
    journal.frame(Kind.TEXT, json.dumps({"path": "log", "points": [[0, "\0\ud800"]]}).encode())
    journal.row({"x\0y": 1.0, noise(3000): 1.0, "kept": 1.0}, 0).sparse({"z\0": 1.0}, 1)
    journal.column(noise(70_000), [0], [1.0]).assign(after=1)
    journal.op("assign", atoms={noise(3000): ["int", 1]})
    found, view = put(store, engines, journal)
    assert (found["before"], found["after"], found["kept"].count) == (1, 1, 1)
    assert (found["text"], found["a\\u0000b"]) == ("a\\u0000b", 1)
    assert found["x\\u0000y"].last == found["z\\u0000"].last == 1.0
    assert (found["sys/tags"], found["log"].last) == ({"\\u0000"}, "\\u0000\\ud800")
    assert found["sys/owner"] == "a\\u0000b\\udc80"
    assert view.points("x\\u0000y").value.tolist() == [1.0]
    assert max(map(len, found)) < 100
    (errors,) = (one.errors for one in view.journals())
    assert errors >= 3


def test_asking_for_text_that_no_database_takes_finds_nothing(builder, engines, store):
    _, view = put(store, engines, builder().assign(a=1, b="x").row({"m": 1.0}, 0))
    for path in ("a\0b", "\0", "\ud800", "x" * 100_000):
        assert view.attribute(path) is None
        assert not view.has(path)
        assert view.attributes(path) == view.texts(path) == []
        assert len(view.points(path)) == len(view.curve(path, 10)) == 0
    tables = engines.Tables(store)
    for query in ('b = "\0"', "`\0` = 1", 'sys/tags CONTAINS "\0"', 'b =~ "\0"'):
        assert tables.select(Selection(query=query)) == []
    assert tables.select(Selection(owner="\0")) == tables.select(Selection(id="\ud800")) == []
    assert len(tables.select(Selection(sort_by="\0"))) == 1
    assert tables.table(Selection(), ["\0", "\0*", "\ud800", "a"]).rows[0]["a"] == 1


def test_times_at_the_ends_of_the_scale_are_kept(builder, engines, store):
    early, late = builder("early", t=-(2**63)), builder("late", t=2**63 - 10)
    early.assign(a=1).row({"m": 1.0}, 0)
    late.assign(a=2).row({"m": 2.0}, 1)
    view = engines.fold(store, "clocks", [early, late])
    assert view.attribute("a").value == 2
    assert view.points("m").value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "journals"])
def test_numbers_of_paths_may_change_their_meaning(builder, engines, store, set_groups, chunked):
    """Frames before the change keep the old one, wherever folding stopped in between."""
    set_groups(1, 0 if chunked else 1 << 30)
    journal = builder().row({"a": 1.0, "b": 10.0}, 0)
    journal.frame(Kind.PATH, struct.pack("<I", 0) + b"c").row({"a": 2.0, "b": 20.0}, 1)
    journal.frame(Kind.SCHEMA, struct.pack("<3I", 0, 1, 0)).row({"a": 3.0, "b": 30.0}, 2)
    journal.frame(Kind.PATH, struct.pack("<I", 0) + noise(5000).encode()).row(
        {"a": 4.0, "b": 40.0}, 3
    )
    journal.frame(Kind.PATH, struct.pack("<I", 0) + b"a").row({"a": 5.0, "b": 50.0}, 4)
    wanted = {"a": {0: 1.0, 4: 50.0}, "b": {0: 10.0, 1: 20.0, 2: 3.0, 3: 4.0, 4: 5.0}}
    wanted["c"] = {1: 2.0, 2: 30.0}
    for stride in (1, 2, 3, len(journal.ends)):
        name = next(runs)
        for end in [*journal.ends[stride - 1 :: stride], journal.offset]:
            engines.fold(store, name, [journal], [end])
        view = engines.look(store, name, [journal])
        for path, points in wanted.items():
            found = view.points(path)
            assert dict(zip(found.step.tolist(), found.value.tolist(), strict=True)) == points
        assert view.series_paths() == ["a", "b", "c"]


@pytest.mark.once
def test_hundreds_of_attributes_come_and_go(builder, engines, store):
    journal = builder()
    journal.op("assign", atoms={f"ns/atoms/{at}": ["int", at] for at in range(100)})
    journal.row({f"ns/series/{at}": float(at) for at in range(100)}, 0)
    journal.assign(ns0=1, ns=2).op("assign", atoms={"ns-": ["int", 3], "ns/ä": ["int", 4]})
    before = journal.offset
    journal.op("delete", paths=["ns"]).assign(ns__atoms__7=8)
    engines.fold(store, "many", [journal], [before])
    view = engines.look(store, "many", [journal])
    assert len(view.attributes("ns")) == 202
    assert view.many_points([f"ns/series/{at}" for at in range(100)])["ns/series/9"].value == [9.0]
    engines.fold(store, "many", [journal])
    found = {one.path: one.value for one in view.attributes() if not one.path.startswith("sys/")}
    assert found == {"ns0": 1, "ns-": 3, "ns/atoms/7": 8}
    assert view.series_paths() == []


def test_a_delete_that_comes_late_counts_anew(builder, engines, store, set_groups):
    """Points on both sides of it are in the tables already, and so are groups of them."""
    set_groups(8)
    one, other = builder("one", t=1000), builder("two", t=1009)
    for step in range(20):
        one.row({"m": float(step)}, step)
    other.op("delete", paths=["m"])
    engines.fold(store, "late", [one])
    view = engines.fold(store, "late", [one, other])
    value, points = view.attribute("m").value, view.points("m")
    assert 0 < value.count == len(points) < 20
    assert (value.min, value.last) == (points.value[0], 19.0)
    assert view.curve("m", 1000).count.sum() == value.count


def test_texts_of_postgresql_are_compared_by_code_point():
    """Whatever the language of a database: a namespace is a range of paths, and a query asks <."""
    dialect = postgresql_dialect()
    for table in schema.metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, sa.Text):
                assert 'COLLATE "C"' in column.type.compile(dialect), column


MATCHING = [r"\bbar", "(?<=foo )bar", "(?!foo )bar", "(?i)BAR", "(?m)^line$", "(?ms)bar.line", ""]
MATCHING += ["(?s)bar.line", "(?is)BAR.LINE", r"(?P<x>fo)o", r"(o)\1", "fo{,2} ", "f.*?r"]
MATCHING += [r"\w+\s\d*bar", r"\Afoo", r"line\Z", "(?x) f oo"]


def test_a_pattern_means_the_same_on_each_engine(builder, engines, store):
    """Python's words for edges, lines and counts are put into those of PostgreSQL.

    One that a database cannot read is an error of the query, never one of a driver.
    """
    journal = builder().assign(a="foo bar\nline").op("add", path="s", values=["foo bar\nline"])
    engines.fold(store, "r", [journal])
    tables = engines.Tables(store)
    cases = [*((one, True) for one in MATCHING)]
    cases += [(one, False) for one in (r"oo\B", "BAR", "^bar", "bar.line")]
    for pattern, matches in cases:
        for path in ("a", "s"):
            for operator, wanted in (("=~", matches), ("!~", not matches)):
                query = f"{path} {operator} '{pattern}'"
                assert bool(tables.select(Selection(query=query))) is wanted, query
    try:
        assert len(tables.select(Selection(query="a =~ '(?i:FOO)'"))) == 1
    except QueryError as error:
        assert "the database rejects the regular expression" in str(error)  # noqa: PT017 - PostgreSQL


def test_a_page_asks_few_questions_however_many_paths_it_names(builder, engines, store, questions):
    engines.fold(store, "r", [builder().assign(a=1, b=2, c=3)])
    tables = engines.Tables(store)

    def count(query, columns):
        tables.table(Selection(query=query, sort_by="a", limit=5), columns)  # learns the paths
        questions.clear()
        tables.table(Selection(query=query, sort_by="a", limit=5), columns)
        return len(questions)

    few = count("a > 0", ["a"])
    assert few <= 2
    assert count("a > 0 AND b > 0 AND c > 0", ["a", "b", "c", "sys/state"]) == few
