"""A file that says what a run is given, for `init_run(config_path=)`, with places in its errors."""

from __future__ import annotations

import dataclasses
import difflib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from seamark.blobs.names import local_path
from seamark.errors import ArgumentError, FileMissingError, SeamarkError
from seamark.options.foreign import ARGUMENTS, REPLACED
from seamark.paths import check_name, check_path, check_project
from seamark.reading.artifacts import ArtifactName

__all__ = ["Config", "read_config"]

log = logging.getLogger("seamark")

_OLD: Final = {
    name: ARGUMENTS[name]
    for name in ("labels", "hparams", "folder", "make_folder", "conflict_strategy")
}
"""What t9k.em calls them."""
_NOT_IN_FILES: Final = {
    "api_token": "a token is no part of a file that others read: keep it with `seamark login`, or "
    "in SEAMARK_API_TOKEN",
    "auto_upload": "remote: names the place that a run is sent to, such as https://seamark.lab",
    "config_path": "a file names no other one",
    "keep": "it takes objects, such as seamark.Last(): give it as an argument",
}
"""Why a key is refused."""
_MOST_BYTES: Final = 16 << 20
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
        inputs: What the run reads, by name: paths and URLs.
    """

    path: str
    values: Mapping[str, Any]
    inputs: Mapping[str, str]


def read_config(
    what: str, given: Any, checks: Mapping[str, Callable[[str, Any], Any]]
) -> Config | None:
    """Read and check a file.

    Args:
        what: How the argument is called, for messages.
        given: Path of the file; None for none.
        checks: The check of each argument of ``init_run``, by its name: takes the name and what was
            given, and raises if that is not legal.

    Raises:
        ArgumentError: If it is no path, or the file says what it cannot say; file, line and column
            (1-based) are named.
        FileMissingError: If there is no such file.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        msg = f"{what}: expected the path of a YAML file, got a mapping: give it as params="
        raise ArgumentError(msg)
    if not isinstance(given, (str, os.PathLike)):
        msg = f"{what}: expected the path of a YAML file, got {type(given).__name__}: {given!r:.80}"
        raise ArgumentError(msg)
    path = Path(os.path.abspath(os.path.expanduser(given)))  # noqa: PTH100, PTH111 - keep links
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        msg = f"{what}: there is no file {os.fspath(given)!r:.300}"
        raise FileMissingError(msg) from error
    except OSError as error:
        msg = f"{what}: {os.fspath(given)!r:.300} cannot be read: {error.strerror}"
        raise ArgumentError(msg) from error
    if len(data) > _MOST_BYTES:
        msg = f"{what}: expected at most {_MOST_BYTES} bytes, got more in {os.fspath(given)!r:.300}"
        raise ArgumentError(msg)
    return _File(what, os.fspath(given), path, data, checks).read()


class _File:
    """Reader of one configuration file."""

    def __init__(
        self,
        what: str,
        called: str,
        path: Path,
        data: bytes,
        checks: Mapping[str, Callable[[str, Any], Any]],
    ) -> None:
        yaml: Any = import_module("yaml")  # for those who have such a file
        self._what, self._called, self._path = what, called, path
        self._checks = {name: checks[name] for name in checks if name not in _NOT_IN_FILES}

        class Loader(yaml.SafeLoader):  # type: ignore[misc]
            """Reads numbers as YAML 1.2 has them."""

            yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
                first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:float"]
                for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
            }

        whole = re.compile(f"(?:{_FLOAT.pattern})$")
        Loader.add_implicit_resolver("tag:yaml.org,2002:float", whole, list("-+0123456789."))
        self._yaml = yaml
        try:
            self._loader = Loader(data)
        except yaml.YAMLError as error:
            raise self._wrong(None, str(error).split("\n", 1)[0]) from None

    def _wrong(self, mark: Any, message: str) -> ArgumentError:
        at = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        return ArgumentError(f"{self._what}: {self._called}{at}: {message}")

    def read(self) -> Config:
        """Return what it says."""
        try:
            root = self._loader.get_single_node()
            self._refuse_duplicates(root, set())
            return self._config(root)
        except self._yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._wrong(mark, str(error.problem or error.context)) from None
        except (self._yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, SeamarkError):
                raise
            raise self._wrong(None, str(error).split("\n", 1)[0]) from None

    def _refuse_duplicates(self, node: Any, seen: set[int]) -> None:
        """Refuse a key that stands twice in a mapping: PyYAML would drop the first."""
        if node is None or id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, self._yaml.SequenceNode):
            for each in node.value:
                self._refuse_duplicates(each, seen)
        elif isinstance(node, self._yaml.MappingNode):
            known: dict[str, Any] = {}
            for key, value in node.value:
                name = key.value if isinstance(key, self._yaml.ScalarNode) else None
                if name is not None and name in known and name != "<<":
                    line = known[name].line + 1
                    msg = f"expected each key once, got {name!r:.80} again (first in line {line})"
                    raise self._wrong(key.start_mark, msg)
                if name is not None:
                    known[name] = key.start_mark
                self._refuse_duplicates(value, seen)

    def _config(self, root: Any) -> Config:
        if root is None:
            return Config(str(self._path), {}, {})
        if not isinstance(root, self._yaml.MappingNode):
            kind = "a list" if isinstance(root, self._yaml.SequenceNode) else "a single value"
            raise self._wrong(root.start_mark, f"expected keys and values, got {kind}")
        values: dict[str, Any] = {}
        old: dict[str, str] = {}
        for key, node in root.value:
            given = str(key.value)
            name = _OLD.get(given, given)
            if name not in _TAKE and name not in self._checks:
                raise self._wrong(key.start_mark, self._unknown(given))
            if name in values:
                msg = f"expected one of {name!r} and {given!r}, got both"
                if given == name:
                    msg = f"expected one of {name!r} and {old[name]!r}, got both"
                raise self._wrong(key.start_mark, msg)
            if given != name:
                old[name] = given
            take = _TAKE.get(name)
            found = take(self, given, node) if take else self.option(name, given, node)
            if found is not None:
                values[name] = found
        if old:
            words = ", ".join(f"{ours!r} for {theirs!r}" for ours, theirs in old.items())
            log.warning("seamark: %s: the names here are %s", self._called, words)
        return Config(str(self._path), values, values.pop("inputs", {}))

    def _unknown(self, given: str) -> str:
        """Return the message about a key that there is not."""
        if why := _NOT_IN_FILES.get(given):
            return f"{given!r} cannot be given here: {why}"
        if given in REPLACED:
            return f"{given!r} is no argument; write {REPLACED[given].replace('=', ': ')}"
        known = {*_TAKE, *self._checks}
        meant = ARGUMENTS.get(given)
        near = difflib.get_close_matches(given, [*known, *_OLD], 1)
        hint = meant if meant in known else near[0] if near else None
        tail = f"; did you mean {hint!r}?" if hint else ""
        return f"expected 'inputs' or an argument of init_run, got {given!r:.80}{tail}"

    # ---------------------------------------------------------------- values

    def _value(self, node: Any) -> Any:
        return self._loader.construct_object(node, deep=True)

    def _expected(self, key: str, wanted: str, node: Any) -> ArgumentError:
        value = self._value(node)
        hint = " (in quotes it is a text)" if isinstance(value, (int, float, bool)) else ""
        msg = f"{key}: expected {wanted}, got {type(value).__name__}: {value!r:.80}{hint}"
        return self._wrong(node.start_mark, msg)

    def _checked(self, key: str, node: Any, check: Callable[[Any], Any], value: Any) -> Any:
        try:
            return check(value)
        except SeamarkError as error:
            raise self._wrong(node.start_mark, f"{key}: {error}") from None

    def option(self, name: str, key: str, node: Any) -> Any:
        """Return an argument that is given as anywhere else.

        Args:
            name: Of the argument.
            key: What the file calls it.
            node: Where its value stands.
        """
        value = self._value(node)
        if value is None:
            return None
        try:
            self._checks[name](key, value)
        except SeamarkError as error:
            raise self._wrong(node.start_mark, str(error)) from None
        return value

    def text(self, key: str, node: Any) -> str | None:
        """Return a text."""
        value = self._value(node)
        if value is not None and not isinstance(value, str):
            raise self._expected(key, "a text", node)
        return value

    def project(self, key: str, node: Any) -> str | None:
        """Return the path of a project; the slash with which folders of t9k.em begin is dropped."""
        value = self.text(key, node)
        if value is None:
            return None
        path = value.strip("/") if key == "folder" else value
        return str(self._checked(key, node, check_project, path))

    def texts(self, key: str, node: Any) -> list[str] | None:
        """Return one text or several as a list."""
        if not isinstance(node, self._yaml.SequenceNode):
            value = self._value(node)
            if value is None:
                return None
            if not isinstance(value, str):
                raise self._expected(key, "a text or a list of texts", node)
            return [value]
        for each in node.value:
            if not isinstance(self._value(each), str):
                raise self._expected(key, "texts", each)
        return [str(self._value(each)) for each in node.value]

    def tags(self, key: str, node: Any) -> Any:
        """Return tags: texts, or values by key."""
        if not isinstance(node, self._yaml.MappingNode):
            return self.texts(key, node)
        for name, value in self._pairs(node):
            self._checked(key, name, check_path, self._value(name))
            if not isinstance(value, self._yaml.ScalarNode):
                raise self._expected(key, f"one value for {name.value!r:.80}", value)
        return self._value(node)

    def groups(self, key: str, node: Any) -> list[str] | None:
        """Return names of groups."""
        found = self.texts(key, node)
        several = isinstance(node, self._yaml.SequenceNode)
        for name, each in zip(found or (), node.value if several else [node], strict=False):
            self._checked(key, each, lambda one: check_name(one, "group"), name)
        return found

    def mapping(self, key: str, node: Any) -> Any:
        """Return values by key, nested."""
        if self._value(node) is None:
            return None
        if not isinstance(node, self._yaml.MappingNode):
            raise self._expected(key, "keys and values", node)
        return self._value(node)

    def inputs(self, key: str, node: Any) -> dict[str, str] | None:
        """Return what a run reads, by name; without names those of the files."""
        if isinstance(node, self._yaml.MappingNode):
            pairs = [(name, value) for name, value in self._pairs(node)]
            named = [(str(self.text(key, name)), self.text(key, value)) for name, value in pairs]
            nodes = [value for _, value in pairs]
        else:
            texts = self.texts(key, node)
            if texts is None:
                return None
            named = [(_own_name(text), text) for text in texts]
            several = isinstance(node, self._yaml.SequenceNode)
            nodes = list(node.value) if several else [node]
        found: dict[str, str] = {}
        for (name, target), at in zip(named, nodes, strict=True):
            self._checked(key, at, check_path, name)
            if target is None:
                raise self._expected(key, "a path or a URL", at)
            if name in found:
                raise self._wrong(at.start_mark, f"{key}: two of them are called {name!r:.80}")
            here = local_path(target)
            meant = ArtifactName.of(target)
            if meant is not None and meant.says_version:
                here = None  # looked for when the run begins
            if here is not None and not os.path.exists(here):  # noqa: PTH110 - a text
                msg = (
                    f"{key}: expected an existing file or folder, a URL or an artifact's "
                    f"NAME:VERSION, got {target!r:.200}"
                )
                raise self._wrong(at.start_mark, msg)
            found[name] = target
        return found

    def _pairs(self, node: Any) -> Iterator[tuple[Any, Any]]:
        self._loader.flatten_mapping(node)  # takes in what `<<` names
        yield from node.value


_TAKE: Final[Mapping[str, Callable[[_File, str, Any], Any]]] = {  # others: `_File.option`
    "name": _File.text,
    "description": _File.text,
    "tags": _File.tags,
    "groups": _File.groups,
    "params": _File.mapping,
    "project": _File.project,
    "inputs": _File.inputs,
}


def _own_name(target: str) -> str:
    """Return what an input is called that was given no name."""
    meant = ArtifactName.of(target)
    if meant is not None and meant.says_version:
        return meant.name
    return target.rstrip("/").rpartition("/")[2]
