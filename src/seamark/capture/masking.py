"""What must not be kept: tokens, keys, passwords and secrets, masked before anything is recorded.

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

import enum
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["MASK", "bare_url", "mask_arguments", "mask_secrets", "mask_traceback"]

MASK: Final = "***"
"""What replaces a secret."""

_MIN_ENVIRONMENT_VALUE: Final = 6
_MIN_KNOWN_VALUE: Final = 4
_MAX_MASKED_CHARS: Final = 1 << 18
_RANDOM_CHARS: Final = 32
_RANDOM_KEY_CHARS: Final = 16
_MAX_WEAK_CHARS: Final = 200
_HIDDEN: Final = (MASK, *(f"{scheme} {MASK}" for scheme in ("Basic", "Bearer", "Digest", "Token")))

# --------------------------------------------------------------------- names


class _Level(enum.IntEnum):
    """How surely a value is a secret, judging by its name alone."""

    NO = 0
    WEAK = 1  # key: on a command line like LIKELY, elsewhere only if the value looks drawn
    LIKELY = 2  # auth, pass: unless the value is a number or the like
    SURE = 3  # password, token, api_key: always


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SURE: Final = re.compile(
    "passw(or)?d|passphrase|passcode|pswd|secret|credential"
    "|(api|access|private|auth|encryption|signing)key"
)
_SURE_WORDS: Final = frozenset({"authorization", "bearer", "cookie", "cred", "creds", "jwt", "pwd"})
_SURE_LAST: Final = frozenset({"otp", "pw"})
_LIKELY_LAST: Final = frozenset({"authentication"})
_WEAK_LAST: Final = frozenset({"pat", "sig", "signature"})
_OTHER_PASSES: Final = _set(
    "askpass bandpass bypass compass highpass lowpass multipass overpass singlepass surpass "
)
_KEY_KINDS: Final = _set(
    "account app application client consumer crypto decryption license master personal "
    "project security service session shared ssh storage subscription user wandb write "
)
_PLAIN_KEYS: Final = _set(
    "batch cache column data dict feature field foreign group image img input join label loss "
    "metric monitor n num output partition primary query sort state target "
)
_PLAIN_TOKENS: Final = _set(
    "additional bos class cls delimiter eod eos eot mask max min n num pad prompt sep special "
    "unk vocab word "
)
_CARRIERS: Final = frozenset(
    {"value", "string", "str", "header", "data", "text", "raw", "base", "b", "hex"}
)
_PLACES: Final = frozenset({"config", "dir", "directory", "file", "folder", "home", "path", "root"})
_WORKING_DIRECTORIES: Final = frozenset({"pwd", "oldpwd"})  # set by every shell, and no passwords
_HARMLESS: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|true|false|none|null|yes|no|on|off|auto|min|max|",
    re.IGNORECASE,
)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _level(name: str) -> _Level:
    words = _words(name)
    if _SURE.search("".join(words)) or not _SURE_WORDS.isdisjoint(words):
        return _Level.SURE
    while len(words) > 1 and (words[-1] in _CARRIERS or words[-1].isdigit()):
        words.pop()
    if not words:
        return _Level.NO
    return _level_of(words[-1], words[-2] if len(words) > 1 else "")


def _level_of(last: str, before: str) -> _Level:
    """Return the level of a name that ends with these two words; ``before`` is empty without it."""
    if last.endswith(("token", "tokens")) and before not in _PLAIN_TOKENS:
        return _Level.SURE if last.endswith("token") else _Level.WEAK
    if last.endswith(("key", "keys")) and before not in _PLAIN_KEYS:
        return _Level.SURE if before in _KEY_KINDS else _Level.WEAK
    if last in _SURE_LAST:
        return _Level.SURE
    if last in _LIKELY_LAST or (last.endswith(("auth", "pass")) and last not in _OTHER_PASSES):
        return _Level.LIKELY
    return _Level.WEAK if last in _WEAK_LAST else _Level.NO


def _hides(name: str, value: str, *, text: bool) -> bool:
    """Return whether ``value`` is hidden for its name; in a text, ``key`` names too many things."""
    level = _level(name)
    if level is _Level.SURE or level is _Level.NO:
        return level is _Level.SURE
    if text and level is _Level.WEAK:
        return _looks_random(value, _RANDOM_KEY_CHARS)
    return not _HARMLESS.fullmatch(value)


# --------------------------------------------------------------------- shapes

_SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{6,}|github_pat_\w{6,}|gl[a-z]{2,4}-(?=[\w-]{0,40}\d)[\w-]{12,}"
    r"|hf_(?=[A-Za-z0-9]{0,40}[A-Z0-9])[A-Za-z0-9]{6,}|api_org_[A-Za-z0-9]{12,}"
    r"|sk-(?=[\w-]{0,40}\d)[\w-]{10,}|[srp]k_(?:live|test)_\w{6,}|whsec_\w{6,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{12,}"
    r"|AIza[\w-]{20,}|ya29\.[\w.-]{10,}|GOCSPX-[\w-]{10,}"
    r"|eyJ[\w-]{6,}(?:\.[\w-]*){0,4}[\w+/=-]*"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}"
    r"|(?:dop|doo|dor)_v1_[0-9a-f]{16,}|dapi[0-9a-f]{24,}|glsa_\w{16,}"
    r"|gsk_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|wandb_v\d_\w{16,}"
    r"|lin_api_\w{16,}|tskey-[\w-]{12,}|SG\.[\w-]{12,}\.[\w-]{12,}"
    r"|hvs\.[\w-]{16,}|ATATT3[\w=-]{16,}|AGE-SECRET-KEY-1\w{16,}"
    r")",
    re.DOTALL,
)
_BEARER: Final = re.compile(r"\b(Bearer\s+)(?!\*)[\w.~+/=-]{6,}", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(
    r"((?:(?:proxy-)?authorization|(?:set-)?cookie)[\"']?\s*[:=]\s*[\"']?)"
    r"(?:(?P<scheme>basic|bearer|token|digest|apikey|negotiate)\s+)?[^\s\"'][^\"'\r\n]*",
    re.IGNORECASE,
)
# User info up to the last @ before the path, or, for passwords that hold a raw slash, up to the
# last @ at all where what follows the first colon is not a port.
_USER_INFO: Final = re.compile(
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#\"'<>@]*@)+"
    r"|(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/?#\"'<>:@]{0,256}"
    r":(?!\d{1,5}(?:[/?#\s\"']|\Z))[^\s\"'<>]{0,256}@",
    re.IGNORECASE,
)
# name = value, name: value, "name": "value"; the name starts where a word starts, which keeps the
# search linear.
_NAMED: Final = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,120})\\?[\"']?\]?\s{0,4}(?:=>|:=|=|:)\s{0,4}"
)
# --name value, and the same in a printed list: '--name', 'value'.
_OPTION_IN_TEXT: Final = re.compile(
    r"(?<![\w-])--?([A-Za-z][\w.-]{0,120})(?:[\"'],\s{0,4}(?=[\"'][^-])|\s{1,4}(?=[^\s\"'-]))"
)
_QUOTED: Final = re.compile(
    r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\?[\"'])"
    r"(?P<value>(?:(?!(?P=quote))\\.|(?!(?P=quote)).)*)(?P=quote)",
    re.DOTALL,
)
_BRACKETED: Final = re.compile(r"[\[({](?P<value>[^\])}]{0,4096})[\])}]")
_UNCLOSED: Final = re.compile(r"\\?[\"'](?P<value>[^\r\n]+)")
_BARE: Final = re.compile(r"(?P<value>[^\s\"']+)")


def _looks_random(value: str, at_least: int) -> bool:
    """Return whether ``value`` reads like drawn characters: three kinds, changing all the time."""
    if len(value) < at_least or not re.fullmatch(r"[A-Za-z0-9+/_=-]+", value):
        return False
    kinds = [
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else "-"
        for c in value.rstrip("=")
    ]
    changes = sum(one != two for one, two in itertools.pairwise(kinds))
    return (
        {"A", "a", "0"} <= set(kinds)
        and kinds.count("-") <= len(kinds) // 12
        and changes * 3 >= len(kinds)
    )


def _mask_named(text: str, names: re.Pattern[str], *, code: bool) -> str:
    """Hide what follows each secret-looking name that ``names`` finds.

    The search continues inside what is not hidden: ``cfg={token:X}`` holds a second name.
    """
    parts: list[str] = []
    done = 0
    while found := names.search(text, done):
        end = found.end()
        parts.append(text[done:end])
        done = end
        seen = _value_at(text, end, _level(found[1]), code=code)
        if seen is None or not _hides(found[1], seen["value"], text=True):
            continue
        if (value := _value_at(text, end, _Level.SURE, code=code)) is not None:  # all of it
            parts += [text[end : value.start("value")], MASK]
            done = value.start("value") + _length(value)
    return "".join(parts) + text[done:]


def _value_at(text: str, start: int, level: _Level, *, code: bool) -> re.Match[str] | None:
    """Return the value that starts there, or None if it is none that may have to be hidden.

    In code, what is not quoted is an expression.
    """
    if level is _Level.NO:
        return None
    stop = start + _MAX_WEAK_CHARS if level is _Level.WEAK else len(text)
    value = _QUOTED.match(text, start, stop) or _BRACKETED.match(text, start, stop)
    if value is None and not code:
        value = _UNCLOSED.match(text, start, stop) or _BARE.match(text, start, stop)
    hidden = value is None or not value["value"] or value["value"].startswith(_HIDDEN)
    return None if hidden else value


def _length(value: re.Match[str]) -> int:
    """Return how much of a value is hidden: not the punctuation that ends an unquoted one."""
    if value.re is not _BARE:
        return len(value["value"])
    return len(value["value"].rstrip(",;)}]")) or len(value["value"])


# --------------------------------------------------------------------- text


def _secret_values(environment: Mapping[str, str]) -> set[str]:
    """Return the values of the environment variables whose names look secret."""
    return {value for name, value in environment.items() if _is_secret_variable(name, value)}


def _is_secret_variable(name: str, value: str) -> bool:
    if (
        len(value) < _MIN_ENVIRONMENT_VALUE
        or name.lower() in _WORKING_DIRECTORIES
        or _HARMLESS.fullmatch(value)
    ):
        return False
    if not _PLACES.isdisjoint(_words(name)[-1:]):
        return False  # PASSWORD_STORE_DIR is a place, and stands in half of all tracebacks
    level = _level(name)
    return level >= _Level.LIKELY or (level is _Level.WEAK and any(c.isdigit() for c in value))


def mask_secrets(
    text: str,
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    code: bool = False,
) -> str:
    """Return ``text`` with everything that looks like a secret replaced by `MASK`.

    Args:
        text: Any text: a message, an argument, a URL, a line of a log. Above 256 Ki characters its
            middle is left out, so that an error that carries a whole tensor costs nothing.
        environment: Where variables that are named like secrets are looked up; ``os.environ`` if
            left out.
        known: Further values to hide wherever they turn up, such as a token that was given as an
            argument.
        code: The text is source code: what is assigned to a secret-looking name is hidden only if
            it is a literal.

    Returns:
        The text without the secrets that could be recognised; unchanged if there are none.
    """
    values = _secret_values(os.environ if environment is None else environment)
    values.update(value for value in known if len(value) >= _MIN_KNOWN_VALUE)
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = _SHAPES.sub(MASK, _shortened(text))
    text = _USER_INFO.sub(lambda found: f"{found[1] or found[2]}{MASK}@", text)
    text = _AUTHORIZATION.sub(_mask_authorization, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _mask_named(text, _OPTION_IN_TEXT, code=code)
    return _mask_named(text, _NAMED, code=code)


def _shortened(text: str) -> str:
    """Leave out the middle of a huge text; cut at white space, so as to cut no secret in two."""
    if len(text) <= _MAX_MASKED_CHARS:
        return text
    head = "".join(text[: _MAX_MASKED_CHARS // 2].rsplit(None, 1)[:1])
    tail = text[-_MAX_MASKED_CHARS // 2 :].partition("\n")[2]
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def _mask_authorization(found: re.Match[str]) -> str:
    scheme = f"{found['scheme']} " if found["scheme"] else ""
    return f"{found[1]}{scheme}{MASK}"


def mask_traceback(text: str, *, known: Iterable[str] = ()) -> str:
    """Mask a formatted traceback: its source lines as code, the rest as text.

    So ``key=lambda x: x`` stays readable.

    Args:
        text: As `traceback.format_exception` gives it, joined.
        known: As in `mask_secrets`.
    """
    known = [*known, *_secret_values(os.environ)]
    parts: list[tuple[bool, list[str]]] = []
    code = False
    for line in text.splitlines(keepends=True):
        if line.startswith('  File "'):
            here, code = False, True
        else:
            here = code = code and line.startswith("    ")
        if not parts or parts[-1][0] != here:
            parts.append((here, []))
        parts[-1][1].append(line)
    return "".join(
        mask_secrets("".join(lines), environment={}, known=known, code=is_code)
        for is_code, lines in parts
    )


def bare_url(url: str) -> str:
    """Return a repository's address without user, password, token, query and fragment.

    Takes URLs (``https://user:token@host/x``), scp-like addresses (``git@host:org/repo``), remote
    helpers (``ext::https://token@host/x``), and paths, which are given back as they are.
    """
    if "://" in url:
        url = _USER_INFO.sub(lambda found: found[1] or found[2], url)
        url = re.split(r"[?#]", url, maxsplit=1)[0]
    elif found := re.fullmatch(r"[^\s]*@(?P<host>\[[^\]\s]+\]|[^\s@:/\[\]]+):(?P<path>.*)", url):
        url = f"{found['host']}:{found['path']}"
    return mask_secrets(url)


# --------------------------------------------------------------------- command lines

_OPTION: Final = re.compile(
    r"--?(?P<name>[A-Za-z][\w.-]*)(?:(?P<sep>[=:])(?P<value>.*))?", re.DOTALL
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
) -> list[str]:
    """Return command-line arguments with every value that looks like a secret replaced by `MASK`.

    Args:
        arguments: As in ``sys.argv[1:]``.
        environment: As in `mask_secrets`.
        known: As in `mask_secrets`.

    Returns:
        As many arguments, in the same order.
    """
    known = [*known, *_secret_values(os.environ if environment is None else environment)]
    masked: list[str] = []
    pending = ""  # the option whose value comes next, in the arguments that follow
    for argument in arguments:
        taken = pending and not _is_option(argument, pending)
        if taken:
            hidden = _mask_value(pending, argument)
            if not pending.endswith("s"):  # --tokens may take several, --token takes one
                pending = ""
        else:
            hidden, pending = _mask_argument(argument)
        masked.append(mask_secrets(hidden, environment={}, known=known))
    return masked


def _is_option(argument: str, pending: str) -> bool:
    """Return whether an argument is the next option, and no value of the option ``pending``."""
    if _level(pending) is _Level.SURE:
        return bool(re.match(r"--([A-Za-z]|\Z)|-[A-Za-z]\Z", argument))
    return bool(re.match(r"--?[A-Za-z]|--\Z", argument))


def _mask_argument(argument: str) -> tuple[str, str]:
    """Return one argument, masked, and the name of the option whose value comes next."""
    found = _OPTION.fullmatch(argument) or _OVERRIDE.fullmatch(argument)
    if found is None:
        return (MASK if _looks_random(argument, _RANDOM_CHARS) else argument), ""
    name, value = found["name"], found["value"]
    if value is not None:
        masked = _mask_value(name, value)
        return (argument if masked == value else argument[: found.start("value")] + masked), ""
    if (
        re.match(r"-[pP].", argument)
        and _level(name) is _Level.NO
        and not _HARMLESS.fullmatch(argument[2:])
    ):
        return argument[:2] + MASK, ""  # mysql's -pPASSWORD; -precision is hidden with it
    return argument, name


def _mask_value(name: str, value: str) -> str:
    if value and _hides(name, value, text=False):
        return MASK
    if name in ("p", "P") and not _HARMLESS.fullmatch(value):
        return MASK  # a password as often as a port or a project; numbers stay
    last = name.rsplit(".", 1)[-1].lower()
    if (
        last in _USERS
        and re.fullmatch(r"[^:/\s]+:.+", value)
        and not re.fullmatch(r"\d+:\d+", value)
    ):
        return f"{value.split(':', 1)[0]}:{MASK}"
    return MASK if _looks_random(value, _RANDOM_CHARS) else value
