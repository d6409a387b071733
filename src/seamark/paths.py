"""Grammar of attribute paths and of names of folders. No I/O, standard library only."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Final

from seamark.errors import PathError, StageError

__all__ = [
    "MAX_PATH_BYTES",
    "check_name",
    "check_path",
    "check_project",
    "check_writable",
    "given_path",
    "is_inside",
    "join_path",
]

PROJECT_LOG: Final = ".project"
"""Folder of a project's own log, used in place of a run id."""
MODELS: Final = ".models"
"""The folder of a project's models: ``<project>/.models/<key>``, with versions in each."""
ARTIFACTS: Final = ".artifacts"
"""The folder of a project's artifacts: ``<project>/.artifacts/<name>``, with versions in each."""
KINDS: Final = ("run", "model", "model_version", "artifact", "project")
"""Kinds of containers; see `kind_of`."""

MAX_PATH_BYTES: Final = 1024
"""Longest attribute path, in bytes of UTF-8."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10))}
)
_RESERVED_SEGMENTS: Final = frozenset({"journal", "blobs", "files"})
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,99}")
STAGES: Final = ("none", "staging", "production", "archived")
"""Stages of a model version."""
_STAGE: Final = "sys/stage"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PLACES: Final = re.compile(rf"/(?:{re.escape(MODELS)}|{re.escape(ARTIFACTS)})(?=/|$)")
"""Pattern that separates the path of a project from what is not one of its runs."""
_BELOW: Final = {MODELS: "model_version", ARTIFACTS: "artifact"}
"""Folders within that of a model or artifact name."""
_DERIVED: Final = frozenset(
    {
        "sys/claimed_by",
        "sys/content_hash",
        "sys/crash_reason",
        "sys/aliases",
        "sys/digest",
        "sys/id",
        "sys/inherited_tags",
        "sys/model_id",
        "sys/owner",
        "sys/revision",
        "sys/start_hash",
        "sys/creation_time",
        "sys/end_time",
        "sys/modification_time",
        "sys/running_time",
        "sys/start_time",
        "sys/state",
        "sys/state_detail",
        "sys/trashed",
        "sys/version",
    }
)


def check_path(path: object) -> str:
    """Return ``path`` if it is a valid attribute path, else raise PathError with the reason.

    A path consists of one or more non-empty parts joined by ``/``, has no control characters, no
    leading and no trailing slash, and at most `MAX_PATH_BYTES` bytes in UTF-8.
    """
    if not isinstance(path, str):
        raise PathError(
            f"path: expected a string such as 'train/loss', got {type(path).__name__}: {path!r:.80}"
        )
    if not path:
        raise PathError(
            "path: expected parts joined by '/', such as 'train/loss', got an empty string"
        )
    if path[0] == "/" or path[-1] == "/" or "//" in path:
        where = (
            "a leading slash"
            if path[0] == "/"
            else "a trailing slash"
            if path[-1] == "/"
            else "an empty part"
        )
        raise PathError(
            f"path: expected non-empty parts joined by '/', got {where} in {path!r:.200}"
        )
    if found := _CONTROL.search(path):
        raise PathError(
            "path: expected no control characters, "
            f"got {found.group()!r} at position {found.start()} in {path!r:.200}"
        )
    size = len(path.encode())
    if size > MAX_PATH_BYTES:
        raise PathError(
            f"path: expected at most {MAX_PATH_BYTES} bytes of UTF-8, "
            f"got {size} in {path[:60]!r}..."
        )
    return path


def given_path(path: object) -> str:
    """Return an attribute path without leading, trailing and repeated slashes.

    Integrations join paths to prefixes that may be empty or end with a slash, as Neptune allows.
    Raises PathError like `check_path`.
    """
    if isinstance(path, str) and path.strip("/"):
        path = "/".join(filter(None, path.split("/")))
    return check_path(path)


def is_derived(path: str) -> bool:
    """Return whether a field is derived from the journals and therefore not assignable."""
    return path in _DERIVED


def check_writable(path: object) -> str:
    """Return ``path`` if users may write to it: valid, and not a derived ``sys/*`` field.

    Raises:
        PathError: If it is invalid, or derived from the journal and therefore not assignable.
        StageError: If it is the stage of a model version, which has its own method.
    """
    return refuse_derived(check_path(path))


def check_series_path(path: object) -> str:
    """Return ``path`` if users may record a series there; raises like `check_writable`.

    Fields below ``sys/`` are values and sets, so that name, tags and state are always readable.
    """
    checked = check_writable(path)
    if checked.startswith("sys/"):
        raise PathError(f"path: {path!r} cannot be a series: 'sys/' holds single values and sets")
    return checked


def refuse_derived(path: str) -> str:
    """Return a valid path if users may write to it; raises like `check_writable`."""
    if path == _STAGE:
        raise StageError(f"path: {path!r} is changed with version.change_stage(...), not assigned")
    if path in _DERIVED:
        raise PathError(
            f"path: {path!r} is derived from the run itself and cannot be "
            "assigned, deleted or appended to"
        )
    return path


def check_name(name: object, what: str = "name") -> str:
    """Return ``name`` if it is a valid folder name on all systems, for a run, writer or project.

    Raises PathError if it does not match ``[A-Za-z0-9][A-Za-z0-9._-]{0,99}``, ends with a dot, or
    is a Windows device. The message calls it ``what``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PathError(
            f"{what}: expected 1 to 100 letters, digits, '.', '_' or '-', starting "
            f"with a letter or digit, got {name!r:.120}"
        )
    if name.endswith(".") or is_device(name):
        raise PathError(
            f"{what}: expected a name valid on all file systems (no trailing "
            f"dot, no device name), got {name!r}"
        )
    return name


def is_device(name: str) -> bool:
    """Return whether a name, with any extension, is that of a Windows device."""
    return name.split(".", 1)[0].rstrip(" ").casefold() in _DEVICES


def check_project(project: object) -> str:
    """Return ``project`` if it is a valid project path such as ``"team/vision/mnist"``.

    Raises PathError if a part is not a valid name, or is one of ``journal``, ``blobs`` and
    ``files``.
    """
    if not isinstance(project, str) or not project:
        raise PathError(
            f"project: expected names joined by '/', such as 'team/mnist', got {project!r:.120}"
        )
    for part in project.split("/"):
        check_name(part, f"project {project!r:.120}")
        if part.casefold() in _RESERVED_SEGMENTS:
            raise PathError(
                f"project: the part {part!r} in {project!r} is reserved for the folders of runs; "
                f"use another name, such as {part + '-project'!r}"
            )
    return project


def check_key(key: object, what: str = "key") -> str:
    """Return ``key`` if it is a valid model key, a name without ``-``; else raise PathError.

    In Neptune's ids ``-`` separates the key from its prefix and from the number of a version.
    """
    name = check_name(key, what)
    if not _KEY.fullmatch(name):
        raise PathError(
            f"{what}: expected letters, digits, '.' and '_', such as 'RESNET', got {key!r:.120}"
        )
    return name


def check_artifact(name: object, what: str = "name") -> str:
    """Return ``name`` if it is a valid artifact name, else raise PathError."""
    checked = check_name(name, what)
    if checked.casefold() in _RESERVED_SEGMENTS:
        raise PathError(f"{what}: {checked!r} is reserved for folders of Seamark")
    return checked


def check_place(project: object, run: object, what: str = "run id") -> None:
    """Raise PathError for a place that cannot be that of a container; see `kind_of`.

    ``run`` is a run id, key of a model, id of a version, digest of an artifact, or `PROJECT_LOG`.
    """
    kind = kind_of(check_scope(project), str(run))
    if kind == "model":
        check_key(run)
    elif kind == "artifact":
        if not isinstance(run, str) or not _DIGEST.fullmatch(run):
            raise PathError(
                f"{what}: expected the 64 hexadecimal digits of an artifact, got {run!r:.120}"
            )
    elif kind != "project":
        if str(project).endswith(f"/{ARTIFACTS}"):
            raise PathError(f"{what}: {run!r:.120} is the name of an artifact, not of a version")
        check_name(run, what)
    elif _PLACES.search(str(project)):
        raise PathError(
            f"{what}: {run!r} is the log of a project, not a model, version or artifact"
        )


def check_scope(project: object) -> str:
    """Return ``project`` if it is a project or a place in one; see `kind_of`. Raises PathError."""
    place = _PLACES.search(project) if isinstance(project, str) else None
    if not isinstance(project, str) or place is None:
        return check_project(project)
    check_project(project[: place.start()])
    below = project[place.end() + 1 :]
    if place.end() == len(project):
        return project
    if place[0] == f"/{MODELS}":
        check_key(below)
    else:
        check_artifact(below, "artifact")
    return project


def kind_of(project: str, run: str) -> str:
    """Return the kind of a container, one of `KINDS`, from its place.

    =====================  ==========================  =================
    kind                   project                     run
    =====================  ==========================  =================
    run                    ``team/p``                  run id
    project (its own log)  ``team/p``                  ``.project``
    model                  ``team/p/.models``          key
    model_version          ``team/p/.models/KEY``      id of the version
    artifact               ``team/p/.artifacts/NAME``  digest
    =====================  ==========================  =================
    """
    if run == PROJECT_LOG:
        return "project"
    parts = project.rsplit("/", 2)
    if parts[-1] == MODELS:
        return "model"
    return _BELOW.get(parts[-2] if len(parts) > 1 else "", "run")


def home_of(project: str) -> str:
    """Return the project without the folders of models or artifacts; see `kind_of`."""
    found = _PLACES.search(project)
    return project if found is None else project[: found.start()]


def in_project(place: str, project: str) -> str:
    """Return the corresponding place in another project; see `kind_of`."""
    return project + place[len(home_of(place)) :]


def model_key(project: str, run: str) -> str:
    """Return the key of a model or of a model version, or the name of an artifact."""
    return run if project.endswith(f"/{MODELS}") else project.rpartition("/")[2]


def join_path(*parts: str) -> str:
    """Join the non-empty parts of a path: ``join_path("", "a", "b")`` is ``"a/b"``."""
    return "/".join(part for part in parts if part)


def is_inside(path: str, namespace: str) -> bool:
    """Return whether ``path`` is ``namespace`` or below it; every path is inside ``""``."""
    return not namespace or path == namespace or path.startswith(namespace + "/")


def matches(path: str, *patterns: str) -> bool:
    """Return whether a path equals, is below, or matches one of the patterns (``*`` and ``?``)."""
    return any(is_inside(path, one.strip("/")) or fnmatchcase(path, one) for one in patterns)


def projects_above(project: str, run: str) -> list[str]:
    """Return the projects from which a container or project inherits, topmost first."""
    found = list(accumulate(home_of(project).split("/"), "{}/{}".format))
    return found[:-1] if run == PROJECT_LOG else found
