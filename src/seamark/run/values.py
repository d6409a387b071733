"""Recording of values: assignments, changes of sets, clearing and deletion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.blobs import members_of
from seamark.errors import FamilyError, ValueKindError
from seamark.journal.format import LONG_TEXT, is_long
from seamark.journal.rows import spoken
from seamark.options.checks import PARAMETERS, TAGS, strings
from seamark.paths import check_path, check_writable, is_inside, refuse_derived
from seamark.pictures.render import is_drawing
from seamark.process.interrupts import formattable, let_pass, quietly
from seamark.reading.attributes import TrackedFiles
from seamark.reading.browsing import Browsable
from seamark.types import Artifact, File, FileSet, Series, Single, StringSet, Value, ValueCopy
from seamark.values import Atom, encode_atom, flatten, is_container
from seamark.values._atoms import atom_of
from seamark.values._parameters import has_name, is_parameter, parameter

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.run.contents import Contents
    from seamark.run.journal_access import JournalAccess
    from seamark.run.points import Points


_TAGS: Final = f"{TAGS}/"
_CLEARED: Final = ("", "string_set", "statistic")
_PLAIN: Final = frozenset({float, int, str, bool, type(None)})
"""Exact types of most values, which need no closer look; subclasses may hold more."""
_SETS: Final = ("sys/tags", "sys/group_tags")
"""Paths at which strings always form a set."""
_PARAMETER: Final = re.compile(f"(?:{PARAMETERS}|(?:.+?/)?hyperparams)/(.+)", re.DOTALL)
"""Pattern of the path of a parameter, also of one recorded by an adapter below a prefix."""


class Values:
    """Records values, sets and files, each once for all ranks."""

    def __init__(
        self,
        access: JournalAccess,
        contents: Contents,
        points: Points,
        expect_tags: Callable[[Mapping[str, Atom]], object],
    ) -> None:
        self.parameters = Parameters()
        self._access, self._contents, self._points = access, contents, points
        self._expect_tags = expect_tags

    # ---------------------------------------------------------------- assigning

    def assign(self, path: str, value: Any, *, wait: bool = False) -> None:
        """Assign a value or every leaf of a container; raise before anything is written."""
        access = self._access
        if access.ready is None and access.silent:
            if not path or is_parameter(f"{path}/"):
                with quietly():
                    self.parameters.take(_atoms_in(gather(path, value)))
        elif path and type(value) in _PLAIN and path not in _SETS:  # what most assign
            refuse_derived(path)
            if writer := access.ready or access.to_write():
                self._assign_atom(writer, path, atom_of(value))
        else:
            if isinstance(value, list | tuple) and value:
                value = self._points.as_series(path, value)
            writes = gather(path, value)
            if writer := access.ready or access.to_write():
                self._assign(writer, writes, wait=wait)

    def _assign_atom(self, writer: JournalWriter, path: str, atom: Atom) -> None:
        access, atoms = self._access, {path: atom}
        access.expect_free(path)
        if path.startswith(_TAGS):
            self._expect_tags(atoms)
        if is_parameter(path):
            self.parameters.take(atoms)
        if access.rank and not access.shares(path):
            return
        if writer.families.get(path) != "atom":
            writer.claim(path, "atom")
        if atom.type == "string":  # nothing else can be a secret
            atoms = self._contents.hide_in_atoms(atoms)
        self._contents.append_atoms(writer, atoms)

    def _assign(self, writer: JournalWriter, writes: Mapping[str, _Write], *, wait: bool) -> None:
        access, contents = self._access, self._contents
        for at in writes:
            access.expect_free(at)
        self._expect_tags(_atoms_in(writes))
        self.parameters.take(_atoms_in(writes))
        series = {at: one.value for at, one in writes.items() if isinstance(one.value, Series)}
        writes = {at: one for at, one in writes.items() if at not in series and access.shares(at)}
        families = {at: one.family for at, one in writes.items()}
        writer.expect(families | {access.series_path(at): one.family for at, one in series.items()})
        for at, family in families.items():
            if family == writer.families.get(at) == "file_set":  # it is replaced
                self.delete(at)
            writer.claim(at, family)
        contents.append_atoms(writer, contents.hide_in_atoms(_atoms_in(writes)))
        for at, one in writes.items():
            self._append(writer, at, one, wait=wait)
        for at, points in series.items():
            self.clear(at)
            self._points.extend(
                at, points.values, points.steps, points.timestamps, points.described
            )

    def _append(self, writer: JournalWriter, at: str, write: _Write, *, wait: bool) -> None:
        family, value = write
        if family == "string_set":
            values = sorted(self._contents.hide_all(at, value))
            writer.append_op({"op": "assign_set", "path": at, "values": values})
        elif family == "artifact":
            writer.append_op({**value, "op": "artifact", "path": at})
        elif family == "file":
            self._contents.files.upload(at, value, wait=wait)
        elif family == "file_set":
            self._contents.files.upload_members(at, value)
            if wait:
                self._contents.flush()

    def change_set(self, op: str, path: str, values: Iterable[str]) -> None:
        """Add strings to a string set (``add``), or take them out (``remove``)."""
        if writer := self._access.to_share(path):
            writer.claim(path, "string_set")
            kept = self._contents.hide_all(path, values)
            writer.append_op({"op": op, "path": path, "values": kept})

    def add_files(self, path: str, members: Mapping[str, Any], *, wait: bool = False) -> None:
        """Add files to a file set; see `seamark.blobs.BlobWriter.upload_members`."""
        if writer := self._access.to_share(path):
            writer.claim(path, "file_set")
            self._contents.files.upload_members(path, members)
            if wait:
                self._contents.flush()

    def check_values(self, paths: Iterable[str]) -> None:
        """Check that single values can be recorded at some paths."""
        access = self._access
        if (writer := access.to_write()) is not None:
            writer.expect({path: "atom" for path in paths if access.shares(path)})

    # ---------------------------------------------------------------- records of other parts

    def record_op(self, op: Mapping[str, Any]) -> bool:
        """Append one op (``docs/reference/journal.md``, table C), if this rank records it.

        Secrets in it are masked, as everywhere. Return whether its bytes are in the kernel.
        """
        access = self._access
        if (writer := access.to_write()) is None:
            return False
        if not all(map(access.shares, op.get("paths", ()))):  # it deletes what is of rank 0
            return False
        return writer.append_op(self._contents.hide_in_op(op))

    def record_atoms(self, atoms: Mapping[str, Atom]) -> bool:
        """Append values that are encoded already; those without a place are counted.

        Return whether the bytes of the others are in the kernel.
        """
        writer = self._access.to_write()
        self.parameters.take(atoms)
        if writer is None:
            return False
        hidden = self._contents.hide_in_atoms(atoms)
        placed = self._with_place(writer, hidden, check_writable, "atom")
        return self._contents.append_atoms(writer, placed)

    def assign_quietly(self, values: Mapping[str, Any]) -> None:
        """Assign captured values; count failures. Never raises."""
        with self._access.guard("capture", "captured facts could not be recorded"):
            if (writer := self._access.writer) is None or writer.closed:
                return
            atoms = {}
            for path, value in values.items():
                try:
                    is_plain = type(value) in _PLAIN
                    atoms[path] = atom_of(value) if is_plain else _atom_at(path, value)
                except Exception as error:  # noqa: BLE001 - captures never disturb
                    let_pass(error)
                    what = f"{path!r} could not be captured: {formattable(error)}"
                    writer.drop("capture", 1, what, once=("capture", path))
            placed = self._with_place(writer, atoms, check_path, "capture")
            self._contents.append_atoms(writer, placed)

    def _with_place(
        self,
        writer: JournalWriter,
        atoms: Mapping[str, Atom],
        check: Callable[[str], str],
        reason: str,
    ) -> dict[str, Atom]:
        placed: dict[str, Atom] = {}
        for path, atom in atoms.items():
            if not self._access.shares(path):
                continue
            try:
                writer.claim(check(path), "atom")
            except (ValueError, TypeError) as error:
                writer.drop(reason, 1, f"a value is left out: {error}", once=(reason, path))
            else:
                placed[path] = atom
        return placed

    # ---------------------------------------------------------------- deleting

    def delete(self, path: str) -> None:
        """Delete a path and everything below it."""
        writer = self._access.to_share(path)
        self.parameters.drop(path)
        if writer is not None:
            writer.append_op({"op": "delete", "paths": [path]})
            self._points.forget(writer, path)
            self._contents.forget(path)

    def clear(self, path: str) -> None:
        """Empty a series or string set."""
        access = self._access
        if (writer := access.to_write()) is None:
            return
        own = access.series_path(path)
        own = own if writer.families.get(own, "").endswith("_series") else path
        family = writer.families.get(own, "")
        if family not in _CLEARED and not family.endswith("_series"):
            raise FamilyError(
                f"{path!r} holds {spoken(family)}: only series and string sets can be cleared"
            )
        if own == path and not access.shares(path):
            return
        writer.append_op({"op": "clear", "path": own})
        self._points.clear(writer, own)
        self._contents.forget(own)


def _name_of(path: str) -> str | None:
    found = _PARAMETER.fullmatch(path)
    return None if found is None else found[1]


class Parameters:
    """Hyperparameters by path as they were given, nothing hidden; `dropped` are deleted paths.

    ``has_recorded`` is true if those that were recorded before are among them.
    """

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.dropped: list[str] = []
        self.has_recorded = False

    def take(self, atoms: Mapping[str, Atom]) -> None:
        """Note those of some values that are parameters."""
        for path, atom in atoms.items():
            if is_parameter(path):
                self.atoms[path] = atom

    def drop(self, path: str) -> None:
        """Forget a path and everything below it."""
        self.atoms = {one: atom for one, atom in self.atoms.items() if not is_inside(one, path)}
        self.dropped.append(path)

    def add_recorded(self, read: Callable[[], Mapping[str, Atom]]) -> None:
        """Read, once, the parameters of an opened run; add those that this process left alone."""
        self.has_recorded = True
        held = {
            path: atom
            for path, atom in read().items()
            if not any(is_inside(path, one) for one in self.dropped)
        }
        self.atoms = {**held, **self.atoms}

    def by_name(self) -> dict[str, Atom]:
        """Return encoded values by name; those of the user override those of an adapter."""
        paths = sorted(self.atoms, key=lambda path: path.startswith(f"{PARAMETERS}/"))
        return {name: self.atoms[path] for path in paths if (name := _name_of(path)) is not None}

    def paths_of(self, names: Iterable[str]) -> list[str]:
        """Return all paths of parameters with these names."""
        wanted = set(names)
        return [path for path in self.atoms if _name_of(path) in wanted]


class _Write(NamedTuple):
    # `value` is an `Atom`; a set of strings; a `File`; the files of a file set by name; an artifact
    # as its record holds it; or the points of a series, as a `Series`.

    family: str
    value: Any


def gather(path: str, value: Any) -> dict[str, _Write]:
    """Return the writes of an assignment, by path.

    Values in a container are treated like hyperparameters: a learning rate must not be lost because
    of an activation function beside it. A single value that cannot be recorded is a mistake.
    """
    if isinstance(value, TrackedFiles):  # as it was fetched from another path
        return {check_writable(path): _Write("artifact", dict(value))}
    inside = is_container(value)
    leaves = flatten(value, path).items()
    writes = {check_writable(at): _write_of(at, leaf, inside=inside) for at, leaf in leaves}
    return {at: write for at, write in writes.items() if write is not None}


def _atoms_in(writes: Mapping[str, _Write]) -> dict[str, Atom]:
    return {at: write.value for at, write in writes.items() if write.family == "atom"}


def _write_of(at: str, leaf: Any, *, inside: bool) -> _Write | None:
    if type(leaf) in _PLAIN and at not in _SETS:
        return _Write("atom", atom_of(leaf))
    if isinstance(leaf, Browsable | ValueCopy):
        return _copy(at, leaf.source_handler if isinstance(leaf, ValueCopy) else leaf)
    if isinstance(leaf, Single | StringSet):
        leaf = leaf.value if isinstance(leaf, Single) else leaf.values
    elif isinstance(leaf, Value):
        return _value(at, leaf)
    if isinstance(leaf, File):
        _ = leaf.size  # raises where there is no file
        return _Write("file", leaf)
    is_set = isinstance(leaf, set | frozenset)
    if at in _SETS or (is_set and not (inside and any(not isinstance(one, str) for one in leaf))):
        return _Write("string_set", set(strings(leaf, at)))
    if is_drawing(leaf) and (file := _render(leaf, inside=inside)) is not None:
        return _Write("file", file)
    return _Write("atom", _atom_at(at, leaf, anything=inside or has_name(leaf)))


def _render(drawing: Any, *, inside: bool) -> File | None:
    """Return a drawing as a file; None if it fails and is one of many, which stay without it."""
    with quietly(only=Exception if inside else ()):
        return File.create_from(drawing)
    return None


def _value(at: str, value: Value) -> _Write:
    if isinstance(value, Series):
        for file in value.values:
            _ = file.size if isinstance(file, File) else None  # raises where there is no file
        return _Write(value.family, value)
    if isinstance(value, FileSet):
        return _Write("file_set", members_of(value.file_globs))
    if isinstance(value, Artifact):
        known = {"kind": "tracked", "files": [], "references": [], "hash": value.hash}
        return _Write("artifact", known)
    raise ValueKindError(
        f"{at!r}: a {type(value).__name__} cannot be assigned; pass it to init_run(git_ref=)"
    )


def _copy(at: str, source: Browsable) -> _Write | None:
    recorded, path = source._place()  # noqa: SLF001 - of the classes of this package
    if recorded.silent:
        return None
    held = "a run or project was given"
    if path:
        found = recorded.attribute(path)
        if found.family == "string_set":
            return _Write(found.family, set(found.value))
        if found.family == "atom" and at not in _SETS:
            return _Write(found.family, _atom_at(at, recorded.whole(found.value)))
        if found.family == "artifact":
            return _Write(found.family, dict(found.value))
        held = f"{path!r} holds {spoken(found.family)}"
    raise ValueKindError(f"{at!r}: expected a value, a string set or an artifact to copy; {held}")


def _atom_at(path: str, value: Any, *, anything: bool = False) -> Atom:
    try:
        atom = encode_atom(value)
    except ValueKindError as error:
        if not anything:
            raise ValueKindError(f"{path!r}: {str(error).removeprefix('value: ')}") from None
        atom = parameter(value)
    if atom.type == "json" and is_long(atom.value):
        raise ValueKindError(
            f"{path!r}: expected a value of at most {LONG_TEXT} bytes as JSON, got "
            f"{len(atom.value)} characters; store it as a file: File.from_content(json.dumps(...))"
        )
    return atom
