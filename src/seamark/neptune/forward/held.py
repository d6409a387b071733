"""Contents of the paths of a run on the server, and the paths that are free for new ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from seamark.paths import is_inside
from seamark.reading.facts import FORWARD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.neptune.forward.client import Seen

__all__ = ["OWN", "Held", "is_own", "usual"]

OWN: Final = FORWARD
"""Below it we keep, on both sides, how far a run is and what could not be held."""
_BELOW_SYS: Final = "monitoring/seamark/"
_SETTABLE: Final = frozenset(
    {"sys/name", "sys/description", "sys/failed", "sys/tags", "sys/group_tags"}
)


def is_own(path: str) -> bool:
    """Return whether a path says something about forwarding itself."""
    return is_inside(path, OWN)


def usual(path: str) -> str:
    """Return where a path goes if nothing is in its way: what is below ``sys/`` is reserved."""
    return _BELOW_SYS + path if path.startswith("sys/") and path not in _SETTABLE else path


class Held:
    """Contents of each path on the server, shared by the journals of a run.

    On the server a path holds one type, and nothing may be below it.

    Args:
        seen: Attributes that the server has now.

    Attributes:
        kinds: Type of each path on the server, as the protocol calls it.
        sets: Elements of those sets of the run that are sent as texts, by path.
        newest: Time of the last assignment of each path on the server, as far as it was read, ns
            since the Unix epoch. An older value of an earlier attempt that is sent late does not
            replace a newer one.
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self.kinds: dict[str, str] = {}
        self.sets: dict[str, dict[str, None]] = {}
        self.newest: dict[str, int] = {}
        self._spaces: Counter[str] = Counter()
        self._places: dict[str, str] = {}
        for path, one in seen.items():
            self.holds(path, one.kind)

    def place(self, path: str) -> str:
        """Return where a path of the run goes: what is reserved or in the way moves it."""
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = self._place(path)
        return found

    def _place(self, path: str) -> str:
        path = usual(path)
        parts: list[str] = []
        names = path.split("/")
        for number, name in enumerate(names):
            here, last = "/".join([*parts, name]), number == len(names) - 1
            in_the_way = self._spaces[here] > 0 if last else here in self.kinds
            parts.append(f"{name}_" if in_the_way else name)
        return "/".join(parts)

    def holds(self, path: str, kind: str) -> None:
        """Note what a path holds from now on."""
        if path not in self.kinds:
            for above in _above(path):
                self._spaces[above] += 1
            self._places.clear()
        self.kinds[path] = kind

    def free(self, path: str) -> None:
        """Note that a path holds nothing any more."""
        if self.kinds.pop(path, None) is not None:
            for above in _above(path):
                self._spaces[above] -= 1
            self._places.clear()

    def inside(self, path: str) -> list[str]:
        """Return what is at or below a path of the run, as far as it may be removed."""
        path = usual(path)
        if path.startswith("sys/"):
            return []
        return [
            each
            for each in self.kinds
            if (is_inside(each, path) or is_inside(each, f"{path}_")) and not is_own(each)
        ]


def _above(path: str) -> list[str]:
    names = path.split("/")[:-1]
    return ["/".join(names[: number + 1]) for number in range(len(names))]
