"""Options of a run: names, types, documentation, and their names in other loggers."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, cast, get_type_hints

from seamark.errors import ArgumentError, PathError, RunNotFoundError, UnknownArgumentError
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.paths import check_name, check_place
from seamark.process.interrupts import quietly
from seamark.values._numbers import argument_error
from seamark.values.aggregates import Keep

_SERVER: Final = re.compile(r"(https?://[^/?#\s]+)/([^?#\s]+)", re.IGNORECASE)


def placed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run with a place in ``with_id`` split into root, project and id."""
    word = given.get("with_id")
    if isinstance(word, str) and (found := _SERVER.fullmatch(word)) is not None:
        if given.get("remote") is not None:
            raise ArgumentError(
                f"with_id and remote: expected one place, got {word!r:.200} and a remote"
            )
        return {**given, "remote": found[1], "with_id": found[2].strip("/")}
    folder = folder_named(word, given.get("root"), "run", "a run")
    if folder is None:
        return dict(given)
    return {**given, "root": folder.root, "project": folder.project, "with_id": folder.run}


def folder_named(word: Any, root: Any, kind: str, words: str) -> RunFolder | None:
    """Return the folder to which ``with_id`` refers; None if it is a name or an id.

    Raises:
        ArgumentError: If it is below another root.
        RunNotFoundError: If there is no such container.
    """
    if not isinstance(word, str | os.PathLike) or (path := path_of(word)) is None:
        return None
    folder = folder_at(path)
    if folder is None or folder.kind != kind:
        raise argument_error(os.fspath(word), "with_id", f"the folder of {words}", RunNotFoundError)
    if root is not None and os.path.abspath(root) != str(folder.root):  # noqa: PTH100 - keep links
        raise ArgumentError(
            f"with_id and root: expected one place, got {str(folder.root)!r} and {root!r:.200}"
        )
    return folder


def path_of(word: str | os.PathLike[str]) -> Path | None:
    """Return a string or path as a path; None for a name or an id.

    A string is a path if it begins with ``file://``, or contains a slash and is a folder.
    """
    if isinstance(word, str) and word.lower().startswith("file://"):
        from seamark.remote.file import root_of

        return root_of(word)
    path = Path(os.path.abspath(word))  # noqa: PTH100 - resolve() would follow links
    return path if isinstance(word, os.PathLike) or ("/" in word and path.is_dir()) else None


def folder_at(path: Path) -> RunFolder | None:
    """Return the run, model or version of a folder; None if there is none.

    Its journals contain the project in which it was recorded, which determines the root.
    """
    if not (path / "journal").is_dir():
        return None
    for header in headers(RunFolder(path.parent, ".", path.name)):
        project, run = header.get("project"), header.get("run")
        with quietly(only=PathError):
            run = path.name if run is None else run  # a draft of an artifact has no id
            check_place(project, run)
            parts = (*str(project).split("/"), check_name(run, "run id"))
            if path.parts[-len(parts) :] == parts:
                return RunFolder(path.parents[len(parts) - 1], str(project), str(run))
    return None


_METRICS: Final = "run.log_metrics(metrics, step, phase=..., epoch=...) records metrics"
_PARAMS: Final = "run.params.update(...) records parameters"
_INIT: Final = "seamark.init_run(project, ...) creates a run, and with_id= opens one"
_SYNC: Final = "seamark.sync(what, to) sends runs and artifacts elsewhere"
_STOP: Final = "run.stop() or the end of a `with run:` block ends a run"
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
    "capture_output": "printed output is recorded automatically; capture={'limit': ...} limits it",
    "config": _PARAMS,
    "dir": "run.folder is the folder of the run, run.folder.files_dir the folder for your files",
    "end": _STOP,
    "finish": _STOP,
    "get_run_url": "run.get_url() returns the address of its page",
    "hparams": _PARAMS,
    "labels": 'run["sys/tags"] holds tags',
    "log": _METRICS,
    "log_arguments": _PARAMS,
    "log_artifact": 'run["path"].upload(...) records a file, run.mark_output(...) an artifact',
    "log_asset": _FILE,
    "log_code": "code is recorded automatically; see also source_files= and code_version=",
    "log_dict": _VALUES,
    "log_directory": 'run["path"].upload_files(...) records a folder',
    "log_figure": _IMAGE,
    "log_file": _FILE,
    "log_histogram": _HISTOGRAM,
    "log_hyperparams": _PARAMS,
    "log_image": _IMAGE,
    "log_images": _IMAGE,
    "log_metadata": 'run["metadata"] = {...} records metadata',
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
    "metrics": 'run["path"].fetch_points() reads a metric, run.report() the last values',
    "save": _FILE,
    "set_property": 'run["path"] = value records a value',
    "set_name": 'run["sys/name"] = name sets the name',
    "set_status": "run.set_state(...) sets the state",
    "set_tag": _TAG,
    "set_tags": _TAG,
    "show_eta": "run.progress(iterable, name) records the progress of a loop",
    "status": "run.state is the state",
    "summary": 'every series has summaries: project.fetch_runs_table(columns=["loss:min"])',
    "update": _PARAMS,
    "upload": _SYNC,
    "use_artifact": "run.mark_input(...) records an input of the run",
    "url": "run.get_url() returns the address of its page",
    "watch": 'run["path"].append(seamark.types.Histogram(tensor)) records weights and gradients',
}
"""Hints, by the name of a run method of other packages."""
FUNCTIONS: Final[Mapping[str, str]] = {
    "ANONYMOUS": "seamark.ANONYMOUS_API_TOKEN is this token",
    "TrackClient": _INIT,
    "create_artifact": "seamark.init_artifact(name=...) creates one",
    "create_run": _INIT,
    "finish": _STOP,
    "get_last_run": "keep the result of seamark.init_run(...); with_id= opens a run again",
    "get_project": "seamark.init_project(project) opens one",
    "load_artifact": "seamark.init_artifact(NAME:VERSION) opens one",
    "load_run": _INIT,
    "log": _METRICS,
    "start_run": _INIT,
    "upload": _SYNC,
}
"""Hints, by the name of a function of another package."""
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
"""Arguments here, by the name of the argument in another package."""
REPLACED: Final[Mapping[str, str]] = {
    **{
        f"capture_{key}": f"capture={{{key!r}: ...}}"
        for key in ("script", "packages", "host", "git", "signals", "limit")
    },
    "mask_secrets": "secrets=False",
}
"""Replacements, by the name of a former argument."""


def also(words: Mapping[str, str], name: str) -> str:
    """Return a hint about a name, to end a message with; empty if there is none."""
    return f": {words[name]}" if name in words else ""


log = logging.getLogger("seamark")
T = TypeVar("T")
WITHOUT_MEANING: Final = frozenset(
    {
        "async_lag_callback",
        "async_lag_threshold",
        "async_no_progress_callback",
        "async_no_progress_threshold",
        "enable_remote_signals",
        "flush_period",
        "proxies",
    }
)
"""Arguments of ``neptune.init_run`` that are accepted and have no effect."""


class RunOptions(TypedDict, total=False):
    """Options of a run; None means not given.

    Attributes:
        project: Path of the project, such as ``"team/mnist"``; SEAMARK_PROJECT, NEPTUNE_PROJECT or
            ``"default"``.
        name: Display name, free text; an empty name means none.
        with_id: An existing run to open: its id, its name (recorded or generated), ``"latest"``, or
            one of these prefixed by ``PROJECT/``; without a prefix, ``project`` and its
            sub-projects are searched. With ``mode="read-only"`` a prefix of an id is enough. Or its
            location: its folder, as a path or a ``file://`` URI, or
            ``https://server/PROJECT/NAME``.
        custom_run_id: Name by which several processes find the same run; SEAMARK_CUSTOM_RUN_ID.
        mode: ``"online"``, ``"async"`` and ``"sync"`` are the same; ``"offline"`` sends nothing;
            ``"read-only"`` opens with_id for reading; ``"disabled"`` does nothing; ``"debug"``
            records into a temporary root. SEAMARK_MODE.
        description: Free text.
        tags: One string or several, for ``sys/tags``; or a mapping of keys to values, stored under
            ``tags/``.
        groups: Names of the run's groups, for ``sys/group_tags``.
        parent: The run of which this one is a part (a fold, a trial), for ``sys/parent``: the run,
            its id, or ``PROJECT/ID``.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``, see the page on
            environment variables.
        params: Hyperparameters, stored under ``parameters/``; see `Run.params`.
        keep: Aggregates of high-rate series, stored instead of their points, by path or pattern,
            such as ``{"gpu/*": seamark.Statistics(skip=10)}``; see `Handler.keep`.
        config_path: A YAML or JSON file with these options, except ``keep`` and ``api_token``, and
            with ``inputs`` (paths and URLs, by name or in a list). It takes precedence over
            arguments, and arguments over the environment; parameters, tags, groups and captures of
            both are merged.
        owner: Whether this process sets the run's state. None: a process that creates a run or
            starts a training in it does, as does a process that opens an unfinished run without a
            live owner, from its first number on. True also continues a completed or failed run;
            False is for scripts that only add data.
        start: False records the run and its data in state ``"created"``, without captures and
            heartbeat. It starts running with `Run.start`, ``with run:``, its first point, or a
            stage of a trainer.
        ranks: ``"zero"``, the default: only rank 0 records, other ranks hold a silent run.
            ``"all"``: every rank records into one run, with its series under ``ranks/<rank>/``
            unless it is rank 0; values, tags and files are those of rank 0. Every rank must then
            create the run or the logger, with the same ``with_id`` (a complete id) or
            ``custom_run_id``, or after ``init_process_group()`` or ``hvd.init()`` has connected the
            ranks.
        resume: ``"auto"``, the default: a job that is restarted by its launcher or loads a
            checkpoint continues its run. ``"never"``: each start is a new run. ``"must"``: the run
            to resume must exist, named by ``with_id``, ``custom_run_id``, a restart or a
            checkpoint.
        on_duplicate: Action if the project has a run with the same initial parameters and code:
            ``"new"``, the default, starts another run, ``"reuse"`` continues the newest one,
            ``"error"`` raises. The latter two need ``params`` or a ``config_path`` with some. They
            search this disk and then the remote; if the remote does not answer within 5 s, this
            disk decides alone.
        checkpoints: ``"reference"`` records the location of checkpoints, ``"keep"`` copies their
            bytes into the run folder; None means keep with a remote, else reference.
        remote: Destinations to which the run is sent while it is recorded: the address of a Seamark
            server such as ``"https://seamark.lab"``, another root such as ``"file:///mnt/runs"``,
            or several. SEAMARK_REMOTE, separated by commas. The run is recorded on this disk in any
            case.
        conflict: Action if another run of the project has the same ``name`` at a remote: ``"new"``
            names the new run ``<name>-2``, ``"skip"`` does not send it there, ``"error"`` raises,
            ``"replace"`` moves the other run to the trash there. None does not check names.
        make_project: False raises if the project does not exist at a remote; otherwise it is
            created.
        api_token: For remotes; kept in memory only, never pickled, never recorded.
            SEAMARK_API_TOKEN, or the token stored by ``seamark login``.
        git_ref: Path of a repository, or False to record nothing about git.
        code_version: Version of the training code, for ``source_code/version``, or a function
            without arguments that returns it and is called immediately. None: a hash of the
            executed code outside installed packages.
        source_files: Files, folders and patterns to store under ``source_code/files``: at most
            2,000 files and 100 MiB, stored while the training runs. Files below a folder or of a
            pattern that ``.gitignore`` excludes are left out. None: the running script; an empty
            list: none.
        dependencies: ``"infer"`` also stores the installed packages as a requirements file under
            ``source_code/requirements``; a path stores that file there.
        capture: Further captures, each active unless False: ``"script"`` (the script or the
            notebook, its arguments, and a version of the executed code, secrets masked),
            ``"packages"`` (the versions of Python and of installed packages), ``"host"`` (hardware,
            system, container, cluster, notebook service, torch's build, host name and pid of the
            process; ``sys/hostname`` and the writer's id contain the host in any case), ``"git"``
            (commit, branch, dirty state and remote, and changes since the commit), ``"signals"`` (a
            mark in the run when SIGTERM arrives). ``"limit"`` is the maximum amount of recorded
            output per minute, in total, or both, such as ``"1MiB/min, 500MiB"``; by default
            ``"1MiB/min"``. SEAMARK_CAPTURE_SCRIPT and so on, for each that is not given.
        capture_stdout: False does not record the output of Python code; ``"fd"`` also records the
            output of C libraries and subprocesses. SEAMARK_CAPTURE_STDOUT.
        capture_stderr: The same for standard error. SEAMARK_CAPTURE_STDERR.
        capture_hardware_metrics: False does not record the use of CPU, memory, disk, network and
            GPUs. SEAMARK_CAPTURE_HARDWARE_METRICS.
        capture_traceback: False does not record the traceback of an uncaught exception.
            SEAMARK_CAPTURE_TRACEBACK.
        monitoring_namespace: Path to use instead of ``monitoring/<writer>``.
        fail_on_exception: False: an uncaught exception does not fail the run.
        secrets: Additional secrets, which are recorded as ``***`` in values, texts and arguments:
            names such as ``"patient_id"``, and regular expressions of values such as
            ``"acme-[0-9a-f]{32}"``; SEAMARK_SECRETS, one per line. False disables masking, like
            SEAMARK_MASK_SECRETS=0; True enables it regardless of that variable.
    """

    project: str | None
    name: str | None
    with_id: str | os.PathLike[str] | None
    custom_run_id: str | None
    mode: Literal["online", "async", "sync", "offline", "read-only", "disabled", "debug"] | None
    description: str | None
    tags: str | Iterable[str] | Mapping[str, Any] | None
    groups: str | Iterable[str] | None
    parent: Any
    root: str | os.PathLike[str] | None
    params: Mapping[str, Any] | Any
    keep: Mapping[str, Keep] | None
    config_path: str | os.PathLike[str] | None
    owner: bool | None
    start: bool | None
    ranks: Literal["zero", "all"] | None
    resume: Literal["auto", "never", "must"] | None
    on_duplicate: Literal["new", "reuse", "error"] | None
    checkpoints: Literal["reference", "keep"] | None
    remote: str | Iterable[str] | None
    conflict: Literal["new", "skip", "error", "replace"] | None
    make_project: bool | None
    api_token: str | None
    git_ref: Any
    code_version: str | Callable[[], str] | None
    source_files: str | Iterable[str] | None
    dependencies: str | os.PathLike[str] | None
    capture: Mapping[str, bool | str | None] | None
    capture_stdout: bool | Literal["fd"] | None
    capture_stderr: bool | Literal["fd"] | None
    capture_hardware_metrics: bool | None
    capture_traceback: bool | None
    monitoring_namespace: str | None
    fail_on_exception: bool | None
    secrets: bool | Iterable[str | re.Pattern[str]] | None


def accept_options(taker: T) -> T:
    """Decorate a function with ``**options`` so that signature and docstring list each one.

    Its docstring has the line ``**options: Of the run.``, which the texts replace.
    """
    function: Any = taker.__init__ if isinstance(taker, type) else taker  # type: ignore[misc]
    signature, hints = inspect.signature(function), get_type_hints(RunOptions)
    own = [
        each.replace(kind=each.POSITIONAL_OR_KEYWORD, annotation=hints[each.name])
        if each.name in hints
        else each
        for each in [*signature.parameters.values()][:-1]
    ]
    named = {each.name for each in own}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in hints.items()
        if name not in named
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])
    function.__annotations__ = {**hints, **function.__annotations__}
    texts = inspect.cleandoc(RunOptions.__doc__ or "").partition("Attributes:\n")[2]
    whole = inspect.cleandoc(taker.__doc__ or "")
    taker.__doc__ = whole.replace("    **options: Of the run.", texts)
    return taker


def check_names(options: Mapping[str, Any]) -> RunOptions:
    """Check the names of options, and drop those of Neptune that have no effect here.

    Raises:
        UnknownArgumentError: If an option does not exist; the message names the nearest one.
    """
    refuse_unknown("init_run", options, {*RunOptions.__annotations__, *WITHOUT_MEANING})
    kept = dict(options)
    for key in WITHOUT_MEANING & options.keys():
        log.debug("seamark: init_run(%s=...) has no effect in Seamark and is ignored", key)
        del kept[key]
    return cast("RunOptions", kept)


def refuse_unknown(verb: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownArgumentError` for unknown arguments, with the nearest known one."""
    unknown = []
    for key in given:
        if key in known:
            continue
        meant = ARGUMENTS.get(key)
        near = [meant] if meant in known else difflib.get_close_matches(key, sorted(known), 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if REPLACED.get(key, "").partition("=")[0] in known:
            hint = f"; write {REPLACED[key]}"
        unknown.append(f"{key!r}{hint}")
    if unknown:
        what = "an unknown argument" if len(unknown) == 1 else "unknown arguments"
        raise UnknownArgumentError(f"{verb}() got {what} {', '.join(unknown)}")
