"""Configurations without secrets: what lines, indentation and sections say, beside names in a line.

`mask_value` reads one line at a time. Here a key hides what stands below it (``secrets:`` and the
lines that are indented further, a block after ``token: |``, the section ``[a.secrets]``), a line
the one beside it (``name: DB_PASSWORD``, ``value: X``), and a few formats have rules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from seamark.capture.secrets.masking import (
    MASK,
    MORE_NONE,
    More,
    hides,
    is_hidden,
    mask_shapes,
    mask_value,
)
from seamark.capture.secrets.names import (
    Level,
    holds_secrets,
    is_empty,
    is_harmless,
    is_plain_fact,
    may_name,
)

__all__ = ["Configuration", "is_sentence", "mask_commands", "may_hold_secret"]

_ENTRY: Final = re.compile(
    r"(?P<before>[ \t]*(?:-[ \t]+)?)(?:(?:export|set)[ \t]+)?"
    r"(?P<quote>[\"']?)(?P<name>[A-Za-z_][\w./-]{0,120})(?P=quote)"
    r"[ \t]{0,16}(?::=|\?=|\+=|=(?!=)|:(?=[ \t]|\Z|(?<=\":)))[ \t]{0,16}(?P<rest>.*)"
)
_DOCKER: Final = re.compile(
    r"(?P<before>[ \t]*)(?:ENV|ARG)[ \t]+(?P<name>[A-Za-z_]\w{0,120})[ \t]+(?P<rest>[^=\s].*)"
)
_INDENT: Final = re.compile(r"[ \t]*(?P<item>-[ \t]+)?")
_SECTION: Final = re.compile(r"[ \t]*\[{1,2}(?P<name>[^\[\]=,]{1,200})\]{1,2}[ \t]*(?:[#;].*)?\Z")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*(?:#.*)?\Z")
_OPENS: Final = re.compile(r"(?:&\w+|!\w*)?[ \t]*[\[{]?[ \t]*(?:#.*)?\Z")
_LISTED: Final = re.compile(
    r"(?P<key>(?P<quote>[\"']?)(?P<name>[\w.-]{1,120})(?P=quote)\s{0,16}:\s{1,16})?"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'"
    r"|(?P<bare>(?:[^\s,\[\]{}\"':]|:(?!\s))(?:[^,\[\]{}\"':]|:(?!\s)){0,4096}))"
    r"(?P<colon>\s{0,16}:\s)?"
)
_STAYS: Final = re.compile(
    r"[\"']?(?:\$\{?[\w(]|\$\(|\{\{|\$\{|<[^<>\s]{0,64}>|%\(|!\w|&\w|\*\w|\*\*\*)|[\[\]{}|>#]|//"
)
_TAIL: Final = re.compile(r"[ \t]*(?:[ \t]#.*|[,;]|\\)?[ \t\r]*\Z")
_XML: Final = re.compile(
    r"(?P<before><(?P<name>[A-Za-z_][\w:.-]{0,80})(?:[ \t][^<>]{0,200})?>\s{0,8})"
    r"(?P<value>[^<>\s][^<>]{0,4096})(?=</)"
)
_ATTRIBUTES: Final = re.compile(
    r"(?P<before>\b(?:key|name|id)[ \t]{0,4}=[ \t]{0,4}(?P<quote>[\"'])(?P<name>[\w:. -]{1,120})"
    r"(?P=quote)[ \t\n]{1,16}value[ \t]{0,4}=[ \t]{0,4}(?P<other>[\"']))"
    r"(?P<value>[^\"'<>\n]{1,4096})(?=(?P=other))",
    re.IGNORECASE,
)
_NETRC: Final = re.compile(r"(\bpassword[ \t]+)(?!\*\*\*)(\S+)")
_NETRC_LINE: Final = re.compile(r"(\blogin\s{1,8}\S{1,256}\s{1,8}password\s{1,8})(?!\*\*\*)(\S+)")
_PGPASS: Final = re.compile(
    r"^((?:[^:\n\\#]|\\.){1,256}(?::(?:[^:\n\\]|\\.){1,256}){3}:)(.+)$", re.MULTILINE
)
_COMMANDS: Final = re.compile(
    r"(?P<command>\b(?:curl|wget|https?)\b[^\n|;&]{0,400}?\s(?:-u|-U|--user|--proxy-user)[ =]?"
    r"[\"']?(?!\d+:\d+\b)[^\s:\"'$]{1,128}:"
    r"|\b(?:mysql\w{0,12}|mariadb[\w-]{0,12})\b[^\n|;&]{0,200}?\s-p"
    r"|\bsshpass[ \t]+-p[ \t]{0,4}"
    r"|\b(?:docker|podman|helm|oras)[ \t]+(?:registry[ \t]+)?login\b[^\n|;&]{0,200}?\s-p[ \t]{1,4}"
    r"|\bredis-cli\b[^\n|;&]{0,200}?\s-a[ \t]{1,4})"
    r"(?P<quote>[\"']?)(?![\"'$*{-])(?:(?<=\")[^\"\n]+|(?<=')[^'\n]+|[^\s\"']+)"
)
_OWN_RULES: Final = {"netrc": _NETRC, "pgpass": _PGPASS}
_SCHEME: Final = re.compile(r"(?i:basic|digest)\s")
"""The schemes of credentials that `may_name` does not find."""
_WORDS: Final = ("curl", "wget", "http", "mysql", "mariadb", "sshpass", "login", "redis-cli")
_SENTENCE: Final = re.compile(
    r"[\s\"'*`-]*(?:\*{0,2}[\w.`\"'-]{1,80}\s?(?:\([^()]{0,200}\))?\s?:)?"
    r"(?:\s+[\"'`(*]*[A-Za-z][A-Za-z'`-]*[\"'`)*]*[,.;:?!]*){3,}(?:\s.*)?",
    re.DOTALL,
)
_PROSE: Final = re.compile(r"\.(?:md|rst|txt|html?|tex|adoc|csv|tsv|svg)\Z")


def mask_commands(text: str) -> str:
    """Return a text without the passwords that commands take: ``curl -u me:X``, ``mysql -pX``."""
    if not _has_command(text):
        return text
    text = _COMMANDS.sub(lambda found: f"{found['command']}{found['quote']}{MASK}", text)
    return _NETRC_LINE.sub(rf"\1{MASK}", text)


def _has_command(text: str) -> bool:
    return any(map(text.__contains__, _WORDS))


def may_hold_secret(line: str, more: More) -> bool:
    """Return False only if nothing in a line is hidden but for its shape or the lines around it."""
    return bool(more.names or may_name(line) or _SCHEME.search(line) or _has_command(line))


def is_sentence(line: str) -> bool:
    """Return whether a line reads like prose: three words that follow each other, after a name."""
    return "=" not in line and _SENTENCE.fullmatch(line[:1024]) is not None


class Configuration:
    """Hides what is in the lines of a file that is no code.

    Args:
        more: What a person says is a secret.
        name: Of the file.
    """

    def __init__(self, *, more: More = MORE_NONE, name: str = "") -> None:
        self._more = more
        file = name.lower().replace("\\", "/").rpartition("/")[2]
        self._own = [rule for kind, rule in _OWN_RULES.items() if kind in file]
        self._is_prose = _PROSE.search(file) is not None
        self._held: int | None = None  # what is indented further is secret
        self._is_secret_kind = False

    def mask(self, lines: Sequence[str], of_keys: Sequence[bool] = ()) -> list[str]:
        """Return the next lines without secrets.

        Args:
            lines: Some lines of the file, without known values.
            of_keys: Whether each is one of a private key, and not the first one; False without.
        """
        shaped = mask_shapes("\n".join(lines), self._more).split("\n")
        if len(shaped) != len(lines):  # without the lines of a key
            shaped = [mask_shapes(line, self._more) for line in lines]
        kept = [self._line(line, _adjacent_name(shaped, at)) for at, line in enumerate(shaped)]
        for at, is_of_key in enumerate(of_keys):
            if is_of_key:
                kept[at] = MASK
        return kept

    def _line(self, line: str, beside: str) -> str:
        is_within = self._held is not None or self._is_secret_kind or self._own
        if not (is_within or beside or may_hold_secret(line, self._more)):
            return line
        line = mask_commands(line)
        for rule in self._own:
            line = rule.sub(rf"\1{MASK}", line)
        line = _XML.sub(self._of_name, line)
        line = _ATTRIBUTES.sub(self._of_name, line)
        line = self._by_key(line, beside)
        return mask_value(line, environment={}, more=self._more)

    def _of_name(self, found: re.Match[str]) -> str:
        level = self._level(found["name"].rpartition(":")[2])
        value = found["value"].strip()
        is_kept = not hides(level, value, text=True) or is_empty(value) or _STAYS.match(value)
        return found[0] if is_kept else f"{found['before']}{MASK}"

    def _level(self, name: str) -> Level:
        return self._more.parameter_level(name.replace(".", "_").replace("/", "_"))

    def _by_key(self, line: str, beside: str) -> str:
        """Return a line without what its key hides, or a key or a section above it."""
        if section := _SECTION.fullmatch(line):
            is_held = any(map(holds_secrets, re.split(r"[.\s:/\"']+", section["name"])))
            self._held = -1 if is_held else None
            return line
        start = _INDENT.match(line)
        assert start is not None  # noqa: S101 - it matches anything
        if self._held is not None and line.strip():
            indent = start.end("item") - 1 if start["item"] else start.end()
            self._held = self._held if indent > self._held else None
        found = _DOCKER.fullmatch(line) or _ENTRY.fullmatch(line)
        if self._held is None:
            return self._entry(line, found, beside) if found else line
        if found is None:
            return _hidden(line, start.end())
        return line if is_plain_fact(found["name"]) else _hidden(line, found.start("rest"))

    def _entry(self, line: str, found: re.Match[str], beside: str) -> str:
        name, rest, start = found["name"], found["rest"], found.start("rest")
        if name == "kind":
            self._is_secret_kind = rest.strip().strip("\"'") == "Secret"
        level = self._level(beside or name)
        holds = holds_secrets(name) or (self._is_secret_kind and name in ("data", "stringData"))
        if level is Level.SURE or holds:
            is_open = rest[:1] in ("'", '"') and rest.count(rest[0]) == 1
            is_list = _OPENS.fullmatch(rest) and (holds or rest.startswith("["))
            if is_open or is_list or _BLOCK.fullmatch(rest):
                self._held = len(found["before"])
                return f"{line[: start + 1]}{MASK}" if is_open else line
            if rest.startswith(("[", "{")):
                return _hidden(line, start)
        bare = rest.strip().strip("\"'")
        is_kept = not hides(level, bare, text=True) or (self._is_prose and is_sentence(line))
        return line if is_kept else _hidden(line, start)


def _adjacent_name(lines: Sequence[str], at: int) -> str:
    """Return what the line ``name: X`` before or after it calls the line ``value: Y``."""
    found = _ENTRY.fullmatch(lines[at]) if "value" in lines[at] else None
    if found is None or found["name"] != "value":
        return ""
    before = lines[at - 1] if at and "-" not in found["before"] else ""  # of the same item
    after = lines[at + 1] if at + 1 < len(lines) else ""
    for other in (_ENTRY.fullmatch(before), _ENTRY.fullmatch(after)):
        is_beside = other is not None and len(other["before"]) == len(found["before"])
        if other and is_beside and other["name"] in ("name", "key"):
            return other["rest"].strip().strip(",\"'")
    return ""


def _hidden(line: str, start: int) -> str:
    """Return a line with what begins there hidden, unless it says nothing; quotes stay."""
    rest = line[start:]
    if rest.startswith(("[", "{")):
        return line[:start] + _LISTED.sub(_hidden_element, rest)
    bare = rest.strip().rstrip(",;").strip("\"'")
    if not bare or is_empty(bare) or is_harmless(bare) or is_hidden(bare) or _STAYS.match(rest):
        return line
    quote = rest[0] if rest[0] in "\"'" else ""
    if quote and (end := rest.rfind(quote)) > 0:
        return f"{line[:start]}{quote}{MASK}{rest[end:]}"
    tail = _TAIL.search(rest)
    return f"{line[:start]}{MASK}{tail[0] if tail else ''}"


def _hidden_element(found: re.Match[str]) -> str:
    """Return an element of ``[X, Y]`` or ``{a: X}`` hidden, unless it is a key or says nothing."""
    group = found.lastgroup or ""
    value = found[group].strip()
    is_kept = (
        group == "colon"
        or (found["name"] and is_plain_fact(found["name"]))
        or (is_empty(value) or is_harmless(value) or is_hidden(value))
        or value.startswith("$")
    )
    start, end = (place - found.start() for place in found.span(group))
    return found[0] if is_kept else f"{found[0][:start]}{MASK}{found[0][end:]}"
