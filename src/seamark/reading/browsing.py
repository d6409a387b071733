"""Navigation in a run or project: the paths below a path, for loops and notebooks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import PathError
from seamark.paths import given_path, join_path
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seamark.reading.attributes import Attribute
    from seamark.reading.catalog import Catalog
    from seamark.reading.reader import Reader

__all__ = ["Browsable", "Recording"]

_MAX_KEYS: Final = 5000
"""Maximum number of suggested keys."""


class Recording(Protocol):
    """A run or project as the process that holds it reads it; see `seamark.run.recorded`."""

    disabled: bool

    @property
    def silent(self) -> bool:
        """Whether this process records nothing by design, and has nothing to read from."""

    @property
    def words(self) -> str:
        """Name of the container, for messages."""

    @property
    def index(self) -> Catalog:
        """Catalog that it is read from."""

    def reader(self) -> Reader | None:
        """Return a reader of the records so far; None while there are none."""

    def attributes(self) -> list[Attribute]:
        """Return the value of every path, also those known before the first record."""

    def attribute(self, path: str) -> Attribute:
        """Return the value at a path; raise `MissingFieldError` if nothing is recorded there."""

    def whole(self, value: Any) -> Any:
        """Return a value as it was written, also a very long text, whose record it is."""

    def families(self, namespace: str = "") -> dict[str, str]:
        """Return the attribute at each path at and below a path, sorted by path."""

    def exists(self, path: str) -> bool:
        """Return whether something is recorded at a path or below it."""

    def no_namespace(self, path: str, family: str | None) -> Exception:
        """Return the error that says that nothing lies below a path."""


class Browsable:
    """A place in a tree of attributes.

    It is no container of values: ``len()`` and truth say nothing about what is recorded.
    """

    __slots__ = ()

    @abstractmethod
    def _place(self) -> tuple[Recording, str]:
        """Return the recording, and the path of this place; empty for the root."""

    def __contains__(self, path: object) -> bool:
        """Return whether something is recorded at a path, or below it; also if it is no path."""
        recorded, at = self._place()
        try:
            path = given_path(path)
            return recorded.exists(join_path(at, path) if at else path)
        except PathError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names one level below, sorted: of values, series, files, namespaces.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If a value, series or file is here, and nothing below it.
        """
        return iter(self._names())

    def _names(self) -> list[str]:
        recorded, at = self._place()
        families = recorded.families(at)
        names = {path.partition("/")[0] for path in _relative(families, at)}
        if names or not at or recorded.silent:
            return sorted(names)
        raise recorded.no_namespace(at, families.get(at))

    def _ipython_key_completions_(self) -> list[str]:
        # Never raises; includes the paths of namespaces.
        try:
            recorded, at = self._place()
            paths = _relative(recorded.families(at), at)
        except Exception as error:  # noqa: BLE001 - a person is typing
            let_pass(error)
            return []
        found: dict[str, None] = {}
        for path in paths:
            names = path.split("/")
            found |= dict.fromkeys("/".join(names[: end + 1]) for end in range(len(names)))
            if len(found) >= _MAX_KEYS:
                break
        return list(found)[:_MAX_KEYS]


def _relative(paths: Iterable[str], at: str) -> list[str]:
    skip = len(at) + 1 if at else 0
    return [path[skip:] for path in paths if path != at]
