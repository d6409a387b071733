"""Test suites for extensions of Seamark: the requirements on remotes of other packages.

Needs pytest, which the package itself does not bring.
"""

from __future__ import annotations

from seamark.testing.remotes import RemoteContract

__all__ = ["RemoteContract"]
