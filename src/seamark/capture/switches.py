"""Switches for the captures of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.secrets import Secrets

if TYPE_CHECKING:
    from seamark.capture.code.executed import CodeVersion

__all__ = ["Limit", "Switches", "is_switched_off"]


_UNITS: Final = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_UNITS_OF_TEN: Final = {"kb": 10**3, "mb": 10**6, "gb": 10**9}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|b)\s*(/\s*min(?:ute)?)?", re.IGNORECASE)
_WANTED: Final = 'expected an amount such as "1MiB/min", "500MiB" or "1MiB/min, 500MiB"'


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the recorded bytes of one stream; what exceeds it is left out and counted."""

    per_minute: int | None = 1 << 20
    total: int | None = None

    @classmethod
    def of(cls, text: object) -> Limit:
        """Read an amount a minute, one in all, or both with a comma between them.

        Raises TypeError if it is no string, ValueError if it is no amount, is nothing, or names the
        same kind twice.
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


@dataclass(frozen=True, slots=True)
class Switches:
    """Switches for the captures of a run: whether each is on, and its settings.

    Attributes:
        script: The script or the notebook, its arguments, and the version of the code.
        version: Whether a version of the code is made; not where the user gave one.
        version_at_start: Returns the version that was recorded at the start, or None.
        script_file: Whether the script itself is stored; not where the user names the files.
        dependencies: ``"infer"``: keep the packages as a requirements file; or the path of one.
        host: Host name, pid, and where they are: hardware, system, container, cluster, torch.
        stdout: ``"fd"``: at the descriptor, subprocesses and C libraries included.
        git_ref: A path, Neptune's ``GitRef``, None for the script's repository, False for none.
        monitoring_namespace: Path that stands in for ``monitoring/<writer>``.
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
        """Whether anything is wanted of the code that is executed."""
        return self.git or self.script or self.packages or self.dependencies is not None


def is_switched_off(git_ref: Any) -> bool:
    """Return whether git is not to be asked: False, or Neptune's ``GitRef.DISABLED``."""
    return git_ref is False or "disabled" in type(git_ref).__name__.lower()
