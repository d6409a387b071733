"""Checks of the argument ``keep``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.errors import ArgumentError
from seamark.paths import check_path
from seamark.values import shown
from seamark.values.keeping import Keep

__all__ = ["check_keep", "check_patterns"]


def check_keep(what: str, given: object) -> Keep:
    """Return a checked aggregate.

    Raises:
        ArgumentError: If it is none of the kinds.
    """
    if isinstance(given, Keep):
        return given
    made = f"; did you mean {given.__name__}()?" if isinstance(given, type) else ""
    msg = f"{what}: expected Statistics(), Last() or Ring(n) of seamark, got {shown(given)}{made}"
    raise ArgumentError(msg)


def check_patterns(what: str, given: Any) -> dict[str, Keep]:
    """Return checked aggregates by path or pattern.

    Raises:
        ArgumentError: If it is no such mapping.
        PathError: If a path breaks the grammar.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        msg = f"{what}: expected a mapping such as {{'gpu/*': Statistics()}}, got {shown(given)}"
        raise ArgumentError(msg)
    return {check_path(path): check_keep(f"{what}[{path!r}]", each) for path, each in given.items()}
