"""Writing: what one process records of a run or project."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs import BlobWriter
from seamark.capture.secrets import Secrets
from seamark.errors import FamilyError, InactiveRunError, PathError, ReadOnlyError
from seamark.journal.families import spoken
from seamark.journal.format import Kind, is_long
from seamark.journal.writer import SYNC_S, JournalWriter
from seamark.paths import check_path, check_writable, is_inside
from seamark.process.interrupts import let_pass, quietly
from seamark.run.kept import Kept
from seamark.run.lifecycle import RESTING, STOPPED, WAITING, Lifecycle
from seamark.run.parameters import Parameters, is_parameter
from seamark.run.phases import in_phase
from seamark.run.ranks import RankPaths
from seamark.run.writes import assign_ops, atom_at, gather
from seamark.types import FileSeries, FloatSeries, Series, StringSeries
from seamark.values import Atom, escape, to_time_ns

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.run.ranks import EveryRank, RankPolicy
    from seamark.run.writes import Writes
    from seamark.values.keeping import Keep

__all__ = ["Recorder"]

log = logging.getLogger("seamark")

_NUMBERS: Final = frozenset({float, int})
_EXACT: Final = 2**53
_KNOWN_LIMIT: Final = 4096
_NO_SERIES: Final[Mapping[str, Any]] = {}
_USUAL: Final = Secrets()
_POINTS: Final[Mapping[str, Callable[[Any], Series]]] = {
    one.family: one for one in (FloatSeries, StringSeries, FileSeries)
}
MASKED: Final = "sys/masked"
"""The paths of a run at which something is hidden, as a string set."""

_RESERVED: Final = {"tags": "atom"}
"""What is kept below a namespace, and nothing else: keyed tags are single values."""
_CLEARED: Final = ("", "string_set", "statistic")
_OF_EVERY_RANK: Final = frozenset({"state", "checkpoint", "file_point"})


class Recorder:
    """Writes what one process records; the one answer to whether it does.

    Args:
        folder: Where it is recorded.
        mode: See ``init_run``.
        lifecycle: Of the run.
        policy: Whether this process records, and where.
        header: Returns what the HEADER of a journal that is opened now says.
        start: Called, with a lock held, for the first record: opens the journal. What it raises is
            a person's mistake, and nothing is recorded.
        secrets: What is hidden in values and texts before they are written.
        keep: What is kept of series in place of their points, by path or pattern.
        expect_tags: Raises what is wrong with keyed tags among values that are assigned.
        fixed: Path at and below which nobody changes anything any more; None if there is none.
        after_t: Time of the last record of a run that lies elsewhere, ns since the Unix epoch.

    Attributes:
        folder: Where it is recorded.
        mode: See ``init_run``.
        writer: The journal; None before the first record.
        secrets: What is hidden in values and texts.
        row: Records one number for each path at one step, ``row(metrics, step)``; returns whether
            it is in the kernel (None in a disabled run). Never raises.
        kept: What is kept of series in place of their points.
        parameters: The hyperparameters that this process set, as they were given.
        unasked: Paths of texts that were captured: nobody is warned of what is hidden in them.
        rank: 0, or the rank that records its own series beside those of rank 0.
    """

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        lifecycle: Lifecycle,
        policy: EveryRank | RankPolicy,
        *,
        header: Callable[[], dict[str, Any]],
        start: Callable[[], object],
        secrets: Secrets = _USUAL,
        keep: Mapping[str, Keep] | None = None,
        expect_tags: Callable[[Mapping[str, Atom]], object] | None = None,
        fixed: str | None = None,
        after_t: int = 0,
    ) -> None:
        self.folder = folder
        self.mode = mode
        self.writer: JournalWriter | None = None
        self.secrets = secrets
        self.kept = Kept(lambda: self.writer, keep or {}, self.begin_points)
        self.rank = 0
        self._watch_series: Callable[[Iterable[str]], object] | None = None
        self._before_point: Callable[[], object] | None = None
        self.row: Callable[..., bool | None] = self._first_row
        self._lifecycle = lifecycle
        self._policy = policy
        self._header = header
        self._start = start
        self._lock = threading.RLock()
        self._content: BlobWriter | None = None
        self._ranked: RankPaths | None = None
        self._after_t = after_t
        self._warned = False
        self.unasked: set[str] = set()
        self._hidden_at: set[str] = set()
        self.parameters = Parameters()
        self._expect_tags = expect_tags
        self._fixed = fixed
        self._known_paths: dict[tuple[str, tuple[Any, ...]], tuple[str, ...]] = {}

    # ---------------------------------------------------------------- whether it records

    @property
    def silent(self) -> bool:
        """Whether nothing is recorded by design: disabled, or a rank that does not record."""
        return self._policy.silent

    @property
    def recording(self) -> bool:
        """Whether this process can record: not on silent ranks, not once stopped or read-only."""
        return not (self.silent or self._lifecycle.phase == STOPPED or self.mode == "read-only")

    @property
    def speaks_for_all(self) -> bool:
        """Whether this process records what is said once for all ranks: values, tags and files."""
        return self.recording and not (self.rank or (self.writer is None and self._policy.apart))

    @property
    def settled(self) -> bool:
        """Whether every record made so far is in the kernel.

        False only inside a signal handler that interrupted a record: what the handler recorded
        follows right after that one.
        """
        return self.writer is None or self.writer.settled

    def to_write(self) -> JournalWriter | None:
        """Return the writer; None where nothing is recorded by design.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if self.silent:
            return None
        if self._lifecycle.phase == STOPPED:
            what = self.folder.words
            verb = f"init_{self.folder.kind}"
            given = "..." if verb == "init_project" else "with_id=..."
            msg = f"{what} was stopped; open it again to write to it: {verb}({given})"
            raise InactiveRunError(msg)
        if self.mode == "read-only":
            what = self.folder.words
            msg = f"{what} was opened with mode='read-only' and cannot be written to"
            raise ReadOnlyError(msg)
        if self.writer is None:
            with self._lock:
                if self.writer is None:
                    self._start()
        return self.writer

    def to_append(self) -> JournalWriter | None:
        """Return the writer for points; None, with one warning, where the run was stopped.

        A loop that logs once too often goes on.

        Raises:
            ReadOnlyError: If it was opened for reading.
        """
        try:
            return self.to_write()
        except InactiveRunError as error:
            self._warn_of_silence(error)
            return None

    def _warn_of_silence(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("seamark: nothing is recorded: %s", error)

    def open(
        self,
        prepare: Callable[[JournalWriter], object] | None = None,
        *,
        watch_series: Callable[[Iterable[str]], object] | None = None,
        before_point: Callable[[], object] | None = None,
    ) -> JournalWriter:
        """Begin to record, as the rank that this process is now.

        Args:
            prepare: Called with the writer before any thread can record with it.
            watch_series: Called with the paths of float series before points are added to them,
                until `unwatch_series`; None where nobody has to know.
            before_point: Called once before the first point of any series, with which a run begins
                that was not started; None where it has begun.
        """
        self._watch_series, self._before_point = watch_series, before_point
        self.rank = self._policy.apart
        self._ranked = RankPaths(self.rank, self.shares) if self.rank else None
        writer = JournalWriter(
            self.folder,
            self._header,
            after_t=self._after_t,
            reserved=_RESERVED,
            at_heartbeat=self._beat,
        )
        if prepare is not None:
            prepare(writer)
        self.use(writer)
        return writer

    def use(self, writer: JournalWriter) -> None:
        """Continue with a writer; in a forked child, with the one that it inherited."""
        self._policy.settle()
        self.writer = writer
        self.kept.begin(writer)
        self.row = self._rows(writer)

    def let_go(self) -> JournalWriter | None:
        """Take the writer away and return it: a forked child may be another rank."""
        writer, self.writer = self.writer, None
        return writer

    def ask_again(self) -> None:
        """Ask again whether this process records; a journal that is open stays so."""
        self._policy.forget()
        if self.writer is None:
            self.row = self._first_row

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again."""
        self._lock = threading.RLock()
        self.kept.after_fork()
        self._policy.forget()
        self.row = self._first_row

    def begin_attempt(self) -> None:
        """Go on in a journal of another attempt, with what its header says from now on."""
        self.kept.renew()
        if self.writer is not None:
            self.writer.rotate()

    def _beat(self) -> None:
        self.kept.write()
        if self._lifecycle.phase in (RESTING, WAITING):
            self.rest()
        else:
            self._lifecycle.call("heartbeat")

    def _rows(self, writer: JournalWriter) -> Callable[..., bool | None]:
        watched = self.rank or self._watch_series is not None
        return self._watched_row if watched else writer.append_row

    def _watch(self, paths: Iterable[str]) -> None:
        """Announce points of float series; those of other threads wait until that is done."""
        if self._watch_series is not None:
            with self._lock:
                if self._watch_series is not None:
                    self._watch_series(paths)

    def unwatch_series(self) -> None:
        """Take rows the quick way again."""
        self._watch_series = None
        if self.writer is not None:
            self.row = self._rows(self.writer)

    def begin_points(self) -> None:
        """Take note that points of series are about to be recorded on purpose."""
        if self._before_point is None:
            return
        with self._lock:  # another thread's first point waits until the run has begun
            call, self._before_point = self._before_point, None
            if call is not None:
                call()

    # ---------------------------------------------------------------- whose paths

    def shares(self, path: str) -> bool:
        """Return whether this process records values and files at a path."""
        writer = self.writer
        if not self.rank or writer is None:
            return True
        return any(is_inside(path, f"monitoring/{each}") for each in writer.writers)

    def series_path(self, path: str) -> str:
        """Return where this rank keeps its points of a series."""
        return path if self._ranked is None else str(self._ranked[path])

    # ---------------------------------------------------------------- numbers

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: Any,
        timestamp: Any,
        base: str = "",
        phase: Any = None,
        epoch: Any = None,
    ) -> None:
        """Record one number for each path below a base, all at one step; never raises."""
        if base or phase is not None or epoch is not None:
            if self.writer is None and self.recording:
                self.row({}, None)  # begins: what is left out can be counted then
            metrics = in_phase(metrics, base, phase, epoch, self.drop)
            if not metrics:
                return
        if timestamp is None:
            self.row(metrics, step)
            return
        time_ns = None
        try:
            time_ns = to_time_ns(timestamp)
        except Exception as error:  # noqa: BLE001 - see `let_pass`
            let_pass(error)
            self.drop("timestamp", warn=f"log_metrics: the timestamp is left out: {error}")
        self.row(metrics, step, time_ns)

    def quick_row(self, path: str, value: Any, step: Any) -> Mapping[str, float] | None:
        """Return what `row` takes as it is, if a point is one of plain numbers of known series.

        Args:
            path: Attribute path.
            value: A number, or a dict of numbers for series below the path.
            step: Of the point.

        Returns:
            Number by path; None if there is something to be checked or said.
        """
        if step is not None and not (type(step) in _NUMBERS and math.isfinite(step)):
            return None
        if type(value) is not dict:
            plain = type(value) is float or (type(value) is int and -_EXACT < value < _EXACT)
            return {path: value} if plain and self._paths_below(path, ()) else None
        kinds, numbers = set(map(type, value.values())), value.values()
        plain = kinds == {float} or (
            bool(kinds) and kinds <= _NUMBERS and all(-_EXACT < each < _EXACT for each in numbers)
        )
        paths = self._paths_below(path, tuple(value)) if plain else ()
        return dict(zip(paths, numbers, strict=True)) if paths else None

    def _paths_below(self, path: str, keys: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the paths of keys below a path if they are known float series, else nothing."""
        found = self._known_paths.get((path, keys))
        if found is None:
            families = {} if self.writer is None else self.writer.families
            paths = tuple(f"{path}/{key}" for key in keys) or (path,)
            known = all(families.get(self.series_path(each)) == "float_series" for each in paths)
            if not known or not all(isinstance(key, str) for key in keys):
                return ()
            if len(self._known_paths) >= _KNOWN_LIMIT:
                self._known_paths.clear()
            found = self._known_paths[path, keys] = paths
        return found

    def _first_row(self, metrics: Any, step: Any = None, time_ns: int | None = None) -> bool | None:
        """Begin with the first row; in read-only and stopped runs, warn."""
        try:
            if self.silent:
                if self.mode == "disabled":
                    self.row = _nothing
                elif self._policy.still_silent is not None:
                    self.row = self._row_of_silent_rank
            elif (writer := self.to_write()) is not None:
                if self.row == self._first_row:  # begun before a fork
                    self.row = self._rows(writer)
                return self.row(metrics, step, time_ns)
        except Exception as error:  # noqa: BLE001 - see `let_pass`
            let_pass(error)
            self._warn_of_silence(error)
        return False

    def _row_of_silent_rank(
        self, metrics: Any, step: Any = None, time_ns: int | None = None
    ) -> bool | None:
        """Record nothing, as long as this is another rank than 0."""
        still_silent = self._policy.still_silent
        if still_silent is not None and still_silent():
            return False
        self.row = self._first_row
        return self._first_row(metrics, step, time_ns)

    def _watched_row(
        self, metrics: Any, step: Any = None, time_ns: int | None = None
    ) -> bool | None:
        """Record a row of this rank's own series, and of an opened run."""
        writer, ranked = self.writer, self._ranked
        if writer is None:
            return self._first_row(metrics, step, time_ns)
        try:
            if self.kept.cells or self.kept.patterns:  # of all ranks they are at one path
                metrics = self.kept.divert(metrics)
                if not metrics:
                    return False
            if ranked is not None:
                metrics = {ranked[path]: value for path, value in metrics.items()}
            self._watch(metrics)
        except Exception as error:  # noqa: BLE001 - no mapping, or no key: the writer says so
            let_pass(error)
        return writer.append_row(metrics, step, time_ns)

    def append_column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None,
        times_ns: Sequence[int] | None,
    ) -> bool:
        """Record many points of one float series; return whether they are in the kernel.

        Raises:
            FamilyError: If the path holds another family.
        """
        at = self.series_path(path)
        self._watch((at,))
        return self.writer is not None and self.writer.append_column(at, values, steps, times_ns)

    # ---------------------------------------------------------------- values

    def assign(self, path: str, value: Any, *, wait: bool = False) -> Mapping[str, Series]:
        """Assign a value, or every leaf of a mapping, dataclass or Namespace.

        Returns:
            The series among them, which are still to be recorded, by path.

        Raises:
            ValueKindError: If a single value cannot be kept; nothing is written then.
            FamilyError: If a path holds another family; nothing is written then.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if self.silent:
            if not path or is_parameter(f"{path}/"):
                with quietly():
                    self.parameters.take(gather(path, value).atoms)
            return _NO_SERIES
        writes = gather(path, value)
        if (writer := self.to_write()) is None:
            return _NO_SERIES
        for at in writes.families() if self._fixed is not None else ():
            self._expect_free(at)
        if self._expect_tags is not None:
            self._expect_tags(writes.atoms)
        self.parameters.take(writes.atoms)
        families = {at: each for at, each in writes.families().items() if self.shares(at)}
        series = {self.series_path(at): each.family for at, each in writes.series.items()}
        writer.expect(families | series if series else families)
        if writes.members:
            self._make_room(writer, writes.members)
        for at, family in families.items():
            writer.claim(at, family)
        given = {at: atom for at, atom in writes.atoms.items() if at in families}
        self._append_atoms(writer, self._without_secrets(given))
        if len(families) > len(given):
            self._append_more(writer, writes, families, wait=wait)
        return writes.series

    def as_points(self, path: str, values: Sequence[Any]) -> Any:
        """Return values as the points of a series that this process wrote, else as they are.

        Raises:
            ValueKindError: If they cannot be points of that series.
        """
        writer = self.writer
        family = "" if writer is None else writer.families.get(self.series_path(path), "")
        return _POINTS[family](values) if family in _POINTS else values

    def _make_room(self, writer: JournalWriter, paths: Iterable[str]) -> None:
        """Delete file sets that are replaced."""
        for at in paths:
            if writer.families.get(at) == "file_set":
                self.delete(at)

    def _append_more(
        self, writer: JournalWriter, writes: Writes, families: Mapping[str, str], *, wait: bool
    ) -> None:
        """Append what is no atom of an assignment, where this process records it."""
        for at, members in writes.sets.items():
            if at in families:
                values = sorted(escape(self.hide(at, each)) for each in members)
                writer.append_op({"op": "assign_set", "path": at, "values": values})
        for at, artifact in writes.artifacts.items():
            if at in families:
                writer.append_op({**artifact, "op": "artifact", "path": at})
        for at, file in writes.files.items():
            self.content.upload(at, file, wait=wait)
        for at, found in writes.members.items():
            if at in families:
                self.content.upload_members(at, found)
        if wait and writes.members:
            self.wait()

    def change_set(self, op: str, path: str, values: Iterable[str]) -> None:
        """Add strings to a string set (``add``), or take them out (``remove``).

        Raises:
            FamilyError: If the path holds another family.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if writer := self.to_share(path):
            writer.claim(path, "string_set")
            kept = [escape(self.hide(path, each)) for each in values]
            writer.append_op({"op": op, "path": path, "values": kept})

    def to_share(self, path: str) -> JournalWriter | None:
        """Return the writer for what is said once for all ranks; None on one that leaves it to 0.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
            PathError: If nobody changes what is there.
        """
        writer = self.to_write()
        self._expect_free(path)
        return writer if writer is not None and self.shares(path) else None

    def _expect_free(self, path: str) -> None:
        if self._fixed is not None and is_inside(path, self._fixed):
            msg = f"path: {path!r} is what {self.folder.words} consists of, and never changes"
            raise PathError(msg)

    def record_op(self, op: Mapping[str, Any]) -> bool:
        """Append one op (``docs/explanation/journal.md``, table C), if it is this rank's to say.

        What it assigns or adds is recorded without secrets, as everywhere.

        Returns:
            Whether its bytes are in the kernel.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if (writer := self.to_write()) is None:
            return False
        if self.rank and op["op"] not in _OF_EVERY_RANK:
            paths = op["paths"] if "paths" in op else [op.get("path", "")]
            if not all(map(self.shares, paths)):
                return False
        return writer.append_op(self._op_without_secrets(op))

    def record_atoms(self, atoms: Mapping[str, Atom]) -> bool:
        """Append values that are encoded already; those without a place are counted.

        Returns:
            Whether the bytes of the others are in the kernel.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        writer = self.to_write()
        self.parameters.take(atoms)
        if writer is None:
            return False
        return self._record_atoms(writer, self._without_secrets(atoms), check_writable, "atom")

    def expect_values(self, paths: Iterable[str]) -> None:
        """Make sure that single values can be recorded at some paths.

        Raises:
            FamilyError: If a path holds another family.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if (writer := self.to_write()) is not None:
            writer.expect({path: "atom" for path in paths if self.shares(path)})

    def assign_quietly(self, values: Mapping[str, Any]) -> None:
        """Assign values that were captured without being asked; count what cannot be kept.

        Never raises.
        """

        def lost(error: Exception) -> None:
            self.drop("capture", warn=f"captured facts could not be recorded: {error!r:.300}")

        with quietly(lost):
            if (writer := self.writer) is None or writer.closed:
                return
            atoms = {}
            for path, value in values.items():
                try:
                    atoms[path] = atom_at(path, value)
                except Exception as error:  # noqa: BLE001 - captures never disturb
                    let_pass(error)
                    what = f"{path!r} could not be captured: {error}"
                    writer.drop("capture", 1, what, once=("capture", path))
            self._record_atoms(writer, atoms, check_path, "capture")

    def _record_atoms(
        self,
        writer: JournalWriter,
        atoms: Mapping[str, Atom],
        check: Callable[[str], str],
        reason: str,
    ) -> bool:
        kept: dict[str, Atom] = {}
        for path, atom in atoms.items():
            if not self.shares(path):
                continue
            try:
                writer.claim(check(path), "atom")
            except (ValueError, TypeError) as error:
                writer.drop(reason, 1, f"a value is left out: {error}", once=(reason, path))
            else:
                kept[path] = atom
        return self._append_atoms(writer, kept)

    def _without_secrets(self, atoms: Mapping[str, Atom]) -> Mapping[str, Atom]:
        """Return what is recorded of atoms that were given on purpose."""
        kept = self.secrets.atoms(atoms)
        if hidden := [path for path, atom in atoms.items() if kept[path] is not atom]:
            self.note_masked(hidden)
        return kept

    def _op_without_secrets(self, op: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is recorded of an op that says what a value, or a new member of a set, is."""
        if op["op"] == "assign":
            return {**op, "atoms": self._without_secrets(op["atoms"])}
        if op["op"] == "add":
            return {**op, "values": [escape(self.hide(op["path"], each)) for each in op["values"]]}
        return op

    def hide(self, path: str, text: str) -> str:
        """Return what is recorded of a text that is told at a path."""
        kept = self.secrets.text(text)
        if kept != text:
            self.note_masked([path])
        return kept

    def note_masked(self, paths: Iterable[str]) -> None:
        """Note that something is hidden in what is recorded at these paths. Never raises."""
        with quietly():
            hidden = [path for path in paths if path not in self._hidden_at and self.shares(path)]
            if not hidden or (writer := self.writer) is None or writer.closed:
                return
            asked = [path for path in hidden if path not in self.unasked]
            if asked and self._hidden_at <= self.unasked:
                log.warning(
                    "seamark: what is recorded at %r looks like a secret and is hidden; run[%r] "
                    "lists all such places. secrets=False records them as they are",
                    asked[0],
                    MASKED,
                )
            self._hidden_at.update(hidden)
            writer.claim(MASKED, "string_set")
            writer.append_op({"op": "add", "path": MASKED, "values": sorted(hidden)})

    def _append_atoms(self, writer: JournalWriter, atoms: Mapping[str, Atom]) -> bool:
        """Append atoms, in as few frames as their size allows."""
        short = {path: self._short(atom) for path, atom in atoms.items()}
        if (lane := self._content) is not None and lane.refuses:
            lane.replace(short)
            short = {
                path: atom
                for path, atom in short.items()
                if not lane.postpones({"op": "assign", "atoms": {path: atom}}, path)
            }
        written = [writer.append_op(op) for op in assign_ops(short)]
        return all(written)

    def _short(self, atom: Atom) -> Atom:
        """Return an atom as it is, or that of a blob if it is a very long string."""
        if atom.type != "string" or not is_long(atom.value):
            return atom
        return Atom("text", self.content.put_text(atom.value))

    def text(self, path: str, value: str) -> Any:
        """Return a text as a point holds it: no secrets, escaped, as a blob if it is very long."""
        text = escape(self.hide(path, value))
        return self.content.put_text(text) if is_long(text) else text

    def append_points(
        self, writer: JournalWriter, records: Iterable[Mapping[str, Any]], kind: int = Kind.OP
    ) -> bool:
        """Append points in one write, without those whose contents the disk refused so far."""
        if (lane := self._content) is not None and lane.refuses:
            records = [each for each in records if not lane.postpones(each, each["path"], kind)]
        return writer.append_ops(records, kind)

    # ---------------------------------------------------------------- deleting

    def delete(self, path: str) -> None:
        """Delete what is at a path and below it.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        writer = self.to_share(path)
        self.parameters.drop(path)
        if writer is not None:
            writer.append_op({"op": "delete", "paths": [path]})
            writer.forget(path)
            self.kept.forget(path)
            self._known_paths.clear()
            if self._content is not None:
                self._content.forget(path)

    def clear(self, path: str) -> None:
        """Empty a series or string set.

        Raises:
            FamilyError: If the path holds something that cannot be emptied, such as a single value.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if (writer := self.to_write()) is None:
            return
        own = self.series_path(path)
        own = own if writer.families.get(own, "").endswith("_series") else path
        family = writer.families.get(own, "")
        if family not in _CLEARED and not family.endswith("_series"):
            msg = f"{path!r} holds {spoken(family)}: only series and string sets can be cleared"
            raise FamilyError(msg)
        if own == path and not self.shares(path):
            return
        writer.append_op({"op": "clear", "path": own})
        self.kept.clear(own)
        writer.forget_steps([own])
        if self._content is not None:
            self._content.forget(own)

    # ---------------------------------------------------------------- files

    @property
    def content(self) -> BlobWriter:
        """Writer that takes and stores files."""
        if self._content is None:
            self._content = BlobWriter(
                self.folder, self.record_content, self._report_content_error, self.shares, self.hide
            )
        return self._content

    def record_content(self, op: Mapping[str, Any], kind: int = Kind.OP) -> bool:
        """Append a record about a file; files are still stored while the run is being stopped."""
        return (writer := self.writer) is not None and writer.append_op(op, kind)

    def _report_content_error(self, kind: str, error: BaseException | None) -> None:
        why = f" ({kind}): {error}" if error else f": {kind}"
        if (writer := self.writer) is not None:
            later = kind == "not stored yet"
            writer.drop("file", not later, f"a file could not be stored{why}", once=("file", later))

    def wait(self) -> None:
        """Wait until every file that was taken is stored."""
        if self._content is not None:
            self._content.flush()

    # ---------------------------------------------------------------- losses and the end

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count what could not be recorded, and warn once about it. Never raises.

        Args:
            reason: Short name under which the losses are counted.
            count: How many values or records.
            warn: What a person should read, once for each reason.
        """
        if (writer := self.writer) is not None:
            writer.drop(reason, count, warn or f"something could not be recorded ({reason})")

    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of this process's journals, as they are now."""
        return self.writer.positions() if self.writer else {}

    def store_files(self, seconds: float | None) -> None:
        """Wait until what was taken is stored, and take nothing more.

        Args:
            seconds: How long; None waits as long as files are being stored.
        """
        if self._content is not None:
            self._content.close(seconds)

    def beat_every(self, seconds: float) -> None:
        """Set the seconds between heartbeats; a run at rest closes its journal at the next one."""
        if self.writer is not None:
            self.writer.beat_every(seconds)

    def rest(self) -> None:
        """Hold no descriptor and no thread until something is recorded, and then not for long.

        Waits for nothing: as long as files are being stored, the journal stays open for them.
        """
        if (writer := self.writer) is None:
            return
        self.kept.write()
        self.beat_every(SYNC_S)
        if self._content is None or self._content.flush(0):
            writer.rest(0)

    def close(self, reason: str, timeout_s: float) -> int:
        """Write the end of the journal and close it for good.

        Args:
            reason: ``"stop"``, or ``"exit"`` at the end of the process.
            timeout_s: How long to wait for the disk, in seconds.

        Returns:
            How many values or records were lost.
        """
        self.row = self._first_row
        if (writer := self.writer) is None:
            return 0
        self.kept.end()
        writer.close(reason, timeout_s)
        return sum(writer.dropped.values())


def _nothing(metrics: Any, step: Any = None, time_ns: Any = None) -> None:
    """Record nothing, at no cost: the row of a disabled run."""
