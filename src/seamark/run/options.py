"""The arguments of a run: each once, with its default, its variables and its check."""

# ruff: noqa: RUF009 - `_argument` makes a field of the dataclass

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from seamark.capture.output.limit import Limit
from seamark.capture.secrets import Secrets, more_of
from seamark.capture.secrets.names import is_ordinary
from seamark.capture.switches import is_switched_off
from seamark.errors import (
    ArgumentError,
    PathError,
    RunNotNamedError,
    SeamarkError,
    TwoNamesError,
    UnknownArgumentError,
    ValueKindError,
)
from seamark.journal.folder import is_run_id
from seamark.paths import MAX_PATH_BYTES, check_name, check_path, check_project, is_inside
from seamark.process.rank import current_rank
from seamark.reading.arriving import check_conflict
from seamark.run.browsing import Browsable
from seamark.run.config import Config, read_config
from seamark.run.foreign import ARGUMENTS
from seamark.run.keep import check_patterns
from seamark.run.named import placed
from seamark.values import encode_atom, parameters
from seamark.values.content import is_parameter

if TYPE_CHECKING:
    import re

    from seamark.reading.arriving import Conflict
    from seamark.values import Atom
    from seamark.values.keeping import Keep

__all__ = [
    "PARAMETERS",
    "TAGS",
    "RunOptions",
    "Tags",
    "check_argument",
    "check_arguments",
    "check_switch",
    "given_tags",
    "hidden_by_environment",
    "keyed_tags",
    "known_variables",
    "names_arguments",
    "project_and_mode",
    "refuse_unknown",
    "remotes_of",
    "strings",
]

log = logging.getLogger("seamark")

P = ParamSpec("P")
R = TypeVar("R")

MODES: Final = ("online", "async", "sync", "offline", "read-only", "disabled", "debug")
_SENDING: Final = frozenset({"online", "async", "sync"})
"""Modes in which a run is sent to its remotes."""
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
_CAPTURES: Final = (
    "git",
    "hardware_metrics",
    "host",
    "packages",
    "script",
    "signals",
    "stderr",
    "stdout",
    "traceback",
)

_OTHER_VARIABLES: Final = (
    *("API_TOKEN", "ARTIFACT_DIR", "CUSTOM_RUN_ID", "DIR", "INDEX", "QUIET", "TRACEBACK"),
)
"""What follows SEAMARK_ in the names of variables that stand for no argument declared here."""
PARAMETERS: Final = "parameters"
"""Where hyperparameters are kept."""
TAGS: Final = "tags"
"""Where tags are kept that have a key."""
_RESERVED: Final = ("sys", "source_code")
"""Namespaces that belong to the run, and not to one of its processes."""
_LONGEST_BELOW: Final = 100
"""Bytes that the longest path has that is captured below a namespace, with room for more."""

_LONGEST_VERSION: Final = 1000
"""Characters that a version of the code may have."""

_ON_OR_OFF: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}

Check = Callable[[str, Any], Any]
"""Takes an argument's name and what was given, and returns what is kept of it."""


# --------------------------------------------------------------------- checks


def strings(values: Any, where: str) -> list[str]:
    """Return one string or several as a list.

    Raises:
        ValueKindError: If one of them is not a string.
    """
    several = isinstance(values, Iterable) and not isinstance(values, (str, Browsable))
    found = list(values) if several else [values]
    for value in found:
        if not isinstance(value, str):
            msg = (
                f"{where}: expected a string or several of them, "
                f"got {type(value).__name__}: {value!r:.80}"
            )
            raise ValueKindError(msg)
    return found


def _one_of(*allowed: str | None) -> Check:
    def check(what: str, given: object) -> object:
        if given in allowed:
            return given
        words = [each for each in allowed if each is not None]
        near = difflib.get_close_matches(str(given), words, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        msg = f"{what}: expected one of {', '.join(map(repr, words))}, got {given!r}{hint}"
        raise ArgumentError(msg)

    return check


def _text(what: str, given: object) -> object:
    if given is not None and not isinstance(given, str):
        msg = f"{what}: expected a string or None, got {type(given).__name__}"
        raise ArgumentError(msg)
    return given


def _name(what: str, given: Any) -> str | None:
    """Take an empty name, as of a variable that was not set, for none."""
    _text(what, given)
    return given if given and given.strip(" ") else None


def _switch(what: str, given: object) -> object:
    if given is not None and not isinstance(given, bool):
        msg = f"{what}: expected True, False or None, got {given!r:.80}"
        raise ArgumentError(msg)
    return given


def _on_or_off(what: str, given: object) -> object:
    word = given.strip().lower() if isinstance(given, str) else None
    if word in _ON_OR_OFF:
        return _ON_OR_OFF[word]
    if not isinstance(given, bool):
        expected = "1 or 0" if _is_variable(what) else "True or False"
        msg = f"{what}: expected {expected}, got {given!r:.80}"
        raise ArgumentError(msg)
    return given


def _is_variable(what: str) -> bool:
    """Return whether this is the name of an environment variable, and not of an argument."""
    return what.isupper()


def _output(what: str, given: object) -> object:
    word = given.strip().lower() if isinstance(given, str) else given
    if word != "fd" and not isinstance(word, bool) and word not in _ON_OR_OFF:
        expected = "1, 0 or fd" if _is_variable(what) else "True, False or 'fd'"
        msg = f"{what}: expected {expected}, got {given!r:.80}"
        raise ArgumentError(msg)
    return word if word == "fd" else _on_or_off(what, word)


def _limit(what: str, given: object) -> Limit:
    try:
        return Limit.of(given)
    except (TypeError, ValueError) as error:
        msg = f"{what}: {error}"
        raise ArgumentError(msg) from None


def _namespace(what: str, given: Any) -> str | None:
    _text(what, given)
    path = str(given or "").strip("/")
    if not path:
        return None
    try:
        check_path(path)
    except PathError as error:
        msg = f"{what}: {str(error).removeprefix('path: ')}"
        raise ArgumentError(msg) from None
    if reserved := next((each for each in _RESERVED if is_inside(path, each)), None):
        msg = (
            f"{what}: expected a path for what is captured of a process, got {given!r:.200}: "
            f"{reserved!r} belongs to the run"
        )
        raise ArgumentError(msg)
    if (size := len(path.encode())) > MAX_PATH_BYTES - _LONGEST_BELOW:
        most = MAX_PATH_BYTES - _LONGEST_BELOW
        msg = f"{what}: expected at most {most} bytes of UTF-8, got {size} in {path[:60]!r}..."
        raise ArgumentError(msg)
    return path


def _place(what: str, given: object) -> object:
    if given is not None and not isinstance(given, (str, os.PathLike)):
        msg = f"{what}: expected a path or None, got {type(given).__name__}: {given!r:.80}"
        raise ArgumentError(msg)
    return given


def _secrets(what: str, given: Any) -> tuple[str | re.Pattern[str], ...]:
    # A variable holds several on lines of their own: a regular expression may hold spaces.
    entries = given.splitlines() if isinstance(given, str) else given
    try:
        found = tuple(e.strip() if isinstance(e, str) else e for e in entries or ())
        more_of(found)
    except (TypeError, ValueError) as error:
        msg = f"{what}: {error}"
        raise ArgumentError(msg) from None
    return found


def _remotes(what: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    from seamark.remote.places import canonical  # for those who name one

    several = given.split(",") if isinstance(given, str) else strings(given, what)
    found = []
    for uri in several:
        if not uri.strip():
            continue
        try:
            found.append(canonical(uri.strip()))
        except ArgumentError as error:
            msg = f"{what}: {str(error).removeprefix('remote: ')}"
            raise ArgumentError(msg) from None
    return tuple(dict.fromkeys(found))


def _conflict(what: str, given: Any) -> Conflict | None:
    return None if given is None else check_conflict(given, what)


def _project(_: str, given: Any) -> str:
    return check_project(given)


@dataclass(frozen=True)
class Tags:
    """Tags as they are given: words, or values by key.

    Attributes:
        words: Of ``sys/tags``.
        keyed: Encoded values by path, below ``tags/``.
    """

    words: tuple[str, ...] = ()
    keyed: Mapping[str, Atom] = dataclasses.field(default_factory=dict)


def given_tags(what: str, given: Any) -> Tags:
    """Return tags as they were given: words, or a mapping of keyed ones.

    Raises:
        ArgumentError: If they are neither.
        PathError: If a key cannot be one.
        ValueKindError: If a value cannot be kept.
    """
    if not given:
        return Tags()
    if not isinstance(given, Mapping):
        return Tags(tuple(strings(given, what)))
    return Tags(keyed=keyed_tags(what, given))


def keyed_tags(what: str, given: Mapping[Any, Any]) -> dict[str, Atom]:
    """Return keyed tags as encoded values by path, below ``tags/``.

    Args:
        what: How messages call the argument.
        given: Single values by key; a key has one or more parts, joined by ``/``.

    Raises:
        PathError: If a key is none.
        ValueKindError: If a value is none that can be kept alone.
    """
    found: dict[str, Atom] = {}
    for key, value in given.items():
        try:
            path = check_path(f"{TAGS}/{check_path(key)}")
        except PathError as error:
            msg = f"{what}: {str(error).removeprefix('path: ')}"
            raise PathError(msg) from None
        try:
            found[path] = encode_atom(value)
        except ValueKindError as error:
            msg = f"{what}: {key!r:.80}: {str(error).removeprefix('value: ')}"
            raise ValueKindError(msg) from None
    return found


def _groups(what: str, given: Any) -> tuple[str, ...]:
    if not given:
        return ()
    return tuple(check_name(name, f"{what}: group") for name in strings(given, what))


def _parent(what: str, given: Any) -> str | None:
    """Return project and id of a run, or the id alone as it was given."""
    folder = getattr(given, "folder", None)
    if folder is not None and getattr(folder, "kind", None) == "run":
        return f"{folder.project}/{folder.run}"
    if given is None or (isinstance(given, str) and given):
        project, _, run = (given or "").rpartition("/")
        if given:
            check_name(run, what)
        if project:
            check_project(project)
        return given
    msg = f"{what}: expected a run, its id or PROJECT/ID, got {type(given).__name__}: {given!r:.80}"
    raise ArgumentError(msg)


def _params(what: str, given: Any) -> dict[str, Atom]:
    if isinstance(given, str | bytes | int | float | list | tuple | set | frozenset):
        msg = (
            f"{what}: expected a mapping, a Namespace, a dataclass or None, got "
            f"{type(given).__name__}: {given!r:.80}"
        )
        raise ArgumentError(msg)
    # Encoded at once, so that it does not matter what becomes of them, and whether they pickle.
    return {} if given is None else parameters(given, PARAMETERS)


def _sources(what: str, given: Any) -> Any:
    if given is None or isinstance(given, (str, os.PathLike)):
        return given
    is_list = isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping, Browsable))
    found = list(given) if is_list else [given]
    for each in found:
        if not is_list or not isinstance(each, (str, os.PathLike)):
            msg = (
                f"{what}: expected a path, a list of paths or None, "
                f"got {type(each).__name__}: {each!r:.80}"
            )
            raise ArgumentError(msg)
    return found


def _repository(what: str, given: Any) -> Any:
    # Neptune's GitRef has a path; its GitRef.DISABLED is known by the name of its type.
    is_path = given is None or isinstance(given, (bool, str, os.PathLike))
    if is_path or hasattr(given, "repository_path") or is_switched_off(given):
        return given
    msg = (
        f"{what}: expected a path, True, False, None or Neptune's GitRef, "
        f"got {type(given).__name__}: {given!r:.80}"
    )
    raise ArgumentError(msg)


def _version(what: str, given: Any) -> Any:
    if given is None or callable(given):
        return given
    if not isinstance(given, str) or not 0 < len(given.strip()) <= _LONGEST_VERSION:
        msg = (
            f"{what}: expected a text of 1 to {_LONGEST_VERSION:,} characters, a function without "
            f"arguments that returns one, or None, got {type(given).__name__}: {given!r:.80}"
        )
        raise ArgumentError(msg)
    return given


def _version_of(given: Any) -> str | None:
    """Return the version of the code, which a person's own function may tell."""
    if not callable(given):
        return given  # type: ignore[no-any-return]  # a checked text or None
    try:
        found = given()
    except Exception as error:
        msg = f"code_version: the function raised {type(error).__name__}: {error!s:.200}"
        raise ArgumentError(msg) from error
    if found is None or callable(found):
        msg = f"code_version: expected a function that returns a text, it returned {found!r:.80}"
        raise ArgumentError(msg)
    return _version("code_version", found)  # type: ignore[no-any-return]  # a text by now


def _config(what: str, given: Any) -> Config | None:
    if isinstance(given, Config):
        return given
    checks = {each.name: each.metadata["check"] for each in dataclasses.fields(RunOptions)}
    return read_config(what, given, checks)


def _dependencies(what: str, given: Any) -> str | None:
    if given is None or given == "infer":
        return None if given is None else "infer"
    if not isinstance(given, (str, os.PathLike)):
        msg = f"{what}: expected 'infer', a path or None, got {type(given).__name__}: {given!r:.80}"
        raise ArgumentError(msg)
    file = os.path.abspath(os.path.expanduser(given))  # noqa: PTH100, PTH111 - keep links
    if not os.path.isfile(file):  # noqa: PTH113
        msg = f"{what}: expected 'infer' or an existing requirements file, got {given!r:.200}"
        raise ArgumentError(msg)
    return file


# --------------------------------------------------------------------- the arguments


def _argument(
    check: Check,
    default: Any = None,
    *,
    variable: str | None = None,
    otherwise: Any = None,
    shown: bool = True,
) -> Any:
    """Declare an argument.

    Args:
        check: Returns what is kept of it, or raises.
        default: Of ``init_run``.
        variable: What follows SEAMARK_ and NEPTUNE_ in the names of the environment variables that
            are asked if nothing was given.
        otherwise: What None stands for if they say nothing either.
        shown: Whether its value may be seen where the options are.
    """
    told = {"check": check, "variable": variable, "otherwise": otherwise}
    return dataclasses.field(default=default, metadata=told, repr=shown)


def _capture(name: str, check: Check = _on_or_off) -> Any:
    """Declare the switch of a capture, which is on unless somebody turns it off."""
    return _argument(check, variable=f"CAPTURE_{name}", otherwise=True)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Checked arguments of `seamark.init_run`, whose docstring describes them.

    Made by `of`. Pickles without the token.
    """

    project: str = _argument(_project, variable="PROJECT", otherwise="default")
    name: str | None = _argument(_name)
    with_id: str | None = _argument(_text)
    custom_run_id: str | None = _argument(_text)
    mode: str = _argument(_one_of(*MODES), variable="MODE", otherwise="online")
    description: str | None = _argument(_text)
    config_path: Config | None = _argument(_config)
    tags: Tags = _argument(given_tags)
    groups: tuple[str, ...] = _argument(_groups)
    parent: str | None = _argument(_parent)
    root: str | os.PathLike[str] | None = _argument(_place)
    params: Mapping[str, Atom] = _argument(_params)
    keep: dict[str, Keep] = _argument(check_patterns)
    owner: bool | None = _argument(_switch)
    start: bool = _argument(_on_or_off, otherwise=True)
    ranks: str = _argument(_one_of("zero", "all"), "zero")
    resume: str = _argument(_one_of("auto", "never", "must"), "auto")
    on_duplicate: str = _argument(_one_of("new", "reuse", "error"), "new")
    checkpoints: str = _argument(_one_of("reference", "keep", None))
    remote: tuple[str, ...] = _argument(_remotes, variable="REMOTE")
    conflict: Conflict | None = _argument(_conflict)
    make_project: bool | None = _argument(_switch)
    api_token: str | None = _argument(_text, shown=False)
    git_ref: Any = _argument(_repository)
    code_version: str | None = _argument(_version)
    source_files: Any = _argument(_sources)
    dependencies: str | None = _argument(_dependencies)
    capture_stdout: bool | str = _capture("STDOUT", _output)
    capture_stderr: bool | str = _capture("STDERR", _output)
    capture_limit: Limit = _argument(_limit, variable="CAPTURE_LIMIT", otherwise="1MiB/min")
    capture_hardware_metrics: bool = _capture("HARDWARE_METRICS")
    capture_traceback: bool = _capture("TRACEBACK")
    capture_script: bool = _capture("SCRIPT")
    capture_packages: bool = _capture("PACKAGES")
    capture_host: bool = _capture("HOST")
    capture_git: bool = _capture("GIT")
    capture_signals: bool = _capture("SIGNALS")
    monitoring_namespace: str | None = _argument(_namespace)
    fail_on_exception: bool | None = _argument(_switch)
    mask_secrets: bool = _argument(_on_or_off, variable="MASK_SECRETS", otherwise=True)
    secrets: tuple[str | re.Pattern[str], ...] = _argument(_secrets, variable="SECRETS")

    @classmethod
    def of(cls, **given: Any) -> RunOptions:
        """Check arguments, and ask the environment for what was not given.

        Raises:
            ArgumentError: If they contradict each other or have no legal value.
            FileMissingError: If there is no file at ``config_path``.
            ValueKindError: If tags are no strings.
            PathError: If the project's path breaks the grammar.
        """
        _warn_of_unknown_variables()
        config = _config("config_path", given.get("config_path"))
        said = config.values if config else {}
        told = placed({**given, **said, "config_path": config})
        kept = {each.name: _checked(each, told.get(each.name)) for each in dataclasses.fields(cls)}
        for name in ("tags", "groups", "params") if config else ():
            if given.get(name) is not None and name in said:
                check = cls.__dataclass_fields__[name]
                kept[name] = _over(kept[name], _checked(check, given[name]))
        if kept["with_id"] and kept["custom_run_id"]:
            msg = "with_id and custom_run_id: expected one of them, got both"
            raise TwoNamesError(msg)
        if not kept["with_id"] and not kept["custom_run_id"]:
            kept["custom_run_id"] = _environment("CUSTOM_RUN_ID")[1]
        if kept["mode"] == "read-only" and told.get("root") is not None and not told.get("remote"):
            kept["remote"] = ()  # a root that is named is read, whatever SEAMARK_REMOTE says
        if kept["checkpoints"] is None:
            # A path of one machine means nothing where it is read on another.
            sent = kept["remote"] and kept["mode"] in _SENDING
            kept["checkpoints"] = "keep" if sent else "reference"
        asks = kept["mode"] not in ("disabled", "read-only")
        asks = asks and not (kept["ranks"] == "zero" and current_rank().rank)
        kept["code_version"] = _version_of(kept["code_version"]) if asks else None
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

    @property
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

    @property
    def remotes(self) -> tuple[str, ...]:
        """URIs of the remotes that this run is sent to; none where its mode sends nothing."""
        return self.remote if self.mode in _SENDING else ()

    @property
    def captures(self) -> dict[str, Any]:
        """Switches of the captures, by name."""
        found = {key: getattr(self, f"capture_{key}") for key in _CAPTURES}
        if self.git_ref is False:
            found["git"] = False
        return found

    def hidden(self) -> Secrets:
        """Return what must not be recorded."""
        token = self.api_token
        # "ANONYMOUS", "test" or "train" stand in many texts, and open nothing.
        known = (token,) if token and not is_ordinary(token) else ()
        return Secrets(self.mask_secrets, known, more_of(self.secrets))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the token out, and what travels with a run as it records it: facts."""
        config = self.config_path and dataclasses.replace(self.config_path, values={})
        apart: dict[str, Any] = {"api_token": None, "params": {}, "tags": Tags(self.tags.words)}
        apart["config_path"] = config
        return {**self.__dict__, **apart}


def _over(file: Any, argument: Any) -> Any:
    """Return what a file and an argument say together; where both say something, the file wins."""
    if isinstance(file, Tags):
        words = dict.fromkeys((*argument.words, *file.words))
        return Tags(tuple(words), _over(file.keyed, argument.keyed))
    if isinstance(file, tuple):
        return tuple(dict.fromkeys((*argument, *file)))
    above = {path[:at] for path in file for at, sign in enumerate(path) if sign == "/"}
    kept = {
        path: atom
        for path, atom in argument.items()
        if path not in above and not _levels(path) & file.keys()
    }
    return {**kept, **file}


def _levels(path: str) -> set[str]:
    """Return a path and everything that it lies in."""
    return {path, *(path[:at] for at, sign in enumerate(path) if sign == "/")}


def _checked(argument: dataclasses.Field[Any], given: Any) -> Any:
    """Return what is kept of an argument."""
    told, what, value = argument.metadata, argument.name, given
    variable = None
    if value is None or (isinstance(value, str) and not value):
        if told["variable"]:
            variable, value = _environment(told["variable"])
        if value is None:
            value = told["otherwise"] if argument.default is None else argument.default
    if variable is None:
        return told["check"](what, value)
    try:
        return told["check"](variable, value)
    except SeamarkError as error:
        if str(error).startswith(variable):
            raise
        msg = f"{variable}: {error}"
        raise type(error)(msg) from None


def _environment(variable: str) -> tuple[str | None, str | None]:
    """Return name and value of SEAMARK_<variable>, or else of NEPTUNE_<variable>.

    (None, None) if neither says anything.
    """
    for name in (f"SEAMARK_{variable}", f"NEPTUNE_{variable}"):
        if value := os.environ.get(name):
            return name, value
    return None, None


def known_variables() -> list[str]:
    """Return the names of all environment variables of our own that are read."""
    told = (each.metadata.get("variable") for each in dataclasses.fields(RunOptions))
    return sorted(f"SEAMARK_{name}" for name in {*filter(None, told), *_OTHER_VARIABLES})


_warned_of: set[str] = set()


def _warn_of_unknown_variables() -> None:
    """Warn once of variables that are none of ours, and are named as if they were.

    Who switches something off by a wrong name believes that it is off. A name that resembles none
    may be somebody else's, unless it begins like those that switch a capture.
    """
    known = known_variables()
    for name in sorted(os.environ):
        is_switch = name.startswith("SEAMARK_CAPTURE_")
        if not name.startswith("SEAMARK_") or name in known or name in _warned_of:
            continue
        _warned_of.add(name)
        front = "SEAMARK_CAPTURE_" if is_switch else "SEAMARK_"
        names = [each.removeprefix(front) for each in known if each.startswith(front)]
        near = difflib.get_close_matches(name.removeprefix(front), names, 1, 0.6)
        if (near or is_switch) and not current_rank().rank:
            hint = f"; did you mean {front}{near[0]}?" if near else ""
            log.warning("seamark: %s does nothing: there is no such variable%s", name, hint)


def project_and_mode(project: str | None, mode: str | None) -> tuple[str, str]:
    """Return the path and the mode of a project, checked like those of a run.

    Raises:
        PathError: If the path breaks the grammar.
        ArgumentError: If there is no such mode.
    """
    known = {each.name: each for each in dataclasses.fields(RunOptions)}
    return _checked(known["project"], project), _checked(known["mode"], mode)


def remotes_of(given: Any, mode: str, token: str | None) -> tuple[str, ...]:
    """Return the URIs of remotes that an argument or the environment names, as for a run.

    Args:
        given: The argument.
        mode: As `project_and_mode` returned it; in some nothing is sent.
        token: That is shown to them.

    Raises:
        ArgumentError: If one cannot be used.
    """
    found: tuple[str, ...] = _checked(
        {each.name: each for each in dataclasses.fields(RunOptions)}["remote"], given
    )
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


def check_argument(name: str, given: object) -> None:
    """Refuse an illegal value of one argument, where no run is made that would.

    Raises:
        ArgumentError: If the value is not legal.
    """
    _checked({each.name: each for each in dataclasses.fields(RunOptions)}[name], given)


def check_switch(what: str, given: object) -> None:
    """Refuse what is neither True nor False nor None.

    Raises:
        ArgumentError: If it is something else, such as ``"best"``, which would count as True.
    """
    _switch(what, given)


def hidden_by_environment() -> Secrets:
    """Return what must not be recorded, as the environment says.

    Raises:
        ArgumentError: If it says something else.
    """
    known = {each.name: each for each in dataclasses.fields(RunOptions)}
    masked, more = (_checked(known[name], None) for name in ("mask_secrets", "secrets"))
    return Secrets(masked, (), more_of(more))


def check_arguments(others: Mapping[str, Any]) -> None:
    """Accept Neptune's arguments without meaning; refuse what ``init_run`` does not know.

    Raises:
        UnknownArgumentError: Naming the nearest argument that exists.
    """
    known = {*(each.name for each in dataclasses.fields(RunOptions)), *WITHOUT_MEANING}
    refuse_unknown("init_run", others, known)
    for key in others:
        log.debug("seamark: init_run(%s=...) has no meaning here and is ignored", key)


def refuse_unknown(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that a verb, which takes some by ``**``, does not know.

    Args:
        verb: What was called.
        given: Names of arguments.
        known: Names of all arguments that there are.

    Raises:
        UnknownArgumentError: Naming all of them, each with the nearest argument that exists.
    """
    if msg := _unknown(verb, given, sorted(known)):
        raise UnknownArgumentError(msg)


def _unknown(verb: str, given: Iterable[str], known: list[str]) -> str | None:
    """Return the message about arguments that there are not; None if there are none."""
    unknown = []
    for key in given:
        if key not in known:
            meant = ARGUMENTS.get(key)
            near = [meant] if meant in known else difflib.get_close_matches(key, known, 1, 0.5)
            unknown.append(f"{key!r}; did you mean {near[0]!r}?" if near else repr(key))
    if not unknown:
        return None
    what = "an unknown argument" if len(unknown) == 1 else "unknown arguments"
    return f"{verb}() got {what} {', '.join(unknown)}"


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to name the line to write for arguments of other programs.

    Raises:
        UnknownArgumentError: By the function, if it is called with an argument that it lacks.
    """
    verb = function.__name__
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        if msg := _unknown(verb, named, known):
            ours = {name if name in known else ARGUMENTS.get(name): named[name] for name in named}
            line = ", ".join(f"{name}={value!r:.80}" for name, value in ours.items())
            tail = f" Write {verb}({line})" if ours.keys() <= set(known) else ""
            raise UnknownArgumentError(msg + tail)
        return function(*given, **named)

    return call
