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
from seamark.reading.html import harmless
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

__all__ = ["Handler"]


_DESCRIBED: Final = ("name", "description")
_CHART: Final = ("min", "max", "unit")
"""Arguments that are accepted and not recorded: Neptune drew series of numbers by them."""
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
        """Part of one process in it."""

    def pop(self, path: str) -> None:
        """Delete a path and everything below it."""


class Handler(Recordable):
    """A path of a run or project; made by item access, ``run["train"]["loss"]``.

    Making one neither reads nor writes anything. Of a namespace, ``in`` and iteration are about
    what is recorded below it: ``for name in run["train"]``.
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

        return harmless(lambda: page_of_path(*self._place()), self.__repr__)

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
            step: Finite number, kept as given; None numbers it 1 above the last, from 0 on.
            timestamp: Seconds since the Unix epoch, or a datetime.
            wait: Return only when a file is stored.
            **described: ``name`` and ``description`` of a file; Neptune's ``min``, ``max`` and
                ``unit`` of a chart are accepted, and not recorded.

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
        """Add many points to the series at this path; numbers go to disk as one block.

        Args:
            values: The points, all of one kind; a mapping of sequences extends each series below
                this path.
            steps: As many finite numbers, or None to number the points.
            timestamps: As many seconds since the Unix epoch or datetimes, or None.
            wait: Return only when files are stored.
            **described: As in `append`.

        Raises:
            ArgumentError: If the lengths differ, or a step is not a finite number.
            ValueKindError: If a value cannot be in a series; nothing is written then.
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
        """Keep this of the numbers at this path from now on, in place of a point for each.

        `append`, `extend` and `log_metrics` add to it. What several ranks, processes and attempts
        keep at one path is added up when it is read, without what was seen after a checkpoint that
        was gone back to. It is written at most once a second, with checkpoints and at the end.

        Args:
            what: ``seamark.Statistics(skip=0)``, ``seamark.Last()`` or ``seamark.Ring(n)``, of
                which an empty copy is taken.

        Returns:
            This handler.

        Raises:
            ArgumentError: If it is none of these.
            FamilyError: If the path holds a series or something else, or keeps another kind.
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

        The bytes are taken before this returns; they are stored in the background.

        Args:
            value: A path, a file or an object.
            wait: Return only when it is stored.
            include_plotlyjs: For a Plotly chart, see `File.as_html`.

        Raises:
            FileNotFoundError: If the path does not exist.
            ValueKindError: If the object cannot be made into a file.
        """
        if not self._session.recorder.silent:  # an image need not be drawn for nothing
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
                the working directory, or where they do not lie in it to the folder that was named;
                those of a package begin with its name.
            ignore: ``".gitignore"``, or the name of other files with the same kind of rules, leaves
                out what these name below a folder, in a pattern and in a package, git's own folder
                and ``__pycache__``. A file that is named itself is taken. Git is asked; if it
                cannot tell what is ignored, nothing of that folder is stored, and a warning says
                so.
            max_bytes: If the files are more than this together, none is stored; None: any amount.
            wait: Return only when they are stored.

        Raises:
            FileNotFoundError: If a path does not exist, or a module lies in no files. A pattern
                that matches nothing is only warned of.
            ArgumentError: If there are more bytes than ``max_bytes``, or an argument has a value
                that cannot be used.
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
        """Record which files a path, folder, pattern or URL means, without copying them.

        Raises:
            FileNotFoundError: If nothing is there.
        """
        at = check_writable(self._path)
        writer = self._session.recorder.to_share(at)
        if writer is None:
            return
        held = None
        if writer.families.get(at) == "artifact":  # tracked before: what it holds stays
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

        Of what `keep` keeps it is a `seamark.Statistics`, a `seamark.Last` or a `seamark.Ring`.
        A namespace gives the atoms below it as a nested dict.

        Raises:
            MissingFieldError: If nothing is recorded here.
            FamilyError: If a file is here, which is read with `download`.
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
            attempt: ``"latest"`` hides what an older attempt recorded after the checkpoint that was
                resumed from; ``"all"`` shows everything; a number shows the run as that attempt
                left it.
            points: For drawing, at most this many representative points: a
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
            include_timestamp: Whether to have the last column.
            limit: At most this many points, the latest ones.
            progress_bar: Accepted for Neptune's sake; reading is too quick to show one.
            attempt: As in `fetch_points`.

        Raises:
            MissingExtraError: If pandas is not installed.
            MissingFieldError: If nothing is recorded here.
            FamilyError: If the path holds no series of numbers or texts.
        """
        recorded = self._session.recorded
        return frame_of(recorded, self._path, attempt, limit, timestamps=include_timestamp)

    def fetch_bytes(self, *, references: bool = False) -> bytes:
        """Return the bytes of the file at this path, without a copy on disk.

        The same files are opened as by `download`.

        Args:
            references: Open what the record refers to, wherever it is.

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

        It is a figure of plotly, which a notebook shows when it is the last thing in a cell. Where
        lines are smoothed, the band behind them lies between the smallest and the largest value;
        NaN and infinities are marked at the edge.

        Args:
            x: ``"step"``, ``"order"`` of recording, ``"time"`` (of the clock, in UTC),
                ``"relative"`` (seconds since the run was created), or the path of a series such as
                ``"epoch"``: its value at the same step, else the last before.
            smooth: Width of a window in units of x: the line is the mean of all finite points in
                the window around each place, however many are drawn.
            log_x: Logarithmic x axis; the line is drawn as finely at its start as at its end.
            log_y: Logarithmic y axis.
            attempt: As in `fetch_points`.
            points: At most this many representative points; a spike of one point is always one.
            half_life: Smooth by age instead: the line is the average of all finite points up to
                each place, of which one that lies so far behind counts half.
            low: Only points whose x is not less; the smoothed line is made of all points.
            high: Only points whose x is not greater.
            refresh: Draw again every so many seconds until the run ends or the cell is interrupted;
                needs a notebook, and nothing is returned then.

        Raises:
            MissingExtraError: If the extra ``plot`` is not installed.
            MissingFieldError: If there is no such series; the nearest one is named.
            ArgumentError: If an argument has a value that cannot be used.
            PathError: If ``x`` breaks the grammar of paths.
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

        Whatever names were recorded, everything is written below the destination. A file that a
        record only refers to, as those of an artifact, is opened if it lies in the run's folder, or
        if you recorded the run on this host and it has not changed since: a run from somebody else
        may name any of your files. What an artifact has at addresses elsewhere is not fetched.

        Args:
            destination: A file name, or a folder: one that exists, or whose name ends with a slash;
                None: the working directory. There, a file is called by the last part of this path,
                with its own extension. Several files become one archive if it ends with ``.zip``.
            progress_bar: Accepted for Neptune's sake; has no effect.
            references: Open whatever the records refer to, wherever it is.

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
