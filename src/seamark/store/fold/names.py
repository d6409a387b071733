"""Paths and schemas of a journal, which its frames refer to by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["PATH_BYTES", "Names"]

PATH_BYTES: Final = 2048
"""Twice what writers take; longer paths are no use in an index of PostgreSQL."""

Load = Callable[[set[int], set[int]], tuple[dict[int, str], dict[int, tuple[int, ...]]]]
"""Returns the paths and the schemas with these numbers, of those that are known."""


@dataclass(slots=True, eq=False)
class Names:
    """Paths of a journal by number, and its schemas as numbers of paths.

    ``load`` finds what was defined before the first decoded frame; None at the start of a journal.
    An invalid path is empty. ``new_paths`` and ``new_schemas`` have (number, offset of the frame in
    bytes, path or paths).
    """

    load: Load | None = None
    paths: dict[int, str] = field(default_factory=dict)
    schemas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    new_paths: list[tuple[int, int, str]] = field(default_factory=list)
    new_schemas: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    _columns: dict[int, tuple[str | None, ...]] = field(default_factory=dict)
    _asked_paths: set[int] = field(default_factory=set)
    _asked_schemas: set[int] = field(default_factory=set)

    def need(self, paths: Iterable[int], schemas: Iterable[int]) -> None:
        """Load paths and schemas that were defined before."""
        if self.load is None:
            return
        missing = set(schemas).difference(self.schemas, self._asked_schemas)
        if missing:
            self._asked_schemas |= missing
            for number, numbers in self.load(set(), missing)[1].items():
                self.schemas.setdefault(number, numbers)
        wanted = {one for number in missing for one in self.schemas.get(number, ())}
        wanted = wanted.union(paths).difference(self.paths, self._asked_paths)
        if wanted:
            self._asked_paths |= wanted
            for number, path in self.load(wanted, set())[0].items():
                self.paths.setdefault(number, path)

    def columns(self, schema: int) -> tuple[str | None, ...] | None:
        """Return the paths of a schema, None for a path that was lost; None if it was lost."""
        known = self._columns.get(schema)
        if known is None and (numbers := self.schemas.get(schema)) is not None:
            known = self._columns[schema] = tuple(
                self.paths.get(number) or None for number in numbers
            )
        return known

    def define_path(self, number: int, place: int, path: str) -> None:
        """Take a PATH frame."""
        self.need([number], ())
        if self.paths.get(number) != path:
            self.paths[number] = path
            self.new_paths.append((number, place, path))
            self._columns.clear()

    def define_schema(self, number: int, place: int, paths: tuple[int, ...]) -> None:
        """Take a SCHEMA frame."""
        self.need(paths, [number])
        if self.schemas.get(number) != paths:
            self.schemas[number] = paths
            self.new_schemas.append((number, place, paths))
            self._columns.pop(number, None)
