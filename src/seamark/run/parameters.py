"""The hyperparameters of a run as this process knows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from seamark.options.checks import PARAMETERS
from seamark.paths import is_inside
from seamark.values.content import is_parameter

if TYPE_CHECKING:
    from seamark.values import Atom

__all__ = ["Parameters", "is_parameter", "name_of"]

_OWN: Final = f"{PARAMETERS}/"
_OF_ADAPTER: Final = re.compile(r"(?:.+?/)?hyperparams/(.+)")
"""Where adapters record what `log_hyperparams` is given, below a prefix."""


def name_of(path: str) -> str | None:
    """Return what a parameter is called that lies at a path; None if none lies there."""
    if path.startswith(_OWN):
        return path[len(_OWN) :]
    found = _OF_ADAPTER.fullmatch(path) if "hyperparams/" in path else None
    return None if found is None else found[1]


class Parameters:
    """Hyperparameters by path, as they were given: nothing is hidden in them.

    Attributes:
        atoms: Encoded values by path.
        dropped: Paths that were deleted, with everything below.
    """

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.dropped: list[str] = []

    def take(self, atoms: Mapping[str, Atom]) -> None:
        """Take those of some values that are parameters."""
        for path, atom in atoms.items():
            if is_parameter(path):
                self.atoms[path] = atom

    def drop(self, path: str) -> None:
        """Forget what is at and below a path."""
        self.atoms = {one: atom for one, atom in self.atoms.items() if not is_inside(one, path)}
        self.dropped.append(path)

    def add_recorded(self, atoms: Mapping[str, Atom]) -> None:
        """Take what a run held when it was opened, as far as this process has not changed it."""
        held = {path: atom for path, atom in atoms.items() if not self._is_dropped(path)}
        self.atoms = {**held, **self.atoms}

    def _is_dropped(self, path: str) -> bool:
        return any(is_inside(path, one) for one in self.dropped)

    def by_name(self) -> dict[str, Atom]:
        """Return encoded values by name: what a person set stands over what an adapter recorded."""
        found: dict[str, Atom] = {}
        for own in (False, True):
            for path, atom in self.atoms.items():
                if path.startswith(_OWN) is own and (name := name_of(path)) is not None:
                    found[name] = atom
        return found

    def paths_of(self, names: Iterable[str]) -> list[str]:
        """Return where parameters lie that are called so, wherever they do."""
        wanted = set(names)
        return [path for path in self.atoms if name_of(path) in wanted]
