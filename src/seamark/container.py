"""What a run and a project have in common.

A tree of attributes that is written to a journal and read from a store.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.content import ContentLane, read_text
from seamark.errors import (
    InactiveRunError,
    MissingFieldError,
    ReadOnlyError,
    RunNotFoundError,
    ValueKindError,
)
from seamark.handler import Handler
from seamark.journal._format import Kind, dump_json
from seamark.journal.interrupts import raised_by_signal_handler
from seamark.paths import check_path, check_writable, is_inside
from seamark.printing import show
from seamark.types import File
from seamark.values import Atom, Escaped, decode_atom, encode_atom, escape, flatten

if TYPE_CHECKING:
    from datetime import datetime

    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter
    from seamark.local.index import Index
    from seamark.local.view import RunView
    from seamark.reading.attributes import Attribute
    from seamark.reading.reader import Reader

__all__ = ["Container", "Writes"]

log = logging.getLogger("seamark")

LONG_TEXT: Final = 4 << 20
"""A string of more characters than this is kept as a blob; see `is_long`."""
_FRAME_CHARACTERS: Final = 2 << 20


class Writes:
    """The records of one assignment, gathered first: a mistake leaves nothing half-written."""

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.sets: dict[str, set[str]] = {}
        self.files: dict[str, Any] = {}

    def keep(self, wanted: Callable[[str], bool]) -> None:
        """Leave out every path that is not wanted."""
        for gathered in (self.atoms, self.sets, self.files):
            for path in [path for path in gathered if not wanted(path)]:
                del gathered[path]

    def families(self) -> Iterator[tuple[str, str]]:
        """Yield (path, family) of everything gathered."""
        for family, paths in (
            ("atom", self.atoms),
            ("string_set", self.sets),
            ("file", self.files),
        ):
            for path in paths:
                yield path, family


class Container(ABC):
    """A tree of attributes under slash-separated paths; `Run` and `Project` are the two kinds.

    Item access gives a `Handler` that holds the verbs; ``container["a/b"] = value`` assigns.
    """

    def __init__(self, folder: RunFolder, mode: str) -> None:
        self.folder = folder
        self.mode = mode
        self._writer: JournalWriter | None = None
        self._stopped = False
        self._learning: threading.Thread | None = None
        self._content: ContentLane | None = None
        self._index: Index | None = None
        self._start_lock = threading.RLock()

    # ---------------------------------------------------------------- what each kind decides

    @abstractmethod
    def _start(self) -> JournalWriter | None:
        """Return the writer, started; None where this process records nothing."""

    @property
    @abstractmethod
    def _silent(self) -> bool:
        """Whether nothing is recorded by design (disabled, or a rank that does not record)."""

    # ---------------------------------------------------------------- item access

    __iter__ = None  # else Python would ask __getitem__ for 0, 1, 2, ...

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path; nothing is read or written yet.

        Raises:
            PathError: If the path breaks the grammar.
        """
        return Handler(self, check_path(path))

    def __setitem__(self, path: str, value: Any) -> None:
        """Assign; see `Handler.assign`."""
        self[path].assign(value)

    def __delitem__(self, path: str) -> None:
        """Delete a path and everything below it; see `Handler.pop`."""
        self.pop(path)

    # ---------------------------------------------------------------- writing

    def assign(self, value: Mapping[str, Any] | Any, *, wait: bool = False) -> None:
        """Assign every value of a nested mapping, dataclass or Namespace at the root.

        Raises:
            ValueKindError: If a value cannot be kept; nothing is written then.
        """
        self._assign("", value, wait=wait)

    def pop(self, path: str, *, wait: bool = False) -> None:
        """Delete a path and everything below it, which frees it for another family.

        Raises:
            MissingFieldError: If there is nothing.
        """
        del wait
        self._delete(check_path(path))

    def record_op(self, op: Mapping[str, Any]) -> None:
        """Append one op (``docs/explanation/journal.md``, table C) as it is.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if writer := self._to_write():
            writer.append_op(op)

    def record_atoms(self, atoms: Mapping[str, Atom]) -> None:
        """Append values that are encoded already; those without a place are counted.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if (writer := self._to_write()) is None:
            return
        kept: dict[str, Atom] = {}
        for path, atom in atoms.items():
            if not writer.shares(path):
                continue
            try:
                writer.claim(check_writable(path), "atom")
            except (ValueError, TypeError) as error:
                writer.drop("atom", 1, f"a value is left out: {error}", once=("atom", path))
            else:
                kept[path] = self._short(atom)
        self._append_atoms(writer, kept)

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count what could not be recorded, and warn once about it. Never raises.

        Args:
            reason: Short name under which the losses are counted.
            count: How many values or records.
            warn: What a person should read, once for each reason.
        """
        if (writer := self._writer) is not None:
            writer.drop(reason, count, warn or f"something could not be recorded ({reason})")

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values that were captured without being asked.

        Never raises, counts what cannot be kept.
        """
        try:
            if (writer := self._writer) is None or writer.closed:
                return
            kept: dict[str, Atom] = {}
            for path, value in atoms.items():
                if not writer.shares(path):
                    continue
                try:
                    writer.claim(check_path(path), "atom")
                    kept[path] = self._short(_atom(value, path))
                except Exception as error:  # noqa: BLE001 - captures never disturb
                    writer.drop(
                        "capture",
                        1,
                        f"{path!r} could not be captured: {error}",
                        once=("capture", path),
                    )
            self._append_atoms(writer, kept)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self.drop("capture", 1, f"captured facts could not be recorded: {error!r:.300}")

    def _to_write(self) -> JournalWriter | None:
        """Return the started writer, or None where nothing is recorded by design.

        Raises:
            InactiveRunError: If `stop` was called.
            ReadOnlyError: If the mode is read-only.
        """
        if self._silent:
            return None
        if self._stopped:
            msg = f"{self._what} was stopped; open it again to write to it: init_run(with_id=...)"
            raise InactiveRunError(msg)
        if self.mode == "read-only":
            msg = f"{self._what} was opened with mode='read-only' and cannot be written to"
            raise ReadOnlyError(msg)
        writer = self._writer
        if writer is None:
            with self._start_lock:
                writer = self._writer or self._start()
        return writer

    def _to_share(self, path: str) -> JournalWriter | None:
        """Return the writer for what is said once for all ranks; None on one that leaves it to 0.

        Raises:
            InactiveRunError: If `stop` was called.
            ReadOnlyError: If the mode is read-only.
        """
        writer = self._to_write()
        return writer if writer is not None and writer.shares(path) else None

    def _takes(self, path: str) -> bool:
        return self._writer is None or self._writer.shares(path)

    @property
    def _what(self) -> str:
        return f"run {self.folder.run!r} of project {self.folder.project!r}"

    def _numbered(self, writer: JournalWriter, step: float | None) -> JournalWriter:
        """Wait for the last steps of an opened run where a step is to be numbered."""
        if step is None and (thread := self._learning) is not None:
            thread.join(10)
        return writer

    def _assign(self, path: str, value: Any, *, wait: bool = False) -> None:
        if self._silent:
            return
        writes = self._gather(path, value)
        if (writer := self._to_write()) is None:
            return
        if writer.rank:
            writes.keep(writer.shares)
        writer.expect(dict(writes.families()))
        for at, family in writes.families():
            writer.claim(at, family)
        self._append_atoms(writer, {at: self._short(atom) for at, atom in writes.atoms.items()})
        for at, values in writes.sets.items():
            writer.append_op(
                {"op": "assign_set", "path": at, "values": sorted(map(escape, values))}
            )
        for at, file in writes.files.items():
            self.content.upload(at, file, wait=wait)

    def _gather(self, path: str, value: Any) -> Writes:
        writes = Writes()
        for at, leaf in flatten(value, path).items():
            check_writable(at)
            if isinstance(leaf, File):
                _ = leaf.size  # raises where there is no file
                writes.files[at] = leaf
            elif isinstance(leaf, (set, frozenset)) or at in ("sys/tags", "sys/group_tags"):
                writes.sets[at] = set(strings(leaf, at))
            else:
                writes.atoms[at] = _atom(leaf, at)
        return writes

    def _short(self, atom: Atom) -> Atom:
        """Return an atom as it is, or that of a blob if it is a very long string."""
        if atom.type != "string" or not is_long(atom.value):
            return atom
        return Atom("text", self.content.put_text(atom.value))

    def _text(self, value: str) -> Any:
        """Return a text as a point holds it: escaped, or as a blob if it is very long."""
        text = escape(value)
        return self.content.put_text(text) if is_long(text) else text

    def _append_atoms(self, writer: JournalWriter, atoms: Mapping[str, Atom]) -> None:
        """Append atoms, in as few frames as their size allows."""
        if (lane := self._content) is not None and lane.refuses:
            lane.replace(atoms)
            atoms = {
                path: atom
                for path, atom in atoms.items()
                if not lane.postpones({"op": "assign", "atoms": {path: atom}}, path)
            }
        for part in _parts(atoms):
            op: dict[str, Any] = {"op": "assign", "atoms": part}
            if escaped := [path for path, atom in part.items() if isinstance(atom.value, Escaped)]:
                op["escaped"] = escaped
            writer.append_op(op)

    def _delete(self, path: str) -> None:
        check_writable(path)
        if (writer := self._to_share(path)) is None:
            return
        self._numbered(writer, None)  # what an opened run held must not be learned after this
        if not any(is_inside(known, path) for known in writer.families) and not self.exists(path):
            msg = f"path {path!r} cannot be deleted: nothing is recorded there in {self._what}"
            raise MissingFieldError(msg)
        writer.append_op({"op": "delete", "paths": [path]})
        writer.forget(path)
        if self._content is not None:
            self._content.forget(path)

    @property
    def content(self) -> ContentLane:
        """The lane in which files travel."""
        if self._content is None:
            self._content = ContentLane(
                self.folder, self._record_content, self._content_trouble, self._takes
            )
        return self._content

    def _record_content(self, op: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """Append a record of the lane, which goes on while the run is being stopped."""
        if (writer := self._writer) is not None:
            writer.append_op(op, kind)

    def _append_points(
        self, writer: JournalWriter, records: Iterable[Mapping[str, Any]], kind: int = Kind.OP
    ) -> None:
        """Append points in one write, without those whose contents the disk refused so far."""
        if (lane := self._content) is not None and lane.refuses:
            records = [each for each in records if not lane.postpones(each, each["path"], kind)]
        writer.append_ops(records, kind)

    def _content_trouble(self, kind: str, error: BaseException | None) -> None:
        why = f" ({kind}): {error}" if error else f": {kind}"
        if (writer := self._writer) is not None:
            later = kind == "not stored yet"
            writer.drop("file", not later, f"a file could not be kept{why}", once=("file", later))

    # ---------------------------------------------------------------- reading

    def _view(self) -> RunView:
        """Return what is recorded up to now, of every process.

        Raises:
            RunNotFoundError: If nothing was recorded yet.
        """
        if self._index is None:
            from seamark.local.index import Index

            self._index = Index.open(self.folder.root)
        return self._index.fresh_view(self.folder.project, self.folder.run)

    def _reader(self) -> Reader | None:
        """Return the same; None while nothing is recorded."""
        if self._nothing_recorded():
            return None
        try:
            return self._view()
        except RunNotFoundError:
            return None

    def _untold(self) -> Mapping[str, Atom]:
        """Return what will stand in the first record, by path, while there is none."""
        return {}

    def _attributes(self, namespace: str = "", reader: Reader | None = None) -> list[Attribute]:
        reader = reader or self._reader()
        if reader is not None:
            return reader.attributes(namespace)
        found = [self._untold_attribute(path) for path in self._untold()]
        return [one for one in found if one is not None and is_inside(one.path, namespace)]

    def _find(self, reader: Reader | None, path: str) -> Attribute | None:
        """Return what a path shows, as a reader has it or as the first record will."""
        found = None if reader is None else reader.attribute(path)
        return found or self._untold_attribute(path)

    def _attribute(self, path: str) -> Attribute:
        found = self._find(self._reader(), path)
        if found is None:
            msg = f"path {path!r}: nothing is recorded there in {self._what}"
            raise MissingFieldError(msg)
        return found

    def _untold_attribute(self, path: str) -> Attribute | None:
        from seamark.reading.attributes import Attribute

        if (atom := self._untold().get(path)) is None:
            return None
        return Attribute(path, "atom", atom.type, decode_atom(atom.type, atom.value))

    def _nothing_recorded(self) -> bool:
        return self._silent or not self.folder.journal_dir.is_dir()

    def exists(self, path: str) -> bool:
        """Tell whether something is recorded at a path or below it.

        Raises:
            PathError: If the path breaks the grammar.
        """
        reader = self._reader()
        if reader is None:
            return bool(self._attributes(check_path(path)))
        return reader.has(check_path(path))

    def fetch(self) -> dict[str, Any]:
        """Return the values of all atoms as a nested dict."""
        return self._nested("")

    def _nested(self, namespace: str, reader: Reader | None = None) -> dict[str, Any]:
        found = self._attributes(namespace, reader)
        return nest(
            {one.path: self._whole_if_there(one.value) for one in found if one.family == "atom"},
            namespace,
        )

    def _whole(self, value: Any) -> Any:
        """Return a value as it was written: what stands for a very long text is not its value.

        Raises:
            FileMissingError: If the text is gone, damaged or too large for memory.
        """
        if not isinstance(value, dict) or value.keys() != {"sha256", "size"}:
            return value
        return read_text(self.folder, value)

    def _whole_if_there(self, value: Any) -> Any:
        """Return the same; the record of a text that cannot be read stays in its place.

        One text is not to take the others of a namespace with it.
        """
        try:
            return self._whole(value)
        except OSError as error:
            log.warning("seamark: a text of %s cannot be read: %s", self._what, error)
            return value

    def get_structure(self) -> dict[str, Any]:
        """Return everything recorded as a nested dict.

        Where ``a`` and ``a/b`` both exist, ``a`` stands under ``""``.
        """
        return nest({one.path: one.value for one in self._attributes()}, "")

    def print_structure(self) -> None:
        """Print the tree of paths with their types."""
        for line in structure_lines(nest({one.path: one.type for one in self._attributes()}, "")):
            show(line)

    def get_attribute_type(self, path: str) -> str:
        """Return the type at a path: ``"float"``, ``"string"``, ... for atoms, else the family.

        Raises:
            MissingFieldError: If nothing is recorded there.
        """
        return self._attribute(check_path(path)).type

    def get_url(self) -> str:
        """Return where this lies, as a ``file://`` URL."""
        return self.folder.path.as_uri()

    def get_root_object(self) -> Container:
        """Return this object; handlers return the object that they belong to."""
        return self

    # ---------------------------------------------------------------- waiting

    def wait(self, *, disk_only: bool = False) -> None:
        """Wait until every file that was taken is stored.

        Values need no waiting: they are on disk already.
        """
        del disk_only
        if self._content is not None:
            self._content.flush()

    def sync(self, *, wait: bool = True) -> None:
        """Do what `wait` does; kept for code that was written for Neptune."""
        if wait:
            self.wait()

    @abstractmethod
    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: float | None = None,
        *,
        timestamp: float | datetime | None = None,
    ) -> None:
        """Record one number for each path, all at one step; never raises."""

    @abstractmethod
    def stop(self, *, seconds: float | None = None) -> None:
        """Stop recording."""


def _parts(atoms: Mapping[str, Atom]) -> Iterator[dict[str, Atom]]:
    """Divide atoms among records of a reasonable size."""
    part: dict[str, Atom] = {}
    size = 0
    for path, atom in atoms.items():
        weight = len(path) + _characters(atom.value)
        if part and size + weight > _FRAME_CHARACTERS:
            yield part
            part, size = {}, 0
        part[path] = atom
        size += weight
    if part:
        yield part


def is_long(text: str) -> bool:
    """Tell whether a string is kept as a blob: in JSON, a character has 1 to 6 bytes."""
    length = len(text)
    return length > LONG_TEXT or (
        length > _FRAME_CHARACTERS and len(dump_json(text)) > 2 * LONG_TEXT
    )


def _atom(value: Any, path: str) -> Atom:
    """Encode a value.

    Raises:
        ValueKindError: If it cannot be kept, or is a list longer than a record may be.
    """
    try:
        atom = encode_atom(value)
    except ValueKindError as error:
        msg = f"{path!r}: {str(error).removeprefix('value: ')}"
        raise ValueKindError(msg) from None
    if atom.type == "json" and is_long(atom.value):
        msg = (
            f"{path!r}: expected a value of at most {LONG_TEXT} bytes as JSON, got "
            f"{len(atom.value)} characters; keep it as a file: File.from_content(json.dumps(...))"
        )
        raise ValueKindError(msg)
    return atom


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return 32 + (value.bit_length() // 3 if isinstance(value, int) else 0)


def nest(flat: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Turn ``{"a/b".

    1}`` into ``{"a": {"b": 1}}``; a value beside a namespace of its name stands under ``""``.
    """
    tree: dict[str, Any] = {}
    spaces: dict[str, dict[str, Any]] = {"": tree}
    skip = len(namespace) + 1 if namespace else 0

    def space(path: str) -> dict[str, Any]:
        if path in spaces:
            return spaces[path]
        head, _, name = path.rpartition("/")
        above = space(head)
        inner: dict[str, Any] = {} if name not in above else {"": above[name]}
        above[name] = inner
        spaces[path] = inner
        return inner

    for path in sorted(flat):
        short = path[skip:]
        if not short:
            continue
        head, _, name = short.rpartition("/")
        above = space(head)
        if short in spaces:
            spaces[short][""] = flat[path]
        else:
            above[name] = flat[path]
    return tree


def structure_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines that `Container.print_structure` prints."""
    for name, value in sorted(tree.items()):
        if isinstance(value, dict):
            yield f"{indent}{name!r}:"
            yield from structure_lines(value, indent + "    ")
        else:
            yield f"{indent}{name!r}: {value}"


def strings(values: Any, where: str) -> list[str]:
    """Return one string or several as a list.

    Raises:
        ValueKindError: If one of them is no string.
    """
    found = (
        [values]
        if isinstance(values, str)
        else list(values)
        if isinstance(values, Iterable)
        else [values]
    )
    for value in found:
        if not isinstance(value, str):
            msg = (
                f"{where}: expected a string or several of them, "
                f"got {type(value).__name__}: {value!r:.80}"
            )
            raise ValueKindError(msg)
    return found
