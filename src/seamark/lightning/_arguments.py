"""Arguments of older loggers: which were renamed, and what is said about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from seamark.errors import ArgumentError, PathError
from seamark.paths import check_path
from seamark.run.options import RunOptions, check_argument, check_switch

__all__ = ["check_legacy", "check_prefix", "check_values", "of_the_run"]

_LEGACY: Final[Mapping[str, str]] = {
    "project_name": "project=...",
    "offline_mode": "mode='offline' (a run without a remote is offline anyway)",
    "experiment_name": "name=...",
    "experiment_id": "with_id=...",
    "properties": "logger.experiment['properties'] = ...",
    "upload_source_files": "source_files=[...]",
    "abort_callback": "nothing: a run is never stopped from outside",
    "logger": "seamark.integrations.python_logger.NeptuneHandler(run=logger.experiment), a handler",
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


def of_the_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments of a logger that are arguments of ``seamark.init_run``."""
    return {each.name: given[each.name] for each in dataclasses.fields(RunOptions)}


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


def check_values(*, switches: Mapping[str, Any], of_run: Mapping[str, Any]) -> None:
    """Refuse illegal values, also of arguments that this use of the logger does not need.

    Args:
        switches: What is True, False or None, by name.
        of_run: Arguments of ``init_run``, by name.

    Raises:
        ArgumentError: If a value is not legal.
    """
    for name, given in switches.items():
        check_switch(f"SeamarkLogger: {name}", given)
    for name, given in of_run.items():
        check_argument(name, given)
