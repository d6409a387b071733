"""The host that is to be proved, and a fresh state of Accelerate for each test."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import pytest
from isolation import *  # noqa: F403 - its fixtures and hooks
from isolation import reset_signals

PROVEN = {"accelerate:latest": "1.15.0"}


def pytest_configure() -> None:
    """Refuse to start where the host is missing, or is another than is to be proved."""
    reset_signals()
    if importlib.util.find_spec("accelerate") is None:
        msg = "accelerate cannot be imported: nothing can be proved"
        raise pytest.UsageError(msg)
    claim = os.environ.get("SEAMARK_REQUIRE")
    found = importlib.metadata.version("accelerate")
    if claim is not None and found != PROVEN.get(claim):
        msg = f"SEAMARK_REQUIRE={claim} means {PROVEN.get(claim)}, but installed is {found}"
        raise pytest.UsageError(msg)


@pytest.fixture
def _environment():
    """What every run looks up when it starts depends on no release of the host."""
    names = ("HARDWARE_METRICS", "GIT", "HOST", "PACKAGES", "SCRIPT")
    return {f"SEAMARK_CAPTURE_{name}": "0" for name in names}
