from __future__ import annotations

import json
import math
import struct
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.cli._screen import dumps
from seamark.reading.words import (
    age_words,
    clean,
    display_width,
    duration_words,
    float_text,
    human_bytes,
    human_number,
    plain,
    plural,
    shorten,
    step_text,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@given(st.text())
def test_printed_names_hold_nothing_that_a_terminal_obeys(text):
    """No control character, direction mark or lone surrogate reaches the terminal."""
    shown = clean(text)
    assert not any(
        ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000 for char in shown
    )
    assert not set(shown) & set(
        "\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Grüße 日本", "Grüße 日本"),
        ("[red]no markup[/]", "[red]no markup[/]"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("evil\u202etxt", r"evil\u202etxt"),
        ("a\u061cb\U000e0001\U000e0041c", r"a\u061cb\U000e0001\U000e0041c"),
        ("zero\u200bwidth\u2060\u2066", r"zero\u200bwidth\u2060\u2066"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_is_escaped_stays_readable(text, shown):
    """Escapes are visible, everything else stays as it is."""
    assert clean(text) == shown


def test_blocks_keep_their_lines():
    """A traceback keeps line feeds and tabs, and nothing else of the kind."""
    assert clean("a\n\tb\x1b", block=True) == "a\n\tb\\x1b"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (0.0001, "0.0 s"),
        (0.015, "15 ms"),
        (0.0996, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (123, "2 min 3 s"),
        (3600, "1 h"),
        (3661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (math.nan, "?"),
        (-1, "?"),
    ],
)
def test_durations_are_told_in_two_units(seconds, shown):
    """The two greatest units; what cannot be a duration is a question mark."""
    assert duration_words(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (123_456_789_012, "123 GB"),
        (5e18, "5000.0 PB"),
    ],
)
def test_sizes_have_decimal_units(size, shown):
    """Units of 1,000, never a number with four digits before the unit below petabytes."""
    assert human_bytes(size) == shown


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(seconds=-3), "just now"),
        (timedelta(seconds=42), "42 s ago"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(hours=47), "47 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=800), "2.2 y ago"),
        (timedelta(hours=-2), "in 2 h"),
    ],
)
def test_ages_are_told_in_one_unit(ago, shown):
    """Also for a moment in the future, as clocks of hosts differ."""
    assert age_words(ago.total_seconds()) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        (10**30, "1" + "0" * 30),
        pytest.param(10**198, "1" + "0" * 198, id="199 digits"),
        pytest.param(10**199, "100000000000… (200 digits)", id="200 digits"),
        pytest.param(-(16**4400), "-0x100000000… (4401 hexadecimal digits)", id="too long"),
        (True, "true"),
        (1.0, "1"),
        (1234567.0, "1234567"),
        (0.000123456, "0.00012346"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_short_without_lying(value, shown):
    """A few digits, but whole numbers are not rounded."""
    assert human_number(value) == shown


def test_steps_keep_all_their_digits():
    """A step is an address: it is never rounded."""
    assert [step_text(step) for step in (0.0, 10.0, 2.0**53, 0.1, 123456789.25)] == [
        "0",
        "10",
        "9007199254740992.0",
        "0.1",
        "123456789.25",
    ]


def test_wide_letters_count_twice():
    """Columns stay aligned with letters that take two cells, and with accents that take none."""
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1
    assert shorten("日本語", 5) == "日本…"
    assert shorten("short", 5) == "short"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (0.33633333444595337, "0.33633333"),  # as torch has it, in 32 bits
        (0.10000000149011612, "0.1"),
        (100.0, "100.0"),
        (16777216.0, "16777216.0"),
        (1e300, "1e+300"),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_the_digits_that_they_need(value, text):
    """No more than tell them from the next 32-bit float, where they are one."""
    assert float_text(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_a_float_of_32_bits_can_be_read_back(value):
    """From its text, as such a float."""
    assert struct.unpack("f", struct.pack("f", float(float_text(value)))) == (value,)


def test_counted_nouns_agree():
    """One run, two runs, many with separators."""
    assert [plural(n, "run") for n in (0, 1, 1234)] == ["0 runs", "1 run", "1,234 runs"]


def test_json_is_strict_and_exact():
    """NaN and infinities are strings, whole numbers keep all digits, sets are sorted lists."""
    value = {
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "big": 2**200,
        "huge": [10**3000, 16**4400],
        "set": {"b", "a"},
        "when": NOON,
        1: None,
    }
    assert json.loads(dumps(value), parse_constant=pytest.fail) == {
        "nan": "nan",
        "inf": ["inf", "-inf"],
        "big": 2**200,
        "huge": [10**3000, "0x1" + "0" * 4400],
        "set": ["a", "b"],
        "when": NOON.isoformat(),
        "1": None,
    }


def test_json_survives_every_text():
    """Lone surrogates become visible escapes, unknown objects their text."""
    assert dumps("a\ud800").encode() == b'"a\\\\ud800"'
    assert plain(Decimal("1.5")) == "1.5"
