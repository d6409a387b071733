"""Translation of a journal's items to operations of Neptune's protocol.

Items that have no exact form in the protocol are counted by kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.format import FILE_HEADER_BYTES
from seamark.neptune.forward.work import OWN, Batch, Items, Work, entry_of, is_own, usual
from seamark.process.interrupts import let_pass
from seamark.reading.attributes import is_background
from seamark.store.fold.payloads import atom_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.neptune.forward.client import Seen
    from seamark.neptune.forward.work import Held, Item

__all__ = ["START", "Journal", "Place", "assigned"]


Place = tuple[int, int]
"""A place in a journal: offset of a frame, and number of one of its items."""
START: Final = (FILE_HEADER_BYTES, 0)


class Journal:
    """Journal of a run, with the state of its forwarding.

    `sent` is the place up to which the server has it, unless `doubt` says that it may have more;
    `pos` is the byte up to which it was read. `lacking` counts what the protocol cannot hold.
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
        """Return the operations that store the position, and the counts of lost items so far.

        `name` is ``"position"`` or ``"files"``, `place` the end of what is sent with them.
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
    offset, _, number = str(told or "").partition("+")
    if offset.isascii() and offset.isdigit() and number.isascii() and number.isdigit():
        return int(offset), int(number)
    return START


_INT32: Final = 1 << 31
_SETS: Final = ("sys/tags", "sys/group_tags")
_LAST: Final = frozenset({"atom", "file", "header", "own", "state"})
"""What counts only as it was said last."""
_CLEARS: Final = {
    "floatSeries": "clearFloatSeries",
    "stringSeries": "clearStringSeries",
    "imageSeries": "clearImageSeries",
    "stringSet": "clearStringSet",
}
_ABOUT: Final = {"run": "id", "project": "project", "user": "owner", "host": "hostname"}


class Translation:
    """Turns the items of one journal into operations; all journals of a run share `held`."""

    def __init__(self, held: Held, work: Work) -> None:
        self._held, self._work = held, work
        self._tokens: dict[str, Any] = {}
        self._statistics: set[str] = set()
        self._acts: dict[str, Callable[[Batch, Item], None]] = {
            "number": self._number,
            "text": self._text,
            "histogram": lambda batch, _: batch.lacking.update(["histograms"]),
            "atom": self._atom,
            "delete": self._delete,
            "clear": self._clear,
            "add": self._change_set,
            "remove": self._change_set,
            "assign_set": self._change_set,
            "series_config": self._configure,
            "state": self._state,
            "header": self._header,
            "artifact": lambda batch, _: batch.lacking.update(["artifacts"]),
            "statistic": self._statistic,
            "unfiles": self._remove_members,
        }

    def take(self, batch: Batch | None, item: Item, place: tuple[int, int]) -> None:
        """Add the operations of an item to a batch, with the offset and its number in the frame.

        Without a batch the item is there already, and noted as far as what follows depends on it.
        """
        if is_own(item.path):
            return
        try:
            if item.what in _LAST and self._is_late(item):
                return
            self._note_files(item, place, batch)
            if batch is None:
                self._remember(item)
            elif (act := self._acts.get(item.what)) is not None:
                act(batch, item)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            let_pass(error)
            if batch is not None:
                batch.lacking["damaged"] += 1

    def _remember(self, item: Item) -> None:
        if item.what in ("add", "remove", "assign_set"):
            self._keep_set(item)
        elif item.what == "statistic":
            self._statistics.add(item.path)

    def _is_late(self, item: Item) -> bool:
        newest, what = self._held.newest, item.path or item.what
        if item.t < newest.get(what, 0):
            return True
        newest[what] = item.t
        return False

    # ---------------------------------------------------------------- where

    def free_path(self, batch: Batch, path: str, kind: str) -> str:
        """Return the path for a value of a kind; other values in its place are removed."""
        held = self._held
        target = held.place(path)
        if target not in held.kinds and target != usual(path):
            batch.lacking["renamed"] += 1
        there = held.kinds.get(target)
        if there is not None and there != kind:
            batch.barrier()
            batch.add(target, "deleteAttribute")
            held.free(target)
        held.holds(target, kind)
        return target

    # ---------------------------------------------------------------- series

    def _number(self, batch: Batch, item: Item) -> None:
        if not math.isfinite(item.value):
            batch.lacking["not_finite"] += 1
            return
        path = self.free_path(batch, item.path, "floatSeries")
        batch.point(path, "logFloats", entry_of(item.value, item.step, item.t))

    def _text(self, batch: Batch, item: Item) -> None:
        if not isinstance(item.value, str):
            batch.lacking["long_texts"] += 1
            return
        path = self.free_path(batch, item.path, "stringSeries")
        batch.point(path, "logStrings", entry_of(item.value, item.step, item.t))

    def _clear(self, batch: Batch, item: Item) -> None:
        target = self._held.place(item.path)
        if (verb := _CLEARS.get(self._held.kinds.get(target, ""))) is not None:
            batch.barrier()
            batch.add(target, verb)

    def _configure(self, batch: Batch, item: Item) -> None:
        told = {name: item.value[name] for name in ("min", "max", "unit") if name in item.value}
        batch.add(self.free_path(batch, item.path, "floatSeries"), "configFloatSeries", **told)

    def _statistic(self, batch: Batch, item: Item) -> None:
        if item.path not in self._statistics:  # it is said again and again
            self._statistics.add(item.path)
            batch.lacking["statistics"] += 1

    # ---------------------------------------------------------------- single values

    def _atom(self, batch: Batch, item: Item) -> None:
        kind, value = item.value
        if kind == "text":
            batch.lacking["long_texts"] += 1
        elif kind == "datetime":
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            path = self.free_path(batch, item.path, "datetime")
            batch.add(path, "assignDatetime", valueMilliseconds=int(moment.timestamp() * 1000))
        elif kind == "bool":
            self._assign(batch, item.path, "bool", bool(value))
        elif kind in ("int", "float"):
            number = atom_of(kind, value) if isinstance(value, str) else value
            self._assign_number(batch, item.path, number, kind)
        else:
            if kind in ("null", "json") and not is_background(item.path):  # what comes unasked
                batch.lacking["nulls" if kind == "null" else "lists"] += 1
            self._assign(batch, item.path, "string", "None" if value is None else str(value))

    def _assign_number(self, batch: Batch, path: str, value: Any, kind: str) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            batch.lacking["not_finite_values"] += 1
            self._assign(batch, path, "string", str(value))
        elif kind == "int" and not -_INT32 <= value < _INT32:
            batch.lacking["large_integers"] += 1
            if abs(value) < 1 << 1023:
                self._assign(batch, path, "float", float(value))
            else:
                self._assign(batch, path, "string", hex(value))
        elif kind == "int" and self._held.kinds.get(self._held.place(path)) != "float":
            self._assign(batch, path, "int", value)
        else:
            self._assign(batch, path, "float", float(value))

    def _assign(self, batch: Batch, path: str, kind: str, value: Any) -> None:
        batch.add(self.free_path(batch, path, kind), f"assign{kind.capitalize()}", value=value)

    def _header(self, batch: Batch, item: Item) -> None:
        if item.value.get("owner") is not True:
            return
        for key, name in _ABOUT.items():
            if isinstance(value := item.value.get(key), str):
                self._assign(batch, f"sys/{name}", "string", value)

    def _state(self, batch: Batch, item: Item) -> None:
        self._assign(batch, "sys/state", "string", str(item.value["state"]))
        error = item.value.get("error")
        if isinstance(error, dict):
            words = f"{error.get('type')}: {error.get('message')}"
            self._assign(batch, "sys/error", "string", words)

    # ---------------------------------------------------------------- sets, removing

    def _keep_set(self, item: Item) -> dict[str, None]:
        if item.what == "assign_set":
            self._held.sets[item.path] = {}
        kept = self._held.sets.setdefault(item.path, {})
        for value in item.value["values"]:
            if item.what == "remove":
                kept.pop(str(value), None)
            else:
                kept[str(value)] = None
        return kept

    def _change_set(self, batch: Batch, item: Item) -> None:
        kept, values = self._keep_set(item), [str(one) for one in item.value["values"]]
        if item.path not in _SETS:
            batch.lacking["sets"] += not is_background(item.path)
            self._assign(batch, item.path, "string", ", ".join(sorted(kept)))
            return
        self._held.holds(item.path, "stringSet")
        if item.what == "assign_set":
            batch.add(item.path, "clearStringSet")
        if values:
            verb = "removeStrings" if item.what == "remove" else "insertStrings"
            batch.add(item.path, verb, values=values)

    def _delete(self, batch: Batch, item: Item) -> None:
        batch.barrier()
        for target in self._held.inside(item.path):
            if item.t < self._held.newest.get(target, 0):
                continue
            batch.add(target, "deleteAttribute")
            self._held.free(target)

    # ---------------------------------------------------------------- files

    def _note_files(self, item: Item, place: tuple[int, int], batch: Batch | None) -> None:
        # Files are sent after the operations that name them.
        lacking = None if batch is None else batch.lacking
        work, value = self._work, item.value
        if item.what == "delete":
            work.forget(item.path)
        elif item.what == "image":
            work.image(place, item, lacking)
        elif item.what in ("file", "own", "digest"):
            token = value.get("token")
            if item.what == "digest" and self._tokens.get(item.path) != token:
                return  # something else was put there since
            self._tokens[item.path] = token
            work.file(place, item.path, value.get("file"), lacking)
        elif item.what == "files" and isinstance(value.get("members"), dict):
            for name, file in value["members"].items():
                work.member(place, item.path, str(name), file, lacking)

    def _remove_members(self, batch: Batch, item: Item) -> None:
        names = [str(one) for one in item.value["names"]]
        self._work.forget_members(item.path, names)
        batch.barrier()
        batch.add(self._held.place(item.path), "deleteFiles", filePaths=names)
