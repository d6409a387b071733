"""Secrets of a run, hidden alike in arguments, messages, tracebacks and assigned values.

Only what is written is changed, never a value of the training program.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seamark.capture.secrets.masking import (
    MASK,
    hides_parameter,
    mask_arguments,
    mask_secrets,
    mask_value,
)
from seamark.capture.secrets.names import (
    MORE_NONE,
    More,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain_fact,
    plain_name,
)
from seamark.capture.secrets.shapes import secret_values
from seamark.values import Atom, Escaped, encode_atom

__all__ = ["BY_NAME", "BY_VALUE", "Secrets", "more_of"]

BY_NAME: Final = f"{MASK} (name looks like a secret)"
"""Replacement of a value whose name marks it as a secret."""

BY_VALUE: Final = f"{MASK} (value looks like a secret)"
"""Replacement of a value that is a known secret or has the shape of one."""

_PLAIN: Final = re.compile(r"[A-Za-z_][\w.-]*")
_OPTION: Final = re.compile(r"--[A-Za-z]")
_HEX_KEY: Final = re.compile(r"[0-9a-f]{32,40}")
_MIN_BEGUN: Final = 4


def more_of(entries: Iterable[str | re.Pattern[str]]) -> More:
    """Return the secrets that the user has declared.

    Args:
        entries: A plain word is the name of a parameter, an option or a variable, such as
            ``patient_id``. Anything else is a regular expression of values, such as
            ``"acme-[0-9a-f]{32}"``; so is a compiled one.

    Raises:
        ValueError: If one is no regular expression; says which.
        TypeError: If one is no string.
    """
    names, patterns = set(), []
    for entry in entries:
        if isinstance(entry, re.Pattern) and isinstance(entry.pattern, str):
            patterns.append(entry)
        elif not isinstance(entry, str):
            msg = f"expected names and regular expressions, got {type(entry).__name__}"
            raise TypeError(msg)
        elif _PLAIN.fullmatch(entry):
            names.add(plain_name(entry))
        elif entry:
            try:
                patterns.append(re.compile(entry))
            except re.error as error:
                msg = f"expected names and regular expressions, got {entry!r:.200}: {error}"
                raise ValueError(msg) from None
    return More(frozenset(names), tuple(patterns))


@dataclass(frozen=True, slots=True)
class Secrets:
    """Rules by which one run hides secrets.

    Attributes:
        masked: Whether anything is hidden but ``known``.
        known: Values that are hidden wherever they turn up, such as a token that was given as an
            argument.
        more: Names and patterns that the user declared secret.
    """

    masked: bool = True
    known: tuple[str, ...] = field(default=(), repr=False)
    more: More = MORE_NONE

    def message(self, text: str) -> str:
        """Return a message or a traceback without secrets.

        Above 256 Ki characters its middle is left out.
        """
        if not self.masked:
            return self._without_known(text)
        return mask_secrets(text, environment={}, known=self.values(), more=self.more)

    def arguments(self, arguments: Iterable[str]) -> list[str]:
        """Return the arguments of a command without secrets; as many as were given."""
        arguments = list(arguments)
        if not self.masked:
            return [self._without_known(each) for each in arguments]
        return mask_arguments(arguments, environment={}, known=self.values(), more=self.more)

    def atoms(self, atoms: Mapping[str, Atom]) -> dict[str, Atom]:
        """Return values without secrets.

        Only strings can be secrets, alone or in lists and mappings. Numbers cost nothing.

        Args:
            atoms: By path.
        """
        kept = dict(atoms)
        for path, atom in atoms.items():
            if atom.type == "string":
                hidden = self.text(atom.value, *_names_of(path, atoms))
                kept[path] = atom if hidden == atom.value else Atom("string", hidden)
            elif atom.type == "json" and '"' in atom.value:
                value = json.loads(atom.value)
                hidden = self._json(value, _names_of(path, atoms))
                kept[path] = atom if hidden == value else encode_atom(hidden)
        return kept

    def text(self, text: str, *names: str) -> str:
        """Return a string that a person records without secrets.

        Args:
            text: The string; one that had to be escaped stays marked so.
            names: What it is called, if that says something; names that it stands below go before.
        """
        if text.startswith((BY_NAME, BY_VALUE)) and self.masked:
            return text
        if self.masked and names and self._is_named(text, names):
            hidden = BY_NAME
        else:
            hidden = self.printed(text)
            if hidden == MASK != text and self.masked:
                hidden = BY_VALUE
        return Escaped(hidden) if isinstance(text, Escaped) else hidden

    def printed(self, text: str) -> str:
        """Return output without secrets."""
        if not self.masked:
            return self._without_known(text)
        return mask_value(text, environment={}, known=self.values(), more=self.more)

    def values(self) -> set[str]:
        """Return the values that are hidden wherever they turn up, as they are now."""
        of_environment = _values_of_environment(self.more) if self.masked else set()
        return of_environment.union(self.known)

    def open_value_start(self, text: str) -> int:
        """Return where a known value begins that a text ends in the middle of; else its length.

        Fewer than four characters may begin anything.
        """
        begun = len(text)
        for value in (each for each in self.values() if len(each) > _MIN_BEGUN):
            at = text.find(value[:_MIN_BEGUN], max(0, len(text) - len(value) + 1))
            while 0 <= at < begun and not value.startswith(text[at:]):
                at = text.find(value[:_MIN_BEGUN], at + 1)
            if 0 <= at < begun:
                begun = at
        return begun

    def _is_named(self, text: str, names: tuple[str, ...]) -> bool:
        """Return whether a string is secret for its name or its path: ``secrets/openai``."""
        if hides_parameter(names[-1], text, self.more):
            return True
        is_held = any(map(holds_secrets, names[:-1])) and not is_plain_fact(names[-1])
        return is_held and not is_empty(text) and not is_harmless(text)

    def _json(self, value: Any, names: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return self.text(value, *names)
        if isinstance(value, dict):
            return {
                key: self._json(each, (*names, _beside(value, str(key))))
                for key, each in value.items()
            }
        if not isinstance(value, list):
            return value
        words = [each for each in value if isinstance(each, str)]
        if self.masked and len(words) == len(value) and any(map(_OPTION.match, words)):
            return self.arguments(words)
        return [self._json(each, names) for each in value]

    def _without_known(self, text: str) -> str:
        for value in self.known:
            text = text.replace(value, MASK)
        return text


_seen: dict[More, tuple[dict[Any, Any], set[str]]] = {}


def _values_of_environment(more: More) -> set[str]:
    """Return the values of secret variables as they are now; names are looked at once.

    A string that is logged at every step should not cost a look at every variable: where Python
    keeps them as they are, comparing all of them takes a microsecond.
    """
    kept = getattr(os.environ, "_data", None)
    if not isinstance(kept, dict):
        return secret_values(os.environ, more)
    found = _seen.get(more)
    if found is None or found[0] != kept:
        found = _seen[more] = (dict(kept), secret_values(os.environ, more))
    return found[1]


def _names_of(path: str, atoms: Mapping[str, Atom]) -> tuple[str, ...]:
    """Return the parts of a path, the last one replaced by a name recorded beside it."""
    above, _, last = path.rpartition("/")
    if last in ("key", "value"):
        named = {each: atoms.get(f"{above}/{each}") for each in ("name", "key", "username")}
        beside = {each: atom.value for each, atom in named.items() if atom is not None}
        last = _beside(beside, last)
    return (*above.split("/"), last)


def _beside(values: Mapping[str, Any], key: str) -> str:
    """Return what a member of a mapping is called, where others of it say so.

    In ``{"name": "DB_PASSWORD", "value": "X"}`` they do, and where Kaggle writes a token:
    ``{"username": "me", "key": "X"}``.
    """
    if key == "key" and "username" in values and _HEX_KEY.fullmatch(str(values.get(key))):
        return "api_key"
    name = values.get("name", values.get("key")) if key == "value" else key
    return name if isinstance(name, str) else key
