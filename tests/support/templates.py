"""The templates of the page's modules: what is written between the backticks of ``html`...` ``.

Nothing of them is compiled before a browser draws them, and htm draws what it does not understand
somehow. So they are read here: a small reader of JavaScript that knows strings, comments, regular
expressions and templates within templates, and one of what stands in the templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_WORD = re.compile(r"[\w$]+")
_TOKEN = re.compile(
    r"""<!--.*?-->|<(?P<end>/?)(?P<name>\0|/|[a-zA-Z][\w.-]*|(?=>))"""
    r"""(?P<rest>(?:"[^"]*"|'[^']*'|[^>"'])*)>|[<>]|&\#?\w+;""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"""\.\.\.\0|(?P<name>[a-zA-Z_:@][\w:.-]*)(?P<value>=(?:"[^"]*"|'[^']*'|(?:(?!/$)[^\s"'])*))?"""
)
_BEFORE_REGEX = re.compile(
    r"|return|typeof|case|in|of|delete|void|throw|new|else|do|instanceof|await|yield"
    r"|.*[=(,:\[!&|?{};+*%<>~^-]"
)
"""What a slash that follows begins an expression with."""
HOLE = "\0"
"""Stands in a template where ``${...}`` stood."""


class WrongError(ValueError):
    """Something is not closed; its line is 1-based."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@dataclass
class Template:
    """One template."""

    line: int
    tag: str
    text: str = ""
    holes: list[str] = field(default_factory=list)


def templates(code: str) -> list[Template]:
    """Return all templates of a module, those within others too.

    Raises:
        WrongError: If something is not closed.
    """
    found: list[Template] = []
    _code(code, 0, found, nested=False)
    return found


def _code(code: str, at: int, found: list[Template], *, nested: bool) -> int:
    """Read code up to its end, or up to the brace that closes ``${`` if it is nested in one."""
    begun, depth, last = at, 0, ""
    while at < len(code):
        char = code[at]
        if nested and depth == 0 and char == "}":
            return at + 1
        end = _blank(code, at)
        if end == at:
            end = _piece(code, at, last, found)
            last = code[at:end] if end == at + 1 or _WORD.match(char) else char + "x"
            depth += {"{": 1, "}": -1}.get(char, 0)
        at = end
    if nested:
        raise WrongError(_line(code, begun), "${ is not closed")
    return at


def _blank(code: str, at: int) -> int:
    """Return where what says nothing ends: a blank or a comment."""
    if code.startswith("//", at):
        return (code.find("\n", at) + 1) or len(code)
    if code.startswith("/*", at):
        return _after(code, "*/", at + 2)
    return at + code[at].isspace()


def _piece(code: str, at: int, last: str, found: list[Template]) -> int:
    """Return where a word, a sign or something quoted ends that begins here."""
    if word := _WORD.match(code, at):
        return word.end()
    if code[at] in "'\"":
        return _string(code, at)
    if code[at] == "`":
        return _template(code, at, last, found)
    if code[at] == "/" and _BEFORE_REGEX.fullmatch(last):
        return _regex(code, at)
    return at + 1


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1


def _after(code: str, end: str, at: int) -> int:
    found = code.find(end, at)
    if found < 0:
        raise WrongError(_line(code, at), f"no {end}")
    return found + len(end)


def _string(code: str, at: int) -> int:
    quote, begun = code[at], at
    at += 1
    while code[at] != quote:
        if code[at] == "\n":
            raise WrongError(_line(code, begun), "a string is not closed")
        at += 2 if code[at] == "\\" else 1
    return at + 1


def _regex(code: str, at: int) -> int:
    begun, inside = at, False
    at += 1
    while inside or code[at] != "/":
        if code[at] == "\n":
            raise WrongError(_line(code, begun), "an expression is not closed")
        inside = code[at] == "[" or (inside and code[at] != "]")
        at += 2 if code[at] == "\\" else 1
    return at + 1


def _template(code: str, at: int, tag: str, found: list[Template]) -> int:
    made = Template(_line(code, at), tag)
    found.append(made)
    at += 1
    while at < len(code):
        if code[at] == "`":
            return at + 1
        if code.startswith("${", at):
            end = _code(code, at + 2, found, nested=True)
            made.holes.append(code[at + 2 : end - 1])
            made.text += HOLE
            at = end
        elif code[at] == "\\":
            made.text += code[at + 1]
            at += 2
        else:
            made.text += code[at]
            at += 1
    raise WrongError(made.line, "a template is not closed")


def mistakes(template: Template) -> Iterator[str]:
    """Yield what htm would draw otherwise than it looks, each with its line."""
    opened: list[tuple[str, int]] = []
    for token in _TOKEN.finditer(template.text):
        word, line = token[0], _line_of(template, token.start())
        if word == "<" and (tag := _WORD.match(template.text, token.end())):
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


def _line_of(template: Template, at: int) -> int:
    before = template.text[:at]
    passed = template.holes[: before.count(HOLE)]
    return template.line + before.count("\n") + sum(hole.count("\n") for hole in passed)


def _name_of(template: Template, token: re.Match[str]) -> str:
    if token["name"] != HOLE:
        return token["name"] or "/"
    return f"${{{template.holes[template.text.count(HOLE, 0, token.start())].strip()}}}"


def _close(name: str, opened: list[tuple[str, int]]) -> Iterator[str]:
    if not opened:
        yield f"</{name}> closes nothing"
        return
    last, line = opened.pop()
    if name not in ("/", last):
        yield f"</{name}> closes <{last}> of line {line}"


def _attributes(tag: str, rest: str) -> Iterator[str]:
    seen: set[str] = set()
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
