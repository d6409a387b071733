"""Configuration files for `init_run(config_path=)`; errors name file, line and column."""

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
from seamark.options.checks import Check, naming, strings, wrong
from seamark.options.foreign import ARGUMENTS, REPLACED
from seamark.paths import check_path
from seamark.reading.artifacts import ArtifactName

__all__ = ["Config", "read_config"]

log = logging.getLogger("seamark")

_OLD: Final = {
    name: ARGUMENTS[name]
    for name in ("labels", "hparams", "folder", "make_folder", "conflict_strategy")
}
"""Options by their names in t9k.em."""
_NOT_IN_FILES: Final = {
    "api_token": "a token is no part of a file that others read: keep it with `seamark login`, or "
    "in SEAMARK_API_TOKEN",
    "auto_upload": "remote: names the place that a run is sent to, such as https://seamark.lab",
    "config_path": "a file names no other one",
    "keep": "it takes objects, such as seamark.Last(): give it as an argument",
}
"""Why a key is refused."""
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)|"
    r"[-+]?(?:[0-9][0-9_]*)?\.[0-9_]+|[-+]?[0-9][0-9_]*\.|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""As YAML 1.2 has it: for PyYAML, which reads 1.1, ``1e-3`` would be a text."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Checked content of a configuration file, by key.

    Attributes:
        path: The file, absolute.
        values: By the names of arguments of ``init_run``.
        inputs: Inputs of the run by name: paths and URLs.
    """

    path: str
    values: Mapping[str, Any]
    inputs: Mapping[str, str]


def read_config(
    what: str, given: Any, options: Iterable[str], check: Callable[[str, str, Any], object]
) -> Config:
    """Read and check a file.

    Args:
        what: Name of the argument, for messages.
        given: Path of the file.
        options: Names of all options of a run.
        check: Takes the name of an option, the key in the file and a value; raises if the value
            is not legal.

    Raises:
        ArgumentError: If it is no path, or the file says what it cannot say; file, line and column
            (1-based) are named.
        FileMissingError: If there is no such file.
    """
    if isinstance(given, Mapping):
        msg = f"{what}: expected the path of a YAML file, got a mapping: give it as params="
        raise ArgumentError(msg)
    if not isinstance(given, (str, os.PathLike)):
        raise wrong(what, "the path of a YAML file", given)
    path = Path(os.path.abspath(os.path.expanduser(given)))  # noqa: PTH100, PTH111 - keep links
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        msg = f"{what}: there is no file {os.fspath(given)!r:.300}"
        raise FileMissingError(msg) from error
    except OSError as error:
        msg = f"{what}: {os.fspath(given)!r:.300} cannot be read: {error.strerror}"
        raise ArgumentError(msg) from error
    checks: dict[str, Check] = {
        name: functools.partial(check, name) for name in options if name not in _NOT_IN_FILES
    }
    values = _File(what, os.fspath(given), checks | {"inputs": _check_inputs}).read(data)
    return Config(str(path), values, values.pop("inputs", {}))


class _File:
    """Reader of one configuration file.

    Args:
        what: Name of the argument that names it.
        path: The file as it was given.
        checks: The check of each key that it may have.
    """

    def __init__(self, what: str, path: str, checks: Mapping[str, Check]) -> None:
        self._what, self._path, self._checks = what, path, checks

    def _wrong(self, mark: Any, message: object) -> ArgumentError:
        at = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        return ArgumentError(f"{self._what}: {self._path}{at}: {message}")

    def read(self, data: bytes) -> dict[str, Any]:
        """Return its values by the names of options."""
        yaml: Any = import_module("yaml")  # for those who have such a file
        try:
            loader = _loader_class(yaml)(data)
            root = loader.get_single_node()
            if root is None:
                return {}
            if not isinstance(root, yaml.MappingNode):
                kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
                raise self._wrong(root.start_mark, f"expected keys and values, got {kind}")
            return self._values(root, lambda node: loader.construct_object(node, deep=True))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._wrong(mark, error.problem or error.context) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, SeamarkError):
                raise
            raise self._wrong(None, str(error).split("\n", 1)[0]) from None

    def _values(self, root: Any, construct: Callable[[Any], Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        called: dict[str, str] = {}
        for key, node in root.value:
            given = str(key.value)
            name = _OLD.get(given, given)
            if name not in self._checks:
                raise self._wrong(key.start_mark, self._unknown(given))
            if name in called:
                other = called[name] if given == name else given
                msg = f"expected one of {name!r} and {other!r}, got both"
                raise self._wrong(key.start_mark, msg)
            called[name] = given
            value = construct(node)
            if given == "folder" and isinstance(value, str):
                value = value.strip("/")  # with which folders of t9k.em begin
            if value is not None:
                kept = self._check(name, given, value, node.start_mark)
                values[name] = kept if name == "inputs" else value
        if old := [f"{name!r} for {given!r}" for name, given in called.items() if name != given]:
            log.warning("seamark: %s: the names here are %s", self._path, ", ".join(old))
        return values

    def _check(self, name: str, key: str, value: Any, mark: Any) -> Any:
        try:
            return self._checks[name](key, value)
        except SeamarkError as error:
            is_word = isinstance(value, (int, float)) and "expected a string" in str(error)
            hint = " (in quotes it is a text)" if is_word else ""
            raise self._wrong(mark, f"{error}{hint}") from None

    def _unknown(self, given: str) -> str:
        """Return the message about an unknown key."""
        if why := _NOT_IN_FILES.get(given):
            return f"{given!r} cannot be given here: {why}"
        if given in REPLACED:
            return f"{given!r} is no argument; write {REPLACED[given].replace('=', ': ')}"
        meant = ARGUMENTS.get(given)
        near = difflib.get_close_matches(given, [*self._checks, *_OLD], 1)
        hint = meant if meant in self._checks else near[0] if near else None
        tail = f"; did you mean {hint!r}?" if hint else ""
        return f"expected 'inputs' or an argument of init_run, got {given!r:.80}{tail}"


def _loader_class(yaml: Any) -> Any:
    """Return a loader with the numbers of YAML 1.2 that refuses duplicate keys."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:float"]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_mapping_node(self, anchor: Any) -> Any:
            """Refuse duplicate keys, of which PyYAML drops the first."""
            node = super().compose_mapping_node(anchor)
            known: dict[str, Any] = {}
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if name in known and name != "<<":
                    line = known[name].line + 1
                    msg = f"expected each key once, got {name!r:.80} again (first in line {line})"
                    raise yaml.MarkedYAMLError(problem=msg, problem_mark=key.start_mark)
                if name is not None:
                    known[name] = key.start_mark
            return node

    whole = re.compile(f"(?:{_FLOAT.pattern})$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", whole, list("-+0123456789."))
    return Loader


def _check_inputs(what: str, given: Any) -> dict[str, str]:
    """Return the inputs of a run by name; without names those of the files.

    Raises:
        ArgumentError: If one is neither an existing file, a URL nor a version of an artifact.
        PathError: If a name breaks the grammar.
    """
    is_named = isinstance(given, Mapping)
    pairs = given.items() if is_named else [(_name_of(one), one) for one in strings(given, what)]
    found: dict[str, str] = {}
    for name, target in pairs:
        if not isinstance(target, str):
            raise wrong(what, "a path or a URL", target)
        with naming(what, PathError):
            check_path(name)
        if name in found:
            msg = f"{what}: two of them are called {name!r:.80}"
            raise ArgumentError(msg)
        here = None if _version_of(target) else local_path(target)
        if here is not None and not os.path.exists(here):  # noqa: PTH110 - a text
            msg = (
                f"{what}: expected an existing file or folder, a URL or an artifact's "
                f"NAME:VERSION, got {target!r:.200}"
            )
            raise ArgumentError(msg)
        found[name] = target
    return found


def _name_of(target: str) -> str:
    """Return the name of an input that was given without one."""
    version = _version_of(target)
    return target.rstrip("/").rpartition("/")[2] if version is None else version.name


def _version_of(target: str) -> ArtifactName | None:
    """Return the version of an artifact that an input names; None if it names none."""
    found = ArtifactName.of(target)
    return found if found is not None and found.has_version else None
