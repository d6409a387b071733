"""The host that is to be proved, and a fresh state of Accelerate for each test."""

from __future__ import annotations

from hosts import _environment, refuse_others  # noqa: F401 - in place of the fixture above
from isolation import *  # noqa: F403 - its fixtures and hooks


def pytest_configure():
    proven = {"accelerate:latest": {"accelerate": "1.15.0"}}
    refuse_others({"accelerate": "accelerate"}, proven)
