"""Switches for the captures of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.secrets import Secrets

if TYPE_CHECKING:
    from seamark.capture.code.executed import CodeVersion


_UNITS: Final = {
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|b)\s*(/\s*min(?:ute)?)?", re.IGNORECASE)
_EXPECTED: Final = 'expected an amount such as "1MiB/min", "500MiB" or "1MiB/min, 500MiB"'


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the recorded bytes of one stream; the excess is left out and counted."""

    per_minute: int | None = 1 << 20
    total: int | None = None

    @classmethod
    def of(cls, text: object) -> Limit:
        """Parse an amount per minute, a total amount, or both separated by a comma.

        Raises TypeError if ``text`` is not a string. Raises ValueError if it is not an amount, is
        zero, or has the same kind twice.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise TypeError(f"{_EXPECTED}, got {type(text).__name__}: {text!r:.80}")
        found: dict[str, int] = {}
        for part in text.split(","):
            kind, amount = _parse_amount(part)
            if amount <= 0 or kind in found:
                raise ValueError(f"{_EXPECTED}, got {text!r:.80}")
            found[kind] = amount
        return cls(found.get("per_minute"), found.get("total"))


def _parse_amount(part: str) -> tuple[str, int]:
    matched = _AMOUNT.fullmatch(part.strip())
    if matched is None:
        return "", 0
    number, unit, a_minute = matched.groups()
    amount = int(float(number) * _UNITS[unit.lower()])
    return "per_minute" if a_minute else "total", amount


@dataclass(frozen=True, slots=True)
class Switches:
    """Settings for the captures of a run.

    Attributes:
        script: Whether the script or notebook, its arguments, and the version of the code are
            recorded.
        version: Whether a version of the code is created; False if the user gave one.
        version_at_start: Function that returns the version recorded at the start, or None.
        script_file: Whether the script itself is stored; False if the user named the files.
        dependencies: Path of a requirements file to store, or ``"infer"`` to create one.
        host: Whether host name, pid, hardware, system, container, cluster and torch are recorded.
        stdout: Whether output is recorded; ``"fd"`` includes subprocesses and C libraries.
        git_ref: Path or Neptune's ``GitRef``; None is the script's repository, False disables git.
        monitoring_namespace: Path to use instead of ``monitoring/<writer>``.
    """

    git: bool = True
    script: bool = True
    version: bool = True
    version_at_start: Callable[[], CodeVersion | None] = lambda: None
    script_file: bool = True
    packages: bool = True
    dependencies: str | None = None
    host: bool = True
    traceback: bool = True
    signals: bool = True
    stdout: bool | str = True
    stderr: bool | str = True
    limit: Limit = field(default_factory=Limit)
    hardware_metrics: bool = True
    git_ref: Any = None
    monitoring_namespace: str | None = None
    fail_on_exception: bool = True
    secrets: Secrets = field(default_factory=Secrets)

    @property
    def finds_code(self) -> bool:
        """Whether any fact about the executed code is recorded."""
        return self.git or self.script or self.packages or self.dependencies is not None


def is_switched_off(git_ref: Any) -> bool:
    """Return whether git is disabled by False or Neptune's ``GitRef.DISABLED``."""
    return git_ref is False or "disabled" in type(git_ref).__name__.lower()
