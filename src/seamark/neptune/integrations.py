"""Helpers for integrations that were written for Neptune."""

from __future__ import annotations

from typing import Any

from seamark.errors import ValueKindError
from seamark.run.handler import Handler
from seamark.run.run import Run

__all__ = ["RunType", "expect_not_an_experiment", "join_paths", "verify_type"]

RunType = Run | Handler
"""Type that integrations accept: a run or a namespace of a run."""


def expect_not_an_experiment(run: Any) -> None:
    """Do nothing: experiments of the old client do not exist in Seamark."""
    del run


def verify_type(var_name: str, var: Any, expected_type: type | tuple[type, ...]) -> None:
    """Raise `ValueKindError`, a ``TypeError``, if an argument has another type."""
    if not isinstance(var, expected_type):
        kinds = expected_type if isinstance(expected_type, tuple) else (expected_type,)
        words = " or ".join(each.__name__ for each in kinds)
        raise ValueKindError(f"{var_name}: expected {words}, got {type(var).__name__}")


def join_paths(*paths: str) -> str:
    """Join paths with single slashes."""
    parts = (part.strip("/") for path in paths for part in [str(path)])
    return "/".join(part for part in parts if part)
