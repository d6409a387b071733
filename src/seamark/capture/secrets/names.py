"""Likelihood that a value is a secret, judged by its name.

The last whole words of a name count: ``token`` and ``api_key`` are secret names, ``tokenizer`` and
``num_tokens`` are not.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PASSWORD: Final = re.compile(r"(?:passw(?:or)?d|passphrase|pwd)\d?\Z", re.IGNORECASE)
"""Names of secrets whose values may have several words."""


class Level(enum.IntEnum):
    """Likelihood that a value is a secret."""

    NO = 0
    WEAK = 1  # key: like LIKELY on a command line, elsewhere only for random values
    LIKELY = 2  # auth, pass: unless the value is a number or similar
    SURE = 3  # password, token, api_key: always


def _split_words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WEAK_ENDINGS: Final = frozenset({"pat", "sig", "signature"})
_PLAIN_PASSES: Final = _split_words(
    "askpass bandpass bypass compass highpass lowpass multipass overpass singlepass surpass"
)
_KEY_KINDS: Final = _split_words(
    "account app application client consumer crypto decryption license master personal "
    "security service shared ssh storage subscription wandb write "
)
_PLAIN_KEYS: Final = _split_words(
    "batch cache column data dict feature field foreign group image img input join label loss "
    "metric monitor n num output partition primary query sort state target "
)
_PLAIN_TOKENS: Final = _split_words(
    "additional answer assistant audio begin blank boi bos class cls decoder delimiter end eod "
    "eoi eos eot extra first image initializer input instance lang language last mask max min n "
    "newline num object output pad placeholder prefix prompt register sep separator sos special "
    "src start stop suffix task tgt time tool trigger unk video vision vocab word "
)
_HARMLESS: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|true|false|none|null|yes|no|on|off|auto|min|max|",
    re.IGNORECASE,
)

_ENDINGS: Final = re.compile(
    r"\w*(?:passw(?:or)?d|passphrase|secret)s?|password\d|passcodes?|pswd|credentials?|creds?|jwts?"
    r"|pwd|pw|otp|authorization|bearer|cookies?|\w*token"
    r"|(?:access|api|auth|encryption|private|secret|signing)keys?"
)
_STEM: Final = re.compile(
    "auth|basic|bearer|cookie|cred|digest|jwt|key|otp|pass|pat|pswd|pw|secret|sig|token|webhook"
)
"""Stems of names with a level (``SECRET_KEY``) and of credential schemes."""
_SECRET_KEYS: Final = (
    _split_words("access api auth encryption private secret signing ") | _KEY_KINDS
)
_SECRET_TOKENS: Final = _split_words(
    "access api auth bearer bot csrf deploy hf oauth refresh session user"
)
_NEUTRAL_ENDINGS: Final = _split_words("hash header hex plain plaintext string value")
_PLACEHOLDERS: Final = re.compile(
    r"true|false|none|null|yes|no|on|off|auto||\*+|\$\{[^{}]*\}|\{\{[^{}]*\}\}|anonymous|"
    r"(?:my|your)[_ -](?:[a-z]{1,20}[_ -]){0,3}(?:key|password|secret|token)(?:[_ -]here)?",
    re.IGNORECASE,
)
"""Placeholders that are not secrets, including those of Neptune's examples: ``YOUR_API_TOKEN``."""
_COMMON_VALUES: Final = _split_words(
    "anonymous changeit changeme default dummy dummy-key empty example fake-key localhost "
    "minioadmin no-key not-needed not-required not-used notneeded none ollama password placeholder "
    "postgres root sk-no-key-required secret test test-key testing your-api-key your_api_key xxxxxx"
)
_PLAIN: Final = re.compile(r"(?:no:)?[a-z]{1,20}(?:[_./-][a-z]{1,20}){0,8}")
_MIN_RANDOM_LETTERS: Final = 10
_MARKER: Final = re.compile(r"<[^<>\s]{0,64}>|\[[^\[\]\s]{0,64}\]")
_FACT_NAMES: Final = _split_words(
    "config dir directory email file folder home host hostname kind login name path port provider "
    "region root scheme type user username"
)


@functools.lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name[-256:]))


def plain_name(name: str) -> str:
    """Return a name in normal form for comparison: ``patientId`` becomes ``patient id``."""
    return " ".join(_words(name))


@functools.lru_cache(maxsize=4096)
def level(name: str) -> Level:
    """Return the level of a name; only the last part of a dotted name counts."""
    words = list(_words(name.rpartition(".")[2]))
    if words[-3:] == ["access", "key", "id"]:
        words.pop()
    while len(words) > 1 and (words[-1] in _NEUTRAL_ENDINGS or words[-1].isdigit()):
        words.pop()
    if not words:
        return Level.NO
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("token", "tokens") and before in _PLAIN_TOKENS:
        return Level.NO
    if _ENDINGS.fullmatch(last) or (last in ("webhook", "url") and "webhook" in (last, before)):
        return Level.SURE
    if last in ("key", "keys") and before not in _PLAIN_KEYS:
        return Level.SURE if before in _SECRET_KEYS else Level.WEAK
    if last == "tokens":
        return Level.SURE if before in _SECRET_TOKENS else Level.WEAK
    if last == "authentication" or (last.endswith(("auth", "pass")) and last not in _PLAIN_PASSES):
        return Level.LIKELY
    return Level.WEAK if last in _WEAK_ENDINGS else Level.NO


@dataclass(frozen=True, slots=True)
class UserRules:
    """Names and patterns of secrets that the user adds to the built-in rules.

    Attributes:
        names: Names of parameters, options and variables, in the form of `plain_name`.
        patterns: Patterns whose matches are masked in every text.
    """

    names: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def level(self, name: str) -> Level:
        """Return the level of the name of a parameter, option, variable or word in a message."""
        return Level.SURE if self.is_declared(name) else level(name)

    def holds(self, name: str) -> bool:
        """Return whether the values in brackets after a name are secret."""
        return self.level(name) is Level.SURE or holds_secrets(name)

    def is_declared(self, name: str) -> bool:
        """Return whether the user declared the name."""
        return bool(self.names) and not self.names.isdisjoint(
            (plain_name(name), plain_name(name.rpartition(".")[2]))
        )


NO_USER_RULES: Final = UserRules()


def may_name(text: str) -> bool:
    """Return False only if no name in a text has a level."""
    return _STEM.search(text.lower()) is not None


def name_positions(text: str) -> Iterator[int]:
    """Yield the positions of stems of names that may have a level, in order."""
    lower = text.replace("\u0130", "i").lower()  # the only letter that would become two
    return (found.start() for found in _STEM.finditer(lower))


@functools.lru_cache(maxsize=4096)
def holds_secrets(name: str) -> bool:
    """Return whether all values below a name are secret: ``secrets``, ``api_keys``, ``tokens``.

    This is not the case for ``special_tokens`` and ``num_tokens``.
    """
    words = _words(name)
    if words == ("tokens",):
        return True
    return words[-1:] == ("secret",) or (
        "".join(words[-1:]).endswith("s") and level(name) is Level.SURE
    )


def is_plain_fact(name: str) -> bool:
    """Return whether a name below a secret name describes a harmless fact, such as the host."""
    last = _words(name)[-1:]
    return not _FACT_NAMES.isdisjoint(last) or not _PLAIN_TOKENS.isdisjoint(last)


def is_harmless(value: str) -> bool:
    """Return whether a value is a number, a switch or empty."""
    return _HARMLESS.fullmatch(value) is not None


def is_plain(value: str) -> bool:
    """Return whether a value is harmless, or consists of lower-case words.

    Examples are ``image``, ``user_id``, and pytest's ``no:cacheprovider``.
    """
    return is_harmless(value) or _PLAIN.fullmatch(value) is not None


def is_ordinary(value: str) -> bool:
    """Return whether the value of a variable is an ordinary word, such as a default."""
    return value.lower() in _COMMON_VALUES or (
        len(value) < _MIN_RANDOM_LETTERS and value.isascii() and value.isalpha() and value.islower()
    )


def is_empty(value: str) -> bool:
    """Return whether a value is a placeholder: a switch, a marker like ``<pad>``, ``${...}``."""
    return bool(_PLACEHOLDERS.fullmatch(value) or _MARKER.fullmatch(value))


_CHARACTER_KINDS: Final = re.compile(r"[A-Z]+|[a-z]+|[0-9]+|[+/_-]+")
_RANDOM_TEXT: Final = re.compile(r"[A-Za-z0-9+/_-]+=*")


def is_random(value: str, at_least: int = 16) -> bool:
    """Return whether a value looks random: three kinds of characters that alternate frequently."""
    if len(value) < at_least or not _RANDOM_TEXT.fullmatch(value):
        return False
    stripped = value.rstrip("=")
    kinds = _CHARACTER_KINDS.findall(stripped)
    others = sum(len(kind) for kind in kinds if not kind.isalnum())
    return (
        any(kind.isupper() for kind in kinds)
        and any(kind.islower() for kind in kinds)
        and any(kind.isdigit() for kind in kinds)
        and others <= len(stripped) // 12
        and (len(kinds) - 1) * 3 >= len(stripped)
    )


def should_mask(name_level: Level, value: str, *, text: bool) -> bool:
    """Return whether a value is masked because of its name.

    Args:
        name_level: Level of the name.
        value: The value.
        text: Whether it is part of a text, in which ``key`` has many other meanings.
    """
    if name_level is Level.SURE or name_level is Level.NO:
        return name_level is Level.SURE
    if name_level is Level.WEAK:
        return is_random(value) if text else not is_plain(value)
    return not is_harmless(value)
