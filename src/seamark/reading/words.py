"""Words for people: times, durations, sizes, numbers, and names made safe to print."""

from __future__ import annotations

import contextlib
import math
import re
import struct
from datetime import datetime, timezone
from typing import Final

from seamark.reading.ages import age_words

__all__ = [
    "age_text",
    "clean",
    "csv_safe",
    "display_width",
    "float_text",
    "human_bytes",
    "human_number",
    "human_time",
    "int_text",
    "plural",
    "readable",
    "seen_text",
    "shorten",
    "step_text",
    "time_text",
]

_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What a terminal would act on, or what would make a line read differently from what it holds.

Invisible signs that letters and emoji are joined with (U+200C, U+200D) stay.
"""
_SHORT: Final = 0x10000
_KEPT_IN_BLOCKS: Final = "\n\t"
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_STAND_INS: Final = str.maketrans("…·▁▂▃▄▅▆▇█│┤─┬└●→—▲▼", "~._.-:=+*#|+-++o>-^v")
"""For the signs of our own, each as wide as what it stands for, so that columns stay aligned."""
_FORMULAS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001 - full-width ones count
"""How a cell begins that spreadsheets compute; they skip what is white in front."""
_WHITE: Final = ("\t", "\r", "\n")
_BYTE: Final = 256
_KILO: Final = 1000
_ROUNDED: Final = 1e12
"""From here on whole numbers are rounded like others."""
_LONG_NUMBER: Final = 200
_EXACT_INTS: Final = 2.0**53


def clean(text: str, *, block: bool = False) -> str:
    r"""Return ``text`` with everything escaped that a terminal would obey instead of showing.

    Args:
        text: Something a person or a program chose: a run's name, a tag, a path.
        block: Keep line feeds and tabs, for text that is shown as lines of its own.

    Returns:
        The text with control characters, lone surrogates and invisible signs as ``\x1b`` or
        ``\u202e``.
    """
    if text.isprintable():
        return text

    def visible(found: re.Match[str]) -> str:
        char = found.group()
        if block and char in _KEPT_IN_BLOCKS:
            return char
        number = ord(char)
        if number >= _SHORT:
            return f"\\U{number:08x}"
        return _NAMED.get(char) or (f"\\x{number:02x}" if number < _BYTE else f"\\u{number:04x}")

    return _UNSAFE.sub(visible, text)


def csv_safe(text: str) -> str:
    """Return a text for a CSV cell that no spreadsheet takes for a formula.

    One that begins like a formula gets an apostrophe in front; numbers are not to be passed here.
    """
    return f"'{text}" if text.startswith(_WHITE) or text.lstrip().startswith(_FORMULAS) else text


def readable(error: UnicodeError) -> tuple[str, int]:
    r"""Return what to write where the output cannot show a sign, for ``codecs.register_error``.

    Signs of our own have stand-ins in ASCII; what a person chose is escaped, as ``\xb5``.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_STAND_INS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def display_width(text: str) -> int:
    """Return how many terminal cells ``text`` (already `clean`) takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """Return ``text`` cut to ``width`` cells; what was cut shows as an ellipsis.

    Args:
        text: Already `clean`.
        width: Cells to fill at most.
        keep_end: Cut at the front, as the end of a path says more than its beginning.
    """
    if display_width(text) <= width:
        return text
    kept, used = "", 1
    for char in reversed(text) if keep_end else text:
        used += display_width(char)
        if used > width:
            break
        kept = char + kept if keep_end else kept + char
    return "…" + kept if keep_end else kept + "…"


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Return ``"1 run"``, ``"2 runs"``, ``"1,234 runs"``."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def human_number(value: float, digits: int = 5) -> str:
    """Return a number with a few significant digits; whole ones in full up to twelve of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _int_in_short(value)
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == int(value) and abs(value) < _ROUNDED:
        return str(int(value))
    return f"{value:.{digits}g}"


def float_text(value: float) -> str:
    """Return a number with as few digits as tell it from its neighbours.

    Those are neighbours among 32-bit floats if it is one, as most metrics of a network are.
    """
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        with contextlib.suppress(OverflowError):
            if struct.unpack("f", struct.pack("f", short)) == (value,):
                return repr(short)
    return repr(value)


def _int_in_short(number: int) -> str:
    text = int_text(number)
    if len(text) < _LONG_NUMBER:
        return text
    digits = text.lstrip("-")
    count, base = len(digits.removeprefix("0x")), "hexadecimal " * digits.startswith("0x")
    return f"{text[:12]}… ({count} {base}digits)"


def int_text(number: int) -> str:
    """Return a whole number in full; as ``0x...`` if it has more digits than Python writes."""
    try:
        return str(number)
    except ValueError:
        return hex(number)


def step_text(step: float) -> str:
    """Return a step in full, whole ones without a fraction."""
    if abs(step) < _EXACT_INTS and step == int(step):
        return str(int(step))
    return repr(float(step))


def human_bytes(size: float) -> str:
    """Return a size in bytes with a decimal unit: ``"999 B"``, ``"1.2 MB"``."""
    if size < _KILO:
        return f"{int(size)} B"
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if round(size) < _KILO:
            return f"{size:.0f} {unit}" if round(size, 1) >= _KILO / 10 else f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} PB"


def age_text(t_ns: int, now_ns: int) -> str:
    """Return how long ago a moment was; both in nanoseconds since the Unix epoch."""
    return age_words((now_ns - t_ns) / 1e9)


def time_text(t_ns: int) -> str:
    """Return a moment, in nanoseconds since the Unix epoch, in this computer's time zone."""
    return human_time(datetime.fromtimestamp(t_ns / 1e9, tz=timezone.utc))


def seen_text(t_ns: int, now_ns: int) -> str:
    """Return a moment and its age; both in nanoseconds since the Unix epoch."""
    return f"{time_text(t_ns)} ({age_text(t_ns, now_ns)})"


def human_time(moment: datetime) -> str:
    """Return a moment in this computer's time zone, to the second: ``"2026-11-21 08:00:12"``."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
