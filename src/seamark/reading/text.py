"""Human-readable text: numbers, units, ages, values and suggestions."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any, Final

from seamark.reading.attributes import Attribute, SeriesTail
from seamark.reading.contents import source_label
from seamark.values.aggregates import Keep
from seamark.values.statistics import Statistics

_MAX_COMPARED: Final = 5000
"""Maximum number of paths compared with a mistyped one, to limit the delay."""
_LONGEST: Final = 256


def hint_for(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``"; did you mean 'x'?"`` for the most similar known word, else ``otherwise``."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else otherwise


def near_paths(path: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the known paths that are similar to a path or pattern, the most similar first.

    These are paths with the same end, such as ``val/loss`` for ``loss``; paths below it; the path
    with the most similar spelling; and paths with the same last segment.
    """
    if not path or len(path) > _LONGEST:
        return
    paths = [one for one in islice(known, _MAX_COMPARED) if len(one) <= _LONGEST]
    wanted, last = path.lower(), path.rpartition("/")[2]
    yield from sorted((one for one in paths if f"/{one.lower()}".endswith(f"/{wanted}")), key=len)
    yield from (one for one in paths if one.startswith(f"{path}/"))
    yield from difflib.get_close_matches(path, paths, 1)
    yield from (one for one in paths if one.rpartition("/")[2] == last)


def nearest_path(path: str, known: Iterable[str]) -> str | None:
    """Return the known path that is most similar to a path; None if there is none."""
    return next(near_paths(path, known), None)


_SPACE: Final = "monitoring"
_FACTS: Final = "environment"
_MIN_PARTS: Final = 2
UNITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cpu", "gpu"), "%"),
    **dict.fromkeys(("memory", "process_memory", "gpu_memory", "disk_free"), "GiB"),
    **dict.fromkeys(("disk_read_rate", "disk_write_rate"), "MiB/s"),
    **dict.fromkeys(("network_receive_rate", "network_send_rate"), "MiB/s"),
    "gpu_power": "W",
    "gpu_temperature": "°C",
    "process_cores": "cores",
}
"""Units of series, by the last segment of the path without a device number."""
FACT_UNITS: Final[Mapping[str, str]] = dict.fromkeys(
    ("memory", "memory_limit", "gpu_memory"), "GiB"
)
"""Units of facts about a machine, by name."""


def is_measured(path: str) -> bool:
    """Return whether a path is in the namespace of machine measurements."""
    return path.partition("/")[0] == _SPACE


def unit_of(path: str) -> str:
    """Return the unit of a machine series or fact, such as ``"GiB"``; empty if unknown."""
    parts = path.split("/")
    if not is_measured(path) or len(parts) < _MIN_PARTS:
        return ""
    name, _, number = parts[-1].rpartition("_")
    if not (number.isascii() and number.isdecimal()):
        name = parts[-1]
    return (FACT_UNITS if parts[-2] == _FACTS else UNITS).get(name, "")


def shared_unit(paths: Iterable[str]) -> str:
    """Return the common unit of paths; empty if there is none."""
    units = {unit_of(path) for path in paths}
    return units.pop() if len(units) == 1 else ""


_TENTH_MS: Final = 100
_SOON_S: Final = 10
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_AGES: Final = (
    (_MINUTE_S, 1, "s"),
    (_HOUR_S, _MINUTE_S, "min"),
    (2 * _DAY_S, _HOUR_S, "h"),
    (365 * _DAY_S, _DAY_S, "d"),
)
"""Limits of ages in a unit, sizes of the units and the units, in seconds."""
_DURATIONS: Final = (
    (_DAY_S, "d", _HOUR_S, "h"),
    (_HOUR_S, "h", _MINUTE_S, "min"),
    (_MINUTE_S, "min", 1, "s"),
    (1, "s", 1, ""),
)
"""Sizes and names of a unit and the next smaller one, in seconds."""


def age_words(seconds: float) -> str:
    """Return an age in seconds as text: ``"5 min ago"``, or ``"in 2 h"`` if negative."""
    age = abs(seconds)
    if age < _SOON_S:
        return "just now"
    words = f"{age / (365.25 * _DAY_S):.1f} y"
    for limit, size, unit in _AGES:
        if age < limit:
            words = f"{int(age // size)} {unit}"
            break
    return f"{words} ago" if seconds > 0 else f"in {words}"


def duration_words(seconds: float) -> str:
    """Return a duration in its two largest units: ``"15 ms"``, ``"0.4 s"``, ``"2 min 3 s"``."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if 0 < round(seconds * 1000) < _TENTH_MS:
        return f"{round(seconds * 1000)} ms"
    if round(seconds, 1) < _SOON_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    size, unit, lower_size, lower = next(one for one in _DURATIONS if whole >= one[0])
    rest = whole % size // lower_size
    return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"


def seconds_text(seconds: float) -> str:
    """Return a short time with its unit: ``"61.3 ms"``; empty for NaN."""
    if math.isnan(seconds):
        return ""
    if seconds >= 1000:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    for least, unit, size in ((1, "s", 1), (1e-3, "ms", 1e3)):
        if seconds >= least:
            return f"{seconds * size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"  # it may be printed by a terminal without "µ"


_LONG_BITS: Final = 2048
"""Number of bits below which Python converts every integer to decimal."""


def plain(value: Any) -> Any:
    """Return a value that strict JSON can represent.

    NaN and infinities become ``"nan"``, ``"inf"`` and ``"-inf"`` (null would mean "nothing
    recorded"), integers of thousands of digits ``"0x..."`` (Python limits decimal conversion),
    times ISO 8601, sets sorted lists, and other objects their text.
    """
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, int):
        text = "" if value.bit_length() < _LONG_BITS else int_text(value)
        return text if "x" in text else value
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else "nan"
            if math.isnan(value)
            else "inf"
            if value > 0
            else "-inf"
        )
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return plain(value.item())
    return _text(str(value))


def _text(text: str) -> str:
    # UTF-8 cannot encode lone surrogates.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


_MAX_BYTES: Final = 1 << 63
"""Maximum plausible file size, in bytes; a record may claim any size."""
_DIGITS: Final = 8
"""Number of digits of a digest that are shown."""


def value_text(value: Any, *, exact: bool) -> str:
    """Return an atom or a set on one line; if exact, with all digits and ISO 8601 times."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return float_text(value) if exact else human_number(value, 6)
    if isinstance(value, int):
        return int_text(value) if exact else human_number(value)
    if isinstance(value, datetime):
        return value.isoformat() if exact else human_time(value)
    if isinstance(value, set | frozenset):
        return ", ".join(clean(str(item)) for item in sorted(value))
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, SeriesTail):
        return f"{plural(value.count, 'point')}, last: {last_text(value)}"
    if isinstance(value, Statistics) and value.count:
        mean, std = (value_text(one, exact=exact) for one in (value.mean, value.std))
        return f"{mean} ± {std}, {plural(value.count, 'observation')}"
    if isinstance(value, Keep):
        last = value_text(value.last, exact=exact)
        return f"{last}, {plural(value.count, 'observation')}"
    return clean(json.dumps(plain(value), ensure_ascii=False))


def short_text(attribute: Attribute, *, exact: bool) -> str:
    """Return the value of an attribute on one line; see `value_text`."""
    value = attribute.value
    if attribute.type == "text" and isinstance(value, Mapping):
        return f"text of {human_bytes(value.get('size', 0))}"
    if attribute.family in ("file", "file_set"):
        return file_text(value, exact=exact)
    if attribute.family == "artifact":
        if "of" in value:
            return clean(f"{value.get('kind')}: {source_label(value['of'])}")
        return f"artifact of {plural(len(value.get('files') or ()), 'file')}"
    return value_text(value, exact=exact)


def last_text(tail: SeriesTail) -> str:
    """Return the last point of a text, file or histogram series on one line."""
    last = tail.last
    if isinstance(last, Mapping):
        last = str(last.get("name") or last.get("ext") or "file")
    elif isinstance(last, Sequence) and last and not isinstance(last, str):
        last = f"{len(last[-1])} bins"
    return clean(last or "")


def file_name(record: Mapping[str, Any]) -> str:
    """Return the name of a file with extension."""
    name, ending = str(record.get("name") or "file"), record.get("ext")
    return name if not ending or name.endswith(f".{ending}") else f"{name}.{ending}"


def file_text(value: Any, *, exact: bool) -> str:
    """Return name, size and digest (abbreviated unless exact) of a file, or the size of a set."""
    if not isinstance(value, Mapping):
        return value_text(value, exact=exact)
    if all(isinstance(member, Mapping) for member in value.values()):
        return plural(len(value), "file")
    parts = [str(value.get("name") or value.get("ref") or "file")]
    if isinstance(value.get("size"), int) and abs(value["size"]) < _MAX_BYTES:
        parts.append(human_bytes(value["size"]))
    if isinstance(value.get("sha256"), str):
        parts.append(value["sha256"] if exact else value["sha256"][:_DIGITS])
    if "lost" in value:
        parts.append(f"lost: {value['lost']}")
    return clean(" ".join(parts))


_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that may control a terminal or disguise the content of a line.

The joiners of letters and emoji (U+200C, U+200D) are not included.
"""
_SHORT: Final = 0x10000
_KEPT_IN_BLOCKS: Final = "\n\t"
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ASCII_SYMBOLS: Final = str.maketrans("⚠…·▁▂▃▄▅▆▇█│┤─┬└●→—▲▼", "!~._.-:=+*#|+-++o>-^v")
"""ASCII replacements for our symbols, of equal width, so that columns stay aligned."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001 - full-width ones count
"""First characters of cells that spreadsheets evaluate, after any white space."""
_WHITE: Final = ("\t", "\r", "\n")
_BYTE: Final = 256
_KILO: Final = 1000
_MIN_ROUNDED: Final = 1e12
"""Lowest whole float that is rounded like other floats."""
_LONG_NUMBER: Final = 200
_EXACT_INTS: Final = 2.0**53


def clean(text: str, *, block: bool = False) -> str:
    """Return ``text`` with all characters escaped that may control a terminal."""
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
    """Return a text as a CSV cell that no spreadsheet evaluates as a formula; not for numbers."""
    return (
        f"'{text}" if text.startswith(_WHITE) or text.lstrip().startswith(_FORMULA_STARTS) else text
    )


def readable(error: UnicodeError) -> tuple[str, int]:
    r"""Return a substitute for unencodable characters; an error handler of `codecs`.

    Our own symbols have ASCII replacements; other characters are escaped, as in ``\xb5``.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII_SYMBOLS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def display_width(text: str) -> int:
    """Return the width of ``text`` (already `clean`) in terminal cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """Return a `clean` text, truncated to ``width`` cells at its end or start, with an ellipsis."""
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
    """Return a count and a noun: ``"1 run"``, ``"2 runs"``, ``"1,234 runs"``."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def human_number(value: float, digits: int = 5) -> str:
    """Return a number with a few significant digits; whole numbers in full up to 12 digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _int_in_short(value)
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == int(value) and abs(value) < _MIN_ROUNDED:
        return str(int(value))
    return f"{value:.{digits}g}"


def float_text(value: float) -> str:
    """Return the shortest exact text of a number, as a float32 if it is one."""
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
    """Return an integer in full; as ``0x...`` if it has more digits than Python converts."""
    try:
        return str(number)
    except ValueError:
        return hex(number)


def step_text(step: float) -> str:
    """Return a step in full, without a fraction if it is whole."""
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
    """Return the age of a time as text; both times in nanoseconds since the Unix epoch."""
    return age_words((now_ns - t_ns) / 1e9)


def time_text(t_ns: int) -> str:
    """Return a time, in nanoseconds since the Unix epoch, as text in this computer's time zone."""
    return human_time(datetime.fromtimestamp(t_ns / 1e9, tz=timezone.utc))


def seen_text(t_ns: int, now_ns: int) -> str:
    """Return a time and its age as text; both times in nanoseconds since the Unix epoch."""
    return f"{time_text(t_ns)} ({age_text(t_ns, now_ns)})"


def human_time(moment: datetime) -> str:
    """Return a datetime in this computer's time zone, to the second: ``"2026-11-21 08:00:12"``."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
