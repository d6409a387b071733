"""The host that is to be proved, and a fresh state of Accelerate for each test."""

from __future__ import annotations

from hosts import refuse_others, without_captures
from isolation import *  # noqa: F403 - its fixtures and hooks

_environment = without_captures  # in place of the fixture of `isolation`


def pytest_configure():
    proven = {"accelerate:latest": {"accelerate": "1.15.0"}}
    refuse_others({"accelerate": "accelerate"}, proven)
