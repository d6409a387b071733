"""Suites for those who extend Seamark: what a remote of their own has to do.

Needs pytest, which the package itself does not bring.
"""

from __future__ import annotations

from seamark.testing.remotes import RemoteContract

__all__ = ["RemoteContract"]
