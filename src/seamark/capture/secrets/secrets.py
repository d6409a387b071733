"""Masking of a run's secrets in arguments, messages, tracebacks and assigned values.

Only recorded data is changed, never a value of the training program.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seamark.capture.secrets.masking import (
    MASK,
    mask_arguments,
    mask_secrets,
    mask_value,
    should_mask_parameter,
)
from seamark.capture.secrets.names import (
    NO_USER_RULES,
    UserRules,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain_fact,
    plain_name,
)
from seamark.capture.secrets.shapes import secret_values
from seamark.values import Atom, Escaped, encode_atom

BY_NAME: Final = f"{MASK} (name looks like a secret)"
"""Replacement of a value whose name marks it as a secret."""

BY_VALUE: Final = f"{MASK} (value looks like a secret)"
"""Replacement of a value that is a known secret or has the shape of one."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
_OPTION: Final = re.compile(r"--[A-Za-z]")
_HEX_KEY: Final = re.compile(r"[0-9a-f]{32,40}")
_MIN_PREFIX: Final = 4


def user_rules(entries: Iterable[str | re.Pattern[str]]) -> UserRules:
    """Return the rules for secrets that the user declared.

    Args:
        entries: A plain word is the name of a parameter, option or variable, such as
            ``patient_id``. Any other text, and a compiled pattern, is a regular expression for
            values, such as ``"acme-[0-9a-f]{32}"``.

    Raises:
        ValueError: If an entry is not a regular expression; the message names it.
        TypeError: If an entry is neither a string nor a pattern.
    """
    names, patterns = set(), []
    for entry in entries:
        if isinstance(entry, re.Pattern) and isinstance(entry.pattern, str):
            patterns.append(entry)
        elif not isinstance(entry, str):
            raise TypeError(f"expected names and regular expressions, got {type(entry).__name__}")
        elif _PLAIN_NAME.fullmatch(entry):
            names.add(plain_name(entry))
        elif entry:
            try:
                patterns.append(re.compile(entry))
            except re.error as error:
                raise ValueError(
                    f"expected names and regular expressions, got {entry!r:.200}: {error}"
                ) from None
    return UserRules(frozenset(names), tuple(patterns))


@dataclass(frozen=True, slots=True)
class Secrets:
    """Rules for masking the secrets of one run.

    Attributes:
        masked: Whether secrets other than ``known`` are masked.
        known: Values that are masked everywhere, such as a token that was given as an argument.
        rules: Names and patterns that the user declared secret.
    """

    masked: bool = True
    known: tuple[str, ...] = field(default=(), repr=False)
    rules: UserRules = NO_USER_RULES

    def message(self, text: str) -> str:
        """Return a message or a traceback with secrets masked.

        The middle of a text of more than 256 Ki characters is left out.
        """
        return self._mask(text, mask_secrets)

    def arguments(self, arguments: Iterable[str]) -> list[str]:
        """Return the arguments of a command with secrets masked; their number is unchanged."""
        if not self.masked:
            return list(map(self.printed, arguments))
        return mask_arguments(list(arguments), known=self.values(), rules=self.rules)

    def atoms(self, atoms: Mapping[str, Atom]) -> dict[str, Atom]:
        """Return values with secrets masked.

        Only strings can be secrets, alone or in lists and mappings. Numbers are not examined.

        Args:
            atoms: Values by path.
        """
        kept = dict(atoms)
        for path, atom in atoms.items():
            if atom.type == "string":
                hidden = self.text(atom.value, *_path_names(path, atoms))
                kept[path] = atom if hidden == atom.value else Atom("string", hidden)
            elif atom.type == "json" and '"' in atom.value:
                value = json.loads(atom.value)
                hidden = self._mask_json(value, _path_names(path, atoms))
                kept[path] = atom if hidden == value else encode_atom(hidden)
        return kept

    def text(self, text: str, *names: str) -> str:
        """Return a recorded string with secrets masked.

        Args:
            text: The string; an `Escaped` string stays marked as such.
            names: Names of the string: the parts of its path, the last one being its own name.
        """
        if text.startswith((BY_NAME, BY_VALUE)) and self.masked:
            return text
        if self.masked and names and self._has_secret_name(text, names):
            hidden = BY_NAME
        else:
            hidden = self.printed(text)
            if hidden == MASK != text and self.masked:
                hidden = BY_VALUE
        return Escaped(hidden) if isinstance(text, Escaped) else hidden

    def printed(self, text: str) -> str:
        """Return output with secrets masked."""
        return self._mask(text, mask_value)

    def _mask(self, text: str, mask: Callable[..., str]) -> str:
        if self.masked:
            return mask(text, known=self.values(), rules=self.rules)
        for value in self.known:
            text = text.replace(value, MASK)
        return text

    def values(self) -> set[str]:
        """Return the values that are masked everywhere, with those of the current environment."""
        environment_values = _environment_values(self.rules) if self.masked else set()
        return environment_values.union(self.known)

    def open_value_start(self, text: str) -> int:
        """Return the start of an incomplete known value at the end of a text, or the length.

        Fewer than four matching characters do not count.
        """
        start = len(text)
        for value in (each for each in self.values() if len(each) > _MIN_PREFIX):
            at = text.find(value[:_MIN_PREFIX], max(0, len(text) - len(value) + 1))
            while 0 <= at < start and not value.startswith(text[at:]):
                at = text.find(value[:_MIN_PREFIX], at + 1)
            if 0 <= at < start:
                start = at
        return start

    def _has_secret_name(self, text: str, names: tuple[str, ...]) -> bool:
        """Return whether its name or path marks a string as secret: ``secrets/openai``."""
        if should_mask_parameter(names[-1], text, self.rules):
            return True
        is_held = any(map(holds_secrets, names[:-1])) and not is_plain_fact(names[-1])
        return is_held and not is_empty(text) and not is_harmless(text)

    def _mask_json(self, value: Any, names: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return self.text(value, *names)
        if isinstance(value, dict):
            return {
                key: self._mask_json(each, (*names, _entry_name(value, str(key))))
                for key, each in value.items()
            }
        if not isinstance(value, list):
            return value
        words = [each for each in value if isinstance(each, str)]
        if self.masked and len(words) == len(value) and any(map(_OPTION.match, words)):
            return self.arguments(words)
        return [self._mask_json(each, names) for each in value]


_cached_values: dict[UserRules, tuple[dict[Any, Any], set[str]]] = {}


def _environment_values(rules: UserRules) -> set[str]:
    """Return the current values of secret environment variables.

    The names are examined only after a change, because a string may be logged at every step.
    Comparing CPython's internal mapping of variables takes a microsecond.
    """
    kept = getattr(os.environ, "_data", None)
    if not isinstance(kept, dict):
        return secret_values(os.environ, rules)
    found = _cached_values.get(rules)
    if found is None or found[0] != kept:
        found = _cached_values[rules] = (dict(kept), secret_values(os.environ, rules))
    return found[1]


def _path_names(path: str, atoms: Mapping[str, Atom]) -> tuple[str, ...]:
    """Return the parts of a path, the last one replaced by a name recorded next to it."""
    above, _, last = path.rpartition("/")
    if last in ("key", "value"):
        named = {each: atoms.get(f"{above}/{each}") for each in ("name", "key", "username")}
        entries = {each: atom.value for each, atom in named.items() if atom is not None}
        last = _entry_name(entries, last)
    return (*above.split("/"), last)


def _entry_name(values: Mapping[str, Any], key: str) -> str:
    """Return the name of an entry of a mapping, which may be the value of another entry.

    Examples are ``{"name": "DB_PASSWORD", "value": "X"}`` and Kaggle's token
    ``{"username": "me", "key": "X"}``.
    """
    if key == "key" and "username" in values and _HEX_KEY.fullmatch(str(values.get(key))):
        return "api_key"
    name = values.get("name", values.get("key")) if key == "value" else key
    return name if isinstance(name, str) else key
