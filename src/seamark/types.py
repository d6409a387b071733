"""Types of values: files, histograms, and all of Neptune's types.

Names and arguments are those of Neptune, so that ``seamark.types`` can replace ``neptune.types``.
Pickles are never read; `File.as_pickle` only writes one.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from seamark.errors import ArgumentError, FileMissingError, ValueKindError
from seamark.pictures.render import html_of, image_of, is_html, is_image
from seamark.values._numbers import argument_error

__all__ = [
    "Artifact",
    "Boolean",
    "Datetime",
    "File",
    "FileSeries",
    "FileSet",
    "Float",
    "FloatSeries",
    "GitRef",
    "Histogram",
    "Integer",
    "String",
    "StringSeries",
    "StringSet",
    "ValueCopy",
]

__path__: list[str] = []
"""Makes this a package, as in the client; see `seamark.neptune.finder`."""
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class File:
    """A file to be recorded: on disk, or in memory as bytes, an image, a chart or an object.

    Use the ``from_...`` and ``as_...`` constructors; ``File(path)`` is ``File.from_path(path)``.

    Attributes:
        path: Absolute path of a file on disk as text, or None for content in memory.
        content: The bytes of content in memory, or None for a file on disk.
        extension: Extension without a dot; ``""`` if there is none.
    """

    __slots__ = ("content", "extension", "path")

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        content: bytes | None = None,
        extension: str | None = None,
    ) -> None:
        if (path is None) == (content is None):
            raise ArgumentError(
                "File: expected either a path or content, got "
                + ("none" if path is None else "both")
            )
        self.path = None if path is None else os.path.abspath(os.fspath(path))  # noqa: PTH100 - resolve() would follow links
        self.content = content
        if extension is None:
            extension = "bin" if self.path is None else os.path.splitext(self.path)[1]  # noqa: PTH122 - paths are text here
        self.extension = extension.removeprefix(".")

    def __repr__(self) -> str:
        if self.content is not None:
            return f"File({len(self.content)} bytes, extension={self.extension!r})"
        return f"File({self.path!r}, extension={self.extension!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, File):
            return NotImplemented
        mine, its = (self.path, self.content, self.extension), (other.path, other.content)
        return mine == (*its, other.extension)

    def __hash__(self) -> int:
        return hash((self.path, self.content, self.extension))

    @property
    def name(self) -> str:
        """Name of the file; for content in memory ``content.<extension>``."""
        if self.path is not None:
            return os.path.basename(self.path)  # noqa: PTH119
        return f"content.{self.extension}" if self.extension else "content"

    @property
    def size(self) -> int:
        """Current size in bytes.

        Raises:
            FileMissingError: If the file on disk does not exist.
            OSError: If its size cannot be determined.
        """
        if self.content is not None:
            return len(self.content)
        try:
            return os.stat(str(self.path)).st_size  # noqa: PTH116
        except FileNotFoundError as error:
            raise FileMissingError(error.errno, error.strerror, error.filename) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write content in memory to a file.

        Raises:
            ArgumentError: If this is a file on disk.
            OSError: If it cannot be written.
        """
        if self.content is None:
            raise ArgumentError(
                f"File.save: expected content in memory, got a file on disk: {self.path}"
            )
        Path(path).write_bytes(self.content)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], extension: str | None = None) -> File:
        """Return a file or folder on disk, whose bytes are read when it is recorded.

        Args:
            path: Path of the file or folder.
            extension: Extension without a dot; by default that of the path.
        """
        return cls(path, extension=extension)

    @classmethod
    def from_content(cls, content: str | bytes, extension: str | None = None) -> File:
        """Return a file with text or bytes as its content.

        Args:
            content: The content; text is encoded in UTF-8.
            extension: By default ``txt`` for text and ``bin`` for bytes.

        Raises:
            ValueKindError: If the content is neither.
        """
        given: Any = content
        if isinstance(given, str):
            text = given.encode("utf-8", "backslashreplace")
            return cls(content=text, extension="txt" if extension is None else extension)
        if isinstance(given, (bytes, bytearray, memoryview)):
            return cls(content=bytes(given), extension=extension)
        raise argument_error(given, "File.from_content", "text or bytes", ValueKindError)

    @classmethod
    def from_stream(
        cls, stream: IO[Any], seek: int | None = 0, extension: str | None = None
    ) -> File:
        """Return a file with the content of a stream, which is read immediately.

        Args:
            stream: Text or binary stream open for reading; it is not closed.
            seek: Start position; None for the current position, which is also used for streams that
                cannot seek.
            extension: By default ``txt`` for a text stream and ``bin`` for a binary one.

        Raises:
            ValueKindError: If it yields neither text nor bytes.
        """
        if seek is not None and stream.seekable():
            stream.seek(seek)
        return cls.from_content(stream.read(), extension)

    @classmethod
    def as_image(cls, image: Any, autoscale: bool = True) -> File:  # noqa: FBT001, FBT002 - Neptune's
        """Return an image as a PNG file.

        Args:
            image: A PIL image, a Matplotlib figure or axes, or an array or tensor of shape (H, W),
                (H, W, 1), (H, W, 3) or (H, W, 4); (C, H, W) is transposed if the shape is
                unambiguous. Integers are 0 to 255; NaN is drawn as 0. An array with other values is
                scaled from its minimum to its maximum, with one warning.
            autoscale: Multiply floats by 255 if all are between 0 and 1. If False, floats must be 0
                to 255.

        Raises:
            ValueKindError: If it is not an image.
            ArgumentError: If the shape of an array is not that of an image, or values are out of
                range with ``autoscale=False``.
        """
        return cls(content=image_of(image, autoscale=autoscale), extension="png")

    @classmethod
    def as_html(cls, chart: Any, include_plotlyjs: bool | str | None = None) -> File:  # noqa: FBT001
        """Return a chart or a table as an HTML page.

        Args:
            chart: A pandas data frame, a Plotly, Bokeh or Altair chart, a Matplotlib figure (as an
                image within the page), or any object with ``_repr_html_``.
            include_plotlyjs: For Plotly only: True (the default) embeds the library, so that the
                page works offline; ``"cdn"`` makes it 4 MB smaller.

        Raises:
            ValueKindError: If it is none of these.
        """
        return cls(content=html_of(chart, include_plotlyjs).encode(), extension="html")

    @classmethod
    def as_pickle(cls, obj: Any) -> File:
        """Return an object as a pickle file. Seamark writes pickles but never reads them.

        Raises:
            ValueKindError: If the object cannot be pickled.
        """
        try:
            content = pickle.dumps(obj)
        except Exception as error:
            raise ValueKindError(
                f"File.as_pickle: {type(obj).__name__} cannot be pickled: {error}"
            ) from error
        return cls(content=content, extension="pkl")

    @classmethod
    def create_from(cls, value: Any, include_plotlyjs: bool | str | None = None) -> File:  # noqa: FBT001
        """Return a file made from ``value`` according to its type.

        Args:
            value: A `File`, a path, a stream, or a value accepted by `as_html` or `as_image`.
            include_plotlyjs: For a Plotly chart, see `as_html`.

        Raises:
            ValueKindError: If it is none of these.
        """
        if isinstance(value, File):
            return value
        if isinstance(value, (str, os.PathLike)):
            return cls.from_path(value)
        if isinstance(value, io.IOBase):
            return cls.from_stream(value)  # type: ignore[arg-type]  # IO[Any] is not a base of it
        if is_image(value):
            return cls.as_image(value)
        if is_html(value):
            return cls.as_html(value, include_plotlyjs)
        raise argument_error(
            value,
            "File.create_from",
            "a path, a stream, an image, a chart or a table",
            ValueKindError,
        )

    @staticmethod
    def is_convertable(value: Any) -> bool:
        """Return whether `create_from` accepts ``value``; False for strings."""
        known = isinstance(value, (File, os.PathLike, io.IOBase))
        return known or is_image(value) or is_html(value)

    @staticmethod
    def is_convertable_to_image(value: Any) -> bool:
        """Return whether `as_image` supports the type of ``value``."""
        return is_image(value)

    @staticmethod
    def is_convertable_to_html(value: Any) -> bool:
        """Return whether `as_html` supports the type of ``value``."""
        return is_html(value)


@dataclass(frozen=True, slots=True, init=False)
class Histogram:
    """Histogram: counts of the values between edges.

    ``Histogram(values)`` counts values in equal bins from the smallest to the largest;
    ``Histogram(edges, counts)`` takes the results of ``numpy.histogram`` in this order.

    Args:
        edges: Edges of the bins. Without ``counts``, the values themselves: numbers, an array, or a
            tensor of any shape, which is counted on its device. NaN and infinities are not counted.
        counts: Number of values in each bin.
        bins: Number of bins for counting; 1 if all values are equal.

    Attributes:
        edges: Edges of the bins, finite and non-decreasing; one more than the number of bins.
        counts: Number of values in each bin, or sum of weights; non-negative.

    Raises:
        ArgumentError: If edges and counts do not match, or no value is finite.
        ValueKindError: If an element is not a number.

    Example:
        ::

            run["weights"].append(Histogram(model.fc.weight), step=step)
    """

    edges: Sequence[float]
    counts: Sequence[float]

    def __init__(self, edges: Any, counts: Any = None, *, bins: int = 64) -> None:
        if counts is None:
            edges, counts = _counted(edges, bins)
        else:
            edges, counts = _numbers(edges), _numbers(counts)
            _check_bins(edges, counts)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "counts", counts)


def _check_bins(edges: Sequence[float], counts: Sequence[float]) -> None:
    if len(edges) != len(counts) + 1 or not counts:
        raise ArgumentError(
            "Histogram: expected one more edge than counts, and at least one count, "
            f"got {len(edges)} edges and {len(counts)} counts"
        )
    falls = any(low > high for low, high in pairwise(edges))
    if falls or not all(map(math.isfinite, edges)):
        raise ArgumentError(
            "Histogram: expected finite edges, each at least as large as the previous one"
        )
    if not all(math.isfinite(count) and count >= 0 for count in counts):
        raise ArgumentError("Histogram: expected finite counts that are not negative")


def _counted(values: Any, bins: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    from seamark.values import histograms
    from seamark.values.arrays import is_tensor

    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 1:
        raise argument_error(bins, "Histogram: bins", "a positive whole number")
    if not is_tensor(type(values)):
        return _counted_array(values, bins)
    found, failed = histograms({"values": values}, bins)
    if error := failed.get("values"):
        kind = ValueKindError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"Histogram: {error}") from error
    edges, counts = found["values"]
    return tuple(edges), tuple(counts)


def _counted_array(values: Any, bins: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    import numpy as np

    try:
        numbers = np.asarray(values if hasattr(values, "__array__") else list(values))
    except (TypeError, ValueError) as error:
        raise argument_error(
            values, "Histogram", "numbers, or edges and counts", ValueKindError
        ) from error
    if numbers.dtype.kind not in "biuf" and numbers.size:
        raise argument_error(values, "Histogram", "numbers, or edges and counts", ValueKindError)
    numbers = numbers.astype(np.float64).reshape(-1)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        raise ArgumentError("Histogram: expected at least one finite value, got none")
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return (low - 0.5, high + 0.5), (float(len(numbers)),)
    span = high / 2 - low / 2  # halves: the full range of float64 exceeds float64
    if not span:  # adjacent floats
        return (low, high), (float(len(numbers)),)
    places = ((numbers / 2 - low / 2) / span * bins).astype(np.int64).clip(max=bins - 1)
    edges = [2 * (low / 2 + span * (at / bins)) for at in range(bins)]
    return (*edges, high), tuple(np.bincount(places, minlength=bins).astype(float).tolist())


def _numbers(values: Any) -> tuple[float, ...]:
    from seamark.values import to_float

    if hasattr(values, "tolist"):  # an array or a tensor, in one transfer
        values = values.tolist()
    return tuple(to_float(value) for value in values)


# --------------------------------------------------------------------- Neptune's values


class Value:
    """Base class of the value types of Neptune's API.

    ``run["x"] = Float(1)`` is the same as ``run["x"] = 1.0``.
    """

    __slots__: tuple[str, ...] = ()

    def _held(self) -> tuple[Any, ...]:
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return tuple(getattr(self, name) for name in names)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._held() == other._held()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._held()))})"

    __hash__ = None  # type: ignore[assignment]  # what some hold cannot be hashed


class Single(Value):
    """A single value; base of Neptune's types."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _converted(what: str, kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind_of_error = ValueKindError if isinstance(error, TypeError) else ArgumentError
        raise kind_of_error(f"{what}: {error}") from error


def _expected(what: str, kinds: tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, kinds):
        words = " or ".join("None" if each is type(None) else each.__name__ for each in kinds)
        raise argument_error(value, what, words, ValueKindError)
    return value


class Integer(Single):
    """An integer; anything that ``int`` accepts.

    Raises:
        ValueKindError: If the value is not of a numeric type.
        ArgumentError: If it cannot be converted, such as ``"x"`` or NaN.
    """

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        super().__init__(_converted("Integer", int, value))


class Float(Single):
    """A float; anything that ``float`` accepts.

    Raises:
        ValueKindError: If the value is not of a numeric type.
        ArgumentError: If it cannot be converted, such as ``"x"``.
    """

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        super().__init__(_converted("Float", float, value))


class Boolean(Single):
    """A boolean; anything that ``bool`` accepts.

    Raises:
        ArgumentError: If it has no truth value, like an array.
    """

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        super().__init__(_converted("Boolean", bool, value))


class String(Single):
    """A string or None.

    Raises:
        ValueKindError: If the value is neither.
    """

    __slots__ = ()

    def __init__(self, value: str | None) -> None:
        super().__init__(_expected("String", (str, type(None)), value))


class Datetime(Single):
    """A time.

    Raises:
        ValueKindError: If the value is not a ``datetime``.
    """

    __slots__ = ()

    def __init__(self, value: datetime) -> None:
        super().__init__(_expected("Datetime", (datetime,), value))


class StringSet(Value):
    """A set of strings; assigning it replaces the earlier set.

    Args:
        values: One string or several.

    Raises:
        ValueKindError: If one of them is not a string.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterable[str]) -> None:
        several = [values] if isinstance(values, str) else _converted("StringSet", list, values)
        self.values: set[str] = {_expected("StringSet", (str,), each) for each in several}


class FileSet(Value):
    """Files on disk; assigning them replaces the earlier file set.

    Args:
        file_globs: A path, folder or pattern, or several; see `seamark.Handler.upload_files`.

    Raises:
        ValueKindError: If one of them is not a path.
    """

    __slots__ = ("file_globs",)

    def __init__(
        self, file_globs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    ) -> None:
        one = isinstance(file_globs, (str, os.PathLike))
        several = [file_globs] if one else _converted("FileSet", list, file_globs)
        self.file_globs: list[str] = [
            os.fspath(_expected("FileSet", (str, os.PathLike), each)) for each in several
        ]


class Artifact(Value):
    """An artifact, given by its digest only; its files are unknown.

    Args:
        value: 64 hexadecimal digits.

    Raises:
        ArgumentError: If the value is not such a digest.
    """

    __slots__ = ("hash",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not _SHA256.fullmatch(value):
            raise argument_error(value, "Artifact", "a SHA-256 of 64 hexadecimal digits")
        self.hash = value


class GitRefDisabled:
    """Marker that disables the capture of git: ``init_run(git_ref=GitRef.DISABLED)``."""

    def __repr__(self) -> str:
        return "GitRef.DISABLED"


class GitRef(Value):
    """Reference to the git repository of a run: ``init_run(git_ref=GitRef("~/code"))``.

    Args:
        repository_path: A path in the repository; None for the repository of the script.

    Attributes:
        DISABLED: Value that disables the capture of git.
    """

    __slots__ = ("repository_path",)

    DISABLED: Final = GitRefDisabled()

    def __init__(self, repository_path: str | os.PathLike[str] | None = None) -> None:
        self.repository_path = repository_path

    def resolve_path(self) -> Path | None:
        """Return the absolute path without links; None if none was given."""
        return None if self.repository_path is None else Path(self.repository_path).resolve()


class ValueCopy(Value):
    """The value of another path: ``run["b"] = ValueCopy(run["a"])`` is ``run["b"] = run["a"]``.

    Attributes:
        source_handler: The handler of the copied path.
    """

    __slots__ = ("source_handler",)

    def __init__(self, source_handler: Any) -> None:
        self.source_handler = source_handler


class Series(Value):
    """The points of a series; assigning them replaces the earlier points.

    Base of Neptune's types.

    Attributes:
        family: Family of a path with such points.
        values: The points.
        steps: One step for each, or None to number the points.
        timestamps: One time for each, in seconds since the Unix epoch, or None.
        described: ``name`` and ``description`` of files.
    """

    __slots__ = ("described", "steps", "timestamps", "values")

    family: ClassVar[str]

    def __init__(
        self,
        values: list[Any],
        steps: Iterable[float] | None,
        timestamps: Iterable[float] | None,
        **described: Any,
    ) -> None:
        what = type(self).__name__
        self.values = values
        self.steps = None if steps is None else list(steps)
        self.timestamps = None if timestamps is None else list(timestamps)
        self.described = described
        for name, given in (("steps", self.steps), ("timestamps", self.timestamps)):
            if given is not None and len(given) != len(values):
                raise ArgumentError(
                    f"{what}: {name}: expected {len(values)}, one for each value, got {len(given)}"
                )


def _several(what: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, os.PathLike)) or not hasattr(values, "__iter__"):
        raise argument_error(values, what, "several values", ValueKindError)
    return list(values)


class FloatSeries(Series):
    """The points of a series of numbers; assigning them replaces the earlier points.

    Args:
        values: Numbers; NaN and infinities are kept.
        min: Accepted for compatibility with Neptune, and not recorded.
        max: The same.
        unit: The same.
        timestamps: As many seconds since the Unix epoch, or None.
        steps: As many finite numbers, or None to number the points.

    Raises:
        ValueKindError: If a value is not a number.
        ArgumentError: If the lengths differ.
    """

    __slots__ = ("max", "min", "unit")
    family = "float_series"

    def __init__(
        self,
        values: Iterable[float],
        min: float | None = None,  # noqa: A002
        max: float | None = None,  # noqa: A002
        unit: str | None = None,
        timestamps: Iterable[float] | None = None,
        steps: Iterable[float] | None = None,
    ) -> None:
        super().__init__(list(_numbers(_several("FloatSeries", values))), steps, timestamps)
        self.min, self.max, self.unit = min, max, unit


class StringSeries(Series):
    """The points of a series of texts; assigning them replaces the earlier points.

    Args:
        values: Texts, of any length.
        timestamps: As many seconds since the Unix epoch, or None.
        steps: As many finite numbers, or None to number the points.

    Raises:
        ValueKindError: If a value is not a string.
        ArgumentError: If the lengths differ.
    """

    __slots__ = ()
    family = "string_series"

    def __init__(
        self,
        values: Iterable[str],
        timestamps: Iterable[float] | None = None,
        steps: Iterable[float] | None = None,
    ) -> None:
        texts = [_expected("StringSeries", (str,), v) for v in _several("StringSeries", values)]
        super().__init__(texts, steps, timestamps)


class FileSeries(Series):
    """The points of a series of files; assigning them replaces the earlier points.

    Args:
        values: Files, paths, images, charts, or other values accepted by `File.create_from`.
        timestamps: As many seconds since the Unix epoch, or None.
        steps: As many finite numbers, or None to number the points.
        name: Name of each file.
        description: Description of each file.

    Raises:
        ValueKindError: If a value cannot be made into a file.
        ArgumentError: If the lengths differ.
    """

    __slots__ = ()
    family = "file_series"

    def __init__(
        self,
        values: Iterable[Any],
        timestamps: Iterable[float] | None = None,
        steps: Iterable[float] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        files = [File.create_from(each) for each in _several("FileSeries", values)]
        super().__init__(files, steps, timestamps, name=name, description=description)
