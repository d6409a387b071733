"""Masking of tokens, keys, passwords and other secrets before anything is recorded.

Not every secret can be recognized. The rules mask too much rather than too little: a value that is
masked by mistake can be found elsewhere, but a recorded secret cannot be withdrawn. A secret is
recognized by:

=============  ===============================================================================
its name       ``--api-key X``, ``--api-key=X``, ``+logger.token=X``, ``{"password": "X"}``,
               ``-p X``
its place      ``scheme://user:X@host``, ``Authorization: Bearer X``, ``--user name:X``
its shape      ``ghp_...``, ``hf_...``, ``sk-...``, ``AKIA...``, ``eyJ...``, PEM private keys
a variable     the value of ``NEPTUNE_API_TOKEN``, ``AWS_SECRET_ACCESS_KEY`` or another variable
               with the name of a secret; it is masked everywhere
=============  ===============================================================================

Values of similar names (``--max-tokens 512``, ``--pad-token "<pad>"``, ``--key-dim 64``) are not
masked.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from seamark.capture.secrets.code import Change, Code, apply_changes, closing_quotes
from seamark.capture.secrets.names import (
    NO_USER_RULES,
    Level,
    UserRules,
    is_empty,
    is_plain,
    is_random,
    may_name,
    should_mask,
)
from seamark.capture.secrets.shapes import (
    MASK,
    USER_INFO,
    mask_commands,
    mask_credentials,
    mask_keys,
    mask_known,
    mask_shapes,
    mask_tokens,
    may_hold_shape,
    secret_values,
)
from seamark.capture.secrets.text import TextParser, mask_named

__all__ = [
    "MASK",
    "bare_url",
    "mask_arguments",
    "mask_code",
    "mask_file",
    "mask_secrets",
    "mask_value",
    "should_mask_parameter",
]

_MAX_MASKED_CHARS: Final = 1 << 18
_MAX_URL_CHARS: Final = 4096
_RANDOM_CHARS: Final = 32


def should_mask_parameter(name: str, value: str, rules: UserRules = NO_USER_RULES) -> bool:
    """Return whether the value of a parameter is masked because of its name.

    Args:
        name: Last part of the path.
        value: A string; other values are never masked.
        rules: Additional rules of the user.
    """
    name_level = rules.level(name)
    is_folder = name_level is Level.SURE and name.lower().endswith("pwd") and value.startswith("/")
    return should_mask(name_level, value, text=True) and not (is_empty(value) or is_folder)


# --------------------------------------------------------------------- text

_TRACEBACK_CODE: Final = re.compile(
    r"^([ \t|+]{0,64}File \"[^\"\r\n]{1,4096}\", line \d{1,9}[^\r\n]*\r?\n)"
    r"((?: {4}[^\r\n]*(?:\r?\n|\Z)){1,64})",
    re.MULTILINE,
)


def mask_secrets(
    text: str,
    *,
    known: Iterable[str] = (),
    rules: UserRules = NO_USER_RULES,
) -> str:
    """Return a message in which values that look like secrets are replaced by `MASK`.

    The time is proportional to the length of any text. The middle of a text of more than 256 Ki
    characters is left out, because the message of an error may contain a whole tensor. The
    arguments are those of `mask_value`.
    """
    return mask_value(_shorten(mask_known(text, known, rules)), rules=rules)


def mask_value(
    text: str,
    *,
    known: Iterable[str] = (),
    rules: UserRules = NO_USER_RULES,
) -> str:
    """Return a text with secrets masked: a sentence, a configuration, a command, a log.

    Lines of code in a traceback are masked as code.

    Args:
        text: The text.
        known: Values that are masked everywhere, such as those of secret environment variables.
        rules: Additional rules of the user.

    Returns:
        The text with the recognized secrets masked; unchanged if there are none.
    """
    text = mask_shapes(mask_known(text, known, rules))
    if not (rules.names or may_name(text)):
        return text
    parts = _TRACEBACK_CODE.split(text) if 'File "' in text else [text]
    inner = functools.partial(_mask_literal, rules=rules)
    for at, part in enumerate(parts):
        if at % 3 == 2:  # noqa: PLR2004 - text, place, code
            parts[at] = apply_changes(part, Code(part, rules, inner).changes())
        else:
            parts[at] = mask_named(mask_credentials(part), rules)
    return "".join(parts)


def _shorten(text: str) -> str:
    """Leave out the middle of a huge text; cut at white space, so that no secret is split."""
    if len(text) <= _MAX_MASKED_CHARS:
        return text
    head = "".join(text[: _MAX_MASKED_CHARS // 2].rsplit(None, 1)[:1])
    tail = text[-_MAX_MASKED_CHARS // 2 :].partition("\n")[2]
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def bare_url(url: str) -> str:
    """Return the URL of a repository without user, password, token, query and fragment.

    Accepts URLs (``https://user:token@host/x``), scp-like addresses (``git@host:org/repo``), remote
    helpers (``ext::https://token@host/x``), and paths, which are returned unchanged.
    """
    url = url[:_MAX_URL_CHARS]
    if "://" in url:
        url = USER_INFO.sub(lambda found: found[1] or found[2], url)
        url = re.split(r"[?#]", url, maxsplit=1)[0]
    elif found := re.fullmatch(r"[^\s]*@(?P<host>\[[^\]\s]+\]|[^\s@:/\[\]]+):(?P<path>.*)", url):
        url = f"{found['host']}:{found['path']}"
    return mask_secrets(url, known=secret_values(os.environ))


# --------------------------------------------------------------------- files

_Pace: TypeAlias = Callable[[Iterator[Change]], Iterator[Change]]

# Placeholders and escaped line ends within a literal.
_FORMAT_FIELD: Final = re.compile(
    r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]{0,200}\}){0,1000}\}|[{}]|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]"
    r"|(?<!\\)\\[nr])"
)
_PLAIN_FIELD: Final = re.compile(
    r"(\{[\w.\[\]]{0,80}(?:![rsa])?(?::[^{}\"'\s]{0,20})?\}|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]\b"
    r"|(?<!\\)\\[nr])"
)
_PGPASS: Final = re.compile(
    r"^((?:[^:\n\\#]|\\.){1,256}(?::(?:[^:\n\\]|\\.){1,256}){3}:).+$", re.MULTILINE
)
_PROSE_SUFFIX: Final = re.compile(r"\.(?:md|rst|txt|html?|tex|adoc|csv|tsv|svg)\Z")


def mask_code(
    text: str,
    *,
    known: Iterable[str] = (),
    rules: UserRules = NO_USER_RULES,
    name: str = "",
    is_middle: bool = False,
    pace: _Pace = iter,
) -> str:
    """Return source code with the secrets in its literals and comments masked.

    Nothing else is changed, except known values and shapes, and the number of lines stays the same,
    so that the code can be run again.

    Args:
        text: The code.
        known: Values that are masked everywhere.
        rules: Additional rules of the user; their patterns also apply everywhere.
        name: Name of the file, which determines the language; empty for Python.
        is_middle: Whether the text may begin in the middle of a literal.
        pace: Function that yields the changes with pauses between them.
    """
    text = mask_keys(mask_known(text, known, rules, by_line=True))
    code = Code(text, rules, functools.partial(_mask_literal, rules=rules), name)
    parts: list[str] = []
    done = 0
    has_shapes = may_hold_shape(text)
    for start, end, new in pace(code.changes(closing_quotes(text) if is_middle else "")):
        rest = text[done:start]
        parts += [mask_tokens(rest, by_line=True) if has_shapes else rest, new]
        done = end
    return "".join(parts) + mask_tokens(text[done:], by_line=True)


def _mask_literal(text: str, prefix: str, *, rules: UserRules) -> str:
    """Return a literal or comment with secrets masked; a comment has the prefix ``#``."""
    is_prose = prefix == "#" or "\n" in text
    fields = _FORMAT_FIELD if "f" in prefix else _PLAIN_FIELD
    parts = [text] if prefix == "#" else fields.split(text)
    for at in range(0, len(parts), 2):
        part = mask_credentials(mask_shapes(mask_commands(parts[at]), by_line=True))
        parts[at] = mask_named(part, rules, is_prose=is_prose)
    return "".join(parts)


def mask_file(
    text: str,
    *,
    known: Iterable[str] = (),
    rules: UserRules = NO_USER_RULES,
    name: str = "",
    pace: _Pace = iter,
) -> str:
    """Return a text file other than code with secrets masked; the number of lines is unchanged.

    Args:
        text: Content of the file.
        known: As in `mask_code`.
        rules: As in `mask_code`.
        name: Name of the file.
        pace: As in `mask_code`.
    """
    text = mask_shapes(mask_known(text, known, rules, by_line=True), by_line=True)
    text = mask_credentials(mask_commands(text))
    if "pgpass" in name.lower():
        text = _PGPASS.sub(rf"\1{MASK}", text)
    is_prose = _PROSE_SUFFIX.search(name.lower()) is not None
    parser = TextParser(text, rules, is_file=True, is_prose=is_prose)
    return apply_changes(text, pace(parser.changes()))


# --------------------------------------------------------------------- command lines

_OPTION: Final = re.compile(
    r"(?:--?|/(?=[\w.-]{1,120}:))(?P<name>[A-Za-z][\w.-]*)(?:(?P<sep>[=:])(?P<value>.*))?",
    re.DOTALL,
)
_OVERRIDE: Final = re.compile(
    r"(?P<name>[+~]{0,2}[A-Za-z_][\w./@-]*)(?P<sep>:?=)(?P<value>.*)", re.DOTALL
)
_USER_OPTIONS: Final = frozenset({"u", "user", "username", "login"})


def mask_arguments(
    arguments: Sequence[str],
    *,
    known: Collection[str] = (),
    rules: UserRules = NO_USER_RULES,
) -> list[str]:
    """Return command-line arguments in which values that look like secrets are `MASK`.

    Args:
        arguments: As in ``sys.argv[1:]``.
        known: As in `mask_secrets`.
        rules: As in `mask_secrets`.

    Returns:
        The arguments in the same number and order.
    """
    return [
        mask_secrets(argument, known=known, rules=rules)
        for argument in _mask_option_values(arguments, rules)
    ]


def _mask_option_values(arguments: Sequence[str], rules: UserRules) -> Iterator[str]:
    """Yield arguments with the values of secret options masked."""
    pending = ""  # name of the option whose values follow
    for argument in arguments:
        if pending and not _is_option(argument, rules.level(pending)):
            yield _mask_value(pending, argument, rules)
            if not pending.endswith("s"):  # --tokens may have several values, --token has one
                pending = ""
        else:
            hidden, pending = _mask_argument(argument, rules)
            yield hidden


def _is_option(argument: str, pending: Level) -> bool:
    """Return whether an argument is the next option, not a value of the pending one."""
    if pending is Level.SURE:
        return bool(re.match(r"--([A-Za-z]|\Z)|-[A-Za-z]\Z", argument))
    return bool(re.match(r"--?[A-Za-z]|--\Z", argument))


def _mask_argument(argument: str, rules: UserRules) -> tuple[str, str]:
    """Return the masked argument, and the name of the option whose value follows."""
    found = _OPTION.fullmatch(argument) or _OVERRIDE.fullmatch(argument)
    if found is None:
        return (MASK if is_random(argument, _RANDOM_CHARS) else argument), ""
    name, value = found["name"], found["value"]
    if value is not None:
        masked = _mask_value(name, value, rules)
        return (argument if masked == value else argument[: found.start("value")] + masked), ""
    if (
        re.match(r"-[pP].", argument)
        and rules.level(name) is Level.NO
        and not is_plain(argument[2:])
    ):
        return argument[:2] + MASK, ""  # -pPASSWORD of mysql, not -precision
    return argument, name


def _mask_value(name: str, value: str, rules: UserRules) -> str:
    if value and should_mask(rules.level(name), value, text=False):
        return MASK
    if name in ("p", "P") and not is_plain(value):
        return MASK  # a password, port or project; numbers and words are not masked
    last = name.rsplit(".", 1)[-1].lower()
    if (
        last in _USER_OPTIONS
        and re.fullmatch(r"[^:/\s]+:.+", value)
        and not re.fullmatch(r"\d+:\d+", value)
    ):
        return f"{value.split(':', 1)[0]}:{MASK}"
    return MASK if is_random(value, _RANDOM_CHARS) else value
