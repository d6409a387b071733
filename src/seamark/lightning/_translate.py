"""From Lightning's words to ours: metric names, run names, statuses."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from seamark.values import Atom

__all__ = [
    "MetricPaths",
    "can_hold",
    "folder_name",
    "masked",
    "state_after",
]

_DEVICE: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_STOPPED_BY_SIGNAL: Final = frozenset({"SIGTERMException", "ExitGracefullyException"})


class MetricPaths(dict[str, str]):
    """Attribute path of every metric name seen, made once.

    Args:
        prefix: Namespace of the metrics; empty for none.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def __missing__(self, name: str) -> str:
        """Make the path; whether it is a legal one is for the run to say."""
        path = self[name] = f"{self.prefix}/{name}" if self.prefix else str(name)
        return path

    def __reduce__(self) -> Any:
        """Travel without the paths."""
        return MetricPaths, (self.prefix,)


def folder_name(name: str) -> str:
    """Return free text as a name that every file system takes, at most 84 characters long."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:80].rstrip(".")
    return f"run-{safe}".rstrip("-") if not safe or _DEVICE.fullmatch(safe) else safe


def masked(atom: Atom, secret: str | None) -> Atom:
    """Return an atom without the secret, which may stand in a configuration."""
    if secret and isinstance(atom.value, str) and secret in atom.value:
        return Atom(atom.type, atom.value.replace(secret, "***"))
    return atom


def can_hold(folder: Path) -> bool:
    """Tell whether files can be put into a folder, which may have to be made."""
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def state_after(
    status: str, error: BaseException | None
) -> tuple[str | None, BaseException | None]:
    """Return the run's state after a stage, and the exception that it ended with.

    Args:
        status: What Lightning hands to ``finalize``.
        error: The exception in flight.

    Returns:
        The state is None for a status that Lightning itself does not use.
    """
    if status == "success":
        return "completed", None
    if status == "finished":  # the job was put back into SLURM's queue
        return "suspended", None
    if status != "failed":
        return None, None
    names = {cls.__name__ for cls in type(error).__mro__}
    stopped = isinstance(error, KeyboardInterrupt) or names & _STOPPED_BY_SIGNAL
    return ("interrupted" if stopped else "failed"), error
