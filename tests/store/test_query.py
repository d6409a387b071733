"""The grammar: queries, their meaning, and the places of mistakes."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import QueryError
from seamark.store.query.expression import And, Comparison, Field, Not, Or, Value
from seamark.store.query.kinds import moment
from seamark.store.query.language import parse, parse_field


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("val/loss >", "expected a value, got the end at column 11"),
        ("= 3", "expected a path, got '=' at column 1"),
        ("a b", "expected an operator such as = or <, got 'b' at column 3"),
        ("a = 3 b = 4", "expected AND or OR, got 'b' at column 7"),
        ("a = 3)", "expected AND, OR or the end, got '\\)' at column 6"),
        ("(a = 3", "expected '\\)', got the end at column 7"),
        ('a = "abc', 'expected a closing " for the opening one at column 5'),
        ("`abc = 3", "expected a closing ` for the opening one at column 1"),
        ("val/loss:median < 3", "expected one of last, min, .*got 'median' at column 9"),
        ('a =~ "("', "expected a valid regular expression.*at column 6"),
        ("a:bool = 3", "expected true or false for 'a', got '3' at column 10"),
        ("a:stringSet = x", "expected CONTAINS or IN for a string set, got '=' at column 13"),
        ("sys/tags = x", "expected CONTAINS or IN for a string set, got '=' at column 10"),
        ("sys/running_time > 1h", "expected a number for 'sys/running_time', got '1h'"),
        ("sys/state != compleated", "got 'compleated' at column 14; did you mean 'completed'"),
        ("sys/state = done", "got 'done' at column 13; did you mean 'completed'"),
        ("sys/state = error", "got 'error', a group .*; use IN \\(interrupted, failed, crashed\\)"),
        ("sys/state > failed", "expected =, != or IN for a state, got '>' at column 11"),
        ("sys/state:float = 3", "'sys/state' is a text, not a number at column 1"),
        ("sys/name:max = 3", "'sys/name' is a text, not a series: it has no max at column 1"),
        ("sys/creation_time > -1y", "-1M .minutes, hours, days, weeks, months.*, got '-1y'"),
        ("t:datetime > 3", "expected a time such as .* for 't', got '3' at column 14"),
        ("a:count CONTAINS 3", "expected = or < for a number, got CONTAINS at column 9"),
        ("a IN 3", "expected '\\(', got '3' at column 6"),
        ("a IN (1 2)", "expected '\\)' or ',', got '2' at column 9"),
        ("a:float IN (1, x)", "expected a number for 'a', got 'x' at column 16"),
        ("a > true", "expected = or != before true, got '>' at column 3"),
        ("a = 3 AND\n  b ! 4", "at line 2, column 5"),
    ],
)
def test_a_mistake_is_shown_with_its_place(query, message):
    with pytest.raises(QueryError, match=message) as caught:
        parse(query)
    *_, line, caret = str(caught.value).splitlines()
    assert line.strip() in query
    assert caret.strip() == "^"


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("-0m", "2024-03-31T12:00:00"),
        ("-30m", "2024-03-31T11:30:00"),
        ("-2h", "2024-03-31T10:00:00"),
        ("-1d", "2024-03-30T12:00:00"),
        ("-2w", "2024-03-17T12:00:00"),
        ("-1M", "2024-02-29T12:00:00"),
        ("-3M", "2023-12-31T12:00:00"),
        ("-12M", "2023-03-31T12:00:00"),
        ("2024-03-01", "2024-03-01T00:00:00"),
        *((text, None) for text in ("", "-1", "1d", "-1y", "- 1d", "-1.5h", "-1D", "+1d", "now")),
    ],
)
def test_times_before_now_are_of_the_clock_and_months_of_the_calendar(text, when):
    """As Neptune writes them, m is a minute and M a month; the day of a shorter one is its last.

    Where a time zone leads out of the calendar, the time is taken as it is.
    """

    def seconds(time):
        return int(datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp())

    found = moment(text, seconds("2024-03-31T12:00:00") * 10**9)
    assert found == (when if when is None else seconds(when) * 10**6)
    for end in ("0001-01-01", "9999-12-31T23:59:59"):
        assert moment(end, 0, local=True) is not None


@pytest.mark.parametrize("opening", ["NOT ", "("])
@pytest.mark.parametrize("depth", [101, 5000])
def test_nesting_has_a_limit(opening, depth):
    with pytest.raises(QueryError, match="at most 100 nested"):
        parse(opening * depth + "a = 1" + ")" * depth * (opening == "("))


@given(st.text(alphabet="ab/`\"'()<>=!~: ,\\.1-\nANDORINT", max_size=40))
def test_nothing_but_a_query_error_comes_out_of_bad_text(text):
    try:
        parse(text)
    except QueryError as error:
        assert str(error).startswith("query: ")  # noqa: PT017 - most texts raise nothing


def comparison(path, operator, value, **field):
    return Comparison(Field(path, **field), operator, (Value(value, str(value)),))


def among(path, *values):
    return Comparison(Field(path), "in", tuple(Value(value, str(value)) for value in values))


TRUE = Value(value=True, text="true")
FALSE = Comparison(Field("sys/trashed", None, "bool"), "=", (Value(value=False, text="false"),))
A, B, C = (comparison(path, "=", 1) for path in "abc")


@pytest.mark.parametrize(
    ("query", "meaning"),
    [
        ("", And(())),
        ("a = 1", comparison("a", "=", 1)),
        ("a == -1", comparison("a", "=", -1)),
        ("a>=.5e-3", Comparison(Field("a"), ">=", (Value(5e-4, ".5e-3"),))),
        ("a <> x", comparison("a", "!=", "x")),
        ("a = TRUE", Comparison(Field("a"), "=", (Value(value=True, text="TRUE"),))),
        ("`a b:c` = 'd e'", comparison("a b:c", "=", "d e")),
        (r'a = "say \"hi\""', comparison("a", "=", 'say "hi"')),
        (r'a =~ "^\d+$"', comparison("a", "matches", r"^\d+$")),
        ("a MATCHES b", comparison("a", "matches", "b")),
        ("a =~ 3", Comparison(Field("a"), "matches", (Value("3", "3"),))),
        ("a:float > 1", comparison("a", ">", 1, type="float")),
        ("a:float > '1.5'", Comparison(Field("a", None, "float"), ">", (Value(1.5, "1.5"),))),
        ("a:string = 5", Comparison(Field("a", None, "string"), "=", (Value("5", "5"),))),
        ("`a`:floatSeries:min < 1", comparison("a", "<", 1, aggregate="min", type="float_series")),
        ("average(a) < 1", comparison("a", "<", 1, aggregate="mean")),
        (
            "max(`a b`:floatSeries) < 1",
            comparison("a b", "<", 1, aggregate="max", type="float_series"),
        ),
        ("min = 1", comparison("min", "=", 1)),
        ("not/a = 1", comparison("not/a", "=", 1)),
        ("1/loss = 1", comparison("1/loss", "=", 1)),
        ("sys/name IN (1)", Comparison(Field("sys/name"), "in", (Value("1", "1"),))),
        ("t NOT CONTAINS x", Not(comparison("t", "contains", "x"))),
        ("() AND (a = 1)", And((And(()), comparison("a", "=", 1)))),
        ("a IN (1, 'b, c',d)", among("a", 1, "b, c", "d")),
        ("a NOT IN (x)", Not(among("a", "x"))),
        ("in/a = 1 AND `in` IN (in)", And((comparison("in/a", "=", 1), among("in", "in")))),
        ("sys/state = 'Failed'", comparison("sys/state", "=", "failed")),
        ("sys/trashed = 'true'", Comparison(Field("sys/trashed"), "=", (TRUE,))),
        ("t:datetime > -2h", comparison("t", ">", "-2h", type="datetime")),
        ("a IS MISSING", Comparison(Field("a"), "missing")),
        ("a is not null", Not(Comparison(Field("a"), "missing"))),
        # AND binds tighter than OR, and NOT tighter than both.
        ("a=1 or b=1 and not c=1", Or((A, And((B, Not(C)))))),
        # The client of neptune writes this.
        (
            '((`sys/trashed`:bool = false) AND (`sys/tags`:stringSet CONTAINS "best"))',
            And((FALSE, comparison("sys/tags", "contains", "best", type="string_set"))),
        ),
    ],
)
def test_a_query_means_what_it_says(query, meaning):
    assert parse(query) == meaning


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("val/loss:min", Field("val/loss", "min")),
        ("a:float", Field("a", None, "float")),
        ("`val/loss`:avg", Field("val/loss", "mean")),
        ("a:b", Field("a:b")),
        ("a:b:max", Field("a:b", "max")),
        (":min", Field(":min")),
    ],
)
def test_a_column_is_a_path_with_or_without_an_aggregate(column, field):
    assert parse_field(column) == field


def test_a_query_or_column_that_is_none_is_refused():
    """Such as the objects of neptune's query builder."""
    with pytest.raises(QueryError, match=r"expected a string, .* got int: 3"):
        parse(3)
    for column in ("", "``", None, 3):
        with pytest.raises(QueryError, match="column: expected a path"):
            parse_field(column)
