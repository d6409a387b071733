"""Checks of the arguments of a logger."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from seamark.errors import PathError
from seamark.paths import check_path
from seamark.run.options import RunOptions, check_argument, check_switch

__all__ = ["check_prefix", "check_values", "of_the_run"]


def of_the_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments of a logger that are arguments of ``seamark.init_run``."""
    return {each.name: given[each.name] for each in dataclasses.fields(RunOptions)}


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it is a legal namespace.

    Raises:
        PathError: If it breaks the grammar of paths.
    """
    try:
        return check_path(prefix)
    except PathError as error:
        msg = f"SeamarkLogger(prefix=...): {error}"
        raise PathError(msg) from None


def check_values(*, switches: Mapping[str, Any], of_run: Mapping[str, Any]) -> None:
    """Refuse illegal values, also of arguments that this use of the logger does not need.

    Args:
        switches: What is True, False or None, by name.
        of_run: Arguments of ``init_run``, by name.

    Raises:
        ArgumentError: If a value is not legal.
    """
    for name, given in switches.items():
        check_switch(f"SeamarkLogger: {name}", given)
    for name, given in of_run.items():
        check_argument(name, given)
