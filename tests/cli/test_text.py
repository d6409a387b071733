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
from seamark.reading.text import (
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


def test_escapes_are_visible_and_the_rest_is_unchanged():
    for text, shown in {
        "plain": "plain",
        "👩\u200d🔬": "👩\u200d🔬",
        "\x1b[31mred\x07": r"\x1b[31mred\x07",
        "a\nb\tc\r": r"a\nb\tc\r",
        "evil\u202etxt": r"evil\u202etxt",
        "a\u061cb\U000e0001\U000e0041c": r"a\u061cb\U000e0001\U000e0041c",
        "zero\u200bwidth\u2060\u2066": r"zero\u200bwidth\u2060\u2066",
        "\ud800": r"\ud800",
    }.items():
        assert clean(text) == shown
    assert clean("a\n\tb\x1b", block=True) == "a\n\tb\\x1b"  # a traceback keeps its lines


def words(function, *given):
    return ", ".join(map(function, given))


def test_durations_have_two_units_sizes_and_ages_one():
    assert words(duration_words, 0, 0.0001, 0.015, 0.0996) == "0.0 s, 0.0 s, 15 ms, 0.1 s"
    assert (
        words(duration_words, 9.94, 9.96, 59.6, 60, 123) == "9.9 s, 10 s, 1 min, 1 min, 2 min 3 s"
    )
    assert words(duration_words, 3600, 3661, 90_000) == "1 h, 1 h 1 min, 1 d 1 h"
    assert words(human_bytes, 0, 999, 1000, 999_950) == "0 B, 999 B, 1.0 kB, 1.0 MB"
    assert words(human_bytes, 12_345_678, 123_456_789_012) == "12.3 MB, 123 GB"
    # Clocks of hosts differ.
    assert words(age_words, 3, -3, -2 * 3600) == "just now, just now, in 2 h"
    assert words(age_words, 42, 5 * 60, 47 * 3600) == "42 s ago, 5 min ago, 47 h ago"
    assert words(age_words, 3 * 86_400, 800 * 86_400) == "3 d ago, 2.2 y ago"


def test_numbers_are_short_and_integers_and_steps_never_rounded():
    assert words(human_number, 1, 10**30) == "1, 1" + "0" * 30
    assert words(human_number, 10**199) == "100000000000… (200 digits)"
    assert words(human_number, True, 1.0, 1234567.0) == "true, 1, 1234567"  # noqa: FBT003
    assert words(human_number, 0.000123456, 1e300) == "0.00012346, 1e+300"
    assert words(human_number, math.nan, -math.inf) == "nan, -inf"
    assert words(step_text, 0.0, 10.0, 2.0**53) == "0, 10, 9007199254740992.0"
    assert words(step_text, 0.1, 123456789.25) == "0.1, 123456789.25"
    assert words(float_text, 0.1, 1 / 3, 100.0) == "0.1, 0.3333333333333333, 100.0"
    # As torch has them, in 32 bits.
    assert words(float_text, 0.33633333444595337, 0.10000000149011612) == "0.33633333, 0.1"
    assert words(float_text, 16777216.0, 1e300) == "16777216.0, 1e+300"
    assert words(float_text, -0.0, 5e-324, math.inf, math.nan) == "-0.0, 5e-324, inf, nan"


def test_plurals_agree_and_wide_letters_take_two_cells():
    assert [plural(n, "run") for n in (0, 1, 1234)] == ["0 runs", "1 run", "1,234 runs"]
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
