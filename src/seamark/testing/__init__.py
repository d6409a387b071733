"""Test suites for extensions of Seamark.

Requires pytest, which is not a dependency of Seamark.
"""

from __future__ import annotations

from seamark.testing.remotes import RemoteContract

__all__ = ["RemoteContract"]
