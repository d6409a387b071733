"""From values to records: what an assignment writes, checked whole before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PLAIN", "SETS", "Writes", "assign_ops", "atom_at", "gather"]

_FRAME_CHARACTERS: Final = 2 << 20
_AROUND: Final = 32
"""More characters than stand around a path and a value in JSON."""
PLAIN: Final = frozenset({float, int, str, bool, type(None)})
"""Types of most values, which need no look inside; a subclass may be more."""
SETS: Final = ("sys/tags", "sys/group_tags")
"""Where strings are a set, however they are given."""

_OTHER_FAMILIES: Final = ("string_set", "file", "file_set", "artifact")


class Writes:
    """The records of one assignment, gathered first: a mistake leaves nothing half-written."""

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.sets: dict[str, set[str]] = {}
        self.files: dict[str, File] = {}
        self.members: dict[str, dict[str, Path]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.series: dict[str, Series] = {}

    def families(self) -> dict[str, str]:
        """Return the family of everything gathered but series, by path."""
        found = dict.fromkeys(self.atoms, "atom")
        others: tuple[Mapping[str, Any], ...] = (
            *(self.sets, self.files, self.members, self.artifacts),
        )
        for family, held in zip(_OTHER_FAMILIES, others, strict=True):
            if held:
                found |= dict.fromkeys(held, family)
        return found


def gather(path: str, value: Any) -> Writes:
    """Return what assigning a value at a path writes.

    What stands in a container is taken as hyperparameters are: nobody is to lose a learning rate
    because there is an activation beside it. A single value that cannot be kept is a mistake.

    Raises:
        ValueKindError: If a single value cannot be kept, or a container does not end.
        PathError: If a path is derived or illegal.
        FileNotFoundError: If a file does not exist.
        MissingFieldError: If a path that is to be copied holds nothing.
    """
    writes = Writes()
    if isinstance(value, TrackedFiles):  # as it was fetched from another path
        writes.artifacts[check_writable(path)] = dict(value)
        return writes
    inside = is_container(value)
    for at, leaf in flatten(value, path).items():
        check_writable(at)
        if type(leaf) in PLAIN and at not in SETS:
            writes.atoms[at] = atom_of(leaf)
        elif isinstance(leaf, Browsable):
            _copy(writes, at, leaf)
        elif isinstance(leaf, ValueCopy):
            _copy(writes, at, leaf.source_handler)
        elif isinstance(leaf, Value) and not isinstance(leaf, (Single, StringSet)):
            _value(writes, at, leaf)
        else:
            _leaf(writes, at, leaf, inside=inside)
    return writes


def _leaf(writes: Writes, at: str, leaf: Any, *, inside: bool) -> None:
    if isinstance(leaf, (Single, StringSet)):
        leaf = leaf.value if isinstance(leaf, Single) else leaf.values
    if isinstance(leaf, File):
        _ = leaf.size  # raises where there is no file
        writes.files[at] = leaf
    elif at in SETS or (isinstance(leaf, (set, frozenset)) and not (inside and _odd(leaf))):
        writes.sets[at] = set(strings(leaf, at))
    elif is_drawing(leaf) and (file := _drawn(leaf, inside=inside)) is not None:
        writes.files[at] = file
    else:
        writes.atoms[at] = atom_at(at, leaf, anything=inside or has_name(leaf))


def _drawn(drawing: Any, *, inside: bool) -> File | None:
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


def _value(writes: Writes, at: str, value: Value) -> None:
    """Take one of Neptune's values that is more than a single one.

    Raises:
        ValueKindError: If it has no place in a run.
        FileMissingError: If a pattern of a file set matches nothing.
    """
    if isinstance(value, Series):
        for file in value.values:
            _ = file.size if isinstance(file, File) else None  # raises where there is no file
        writes.series[at] = value
    elif isinstance(value, FileSet):
        writes.members[at] = members_of(value.file_globs)
    elif isinstance(value, Artifact):
        known = {"kind": "tracked", "files": [], "references": [], "hash": value.hash}
        writes.artifacts[at] = known
    else:
        msg = f"{at!r}: a {type(value).__name__} cannot be assigned; give it to init_run(git_ref=)"
        raise ValueKindError(msg)


def _copy(writes: Writes, at: str, source: Browsable) -> None:
    """Take what another path holds: a value, a set of strings or an artifact.

    Raises:
        MissingFieldError: If it holds nothing.
        ValueKindError: If it holds something else, or is a run or a project.
    """
    recorded, path = source._place()  # noqa: SLF001 - of the classes of this package
    if recorded.silent:
        return
    found = recorded.attribute(path) if path else None
    family = "" if found is None else found.family
    if found is not None and family == "string_set":
        writes.sets[at] = set(found.value)
    elif found is not None and family == "atom" and at not in SETS:
        writes.atoms[at] = atom_at(at, recorded.whole(found.value))
    elif found is not None and family == "artifact":
        writes.artifacts[at] = dict(found.value)
    else:
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
