"""Arguments of older loggers: which were renamed, and what is said about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from seamark.errors import ArgumentError, PathError
from seamark.handler import Handler
from seamark.paths import check_path
from seamark.run import Run, init_run
from seamark.settings import check_arguments

__all__ = ["check_legacy", "check_prefix", "check_run", "new_run"]

_LEGACY: Final[Mapping[str, str]] = {
    "project_name": "project=...",
    "offline_mode": "mode='offline' (a run without a remote is offline anyway)",
    "experiment_name": "name=...",
    "experiment_id": "with_id=...",
    "params": "logger.log_hyperparams(...)",
    "properties": "logger.experiment['properties'] = ...",
    "upload_source_files": "source_files=[...]",
    "abort_callback": "nothing: a run is never stopped from outside",
    "logger": "nothing: hand the Seamark logger to Trainer(logger=...)",
    "upload_stdout": "capture_stdout=...",
    "upload_stderr": "capture_stderr=...",
    "send_hardware_metrics": "capture_hardware_metrics=...",
    "run_monitoring_thread": "capture_hardware_metrics=...",
    "handle_uncaught_exceptions": "capture_traceback=...",
    "git_info": "git_ref=...",
    "hostname": "capture_host=...",
    "notebook_id": "logger.experiment['notebook/id'] = ...",
    "notebook_path": "logger.experiment['notebook/path'] = ...",
    "base_namespace": "prefix=...",
    "close_after_fit": "nothing: the run goes on until logger.experiment.stop() or the exit",
}


def check_legacy(given: Iterable[str]) -> None:
    """Refuse keywords of loggers that came before the one whose signature this is.

    Raises:
        ArgumentError: If there are any; the message says what to write instead.
    """
    if found := [name for name in given if name in _LEGACY]:
        advice = "\n".join(f"  {name}: use {_LEGACY[name]}" for name in found)
        names = ", ".join(found)
        msg = f"SeamarkLogger: expected today's keywords, got {names} of older loggers.\n{advice}"
        raise ArgumentError(msg)


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it is a legal namespace.

    Raises:
        PathError: If it breaks the grammar of paths.
    """
    try:
        return check_path(prefix)
    except PathError as error:
        msg = f"SeamarkLogger(prefix=...): {error}"
        raise PathError(msg) from None


def check_run(run: object, others: Mapping[str, Any]) -> None:
    """Check ``run=`` and that nothing else is given which only a new run could take.

    Args:
        run: What was given as ``run``.
        others: The other arguments that describe a run, by name; those that are None were not
            given.

    Raises:
        ArgumentError: If ``run`` is neither a run nor a namespace of one, or if ``others`` holds
            anything.
    """
    if run is None:
        return
    root = run.get_root_object() if isinstance(run, Handler) else run
    if not isinstance(root, Run):
        kind = f"{type(run).__module__}.{type(run).__qualname__}"
        msg = (
            "SeamarkLogger(run=...): expected the Run that seamark.init_run() returns, "
            f"or a namespace of it such as run['folds/1'], got {kind}"
        )
        raise ArgumentError(msg)
    if redundant := [name for name, value in others.items() if value is not None]:
        msg = (
            f"SeamarkLogger(run=...): {', '.join(redundant)} cannot be given with a run that "
            "exists; pass them to seamark.init_run() instead"
        )
        raise ArgumentError(msg)


def new_run(*, api_key: str | None, **given: Any) -> Run:
    """Return a run that touches no disk until something is recorded.

    Args:
        api_key: Neptune's name in loggers for what ``init_run`` calls ``api_token``.
        **given: Arguments of ``init_run``.

    Raises:
        ArgumentError: If arguments contradict each other or have no legal value.
        UnknownArgumentError: If one does not exist.
        PathError: If a name cannot be a folder.
        RunNotFoundError: If ``with_id`` names no run.
    """
    if given["ranks"] != "zero":
        msg = f"SeamarkLogger(ranks=...): expected 'zero' (rank 0 records), got {given['ranks']!r}"
        raise ArgumentError(msg)
    if api_key is not None:
        if given.get("api_token") is not None:
            msg = "SeamarkLogger: expected api_key or api_token (they are the same), got both"
            raise ArgumentError(msg)
        given["api_token"] = api_key
    known = {"project", *(init_run.__kwdefaults__ or ())}
    check_arguments({key: value for key, value in given.items() if key not in known})
    kept = {key: value for key, value in given.items() if key in known}
    return Run._create(lazy=True, **kept)  # noqa: SLF001 - what a logger needs and a script does not
