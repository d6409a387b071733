"""Masking of secrets without names: known values, well-known shapes, credentials in URLs."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from seamark.capture.secrets.names import (
    NO_USER_RULES,
    Level,
    UserRules,
    is_harmless,
    is_ordinary,
)

MASK: Final = "***"
"""Replacement of a secret."""

_WORKING_DIRECTORIES: Final = frozenset({"pwd", "oldpwd"})
_MIN_ENVIRONMENT_VALUE: Final = 6
_MIN_KNOWN_VALUE: Final = 4
_MIN_SHAPE_CHARS: Final = 9
_MASKS: Final = (MASK, *(f"{scheme} {MASK}" for scheme in ("Basic", "Bearer", "Digest", "Token")))
_LINE: Final = re.compile(r"[^\s][^\n]*")

KEY_BEGINS: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY ----|PuTTY-User-Key-File-\d{1,2}:"
)
"""Pattern of the first line of a private key: OpenSSL, OpenSSH, PGP, SSH2, PuTTY."""
KEY_ENDS: Final = (
    r"-----END [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- END [A-Z0-9 ]{0,64}PRIVATE KEY ----|Private-(?:MAC|Hash): ?[0-9a-fA-F]*"
)
KEY_SIGNS: Final = ("---- BEGIN", "-----BEGIN", "PuTTY-User-Key-File-")
"""Substrings; each of these first lines contains one of them."""
_KEYS: Final = re.compile(rf"(?:{KEY_BEGINS}).*?(?:{KEY_ENDS}|(\Z))", re.DOTALL)
_KEY_LINE: Final = re.compile(r"[^\s\"'`+,()#][^\"'`\n]*")
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
# Substrings of the shapes: a text without any of them has no shape. Searching for them takes a
# tenth of the time, and most texts have none.
# fmt: off
_SHAPE_SUBSTRINGS: Final = (
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
_SUBSTRINGS_BY_MARK: Final = (
    ("_", tuple(substring for substring in _SHAPE_SUBSTRINGS if "_" in substring)),
    ("-", tuple(substring for substring in _SHAPE_SUBSTRINGS if "-" in substring)),
    (
        "",
        tuple(
            substring
            for substring in _SHAPE_SUBSTRINGS
            if "_" not in substring and "-" not in substring
        ),
    ),
)


def may_hold_shape(text: str) -> bool:
    """Return False only if a text cannot contain a shape."""
    return any(
        mark in text and any(map(text.__contains__, substrings))
        for mark, substrings in _SUBSTRINGS_BY_MARK
    )


SCHEMES: Final = "basic|bearer|token|digest|apikey"
"""Lower-case credential schemes, for a regular expression."""
# The path of the URL is the secret: every client that knows it may post.
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
# These words are also used in prose: only a scheme with a random value is masked.
_CREDENTIALS: Final = re.compile(
    rf"\b((?i:authorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?:{SCHEMES})\s{{1,4}}))"
    r"(?!\*)[^\s\"']+"
    r"|\b((?i:basic|bearer)\s{1,4})(?=[^\s\"']{0,80}\d)(?!\*)[\w.~+/=-]{16,}"
    r"|\b((?i:token|digest|apikey)\s{1,4})(?=[0-9a-f]{32}|(?=[^\s\"']{0,80}[A-Z])[^\s\"']{0,80}\d)"
    r"(?!\*)[\w.~+/=-]{16,}"
    r"|((?i:cookie[\"']?\s{0,4}[:=]\s{0,4}[\"']?))(?=[\w.-]{1,64}=)[^\"'\r\n]+",
    re.ASCII,
)
# User info up to the last @ before the path. For passwords with a raw slash, up to the last @ of
# the URL, if the first colon is not followed by a port.
USER_INFO: Final = re.compile(
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#\"'<>@]*@)+"
    r"|(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/?#\"'<>:@]{0,256}"
    r":(?!\d{1,5}(?:[/?#\s\"']|\Z))[^\s\"'<>]{0,256}@",
    re.IGNORECASE,
)
# Passwords in the arguments of commands.
_COMMANDS: Final = re.compile(
    r"(\b(?:curl|wget|https?)\b[^\n|;&]{0,400}?\s(?:-u|-U|--user|--proxy-user)[ =]?"
    r"[\"']?(?!\d+:\d+\b)[^\s:\"'$]{1,128}:"
    r"|\b(?:mysql\w{0,12}|mariadb[\w-]{0,12})\b[^\n|;&]{0,200}?\s-p"
    r"|\bsshpass[ \t]+-p[ \t]{0,4}"
    r"|\b(?:docker|podman|helm|oras)[ \t]+(?:registry[ \t]+)?login\b[^\n|;&]{0,200}?\s-p[ \t]{1,4}"
    r"|\bredis-cli\b[^\n|;&]{0,200}?\s-a[ \t]{1,4})"
    r"([\"']?)(?![\"'$*{-])(?:(?<=\")[^\"\n]+|(?<=')[^'\n]+|[^\s\"']+)"
)
_COMMAND_WORDS: Final = (
    "curl",
    "wget",
    "http",
    "mysql",
    "mariadb",
    "sshpass",
    "login",
    "redis-cli",
)
_NETRC: Final = re.compile(r"(\blogin\s{1,8}\S{1,256}\s{1,8}password\s{1,8})(?!\*\*\*)\S+")


def secret_values(environment: Mapping[str, str], rules: UserRules = NO_USER_RULES) -> set[str]:
    """Return the values of environment variables with secret names, in all written forms.

    Args:
        environment: Environment variables, such as ``os.environ``.
        rules: Additional rules of the user.
    """
    secret = (value for name, value in environment.items() if _is_secret(name, value, rules))
    return set().union(*map(_written_forms, secret))


@functools.lru_cache(maxsize=256)
def _written_forms(value: str) -> frozenset[str]:
    """Return the forms of a value in a text: unchanged, quoted by Python or JSON, in a URL."""
    quoted = (quote(value, safe=safe, errors="surrogateescape") for safe in ("", "/"))
    plus = quote_plus(value, errors="surrogateescape")
    return frozenset((value, repr(value)[1:-1], json.dumps(value)[1:-1], *quoted, plus))


def _is_secret(name: str, value: str, rules: UserRules) -> bool:
    """Return whether the value of a variable is a secret."""
    name_level = rules.level(name)
    if (
        name_level is Level.NO
        or len(value) < _MIN_ENVIRONMENT_VALUE
        or name.lower() in _WORKING_DIRECTORIES
        or is_harmless(value)
        or (is_ordinary(value) and not rules.is_declared(name))
    ):
        return False
    return name_level is not Level.WEAK or any(c.isdigit() for c in value)


def mask_lines(text: str) -> str:
    """Return a text with each line masked; indentation and empty lines stay."""
    return _LINE.sub(MASK, text)


def mask_known(
    text: str, known: Iterable[str], rules: UserRules = NO_USER_RULES, *, by_line: bool = False
) -> str:
    """Return a text with known values and matches of the user's patterns masked.

    Args:
        text: Any text.
        known: Values that are masked everywhere; a word only as a whole word.
        rules: Additional rules of the user.
        by_line: Whether the number of lines must stay the same.
    """
    for value in sorted(known, key=len, reverse=True):
        if value in text and len(value) >= _MIN_KNOWN_VALUE:
            mask = mask_lines(value) if by_line else MASK
            if value.isalpha():
                text = re.sub(rf"(?<![^\W_]){value}(?![^\W_])", mask, text)
            else:
                text = text.replace(value, mask)
    for pattern in rules.patterns:
        text = pattern.sub(lambda found: _mask_match(found, by_line=by_line), text)
    return text


def _mask_match(found: re.Match[str], *, by_line: bool) -> str:
    return mask_lines(found[0]) if by_line else MASK * bool(found[0])


def mask_tokens(text: str, *, by_line: bool = False) -> str:
    """Return a text with tokens and keys of well-known shapes masked.

    Args:
        text: Any text.
        by_line: As in `mask_known`.
    """
    if len(text) < _MIN_SHAPE_CHARS or not may_hold_shape(text):
        return text
    return _SHAPES.sub(lambda found: _mask_match(found, by_line=by_line), text)


def mask_keys(text: str) -> str:
    """Return code with private keys masked, whose lines may be separate literals."""
    if not any(map(text.__contains__, KEY_SIGNS)):
        return text
    return _KEYS.sub(
        lambda found: found[0] if found[1] == "" else _KEY_LINE.sub(MASK, found[0]), text
    )


def mask_shapes(text: str, *, by_line: bool = False) -> str:
    """Return a text with values of the shape of a secret masked, whatever their names.

    Args:
        text: Any text.
        by_line: As in `mask_known`.
    """
    text = mask_tokens(text, by_line=by_line)
    if "://" in text:
        text = _WEBHOOKS.sub(rf"\1{MASK}", text)
        text = USER_INFO.sub(lambda found: f"{found[1] or found[2]}{MASK}@", text)
    if "username" in text:
        text = _KAGGLE.sub(rf"\1{MASK}", text)
    return _SIGNED.sub(rf"\1{MASK}", text) if "=" in text else text


def mask_commands(text: str) -> str:
    """Return a text with the passwords of commands masked: ``curl -u me:X``, ``mysql -pX``."""
    if not any(map(text.__contains__, _COMMAND_WORDS)):
        return text
    return _NETRC.sub(rf"\1{MASK}", _COMMANDS.sub(rf"\1\2{MASK}", text))


def mask_credentials(text: str) -> str:
    """Return a text with credentials after a scheme or ``Cookie:`` masked."""
    return _CREDENTIALS.sub(lambda found: f"{found[found.lastindex or 0]}{MASK}", text)


def is_masked(value: str) -> bool:
    """Return whether a value begins with the replacement of a secret."""
    return value.startswith(_MASKS)
