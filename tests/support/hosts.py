"""Hosts of the integration projects: the releases that are proved, and what runs capture there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import pytest
from isolation import reset_signals


def refuse_others(modules, proven):
    """Refuse to start where the host is missing, or is another than is to be proved.

    The modules lead to their packages, names of proofs (``SEAMARK_REQUIRE``) to their releases.
    """
    reset_signals()
    here = [modules[name] for name in modules if importlib.util.find_spec(name)]
    if not here:
        msg = f"none of {', '.join(modules)} can be imported: nothing can be proved"
        raise pytest.UsageError(msg)
    claim = os.environ.get("SEAMARK_REQUIRE")
    found = {package: importlib.metadata.version(package) for package in here}
    if claim is not None and found != proven.get(claim):
        msg = f"SEAMARK_REQUIRE={claim} means {proven.get(claim)}, but installed is {found}"
        raise pytest.UsageError(msg)


@pytest.fixture
def without_captures():
    """What every run looks up when it starts depends on no release of the host.

    Hardware is measured every 10 s: whether a run has such series depends on how long a test takes.
    """
    names = ("HARDWARE_METRICS", "GIT", "HOST", "PACKAGES", "SCRIPT")
    return {f"SEAMARK_CAPTURE_{name}": "0" for name in names}
