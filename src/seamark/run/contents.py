"""Texts and files in records: secrets are masked, and very long texts become blobs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs import BlobWriter
from seamark.journal.format import Kind, is_long
from seamark.process.interrupts import quietly
from seamark.values import Atom, Escaped, escape

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets
    from seamark.journal.writer import JournalWriter
    from seamark.run.journal_access import JournalAccess


log = logging.getLogger("seamark")

MASKED: Final = "sys/masked"
"""Path of the string set of paths at which something is hidden."""
_FRAME_CHARACTERS: Final = 2 << 20
_AROUND: Final = 32
"""Upper limit of the JSON characters around a path and a value."""


class Contents:
    """Mask and store contents of records; secrets at paths in `unasked` cause no warning."""

    def __init__(self, access: JournalAccess, secrets: Secrets) -> None:
        self.secrets = secrets
        self.unasked: set[str] = set()
        self._access = access
        self._hidden_at: set[str] = set()
        self._files: BlobWriter | None = None

    # ---------------------------------------------------------------- secrets

    def hide(self, path: str, text: str) -> str:
        """Return a text with its secrets masked, and note its path if there are any."""
        kept = self.secrets.text(text)
        if kept != text:
            self.note_masked([path])
        return kept

    def hide_all(self, path: str, texts: Iterable[str]) -> list[str]:
        """Return the strings of a set with secrets masked."""
        return [escape(self.hide(path, each)) for each in texts]

    def hide_in_atoms(self, atoms: Mapping[str, Atom]) -> dict[str, Atom]:
        """Return atoms with secrets masked."""
        kept = self.secrets.atoms(atoms)
        if kept != atoms:
            self.note_masked(path for path, atom in atoms.items() if kept[path] != atom)
        return kept

    def hide_in_op(self, op: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an op with secrets masked in its values or members."""
        if op["op"] == "assign":
            return {**op, "atoms": self.hide_in_atoms(op["atoms"])}
        if op["op"] == "add":
            return {**op, "values": self.hide_all(op["path"], op["values"])}
        return op

    def note_masked(self, paths: Iterable[str]) -> None:
        """Record the paths at which secrets are masked. Never raises."""
        with quietly():
            shares, writer = self._access.shares, self._access.writer
            hidden = [path for path in paths if path not in self._hidden_at and shares(path)]
            if not hidden or writer is None or writer.closed:
                return
            asked = [path for path in hidden if path not in self.unasked]
            if asked and self._hidden_at <= self.unasked:
                log.warning(
                    "seamark: the value at %r looks like a secret and is hidden; run[%r] "
                    "lists all such paths. secrets=False records them unmasked",
                    asked[0],
                    MASKED,
                )
            self._hidden_at.update(hidden)
            writer.claim(MASKED, "string_set")
            writer.append_op({"op": "add", "path": MASKED, "values": sorted(hidden)})

    # ---------------------------------------------------------------- records

    def text(self, path: str, value: str) -> Any:
        """Return the text of a point: masked, escaped, and as a blob if it is very long."""
        text = escape(self.hide(path, value))
        return self.files.put_text(text) if is_long(text) else text

    def append_atoms(self, writer: JournalWriter, atoms: Mapping[str, Atom]) -> bool:
        """Append atoms in as few records as their size allows; very long strings become blobs."""
        short = dict(atoms)
        for path, atom in atoms.items():
            if atom.type == "string" and is_long(atom.value):
                short[path] = Atom("text", self.files.put_text(atom.value))
        if (files := self._files) is not None and files.refuses:
            files.replace(short)
            short = {
                path: atom
                for path, atom in short.items()
                if not files.postpones({"op": "assign", "atoms": {path: atom}}, path)
            }
        written = True
        for op in assign_ops(short):
            written = writer.append_ops([op]) and written
        return written

    def append_points(
        self, writer: JournalWriter, records: Iterable[Mapping[str, Any]], kind: int = Kind.OP
    ) -> bool:
        """Append points in one write, except those whose contents could not be stored yet."""
        if (files := self._files) is not None and files.refuses:
            records = [each for each in records if not files.postpones(each, each["path"], kind)]
        return writer.append_ops(records, kind)

    # ---------------------------------------------------------------- files

    @property
    def files(self) -> BlobWriter:
        """Writer that stores files."""
        if self._files is None:
            access = self._access
            self._files = BlobWriter(
                access.folder,
                self.record_file,
                self._report,
                access.shares,
                self.hide,
                self._writers,
            )
        return self._files

    def record_file(self, op: Mapping[str, Any], kind: int = Kind.OP) -> bool:
        """Append a record about a file; files are still stored while the run is being stopped."""
        return (writer := self._access.writer) is not None and writer.append_op(op, kind)

    def _writers(self) -> Iterable[str]:
        writer = self._access.writer
        return () if writer is None else writer.writers

    def _report(self, kind: str, error: BaseException | None) -> None:
        why = f" ({kind}): {error}" if error else f": {kind}"
        if (writer := self._access.writer) is not None:
            later = kind == "not stored yet"
            writer.drop("file", not later, f"a file could not be stored{why}", once=("file", later))

    def forget(self, path: str) -> None:
        """Stop storing files for a path that was deleted or cleared."""
        if self._files is not None:
            self._files.forget(path)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until every file is stored; return False on timeout."""
        return self._files is None or self._files.flush(timeout_s)

    def close(self, timeout_s: float | None) -> None:
        """Wait until every file is stored, and accept no further ones."""
        if self._files is not None:
            self._files.close(timeout_s)


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
