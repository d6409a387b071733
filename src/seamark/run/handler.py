"""A path within a run, with every method that can be applied to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

from seamark.journal.rows import spoken
from seamark.options.checks import check_keep, strings
from seamark.options.run_options import refuse_unknown
from seamark.paths import check_path, check_writable, given_path, join_path
from seamark.pictures.drawing import PlotOptions, plot_run
from seamark.reading.attributes import TrackedFile
from seamark.reading.curves import Look
from seamark.reading.html import html_or_text
from seamark.run.artifact import artifact_op
from seamark.run.fetching import (
    bytes_of,
    download,
    download_last,
    expect,
    frame_of,
    last_of,
    points_of,
    value_of,
)
from seamark.run.points import as_file
from seamark.run.recordable import Recordable
from seamark.values import to_step, to_time_ns

if TYPE_CHECKING:
    import pandas as pd

    from seamark.reading.curves import Curve
    from seamark.reading.points import Attempt, Points
    from seamark.run.recorder import Part
    from seamark.run.uploads import Source
    from seamark.values.aggregates import Keep


_DESCRIBED: Final = ("name", "description")
_CHART: Final = ("min", "max", "unit")
"""Arguments that are accepted and not recorded; Neptune used them for charts."""
_ARGUMENTS: Final = {
    "append": ("value", "step", "timestamp", "wait", *_DESCRIBED, *_CHART),
    "extend": ("values", "steps", "timestamps", "wait", *_DESCRIBED, *_CHART),
    "log": ("value", "step", "timestamp", "wait", *_DESCRIBED, *_CHART),
}
"""Arguments of the verbs that take Neptune's ``**kwargs``, as in Neptune."""


class Root(Protocol):
    """The run or project that a handler belongs to."""

    @property
    def session(self) -> Part:
        """Session of this process in it."""

    def pop(self, path: str) -> None:
        """Delete a path and everything below it."""


class Handler(Recordable):
    """A path of a run or project; made by item access, ``run["train"]["loss"]``.

    Creating a handler reads and writes nothing. For a namespace, ``in`` and iteration refer to the
    attributes recorded below it: ``for name in run["train"]``.
    """

    __slots__ = ("_path", "_root")

    def __init__(self, root: Root, path: str) -> None:
        self._root: Root = root
        self._path = path

    @property
    def _session(self) -> Part:
        return self._root.session

    def _repr_html_(self) -> str:
        from seamark.pictures.notebook import page_of_path

        return html_or_text(lambda: page_of_path(*self._place()), self.__repr__)

    def __repr__(self) -> str:
        return f"<Handler {self._path!r} of {self._root!r}>"

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path below this one.

        Raises:
            PathError: If the path breaks the grammar.
        """
        return Handler(self._root, check_path(join_path(self._path, given_path(path))))

    @property
    def path(self) -> str:
        """The path of this handler."""
        return self._path

    @property
    def container(self) -> Any:
        """The run or project."""
        return self._root

    def get_root_object(self) -> Any:
        """Return the run or project."""
        return self._root

    # ---------------------------------------------------------------- writing values

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
            step: Finite number, kept as given; None is one more than the last step, starting at 0.
            timestamp: Seconds since the Unix epoch, or a datetime.
            wait: Return only when a file is stored.
            **described: ``name`` and ``description`` of a file. Neptune's chart options ``min``,
                ``max`` and ``unit`` are accepted and not recorded.

        Raises:
            ValueKindError: If the value is none of these.
            FamilyError: If the path holds another family.
            ArgumentError: If the step is not a finite number.
            UnknownArgumentError: If an argument does not exist; the nearest one is named.
        """
        if described:
            refuse_unknown("append", described, _ARGUMENTS["append"])
        recorder, path = self._root.session.recorder, self._path
        plain = timestamp is None and not described
        if plain and (row := recorder.points.quick_row(path, value, step)) is not None:
            recorder.row(row, step)
        elif plain and step is None and path in recorder.kept.cells and type(value) is float:
            recorder.kept.observe(path, value)
        elif not recorder.silent:
            number = None if step is None else to_step(step)
            recorder.points.append(path, (value, number, to_time_ns(timestamp)), described)

    def extend(
        self,
        values: Iterable[Any],
        *,
        steps: Iterable[float] | None = None,
        timestamps: Iterable[float | datetime] | None = None,
        wait: bool = False,
        **described: Any,
    ) -> None:
        """Add many points to the series at this path; numbers are written as one block.

        Args:
            values: The points, all of one kind; a mapping of sequences extends each series below
                this path.
            steps: As many finite numbers, or None to number the points.
            timestamps: As many seconds since the Unix epoch or datetimes, or None.
            wait: Return only when files are stored.
            **described: As in `append`.

        Raises:
            ArgumentError: If the lengths differ, or a step is not a finite number.
            ValueKindError: If a value cannot be stored in a series. Nothing is written in this
                case.
            FamilyError: If the path holds another family.
            UnknownArgumentError: If an argument does not exist; the nearest one is named.
        """
        refuse_unknown("extend", described, _ARGUMENTS["extend"])
        recorder = self._session.recorder
        if not recorder.silent:
            recorder.points.extend(self._path, values, steps, timestamps, described)

    def log(
        self,
        value: Any,
        step: float | None = None,
        timestamp: float | datetime | None = None,
        wait: bool = False,  # noqa: FBT001, FBT002 - Neptune's signature
        **described: Any,
    ) -> None:
        """Add one point, or several given as a list; the older name of `append` and `extend`.

        Raises:
            UnknownArgumentError: If an argument does not exist; the nearest one is named.
        """
        refuse_unknown("log", described, _ARGUMENTS["log"])
        for point in value if isinstance(value, (list, tuple)) else [value]:
            self.append(point, step=step, timestamp=timestamp, wait=wait, **described)

    def keep(self, what: Keep) -> Handler:
        """Keep an aggregate of the numbers at this path from now on, instead of their points.

        `append`, `extend` and `log_metrics` add to it. Readers combine the aggregates of several
        ranks, processes and attempts at one path, without numbers that were recorded after a
        checkpoint from which the run was resumed. The aggregate is written at most once a second,
        with checkpoints and at the end.

        Args:
            what: ``seamark.Statistics(skip=0)``, ``seamark.Last()`` or ``seamark.Ring(n)``; an
                empty copy of it is used.

        Returns:
            This handler.

        Raises:
            ArgumentError: If ``what`` is none of these.
            FamilyError: If the path holds another family or another kind of aggregate.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        at, checked = check_writable(self._path), check_keep("keep", what)
        recorder = self._session.recorder
        if (writer := recorder.to_write()) is not None:
            recorder.kept.keep(writer, at, checked)
        return self

    # ---------------------------------------------------------------- sets, clearing, deleting

    def add(self, values: str | Iterable[str], *, wait: bool = False) -> None:
        """Add one string or several to the string set at this path.

        Raises:
            ValueKindError: If one of them is not a string.
            FamilyError: If the path holds another family.
        """
        self._change_set("add", values)

    def remove(self, values: str | Iterable[str], *, wait: bool = False) -> None:
        """Remove one string or several from the string set at this path, if they are in it.

        Raises:
            ValueKindError: If one of them is not a string.
            FamilyError: If the path holds another family.
        """
        self._change_set("remove", values)

    def _change_set(self, op: str, values: str | Iterable[str]) -> None:
        at = check_writable(self._path)
        recorder = self._session.recorder
        recorder.values.change_set(op, at, strings(values, at))  # noqa: PD011 - no data frame

    def clear(self, *, wait: bool = False) -> None:
        """Empty the series or string set at this path; the numbering of steps starts at 0 again.

        Raises:
            FamilyError: If the path holds something that cannot be emptied, such as a single value.
        """
        recorder = self._session.recorder
        recorder.values.clear(check_writable(self._path))  # noqa: PD011 - no data frame

    def pop(self, path: str | None = None, *, wait: bool = False) -> None:
        """Delete this path, or one below it, with everything under it.

        Raises:
            MissingFieldError: If there is nothing.
        """
        at = self._path if path is None else join_path(self._path, given_path(path))
        self._root.pop(at)

    # ---------------------------------------------------------------- files and artifacts

    def upload(
        self, value: Any, *, wait: bool = False, include_plotlyjs: bool | str | None = None
    ) -> None:
        """Store a file at this path: a path on disk, a `File`, or a value for `File.create_from`.

        The bytes are read before this returns; they are stored in the background.

        Args:
            value: A path, a file or an object.
            wait: Return only when it is stored.
            include_plotlyjs: For a Plotly chart, see `File.as_html`.

        Raises:
            FileNotFoundError: If the path does not exist.
            ValueKindError: If the object cannot be made into a file.
        """
        if not self._session.recorder.silent:  # do not draw an image in vain
            self.assign(as_file(value, include_plotlyjs), wait=wait)

    def upload_files(
        self,
        value: Source | Iterable[Source],
        *,
        ignore: str | None = None,
        max_bytes: int | None = None,
        wait: bool = False,
    ) -> None:
        """Add files to the file set at this path.

        Args:
            value: A path, folder, glob pattern or module, or several. Members are named relative to
                the working directory or, outside it, relative to the given folder; those of a
                package begin with its name.
            ignore: ``".gitignore"``, or the name of other files with the same kind of rules. Files
                that they match are left out below folders, in patterns and in packages, as are
                git's own folder and ``__pycache__``. A file that is named itself is stored. Git
                evaluates the rules; if it fails, nothing of that folder is stored, and a warning is
                logged.
            max_bytes: Maximum total size in bytes; if the files exceed it, none is stored. None: no
                limit.
            wait: Return only when they are stored.

        Raises:
            FileNotFoundError: If a path does not exist, or a module has no files. A pattern that
                matches nothing only causes a warning.
            ArgumentError: If the files exceed ``max_bytes``, or an argument has an invalid value.
        """
        if self._session.recorder.silent:
            return
        from seamark.run.uploads import files_to_upload

        members = files_to_upload(value, ignore, max_bytes)
        if members:
            recorder = self._session.recorder
            recorder.values.add_files(check_writable(self._path), members, wait=wait)  # noqa: PD011

    def delete_files(self, paths: str | Iterable[str], *, wait: bool = False) -> None:
        """Remove members from the file set at this path.

        Raises:
            FamilyError: If the path holds another family.
        """
        at = check_writable(self._path)
        names = strings(paths, at)
        if writer := self._session.recorder.to_share(at):
            writer.claim(at, "file_set")
            writer.append_op({"op": "unfiles", "path": at, "names": names})
            self._session.recorder.contents.files.forget(at, names)

    def track_files(self, path: str, *, destination: str | None = None, wait: bool = False) -> None:
        """Record the files of a path, folder, pattern or URL without copying them.

        Raises:
            FileNotFoundError: If nothing is there.
        """
        at = check_writable(self._path)
        writer = self._session.recorder.to_share(at)
        if writer is None:
            return
        held = None
        if writer.families.get(at) == "artifact":  # tracked before: its files are kept
            held = self._session.recorded.attribute(at).value
        op = artifact_op(
            at,
            "tracked",
            path,
            destination=destination,
            previous=held,
            hide=partial(self._session.recorder.contents.hide, at),
        )
        writer.claim(at, "artifact")
        writer.append_op(op)

    # ---------------------------------------------------------------- reading

    def fetch(self) -> Any:
        """Return the value at this path: an atom, the strings of a set, the last point of a series.

        For an aggregate of `keep` it is a `seamark.Statistics`, a `seamark.Last` or a
        `seamark.Ring`. For a namespace it is a nested dict of the atoms below it.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds a file; read it with `download`.
        """
        return value_of(self._session.recorded, self._path)

    def fetch_last(self) -> Any:
        """Return the value of the last point of the series at this path; None if it has none.

        Raises:
            MissingFieldError: If there is no series.
        """
        return last_of(self._session.recorded, self._path)

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
        return points_of(self._session.recorded, self._path, attempt, points)

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
        recorded = self._session.recorded
        return frame_of(recorded, self._path, attempt, limit, timestamps=include_timestamp)

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
        return bytes_of(self._session.recorded, self._path, references=references)

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
        recorded = self._session.recorded
        return (
            {} if recorded.silent else expect(recorded, self._path, spoken(family), family)[1].value
        )

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
        download(self._session.recorded, self._path, destination, references=references)

    def download_last(self, destination: str | os.PathLike[str] | None = None) -> None:
        """Write the last file of the file series at this path to disk.

        Raises:
            FamilyError: If there is no file series.
            MissingFieldError: If it has no points.
            FileMissingError: If the bytes are gone.
        """
        self._session.recorder.contents.flush()
        download_last(self._session.recorded, self._path, destination)
