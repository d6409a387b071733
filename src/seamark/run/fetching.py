"""Reads of one path of a run or project."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from seamark.errors import (
    FamilyError,
    FileMissingError,
    MissingExtraError,
    MissingFieldError,
)
from seamark.journal.rows import spoken
from seamark.pictures.drawing import PlotOptions, plot_run
from seamark.reading.attributes import TrackedFile, TrackedFiles
from seamark.reading.curves import Look
from seamark.reading.names import generated_name
from seamark.run.recordable import Recordable
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    import pandas as pd

    from seamark.journal.folder import RunFolder
    from seamark.reading.attributes import Attribute
    from seamark.reading.curves import Curve
    from seamark.reading.points import Attempt, Points
    from seamark.reading.reader import Reader
    from seamark.run.recorded import Recorded


def _default_name(folder: RunFolder) -> str:
    if folder.kind == "project":
        return folder.project.rpartition("/")[2]
    return generated_name(folder.run)


_ALWAYS: Final[Mapping[str, Callable[[RunFolder], Any]]] = {
    "sys/description": lambda _: "",
    "sys/failed": lambda _: False,
    "sys/group_tags": lambda _: set(),
    "sys/name": _default_name,
    "sys/size": lambda folder: float(sum(file.lstat().st_size for file in folder.path.rglob("*"))),
    "sys/tags": lambda _: set(),
}
"""Defaults of paths that every Neptune run has; integrations fetch them without checking."""

_SAME: Final = {
    "sys/monitoring_time": "sys/running_time",
    "sys/ping_time": "sys/modification_time",
}
"""Neptune's aliases of paths that every run has."""


class Readable(Recordable):
    """A path of a run or project that is read; a rank that records nothing gets empty results."""

    __slots__ = ()

    def fetch(self) -> Any:
        """Return the value at this path: an atom, the strings of a set, the last point of a series.

        For an aggregate of `keep` it is a `seamark.Statistics`, a `seamark.Last` or a
        `seamark.Ring`. For a namespace it is a nested dict of the atoms below it.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds a file; read it with `download`.
        """
        path, recorded = self._path, self._session.recorded
        reader = recorded.reader()
        found = recorded.find(reader, path)
        if found is None:
            nested = recorded.atoms(path, reader)
            if nested or recorded.silent:
                return nested or None
            if path in _ALWAYS:
                return _ALWAYS[path](recorded.folder)
            if path in _SAME:
                known = recorded.look_up(_SAME[path], reader)[1].value
                return int(known) if isinstance(known, float) else known  # whole seconds, or a time
            if recorded.families(path):  # series, files and others that a namespace does not show
                return {}
            raise recorded.missing(path, reader)
        if found.family in ("file", "file_set"):
            raise FamilyError(f"{path!r} holds {spoken(found.family)}: read it with download()")
        if found.family == "atom":
            return recorded.whole(found.value)
        if found.family.endswith("_series"):
            return _last(recorded, reader, found)
        return TrackedFiles(found.value) if found.family == "artifact" else found.value

    def fetch_last(self) -> Any:
        """Return the value of the last point of the series at this path; None if it has none.

        Raises:
            MissingFieldError: If there is no series.
        """
        recorded = self._session.recorded
        reader = recorded.reader()
        if reader is None and recorded.silent:
            return None
        return _last(recorded, *recorded.look_up(self._path, reader))

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
            attempt: ``"latest"`` hides points that an older attempt recorded after the checkpoint
                from which the run was resumed; ``"all"`` shows all points; a number shows the run
                as of the end of that attempt.
            points: Maximum number of representative points, for drawing: returns a
                `seamark.reading.curves.Curve`, whose parts keep their minimum and maximum. None for
                every point.

        Raises:
            ArgumentError: If ``points`` is not a number of at least 2.
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds another family.
        """
        from seamark.reading.curves import Curve
        from seamark.reading.points import Points

        if self._session.recorded.silent:
            return Points.none() if points is None else Curve.none()
        reader, _ = self._expect("a float series", "float_series")
        if points is None:
            return reader.points(self._path, attempt)
        return reader.curve(self._path, points, attempt)

    def _expect(self, wanted: str, *families: str) -> tuple[Reader, Attribute]:
        """Return a reader and the attribute here; raise `FamilyError` for another family."""
        reader, found = self._session.recorded.look_up(self._path)
        if reader is None or found.family not in families:
            raise FamilyError(f"{self._path!r}: expected {wanted}, got {spoken(found.family)}")
        return reader, found

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
            include_timestamp: Whether to include the column ``timestamp``.
            limit: Maximum number of points, the latest ones.
            progress_bar: Accepted for compatibility with Neptune; reading is too quick to show one.
            attempt: As in `fetch_points`.

        Raises:
            MissingExtraError: If pandas is not installed.
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path does not hold a series of numbers or texts.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                'fetch_values needs pandas: pip install "seamark[pandas]" (or use fetch_points, '
                "which needs only NumPy)"
            ) from error
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise argument_error(limit, "limit", "a positive number of points or None")
        columns = self._columns(attempt, limit)
        times = pd.to_datetime(columns.pop("timestamp"), unit="ns", utc=True)
        frame = pd.DataFrame(columns)
        if include_timestamp:
            frame["timestamp"] = times
        return frame

    def _columns(self, attempt: Attempt, limit: int | None) -> dict[str, Any]:
        from seamark.reading.points import Points

        recorded = self._session.recorded
        if recorded.silent:
            points = Points.none()
        else:
            wanted = "a series of numbers or texts"
            reader, found = self._expect(wanted, "float_series", "string_series")
            if found.family == "string_series":
                texts = reader.texts(self._path, attempt)[-(limit or 0) :]
                return {
                    "step": [one.step for one in texts],
                    "value": [recorded.read_long_text(one.text) for one in texts],
                    "timestamp": [one.time_ns for one in texts],
                }
            points = reader.points(self._path, attempt, limit=limit)
        return {"step": points.step, "value": points.value, "timestamp": points.time_ns}

    def fetch_bytes(self, *, references: bool = False) -> bytes:
        """Return the bytes of the file at this path, without a copy on disk.

        The rules for opening files are those of `download`.

        Args:
            references: Open a referenced file wherever it is.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FileMissingError: If the bytes are gone, or a reference is not opened.
            FamilyError: If there is no file, or more than one.
        """
        self._session.recorder.contents.flush()
        recorded = self._session.recorded
        if recorded.silent:
            return b""
        file, contents = self._single_file(), recorded.contents()
        if contents.finish([file]):
            file = self._single_file()
        return contents.read(file, self._path, references=references)

    def _single_file(self) -> dict[str, Any]:
        file: dict[str, Any] = self._expect("a single file", "file")[1].value
        if file.get("dir"):
            raise FamilyError(
                f"{self._path!r}: expected a single file, got a folder: read it with download()"
            )
        return file

    def plot(
        self,
        *,
        x: str = "step",
        smooth: float | None = None,
        log_x: bool = False,
        log_y: bool = False,
        attempt: Attempt = "latest",
        points: int = 1000,
        half_life: float | None = None,
        low: float | None = None,
        high: float | None = None,
        refresh: float | None = None,
    ) -> Any:  # a figure of plotly, which has no types
        """Return a figure of the series at this path, or of all series of numbers below it.

        The result is a plotly figure, which a notebook shows if it is the last value of a cell.
        Behind smoothed lines, a band spans the smallest and largest values; NaN and infinities are
        marked at the edge.

        Args:
            x: ``"step"``, ``"order"`` of recording, ``"time"`` (of the clock, in UTC),
                ``"relative"`` (seconds since the run was created), or the path of a series such as
                ``"epoch"``: its value at the same step, or the last one before.
            smooth: Width of a window in units of x: the line is the mean of all finite points in
                the window, including those that are not drawn.
            log_x: Logarithmic x axis; the line has the same resolution everywhere.
            log_y: Logarithmic y axis.
            attempt: As in `fetch_points`.
            points: Maximum number of representative points; a spike of a single point is always one
                of them.
            half_life: Smooth exponentially instead: the line is the weighted mean of all finite
                points up to each x, where the weight halves with this distance in x.
            low: Lower limit of x; the smoothed line still uses all points.
            high: Upper limit of x.
            refresh: Redraw at this interval in seconds until the run ends or the cell is
                interrupted; needs a notebook, and returns None.

        Raises:
            MissingExtraError: If the extra ``plot`` is not installed.
            MissingFieldError: If there is no such series; the nearest one is named.
            ArgumentError: If an argument has an invalid value.
            PathError: If ``x`` is not a valid path.
        """
        look = Look(points, x, low, high, smooth, half_life, log_x, log_y)
        return plot_run(self._session.recorded, [self._path], PlotOptions(look, attempt), refresh)

    def fetch_hash(self) -> str:
        """Return the digest of the artifact at this path.

        Raises:
            FamilyError: If there is no artifact.
        """
        return str(self._value_of("artifact").get("hash", ""))

    def fetch_extension(self) -> str:
        """Return the extension of the file at this path, without a dot.

        Raises:
            FamilyError: If there is no file.
        """
        return str(self._value_of("file").get("ext", ""))

    def fetch_files_list(self) -> list[dict[str, Any]]:
        """Return the files of the artifact at this path (path, size in bytes, digest).

        Raises:
            FamilyError: If there is no artifact.
        """
        return [TrackedFile(file) for file in self._value_of("artifact").get("files", ())]

    def list_fileset_files(self, path: str | None = None) -> list[dict[str, Any]]:
        """Return the members of the file set at this path: ``name``, ``size`` in bytes, ...

        Args:
            path: Only members in this folder of the set.

        Raises:
            FamilyError: If there is no file set.
        """
        members = self._value_of("file_set")
        chosen = sorted(
            name for name in members if path is None or name.startswith(path.rstrip("/") + "/")
        )
        return [{**members[name], "name": name} for name in chosen]

    def _value_of(self, family: str) -> dict[str, Any]:
        if self._session.recorded.silent:
            return {}
        found: dict[str, Any] = self._expect(spoken(family), family)[1].value
        return found

    def download(
        self,
        destination: str | os.PathLike[str] | None = None,
        progress_bar: Any = None,
        *,
        references: bool = False,
    ) -> None:
        """Write the file, file set, file series or tracked files at this path to disk.

        Files are only written below the destination, whatever their recorded names. A referenced
        file, such as those of an artifact, is opened if it is in the run's folder, or if you
        recorded the run on this host and the file has not changed since: a run from another user
        might name any of your files. URLs of an artifact are not fetched.

        Args:
            destination: A file name, or a folder that exists or whose name ends with a slash. None:
                the working directory. In a folder, the file is named by the last part of this path
                with its own extension. Several files become one archive if the name ends with
                ``.zip``.
            progress_bar: Accepted for compatibility with Neptune; has no effect.
            references: Open referenced files wherever they are.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FileMissingError: If the bytes are gone, or a reference is not opened.
            FamilyError: If there is no file.
            ArgumentError: If a recorded name leads out of the destination.
        """
        self._session.recorder.contents.flush()
        path, recorded = self._path, self._session.recorded
        if recorded.silent:
            return
        files, contents = self._files(), recorded.contents()
        if contents.finish([file for _, file in files]):
            files = self._files()
        target = _target(destination)

        def write(target: Path) -> None:
            for name, file in files:
                below = f"{path}/{name}" if name else path
                contents.write(file, target, below, name=name, references=references)

        several = not files or files[0][0] is not None
        if several and target.suffix.lower() == ".zip" and not target.is_dir():
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder))
                made = shutil.make_archive(str(target), "zip", folder)
            Path(made).replace(target)
        else:
            write(target)

    def download_last(self, destination: str | os.PathLike[str] | None = None) -> None:
        """Write the last file of the file series at this path to disk.

        Raises:
            FamilyError: If there is no file series.
            MissingFieldError: If it has no points.
            FileMissingError: If the bytes are gone.
        """
        self._session.recorder.contents.flush()
        recorded = self._session.recorded
        if recorded.silent:
            return
        self._expect(spoken("file_series"), "file_series")
        files = self._files()
        if not files:
            raise MissingFieldError(f"{self._path!r}: the file series has no points")
        name, file = files[-1]
        recorded.contents().write(file, _target(destination), self._path, name=name)

    def _files(self) -> list[tuple[str | None, dict[str, Any]]]:
        wanted = "a file, a file set or a file series"
        reader, found = self._expect(wanted, "file", "file_set", "file_series", "artifact")
        if found.family == "file":
            return [(None, found.value)]
        if found.family == "file_set":
            return list(found.value.items())
        if found.family == "file_series":
            return [(_point_name(point), point.file) for point in reader.files(self._path)]
        tracked = found.value["files"]
        return [(str(file["path"]), _whereabouts(self._path, file)) for file in tracked]


def _last(recorded: Recorded, reader: Reader | None, found: Attribute) -> Any:
    if reader is None or not found.family.endswith("_series"):
        raise MissingFieldError(f"{found.path!r}: expected a series, got {spoken(found.family)}")
    if not found.value.count:
        return None
    if found.family == "histogram_series":
        return reader.last(found.path)
    return recorded.whole(found.value.last)


def _target(destination: str | os.PathLike[str] | None) -> Path:
    """Return the target of a download; a name ending with a slash is a folder, which is created."""
    if destination is None:
        return Path.cwd()
    target = Path(destination)
    if os.fspath(destination).endswith(("/", os.sep)):
        target.mkdir(parents=True, exist_ok=True)
    return target


def _whereabouts(path: str, file: dict[str, Any]) -> dict[str, Any]:
    if not file.get("ref"):
        raise FileMissingError(
            f"{path}: the artifact has neither content nor location of {file['path']!r:.200}"
        )
    return {"name": file["path"], **file}


def _point_name(point: Any) -> str:
    extension, step = point.file.get("ext"), f"{point.step:g}"
    if float(step) != point.step:
        step = repr(point.step).removesuffix(".0")
    return step + (f".{extension}" if extension else "")
