"""Values of one process on their way into the journal: assigned, changed, emptied, deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import FamilyError
from seamark.journal.families import spoken
from seamark.options.checks import TAGS
from seamark.paths import check_path, check_writable, refuse_derived
from seamark.process.interrupts import let_pass, quietly
from seamark.run.parameters import Parameters, is_parameter
from seamark.run.writes import PLAIN, SETS, atom_at, atoms_in, gather
from seamark.types import Series
from seamark.values._atoms import atom_of

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.run.contents import Contents
    from seamark.run.outlet import Outlet
    from seamark.run.points import Points
    from seamark.run.writes import Write
    from seamark.values import Atom

__all__ = ["Values"]

_TAGS: Final = f"{TAGS}/"
_CLEARED: Final = ("", "string_set", "statistic")
_OF_EVERY_RANK: Final = frozenset({"state", "checkpoint", "file_point"})


class Values:
    """Records what is kept at paths, each thing once for all ranks.

    Args:
        outlet: Where it goes.
        contents: What masks texts and stores files.
        points: What records the series that are assigned.
        expect_tags: Raises what is wrong with keyed tags among values that are assigned.

    Attributes:
        parameters: The hyperparameters that this process set, as they were given.
    """

    def __init__(
        self,
        outlet: Outlet,
        contents: Contents,
        points: Points,
        expect_tags: Callable[[Mapping[str, Atom]], object],
    ) -> None:
        self.parameters = Parameters()
        self._outlet, self._contents, self._points = outlet, contents, points
        self._expect_tags = expect_tags

    # ---------------------------------------------------------------- assigning

    def assign(self, path: str, value: Any, *, wait: bool = False) -> None:
        """Assign a value, or every leaf of a mapping, dataclass or Namespace.

        Args:
            path: A legal path; ``""`` for the root.
            value: See `Handler.assign`.
            wait: Return only when files are stored.

        Raises:
            ValueKindError: If a single value cannot be kept; nothing is written then.
            FamilyError: If a path holds another family; nothing is written then.
            PathError: If a path is derived or illegal, or nobody changes what is there.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        outlet = self._outlet
        if outlet.ready is None and outlet.silent:
            if not path or is_parameter(f"{path}/"):
                with quietly():
                    self.parameters.take(atoms_in(gather(path, value)))
        elif path and type(value) in PLAIN and path not in SETS:  # what most assign
            refuse_derived(path)
            if writer := outlet.ready or outlet.to_write():
                self._assign_atom(writer, path, atom_of(value))
        else:
            if isinstance(value, list | tuple) and value:
                value = self._points.as_series(path, value)
            writes = gather(path, value)
            if writer := outlet.ready or outlet.to_write():
                self._assign(writer, writes, wait=wait)

    def _assign_atom(self, writer: JournalWriter, path: str, atom: Atom) -> None:
        """Check a single value, then record it."""
        outlet, atoms = self._outlet, {path: atom}
        outlet.expect_free(path)
        if path.startswith(_TAGS):
            self._expect_tags(atoms)
        if is_parameter(path):
            self.parameters.take(atoms)
        if outlet.rank and not outlet.shares(path):
            return
        if writer.families.get(path) != "atom":
            writer.claim(path, "atom")
        if atom.type == "string":  # nothing else can be a secret
            atoms = self._contents.hide_in_atoms(atoms)
        self._contents.append_atoms(writer, atoms)

    def _assign(self, writer: JournalWriter, writes: Mapping[str, Write], *, wait: bool) -> None:
        """Check all of an assignment, then record what is this process's to record."""
        outlet, contents = self._outlet, self._contents
        for at in writes:
            outlet.expect_free(at)
        self._expect_tags(atoms_in(writes))
        self.parameters.take(atoms_in(writes))
        series = {at: one.value for at, one in writes.items() if isinstance(one.value, Series)}
        writes = {at: one for at, one in writes.items() if at not in series and outlet.shares(at)}
        families = {at: one.family for at, one in writes.items()}
        writer.expect(families | {outlet.series_path(at): one.family for at, one in series.items()})
        for at, family in families.items():
            if family == writer.families.get(at) == "file_set":  # it is replaced
                self.delete(at)
            writer.claim(at, family)
        contents.append_atoms(writer, contents.hide_in_atoms(atoms_in(writes)))
        for at, one in writes.items():
            self._append(writer, at, one, wait=wait)
        for at, points in series.items():
            self.clear(at)
            self._points.extend(
                at, points.values, points.steps, points.timestamps, points.described
            )

    def _append(self, writer: JournalWriter, at: str, write: Write, *, wait: bool) -> None:
        """Record what is no atom and no series."""
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
        """Add strings to a string set (``add``), or take them out (``remove``).

        Raises:
            FamilyError: If the path holds another family.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if writer := self._outlet.to_share(path):
            writer.claim(path, "string_set")
            kept = self._contents.hide_all(path, values)
            writer.append_op({"op": op, "path": path, "values": kept})

    def check_values(self, paths: Iterable[str]) -> None:
        """Make sure that single values can be recorded at some paths.

        Raises:
            FamilyError: If a path holds another family.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        outlet = self._outlet
        if (writer := outlet.to_write()) is not None:
            writer.expect({path: "atom" for path in paths if outlet.shares(path)})

    # ---------------------------------------------------------------- records of other parts

    def record_op(self, op: Mapping[str, Any]) -> bool:
        """Append one op (``docs/explanation/journal.md``, table C), if it is this rank's to say.

        What it assigns or adds is recorded without secrets, as everywhere.

        Returns:
            Whether its bytes are in the kernel.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        outlet = self._outlet
        if (writer := outlet.to_write()) is None:
            return False
        if outlet.rank and op["op"] not in _OF_EVERY_RANK:
            paths = op["paths"] if "paths" in op else [op.get("path", "")]
            if not all(map(outlet.shares, paths)):
                return False
        return writer.append_op(self._contents.hide_in_op(op))

    def record_atoms(self, atoms: Mapping[str, Atom]) -> bool:
        """Append values that are encoded already; those without a place are counted.

        Returns:
            Whether the bytes of the others are in the kernel.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        writer = self._outlet.to_write()
        self.parameters.take(atoms)
        if writer is None:
            return False
        hidden = self._contents.hide_in_atoms(atoms)
        placed = self._with_place(writer, hidden, check_writable, "atom")
        return self._contents.append_atoms(writer, placed)

    def assign_quietly(self, values: Mapping[str, Any]) -> None:
        """Assign values that were captured without being asked; count what cannot be kept.

        Never raises.
        """

        def lost(error: Exception) -> None:
            warn = f"captured facts could not be recorded: {error!r:.300}"
            self._outlet.drop("capture", warn=warn)

        with quietly(lost):
            if (writer := self._outlet.writer) is None or writer.closed:
                return
            atoms = {}
            for path, value in values.items():
                try:
                    is_plain = type(value) in PLAIN
                    atoms[path] = atom_of(value) if is_plain else atom_at(path, value)
                except Exception as error:  # noqa: BLE001 - captures never disturb
                    let_pass(error)
                    what = f"{path!r} could not be captured: {error}"
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
        """Return the atoms that this process records; count those without a place."""
        placed: dict[str, Atom] = {}
        for path, atom in atoms.items():
            if not self._outlet.shares(path):
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
        """Delete what is at a path and below it.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        writer = self._outlet.to_share(path)
        self.parameters.drop(path)
        if writer is not None:
            writer.append_op({"op": "delete", "paths": [path]})
            self._points.forget(writer, path)
            self._contents.forget(path)

    def clear(self, path: str) -> None:
        """Empty a series or string set.

        Raises:
            FamilyError: If the path holds something that cannot be emptied, such as a single value.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        outlet = self._outlet
        if (writer := outlet.to_write()) is None:
            return
        own = outlet.series_path(path)
        own = own if writer.families.get(own, "").endswith("_series") else path
        family = writer.families.get(own, "")
        if family not in _CLEARED and not family.endswith("_series"):
            msg = f"{path!r} holds {spoken(family)}: only series and string sets can be cleared"
            raise FamilyError(msg)
        if own == path and not outlet.shares(path):
            return
        writer.append_op({"op": "clear", "path": own})
        self._points.clear(writer, own)
        self._contents.forget(own)
