"""Places named in options, and options with the names of other loggers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from seamark.errors import ArgumentError, PathError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.paths import check_name, check_place

__all__ = [
    "ARGUMENTS",
    "FUNCTIONS",
    "REPLACED",
    "VERBS",
    "also",
    "folder_at",
    "folder_named",
    "path_of",
    "placed",
]


_SERVER: Final = re.compile(r"(https?://[^/?#\s]+)/([^?#\s]+)", re.IGNORECASE)


def placed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run; a place in ``with_id`` becomes root, project and id."""
    word = given.get("with_id")
    if isinstance(word, str) and (found := _SERVER.fullmatch(word)) is not None:
        if given.get("remote") is not None:
            msg = f"with_id and remote: expected one place, got {word!r:.200} and a remote"
            raise ArgumentError(msg)
        return {**given, "remote": found[1], "with_id": found[2].strip("/")}
    folder = folder_named(word, given.get("root"), "run", "a run")
    if folder is None:
        return dict(given)
    return {**given, "root": folder.root, "project": folder.project, "with_id": folder.run}


def folder_named(word: Any, root: Any, kind: str, words: str) -> RunFolder | None:
    """Return the folder that ``with_id`` refers to; None if it is a name or an id.

    Raises:
        ArgumentError: If it lies below another root.
        RunNotFoundError: If nothing of the kind lies there.
    """
    if not isinstance(word, str | os.PathLike) or (path := path_of(word)) is None:
        return None
    folder = folder_at(path)
    if folder is None or folder.kind != kind:
        msg = f"with_id: expected the folder of {words}, got {os.fspath(word)!r:.200}"
        raise RunNotFoundError(msg)
    if root is not None and os.path.abspath(root) != str(folder.root):  # noqa: PTH100 - keep links
        msg = f"with_id and root: expected one place, got {str(folder.root)!r} and {root!r:.200}"
        raise ArgumentError(msg)
    return folder


def path_of(word: str | os.PathLike[str]) -> Path | None:
    """Return the path in a text or path; None for a name or an id.

    A text is a path where it begins with ``file://``, or has a slash and is a folder.
    """
    if isinstance(word, str) and word.lower().startswith("file://"):
        from seamark.remote.file import root_of

        return root_of(word)
    path = Path(os.path.abspath(word))  # noqa: PTH100 - resolve() would follow links
    return path if isinstance(word, os.PathLike) or ("/" in word and path.is_dir()) else None


def folder_at(path: Path) -> RunFolder | None:
    """Return the run, model or version of a folder; None if there is none.

    Its journals name the project in which it was recorded, and so its root.
    """
    if not (path / "journal").is_dir():
        return None
    for header in headers(RunFolder(path.parent, ".", path.name)):
        project, run = header.get("project"), header.get("run")
        try:
            run = path.name if run is None else run  # the draft of an artifact had no id
            check_place(project, run)
            parts = (*str(project).split("/"), check_name(run, "run id"))
        except PathError:
            continue
        if path.parts[-len(parts) :] == parts:
            return RunFolder(path.parents[len(parts) - 1], str(project), str(run))
    return None


_METRICS: Final = "run.log_metrics(metrics, step, phase=..., epoch=...) records metrics"
_PARAMS: Final = "run.params.update(...) records parameters"
_INIT: Final = "seamark.init_run(project, ...) makes a run, and with_id= opens one"
_SYNC: Final = "seamark.sync(what, to) sends runs and artifacts elsewhere"
_STOP: Final = "run.stop() ends it, or leaving `with run:`"
_POINT: Final = 'run["path"].append(value, step=step) records a metric'
_TEXT: Final = 'run["path"].append(text, step=step) records a text'
_IMAGE: Final = (
    'run["path"].append(seamark.types.File.as_image(image), step=step) records an image or a figure'
)
_HISTOGRAM: Final = (
    'run["path"].append(seamark.types.Histogram(values), step=step) records a histogram'
)
_FILE: Final = 'run["path"].upload(...) records a file'
_TAG: Final = 'run["sys/tags"].add("tag") adds a tag'
_VALUES: Final = 'run["path"] = {...} records values'
VERBS: Final[Mapping[str, str]] = {
    "add_figure": _IMAGE,
    "add_histogram": _HISTOGRAM,
    "add_hparams": _PARAMS,
    "add_image": _IMAGE,
    "add_images": _IMAGE,
    "add_scalar": _POINT,
    "add_scalars": _METRICS,
    "add_tag": _TAG,
    "add_tags": 'run["tags"] = {...} records keyed tags, run["sys/tags"].add(...) plain ones',
    "add_text": _TEXT,
    "append_tag": _TAG,
    "append_tags": _TAG,
    "capture_output": "what is printed is recorded unasked; capture={'limit': ...} says how much",
    "config": _PARAMS,
    "dir": "run.folder is the folder of the run, run.folder.files_dir the one for your files",
    "end": _STOP,
    "finish": _STOP,
    "get_run_url": "run.get_url() returns the address of its page",
    "hparams": _PARAMS,
    "labels": 'run["sys/tags"] holds tags',
    "log": _METRICS,
    "log_arguments": _PARAMS,
    "log_artifact": 'run["path"].upload(...) records a file, run.mark_output(...) an artifact',
    "log_asset": _FILE,
    "log_code": "code is recorded unasked: source_files= and code_version= say more",
    "log_dict": _VALUES,
    "log_directory": 'run["path"].upload_files(...) records a folder',
    "log_figure": _IMAGE,
    "log_file": _FILE,
    "log_histogram": _HISTOGRAM,
    "log_hyperparams": _PARAMS,
    "log_image": _IMAGE,
    "log_images": _IMAGE,
    "log_metadata": 'run["metadata"] = {...} records it',
    "log_metric": _METRICS,
    "log_model": _FILE,
    "log_other": _VALUES,
    "log_others": _VALUES,
    "log_param": _PARAMS,
    "log_parameter": _PARAMS,
    "log_parameters": _PARAMS,
    "log_params": _PARAMS,
    "log_table": 'run["path"].upload(seamark.types.File.as_html(frame)) records a table',
    "log_text": _TEXT,
    "metrics": 'run["path"].fetch_points() reads a metric, run.report() the last of each',
    "save": _FILE,
    "set_property": 'run["path"] = value records a value',
    "set_name": 'run["sys/name"] = name names it',
    "set_status": "run.set_state(...) says how it is doing",
    "set_tag": _TAG,
    "set_tags": _TAG,
    "show_eta": "run.progress(iterable, name) tells how far a loop is",
    "status": "run.state says how it is doing",
    "summary": 'every series has its summaries: project.fetch_runs_table(columns=["loss:min"])',
    "update": _PARAMS,
    "upload": _SYNC,
    "use_artifact": "run.mark_input(...) records what the run reads",
    "url": "run.get_url() returns the address of its page",
    "watch": 'run["path"].append(seamark.types.Histogram(tensor)) records weights and gradients',
}
"""By the name of what others do with a run."""
FUNCTIONS: Final[Mapping[str, str]] = {
    "ANONYMOUS": "seamark.ANONYMOUS_API_TOKEN is this token",
    "TrackClient": _INIT,
    "create_artifact": "seamark.init_artifact(name=...) makes one",
    "create_run": _INIT,
    "finish": _STOP,
    "get_last_run": "keep what seamark.init_run(...) returned; with_id= opens a run again",
    "get_project": "seamark.init_project(project) opens one",
    "load_artifact": "seamark.init_artifact(NAME:VERSION) opens one, or its folder in that place",
    "load_run": _INIT,
    "log": _METRICS,
    "start_run": _INIT,
    "upload": _SYNC,
}
"""By the name of a function of another package."""
ARGUMENTS: Final[Mapping[str, str]] = {
    "auto_upload": "remote",
    "config": "params",
    "conflict_strategy": "conflict",
    "dir": "root",
    "experiment_name": "name",
    "folder": "project",
    "group": "groups",
    "hparams": "params",
    "hyperparameters": "params",
    "id": "with_id",
    "labels": "tags",
    "make_folder": "make_project",
    "name": "project",
    "notes": "description",
    "offline_mode": "mode",
    "parameters": "params",
    "project_name": "project",
    "project_qualified_name": "project",
    "run_id": "with_id",
    "root_dir": "root",
    "run": "with_id",
    "run_name": "name",
    "save_dir": "root",
    "tracking_uri": "remote",
    "upload_source_files": "source_files",
}
"""By the name of an argument of another package: the argument here."""
REPLACED: Final[Mapping[str, str]] = {
    **{
        f"capture_{key}": f"capture={{{key!r}: ...}}"
        for key in ("script", "packages", "host", "git", "signals", "limit")
    },
    "mask_secrets": "secrets=False",
}
"""By the name of an argument that was replaced: what to write instead."""


def also(words: Mapping[str, str], name: str) -> str:
    """Return the hint about a name for the end of a message; empty if there is none."""
    return f": {words[name]}" if name in words else ""
