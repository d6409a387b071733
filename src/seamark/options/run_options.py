"""The options of a run: name, type and text of each, and how functions take them."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypedDict, TypeVar, cast, get_type_hints

from seamark.errors import UnknownArgumentError
from seamark.options.named import ARGUMENTS, REPLACED
from seamark.values.aggregates import Keep  # noqa: TC001 - evaluated for the signatures

__all__ = ["WITHOUT_MEANING", "RunOptions", "accept_options", "check_names", "refuse_unknown"]

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
"""Arguments of ``neptune.init_run`` that are accepted and do nothing here."""


class RunOptions(TypedDict, total=False):
    """Options of a run; None is the same as not given.

    Attributes:
        project: Path of the project, such as ``"team/mnist"``; SEAMARK_PROJECT, NEPTUNE_PROJECT or
            ``"default"``.
        name: Display name, free text; an empty one is none.
        with_id: An existing run to open: its id, its name (recorded or generated), ``"latest"``, or
            one of these behind ``PROJECT/``. Without that it is looked for in ``project`` and its
            sub-projects. The beginning of an id is enough with ``mode="read-only"``. Or its place:
            its folder, as a path or a ``file://`` URI, or ``https://server/PROJECT/NAME``.
        custom_run_id: A name under which several processes find the same run;
            SEAMARK_CUSTOM_RUN_ID.
        mode: ``"online"``, ``"async"`` and ``"sync"`` are the same; ``"offline"`` sends nothing;
            ``"read-only"`` opens with_id for reading; ``"disabled"`` does nothing; ``"debug"``
            records into a temporary root. SEAMARK_MODE.
        description: Free text.
        tags: One string or several, for ``sys/tags``; or a mapping of keys to values, which are
            kept under ``tags/``.
        groups: Names of the groups that the run is in, for ``sys/group_tags``.
        parent: The run that this one is a part of (a fold, a trial), for ``sys/parent``: the run,
            its id, or ``PROJECT/ID``.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``, see the page on
            environment variables.
        params: Hyperparameters, kept under ``parameters/``; see `Run.params`.
        keep: What is kept of fast series in place of their points, by path or pattern, such as
            ``{"gpu/*": seamark.Statistics(skip=10)}``; see `Handler.keep`.
        config_path: A YAML or JSON file that says some of what a run is given: these options but
            ``keep`` and ``api_token``, and ``inputs`` (paths and URLs, by name or in a list). What
            it says wins over arguments, and these over the environment; parameters, tags, groups
            and captures of both are taken together.
        owner: Whether this process decides the run's state. None: a process that creates a run
            does, and so does one that opens a run that was not ended and has no living owner, from
            its first number on, and one that begins a training in it. True goes on with a run that
            completed or failed; False is for scripts that only add something.
        start: False records the run in state ``"created"``, with what it is given here and later,
            but without captures and heartbeat. It is running from `Run.start` on, from
            ``with run:``, from its first point, or from a stage of a trainer.
        ranks: ``"zero"``, the default: only rank 0 records, other ranks hold a silent run.
            ``"all"``: every rank records into one run, its series under ``ranks/<rank>/`` unless it
            is rank 0; values, tags and files are those of rank 0. Every rank has to make the run or
            the logger then, with the same ``with_id`` (a whole id) or ``custom_run_id``, or once
            ``init_process_group()`` or ``hvd.init()`` has connected them.
        resume: ``"auto"``, the default: a job that its launcher restarted, or that loads a
            checkpoint, continues its run. ``"never"``: each start is a new run. ``"must"``: a run
            to resume has to exist, named by ``with_id``, ``custom_run_id``, a restart or a
            checkpoint.
        on_duplicate: What is done if the project has a run with the same parameters and the same
            code, as they are at the start: ``"new"``, the default, begins another, ``"reuse"`` goes
            on with the newest of them, ``"error"`` refuses. The latter two need ``params`` or a
            ``config_path`` with some, and look at this disk and then at the remote; if that does
            not answer within 5 s, this disk decides alone.
        checkpoints: ``"reference"`` records where checkpoints are, ``"keep"`` takes their bytes
            into the run folder; None means keep with a remote, else reference.
        remote: Where the run is sent while it is recorded: the address of a Seamark server such as
            ``"https://seamark.lab"``, another root such as ``"file:///mnt/runs"``, or several.
            SEAMARK_REMOTE, separated by commas. It is recorded on this disk in any case.
        conflict: What becomes of a new run where another one of its project has its ``name`` at a
            remote: ``"new"`` calls it ``<name>-2``, ``"skip"`` does not send it there, ``"error"``
            raises, ``"replace"`` puts the other one into the trash there. None asks nobody.
        make_project: False refuses a project that is not there at a remote; else it is made.
        api_token: For remotes; kept in memory only, never pickled, never recorded.
            SEAMARK_API_TOKEN, or what ``seamark login`` has kept.
        git_ref: A repository's path, or False to record nothing of git.
        code_version: What the code that trains is called, for ``source_code/version``; or a
            function without arguments that returns it, which is called at once. None: a hash of
            what is executed and is no installed package.
        source_files: Files, folders and patterns to store under ``source_code/files``: at most
            2,000 files and 100 MiB, taken while the training goes on, without what ``.gitignore``
            names below a folder or in a pattern. None: the script that runs; an empty list: none.
        dependencies: ``"infer"`` keeps what is installed as a requirements file, too, under
            ``source_code/requirements``; a path keeps that file there.
        capture: What else is captured, each unless it is False: ``"script"`` (the script or the
            notebook, its arguments, and a version of the code that is executed, secrets masked),
            ``"packages"`` (the versions of Python and of installed packages), ``"host"`` (where the
            process runs: hardware, system, container, cluster, notebook service, torch's build,
            host name and pid; ``sys/hostname`` and the writer's id name the host in any case),
            ``"git"`` (commit, branch, dirty state and remote, what has changed since the commit,
            and the names of untracked files), ``"signals"`` (a mark of the run when SIGTERM
            arrives). ``"limit"`` says how much output is recorded: an amount a minute, one in all,
            or both, such as ``"1MiB/min, 500MiB"``; by default ``"1MiB/min"``.
            SEAMARK_CAPTURE_SCRIPT and so on, for each that is not given.
        capture_stdout: False does not record what Python code prints; ``"fd"`` records also what C
            libraries and subprocesses write. SEAMARK_CAPTURE_STDOUT.
        capture_stderr: The same for what goes to standard error. SEAMARK_CAPTURE_STDERR.
        capture_hardware_metrics: False does not record what CPU, memory, disk, network and GPUs do.
            SEAMARK_CAPTURE_HARDWARE_METRICS.
        capture_traceback: False does not record the traceback of an uncaught exception.
            SEAMARK_CAPTURE_TRACEBACK.
        monitoring_namespace: Path to use instead of ``monitoring/<writer>``.
        fail_on_exception: False: an uncaught exception does not fail the run.
        secrets: What is a secret beside what looks like one, and recorded as ``***`` in values,
            texts and arguments: names such as ``"patient_id"``, and regular expressions of values
            such as ``"acme-[0-9a-f]{32}"``; SEAMARK_SECRETS, one a line. False hides nothing, as
            SEAMARK_MASK_SECRETS=0 does; True hides in spite of that.
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
    """Decorate a function or class with ``**options``: signature and docstring list each option.

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
    """Check the names of options, and drop Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If there is no such option; the nearest that exists is named.
    """
    refuse_unknown("init_run", options, {*RunOptions.__annotations__, *WITHOUT_MEANING})
    kept = dict(options)
    for key in WITHOUT_MEANING & options.keys():
        log.debug("seamark: init_run(%s=...) has no meaning here and is ignored", key)
        del kept[key]
    return cast("RunOptions", kept)


def refuse_unknown(verb: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownArgumentError`, which names the nearest known, for unknown arguments."""
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
        msg = f"{verb}() got {what} {', '.join(unknown)}"
        raise UnknownArgumentError(msg)
