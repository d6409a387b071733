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


_MAX_KEYS: Final = 5000
"""Maximum number of suggested keys."""


class Recording(Protocol):
    """Run or project as read by the process that holds it; see `seamark.run.recorded`."""

    disabled: bool

    @property
    def silent(self) -> bool:
        """Whether this process records nothing by design, and so has nothing to read."""

    @property
    def words(self) -> str:
        """Name of the container in messages."""

    @property
    def index(self) -> Catalog:
        """Catalog from which the container is read."""

    def reader(self) -> Reader | None:
        """Return a reader of the records written so far; None if there are none."""

    def attributes(self) -> list[Attribute]:
        """Return the value of every path, including those known before the first record."""

    def attribute(self, path: str) -> Attribute:
        """Return the value at a path; raise `MissingFieldError` if nothing is recorded there."""

    def whole(self, value: Any) -> Any:
        """Return a value in full; for the record of a very long text, the text."""

    def families(self, namespace: str = "") -> dict[str, str]:
        """Return the family of each path at and below a path, sorted by path."""

    def exists(self, path: str) -> bool:
        """Return whether anything is recorded at or below a path."""

    def no_namespace(self, path: str, family: str | None) -> Exception:
        """Return the error for a path without anything below it."""


class Browsable:
    """Node of a tree of attributes.

    It is not a container of values: ``len()`` and truth do not depend on recorded values.
    """

    __slots__ = ()

    @abstractmethod
    def _place(self) -> tuple[Recording, str]:
        """Return the recording and the path of this node; the root's path is empty."""

    def __contains__(self, path: object) -> bool:
        """Return whether anything is recorded at or below a path; False for an invalid path."""
        recorded, at = self._place()
        try:
            path = given_path(path)
            return recorded.exists(join_path(at, path) if at else path)
        except PathError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sorted names one level below: values, series, files and namespaces.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If this is a value, series or file with nothing below it.
        """
        return iter(self._names())

    def _names(self) -> list[str]:
        recorded, at = self._place()
        families = recorded.families(at)
        names = {path.partition("/")[0] for path in _relative_paths(families, at)}
        if names or not at or recorded.silent:
            return sorted(names)
        raise recorded.no_namespace(at, families.get(at))

    def _ipython_key_completions_(self) -> list[str]:
        # Never raises; includes the paths of namespaces.
        try:
            recorded, at = self._place()
            paths = _relative_paths(recorded.families(at), at)
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


def _relative_paths(paths: Iterable[str], at: str) -> list[str]:
    skip = len(at) + 1 if at else 0
    return [path[skip:] for path in paths if path != at]
