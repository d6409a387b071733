"""Settings of a run: its options as they are checked, with those of files and environment."""

# ruff: noqa: RUF009 - `_option` makes a field of the dataclass

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.output.limit import Limit
from seamark.capture.secrets import Secrets, more_of
from seamark.capture.secrets.names import is_ordinary
from seamark.errors import ArgumentError, RunNotNamedError, SeamarkError, TwoNamesError
from seamark.journal.folder import is_run_id
from seamark.options.checks import (
    Check,
    Tags,
    check_dependencies,
    check_groups,
    check_limit,
    check_namespace,
    check_on_or_off,
    check_output,
    check_params,
    check_parent,
    check_place,
    check_remotes,
    check_repository,
    check_secrets,
    check_shown_name,
    check_sources,
    check_switch,
    check_text,
    check_token,
    check_version,
    given_tags,
    one_of,
    version_of,
    wrong,
)
from seamark.options.config import Config, read_config
from seamark.options.keep import check_patterns
from seamark.options.named import placed
from seamark.options.run_options import RunOptions
from seamark.paths import check_project
from seamark.process.interrupts import let_pass
from seamark.process.rank import current_rank
from seamark.reading.arriving import CONFLICTS
from seamark.values.content import is_parameter

if TYPE_CHECKING:
    import re

    from seamark.reading.arriving import Conflict
    from seamark.values import Atom
    from seamark.values.keeping import Keep

__all__ = [
    "VARIABLES",
    "Settings",
    "check_argument",
    "hidden_by_environment",
    "remotes_of",
]

log = logging.getLogger("seamark")

MODES: Final = ("online", "async", "sync", "offline", "read-only", "disabled", "debug")
_FRONTS: Final = ("SEAMARK_", "NEPTUNE_")
"""Beginnings of the names of environment variables, in the order in which they are asked."""
_SENDING: Final = frozenset({"online", "async", "sync"})
"""Modes in which a run is sent to its remotes."""
_CAPTURES: Final[Mapping[str, tuple[Check, Any]]] = {
    **dict.fromkeys(("script", "packages", "host", "git", "signals"), (check_on_or_off, True)),
    "limit": (check_limit, Limit()),
}
"""Check and default of each key of the option ``capture``."""

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


def _capture(what: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise wrong(what, "a mapping such as {'git': False}", given)
    for key in given or ():
        one_of(*_CAPTURES)(what, key)
    given = given or {}
    return {
        key: _resolve(
            "capture",
            check,
            f"CAPTURE_{key.upper()}",
            other,
            given.get(key),
            f"{what}[{key!r}]",
        )
        for key, (check, other) in _CAPTURES.items()
    }


def _secrets(what: str, given: Any) -> Any:
    """Return what else is a secret; None if nothing is hidden."""
    if isinstance(given, bool) or given is None:
        if not _resolve("secrets", check_on_or_off, "MASK_SECRETS", True, given, what):  # noqa: FBT003
            return None
        given = None
    return _resolve("secrets", check_secrets, "SECRETS", (), given, what)


def _option(
    check: Check,
    otherwise: Any = None,
    *,
    variable: str | None = None,
    shown: bool = True,
) -> Any:
    """Declare how an option is resolved.

    Args:
        check: Returns what is kept of it, or raises.
        otherwise: What is taken if neither a person nor the environment says anything.
        variable: What follows SEAMARK_ and NEPTUNE_ in the names of the environment variables that
            are asked if nothing was given.
        shown: Whether its value may be seen where the settings are.
    """
    told = {"check": check, "variable": variable, "otherwise": otherwise}
    return dataclasses.field(metadata=told, repr=shown)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked options of a run; `seamark.options.run_options.RunOptions` describes them.

    Made by `of`. Pickles without the token.
    """

    project: str = _option(
        lambda _, given: check_project(given), variable="PROJECT", otherwise="default"
    )
    name: str | None = _option(check_shown_name)
    with_id: str | None = _option(check_text)
    custom_run_id: str | None = _option(check_text)
    mode: str = _option(one_of(*MODES), variable="MODE", otherwise="online")
    description: str | None = _option(check_text)
    config_path: Config | None = _option(lambda _, given: given)
    tags: Tags = _option(given_tags)
    groups: tuple[str, ...] = _option(check_groups)
    parent: str | None = _option(check_parent)
    root: str | None = _option(check_place)
    params: Mapping[str, Atom] = _option(check_params)
    keep: dict[str, Keep] = _option(check_patterns)
    owner: bool | None = _option(check_switch)
    start: bool = _option(check_on_or_off, otherwise=True)
    ranks: str = _option(one_of("zero", "all"), "zero")
    resume: str = _option(one_of("auto", "never", "must"), "auto")
    on_duplicate: str = _option(one_of("new", "reuse", "error"), "new")
    checkpoints: str = _option(one_of("reference", "keep", None))
    remote: tuple[str, ...] = _option(check_remotes, variable="REMOTE")
    conflict: Conflict | None = _option(one_of(*CONFLICTS, None))
    make_project: bool | None = _option(check_switch)
    api_token: str | None = _option(check_token, shown=False)
    git_ref: Any = _option(check_repository)
    code_version: str | None = _option(check_version)
    source_files: Any = _option(check_sources)
    dependencies: str | None = _option(check_dependencies)
    capture: Mapping[str, Any] = _option(_capture)
    capture_stdout: bool | str = _option(check_output, otherwise=True, variable="CAPTURE_STDOUT")
    capture_stderr: bool | str = _option(check_output, otherwise=True, variable="CAPTURE_STDERR")
    capture_hardware_metrics: bool = _option(
        check_on_or_off, otherwise=True, variable="CAPTURE_HARDWARE_METRICS"
    )
    capture_traceback: bool = _option(check_on_or_off, otherwise=True, variable="CAPTURE_TRACEBACK")
    monitoring_namespace: str | None = _option(check_namespace)
    fail_on_exception: bool | None = _option(check_switch)
    secrets: tuple[str | re.Pattern[str], ...] | None = _option(_secrets)

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """Check arguments, and ask the environment for what was not given.

        Raises:
            ArgumentError: If they contradict each other or have no legal value.
            FileMissingError: If there is no file at ``config_path``.
            ValueKindError: If tags are no strings.
            PathError: If the project's path breaks the grammar.
        """
        _warn_of_unknown_variables()
        with _refusals("config_path", "config_path", given.get("config_path")):
            config = read_config("config_path", given.get("config_path"), _CHECKS)
        said = config.values if config else {}
        told = {**given, **said, "config_path": config}
        check_argument("root", told.get("root"))
        with _refusals("with_id", "with_id", told.get("with_id")):
            told = placed(told)
        if "capture" in said and isinstance(given.get("capture"), Mapping):
            told["capture"] = {**given["capture"], **said["capture"]}
        kept = {
            **_defaults(),
            **{name: check_argument(name, told.get(name)) for name in _to_check(told)},
        }
        for name in ("tags", "groups", "params") if config else ():
            if given.get(name) is not None and name in said:
                kept[name] = _over(kept[name], check_argument(name, given[name]))
        if kept["with_id"] and kept["custom_run_id"]:
            msg = "with_id and custom_run_id: expected one of them, got both"
            raise TwoNamesError(msg)
        if not kept["with_id"] and not kept["custom_run_id"]:
            found = _environment("CUSTOM_RUN_ID")
            kept["custom_run_id"] = found and found[1]
        reads_root = kept["mode"] == "read-only" and told.get("root") is not None
        if reads_root and not _is_given(told.get("remote")):
            kept["remote"] = ()  # a root that is named is read, whatever SEAMARK_REMOTE says
        if kept["checkpoints"] is None:  # a path of one machine means nothing on another
            kept["checkpoints"] = (
                "keep" if kept["remote"] and kept["mode"] in _SENDING else "reference"
            )
        is_silent = kept["ranks"] == "zero" and current_rank().rank
        asks = kept["mode"] not in ("disabled", "read-only") and not is_silent
        kept["code_version"] = version_of(kept["code_version"]) if asks else None
        options = cls(**kept)
        _expect_tokens(options.remotes, options.api_token)
        options._check_duplicates()
        if options.mode == "read-only" and not options.names_a_run:
            msg = (
                "mode='read-only': expected with_id (or custom_run_id) of an existing run, got none"
            )
            raise RunNotNamedError(msg)
        return options

    def _check_duplicates(self) -> None:
        """Refuse to look for runs that are the same where nothing is given to compare.

        Raises:
            ArgumentError: If that is so.
        """
        if self.on_duplicate == "new":
            return
        given = f"on_duplicate={self.on_duplicate!r}"
        if self.names_a_run:
            name = "with_id" if self.with_id else "custom_run_id"
            msg = f"{given}: expected no {name}, which says which run it is, got both"
            raise ArgumentError(msg)
        if not any(map(is_parameter, self.params)):
            msg = (
                f"{given}: expected params= (or a config_path= that has some), which are compared, "
                "got none"
            )
            raise ArgumentError(msg)

    @functools.cached_property
    def names_a_run(self) -> bool:
        """Whether the run was given in one way or another, and its id is not minted."""
        return bool(self.with_id or self.custom_run_id)

    @property
    def names_an_id(self) -> bool:
        """Whether the id itself was given: every process knows it then, whatever its disk holds."""
        whole = self.with_id is not None and is_run_id(self.with_id.rpartition("/")[2])
        return whole or bool(self.custom_run_id)

    @property
    def must_resume(self) -> bool:
        """Whether the run was asked to be one that exists: ``resume="must"``."""
        return self.resume == "must" and self.mode != "disabled"

    @functools.cached_property
    def remotes(self) -> tuple[str, ...]:
        """URIs of the remotes that this run is sent to; none where its mode sends nothing."""
        return self.remote if self.mode in _SENDING else ()

    @property
    def captures(self) -> dict[str, Any]:
        """Switches of the captures and the limit of the output, by name."""
        found = {
            **self.capture,
            "hardware_metrics": self.capture_hardware_metrics,
            "stderr": self.capture_stderr,
            "stdout": self.capture_stdout,
            "traceback": self.capture_traceback,
        }
        if self.git_ref is False:
            found["git"] = False
        return found

    def hidden(self) -> Secrets:
        """Return what must not be recorded."""
        token = self.api_token
        # "ANONYMOUS", "test" or "train" stand in many texts, and open nothing.
        known = (token,) if token and not is_ordinary(token) else ()
        return _hidden(self.secrets, known)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the token out, and what travels with a run as it records it: facts."""
        config = self.config_path and dataclasses.replace(self.config_path, values={})
        apart: dict[str, Any] = {"api_token": None, "params": {}, "tags": Tags(self.tags.words)}
        apart["config_path"] = config
        return {**self.__dict__, **apart}


_SEVERAL_VARIABLES: Final = {
    "capture": [f"CAPTURE_{key.upper()}" for key in _CAPTURES],
    "secrets": ["MASK_SECRETS", "SECRETS"],
}
"""Variables of each option whose check asks for several."""


def _to_check(told: Mapping[str, Any]) -> list[str]:
    """Return the options that may have another value than their default one, in their order.

    They were given by an argument, a file or the environment.
    """
    stated = {name for name, value in told.items() if value is not None}
    stated.update(map(_VARIABLES.__getitem__, _VARIABLES.keys() & os.environ.keys()))
    return [name for name in Settings.__dataclass_fields__ if name in stated]


@functools.cache
def _defaults() -> dict[str, Any]:
    """Return the default value of each option."""
    found = {
        each.name: each.metadata["check"](each.name, each.metadata["otherwise"])
        for each in dataclasses.fields(Settings)
        if each.name not in _SEVERAL_VARIABLES
    }
    captures = {key: default for key, (_, default) in _CAPTURES.items()}
    return {**found, "capture": captures, "secrets": ()}


_VARIABLES: Final = {
    front + variable: each.name
    for each in dataclasses.fields(Settings)
    for variable in _SEVERAL_VARIABLES.get(each.name, [each.metadata["variable"]])
    for front in _FRONTS
    if variable
}
"""Option of each environment variable."""


def _over(file: Any, argument: Any) -> Any:
    """Return what a file and an argument say together; where both say something, the file wins."""
    if isinstance(file, Tags):
        words = dict.fromkeys((*argument.words, *file.words))
        return Tags(tuple(words), _over(file.keyed, argument.keyed))
    if isinstance(file, tuple):
        return tuple(dict.fromkeys((*argument, *file)))
    above = set().union(*map(_levels, file))
    under = {path for path in argument if _levels(path) & file.keys()}
    return {path: argument[path] for path in argument if path not in above | under} | file


def _levels(path: str) -> set[str]:
    """Return a path and everything that it lies in."""
    return {path, *(path[:at] for at, sign in enumerate(path) if sign == "/")}


def check_argument(name: str, given: Any) -> Any:
    """Return what is kept of an option, of its variable if it was not given, or of its default.

    Raises:
        ArgumentError: If the value is not legal.
    """
    told = Settings.__dataclass_fields__[name].metadata
    return _resolve(name, told["check"], told["variable"], told["otherwise"], given)


def _check(name: str, what: str, given: Any) -> Any:
    """Return what is kept of a value of an option, which errors call ``what``."""
    with _refusals(name, what, given):
        return Settings.__dataclass_fields__[name].metadata["check"](what, given)


_CHECKS: Final = {name: functools.partial(_check, name) for name in Settings.__dataclass_fields__}


@contextlib.contextmanager
def _refusals(name: str, what: str, given: object) -> Iterator[None]:
    """Raise whatever a block raises about the value of an option as an error that names it.

    People give values that raise anything as soon as they are looked at: an array has no truth
    value, and not every object can be compared or printed.

    Raises:
        SeamarkError: Of the class that the block raised; of anything else, an `ArgumentError`.
    """
    try:
        yield
    except SeamarkError as error:
        if str(error).startswith((what, *_FRONTS)):
            raise
        msg = f"{what}: {error}"
        raise type(error)(msg) from None
    except Exception as error:
        let_pass(error)
        raise wrong(what, RunOptions.__annotations__[name].__forward_arg__, given) from error


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value)


def _resolve(
    name: str,
    check: Check,
    variable: str | None,
    otherwise: Any,
    given: Any,
    what: str | None = None,
) -> Any:
    """Return what is kept of a value, of its variable if it was not given, or of its default.

    Args:
        name: Of the option.
        check: Returns what is kept of it, or raises.
        variable: What follows SEAMARK_ and NEPTUNE_ in the names of its variables.
        otherwise: Its default.
        given: Its value; None for none.
        what: What errors call the value; None for the option's name.
    """
    what = what or name
    if not _is_given(given):
        found = _environment(variable) if variable else None
        what, given = found or (what, otherwise)
    with _refusals(name, what, given):
        return check(what, given)


def _environment(variable: str) -> tuple[str, str] | None:
    """Return name and value of SEAMARK_<variable>, or else of NEPTUNE_<variable>; None for none."""
    names = [front + variable for front in _FRONTS]
    return next(((name, os.environ[name]) for name in names if os.environ.get(name)), None)


_KNOWN: Final = [f"SEAMARK_{name}" for name in VARIABLES]
_warned_of: set[str] = set()


def _warn_of_unknown_variables() -> None:
    """Warn once of variables that are none of ours, and are named as if they were.

    Who switches something off by a wrong name believes that it is off. A name that resembles none
    may be somebody else's, unless it begins like those that switch a capture.
    """
    told = {name for name in os.environ if name.startswith("SEAMARK_")}
    for name in sorted(told.difference(_KNOWN, _warned_of)):
        is_switch = name.startswith("SEAMARK_CAPTURE_")
        _warned_of.add(name)
        front = "SEAMARK_CAPTURE_" if is_switch else "SEAMARK_"
        names = [each.removeprefix(front) for each in _KNOWN if each.startswith(front)]
        near = difflib.get_close_matches(name.removeprefix(front), names, 1, 0.6)
        if (near or is_switch) and not current_rank().rank:
            hint = f"; did you mean {front}{near[0]}?" if near else ""
            log.warning("seamark: %s does nothing: there is no such variable%s", name, hint)


def remotes_of(given: Any, mode: str, token: str | None) -> tuple[str, ...]:
    """Return the URIs of remotes that an argument or the environment names, as for a run.

    Args:
        given: The argument.
        mode: Of the project; in some nothing is sent.
        token: That is shown to them.

    Raises:
        ArgumentError: If one cannot be used.
    """
    found: tuple[str, ...] = check_argument("remote", given)
    sent = found if mode in _SENDING else ()
    _expect_tokens(sent, token)
    return sent


def _expect_tokens(remotes: tuple[str, ...], token: str | None) -> None:
    """Make sure that the remotes that need a token have one, before anything is recorded.

    Raises:
        ArgumentError: If one has none.
    """
    if remotes:
        from seamark.remote.places import check_token

        for uri in remotes:
            check_token(uri, token)


def hidden_by_environment() -> Secrets:
    """Return what must not be recorded, as the environment says.

    Raises:
        ArgumentError: If it says something else.
    """
    return _hidden(check_argument("secrets", None), ())


def _hidden(more: tuple[str | re.Pattern[str], ...] | None, known: tuple[str, ...]) -> Secrets:
    return Secrets(more is not None, known, more_of(more or ()))
