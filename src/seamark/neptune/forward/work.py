"""The files that a journal names, in its order: they follow behind what it says."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.errors import ArgumentError
from seamark.journal.records import file_of
from seamark.journal.safe import parts_of
from seamark.paths import is_inside
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from collections import Counter

    from seamark.neptune.forward.items import Item

__all__ = ["Task", "Work"]

_IMAGES: Final = frozenset({"png", "jpg", "jpeg", "gif", "bmp", "webp", "tiff"})
_MOST_IMAGE: Final = 15 << 20
_EXT: Final = re.compile(r"[A-Za-z0-9_.+-]{1,40}")


class Task(NamedTuple):
    """File to be sent.

    Attributes:
        place: Position in the journal of the item that names it: offset of the frame, and number.
        what: ``"file"``, ``"member"`` (of a set of files) or ``"image"`` (a point of a series).
        path: Path that it is sent to.
        name: Name of a member, or of an image.
        digest: SHA-256 of the content.
        size: Size in bytes.
        ext: Extension, without the dot.
        item: The point, for an image.
    """

    place: tuple[int, int]
    what: str
    path: str
    name: str
    digest: str
    size: int
    ext: str
    item: Item | None = None


class Work:
    """The files of one journal that are still to be sent; used by two threads.

    Args:
        done: Up to where in the journal its files are there.
    """

    def __init__(self, done: tuple[int, int]) -> None:
        self._done = done
        self._lock = threading.Lock()
        self._tasks: dict[tuple[Any, ...], Task] = {}

    # ---------------------------------------------------------------- on the thread that reads

    def file(
        self, place: tuple[int, int], path: str, file: Any, lacking: Counter[str] | None
    ) -> None:
        """Queue a file to be sent."""
        self._add(place, "file", path, "", file, lacking)

    def member(
        self,
        place: tuple[int, int],
        path: str,
        name: str,
        file: Any,
        lacking: Counter[str] | None,
    ) -> None:
        """Queue a member of a set of files to be sent."""
        try:
            name = "/".join(parts_of(name, "member"))
        except ArgumentError as error:
            let_pass(error)
            return
        self._add(place, "member", path, name, file, lacking)

    def image(self, place: tuple[int, int], item: Item, lacking: Counter[str] | None) -> None:
        """Queue a point of a series of images to be sent."""
        file = item.value["file"]
        is_image = str(file.get("ext", "")).lower() in _IMAGES
        if not is_image or file.get("size", 0) > _MOST_IMAGE:
            if lacking is not None:
                lacking["other_file_series"] += 1
            return
        self._add(place, "image", item.path, "", file, lacking, item)

    def _add(
        self,
        place: tuple[int, int],
        what: str,
        path: str,
        name: str,
        given: Any,
        lacking: Counter[str] | None,
        item: Item | None = None,
    ) -> None:
        if place < self._done:
            return
        try:
            file = file_of(given)
        except (ValueError, TypeError) as error:
            let_pass(error)
            return
        lacks = "folders" if file.get("dir") else "references" if "ref" in file else None
        if lacks is not None:
            if lacking is not None:
                lacking[lacks] += 1
            return
        if "sha256" not in file:  # it follows
            return
        ext = str(file.get("ext", ""))
        ext = ext if _EXT.fullmatch(ext) else ""
        size = int(file.get("size", 0))
        task = Task(place, what, path, name, file["sha256"], size, ext, item)
        with self._lock:  # what was put there before need not be sent any more
            self._tasks.pop(key := _key(task), None)
            self._tasks[key] = task

    def forget(self, path: str) -> None:
        """Send nothing to a path or below it that is not there yet."""
        with self._lock:
            for key in [key for key, one in self._tasks.items() if is_inside(one.path, path)]:
                del self._tasks[key]

    def forget_members(self, path: str, names: list[str]) -> None:
        """Send nothing of a set of files by these names."""
        with self._lock:
            for name in names:
                self._tasks.pop((path, name), None)

    # ---------------------------------------------------------------- on the thread that sends

    def next(self) -> Task | None:
        """Return what is to be sent next."""
        with self._lock:
            return next(iter(self._tasks.values()), None)

    def after(self, task: Task, end: tuple[int, int]) -> tuple[int, int]:
        """Return up to where in the journal files are there once a task is done.

        Args:
            task: The task.
            end: Up to where the journal was read.
        """
        with self._lock:
            return min((one.place for one in self._tasks.values() if one is not task), default=end)

    def sent(self, task: Task) -> None:
        """Note that something is there, or never will be."""
        with self._lock:
            if self._tasks.get(key := _key(task)) is task:
                del self._tasks[key]

    def left(self) -> dict[str, int]:
        """Return what is still to be sent: sizes in bytes by digest."""
        with self._lock:
            return {one.digest: one.size for one in self._tasks.values()}


def _key(task: Task) -> tuple[Any, ...]:
    return ("", task.place) if task.what == "image" else (task.path, task.name)
