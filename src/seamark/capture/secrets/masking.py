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
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus

from seamark.capture.secrets.names import (
    Level,
    is_empty,
    is_harmless,
    is_ordinary,
    is_place,
    is_plain,
    is_random,
    level,
    may_name,
    parameter_level,
    plain_name,
)

__all__ = [
    "KEY_BEGINS",
    "KEY_ENDS",
    "KEY_END_SIGNS",
    "KEY_SIGNS",
    "MASK",
    "MORE_NONE",
    "PASSWORD",
    "SCHEMES",
    "More",
    "bare_url",
    "hides",
    "hides_parameter",
    "is_hidden",
    "mask_arguments",
    "mask_authorization",
    "mask_known",
    "mask_secrets",
    "mask_shapes",
    "mask_tokens",
    "mask_traceback",
    "mask_value",
    "secret_values",
]

MASK: Final = "***"
"""What replaces a secret."""

_MIN_ENVIRONMENT_VALUE: Final = 6
_MIN_KNOWN_VALUE: Final = 4
_MIN_SHAPE: Final = 9
_MAX_MASKED_CHARS: Final = 1 << 18
_MAX_URL: Final = 4096
_RANDOM_CHARS: Final = 32
_RANDOM_KEY_CHARS: Final = 16
_GLANCE: Final = {Level.NO: 0, Level.WEAK: 200, Level.LIKELY: 200, Level.SURE: 512}
_HIDDEN: Final = (MASK, *(f"{scheme} {MASK}" for scheme in ("Basic", "Bearer", "Digest", "Token")))

_WORKING_DIRECTORIES: Final = frozenset({"pwd", "oldpwd"})  # set by every shell, and no passwords


@dataclass(frozen=True, slots=True)
class More:
    """Names and patterns of secrets that the user adds to the built-in rules.

    Attributes:
        names: Names of parameters, options and variables, as `plain_name` returns them.
        patterns: Patterns whose matches are hidden in every text.
    """

    names: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def level(self, name: str) -> Level:
        """Return the level of an option, a variable or a word in a message."""
        return Level.SURE if self.names_it(name) else level(name)

    def parameter_level(self, name: str) -> Level:
        """Return the level of a parameter."""
        return Level.SURE if self.names_it(name) else parameter_level(name)

    def names_it(self, name: str) -> bool:
        """Return whether a person named it."""
        return bool(self.names) and not self.names.isdisjoint(
            (plain_name(name), plain_name(name.rpartition(".")[2]))
        )


MORE_NONE: Final = More()


def hides(name_level: Level, value: str, *, text: bool) -> bool:
    """Return whether a value is hidden for its name.

    Args:
        name_level: Of the name.
        value: The value.
        text: It stands in a text, where ``key`` names too many things.
    """
    if name_level is Level.SURE or name_level is Level.NO:
        return name_level is Level.SURE
    if name_level is Level.WEAK:
        return is_random(value, _RANDOM_KEY_CHARS) if text else not is_plain(value)
    return not is_harmless(value)


def hides_parameter(name: str, value: str, more: More = MORE_NONE) -> bool:
    """Return whether the value of a parameter is hidden for its name.

    Args:
        name: The last part of its path.
        value: A string; other values are never hidden.
        more: What a person says is a secret.
    """
    name_level = more.parameter_level(name)
    if name_level is Level.NO or is_empty(value):
        return False
    if name_level is not Level.SURE:
        return hides(name_level, value, text=True)
    return not (name.lower() in _WORKING_DIRECTORIES and value.startswith("/"))


# --------------------------------------------------------------------- shapes

KEY_BEGINS: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY ----|PuTTY-User-Key-File-\d{1,2}:"
)
"""The first line of a private key: of OpenSSL and OpenSSH, of PGP, of SSH2, of PuTTY."""
KEY_ENDS: Final = (
    r"-----END [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- END [A-Z0-9 ]{0,64}PRIVATE KEY ----|Private-(?:MAC|Hash): ?[0-9a-fA-F]*"
)
KEY_SIGNS: Final = ("---- BEGIN", "-----BEGIN", "PuTTY-User-Key-File-")
"""What stands in every first line of one."""
KEY_END_SIGNS: Final = ("---- END", "-----END", "Private-MAC:", "Private-Hash:")
"""What stands in every last one."""
_SHAPES: Final = re.compile(
    rf"(?:{KEY_BEGINS}).*?(?:{KEY_ENDS}|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_(?:[A-Za-z0-9]{30,}|(?=[A-Za-z]{0,29}\d)[A-Za-z0-9]{12,})|github_pat_\w{6,}"
    r"|gl(?:pat|dt|rt|ptt|ft|imt|agent|oas|soat|cbt|ffct)-[\w-]{12,}"
    r"|hf_(?=[A-Z0-9]{0,40}[a-z])(?=[a-z0-9]{0,40}[A-Z])"
    r"(?:[A-Za-z0-9]{30,}|(?=[A-Za-z]{0,29}\d)[A-Za-z0-9]{20,})|api_org_[A-Za-z0-9]{12,}"
    r"|sk-(?:proj|ant|svcacct|admin|or|lf)-(?=[A-Za-z_-]{0,60}\d)[\w-]{10,}"
    r"|sk-(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,}"
    r"|[srp]k_(?:live|test)_(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)(?=[A-Z]{0,15}\d)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[\w-]{20,}|ya29\.[\w.-]{10,}|GOCSPX-[\w-]{10,}"
    r"|eyJ[\w-]{6,}(?:\.[\w-]*){0,4}[\w+/=-]*"
    r"|xox[a-eprs]-(?=[A-Za-z_-]{0,40}\d)[\w-]{8,}|xapp-(?=[A-Za-z_-]{0,40}\d)[\w-]{8,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-AgE[\w-]{12,}"
    r"|(?:dop|doo|dor)_v1_[0-9a-f]{16,}|dapi[0-9a-f]{24,}|glsa_\w{16,}"
    r"|gsk_(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{16,}"
    r"|r8_(?=[A-Za-z]{0,40}\d)(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{16,}"
    r"|nvapi-[\w-]{16,}|wandb_v\d_\w{16,}"
    r"|lin_api_\w{16,}|tskey-[\w-]{12,}|SG\.[\w-]{22}\.[\w-]{43}(?![\w-])"
    r"|hvs\.[\w-]{16,}|ATATT3[\w=-]{16,}|AGE-SECRET-KEY-1\w{16,}"
    r"|dckr_pat_[\w-]{20,}|lsv2_(?:pt|sk)_\w{16,}|pcsk_(?=[A-Za-z_]{0,60}\d)\w{20,}"
    r"|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}|pplx-[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{64,}"
    r"|tvly-(?=[A-Za-z-]{0,60}\d)[A-Za-z0-9-]{20,}|sess-(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{24,}"
    r"|fw_(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,}|sq0(?:csp|atp)-[\w-]{22,}"
    r"|dp\.(?:st|pt|ct|sa|scim|audit)\.(?:[\w-]{1,35}\.)?[A-Za-z0-9]{30,}"
    r"|key-[0-9a-f]{32}(?![0-9A-Za-z])|seamark_[\w-]{43}(?![\w-])"
    r"|\d{8,10}:AA[\w-]{33}(?![\w-])"
    r")",
    re.DOTALL,
)
# What one of the shapes begins with, or holds: a text without any of these has no shape in it. To
# look for them takes a tenth of the time, and most texts have none.
# fmt: off
_SIGNS: Final = (
    *KEY_SIGNS,
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-",
    "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glcbt-", "glffct-", "hf_",
    "api_org_", "sk-", "k_live_", "k_test_", "whsec_", "AKIA", "ASIA", "AROA", "AIDA", "AGPA",
    "ANPA", "AIza", "ya29.", "GOCSPX-", "eyJ", "xox", "xapp-", "npm_", "pypi-AgE", "_v1_", "dapi",
    "glsa_", "gsk_", "r8_", "nvapi-", "wandb_v", "lin_api_", "tskey-", "SG.", "hvs.", "ATATT3",
    "AGE-SECRET-KEY-1", ":AA", "dckr_pat_", "lsv2_", "pcsk_", "shpat_", "shpca_", "shppa_",
    "shpss_", "pplx-", "xai-", "tvly-", "sess-", "fw_", "sq0csp-", "sq0atp-", "dp.st.", "dp.pt.",
    "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", "key-",
    "seamark_",
)
# fmt: on
_SIGNS_BY_MARK: Final = (
    ("_", tuple(sign for sign in _SIGNS if "_" in sign)),
    ("-", tuple(sign for sign in _SIGNS if "-" in sign)),
    ("", tuple(sign for sign in _SIGNS if "_" not in sign and "-" not in sign)),
)


def _may_hold_shape(text: str) -> bool:
    """Return False only if there can be no shape in a text."""
    for mark, signs in _SIGNS_BY_MARK:
        if mark in text:
            for sign in signs:
                if sign in text:
                    return True
    return False


SCHEMES: Final = "basic|bearer|token|digest|apikey"
"""How credentials are sent, in small letters; of a regular expression."""
_SCHEMES: Final = tuple(SCHEMES.split("|"))


def _may_hold_credentials(text: str) -> bool:
    """Return False only if no scheme stands in a text."""
    if not text.isascii():  # to a regular expression some other letters are the same without case
        return True
    return any(map(text.lower().__contains__, _SCHEMES))


# Whoever knows the address may post: what follows the host is the secret.
_WEBHOOKS: Final = re.compile(
    r"(https://(?:hooks\.slack\.com/|(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/"
    r"|[\w-]{1,63}\.webhook\.office\.com/|outlook\.office(?:365)?\.com/webhook/"
    r"|[\w.-]{1,120}\.logic\.azure\.com[:/]|hooks\.zapier\.com/hooks/"
    r"|chat\.googleapis\.com/v1/spaces/|maker\.ifttt\.com/trigger/|api\.telegram\.org/bot))"
    r"(?!\*\*\*)[^\s\"'<>]+",
    re.IGNORECASE,
)
_KAGGLE: Final = re.compile(
    r"(\busername\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?[\w.-]{1,64}\\?[\"']?\s{0,4}[,;]?\s{0,16}"
    r"\\?[\"']?key\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)(?:[0-9a-f]{32}|[0-9a-f]{40})(?![\w-])"
)
_SIGNED: Final = re.compile(
    r"([?&;](?:x-[a-z]{2,5}-)?(?:sig|signature|security-token)=)(?!\*\*\*)[^\s\"'<>&;#]+",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b(Bearer\s{1,16})(?!\*)[\w.~+/=-]{6,}", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(
    r"((?:(?:proxy-)?authorization|(?:set-)?cookie)[\"']?\s{0,16}[:=]\s{0,16}[\"']?)"
    rf"(?:(?P<scheme>{SCHEMES}|negotiate)\s{{1,16}})?"
    r"[^\s\"'][^\"'\r\n]*",
    re.IGNORECASE,
)
# In prose these words mean other things: only a scheme and what looks drawn is hidden.
_CREDENTIALS: Final = re.compile(
    rf"\b((?i:authorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?:{SCHEMES})\s{{1,4}}))"
    r"(?!\*)[^\s\"']+"
    r"|\b((?i:basic|bearer)\s{1,4})(?=[^\s\"']{0,80}\d)(?!\*)[\w.~+/=-]{16,}"
    r"|\b((?i:token|digest|apikey)\s{1,4})(?=[0-9a-f]{32}|(?=[^\s\"']{0,80}[A-Z])[^\s\"']{0,80}\d)"
    r"(?!\*)[\w.~+/=-]{16,}"
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
    r"(?<![\w.-])-{0,2}(?P<name>[A-Za-z_][\w.-]{0,120})\\?[\"']?\]?\s{0,4}(?:=>|:=|=|:)\s{0,4}"
)
# --name value, --name 'value', and the same in a printed list: '--name', 'value'.
_OPTION_IN_TEXT: Final = re.compile(
    r"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{0,120})"
    r"(?:[\"'],\s{0,4}(?=[\"'][^-])|\s{1,4}(?=[^\s\"'-]|[\"'][^\s\"']))"
)
# In a string the names of parameters stand as in a file or a command, not as in a sentence.
_NAMED_IN_VALUE: Final = re.compile(
    r"(?<![\w.-])(?P<quote>\\?[\"'])?-{0,2}(?P<name>[A-Za-z_][\w.-]{0,120})"
    r"(?(quote)(?P=quote)\s{0,4}[:=]\s{0,4}|(?::=|=)(?=[^\s=]))"
)
_NAMED_IN_LINE: Final = re.compile(
    r"^[ \t]{0,64}(?:- )?(?P<name>[A-Za-z_][\w.-]{0,120})"
    r"(?:[ \t]{0,4}:[ \t]{1,16}|[ \t]{0,16}=(?!=)[ \t]{0,16})"
    r"(?=\"|'|[^\s\"'#]{1,4096}[ \t]{0,16}(?:[#;]|$))",
    re.MULTILINE,
)
# Passwords alone are made of several words, and end with their line.
_PASSWORD_IN_LINE: Final = re.compile(
    r"^(?P<before>[ \t]{0,64}(?:- )?(?P<name>[A-Za-z_][\w.-]{0,120})"
    r"(?:[ \t]{0,4}:[ \t]{1,16}|[ \t]{1,16}=[ \t]{1,16}))"
    r"(?P<value>[^\s\"'#*{\[](?:(?![,;] ?[A-Za-z_][\w.-]{0,64} ?[=:])[^\r\n#]){0,1024})",
    re.MULTILINE,
)
PASSWORD: Final = re.compile(r"(?:passw(?:or)?d|passphrase|pwd)\d?\Z", re.IGNORECASE)
# {password: 'X', apiKey: "Y"} as JavaScript and YAML write it, and 'X-Api-Key: X' as curl does.
_NAMED_IN_FLOW: Final = re.compile(
    r"(?:(?P<brace>\{)|,)\s{0,16}(?P<name>[A-Za-z_][\w.-]{0,120}):[ \t]{0,4}"
    r"(?=\\?[\"']|(?(brace)[^\s\"',{}]{1,256}\s{0,16}[,}]|(?!)))"
)
_NAMED_IN_HEADER: Final = re.compile(
    r"(?<=[\"'])(?P<name>[A-Za-z][\w-]{0,120}):[ \t]{0,4}(?=[^\s\"']{1,4096}[\"'])"
)
# A backslash is taken with what follows it in one way only: two ways would double the work of a
# text that is never closed with each of them.
_QUOTED: Final = re.compile(
    r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\?[\"'])"
    r"(?P<value>(?:(?!(?P=quote))(?:\\.|[^\\]))*)(?P=quote)",
    re.DOTALL,
)
# A literal in a line of code, closed or not, so that each character is read once.
_LITERAL: Final = re.compile(
    r"\\.|(?P<quote>[\"'])(?P<value>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)?"
)
_FILLED_IN: Final = re.compile(r"\{[^{}\"']|%[sdr(]")
# In a configuration: a place to fill in, a marker, nothing at all.
_SAYS_NOTHING: Final = re.compile(
    r"[\"']?(?:\$\{[^{}]{0,200}\}|\{\{[^{}]{0,200}\}\}|<[^<>\s]{0,64}>|null|none|true|false)"
    r"(?=[\"'\s,;)}\]&]|\Z)",
    re.IGNORECASE,
)
_BRACKETED: Final = re.compile(r"[\[({](?P<value>[^\])}]{0,200})[\])}]")
_UNCLOSED: Final = re.compile(r"\\?[\"'](?P<value>[^\r\n]+)")
# What is not quoted ends where the next one is named: token=X&page=1, token=X,dim=5.
_BARE: Final = re.compile(r"(?P<value>(?:(?![&;#,][A-Za-z_][\w.-]{0,64}=)[^\s\"'])+)")


def _mask_named(
    text: str,
    names: re.Pattern[str],
    level_of: Callable[[str], Level],
    *,
    code: bool = False,
    kept: re.Pattern[str] | None = None,
) -> str:
    """Hide the value after each secret name found by ``names``, unless ``kept`` matches it.

    The search continues inside what is not hidden: ``cfg={token:X}`` holds a second name.
    """
    parts: list[str] = []
    done = 0
    while found := names.search(text, done):
        end = found.end()
        parts.append(text[done:end])
        done = end
        name_level = level_of(found["name"])
        seen = _value_at(text, end, _GLANCE[name_level], code=code)
        if seen is None or not hides(name_level, seen["value"], text=True):
            continue
        if kept is not None and kept.match(text, end):
            continue
        if (value := _value_at(text, end, len(text), code=code)) is not None:  # all of it
            parts += [text[end : value.start("value")], MASK]
            done = value.start("value") + _length(value)
    return "".join(parts) + text[done:]


def _value_at(text: str, start: int, chars: int, *, code: bool) -> re.Match[str] | None:
    """Return the value that starts there, or None if it is none that may have to be hidden.

    In code, what is not quoted is an expression.

    Args:
        text: Where it stands.
        start: Where it starts.
        chars: How far to look. What is not hidden has been looked at in vain, and there may be a
            name every few characters: a glance has to do, or a text takes as long as its square.
        code: Whether the text is code.
    """
    if not chars or text.startswith(_HIDDEN, start):
        return None
    stop = min(start + chars, len(text))
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


def secret_values(environment: Mapping[str, str], more: More = MORE_NONE) -> set[str]:
    """Return the values of the environment variables whose names look secret.

    Args:
        environment: Such as ``os.environ``.
        more: What a person says is a secret.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if _is_secret_variable(name, value, more):
            found |= _written_forms(value)
    return found


@functools.lru_cache(maxsize=256)
def _written_forms(value: str) -> frozenset[str]:
    """Return how a value stands in a text: as it is, quoted by Python or JSON, in an address."""
    quote_all, quote_most = (
        quote(value, safe=safe, errors="surrogateescape") for safe in ("", "/")
    )
    plus = quote_plus(value, errors="surrogateescape")
    return frozenset(
        (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote_all, quote_most, plus)
    )


def _is_secret_variable(name: str, value: str, more: More) -> bool:
    name_level = more.level(name)
    if (
        name_level is Level.NO
        or len(value) < _MIN_ENVIRONMENT_VALUE
        or name.lower() in _WORKING_DIRECTORIES
        or is_harmless(value)
        or (is_ordinary(value) and not more.names_it(name))
        or is_place(name)  # PASSWORD_STORE_DIR is a place, and stands in half of all tracebacks
    ):
        return False
    return name_level is not Level.WEAK or any(c.isdigit() for c in value)


def mask_secrets(
    text: str,
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
    code: bool = False,
) -> str:
    """Return a message with everything that looks like a secret replaced by `MASK`.

    Takes time in proportion to the length of the text, whatever stands in it.

    Args:
        text: Any text: a message, an argument, a URL, a line of a log. Above 256 Ki characters its
            middle is left out, so that an error that carries a whole tensor costs nothing.
        environment: Where variables that are named like secrets are looked up; ``os.environ`` if
            left out.
        known: Further values to hide wherever they turn up, such as a token that was given as an
            argument.
        more: What a person says is a secret.
        code: The text is source code: what is assigned to a secret-looking name is hidden only if
            it is a literal.

    Returns:
        The text without the secrets that could be recognised; unchanged if there are none.
    """
    text = _shortened(_without_known(text, environment, known, more))
    text = mask_shapes(text, more)
    text = _AUTHORIZATION.sub(_mask_authorization, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    kept = _FILLED_IN if code else None
    text = _mask_named(text, _OPTION_IN_TEXT, more.level, code=code, kept=kept)
    text = _mask_named(text, _NAMED, more.level, code=code, kept=kept)
    return _LITERAL.sub(lambda found: _mask_literal(found, more), text) if code else text


def _mask_literal(found: re.Match[str], more: More) -> str:
    """Return a literal in a line of code, masked like a text; placeholders stay."""
    value = found["value"]
    if not value or not (":" in value or "=" in value or "-" in value):
        return found[0]
    hidden = _mask_named(value, _OPTION_IN_TEXT, more.level, kept=_FILLED_IN)
    hidden = _mask_named(hidden, _NAMED, more.level, kept=_FILLED_IN)
    start, end = found.span("value")
    return found[0][: start - found.start()] + hidden + found[0][end - found.start() :]


def mask_value(
    text: str,
    *,
    environment: Mapping[str, str] | None = None,
    known: Iterable[str] = (),
    more: More = MORE_NONE,
) -> str:
    """Return a string that a person records without the secrets in it; nothing is left out.

    It may be a sentence, a configuration or a command. Known values and known shapes are hidden
    wherever they stand; what follows a name only where it stands as in a configuration or a command
    (``"token": "X"``, ``token=X``, ``--token X``, a line ``token: X``).

    Args:
        text: The string.
        environment: As in `mask_secrets`.
        known: As in `mask_secrets`.
        more: As in `mask_secrets`.
    """
    level_of = more.parameter_level
    text = mask_shapes(_without_known(text, environment, known, more), more)
    # Most strings are a word or two: what cannot be in them is not looked for.
    if _may_hold_credentials(text):
        text = _CREDENTIALS.sub(lambda found: f"{found[1] or found[2] or found[3]}{MASK}", text)
    if not (more.names or may_name(text)):
        return text
    if "-" in text:
        text = _mask_named(text, _OPTION_IN_TEXT, level_of, kept=_SAYS_NOTHING)
    if ":" in text:
        text = _mask_named(text, _NAMED_IN_FLOW, level_of, kept=_SAYS_NOTHING)
        text = _mask_named(text, _NAMED_IN_HEADER, level_of, kept=_SAYS_NOTHING)
    if ":" in text or "=" in text:
        text = _PASSWORD_IN_LINE.sub(_mask_password, text)
        text = _mask_named(text, _NAMED_IN_LINE, level_of, kept=_SAYS_NOTHING)
        text = _mask_named(text, _NAMED_IN_VALUE, level_of, kept=_SAYS_NOTHING)
    return text


def _without_known(
    text: str, environment: Mapping[str, str] | None, known: Iterable[str], more: More
) -> str:
    values = secret_values(os.environ if environment is None else environment, more)
    values.update(value for value in known if len(value) >= _MIN_KNOWN_VALUE)
    for value in sorted(values, key=len, reverse=True):
        if value in text:
            text = _replaced(text, value)
    return text


def _replaced(text: str, value: str) -> str:
    """Hide a value; one that is a word, only where it is a whole one."""
    if not value.isalpha():
        return text.replace(value, MASK)
    return re.sub(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", MASK, text)


def mask_shapes(text: str, more: More = MORE_NONE) -> str:
    """Return a text without values that have the shape of a secret, whatever their names.

    Args:
        text: Any text.
        more: As in `mask_secrets`.
    """
    text = mask_tokens(_without_patterns(text, more))
    if "://" in text:
        text = _WEBHOOKS.sub(rf"\1{MASK}", text)
        text = _USER_INFO.sub(lambda found: f"{found[1] or found[2]}{MASK}@", text)
    if "username" in text:
        text = _KAGGLE.sub(rf"\1{MASK}", text)
    return _SIGNED.sub(rf"\1{MASK}", text) if "=" in text else text


def _without_patterns(text: str, more: More) -> str:
    for pattern in more.patterns:
        text = pattern.sub(lambda found: MASK if found[0] else "", text)
    return text


def _shortened(text: str) -> str:
    """Leave out the middle of a huge text; cut at white space, so as to cut no secret in two."""
    if len(text) <= _MAX_MASKED_CHARS:
        return text
    head = "".join(text[: _MAX_MASKED_CHARS // 2].rsplit(None, 1)[:1])
    tail = text[-_MAX_MASKED_CHARS // 2 :].partition("\n")[2]
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def _mask_password(found: re.Match[str]) -> str:
    value = found["value"].rstrip()
    hidden = PASSWORD.search(found["name"]) and not is_empty(value)
    return f"{found['before']}{MASK}{found['value'][len(value) :]}" if hidden else found[0]


def _mask_authorization(found: re.Match[str]) -> str:
    scheme = f"{found['scheme']} " if found["scheme"] else ""
    return f"{found[1]}{scheme}{MASK}"


def mask_authorization(text: str) -> str:
    """Return a text without the values of ``Authorization:`` and ``Cookie:``.

    Args:
        text: Any text.
    """
    lower = text.lower()
    if "authorization" in lower or "cookie" in lower:
        return _AUTHORIZATION.sub(_mask_authorization, text)
    return text


def mask_traceback(text: str, *, known: Iterable[str] = (), more: More = MORE_NONE) -> str:
    """Mask a formatted traceback: its source lines as code, the rest as text.

    So ``key=lambda x: x`` stays readable.

    Args:
        text: As `traceback.format_exception` gives it, joined.
        known: As in `mask_secrets`.
        more: As in `mask_secrets`.
    """
    known = [*known, *secret_values(os.environ, more)]
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
        mask_secrets("".join(lines), environment={}, known=known, more=more, code=is_code)
        for is_code, lines in parts
    )


def mask_known(text: str, known: Iterable[str], more: More = MORE_NONE) -> str:
    """Return a text without known values and matches of the user's expressions.

    Args:
        text: Any text.
        known: As in `mask_secrets`; the environment is not looked at.
        more: As in `mask_secrets`.
    """
    return _without_patterns(_without_known(text, {}, known, more), more)


def mask_tokens(text: str) -> str:
    """Return a text without tokens and keys of well-known shapes."""
    is_possible = len(text) >= _MIN_SHAPE and _may_hold_shape(text)
    return _SHAPES.sub(MASK, text) if is_possible else text


def is_hidden(value: str) -> bool:
    """Return whether a value begins with the replacement of a secret."""
    return value.startswith(_HIDDEN)


def bare_url(url: str) -> str:
    """Return a repository's address without user, password, token, query and fragment.

    Takes URLs (``https://user:token@host/x``), scp-like addresses (``git@host:org/repo``), remote
    helpers (``ext::https://token@host/x``), and paths, which are given back as they are.
    """
    url = url[:_MAX_URL]
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
