"""Family of each path, as far as a writer knows it."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.errors import FamilyError
from seamark.paths import is_inside

__all__ = ["Families", "spoken"]

_SPOKEN = {"atom": "a single value", "artifact": "an artifact"}
"""How messages name families; the others are ``a`` and the name."""


class Families(dict[str, str]):
    """Family by path, of what a process wrote and what the run was known to hold.

    Args:
        reserved: The one family that paths below a namespace can take, by namespace. What is known
            to hold another one all the same, as after an import, goes on.
    """

    def __init__(self, reserved: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._reserved = dict(reserved or {})

    def claim(self, path: str, family: str) -> None:
        """Take ``path`` for ``family``.

        Raises:
            FamilyError: If it is known to hold another one, or reserved for one.
        """
        if path not in self:
            self._expect_free(path, family)
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
            FamilyError: If one is known to hold another family, or reserved for another.
        """
        for path, family in families.items():
            held = self.get(path)
            if held is None:
                self._expect_free(path, family)
            elif held != family:
                self.claim(path, family)  # raises, and names both

    def _expect_free(self, path: str, family: str) -> None:
        for space, only in self._reserved.items():
            if family != only and path != space and is_inside(path, space):
                msg = (
                    f"path {path!r} is below {space + '/'!r}, where only {spoken(only)} can be, "
                    f"and cannot take {spoken(family)}; use another path"
                )
                raise FamilyError(msg)

    def forget(self, namespace: str) -> None:
        """Free a path and everything below it."""
        for path in [path for path in self if is_inside(path, namespace)]:
            del self[path]


def spoken(family: str) -> str:
    """Return what messages call a family: ``a single value``, ``a float series``."""
    return _SPOKEN.get(family) or f"a {family.replace('_', ' ')}"
