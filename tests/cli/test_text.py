from __future__ import annotations

import json
import math
import struct
from datetime import datetime, timezone
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
def test_escapes_are_visible_and_the_rest_is_unchanged(text, shown):
    assert clean(text) == shown
    assert clean("a\n\tb\x1b", block=True) == "a\n\tb\\x1b"  # a traceback keeps its lines


WORDS = [
    (duration_words, 0, "0.0 s"),
    (duration_words, 0.0001, "0.0 s"),
    (duration_words, 0.015, "15 ms"),
    (duration_words, 0.0996, "0.1 s"),
    (duration_words, 9.94, "9.9 s"),
    (duration_words, 9.96, "10 s"),
    (duration_words, 59.6, "1 min"),
    (duration_words, 60, "1 min"),
    (duration_words, 123, "2 min 3 s"),
    (duration_words, 3600, "1 h"),
    (duration_words, 3661, "1 h 1 min"),
    (duration_words, 90_000, "1 d 1 h"),
    (duration_words, math.nan, "?"),
    (duration_words, -1, "?"),
    (human_bytes, 0, "0 B"),
    (human_bytes, 999, "999 B"),
    (human_bytes, 1000, "1.0 kB"),
    (human_bytes, 999_950, "1.0 MB"),
    (human_bytes, 12_345_678, "12.3 MB"),
    (human_bytes, 123_456_789_012, "123 GB"),
    (human_bytes, 5e18, "5000.0 PB"),
    (age_words, 3, "just now"),
    (age_words, -3, "just now"),  # clocks of hosts differ
    (age_words, 42, "42 s ago"),
    (age_words, 5 * 60, "5 min ago"),
    (age_words, 47 * 3600, "47 h ago"),
    (age_words, 3 * 86_400, "3 d ago"),
    (age_words, 800 * 86_400, "2.2 y ago"),
    (age_words, -2 * 3600, "in 2 h"),
    (human_number, 1, "1"),
    (human_number, 10**30, "1" + "0" * 30),
    (human_number, 10**198, "1" + "0" * 198),
    (human_number, 10**199, "100000000000… (200 digits)"),
    (human_number, -(16**4400), "-0x100000000… (4401 hexadecimal digits)"),
    (human_number, True, "true"),
    (human_number, 1.0, "1"),
    (human_number, 1234567.0, "1234567"),
    (human_number, 0.000123456, "0.00012346"),
    (human_number, math.nan, "nan"),
    (human_number, -math.inf, "-inf"),
    (human_number, 1e300, "1e+300"),
    (step_text, 0.0, "0"),  # a step is never rounded
    (step_text, 10.0, "10"),
    (step_text, 2.0**53, "9007199254740992.0"),
    (step_text, 0.1, "0.1"),
    (step_text, 123456789.25, "123456789.25"),
    (float_text, 0.1, "0.1"),
    (float_text, 1 / 3, "0.3333333333333333"),
    (float_text, 0.33633333444595337, "0.33633333"),  # as torch has it, in 32 bits
    (float_text, 0.10000000149011612, "0.1"),
    (float_text, 100.0, "100.0"),
    (float_text, 16777216.0, "16777216.0"),
    (float_text, 1e300, "1e+300"),
    (float_text, -0.0, "-0.0"),
    (float_text, 5e-324, "5e-324"),
    (float_text, math.inf, "inf"),
    (float_text, math.nan, "nan"),
]


def test_numbers_sizes_durations_and_ages_are_short_and_correct():
    for function, value, shown in WORDS:
        assert function(value) == shown, (function, shown)
    assert [plural(n, "run") for n in (0, 1, 1234)] == ["0 runs", "1 run", "1,234 runs"]


def test_wide_letters_take_two_cells_and_accents_none():
    assert (display_width("日本"), display_width("e\u0301")) == (4, 1)
    assert (shorten("日本語", 5), shorten("short", 5)) == ("日本…", "short")


@given(st.floats(width=32, allow_nan=False))
def test_text_of_a_32_bit_float_is_that_float(value):
    assert struct.unpack("f", struct.pack("f", float(float_text(value)))) == (value,)


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
    assert dumps("a\ud800").encode() == b'"a\\\\ud800"'
    assert plain(Decimal("1.5")) == "1.5"
