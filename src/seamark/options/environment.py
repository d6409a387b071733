"""Environment variables: what each does, and how they are read."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping
from typing import Final

from seamark.process.rank import current_rank

__all__ = ["PREFIXES", "VARIABLES", "variable_of", "warn_of_unknown_variables"]

log = logging.getLogger("seamark")

PREFIXES: Final = ("SEAMARK_", "NEPTUNE_")
"""Prefixes of the names of variables, in the order in which they are asked."""

VARIABLES: Final[Mapping[str, tuple[str, str]]] = {
    "DIR": (
        "the root: the folder of all runs",
        "the nearest `.seamark`, see below",
    ),
    "ARTIFACT_DIR": (
        (
            "the root of [artifacts](../howto/artifacts.md#where-they-lie): a folder of their "
            "own, such as one on a larger disk"
        ),
        "they lie in the root of the runs",
    ),
    "PROJECT": (
        "project of new runs",
        "`NEPTUNE_PROJECT`, else `default`",
    ),
    "MODE": (
        (
            "mode of new runs: `online`, `async`, `sync` (all three the same), `offline`, "
            "`read-only`, `disabled` or `debug`"
        ),
        "`NEPTUNE_MODE`, else `online`",
    ),
    "CUSTOM_RUN_ID": (
        "a name under which several processes find the same run",
        "`NEPTUNE_CUSTOM_RUN_ID`, else a new run",
    ),
    "MASK_SECRETS": (
        (
            "`0`: nothing that looks like a secret is hidden in what is recorded "
            "([secrets](../howto/secrets.md))"
        ),
        "`1`",
    ),
    "CAPTURE_STDOUT": (
        "`0`: what is printed is not recorded; `fd`: also what C libraries and subprocesses write",
        "`1`",
    ),
    "CAPTURE_STDERR": (
        "the same for standard error",
        "`1`",
    ),
    "CAPTURE_LIMIT": (
        (
            "how much output of a stream is recorded: an amount a minute, one in all, or both, "
            "such as `1MiB/min, 500MiB`"
        ),
        "`1MiB/min`",
    ),
    "CAPTURE_HARDWARE_METRICS": (
        (
            "`0`: what CPU, memory, disk, network and GPUs do is not recorded "
            "([hardware](../howto/hardware.md))"
        ),
        "`1`",
    ),
    "CAPTURE_TRACEBACK": (
        "`0`: the traceback of an uncaught exception is not recorded",
        "`1`",
    ),
    "CAPTURE_SCRIPT": (
        "`0`: the script and its arguments are not recorded",
        "`1`",
    ),
    "CAPTURE_PACKAGES": (
        "`0`: the versions of Python and of installed packages are not recorded",
        "`1`",
    ),
    "CAPTURE_HOST": (
        (
            "`0`: what the process runs on (hardware, system, container, cluster, torch's build) "
            "is not recorded ([the host's name](../howto/hardware.md) is)"
        ),
        "`1`",
    ),
    "CAPTURE_GIT": (
        "`0`: nothing of git is recorded",
        "`1`",
    ),
    "CAPTURE_SIGNALS": (
        "`0`: SIGTERM does not mark the run",
        "`1`",
    ),
    "SECRETS": (
        "what else is a secret: names and regular expressions, one per line",
        "none",
    ),
    "API_TOKEN": (
        (
            "the token that is shown to servers ([a team's server](../howto/server.md)); a remote "
            "`neptune://...` takes `NEPTUNE_API_TOKEN`"
        ),
        "what `seamark login` has kept for that server",
    ),
    "REMOTE": (
        (
            "where new runs are sent while they are recorded: addresses, separated by commas "
            "([remotes](../howto/remotes.md)). The command, `init_project` and runs opened with "
            '`mode="read-only"` read from the first that can be read, so not from `neptune://`, '
            "unless a root is named"
        ),
        "nothing is sent",
    ),
    "INDEX": (
        "where the index cache is",
        "`$XDG_CACHE_HOME/seamark`, else `~/.cache/seamark`",
    ),
    "QUIET": (
        (
            "`1`: a run does not print where it is recorded and how it ended, and the command "
            "shows no hints, notes and progress bars; warnings, errors and reports of lost "
            "records are still shown"
        ),
        "`0`",
    ),
    "TRACEBACK": (
        "any value: the command raises an unexpected error instead of printing it in one line",
        "one line on standard error",
    ),
}
"""By what follows ``SEAMARK_`` in its name: what each environment variable does, and what holds
without it. Markdown, for the reference."""


_warned_of: set[str] = set()


def variable_of(name: str) -> tuple[str, str] | None:
    """Return full name and value of SEAMARK_<name>, or else of NEPTUNE_<name>; None for neither."""
    for prefix in PREFIXES:
        if value := os.environ.get(prefix + name):
            return prefix + name, value
    return None


def warn_of_unknown_variables() -> None:
    """Warn once of each variable that is not ours but is named as if it were.

    People who misspell a switch believe that it is off. A name that resembles none of ours may be
    somebody else's, unless it begins like those that switch a capture.
    """
    for name in os.environ:
        if name.startswith("SEAMARK_") and name[8:] not in VARIABLES and name not in _warned_of:
            _warn_of(name)


def _warn_of(name: str) -> None:
    _warned_of.add(name)
    is_switch = name.startswith("SEAMARK_CAPTURE_")
    known = [one for one in VARIABLES if one.startswith("CAPTURE_") or not is_switch]
    prefix = "CAPTURE_" if is_switch else ""
    near = difflib.get_close_matches(
        name.removeprefix(f"SEAMARK_{prefix}"), [one.removeprefix(prefix) for one in known], 1, 0.6
    )
    if (near or is_switch) and not current_rank().rank:
        hint = f"; did you mean SEAMARK_{prefix}{near[0]}?" if near else ""
        log.warning("seamark: %s does nothing: there is no such variable%s", name, hint)
