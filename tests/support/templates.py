"""The templates of the page's modules: what is written between the backticks of ``html`...` ``.

Nothing of them is compiled before a browser draws them, and htm draws what it does not understand
somehow. So they are read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[\w$]+|\s+|.""", re.DOTALL
)
_REGEX = re.compile(r"/(?![/*])(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\\\[\n])+/")
_BEFORE_REGEX = re.compile(
    r"|return|typeof|case|in|of|delete|void|throw|new|else|do|instanceof|await|yield"
    r"|[=(,:\[!&|?{};+*%<>~^-]"
)
"""Words and signs after which a slash begins a regular expression."""
_TEXT = re.compile(r"(?:\\.|\$(?!\{)|[^`$\\])*", re.DOTALL)
_TAG = re.compile(
    r"""<!--.*?-->|<(?P<end>/?)(?P<name>\0|/|[a-zA-Z][\w.-]*|(?=>))"""
    r"""(?P<rest>(?:"[^"]*"|'[^']*'|[^>"'])*)>|[<>]|&\#?\w+;""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"""\.\.\.\0|(?P<name>[a-zA-Z_:@][\w:.-]*)(?P<value>=(?:"[^"]*"|'[^']*'|(?:(?!/$)[^\s"'])*))?"""
)
HOLE = "\0"
"""Stands in a template where ``${...}`` stood."""


@dataclass
class Template:
    line: int
    tag: str
    text: str = ""
    holes: list[str] = field(default_factory=list)


def templates(code):
    """Return all templates of a module, those within others too."""
    found = []
    _code(code, 0, found)
    return found


def _code(code, at, found):
    """Read code up to its end, or up to the brace that closes ``${``; return where that is."""
    depth, last = 0, ""
    while at < len(code):
        regex = _REGEX.match(code, at) if _BEFORE_REGEX.fullmatch(last) else None
        token = regex or _CODE.match(code, at)
        word, at = token[0], token.end()
        if word == "}" and depth == 0:
            return at
        depth += {"{": 1, "}": -1}.get(word, 0)
        if word == "`":
            at = _template(code, at, last, found)
        if not (word.isspace() or word.startswith(("//", "/*"))):
            last = word
    return at


def _template(code, at, tag, found):
    made = Template(code.count("\n", 0, at) + 1, tag)
    found.append(made)
    while True:
        text = _TEXT.match(code, at)
        made.text += re.sub(r"\\(.)", r"\1", text[0], flags=re.DOTALL)
        at = text.end()
        if code[at] == "`":
            return at + 1
        end = _code(code, at + 2, found)
        made.holes.append(code[at + 2 : end - 1])
        made.text += HOLE
        at = end


def mistakes(template):
    """Yield what htm would draw otherwise than it looks, each with its line."""
    opened = []
    for token in _TAG.finditer(template.text):
        word, line = token[0], _line_of(template, token.start())
        if word == "<" and (tag := re.match(r"[\w$]+", template.text[token.end() :])):
            half = re.search("""([\\w:.-]+)=["'][^"']*$""", template.text[token.end() :])
            yield f"line {line}: {half[1] if half else 'a part'} of <{tag[0]}> is not ended"
            return
        if word in ("<", "<>"):
            yield f"line {line}: < begins no tag"
        elif word == ">":
            yield f"line {line}: > stands alone"
        elif word[0] == "&":
            yield f"line {line}: htm knows no entities: write the character itself"
        elif not word.startswith("<!--"):
            name = _name_of(template, token)
            if token["end"]:
                yield from (f"line {line}: {told}" for told in _close(name, opened))
                continue
            yield from (f"line {line}: {told}" for told in _attributes(name, token["rest"]))
            if not token["rest"].endswith("/"):
                opened.append((name, line))
    for name, line in opened:
        yield f"line {line}: <{name}> is not closed"


def _line_of(template, at):
    before = template.text[:at]
    passed = template.holes[: before.count(HOLE)]
    return template.line + before.count("\n") + sum(hole.count("\n") for hole in passed)


def _name_of(template, token):
    if token["name"] != HOLE:
        return token["name"] or "/"
    return f"${{{template.holes[template.text.count(HOLE, 0, token.start())].strip()}}}"


def _close(name, opened):
    if not opened:
        yield f"</{name}> closes nothing"
        return
    last, line = opened.pop()
    if name not in ("/", last):
        yield f"</{name}> closes <{last}> of line {line}"


def _attributes(tag, rest):
    seen = set()
    for found in _ATTRIBUTE.finditer(rest):
        name, value = found["name"], found["value"]
        if name is None:
            continue
        if name in seen:
            yield f"<{tag}> has {name} twice"
        seen.add(name)
        if value == "=":
            yield f"{name} of <{tag}> has no value"
        if name == "style" and value is not None and value[1:].strip("'\"") != HOLE:
            yield "a style as text is refused by the page's policy"
    if left := _ATTRIBUTE.sub("", rest).strip().removesuffix("/").strip():
        yield f"{left!r} in <{tag}>"
