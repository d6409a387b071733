"""Views of the projects of a folder, stored as files next to the runs.

They are stored in ``.views`` of the root, in a folder for each project, so that every user of the
runs can see them. The views of a user without write access are stored below ``XDG_STATE_HOME``, and
take precedence over those of the same name in the root.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from seamark.index.file import exclusive
from seamark.journal.safe import make_folder, names_in, open_file, replace_file, touch
from seamark.page.editing import WRITABLE, NotWritable
from seamark.page.roots import LOCK_S, StateError, state_folder
from seamark.process.interrupts import quietly
from seamark.server.failures import later
from seamark.server.views import MOST_ADDRESS, MOST_VIEWS, View, Work

_MAX_BYTES: Final = 4 * MOST_ADDRESS
"""Maximum size of a file in bytes; JSON escapes some characters of an address."""
_MAX_FILES: Final = 10 * MOST_VIEWS
"""Maximum number of files to examine; other programs may have added files."""
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")


class FolderViews:
    """Views of all projects below a root; see `seamark.server.views.Views`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def apart(self, project: str) -> str:
        """Return a hint about the location of views not saved in the root, else an empty text."""
        shared, own = self._places(project)
        if self._is_writable(shared):
            return ""
        return f"you may not write to {self._root}: views are saved in {own.parent}, only for you"

    def read(self, project: str) -> dict[str, View]:
        """Return the views of a project by name."""
        found = {}
        for folder in self._places(project):
            names: list[str] = []
            with quietly(only=OSError):
                names = [one for one in names_in(folder) if _FILE.fullmatch(one)]
            views = filter(None, (_read(folder / name) for name in names[:_MAX_FILES]))
            found.update({one.name: one for one in islice(views, MOST_VIEWS)})
        return found

    def change(self, project: str, work: Work) -> Mapping[str, View]:
        """Change the views of a project and return them.

        Each view is replaced atomically; views saved by others meanwhile are not changed.
        """
        shared, own = self._places(project)
        folder = shared if self._is_writable(shared) else own
        try:
            if folder is own:
                state_folder()
            make_folder(folder.parent)
            touch(folder / "views.lock")  # not a link; a lock shared by all users with write access
            with exclusive(folder / "views", LOCK_S) as mine:
                if not mine:
                    raise later(
                        error="busy", hint="another user is saving views: repeat the request"
                    )
                before = self.read(project)
                self._write_changes(project, before, work(before), folder)
                return self.read(project)
        except StateError as error:
            raise NotWritable(str(error)) from error
        except OSError as error:
            place = folder / (error.filename or "")  # for the lock, only a file name
            raise NotWritable(f"cannot write to {place}: {error.strerror}") from error

    def _write_changes(
        self, project: str, before: Mapping[str, View], after: Mapping[str, View], folder: Path
    ) -> None:
        shared, own = self._places(project)
        gone = before.keys() - after.keys()
        for name in gone if folder == own else ():
            if not (own / _file_of(name)).exists():
                raise NotWritable(
                    f"the view {name!r} is in {shared}, which is not writable for you"
                )
        for name, one in after.items():
            if before.get(name) != one:
                replace_file(folder / _file_of(name), one.model_dump_json())
                if folder == shared:  # otherwise the user's own view would take precedence
                    (own / _file_of(name)).unlink(missing_ok=True)
        for name in gone:
            for place in {folder, own}:
                (place / _file_of(name)).unlink(missing_ok=True)

    def _places(self, project: str) -> tuple[Path, Path]:
        of_project, of_root = _hash(project), _hash(os.path.realpath(self._root))
        own = state_folder(check=False) / "views" / of_root / of_project
        return self._root / ".views" / of_project, own

    def _is_writable(self, shared: Path) -> bool:
        places = (shared, shared.parent, self._root)
        # Unlike Path.exists, os.path.exists returns False if access is denied.
        return os.access(next(filter(os.path.exists, places), self._root), WRITABLE)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _file_of(name: str) -> str:
    return f"{_hash(name)}.json"


def _read(place: Path) -> View | None:
    # Files in the root are untrusted: other users may be able to write there.
    with quietly(only=(OSError, ValueError)), os.fdopen(open_file(place), "rb") as file:
        view = View.model_validate_json(file.read(_MAX_BYTES))
        if place.name == _file_of(view.name):
            return view
    return None
