"""Options from configuration files and environment variables."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from seamark.blobs.names import local_path
from seamark.errors import ArgumentError, FileMissingError, PathError, SeamarkError
from seamark.options.checks import Check, naming, strings
from seamark.options.run_options import ARGUMENTS, REPLACED
from seamark.paths import check_path
from seamark.process.rank import current_rank
from seamark.reading.contents import ArtifactName
from seamark.reading.text import hint_for
from seamark.values._numbers import argument_error

log = logging.getLogger("seamark")
_OLD: Final = {
    name: ARGUMENTS[name]
    for name in ("labels", "hparams", "folder", "make_folder", "conflict_strategy")
}
"""Options, by their names in t9k.em."""
_NOT_IN_FILES: Final = {
    "api_token": "a token must not be in a file for others: store it with `seamark login`, or "
    "in SEAMARK_API_TOKEN",
    "auto_upload": "use remote: with an address, such as https://seamark.lab",
    "config_path": "a file cannot name another one",
    "keep": "its values are objects, such as seamark.Last(): pass it as an argument",
}
"""Reasons why keys are refused in files."""
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)|"
    r"[-+]?(?:[0-9][0-9_]*)?\.[0-9_]+|[-+]?[0-9][0-9_]*\.|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""Pattern of a YAML 1.2 float: PyYAML follows YAML 1.1, in which ``1e-3`` is a string."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Checked content of a configuration file; ``inputs`` are paths and URLs by name."""

    path: str
    values: Mapping[str, Any]
    inputs: Mapping[str, str]


def read_config(
    what: str, given: Any, options: Iterable[str], check: Callable[[str, str, Any], object]
) -> Config:
    """Read a file and check it with ``check(option, key, value)``; errors name file and key."""
    if isinstance(given, Mapping):
        raise ArgumentError(
            f"{what}: expected the path of a YAML file, got a mapping: pass it as params="
        )
    if not isinstance(given, (str, os.PathLike)):
        raise argument_error(given, what, "the path of a YAML file")
    path = Path(os.path.abspath(os.path.expanduser(given)))  # noqa: PTH100, PTH111 - keep links
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise FileMissingError(f"{what}: there is no file {os.fspath(given)!r:.300}") from error
    except OSError as error:
        raise ArgumentError(
            f"{what}: {os.fspath(given)!r:.300} cannot be read: {error.strerror}"
        ) from error
    checks: dict[str, Check] = {
        name: functools.partial(check, name) for name in options if name not in _NOT_IN_FILES
    }
    try:
        return _config_of(str(path), _load(data), checks | {"inputs": _check_inputs})
    except SeamarkError as error:
        raise ArgumentError(f"{what}: {os.fspath(given)}: {error}") from None


def _load(data: bytes) -> Any:
    """Return the content of a YAML file, with numbers according to YAML 1.2."""
    yaml: Any = import_module("yaml")  # imported only if there is such a file

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:float"]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as PyYAML has it
            """Refuse duplicate keys, of which PyYAML silently drops the first."""
            known: set[str] = set()
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else "<<"
                if name in known:
                    raise yaml.constructor.ConstructorError(
                        problem=f"expected each key once, got {name!r:.80} again",
                        problem_mark=key.start_mark,
                    )
                known |= {name} - {"<<"}
            return super().construct_mapping(node, deep=True)

    whole = re.compile(f"(?:{_FLOAT.pattern})$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", whole, list("-+0123456789."))
    try:
        return yaml.load(data, Loader)
    except yaml.MarkedYAMLError as error:  # without the line, which may contain a secret
        mark = error.problem_mark or error.context_mark
        at = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        raise ArgumentError(f"{error.problem or error.context}{at}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ArgumentError(str(error).split("\n", 1)[0]) from None


def _config_of(path: str, content: Any, checks: Mapping[str, Check]) -> Config:
    if not isinstance(content, Mapping | None):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise ArgumentError(f"expected keys and values, got {kind}")
    values: dict[str, Any] = {}
    called: dict[str, str] = {}
    for given, value in (content or {}).items():
        name: Any = _OLD.get(given, given)
        if name not in checks:
            raise ArgumentError(_unknown(str(given), checks))
        if name in called:
            other = called[name] if given == name else given
            raise ArgumentError(f"expected one of {name!r} and {other!r}, got both")
        called[name] = given
        if given == "folder" and isinstance(value, str):
            value = value.strip("/")  # noqa: PLW2901 - with which folders of t9k.em begin
        if value is not None:
            kept = _checked(checks[name], given, value)
            values[name] = kept if name == "inputs" else value
    if old := [f"{name!r} for {given!r}" for name, given in called.items() if name != given]:
        log.warning("seamark: %s: the names in Seamark are %s", path, ", ".join(old))
    return Config(path, values, values.pop("inputs", {}))


def _checked(check: Check, key: str, value: Any) -> Any:
    try:
        return check(key, value)
    except SeamarkError as error:
        is_word = isinstance(value, (int, float)) and "expected a string" in str(error)
        hint = " (in quotes it is a text)" if is_word else ""
        raise ArgumentError(f"{error}{hint}") from None


def _unknown(given: str, checks: Mapping[str, Check]) -> str:
    if why := _NOT_IN_FILES.get(given):
        return f"{given!r} cannot be given here: {why}"
    if given in REPLACED:
        return f"{given!r} is no argument; write {REPLACED[given].replace('=', ': ')}"
    meant = ARGUMENTS.get(given)
    near = hint_for(given, [*checks, *_OLD])
    tail = f"; did you mean {meant!r}?" if meant in checks else near
    return f"expected 'inputs' or an argument of init_run, got {given!r:.80}{tail}"


def _check_inputs(what: str, given: Any) -> dict[str, str]:
    is_named = isinstance(given, Mapping)
    pairs = given.items() if is_named else [(_name_of(one), one) for one in strings(given, what)]
    found: dict[str, str] = {}
    for name, target in pairs:
        if not isinstance(target, str):
            raise argument_error(target, what, "a path or a URL")
        with naming(what, PathError):
            check_path(name)
        if name in found:
            raise ArgumentError(f"{what}: expected different names, got {name!r:.80} twice")
        here = None if _version_of(target) else local_path(target)
        if here is not None and not os.path.exists(here):  # noqa: PTH110 - a text
            raise argument_error(
                target, what, "an existing file or folder, a URL or an artifact's NAME:VERSION"
            )
        found[name] = target
    return found


def _name_of(target: str) -> str:
    version = _version_of(target)
    return target.rstrip("/").rpartition("/")[2] if version is None else version.name


def _version_of(target: str) -> ArtifactName | None:
    found = ArtifactName.of(target)
    return found if found is not None and found.has_version else None


PREFIXES: Final = ("SEAMARK_", "NEPTUNE_")
"""Prefixes of environment variables, in order of precedence."""
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
            "`0`: values that look like secrets are recorded unmasked "
            "([secrets](../howto/secrets.md))"
        ),
        "`1`",
    ),
    "CAPTURE_STDOUT": (
        "`0`: printed output is not recorded; `fd`: includes output of libraries and subprocesses",
        "`1`",
    ),
    "CAPTURE_STDERR": (
        "the same for standard error",
        "`1`",
    ),
    "CAPTURE_LIMIT": (
        (
            "limit of recorded output of a stream: an amount per minute, in total, or both, "
            "such as `1MiB/min, 500MiB`"
        ),
        "`1MiB/min`",
    ),
    "CAPTURE_HARDWARE_METRICS": (
        (
            "`0`: the load of CPU, memory, disk, network and GPUs is not recorded "
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
            "`0`: facts about the host (hardware, system, container, cluster, torch's build) "
            "are not recorded, except [its name](../howto/hardware.md)"
        ),
        "`1`",
    ),
    "CAPTURE_GIT": (
        "`0`: facts about the git repository are not recorded",
        "`1`",
    ),
    "CAPTURE_SIGNALS": (
        "`0`: SIGTERM does not mark the run",
        "`1`",
    ),
    "SECRETS": (
        "additional secrets: names and regular expressions, one per line",
        "none",
    ),
    "API_TOKEN": (
        (
            "the token for servers ([a team's server](../howto/server.md)); a remote "
            "`neptune://...` uses `NEPTUNE_API_TOKEN`"
        ),
        "the token stored by `seamark login` for that server",
    ),
    "REMOTE": (
        (
            "destinations of new runs while they are recorded: addresses, separated by commas "
            "([remotes](../howto/remotes.md)). The command, `init_project` and runs opened with "
            '`mode="read-only"` read from the first readable one, so not from `neptune://`, '
            "unless a root is named"
        ),
        "nothing is sent",
    ),
    "INDEX": (
        "location of the index cache",
        "`$XDG_CACHE_HOME/seamark`, else `~/.cache/seamark`",
    ),
    "QUIET": (
        (
            "`1`: a run does not print its location and its end, and the command "
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
"""Environment variables, without ``SEAMARK_``: effect and default. Markdown for the reference."""
_warned_of: set[str] = set()


def variable_of(name: str) -> tuple[str, str] | None:
    """Return full name and value of SEAMARK_<name> or else NEPTUNE_<name>, or None."""
    for prefix in PREFIXES:
        if value := os.environ.get(prefix + name):
            return prefix + name, value
    return None


def warn_of_unknown_variables() -> None:
    """Warn once about each unknown variable whose name resembles a known one.

    A misspelled switch would have no effect. Other unknown names may belong to other programs,
    unless they start like the switches of captures.
    """
    known = {f"SEAMARK_{one}" for one in VARIABLES}
    for name in {one for one in os.environ if one.startswith("SEAMARK_")} - known - _warned_of:
        _warned_of.add(name)
        prefix = "SEAMARK_CAPTURE_" if name.startswith("SEAMARK_CAPTURE_") else "SEAMARK_"
        tails = [one.removeprefix(prefix) for one in known if one.startswith(prefix)]
        near = difflib.get_close_matches(name.removeprefix(prefix), tails, 1, 0.6)
        if (near or prefix != "SEAMARK_") and not current_rank().rank:
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            log.warning("seamark: %s has no effect: there is no such variable%s", name, hint)
