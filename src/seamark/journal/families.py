"""Which family each path holds, as far as a writer knows."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.errors import FamilyError
from seamark.paths import is_inside

__all__ = ["Families", "spoken"]

_SPOKEN = {"atom": "a single value", "artifact": "an artifact"}
"""How messages name families; the others are ``a`` and the name."""


class Families(dict[str, str]):
    """Family by path, of what a process wrote and what the run was known to hold."""

    def claim(self, path: str, family: str) -> None:
        """Take ``path`` for ``family``.

        Raises:
            FamilyError: If it is known to hold another one.
        """
        held = self.setdefault(path, family)
        if held != family:
            msg = (
                f"path {path!r} holds {spoken(held)} and cannot take {spoken(family)}; "
                f"use another path, or free this one with `del run[{path!r}]`"
            )
            raise FamilyError(msg)

    def expect(self, families: Mapping[str, str]) -> None:
        """Check that each path can take its family, before any of them is claimed.

        Raises:
            FamilyError: If one is known to hold another family.
        """
        for path, family in families.items():
            if self.get(path, family) != family:
                self.claim(path, family)  # raises, and names both

    def forget(self, namespace: str) -> None:
        """Free a path and everything below it."""
        for path in [path for path in self if is_inside(path, namespace)]:
            del self[path]


def spoken(family: str) -> str:
    """Return what messages call a family: ``a single value``, ``a float series``."""
    return _SPOKEN.get(family) or f"a {family.replace('_', ' ')}"
