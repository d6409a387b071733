"""Journal of a run that is being forwarded, and how much of it the server has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.format import FILE_HEADER_BYTES
from seamark.neptune.forward.held import OWN
from seamark.neptune.forward.items import Items
from seamark.neptune.forward.translation import Translation
from seamark.neptune.forward.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.neptune.forward.client import Seen
    from seamark.neptune.forward.held import Held

__all__ = ["START", "Journal", "Place", "assigned"]

Place = tuple[int, int]
"""A place in a journal: offset of a frame, and number of one of its items."""
START: Final = (FILE_HEADER_BYTES, 0)


class Journal:
    """Journal of a run, with the state of its forwarding.

    Args:
        name: Its file name.
        seen: Attributes that the server had when the run was opened.
        held: See `Translation`.

    Attributes:
        name: Its file name.
        sent: Position up to which the server has it.
        pos: Position up to which it was read, in bytes.
        work: Its files.
        items: Reads its frames.
        translation: Translates its items to operations.
        lacking: Number of items that the protocol cannot hold as they are, by kind.
        doubt: Whether the server may have more than ``sent`` says.
    """

    def __init__(self, name: str, seen: Mapping[str, Seen], held: Held) -> None:
        self.name = name
        self._below = f"{OWN}/{name.rpartition('.')[0]}/"
        told = {
            path.removeprefix(self._below): one.value
            for path, one in seen.items()
            if path.startswith(self._below)
        }
        self.sent = _place(told.pop("position", None))
        self.work = Work(_place(told.pop("files", None)))
        self.lacking = Counter({kind: each for kind, each in told.items() if type(each) is int})
        self._told = self.lacking.copy()
        self.pos, self.doubt = FILE_HEADER_BYTES, True
        self.items = Items()
        self.translation = Translation(held, self.work)

    def about(self, name: str, place: Place) -> list[dict[str, Any]]:
        """Return the operations that say how far it is, and what could not be held so far.

        Args:
            name: ``"position"`` or ``"files"``.
            place: Up to where what is sent is there with them.
        """
        found = [assigned(self._below + name, "String", f"{place[0]}+{place[1]}")]
        for kind, count in self.lacking.items():
            if count != self._told[kind]:
                found.append(assigned(self._below + kind, "Int", count))
        self._told = self.lacking.copy()
        return found


def assigned(path: str, kind: str, value: Any) -> dict[str, Any]:
    """Return the operation that puts a single value to a path."""
    return {"path": path, f"assign{kind}": {"value": value}}


def _place(told: Any) -> Place:
    """Return a place as it was written down; the beginning where it was not."""
    offset, _, number = str(told or "").partition("+")
    if offset.isascii() and offset.isdigit() and number.isascii() and number.isdigit():
        return int(offset), int(number)
    return START
