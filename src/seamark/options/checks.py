"""Checks of run options: each takes name and value, and returns the value to use."""

# ruff: noqa: D103 - a check is named by what it checks, and all have one signature

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from seamark.capture.secrets import user_rules
from seamark.capture.switches import Limit, is_switched_off
from seamark.errors import ArgumentError, PathError, SeamarkError, ValueKindError
from seamark.journal.folder import check_location
from seamark.paths import MAX_PATH_BYTES, check_name, check_path, check_project, is_inside
from seamark.reading.browsing import Browsable
from seamark.reading.text import hint_for
from seamark.values import Atom, encode_atom, is_container, parameters, shown
from seamark.values._numbers import argument_error
from seamark.values.aggregates import Keep

PARAMETERS: Final = "parameters"
"""Namespace of hyperparameters."""
TAGS: Final = "tags"
"""Namespace of keyed tags."""
_RESERVED: Final = ("sys", "source_code")
"""Namespaces of the run as a whole, which no single process owns."""
_LONGEST_BELOW: Final = 100
"""Length of the longest path that captures record below a namespace, with some reserve; bytes."""
_LONGEST_VERSION: Final = 1000
"""Maximum length of a code version, in characters."""
_ON_OR_OFF: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}

Check = Callable[[str, Any], Any]
"""Function that takes an option's name and value, and returns the value to keep."""


@contextmanager
def naming(what: str, kind: type[SeamarkError] = ArgumentError) -> Iterator[None]:
    """Convert errors of the block to errors about an option."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise kind(f"{what}: {re.sub('^(path|value|remote): ', '', str(error))}") from None


def strings(values: Any, where: str) -> list[str]:
    """Return one string or several as a list; raise `ValueKindError` for other values."""
    several = isinstance(values, Iterable) and not isinstance(values, (str, Browsable))
    found = list(values) if several else [values]
    for value in found:
        if not isinstance(value, str):
            raise argument_error(value, where, "a string or several strings", ValueKindError)
    return found


def one_of(*allowed: str) -> Check:
    def check(what: str, given: object) -> object:
        if isinstance(given, str) and given in allowed:
            return given
        hint = hint_for(str(given), allowed)
        raise ArgumentError(
            f"{what}: expected one of {', '.join(map(repr, allowed))}, got {given!r:.80}{hint}"
        )

    return check


def check_text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise argument_error(given, what, "a string or None")
    return given


def check_token(what: str, given: object) -> str:
    """Return a token that is valid in a header; errors do not reveal it."""
    token = given.strip() if isinstance(given, str) else ""
    if not isinstance(given, str) or not (token.isascii() and token.isprintable()):
        kind = "other characters" if isinstance(given, str) else type(given).__name__
        raise ArgumentError(
            f"{what}: expected a string of printable ASCII characters or None, got {kind}"
        )
    return token


def check_shown_name(what: str, given: Any) -> str | None:
    """Return a name; None if it is blank, like a variable that was not set."""
    return check_text(what, given) if str(given).strip(" ") else None


def check_switch(what: str, given: object) -> object:
    if given is not None and not isinstance(given, bool):
        raise argument_error(given, what, "True, False or None")
    return given


def check_on_or_off(what: str, given: object) -> bool:
    if (found := _on_or_off(given)) is None:
        raise argument_error(given, what, "1 or 0" if what.isupper() else "True or False")
    return found


def check_output(what: str, given: object) -> bool | str:
    if isinstance(given, str) and given.strip().lower() == "fd":
        return "fd"
    if (found := _on_or_off(given)) is None:
        raise argument_error(given, what, "1, 0 or fd" if what.isupper() else "True, False or 'fd'")
    return found


def _on_or_off(given: object) -> bool | None:
    if isinstance(given, str):
        return _ON_OR_OFF.get(given.strip().lower())
    return given if isinstance(given, bool) else None


def check_limit(what: str, given: object) -> Limit:
    with naming(what):
        return Limit.of(given)


def check_namespace(what: str, given: Any) -> str | None:
    path = check_text(what, given).strip("/")
    if not path:
        return None
    with naming(what):
        check_path(path)
    if reserved := next((each for each in _RESERVED if is_inside(path, each)), None):
        raise ArgumentError(
            f"{what}: expected a path for the captured facts of a process, got {given!r:.200}: "
            f"{reserved!r} belongs to the run"
        )
    if (size := len(path.encode())) > MAX_PATH_BYTES - _LONGEST_BELOW:
        most = MAX_PATH_BYTES - _LONGEST_BELOW
        raise ArgumentError(
            f"{what}: expected at most {most} bytes of UTF-8, got {size} in {path[:60]!r}..."
        )
    return path


def check_secrets(what: str, given: Any) -> tuple[str | re.Pattern[str], ...]:
    # A variable holds one per line, because a regular expression may contain spaces.
    entries = given.splitlines() if isinstance(given, str) else given
    with naming(what):
        found = tuple(e.strip() if isinstance(e, str) else e for e in entries)
        user_rules(found)
    return found


def check_remotes(what: str, given: Any) -> tuple[str, ...]:
    from seamark.remote.schemes import canonical  # imported only if one is given

    several = given.split(",") if isinstance(given, str) else strings(given, what)
    with naming(what):
        found = [canonical(uri.strip()) for uri in several if uri.strip()]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Tags:
    """Tags: strings for ``sys/tags``, or encoded values by path below ``tags/``."""

    words: tuple[str, ...] = ()
    keyed: Mapping[str, Atom] = dataclasses.field(default_factory=dict)


def given_tags(what: str, given: Any) -> Tags:
    """Return tags, given as strings or as a mapping of keyed tags, whose keys may contain ``/``."""
    if given is None or (isinstance(given, str) and not given):
        return Tags()
    if not isinstance(given, Mapping):
        return Tags(tuple(strings(given, what)))
    found: dict[str, Atom] = {}
    for key, value in given.items():
        with naming(what, PathError):
            path = check_path(f"{TAGS}/{check_path(key)}")
        with naming(f"{what}: {key!r:.80}", ValueKindError):
            found[path] = encode_atom(value)
    return Tags(keyed=found)


def check_groups(what: str, given: Any) -> tuple[str, ...]:
    return tuple(check_name(name, f"{what}: group") for name in strings(given, what))


def check_parent(what: str, given: Any) -> str:
    """Return project and id of a run, or only the given id."""
    folder = getattr(given, "folder", None)
    if folder is not None and getattr(folder, "kind", None) == "run":
        return f"{folder.project}/{folder.run}"
    if not isinstance(given, str):
        raise argument_error(given, what, "a run, its id or PROJECT/ID")
    project, _, run = given.rpartition("/")
    check_name(run, what)
    if project:
        check_project(project)
    return given


def check_params(what: str, given: Any) -> dict[str, Atom]:
    if not is_container(given):
        raise argument_error(given, what, "a mapping, a Namespace, a dataclass or None")
    # Encoded immediately, so that later changes and pickling do not matter.
    return parameters(given, PARAMETERS)


def check_keep(what: str, given: object) -> Keep:
    """Return a rule of the option ``keep``."""
    if isinstance(given, Keep):
        return given
    made = f"; did you mean {given.__name__}()?" if isinstance(given, type) else ""
    raise ArgumentError(
        f"{what}: expected Statistics(), Last() or Ring(n) of seamark, got {shown(given)}{made}"
    )


def check_patterns(what: str, given: Any) -> dict[str, Keep]:
    """Return the rules of the option ``keep`` by path or pattern."""
    if not isinstance(given, Mapping):
        raise argument_error(given, what, "a mapping such as {'gpu/*': Statistics()}")
    return {check_path(path): check_keep(f"{what}[{path!r}]", each) for path, each in given.items()}


def check_sources(what: str, given: Any) -> Any:
    expected = "a path, a list of paths or None"
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping, Browsable)):
        return check_location(what, given, expected)
    paths = [check_location(what, each, expected) for each in given]
    if None in paths:
        raise argument_error(None, what, expected)
    return paths


def check_repository(what: str, given: Any) -> Any:
    # Neptune's GitRef has a path; its GitRef.DISABLED is recognized by the name of its type.
    is_reference = isinstance(given, bool) or hasattr(given, "repository_path")
    if is_reference or is_switched_off(given):
        return given
    return check_location(what, given, "a path, True, False, None or Neptune's GitRef")


def check_version(what: str, given: Any) -> Any:
    if callable(given):
        return given
    if not isinstance(given, str) or not 0 < len(given.strip()) <= _LONGEST_VERSION:
        most = f"a text of 1 to {_LONGEST_VERSION:,} characters"
        raise argument_error(
            given, what, f"{most}, a function without arguments that returns one, or None"
        )
    return given


def version_of(given: Any) -> str | None:
    """Return the version of the code, or the result of a function that returns it."""
    if not callable(given):
        return given  # type: ignore[no-any-return]  # a checked text or None
    try:
        found = given()
    except Exception as error:
        raise ArgumentError(
            f"code_version: the function raised {type(error).__name__}: {error!s:.200}"
        ) from error
    if found is None or callable(found):
        raise ArgumentError(
            f"code_version: expected a function that returns a string, got the result {found!r:.80}"
        )
    return check_version("code_version", found)  # type: ignore[no-any-return]  # a text by now


def check_dependencies(what: str, given: Any) -> str:
    if not isinstance(given, (str, os.PathLike)):
        raise argument_error(given, what, "'infer', a path or None")
    if given == "infer":
        return "infer"
    file = os.path.abspath(os.path.expanduser(given))  # noqa: PTH100, PTH111 - keep links
    if not os.path.isfile(file):  # noqa: PTH113
        raise argument_error(given, what, "'infer' or an existing requirements file")
    return file
