"""Limits on how much output is recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Allowance", "Limit"]

_MINUTE_S: Final = 60.0

_UNITS: Final = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_UNITS_OF_TEN: Final = {"kb": 10**3, "mb": 10**6, "gb": 10**9}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|b)\s*(/\s*min(?:ute)?)?", re.IGNORECASE)
_WANTED: Final = 'expected an amount such as "1MiB/min", "500MiB" or "1MiB/min, 500MiB"'


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the recorded output of one stream; what exceeds it is left out and counted.

    Attributes:
        per_minute: Bytes of UTF-8 in a minute; None for no limit.
        total: Bytes in all; None for no limit.
    """

    per_minute: int | None = 1 << 20
    total: int | None = None

    @classmethod
    def of(cls, text: object) -> Limit:
        """Read an amount a minute, one in all, or both with a comma between them.

        Raises:
            TypeError: If it is no string.
            ValueError: If it is no amount, is nothing, or names the same kind twice.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            msg = f"{_WANTED}, got {type(text).__name__}: {text!r:.80}"
            raise TypeError(msg)
        found: dict[str, int] = {}
        for part in text.split(","):
            kind, amount = _amount(part)
            if amount <= 0 or kind in found:
                msg = f"{_WANTED}, got {text!r:.80}"
                raise ValueError(msg)
            found[kind] = amount
        return cls(found.get("per_minute"), found.get("total"))


def _amount(part: str) -> tuple[str, int]:
    matched = _AMOUNT.fullmatch(part.strip())
    if matched is None:
        return "", 0
    number, unit, a_minute = matched.groups()
    amount = int(float(number) * {**_UNITS, **_UNITS_OF_TEN}[unit.lower()])
    return "per_minute" if a_minute else "total", amount


class Allowance:
    """Amount of output that may still be recorded of one stream.

    Args:
        limit: Limit of the stream.
    """

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._total = self._minute = 0
        self._until = float("-inf")

    def left(self, now: float) -> int | None:
        """Return how many bytes may be recorded now; None for any number.

        Args:
            now: In seconds, on a clock that never steps back.
        """
        if now >= self._until:
            self._until, self._minute = now + _MINUTE_S, 0
        limit = self._limit
        amounts = [] if limit.total is None else [limit.total - self._total]
        if limit.per_minute is not None:
            amounts.append(limit.per_minute - self._minute)
        return min(amounts) if amounts else None

    def spend(self, count: int) -> None:
        """Take note of bytes that are recorded."""
        self._minute += count
        self._total += count

    def end(self) -> None:
        """Use up the limit that has less left, because the next text did not fit."""
        total, a_minute = self._limit.total, self._limit.per_minute
        if total is not None and (
            a_minute is None or total - self._total < a_minute - self._minute
        ):
            self._total = total
        elif a_minute is not None:
            self._minute = a_minute

    @property
    def why(self) -> str:
        """Description of the limit that is used up, such as ``"1 MiB in one minute"``."""
        total, a_minute = self._limit.total, self._limit.per_minute
        if total is not None and (a_minute is None or self._total >= total):
            return f"{_shown(total)} in all"
        return f"{_shown(a_minute or 0)} in one minute"


def _shown(count: int) -> str:
    """Return a number of bytes in the largest unit of which it is a whole number."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} bytes"
