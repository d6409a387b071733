"""Neptune's ``integrations.utils`` under its own name."""

from __future__ import annotations

from seamark.neptune.integrations import (
    RunType,
    expect_not_an_experiment,
    join_paths,
    verify_type,
)

__all__ = ["RunType", "expect_not_an_experiment", "join_paths", "verify_type"]
