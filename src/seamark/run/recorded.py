"""Reads of a run or project: the current records of all processes, as values or as a tree."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.errors import (
    FamilyError,
    FileMissingError,
    MissingFieldError,
    RunNotFoundError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder
from seamark.journal.rows import spoken
from seamark.opening.place import open_catalog
from seamark.paths import PROJECT_LOG, is_inside
from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.catalog import Catalog
    from seamark.reading.contents import Contents
    from seamark.reading.reader import Reader
    from seamark.remote.http.catalog import RemoteCatalog
    from seamark.run.ranks import EveryRank, RankPolicy


def nest(flat: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return values by path as nested dicts: ``a/b`` is ``b`` in ``a``.

    The value of a path that is also a namespace is under the key ``""``.
    """
    tree: dict[str, Any] = {}
    spaces: dict[str, dict[str, Any]] = {"": tree}
    skip = len(namespace) + 1 if namespace else 0

    def space(path: str) -> dict[str, Any]:
        if path not in spaces:
            head, _, name = path.rpartition("/")
            above = space(head)
            spaces[path] = above[name] = {"": above[name]} if name in above else {}
        return spaces[path]

    for path in sorted(flat):  # a path precedes those below it
        head, _, name = path[skip:].rpartition("/")
        if name:
            space(head)[name] = flat[path]
    return tree


def structure_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines that ``print_structure`` prints."""
    for name, value in sorted(tree.items()):
        if isinstance(value, dict):
            yield f"{indent}{name!r}:"
            yield from structure_lines(value, indent + "    ")
        else:
            yield f"{indent}{name!r}: {value}"


log = logging.getLogger("seamark")
T = TypeVar("T")
_SEND_S: Final = 10.0
"""Time limit of a read for sending the records of this process first, in seconds."""
_AGAIN_S: Final = 60.0
"""Delay before a failed request to a server is repeated, in seconds."""


class Recorded:
    """Reads of a run or log.

    Reads are empty if ``policy`` does not let this process record. ``known`` returns the attributes
    before the first record. ``place`` is a root or server that is read instead of the folder's
    root. If data is missing on this disk (``is_partial``), a server among ``remotes`` is read.
    ``settle`` writes pending data of this process before each read.
    """

    def __init__(
        self,
        folder: RunFolder,
        policy: EveryRank | RankPolicy,
        *,
        known: Callable[[], Iterable[Attribute]],
        disabled: bool = False,
        place: Path | str | None = None,
        token: str | None = None,
        remotes: Iterable[str] = (),
        is_partial: bool = False,
        settle: Callable[[], object],
    ) -> None:
        self.folder = folder
        self.disabled = disabled
        self._policy = policy
        self._known = known
        self._place, self._token = place, token
        self._index: Catalog | None = None
        server = next((one for one in remotes if one.startswith(("http://", "https://"))), None)
        self._server = None if server is None else _ServerView(server, token)
        self._is_partial = is_partial and server is not None
        self._settle = settle
        self._last: Catalog | None = None

    # ---------------------------------------------------------------- sources

    @property
    def index(self) -> Catalog:
        """Catalog of the runs: the local index of the root, or a client of the server."""
        if self._index is None:
            self._index = open_catalog(self.place, self._token)
        return self._index

    @property
    def place(self) -> Path | str:
        """Source of the reads: a root, or the address of a server."""
        return self._place or self.folder.root

    @property
    def remote(self) -> bool:
        """Whether the source is a server."""
        return isinstance(self._place, str)

    @property
    def _read_folder(self) -> RunFolder:
        if isinstance(self._place, Path):
            return RunFolder(self._place, self.folder.project, self.folder.run)
        return self.folder

    @property
    def words(self) -> str:
        """Name of the source, for messages."""
        return self.folder.words + (f" on {self._place}" if self.remote else "")

    def has_project(self) -> bool:
        """Return whether the source has the project or runs below it, or is still empty."""
        own, root = self.folder.project, self._read_folder.root
        if self.remote:
            projects = {project for project, _ in self.index.runs()}
            return not projects or any(is_inside(project, own) for project in projects)
        return not root.is_dir() or (root / own).is_dir()

    @property
    def has_read(self) -> bool:
        """Whether anything was read since this was created or closed."""
        return self._index is not None

    def view(self) -> Reader:
        """Return a reader of all processes' records; raise `RunNotFoundError` if there are none."""
        self._settle()
        self._last = None
        if self._server is not None and self._is_partial:
            found = self._server.read(self.folder)
            if found is not None:
                self._last, reader = found
                return reader
        return self.index.fresh_view(self.folder.project, self.folder.run)

    def note_copied(self, *, is_partial: bool) -> None:
        """Note that journals were copied from the server to this disk."""
        self._is_partial = is_partial and self._server is not None

    def local_reader(self) -> Reader | None:
        """Return a reader of the part on this disk; None while there is none."""
        folder = self.folder
        return self.reader(lambda: self.index.fresh_view(folder.project, folder.run))

    def reader(self, read: Callable[[], Reader] | None = None) -> Reader | None:
        """Return a reader by ``read``, `view` by default; None while nothing is recorded."""
        if self._policy.silent or (self._index is None and self.is_empty):
            return None
        try:
            return (read or self.view)()
        except RunNotFoundError:
            return None

    def log_of(self, project: str) -> Reader | None:
        """Return a reader of a project's own log; None if there is none on this disk."""
        if not self.remote and not RunFolder(self._read_folder.root, project, PROJECT_LOG).exists():
            return None
        return self.index.fresh_view(project, PROJECT_LOG)

    @property
    def silent(self) -> bool:
        """Whether this process records nothing by design, and has nothing to read from."""
        return self._policy.silent

    @property
    def is_empty(self) -> bool:
        """Whether this process cannot read anything."""
        if self._policy.silent:
            return True
        return not (self.remote or self._is_partial or self._read_folder.journal_dir.is_dir())

    def close(self) -> None:
        """Close the index; a later read opens it again."""
        self._last = None
        if self._server is not None:
            self._server.close()
        index, self._index = self._index, None
        if index is not None:
            index.close()

    # ---------------------------------------------------------------- attributes

    def attributes(self, namespace: str = "", reader: Reader | None = None) -> list[Attribute]:
        """Return the visible attributes at and below a path, sorted by path."""
        reader = reader or self.reader()
        if reader is not None:
            return reader.attributes(namespace)
        found = sorted(self._known(), key=lambda one: one.path)
        return [one for one in found if is_inside(one.path, namespace)]

    def families(self, namespace: str = "") -> dict[str, str]:
        """Return the family of each path at and below a path, sorted by path."""
        reader = self.reader()
        if reader is not None:
            found = reader.families()
        else:
            found = {one.path: one.family for one in self.attributes()}
        return {path: found[path] for path in found if is_inside(path, namespace)}

    def find(self, reader: Reader | None, path: str) -> Attribute | None:
        """Return the attribute at a path from a reader, or from the pending first record."""
        found = None if reader is None else reader.attribute(path)
        return found or next((one for one in self._known() if one.path == path), None)

    def value(self, path: str) -> Any:
        """Return the value at a path, or None."""
        found = self.find(self.reader(), path)
        return None if found is None else found.value

    def attribute(self, path: str) -> Attribute:
        """Return the attribute at a path, or raise `MissingFieldError`."""
        return self.look_up(path)[1]

    def look_up(self, path: str, reader: Reader | None = None) -> tuple[Reader | None, Attribute]:
        """Return a path's attribute and reader (None before the first record), or raise."""
        reader = reader or self.reader()
        found = self.find(reader, path)
        if found is None:
            raise self.missing(path, reader)
        return reader, found

    def missing(self, path: str, reader: Reader | None = None) -> MissingFieldError:
        """Return the error for a path without a record, with a suggestion."""
        from seamark.reading.text import nearest_path

        reader = reader or self.reader()
        near = nearest_path(path, [] if reader is None else reader.families())
        hint = f"; did you mean {near!r}?" if near else ""
        msg = f"path {path!r}: nothing is recorded there in {self.words}{hint}"
        return MissingFieldError(msg)

    def no_namespace(self, path: str, family: str | None) -> MissingFieldError | FamilyError:
        """Return the error for a path that is not a namespace."""
        if family is None:
            return self.missing(path)
        msg = (
            f"{path!r} holds {spoken(family)}, and has nothing below it to iterate over: "
            "read it with fetch() or fetch_points()"
        )
        return FamilyError(msg)

    def exists(self, path: str) -> bool:
        """Return whether something is recorded at a path or below it."""
        reader = self.reader()
        return bool(self.attributes(path)) if reader is None else reader.has(path)

    def atoms(self, namespace: str = "", reader: Reader | None = None) -> dict[str, Any]:
        """Return the values of all atoms at and below a path as nested dicts."""
        found = self.attributes(namespace, reader)
        atoms = {one.path: self.read_long_text(one.value) for one in found if one.family == "atom"}
        return nest(atoms, namespace)

    # ---------------------------------------------------------------- files, very long texts

    def contents(self) -> Contents:
        """Return the contents of the recorded files."""
        found = self._last or self.index
        contents: Contents = found.view(self.folder.project, self.folder.run).contents
        if self._server is not None and self._last is None:
            contents = self._server.contents(self.folder, contents)
        return contents

    def document(self) -> dict[str, Any]:
        """Return all records as JSON values; see `seamark.reading.document`."""
        from seamark.reading.document import SERIES, document_of, ref_of

        reader = self.reader()
        if reader is None:
            named = ref_of(self.folder.project, self.folder.run)
            return {**named, "attributes": {}, **{part: {} for part in SERIES}}
        return document_of(reader, whole=lambda text, _: self.read_long_text(text))

    def whole(self, value: Any) -> Any:
        """Return a value as written: the text itself instead of a very long text's record."""
        if not isinstance(value, dict) or value.keys() != {"sha256", "size"}:
            return value
        return self.contents().text(value)

    def read_long_text(self, value: Any) -> Any:
        """Return a value like `whole`, or the record of a text that cannot be read.

        A single unreadable text must not hide the others of a namespace.
        """
        try:
            return self.whole(value)
        except (OSError, SeamarkError) as error:
            log.warning("seamark: a text of %s cannot be read: %s", self.words, error)
            return value


class _ServerView:
    # A training never fails or waits long for a server: without an answer the part on this disk is
    # read, with a warning.

    def __init__(self, place: str, token: str | None) -> None:
        self._place, self._token = place, token
        self._catalog: RemoteCatalog | None = None
        self._pid = os.getpid()
        self._again_at = 0.0
        self._has_warned = False

    def read(self, folder: RunFolder) -> tuple[Catalog, Reader] | None:
        return self._ask(folder, lambda: self._read(folder))

    def contents(self, folder: RunFolder, here: Contents) -> Any:
        def opened() -> Contents:
            contents: Contents = self._opened().view(folder.project, folder.run).contents
            return contents

        return _FallbackContents(here, lambda: self._ask(folder, opened))

    def _ask(self, folder: RunFolder, ask: Callable[[], T]) -> T | None:
        if time.monotonic() < self._again_at:
            return None

        def lost(error: Exception) -> None:
            self._again_at = time.monotonic() + _AGAIN_S
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    "seamark: %s, which may have more of run %s, cannot be read (%s). Reads use "
                    "the records on this disk",
                    *(self._place, folder.run, str(error)[:400]),
                )

        with quietly(lost):
            found = ask()
            self._has_warned = False
            return found
        return None

    def _read(self, folder: RunFolder) -> tuple[Catalog, Reader]:
        from seamark.remote import shipper

        until = time.monotonic() + _SEND_S
        shippers = shipper.known(self._place)
        if not all(each.wait(max(0.0, until - time.monotonic()), folder) for each in shippers):
            raise TimeoutError(f"the records of this process were not sent within {_SEND_S:g} s")
        catalog = self._opened()
        reader = catalog.fresh_view(folder.project, folder.run)
        while catalog.behind:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"the records of this process are not readable there after {_SEND_S:g} s"
                )
            reader.has("sys")  # the server waits briefly for sent data to be folded
        return catalog, reader

    def _opened(self) -> RemoteCatalog:
        if (
            self._catalog is None or self._pid != os.getpid()
        ):  # a forked child does not share connections
            from seamark.remote.http.catalog import RemoteCatalog

            self._catalog, self._pid = RemoteCatalog.open(self._place, self._token), os.getpid()
        return self._catalog

    def close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None and self._pid == os.getpid():
            catalog.close()


class _FallbackContents:
    """Contents of a run folder, and of the run's server for those that the folder lacks."""

    def __init__(self, here: Contents, there: Callable[[], Contents | None]) -> None:
        self._here = here
        self._there = there

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._here, name)
        return partial(self._first, name) if name in {"text", "read", "write"} else found

    def _first(self, verb: str, /, *given: Any, **named: Any) -> Any:
        try:
            return getattr(self._here, verb)(*given, **named)
        except FileMissingError as error:
            if (there := self._there()) is None:
                raise
            try:
                return getattr(there, verb)(*given, **named)
            except FileMissingError:
                raise error from None
