"""From values to records: what an assignment writes, checked whole before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from seamark.errors import ValueKindError
from seamark.journal.format import dump_json
from seamark.paths import check_writable
from seamark.run.options import strings
from seamark.types import File
from seamark.values import Atom, Escaped, encode_atom, flatten, is_container
from seamark.values._parameters import has_name, parameter

__all__ = ["Writes", "assign_ops", "atom_at", "gather", "is_long"]

LONG_TEXT: Final = 4 << 20
"""A string of more characters than this is kept as a blob; see `is_long`."""
_FRAME_CHARACTERS: Final = 2 << 20
_PLAIN: Final = frozenset({float, int, str, bool, type(None)})
_SETS: Final = ("sys/tags", "sys/group_tags")


class Writes:
    """The records of one assignment, gathered first: a mistake leaves nothing half-written."""

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.sets: dict[str, set[str]] = {}
        self.files: dict[str, File] = {}

    def families(self) -> dict[str, str]:
        """Return the family of everything gathered, by path."""
        return {
            **dict.fromkeys(self.atoms, "atom"),
            **dict.fromkeys(self.sets, "string_set"),
            **dict.fromkeys(self.files, "file"),
        }


def gather(path: str, value: Any) -> Writes:
    """Return what assigning a value at a path writes.

    What stands in a container is taken as hyperparameters are: nobody is to lose a learning rate
    because there is an activation beside it. A single value that cannot be kept is a mistake.

    Raises:
        ValueKindError: If a single value cannot be kept, or a container does not end.
        PathError: If a path is derived or illegal.
        FileNotFoundError: If a file does not exist.
    """
    writes = Writes()
    if type(value) in _PLAIN and path not in _SETS:  # what most assign; a subclass may be more
        writes.atoms[check_writable(path)] = atom_at(path, value)
        return writes
    inside = is_container(value)
    for at, leaf in flatten(value, path).items():
        check_writable(at)
        if isinstance(leaf, File):
            _ = leaf.size  # raises where there is no file
            writes.files[at] = leaf
        elif at in _SETS or (isinstance(leaf, (set, frozenset)) and not (inside and _odd(leaf))):
            writes.sets[at] = set(strings(leaf, at))
        else:
            writes.atoms[at] = atom_at(at, leaf, anything=inside or has_name(leaf))
    return writes


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


def is_long(text: str) -> bool:
    """Return whether a string is kept as a blob: in JSON, a character has 1 to 6 bytes."""
    length = len(text)
    return length > LONG_TEXT or (
        length > _FRAME_CHARACTERS and len(dump_json(text)) > 2 * LONG_TEXT
    )


def assign_ops(atoms: Mapping[str, Atom]) -> Iterator[dict[str, Any]]:
    """Yield the ops that assign atoms, as few as their size allows."""
    part: dict[str, Atom] = {}
    size = 0
    for path, atom in atoms.items():
        weight = len(path) + _characters(atom.value)
        if part and size + weight > _FRAME_CHARACTERS:
            yield _assign_op(part)
            part, size = {}, 0
        part[path] = atom
        size += weight
    if part:
        yield _assign_op(part)


def _assign_op(atoms: dict[str, Atom]) -> dict[str, Any]:
    op: dict[str, Any] = {"op": "assign", "atoms": atoms}
    if escaped := [path for path, atom in atoms.items() if isinstance(atom.value, Escaped)]:
        op["escaped"] = escaped
    return op


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return 32 + (value.bit_length() // 3 if isinstance(value, int) else 0)
