"""Settings of a run: its checked options, also from a file and the environment."""

# ruff: noqa: RUF009 - `_option` makes a field of the dataclass

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from seamark.capture.secrets import Secrets, user_rules
from seamark.capture.secrets.names import is_ordinary
from seamark.capture.switches import Limit
from seamark.errors import ArgumentError, RunNotNamedError, SeamarkError, TwoNamesError
from seamark.journal.folder import check_location, is_run_id
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
    check_patterns,
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
)
from seamark.options.config import (
    PREFIXES,
    Config,
    read_config,
    variable_of,
    warn_of_unknown_variables,
)
from seamark.options.run_options import RunOptions, placed
from seamark.paths import check_project
from seamark.process.interrupts import let_pass
from seamark.process.rank import current_rank
from seamark.reading.names import CONFLICTS, Conflict
from seamark.values import Atom
from seamark.values._numbers import argument_error
from seamark.values._parameters import is_parameter
from seamark.values.aggregates import Keep

MODES: Final = ("online", "async", "sync", "offline", "read-only", "disabled", "debug")
_SENDING: Final = frozenset({"online", "async", "sync"})
"""Modes in which a run is sent to its remotes."""
_CAPTURES: Final[Mapping[str, tuple[Check, Any]]] = {
    **dict.fromkeys(("script", "packages", "host", "git", "signals"), (check_on_or_off, True)),
    "limit": (check_limit, Limit()),
}
"""Check and default of each key of the option ``capture``."""


def _project(what: str, given: Any) -> str:  # noqa: ARG001 - as every check
    return check_project(given)


def _config(what: str, given: Any) -> Config:
    return read_config(what, given, Settings.__dataclass_fields__, _check)


def _capture_variable(key: str) -> str:
    return f"CAPTURE_{key.upper()}"


def _capture(what: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise argument_error(given, what, "a mapping such as {'git': False}")
    given = given or {}
    for key in given:
        one_of(*_CAPTURES)(what, key)
    return {
        key: _resolve(
            "capture", given.get(key), check, _capture_variable(key), default, f"{what}[{key!r}]"
        )
        for key, (check, default) in _CAPTURES.items()
    }


def _secrets(what: str, given: Any) -> Any:
    """Return additional secrets; None to hide nothing."""
    if isinstance(given, bool) or given is None:
        if not _resolve("secrets", given, check_on_or_off, "MASK_SECRETS", default=True, what=what):
            return None
        given = None
    return _resolve("secrets", given, check_secrets, "SECRETS", (), what)


def _option(check: Check, *variables: str, default: Any = None, shown: bool = True) -> Any:
    # `check` returns the value to use, or raises; it reads the variables if there are several.
    # `variables` are names without SEAMARK_ and NEPTUNE_.
    metadata = {"check": check, "variables": variables, "default": default}
    return dataclasses.field(metadata=metadata, repr=shown)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked options of a run (see `RunOptions`), created by `of`; pickled without the token."""

    project: str = _option(_project, "PROJECT", default="default")
    name: str | None = _option(check_shown_name)
    with_id: str | None = _option(check_text)
    custom_run_id: str | None = _option(check_text)
    mode: str = _option(one_of(*MODES), "MODE", default="online")
    description: str | None = _option(check_text)
    config_path: Config | None = _option(_config)
    tags: Tags = _option(given_tags, default=Tags())
    groups: tuple[str, ...] = _option(check_groups, default=())
    parent: str | None = _option(check_parent)
    root: str | None = _option(check_location)
    params: Mapping[str, Atom] = _option(check_params, default={})
    keep: dict[str, Keep] = _option(check_patterns, default={})
    owner: bool | None = _option(check_switch)
    start: bool = _option(check_on_or_off, default=True)
    ranks: str = _option(one_of("zero", "all"), default="zero")
    resume: str = _option(one_of("auto", "never", "must"), default="auto")
    on_duplicate: str = _option(one_of("new", "reuse", "error"), default="new")
    checkpoints: str = _option(one_of("reference", "keep"))
    remote: tuple[str, ...] = _option(check_remotes, "REMOTE", default=())
    conflict: Conflict | None = _option(one_of(*CONFLICTS))
    make_project: bool | None = _option(check_switch)
    api_token: str | None = _option(check_token, shown=False)
    git_ref: Any = _option(check_repository)
    code_version: str | None = _option(check_version)
    source_files: Any = _option(check_sources)
    dependencies: str | None = _option(check_dependencies)
    capture: Mapping[str, Any] = _option(
        _capture,
        *map(_capture_variable, _CAPTURES),
        default={key: default for key, (_, default) in _CAPTURES.items()},
    )
    capture_stdout: bool | str = _option(check_output, "CAPTURE_STDOUT", default=True)
    capture_stderr: bool | str = _option(check_output, "CAPTURE_STDERR", default=True)
    capture_hardware_metrics: bool = _option(
        check_on_or_off, "CAPTURE_HARDWARE_METRICS", default=True
    )
    capture_traceback: bool = _option(check_on_or_off, "CAPTURE_TRACEBACK", default=True)
    monitoring_namespace: str | None = _option(check_namespace)
    fail_on_exception: bool | None = _option(check_switch)
    secrets: tuple[str | re.Pattern[str], ...] | None = _option(
        _secrets, "MASK_SECRETS", "SECRETS", default=()
    )

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """Return settings from arguments, the configuration file and the environment."""
        warn_of_unknown_variables()
        kept = _resolve_all(given)
        if kept["checkpoints"] is None:  # a local path is meaningless on another machine
            kept["checkpoints"] = (
                "keep" if kept["remote"] and kept["mode"] in _SENDING else "reference"
            )
        is_silent = kept["ranks"] == "zero" and current_rank().rank
        asks = kept["mode"] not in ("disabled", "read-only") and not is_silent
        kept["code_version"] = version_of(kept["code_version"]) if asks else None
        options = cls(**kept)
        if options.remotes:
            _expect_tokens(options.remotes, options.api_token)
        options._expect_comparable()
        if options.mode == "read-only" and not options.names_a_run:
            raise RunNotNamedError(
                "mode='read-only': expected with_id (or custom_run_id) of an existing run, got none"
            )
        return options

    def _expect_comparable(self) -> None:
        if self.on_duplicate == "new":
            return
        given = f"on_duplicate={self.on_duplicate!r}"
        if self.names_a_run:
            name = "with_id" if self.with_id else "custom_run_id"
            raise ArgumentError(
                f"{given}: expected no {name}, which also identifies the run, got both"
            )
        if not any(map(is_parameter, self.params)):
            raise ArgumentError(
                f"{given}: expected params= (or config_path= with parameters) to compare, got none"
            )

    @functools.cached_property
    def names_a_run(self) -> bool:
        """Whether the run was named, so that no id is generated."""
        return bool(self.with_id or self.custom_run_id)

    @property
    def names_an_id(self) -> bool:
        """Whether the id itself was given, so that every process knows it."""
        whole = self.with_id is not None and is_run_id(self.with_id.rpartition("/")[2])
        return whole or bool(self.custom_run_id)

    @property
    def must_resume(self) -> bool:
        """Whether the run must exist: ``resume="must"``."""
        return self.resume == "must" and self.mode != "disabled"

    @functools.cached_property
    def remotes(self) -> tuple[str, ...]:
        """URIs of the remotes to which this run is sent; empty in modes that send nothing."""
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
        """Return the secrets that must not be recorded."""
        token = self.api_token
        # "ANONYMOUS", "test" or "train" occur in many texts and are not secret.
        known = (token,) if token and not is_ordinary(token) else ()
        return Secrets(self.secrets is not None, known, user_rules(self.secrets or ()))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the token and without values recorded in the run itself."""
        config = self.config_path and dataclasses.replace(self.config_path, values={})
        apart: dict[str, Any] = {"api_token": None, "params": {}, "tags": Tags(self.tags.words)}
        return {**self.__dict__, **apart, "config_path": config}


_DEFAULTS: Final = {each.name: each.metadata["default"] for each in dataclasses.fields(Settings)}
_VARIABLES: Final = {
    prefix + variable: each.name
    for each in dataclasses.fields(Settings)
    for variable in each.metadata["variables"]
    for prefix in PREFIXES
}
"""Option of each environment variable."""


def _resolve_all(given: Mapping[str, Any]) -> dict[str, Any]:
    file = given.get("config_path")
    config: Config | None = None if file is None else _check("config_path", "config_path", file)
    said = config.values if config else {}
    told = _place({**given, **said, "config_path": None})
    if "capture" in said and isinstance(given.get("capture"), Mapping):
        told["capture"] = {**given["capture"], **said["capture"]}
    kept = {**_DEFAULTS, "config_path": config}
    in_environment = set(map(_VARIABLES.get, _VARIABLES.keys() & os.environ.keys()))
    for name in _DEFAULTS:
        if told.get(name) is not None:
            kept[name] = _check(name, name, told[name])
        elif name in in_environment:
            kept[name] = check_argument(name, None)
    for name in {"tags", "groups", "params"} & said.keys():
        if given.get(name) is not None:
            kept[name] = _over(kept[name], check_argument(name, given[name]))
    if kept["with_id"] and kept["custom_run_id"]:
        raise TwoNamesError("with_id and custom_run_id: expected one of them, got both")
    if not kept["with_id"] and not kept["custom_run_id"]:
        found = variable_of("CUSTOM_RUN_ID")
        kept["custom_run_id"] = found and found[1]
    reads_root = kept["mode"] == "read-only" and told.get("root") is not None
    if reads_root and told.get("remote") is None:
        kept["remote"] = ()  # an explicit root takes precedence over SEAMARK_REMOTE
    return kept


def _place(told: dict[str, Any]) -> dict[str, Any]:
    """Return options with the place in ``with_id`` split up; an empty string means none."""
    for name, value in told.items():
        if isinstance(value, str) and not value:
            told[name] = None
    if told.get("root") is not None:
        check_argument("root", told["root"])
    if told.get("with_id") is not None:
        told = _check("with_id", "with_id", told["with_id"], lambda *_: placed(told))
    return told


def _over(file: Any, argument: Any) -> Any:
    """Merge a value of the file with that of the argument; the file wins."""
    if isinstance(file, Tags):
        words = dict.fromkeys((*argument.words, *file.words))
        return Tags(tuple(words), _over(file.keyed, argument.keyed))
    if isinstance(file, tuple):
        return tuple(dict.fromkeys((*argument, *file)))
    above = set().union(*map(_path_and_parents, file))
    below = {path for path in argument if _path_and_parents(path) & file.keys()}
    return {path: argument[path] for path in argument if path not in above | below} | file


def _path_and_parents(path: str) -> set[str]:
    return {path, *(path[:at] for at, sign in enumerate(path) if sign == "/")}


def check_argument(name: str, given: Any) -> Any:
    """Return the checked value of an option, or that of its variable, or its default."""
    option = Settings.__dataclass_fields__[name].metadata
    variables = option["variables"]
    if len(variables) > 1:
        return _check(name, name, None if isinstance(given, str) and not given else given)
    variable = variables[0] if variables else None
    return _resolve(name, given, option["check"], variable, option["default"])


def _resolve(
    name: str,
    given: Any,
    check: Check,
    variable: str | None,
    default: Any,
    what: str | None = None,
) -> Any:
    if given is None or (isinstance(given, str) and not given):
        found = variable_of(variable) if variable else None
        if found is None:
            return default
        what, given = found
    return _check(name, what or name, given, check)


def _check(name: str, what: str, given: Any, check: Check | None = None) -> Any:
    # Values may raise anything when they are inspected: an array has no truth value, and some
    # objects cannot be compared or printed.
    check = check or Settings.__dataclass_fields__[name].metadata["check"]
    try:
        return check(what, given)
    except SeamarkError as error:
        if str(error).startswith((what, *PREFIXES)):
            raise
        raise type(error)(f"{what}: {error}") from None
    except Exception as error:
        let_pass(error)
        raise argument_error(
            given, what, RunOptions.__annotations__[name].__forward_arg__
        ) from error


def remotes_of(given: Any, mode: str, token: str | None) -> tuple[str, ...]:
    """Return the remotes from an argument or the environment, as for a run."""
    found: tuple[str, ...] = check_argument("remote", given)
    sent = found if mode in _SENDING else ()
    _expect_tokens(sent, token)
    return sent


def _expect_tokens(remotes: tuple[str, ...], token: str | None) -> None:
    from seamark.remote.schemes import check_token

    for uri in remotes:
        check_token(uri, token)


def hidden_by_environment() -> Secrets:
    """Return the secrets named by the environment."""
    more = check_argument("secrets", None)
    return Secrets(more is not None, (), user_rules(more or ()))
