"""Secrets in configurations, found by sections, indentation and names.

`mask_value` reads one line at a time. Here a key hides what stands below it (``secrets:`` and the
lines that are indented further, a block after ``token: |``, the section ``[a.secrets]``), a line
the one beside it (``name: DB_PASSWORD``, ``value: X``), and a few formats have rules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from seamark.capture.secrets.masking import (
    MASK,
    MORE_NONE,
    More,
    hides,
    is_hidden,
    mask_known,
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

__all__ = ["Configuration", "is_sentence", "mask_commands"]

_ENTRY: Final = re.compile(
    r"(?P<indent>[ \t]*)(?P<item>(?:-[ \t]+)?)"
    r"(?P<before>(?:export[ \t]+|set[ \t]+)?)"
    r"(?P<quote>[\"']?)(?P<name>[A-Za-z_][\w./-]{0,120})(?P=quote)"
    r"(?P<sep>[ \t]{0,16}(?::=|\?=|\+=|=(?!=)|:(?=[ \t]|\Z|(?<=\":)))[ \t]{0,16})"
    r"(?P<rest>.*)",
    re.DOTALL,
)
_DOCKER: Final = re.compile(
    r"(?P<indent>[ \t]*)(?:ENV|ARG)[ \t]+(?P<name>[A-Za-z_]\w{0,120})[ \t]+(?P<rest>[^=\s].*)"
)
_ITEM: Final = re.compile(r"(?P<before>[ \t]*-[ \t]+)(?P<rest>\S.*)")
_QUOTED_ITEM: Final = re.compile(r"(?P<before>[ \t]*)(?P<rest>[\"'].*)")
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
    r"[\"']?(?:\$\{?[\w(]|\$\(|\{\{|\$\{|<[^<>\s]{0,64}>|%\(|!\w|&\w|\*\w|\*\*\*)|[\[{|>]"
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
    if not any(map(text.__contains__, _WORDS)):
        return text
    text = _COMMANDS.sub(lambda found: f"{found['command']}{found['quote']}{MASK}", text)
    return _NETRC_LINE.sub(rf"\1{MASK}", text)


def is_sentence(line: str) -> bool:
    """Return whether a line reads like prose: three words that follow each other, after a name."""
    return "=" not in line and _SENTENCE.fullmatch(line[:1024]) is not None


class Configuration:
    """Hides secrets in a file that is not code, some lines at a time.

    Args:
        known: Values that are hidden wherever they stand; the environment is not looked at.
        more: What a person says is a secret.
        name: Of the file.
    """

    def __init__(
        self, *, known: Iterable[str] = (), more: More = MORE_NONE, name: str = ""
    ) -> None:
        self._known, self._more = tuple(known), more
        file = name.lower().replace("\\", "/").rpartition("/")[2]
        self._is_netrc = "netrc" in file
        self._is_pgpass = "pgpass" in file
        self._is_prose = _PROSE.search(file) is not None
        self._indent = -1  # of the key below which all is secret
        self._is_block = False
        self._is_item = False
        self._in_section = False
        self._is_secret_kind = False
        self._pending: tuple[int, Level] | None = None  # name: X, whose value comes
        self._value: tuple[int, int] | None = None  # value: X, whose name comes

    def mask(self, text: str) -> str:
        """Return the next lines without secrets, as many but for private keys."""
        text = mask_shapes(mask_known(text, self._known, self._more))
        text = mask_commands(text)
        if self._is_netrc:
            text = _NETRC.sub(rf"\1{MASK}", text)
        if self._is_pgpass:
            text = _PGPASS.sub(rf"\1{MASK}", text)
        is_held = self._indent >= 0 or self._in_section or self._pending or self._is_secret_kind
        if not (is_held or self._more.names or may_name(text) or _SCHEME.search(text)):
            return text
        if "<" in text:
            text = _XML.sub(self._of_name, text)
        if "value" in text.lower():
            text = _ATTRIBUTES.sub(self._of_name, text)
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if line.strip():
                lines[at] = self._line(line, at, lines)
        for at, line in enumerate(lines):  # after it: a bracket of several lines is no value
            if self._more.names or may_name(line) or _SCHEME.search(line):
                lines[at] = mask_value(line, environment={}, more=self._more)
        self._value = None
        return "\n".join(lines)

    def _of_name(self, found: re.Match[str]) -> str:
        level = self._level(found["name"].rpartition(":")[2])
        value = found["value"].strip()
        is_kept = not hides(level, value, text=True) or is_empty(value) or _STAYS.match(value)
        return found[0] if is_kept else f"{found['before']}{MASK}"

    def _level(self, name: str) -> Level:
        return self._more.parameter_level(name.replace(".", "_").replace("/", "_"))

    def _line(self, line: str, at: int, lines: list[str]) -> str:
        if line.lstrip().startswith(("#", ";", "//")) and self._indent < 0:
            return line
        indent = len(line) - len(line.lstrip(" \t"))
        if self._indent >= 0:
            is_item = line.lstrip().startswith("- ") and not self._is_item
            if indent > self._indent or (indent == self._indent and is_item):
                return self._held(line, indent)
            self._indent, self._is_block = -1, False
            if line.strip() in ("]", "}", "],", "},"):
                return line
        if section := _SECTION.fullmatch(line):
            self._in_section = any(map(holds_secrets, re.split(r"[.\s:/\"']+", section["name"])))
            return line
        found = _ENTRY.fullmatch(line)
        if found is None:
            docker = _DOCKER.fullmatch(line)
            if docker and hides(self._level(docker["name"]), docker["rest"], text=True):
                return self._hidden(line, docker.start("rest"))
            return line
        return self._entry(line, found, at, lines)

    def _entry(self, line: str, found: re.Match[str], at: int, lines: list[str]) -> str:
        name, rest = found["name"], found["rest"]
        indent = len(found["indent"]) + len(found["item"])
        if name in ("name", "value", "key"):
            return self._pair(line, found, at, lines)
        if name == "kind" and ":" in found["sep"]:
            self._is_secret_kind = rest.strip().strip("\"'") == "Secret"
        if self._in_section and not is_plain_fact(name):
            return self._unless_empty(line, found.start("rest"))
        level = self._level(name)
        holds = holds_secrets(name) or (self._is_secret_kind and name in ("data", "stringData"))
        if level is Level.SURE or holds:
            is_open = rest[:1] in ("'", '"') and rest.count(rest[0]) == 1
            if is_open or _BLOCK.fullmatch(rest):
                self._indent, self._is_block, self._is_item = indent, True, bool(found["item"])
                return line[: found.start("rest") + 1] + MASK if is_open else line
            if _OPENS.fullmatch(rest):
                if holds or rest.strip().startswith("["):
                    self._indent, self._is_block, self._is_item = indent, False, bool(found["item"])
                return line
            if rest.startswith(("[", "{")):
                return line[: found.start("rest")] + self._flow(rest)
        is_hidden_here = hides(level, rest.strip().strip("\"'"), text=True)
        if not is_hidden_here or (self._is_prose and is_sentence(line)):
            return line
        return self._unless_empty(line, found.start("rest"))

    def _pair(self, line: str, found: re.Match[str], at: int, lines: list[str]) -> str:
        """Return a line ``value: X`` as the line ``name: X`` beside it says."""
        indent = len(found["indent"]) + len(found["item"])
        bare = found["rest"].strip().rstrip(",").strip("\"'")
        if found["name"] == "value":
            if self._pending and self._pending[0] == indent:
                level, self._pending = self._pending[1], None
                if hides(level, bare, text=True):
                    return self._unless_empty(line, found.start("rest"))
            self._value = (at, indent)
            return line
        level = self._level(bare) if re.fullmatch(r"[\w./-]{1,120}", bare) else Level.NO
        self._pending = (indent, level) if level else None
        if level and self._value and self._value[1] == indent and not found["item"]:
            other = self._value[0]
            entry = _ENTRY.fullmatch(lines[other])
            if entry and at - other <= 2 and hides(level, entry["rest"].strip(), text=True):  # noqa: PLR2004 - beside it
                lines[other] = self._unless_empty(lines[other], entry.start("rest"))
        self._value = None
        return line

    def _held(self, line: str, indent: int) -> str:
        """Return a line below a key that holds secrets."""
        if self._is_block:
            return line[:indent] + MASK
        found = _ENTRY.fullmatch(line)
        if found is not None:
            if is_plain_fact(found["name"]) or _OPENS.fullmatch(found["rest"]):
                return line
            if found["rest"].startswith(("[", "{")):
                return line[: found.start("rest")] + self._flow(found["rest"])
            return self._unless_empty(line, found.start("rest"))
        item = _ITEM.fullmatch(line) or _QUOTED_ITEM.fullmatch(line)
        return self._unless_empty(line, item.start("rest")) if item else line

    def _flow(self, rest: str) -> str:
        """Return ``[X, Y]`` or ``{a: X}`` on one line with its contents hidden."""

        def hidden(found: re.Match[str]) -> str:
            group = found.lastgroup or ""
            value = found[group].strip()
            is_kept = (
                group == "colon"  # a key, of what is in further brackets
                or (found["name"] and is_plain_fact(found["name"]))
                or (is_empty(value) or is_harmless(value) or is_hidden(value))
                or value.startswith("$")
            )
            if is_kept:
                return found[0]
            start, end = (place - found.start() for place in found.span(group))
            return f"{found[0][:start]}{MASK}{found[0][end:]}"

        return _LISTED.sub(hidden, rest)

    def _unless_empty(self, line: str, start: int) -> str:
        rest = line[start:]
        bare = rest.strip().rstrip(",;").strip("\"'")
        if not bare or is_empty(bare) or is_harmless(bare) or is_hidden(bare) or _STAYS.match(rest):
            return line
        return self._hidden(line, start)

    def _hidden(self, line: str, start: int) -> str:
        """Return a line with the value that begins there hidden; quotes and delimiters stay."""
        rest = line[start:]
        quote = rest[0] if rest[0] in "\"'" else ""
        if quote and (end := rest.rfind(quote)) > 0:
            return f"{line[:start]}{quote}{MASK}{rest[end:]}"
        tail = _TAIL.search(rest)
        return f"{line[:start]}{MASK}{tail[0] if tail else ''}"
