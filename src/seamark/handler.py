"""A path within a run, with every verb that can be applied to it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from seamark.artifact import artifact_op
from seamark.content import finish_staged, is_pending, members_of, write_file
from seamark.errors import (
    ArgumentError,
    FamilyError,
    MissingExtraError,
    MissingFieldError,
    ValueKindError,
)
from seamark.journal._format import Kind
from seamark.journal.interrupts import raised_by_signal_handler
from seamark.paths import check_path, check_writable, join_path
from seamark.types import File, Histogram
from seamark.values import (
    Escaped,
    escape,
    flatten,
    is_container,
    shown,
    to_float,
    to_step,
    to_time_ns,
)

if TYPE_CHECKING:
    import pandas as pd

    from seamark.container import Container
    from seamark.journal.writer import JournalWriter
    from seamark.reading.attributes import Attribute
    from seamark.reading.curves import Curve
    from seamark.reading.points import Attempt, Points
    from seamark.reading.reader import Reader

__all__ = ["Handler"]

_POINTS: Final = (File, Histogram)
"""Our own types, one point each, though a histogram is a dataclass with fields."""
_RECORDED: Final = {"string_series": Kind.TEXT, "histogram_series": Kind.HISTOGRAM}
"""The series whose points are JSON records, and of which kind."""

_POINTS_AT_ONCE: Final = 1000
"""So many texts or histograms go into one write: another thread that records waits for it."""


class Handler:
    """A path of a run or project; made by item access, ``run["train"]["loss"]``.

    Making one neither reads nor writes anything.
    """

    __slots__ = ("_object", "_path")

    def __init__(self, container: Container, path: str) -> None:
        self._object = container
        self._path = path

    __iter__ = None  # else Python would ask __getitem__ for 0, 1, 2, ...

    def __repr__(self) -> str:
        """Return what the handler points at."""
        return f"<Handler {self._path!r} of {self._object!r}>"

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path below this one.

        Raises:
            PathError: If the path breaks the grammar.
        """
        return Handler(self._object, check_path(join_path(self._path, check_path(path))))

    def __setitem__(self, path: str, value: Any) -> None:
        """Assign; see `assign`."""
        self[path].assign(value)

    def __delitem__(self, path: str) -> None:
        """Delete a path below this one; see `pop`."""
        self.pop(path)

    @property
    def path(self) -> str:
        """The path that this handler stands for."""
        return self._path

    def get_root_object(self) -> Container:
        """Return the run or project."""
        return self._object

    # ---------------------------------------------------------------- writing values

    def assign(self, value: Any, *, wait: bool = False) -> None:
        """Set the value at this path.

        Mappings, dataclasses, Namespaces and OmegaConf nodes are taken apart, one path for each
        leaf; a `File` is uploaded; a set of strings becomes a string set; lists are kept as JSON.

        Args:
            value: What to keep.
            wait: Return only when a file is stored.

        Raises:
            ValueKindError: If a value cannot be kept; nothing is written then.
            FamilyError: If a path holds another family; nothing is written then.
            PathError: If a path is derived or illegal.
        """
        self._object._assign(self._path, value, wait=wait)  # noqa: SLF001 - one mechanism in two files

    def append(
        self,
        value: Any,
        *,
        step: float | None = None,
        timestamp: float | datetime | None = None,
        wait: bool = False,
        **described: Any,
    ) -> None:
        """Add one point to the series at this path: a number, text, file, image or histogram.

        A mapping adds one point to each series below this path.

        Args:
            value: The point.
            step: Finite number, kept as given; None numbers it 1 above the last, from 0 on.
            timestamp: Seconds since the Unix epoch, or a datetime.
            wait: Return only when a file is stored.
            **described: ``name`` and ``description`` of a file.

        Raises:
            ValueKindError: If the value is none of these.
            FamilyError: If the path holds another family.
            ArgumentError: If the step is no finite number.
        """
        if not self._object._silent:  # noqa: SLF001
            number = None if step is None else to_step(step)
            self._append(value, number, to_time_ns(timestamp), described)

    def _append(
        self, value: Any, number: float | None, time_ns: int | None, described: Mapping[str, Any]
    ) -> None:
        """Add one point; step and time (ns since the Unix epoch) are checked."""
        container = self._object
        if is_container(value) and not isinstance(value, _POINTS):
            self._append_mapping(value, number, time_ns, described)
            return
        at = check_writable(self._path)
        found = _point_kind(value)
        if found == "file_series":
            value = _as_file(value)
            _ = value.size  # raises where there is no file, before anything is begun
        writer = container._to_write()  # noqa: SLF001
        if writer is None:
            return
        container._numbered(writer, number)  # noqa: SLF001
        if found == "float_series":
            writer.append_point(at, to_float(value), number, time_ns)
        elif found in _RECORDED:
            record = self._recorded(writer, found, at, (value, number, time_ns))
            container._append_points(writer, [record], _RECORDED[found])  # noqa: SLF001
        else:
            self._append_file(value, number, time_ns, described)

    def _recorded(
        self, writer: JournalWriter, family: str, path: str, point: tuple[Any, Any, Any]
    ) -> dict[str, Any]:
        """Return the record of a text or histogram: its value, step and time."""
        value, number, time_ns = point
        writer.claim(path, family)
        if family == "string_series":
            text = self._object._text(value)  # noqa: SLF001
            record = {"path": path, "points": [[writer.take_step(path, number), text, time_ns]]}
            return record | {"escaped": True} if isinstance(text, Escaped) else record
        edges, counts = [float(edge) for edge in value.edges], [float(n) for n in value.counts]
        return {
            "path": path,
            "points": [[writer.take_step(path, number), edges, counts, time_ns]],
        }

    def _append_mapping(
        self, value: Any, step: float | None, time_ns: int | None, described: Mapping[str, Any]
    ) -> None:
        """Add a point to each series: all numbers in one row, texts and histograms in one write."""
        leaves = flatten(value, self._path, _POINTS)
        kinds = {check_writable(path): _point_kind(leaf) for path, leaf in leaves.items()}
        parts: dict[str, dict[str, Any]] = {}
        for path, kind in kinds.items():
            parts.setdefault(kind, {})[path] = leaves[path]
        numbers = {path: to_float(leaf) for path, leaf in parts.pop("float_series", {}).items()}
        writer = self._object._to_write() if leaves else None  # noqa: SLF001
        if writer is None:
            return
        writer.expect(kinds)  # all or nothing: no point is written if another one has no place
        self._object._numbered(writer, step)  # noqa: SLF001
        if numbers:
            writer.append_row(numbers, step, time_ns)
        for path, file in parts.pop("file_series", {}).items():
            Handler(self._object, path)._append(file, step, time_ns, described)  # noqa: SLF001
        for family, points in parts.items():
            records = [
                self._recorded(writer, family, path, (point, step, time_ns))
                for path, point in points.items()
            ]
            self._object._append_points(writer, records, _RECORDED[family])  # noqa: SLF001

    def _append_file(
        self, value: File, step: float | None, time_ns: int | None, described: Mapping[str, Any]
    ) -> None:
        container = self._object
        writer = container._to_write()  # noqa: SLF001
        if writer is None:
            return
        writer.claim(self._path, "file_series")
        op = {
            "op": "file_point",
            "path": self._path,
            "step": writer.take_step(self._path, step),
            "file": container.content.put(value),
            "time": time_ns,
            **{
                key: str(described[key])
                for key in ("name", "description")
                if described.get(key) is not None
            },
        }
        container._append_points(writer, [op])  # noqa: SLF001

    def extend(
        self,
        values: Iterable[Any],
        *,
        steps: Iterable[float] | None = None,
        timestamps: Iterable[float | datetime] | None = None,
        wait: bool = False,
        **described: Any,
    ) -> None:
        """Add many points to the series at this path; numbers go to disk as one block.

        Args:
            values: The points, all of one kind; a mapping of sequences extends each series below
                this path.
            steps: As many finite numbers, or None to number the points.
            timestamps: As many seconds since the Unix epoch or datetimes, or None.
            wait: Return only when files are stored.
            **described: As in `append`.

        Raises:
            ArgumentError: If the lengths differ, or a step is no finite number.
            ValueKindError: If a value has no place in a series; nothing is written then.
            FamilyError: If the path holds another family.
        """
        if self._object._silent:  # noqa: SLF001
            return
        steps = None if steps is None else list(steps)  # an iterator serves only once
        timestamps = None if timestamps is None else list(timestamps)
        series = [
            _Points(check_writable(path), points, steps, timestamps)
            for path, points in _sequences(self._path, values)
        ]
        series = [each for each in series if each.points]
        if series and (writer := self._object._to_write()):  # noqa: SLF001
            writer.expect({each.path: each.family for each in series})
            for each in series:
                self._extend(writer, each, described)

    def _extend(self, writer: JournalWriter, series: _Points, described: Mapping[str, Any]) -> None:
        steps, times = series.steps, series.times_ns
        if series.family == "float_series":
            floats = [to_float(point) for point in series.points]
            self._object._numbered(writer, None if steps is None else 0)  # noqa: SLF001
            writer.append_column(series.path, floats, steps, times)
            return
        points = zip(series.points, steps or repeat(None), times or repeat(None), strict=False)
        if series.family in _RECORDED:
            self._object._numbered(writer, None if steps is None else 0)  # noqa: SLF001
            while part := list(islice(points, _POINTS_AT_ONCE)):
                records = [self._recorded(writer, series.family, series.path, one) for one in part]
                self._object._append_points(writer, records, _RECORDED[series.family])  # noqa: SLF001
            return
        handler = Handler(self._object, series.path)
        for point, step, time_ns in points:
            handler._append(point, step, time_ns, described)

    def log(
        self,
        value: Any,
        step: float | None = None,
        timestamp: float | datetime | None = None,
        wait: bool = False,  # noqa: FBT001, FBT002 - Neptune's signature
        **described: Any,
    ) -> None:
        """Add one point, or several given as a list; the older name of `append` and `extend`."""
        if isinstance(value, (list, tuple)):
            for point in value:
                self.append(point, step=step, timestamp=timestamp, wait=wait, **described)
        else:
            self.append(value, step=step, timestamp=timestamp, wait=wait, **described)

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: float | None = None,
        *,
        timestamp: float | datetime | None = None,
    ) -> None:
        """Record one number for each key below this path.

        See `seamark.Run.log_metrics`. Never raises.
        """
        try:
            prefixed: Any = {f"{self._path}/{key}": value for key, value in metrics.items()}
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self._object.drop(
                "metrics", 1, f"log_metrics: expected a mapping of paths to numbers: {error!r:.200}"
            )
            return
        self._object.log_metrics(prefixed, step, timestamp=timestamp)

    # ---------------------------------------------------------------- sets, clearing, deleting

    def add(self, values: str | Iterable[str], *, wait: bool = False) -> None:
        """Add one string or several to the string set at this path.

        Raises:
            ValueKindError: If one of them is no string.
            FamilyError: If the path holds another family.
        """
        self._change_set("add", values)

    def remove(self, values: str | Iterable[str], *, wait: bool = False) -> None:
        """Remove one string or several from the string set at this path, if they are in it.

        Raises:
            ValueKindError: If one of them is no string.
            FamilyError: If the path holds another family.
        """
        self._change_set("remove", values)

    def _change_set(self, op: str, values: str | Iterable[str]) -> None:
        from seamark.container import strings

        at = check_writable(self._path)
        changed = strings(values, at)
        if writer := self._object._to_share(at):  # noqa: SLF001
            writer.claim(at, "string_set")
            writer.append_op({"op": op, "path": at, "values": [escape(value) for value in changed]})

    def clear(self, *, wait: bool = False) -> None:
        """Empty the series or string set at this path; the numbering of steps starts at 0 again.

        Raises:
            FamilyError: If the path holds something that cannot be emptied, such as a single value.
        """
        at = check_writable(self._path)
        if writer := self._object._to_write():  # noqa: SLF001
            family = writer.families.get(at)
            if family is not None and family != "string_set" and not family.endswith("_series"):
                msg = (
                    f"{at!r} holds a value of the family {family!r}: only series "
                    "and string sets can be cleared"
                )
                raise FamilyError(msg)
            self._object._numbered(writer, None)  # noqa: SLF001 - steps must not be learned after this
            writer.append_op({"op": "clear", "path": at})
            writer.forget_steps([at])
            if self._object._content is not None:  # noqa: SLF001
                self._object._content.forget(at)  # noqa: SLF001

    def pop(self, path: str | None = None, *, wait: bool = False) -> None:
        """Delete this path, or one below it, with everything under it.

        Raises:
            MissingFieldError: If there is nothing.
        """
        at = self._path if path is None else join_path(self._path, check_path(path))
        self._object._delete(at)  # noqa: SLF001

    # ---------------------------------------------------------------- files and artifacts

    def upload(self, value: Any, *, wait: bool = False) -> None:
        """Keep a file at this path: a path on disk, a `File`, or what `File.create_from` takes.

        The bytes are taken hold of before this returns; storing them goes on in the background.

        Raises:
            FileNotFoundError: If the path does not exist.
            ValueKindError: If the object cannot be made into a file.
        """
        if self._object._silent:  # noqa: SLF001 - an image need not be drawn for nothing
            return
        file = _as_file(value)
        _ = file.size  # raises where there is no file, before anything is begun
        at = check_writable(self._path)
        if writer := self._object._to_share(at):  # noqa: SLF001
            writer.claim(at, "file")
            self._object.content.upload(at, file, wait=wait)

    def upload_files(
        self,
        value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        wait: bool = False,
    ) -> None:
        """Add files to the file set at this path.

        Args:
            value: A path, folder or glob pattern, or several; members are named relative to the
                working directory.
            wait: Return only when they are stored.

        Raises:
            FileNotFoundError: If a pattern matches nothing.
        """
        if self._object._silent:  # noqa: SLF001
            return
        members = members_of(value)
        at = check_writable(self._path)
        if writer := self._object._to_share(at):  # noqa: SLF001
            writer.claim(at, "file_set")
            self._object.content.upload_members(at, members)
            if wait:
                self._object.wait()

    def delete_files(self, paths: str | Iterable[str], *, wait: bool = False) -> None:
        """Remove members from the file set at this path.

        Raises:
            FamilyError: If the path holds another family.
        """
        from seamark.container import strings

        at = check_writable(self._path)
        names = strings(paths, at)
        if writer := self._object._to_share(at):  # noqa: SLF001
            writer.claim(at, "file_set")
            writer.append_op({"op": "unfiles", "path": at, "names": names})
            self._object.content.forget(at, names)

    def track_files(self, path: str, *, destination: str | None = None, wait: bool = False) -> None:
        """Record which files a path, folder, pattern or URL stands for, without copying them.

        Raises:
            FileNotFoundError: If nothing is there.
        """
        self._artifact("tracked", path, destination)

    def mark_input(self, path: str) -> None:
        """Record that the run read this file, folder, URL or other run's artifact."""
        self._artifact("input", path, None)

    def mark_output(self, path: str) -> None:
        """Record that the run made this file, folder or URL."""
        self._artifact("output", path, None)

    def _artifact(self, kind: str, path: str, destination: str | None) -> None:
        container, at = self._object, check_writable(self._path)
        writer = container._to_share(at)  # noqa: SLF001
        if writer is None:
            return
        held = None
        if writer.families.get(at) == "artifact":  # tracked before: what it holds stays
            held = container._attribute(at).value  # noqa: SLF001
        op = artifact_op(at, kind, path, destination=destination, previous=held)
        writer.claim(at, "artifact")
        writer.append_op(op)

    # ---------------------------------------------------------------- reading

    def fetch(self) -> Any:
        """Return the value at this path: an atom, the strings of a set, the last point of a series.

        A namespace gives the atoms below it as a nested dict.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If a file is here, which is read with `download`.
        """
        if self._object._silent:  # noqa: SLF001
            return None
        reader = self._object._reader()  # noqa: SLF001
        found = self._object._find(reader, self._path)  # noqa: SLF001
        if found is None:
            nested = self._object._nested(self._path, reader)  # noqa: SLF001
            if not nested:
                raise self._missing()
            return nested
        if found.family in ("file", "file_set"):
            msg = (
                f"{self._path!r} holds a {found.family.replace('_', ' ')}: read it with download()"
            )
            raise FamilyError(msg)
        if found.family == "atom":
            return self._object._whole(found.value)  # noqa: SLF001
        if found.family.endswith("_series"):
            return self._last(reader, found)
        return found.value

    def fetch_last(self) -> Any:
        """Return the value of the last point of the series at this path.

        Raises:
            MissingFieldError: If there is no series, or no point in it.
        """
        if self._object._silent:  # noqa: SLF001
            return None
        reader = self._object._reader()  # noqa: SLF001
        found = self._object._find(reader, self._path)  # noqa: SLF001
        if found is None:
            raise self._missing()
        return self._last(reader, found)

    def _last(self, reader: Reader | None, found: Attribute) -> Any:
        """Return the last point of a series, which is known without reading the others."""
        if reader is None or not found.family.endswith("_series") or not found.value.count:
            msg = f"{self._path!r}: expected a series with points, got the family {found.family!r}"
            raise MissingFieldError(msg)
        if found.family == "histogram_series":
            return reader.last(self._path)
        return self._object._whole(found.value.last)  # noqa: SLF001

    def _missing(self) -> MissingFieldError:
        what = self._object._what  # noqa: SLF001
        return MissingFieldError(f"path {self._path!r}: nothing is recorded there in {what}")

    @overload
    def fetch_points(self, *, attempt: Attempt = "latest", points: None = None) -> Points: ...
    @overload
    def fetch_points(self, *, attempt: Attempt = "latest", points: int) -> Curve: ...
    def fetch_points(
        self, *, attempt: Attempt = "latest", points: int | None = None
    ) -> Points | Curve:
        """Return the float series at this path as NumPy arrays.

        They are ``step``, ``value``, ``time_ns`` (since the Unix epoch) and ``attempt``.

        Args:
            attempt: ``"latest"`` hides what an older attempt recorded after the checkpoint that was
                resumed from; ``"all"`` shows everything; a number shows the run as that attempt
                left it.
            points: At most so many representative points, for drawing: a
                `seamark.reading.curves.Curve`, whose parts keep their minimum and maximum, so that
                a spike of one point in ten million is in it. None for every point.

        Raises:
            ArgumentError: If ``points`` is no number of at least 2.
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds another family.
        """
        reader = self._object._reader()  # noqa: SLF001
        self._expect_of(reader, "float_series", "a float series")
        assert reader is not None  # noqa: S101 - there is a series
        if points is None:
            return reader.points(self._path, attempt)
        return reader.curve(self._path, points, attempt)

    def fetch_values(
        self,
        *,
        include_timestamp: bool = True,
        limit: int | None = None,
        progress_bar: Any = None,
        attempt: Attempt = "latest",
    ) -> pd.DataFrame:
        """Return the series at this path as a DataFrame: ``step``, ``value`` and ``timestamp``.

        Args:
            include_timestamp: Whether to have the last column.
            limit: At most so many points, the latest ones.
            progress_bar: Accepted as Neptune has it; reading is too quick to show one.
            attempt: As in `fetch_points`.

        Raises:
            MissingExtraError: If pandas is not installed.
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds no series of numbers or texts.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            msg = (
                'fetch_values needs pandas: pip install "seamark[pandas]" (or use '
                "fetch_points, which needs only NumPy)"
            )
            raise MissingExtraError(msg) from error
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            msg = f"limit: expected a positive number of points or None, got {limit!r}"
            raise ArgumentError(msg)
        reader = self._object._reader()  # noqa: SLF001
        found = self._object._find(reader, self._path)  # noqa: SLF001
        if found is None or reader is None:
            raise self._missing()
        if found.family == "float_series":
            points = reader.points(self._path, attempt, limit=limit)
            frame = pd.DataFrame({"step": points.step, "value": points.value})
            times: Any = points.time_ns
        elif found.family == "string_series":
            whole = self._object._whole_if_there  # noqa: SLF001
            texts = reader.texts(self._path, attempt)[-(limit or 0) :]
            frame = pd.DataFrame(
                {"step": [one.step for one in texts], "value": [whole(one.text) for one in texts]}
            )
            times = [one.time_ns for one in texts]
        else:
            msg = (
                f"{self._path!r}: expected a series of numbers or texts, "
                f"got the family {found.family!r}"
            )
            raise FamilyError(msg)
        if include_timestamp:
            frame["timestamp"] = pd.to_datetime(times, unit="ns", utc=True)
        return frame

    def fetch_hash(self) -> str:
        """Return the digest of the artifact at this path.

        Raises:
            FamilyError: If there is no artifact.
        """
        return str(self._expect("artifact").value["hash"])

    def fetch_extension(self) -> str:
        """Return the extension of the file at this path, without a dot.

        Raises:
            FamilyError: If there is no file.
        """
        return str(self._expect("file").value["ext"])

    def fetch_files_list(self) -> list[dict[str, Any]]:
        """Return the files of the artifact at this path (path, size in bytes, digest).

        Raises:
            FamilyError: If there is no artifact.
        """
        return list(self._expect("artifact").value["files"])

    def list_fileset_files(self, path: str | None = None) -> list[dict[str, Any]]:
        """Return the members of the file set at this path: ``name``, ``size`` in bytes, ...

        Args:
            path: Only members in this folder of the set.

        Raises:
            FamilyError: If there is no file set.
        """
        members = self._expect("file_set").value
        chosen = sorted(
            name for name in members if path is None or name.startswith(path.rstrip("/") + "/")
        )
        return [{**members[name], "name": name} for name in chosen]

    def _expect(self, family: str) -> Attribute:
        return self._expect_of(self._object._reader(), family, f"the family {family!r}")  # noqa: SLF001

    def _expect_of(self, reader: Reader | None, family: str, wanted: str) -> Attribute:
        found = self._object._find(reader, self._path)  # noqa: SLF001
        if found is None:
            raise self._missing()
        if found.family != family:
            got = (
                f"{found.family!r}" if wanted.startswith("the") else f"the family {found.family!r}"
            )
            msg = f"{self._path!r}: expected {wanted}, got {got}"
            raise FamilyError(msg)
        return found

    def download(
        self,
        destination: str | os.PathLike[str] | None = None,
        *,
        progress_bar: Any = None,
        references: bool = False,
    ) -> None:
        """Write the file, file set or file series at this path to disk.

        Whatever names were recorded, everything is written below the destination. A file that a
        record only refers to is opened if it lies in the run's folder, or if you recorded the run
        on this host and it has not changed since: a run from somebody else may name any of your
        files.

        Args:
            destination: A file name or an existing folder; the working directory if left out.
            progress_bar: Accepted as Neptune has it.
            references: Open whatever the records refer to, wherever it is.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FileMissingError: If the bytes are gone, or a reference is not opened.
            FamilyError: If there is no file.
            ArgumentError: If a recorded name leads out of the destination.
        """
        self._object.wait()
        folder, files = self._object.folder, self._files()
        if any(is_pending(file) for _, file in files) and _is_own(folder.path):
            with contextlib.suppress(OSError):  # a root that is read-only stays as it is
                finish_staged(folder)
            files = self._files()
        target = Path(destination) if destination is not None else Path.cwd()
        for name, file in files:
            path = f"{self._path}/{name}" if name else self._path
            write_file(folder, file, target, path, name=name, references=references)

    def _files(self) -> list[tuple[str | None, dict[str, Any]]]:
        """Return the files at this path, with their names where there may be several.

        Raises:
            FamilyError: If there are none.
        """
        found = self._object._attribute(self._path)  # noqa: SLF001
        if found.family == "file":
            return [(None, found.value)]
        if found.family == "file_set":
            return list(found.value.items())
        if found.family == "file_series":
            points = self._object._view().files(self._path)  # noqa: SLF001
            return [(_point_name(point), point.file) for point in points]
        msg = (
            f"{self._path!r}: expected a file, a file set or a file series, "
            f"got the family {found.family!r}"
        )
        raise FamilyError(msg)

    def download_last(self, destination: str | os.PathLike[str] | None = None) -> None:
        """Write the last file of the file series at this path to disk.

        Raises:
            FamilyError: If there is no file series.
            MissingFieldError: If it has no points.
            FileMissingError: If the bytes are gone.
        """
        self._object.wait()
        self._expect("file_series")
        files = self._files()
        if not files:
            msg = f"{self._path!r}: the file series has no points"
            raise MissingFieldError(msg)
        name, file = files[-1]
        target = Path(destination) if destination is not None else Path.cwd()
        write_file(self._object.folder, file, target, self._path, name=name)


class _Points:
    """The checked points of one series that is to be extended.

    Raises:
        ArgumentError: If the lengths differ, or a step or time is none.
        ValueKindError: If a value has no place in a series, or they are of several kinds.
    """

    def __init__(
        self,
        path: str,
        points: list[Any],
        steps: Iterable[float] | None,
        timestamps: Iterable[float | datetime] | None,
    ) -> None:
        self.path = path
        self.points = points
        self.steps: list[float] | None = _as_long(steps, len(points), "steps", to_step)
        self.times_ns: list[int] | None = _as_long(
            timestamps, len(points), "timestamps", to_time_ns
        )
        kinds = sorted({_point_kind(point) for point in points})
        if len(kinds) > 1:
            msg = f"{path!r}: expected values of one kind, got {' and '.join(kinds)}"
            raise ValueKindError(msg)
        self.family = kinds[0] if kinds else ""


def _sequences(path: str, values: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the path and the points of each series that a sequence, or a mapping of them, extends.

    Raises:
        ValueKindError: If there is something else than a sequence.
    """
    if isinstance(values, Mapping):
        for key, part in values.items():
            yield from _sequences(join_path(path, check_path(str(key))), part)
        return
    if not isinstance(values, Iterable):
        msg = f"{path!r}: expected several values in a sequence, got {shown(values)}"
        raise ValueKindError(msg)
    yield path, list(values)


def _point_kind(value: Any) -> str:
    """Return the family of the series that a point belongs to.

    Raises:
        ValueKindError: If it has no place in a series.
    """
    if isinstance(value, str):
        return "string_series"
    if isinstance(value, Histogram):
        return "histogram_series"
    if isinstance(value, File):
        return "file_series"
    try:
        to_float(value)
    except ValueKindError as refused:
        if File.is_convertable(value):
            return "file_series"
        msg = (
            "append: expected a number, a string, a File, an image or a Histogram, "
            f"got {shown(value)}"
        )
        raise ValueKindError(msg) from refused
    return "float_series"


def _as_file(value: Any) -> File:
    if isinstance(value, File):
        return value
    if isinstance(value, (str, os.PathLike)):
        return File.from_path(value)
    return File.create_from(value)


def _as_long(
    values: Iterable[Any] | None, length: int, what: str, convert: Any
) -> list[Any] | None:
    if values is None:
        return None
    converted = [convert(value) for value in values]
    if len(converted) != length:
        msg = f"{what}: expected {length}, one for each value, got {len(converted)}"
        raise ArgumentError(msg)
    return converted


def _point_name(point: Any) -> str:
    """Return the name of a file of a series: its step, with all the digits that it takes."""
    extension, step = point.file.get("ext"), f"{point.step:g}"
    if float(step) != point.step:
        step = repr(point.step).removesuffix(".0")
    return step + (f".{extension}" if extension else "")


def _is_own(folder: Path) -> bool:
    """Tell whether a folder is this user's; one of somebody else is left as it is."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False
