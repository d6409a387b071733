"""Masking of tokens, keys, passwords and other secrets before anything is recorded.

There is no way to know every secret. The rules here rather hide too much: a value that was hidden
by mistake can be looked up elsewhere, one that was kept cannot be taken back. Four things give a
secret away:

=============  ===============================================================================
its name       ``--api-key X``, ``--api-key=X``, ``+logger.token=X``, ``{"password": "X"}``,
               ``-p X``
its place      ``scheme://user:X@host``, ``Authorization: Bearer X``, ``--user name:X``
its shape      ``ghp_...``, ``hf_...``, ``sk-...``, ``AKIA...``, ``eyJ...``, PEM private keys
a variable     the value of ``NEPTUNE_API_TOKEN``, ``AWS_SECRET_ACCESS_KEY`` and whatever else
               in the environment is named like a secret, wherever that value turns up
=============  ===============================================================================

Names that only look like it (``--max-tokens 512``, ``--pad-token "<pad>"``, ``--key-dim 64``) keep
their values.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from seamark.capture.secrets.code import Change, Code, quotes_within, replaced
from seamark.capture.secrets.names import (
    MORE_NONE,
    Level,
    More,
    hides,
    is_empty,
    is_plain,
    is_random,
    may_name,
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
from seamark.capture.secrets.text import mask_named, named_changes

__all__ = [
    "MASK",
    "bare_url",
    "hides_parameter",
    "mask_arguments",
    "mask_code",
    "mask_file",
    "mask_secrets",
    "mask_value",
]

_MAX_MASKED_CHARS: Final = 1 << 18
_MAX_URL: Final = 4096
_RANDOM_CHARS: Final = 32


def hides_parameter(name: str, value: str, more: More = MORE_NONE) -> bool:
    """Return whether the value of a parameter is hidden for its name.

    Args:
        name: The last part of its path.
        value: A string; other values are never hidden.
        more: Additional rules of the user.
    """
    name_level = more.level(name)
    is_folder = name_level is Level.SURE and name.lower().endswith("pwd") and value.startswith("/")
    return hides(name_level, value, text=True) and not (is_empty(value) or is_folder)


# --------------------------------------------------------------------- text

_SOURCE: Final = re.compile(
    r"^([ \t|+]{0,64}File \"[^\"\r\n]{1,4096}\", line \d{1,9}[^\r\n]*\r?\n)"
    r"((?: {4}[^\r\n]*(?:\r?\n|\Z)){1,64})",
    re.MULTILINE,
)


def _known(
    environment: Mapping[str, str] | None, known: Iterable[str], more: More = MORE_NONE
) -> set[str]:
    return secret_values(os.environ if environment is None else environment, more).union(known)


def mask_secrets(
    text: str,
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
) -> str:
    """Return a message with everything that looks like a secret replaced by `MASK`.

    Takes time in proportion to the length of the text, whatever stands in it. Above 256 Ki
    characters its middle is left out, so that an error that carries a whole tensor costs nothing.
    The arguments are those of `mask_value`.
    """
    text = mask_known(text, _known(environment, known, more), more)
    return mask_value(_shortened(text), environment={}, more=more)


def mask_value(
    text: str,
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
) -> str:
    """Return a text without the secrets in it: a sentence, a configuration, a command, a log.

    Lines of code in a traceback are masked as code.

    Args:
        text: The text.
        environment: Where variables that are named like secrets are looked up; ``os.environ`` if
            left out.
        known: Further values to hide wherever they turn up, such as a token that was given as an
            argument.
        more: Additional rules of the user.

    Returns:
        The text without the secrets that could be recognised; unchanged if there are none.
    """
    text = mask_shapes(mask_known(text, _known(environment, known, more), more))
    if not (more.names or may_name(text)):
        return text
    parts = _SOURCE.split(text) if 'File "' in text else [text]
    inner = functools.partial(_mask_literal, more=more)
    for at, part in enumerate(parts):
        if at % 3 == 2:  # noqa: PLR2004 - text, place, code
            parts[at] = replaced(part, Code(part, more, inner).changes())
        else:
            parts[at] = mask_named(mask_credentials(part), more)
    return "".join(parts)


def _shortened(text: str) -> str:
    """Leave out the middle of a huge text; cut at white space, so as to cut no secret in two."""
    if len(text) <= _MAX_MASKED_CHARS:
        return text
    head = "".join(text[: _MAX_MASKED_CHARS // 2].rsplit(None, 1)[:1])
    tail = text[-_MAX_MASKED_CHARS // 2 :].partition("\n")[2]
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def bare_url(url: str) -> str:
    """Return a repository's address without user, password, token, query and fragment.

    Takes URLs (``https://user:token@host/x``), scp-like addresses (``git@host:org/repo``), remote
    helpers (``ext::https://token@host/x``), and paths, which are given back as they are.
    """
    url = url[:_MAX_URL]
    if "://" in url:
        url = USER_INFO.sub(lambda found: found[1] or found[2], url)
        url = re.split(r"[?#]", url, maxsplit=1)[0]
    elif found := re.fullmatch(r"[^\s]*@(?P<host>\[[^\]\s]+\]|[^\s@:/\[\]]+):(?P<path>.*)", url):
        url = f"{found['host']}:{found['path']}"
    return mask_secrets(url)


# --------------------------------------------------------------------- files

_Pace: TypeAlias = Callable[[Iterator[Change]], Iterator[Change]]

# Within a literal: what is filled in, and ends of lines as they are written.
_FIELD: Final = re.compile(
    r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]{0,200}\}){0,1000}\}|[{}]|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]"
    r"|(?<!\\)\\[nr])"
)
_FILLED_IN: Final = re.compile(
    r"(\{[\w.\[\]]{0,80}(?:![rsa])?(?::[^{}\"'\s]{0,20})?\}|%\(\w{1,80}\)[-\d.]*[a-z]|%[sdrif]\b"
    r"|(?<!\\)\\[nr])"
)
_PGPASS: Final = re.compile(
    r"^((?:[^:\n\\#]|\\.){1,256}(?::(?:[^:\n\\]|\\.){1,256}){3}:).+$", re.MULTILINE
)
_PROSE: Final = re.compile(r"\.(?:md|rst|txt|html?|tex|adoc|csv|tsv|svg)\Z")


def mask_code(
    text: str,
    *,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
    name: str = "",
    is_middle: bool = False,
    pace: _Pace = iter,
) -> str:
    """Return source code with secrets in its literals and comments hidden.

    Code that is kept is to be run again: nothing else is changed, but for known values and shapes,
    and there are as many lines as before.

    Args:
        text: The code.
        known: Values that are hidden wherever they stand; the environment is not looked at.
        more: What a person says is a secret; its expressions count everywhere, too.
        name: Of the file, which tells the language; Python without.
        is_middle: Whether the text may begin in the middle of a literal.
        pace: Goes through what is found, and rests in between.
    """
    text = mask_keys(mask_known(text, known, more, by_line=True))
    code = Code(text, more, functools.partial(_mask_literal, more=more), name)
    parts: list[str] = []
    done = 0
    has_shapes = may_hold_shape(text)
    for start, end, new in pace(code.changes(quotes_within(text) if is_middle else "")):
        rest = text[done:start]
        parts += [mask_tokens(rest, by_line=True) if has_shapes else rest, new]
        done = end
    return "".join(parts) + mask_tokens(text[done:], by_line=True)


def _mask_literal(text: str, prefix: str, *, more: More) -> str:
    """Return a literal or a comment without the secrets in it; ``#`` is a comment's prefix."""
    is_prose = prefix == "#" or "\n" in text
    filled_in = _FIELD if "f" in prefix else _FILLED_IN
    parts = [text] if prefix == "#" else filled_in.split(text)
    for at in range(0, len(parts), 2):
        part = mask_credentials(mask_shapes(mask_commands(parts[at]), by_line=True))
        parts[at] = mask_named(part, more, is_prose=is_prose)
    return "".join(parts)


def mask_file(
    text: str,
    *,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
    name: str = "",
    pace: _Pace = iter,
) -> str:
    """Return a file that is no code without secrets, with as many lines.

    Args:
        text: What is in it.
        known: As in `mask_code`.
        more: As in `mask_code`.
        name: Of the file.
        pace: As in `mask_code`.
    """
    text = mask_shapes(mask_known(text, known, more, by_line=True), by_line=True)
    text = mask_credentials(mask_commands(text))
    if "pgpass" in name.lower():
        text = _PGPASS.sub(rf"\1{MASK}", text)
    if not (more.names or may_name(text)):
        return text
    is_prose = _PROSE.search(name.lower()) is not None
    changes = named_changes(text, more, is_file=True, is_prose=is_prose)
    return replaced(text, pace(changes))


# --------------------------------------------------------------------- command lines

_OPTION: Final = re.compile(
    r"(?:--?|/(?=[\w.-]{1,120}:))(?P<name>[A-Za-z][\w.-]*)(?:(?P<sep>[=:])(?P<value>.*))?",
    re.DOTALL,
)
_OVERRIDE: Final = re.compile(
    r"(?P<name>[+~]{0,2}[A-Za-z_][\w./@-]*)(?P<sep>:?=)(?P<value>.*)", re.DOTALL
)
_USERS: Final = frozenset({"u", "user", "username", "login"})


def mask_arguments(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
) -> list[str]:
    """Return command-line arguments with every value that looks like a secret replaced by `MASK`.

    Args:
        arguments: As in ``sys.argv[1:]``.
        environment: As in `mask_secrets`.
        known: As in `mask_secrets`.
        more: As in `mask_secrets`.

    Returns:
        As many arguments, in the same order.
    """
    known = [*known, *secret_values(os.environ if environment is None else environment, more)]
    return [
        mask_secrets(argument, environment={}, known=known, more=more)
        for argument in _without_values(arguments, more)
    ]


def _without_values(arguments: Sequence[str], more: More) -> Iterator[str]:
    """Yield arguments without the values that the names of options hide."""
    pending = ""  # the option whose value comes next, in the arguments that follow
    for argument in arguments:
        if pending and not _is_option(argument, more.level(pending)):
            yield _mask_value(pending, argument, more)
            if not pending.endswith("s"):  # --tokens may take several, --token takes one
                pending = ""
        else:
            hidden, pending = _mask_argument(argument, more)
            yield hidden


def _is_option(argument: str, pending: Level) -> bool:
    """Return whether an argument is the next option, and no value of the pending one."""
    if pending is Level.SURE:
        return bool(re.match(r"--([A-Za-z]|\Z)|-[A-Za-z]\Z", argument))
    return bool(re.match(r"--?[A-Za-z]|--\Z", argument))


def _mask_argument(argument: str, more: More) -> tuple[str, str]:
    """Return one argument, masked, and the name of the option whose value comes next."""
    found = _OPTION.fullmatch(argument) or _OVERRIDE.fullmatch(argument)
    if found is None:
        return (MASK if is_random(argument, _RANDOM_CHARS) else argument), ""
    name, value = found["name"], found["value"]
    if value is not None:
        masked = _mask_value(name, value, more)
        return (argument if masked == value else argument[: found.start("value")] + masked), ""
    if (
        re.match(r"-[pP].", argument)
        and more.level(name) is Level.NO
        and not is_plain(argument[2:])
    ):
        return argument[:2] + MASK, ""  # mysql's -pPASSWORD, not -precision
    return argument, name


def _mask_value(name: str, value: str, more: More) -> str:
    if value and hides(more.level(name), value, text=False):
        return MASK
    if name in ("p", "P") and not is_plain(value):
        return MASK  # a password as often as a port or a project; numbers and words stay
    last = name.rsplit(".", 1)[-1].lower()
    if (
        last in _USERS
        and re.fullmatch(r"[^:/\s]+:.+", value)
        and not re.fullmatch(r"\d+:\d+", value)
    ):
        return f"{value.split(':', 1)[0]}:{MASK}"
    return MASK if is_random(value, _RANDOM_CHARS) else value
