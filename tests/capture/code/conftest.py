"""What tests of captured code share: git may take its time."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _git_is_not_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, the changes are found; a test may set another limit."""
    monkeypatch.setattr("seamark.capture.code.repository.TIMEOUT_S", 60.0)
