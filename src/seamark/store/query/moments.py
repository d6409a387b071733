"""Times as queries write them: of the calendar, or before now."""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta, timezone
from typing import Final

from seamark.store.cells import instant

__all__ = ["MOMENTS", "is_moment", "moment"]

MOMENTS: Final = (
    "a time such as 2026-11-22 or 2026-11-22T10:30, or one before now: -30m, -2h, -1d, -2w, -1M "
    "(minutes, hours, days, weeks, months)"
)
"""What may be written, in words."""

_AGO: Final = re.compile(r"-(\d{1,9})([mhdwM])")
_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MONTHS: Final = 12
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_US: Final = ((1 << 63) - 1) // 1000
_FIRST_US: Final = -_LAST_US
"""No run is older: its times are nanoseconds in 64 bit."""


def is_moment(text: str) -> bool:
    """Return whether a text is a time."""
    return _AGO.fullmatch(text) is not None or instant(text) is not None


def moment(text: str, now_ns: int, *, local: bool = False) -> int | None:
    """Return microseconds since the Unix epoch of a time; None if the text is none.

    Args:
        text: ISO 8601; or so many minutes, hours, days, weeks or months (of the calendar) before
            now, as Neptune writes them: ``"-2h"``, ``"-1M"``.
        now_ns: Nanoseconds since the Unix epoch.
        local: A time that names no offset is in this computer's time zone, else in UTC.
    """
    ago = _AGO.fullmatch(text)
    when = (
        instant(text, local=local) if ago is None else _before(now_ns // 1000, int(ago[1]), ago[2])
    )
    return None if when is None else max(_FIRST_US, min(when, _LAST_US))


def _before(now_us: int, count: int, unit: str) -> int:
    if unit != "M":
        return now_us - count * _UNITS_S[unit] * 1_000_000
    now = _EPOCH + timedelta(microseconds=now_us)
    year, month = divmod(now.year * _MONTHS + now.month - 1 - count, _MONTHS)
    if year < 1:
        return _FIRST_US
    day = min(now.day, calendar.monthrange(year, month + 1)[1])
    since = now.replace(year=year, month=month + 1, day=day) - _EPOCH
    return since // timedelta(microseconds=1)
