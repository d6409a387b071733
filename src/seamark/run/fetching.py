"""Reads of one path for a handler; a rank that records nothing gets empty results, not errors."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import (
    FamilyError,
    FileMissingError,
    MissingExtraError,
    MissingFieldError,
)
from seamark.journal.rows import spoken
from seamark.reading.attributes import TrackedFiles
from seamark.reading.names import generated_name
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


def value_of(recorded: Recorded, path: str) -> Any:
    """Implement `Handler.fetch`."""
    reader = recorded.reader()
    found = recorded.find(reader, path)
    if found is None:
        nested = recorded.atoms(path, reader)
        if nested or recorded.silent:
            return nested or None
        if path in _ALWAYS:
            return _ALWAYS[path](recorded.folder)
        if path in _SAME:
            known = value_of(recorded, _SAME[path])
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


def last_of(recorded: Recorded, path: str) -> Any:
    """Implement `Handler.fetch_last`."""
    reader = recorded.reader()
    if reader is None and recorded.silent:
        return None
    return _last(recorded, *recorded.look_up(path, reader))


def _last(recorded: Recorded, reader: Reader | None, found: Attribute) -> Any:
    if reader is None or not found.family.endswith("_series"):
        raise MissingFieldError(f"{found.path!r}: expected a series, got {spoken(found.family)}")
    if not found.value.count:
        return None
    if found.family == "histogram_series":
        return reader.last(found.path)
    return recorded.whole(found.value.last)


def expect(recorded: Recorded, path: str, wanted: str, *families: str) -> tuple[Reader, Attribute]:
    """Return a reader and the attribute at a path; raise `FamilyError` for another family."""
    reader, found = recorded.look_up(path)
    if reader is None or found.family not in families:
        raise FamilyError(f"{path!r}: expected {wanted}, got {spoken(found.family)}")
    return reader, found


def points_of(
    recorded: Recorded,
    path: str,
    attempt: Attempt,
    points: int | None = None,
    limit: int | None = None,
) -> Points | Curve:
    """Implement `Handler.fetch_points`; ``limit`` is the number of the last points."""
    from seamark.reading.curves import Curve
    from seamark.reading.points import Points

    if recorded.silent:
        return Points.none() if points is None else Curve.none()
    reader, _ = expect(recorded, path, "a float series", "float_series")
    if points is None:
        return reader.points(path, attempt, limit=limit)
    return reader.curve(path, points, attempt)


def frame_of(
    recorded: Recorded, path: str, attempt: Attempt, limit: int | None, *, timestamps: bool
) -> pd.DataFrame:
    """Implement `Handler.fetch_values`."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'fetch_values needs pandas: pip install "seamark[pandas]" (or use fetch_points, which '
            "needs only NumPy)"
        ) from error
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise argument_error(limit, "limit", "a positive number of points or None")
    columns = _columns(recorded, path, attempt, limit)
    times = pd.to_datetime(columns.pop("timestamp"), unit="ns", utc=True)
    frame = pd.DataFrame(columns)
    if timestamps:
        frame["timestamp"] = times
    return frame


def _columns(recorded: Recorded, path: str, attempt: Attempt, limit: int | None) -> dict[str, Any]:
    if not recorded.silent:
        wanted = "a series of numbers or texts"
        reader, found = expect(recorded, path, wanted, "float_series", "string_series")
        if found.family == "string_series":
            texts = reader.texts(path, attempt)[-(limit or 0) :]
            return {
                "step": [one.step for one in texts],
                "value": [recorded.read_long_text(one.text) for one in texts],
                "timestamp": [one.time_ns for one in texts],
            }
    points: Any = points_of(recorded, path, attempt, limit=limit)
    return {"step": points.step, "value": points.value, "timestamp": points.time_ns}


# --------------------------------------------------------------------- files


def download(
    recorded: Recorded,
    path: str,
    destination: str | os.PathLike[str] | None,
    *,
    references: bool = False,
) -> None:
    """Implement `Handler.download`."""
    if recorded.silent:
        return
    files, contents = _files(recorded, path), recorded.contents()
    if contents.finish([file for _, file in files]):
        files = _files(recorded, path)
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


def bytes_of(recorded: Recorded, path: str, *, references: bool = False) -> bytes:
    """Implement `Handler.fetch_bytes`."""
    if recorded.silent:
        return b""
    file = _single_file(recorded, path)
    contents = recorded.contents()
    if contents.finish([file]):
        file = _single_file(recorded, path)
    return contents.read(file, path, references=references)


def _single_file(recorded: Recorded, path: str) -> dict[str, Any]:
    file: dict[str, Any] = expect(recorded, path, "a single file", "file")[1].value
    if file.get("dir"):
        raise FamilyError(
            f"{path!r}: expected a single file, got a folder: read it with download()"
        )
    return file


def download_last(
    recorded: Recorded, path: str, destination: str | os.PathLike[str] | None
) -> None:
    """Implement `Handler.download_last`."""
    if recorded.silent:
        return
    expect(recorded, path, spoken("file_series"), "file_series")
    files = _files(recorded, path)
    if not files:
        raise MissingFieldError(f"{path!r}: the file series has no points")
    name, file = files[-1]
    recorded.contents().write(file, _target(destination), path, name=name)


def _target(destination: str | os.PathLike[str] | None) -> Path:
    """Return the target of a download; a name ending with a slash is a folder, which is created."""
    if destination is None:
        return Path.cwd()
    target = Path(destination)
    if os.fspath(destination).endswith(("/", os.sep)):
        target.mkdir(parents=True, exist_ok=True)
    return target


def _files(recorded: Recorded, path: str) -> list[tuple[str | None, dict[str, Any]]]:
    wanted = "a file, a file set or a file series"
    families = ("file", "file_set", "file_series", "artifact")
    reader, found = expect(recorded, path, wanted, *families)
    if found.family == "file":
        return [(None, found.value)]
    if found.family == "file_set":
        return list(found.value.items())
    if found.family == "file_series":
        return [(_point_name(point), point.file) for point in reader.files(path)]
    return [(str(file["path"]), _whereabouts(path, file)) for file in found.value["files"]]


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
