"""From values to records: what an assignment writes, checked whole before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from seamark.blobs import members_of
from seamark.errors import ValueKindError
from seamark.journal.families import spoken
from seamark.journal.format import LONG_TEXT, is_long
from seamark.options.checks import strings
from seamark.paths import check_writable
from seamark.pictures.render import is_drawing
from seamark.process.interrupts import let_pass
from seamark.reading.browsing import Browsable
from seamark.reading.tracked import TrackedFiles
from seamark.types import Artifact, File, FileSet, Series, Single, StringSet, Value, ValueCopy
from seamark.values import Atom, Escaped, encode_atom, flatten, is_container
from seamark.values._atoms import atom_of
from seamark.values._parameters import has_name, parameter

__all__ = ["PLAIN", "SETS", "Write", "assign_ops", "atom_at", "atoms_in", "gather"]

_FRAME_CHARACTERS: Final = 2 << 20
_AROUND: Final = 32
"""More characters than stand around a path and a value in JSON."""
PLAIN: Final = frozenset({float, int, str, bool, type(None)})
"""Types of most values, which need no look inside; a subclass may be more."""
SETS: Final = ("sys/tags", "sys/group_tags")
"""Where strings are a set, however they are given."""


class Write(NamedTuple):
    """Record of an assignment at one path.

    Attributes:
        family: Of the path.
        value: An `Atom`; a set of strings; a `File`; the files of a file set by name; an artifact
            as its record holds it; or the points of a series, as a `Series`.
    """

    family: str
    value: Any


def gather(path: str, value: Any) -> dict[str, Write]:
    """Return what assigning a value at a path writes, by path.

    What stands in a container is taken as hyperparameters are: nobody is to lose a learning rate
    because there is an activation beside it. A single value that cannot be kept is a mistake.

    Raises:
        ValueKindError: If a single value cannot be kept, or a container does not end.
        PathError: If a path is derived or illegal.
        FileNotFoundError: If a file does not exist.
        MissingFieldError: If a path that is to be copied holds nothing.
    """
    if isinstance(value, TrackedFiles):  # as it was fetched from another path
        return {check_writable(path): Write("artifact", dict(value))}
    inside = is_container(value)
    leaves = flatten(value, path).items()
    writes = {check_writable(at): _write_of(at, leaf, inside=inside) for at, leaf in leaves}
    return {at: write for at, write in writes.items() if write is not None}


def atoms_in(writes: Mapping[str, Write]) -> dict[str, Atom]:
    """Return the single values among what an assignment writes."""
    return {at: write.value for at, write in writes.items() if write.family == "atom"}


def _write_of(at: str, leaf: Any, *, inside: bool) -> Write | None:
    """Return what a leaf writes; None for a copy on a rank that has nothing to copy from."""
    if type(leaf) in PLAIN and at not in SETS:
        return Write("atom", atom_of(leaf))
    if isinstance(leaf, Browsable | ValueCopy):
        return _copy(at, leaf.source_handler if isinstance(leaf, ValueCopy) else leaf)
    if isinstance(leaf, Single | StringSet):
        leaf = leaf.value if isinstance(leaf, Single) else leaf.values
    elif isinstance(leaf, Value):
        return _value(at, leaf)
    if isinstance(leaf, File):
        _ = leaf.size  # raises where there is no file
        return Write("file", leaf)
    if at in SETS or (isinstance(leaf, set | frozenset) and not (inside and _odd(leaf))):
        return Write("string_set", set(strings(leaf, at)))
    if is_drawing(leaf) and (file := _render(leaf, inside=inside)) is not None:
        return Write("file", file)
    return Write("atom", atom_at(at, leaf, anything=inside or has_name(leaf)))


def _render(drawing: Any, *, inside: bool) -> File | None:
    """Return a picture, a chart or a table as a file.

    Returns:
        None if it cannot be drawn and is one of many values, which are not to be lost with it.
    """
    try:
        return File.create_from(drawing)
    except Exception as error:  # see `let_pass`
        let_pass(error)
        if not inside:
            raise
        return None


def _value(at: str, value: Value) -> Write:
    """Take one of Neptune's values that is more than a single one.

    Raises:
        ValueKindError: If it has no place in a run.
        FileMissingError: If a pattern of a file set matches nothing.
    """
    if isinstance(value, Series):
        for file in value.values:
            _ = file.size if isinstance(file, File) else None  # raises where there is no file
        return Write(value.family, value)
    if isinstance(value, FileSet):
        return Write("file_set", members_of(value.file_globs))
    if isinstance(value, Artifact):
        known = {"kind": "tracked", "files": [], "references": [], "hash": value.hash}
        return Write("artifact", known)
    msg = f"{at!r}: a {type(value).__name__} cannot be assigned; give it to init_run(git_ref=)"
    raise ValueKindError(msg)


def _copy(at: str, source: Browsable) -> Write | None:
    """Take what another path holds: a value, a set of strings or an artifact.

    Raises:
        MissingFieldError: If it holds nothing.
        ValueKindError: If it holds something else, or is a run or a project.
    """
    recorded, path = source._place()  # noqa: SLF001 - of the classes of this package
    if recorded.silent:
        return None
    found = recorded.attribute(path) if path else None
    family = "" if found is None else found.family
    if found is not None and family == "string_set":
        return Write(family, set(found.value))
    if found is not None and family == "atom" and at not in SETS:
        return Write(family, atom_at(at, recorded.whole(found.value)))
    if found is not None and family == "artifact":
        return Write(family, dict(found.value))
    held = f"{path!r} holds {spoken(family)}" if family else "a run or project was given"
    msg = f"{at!r}: expected a value, a string set or an artifact to copy; {held}"
    raise ValueKindError(msg)


def _odd(members: set[Any] | frozenset[Any]) -> bool:
    """Return whether a set cannot be a set of strings."""
    return not all(isinstance(each, str) for each in members)


def atom_at(path: str, value: Any, *, anything: bool = False) -> Atom:
    """Encode a value.

    Args:
        path: Where it is assigned, for messages.
        value: What to encode.
        anything: Keep what is no atom as its name or its text, as `parameter` does.

    Raises:
        ValueKindError: If it cannot be kept, or is a list longer than a record may be.
    """
    try:
        atom = encode_atom(value)
    except ValueKindError as error:
        if not anything:
            msg = f"{path!r}: {str(error).removeprefix('value: ')}"
            raise ValueKindError(msg) from None
        atom = parameter(value)
    if atom.type == "json" and is_long(atom.value):
        msg = (
            f"{path!r}: expected a value of at most {LONG_TEXT} bytes as JSON, got "
            f"{len(atom.value)} characters; keep it as a file: File.from_content(json.dumps(...))"
        )
        raise ValueKindError(msg)
    return atom


def assign_ops(atoms: Mapping[str, Atom]) -> list[dict[str, Any]]:
    """Return the ops that assign atoms, as few as their size allows."""
    ops: list[dict[str, Any]] = []
    size = _FRAME_CHARACTERS  # the first atom begins an op
    for path, atom in atoms.items():
        weight = len(path) + len(str(atom.value)) + _AROUND
        if size + weight > _FRAME_CHARACTERS:
            ops.append({"op": "assign", "atoms": {}})
            size = 0
        size += weight
        ops[-1]["atoms"][path] = atom
        if isinstance(atom.value, Escaped):
            ops[-1].setdefault("escaped", []).append(path)
    return ops
