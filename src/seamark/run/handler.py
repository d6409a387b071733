"""A path within a run, with every method that can be applied to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.options.checks import check_keep, strings
from seamark.options.run_options import refuse_unknown
from seamark.paths import check_path, check_writable, given_path, join_path
from seamark.reading.html import html_or_text
from seamark.run.artifact import artifact_op
from seamark.run.fetching import Readable
from seamark.types import File
from seamark.values import to_step, to_time_ns

if TYPE_CHECKING:
    from seamark.run.recorder import Part
    from seamark.run.uploads import Source
    from seamark.values.aggregates import Keep


_MORE: Final = ("name", "description", "min", "max", "unit")
"""Arguments that describe a file, and those that Neptune used for charts, which have no effect."""
_OF_ONE: Final = ("value", "step", "timestamp", "wait", *_MORE)
_OF_MANY: Final = ("values", "steps", "timestamps", "wait", *_MORE)
"""Arguments of the verbs that take Neptune's ``**kwargs``, as in Neptune."""


class Root(Protocol):
    """The run or project that a handler belongs to."""

    @property
    def session(self) -> Part:
        """Session of this process in it."""

    def pop(self, path: str) -> None:
        """Delete a path and everything below it."""


class Handler(Readable):
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
            refuse_unknown("append", described, _OF_ONE)
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
        refuse_unknown("extend", described, _OF_MANY)
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
        refuse_unknown("log", described, _OF_ONE)
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
        recorder.values.change_set(op, at, strings(values, at))

    def clear(self, *, wait: bool = False) -> None:
        """Empty the series or string set at this path; the numbering of steps starts at 0 again.

        Raises:
            FamilyError: If the path holds something that cannot be emptied, such as a single value.
        """
        recorder = self._session.recorder
        recorder.values.clear(check_writable(self._path))

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
            self.assign(File.create_from(value, include_plotlyjs), wait=wait)

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
            recorder.values.add_files(check_writable(self._path), members, wait=wait)

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
