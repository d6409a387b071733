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
_BEFORE_REGEX = re.compile(
    r"|return|typeof|case|in|of|delete|void|throw|new|else|do|instanceof|await|yield"
    r"|.*[=(,:\[!&|?{};+*%<>~^-]"
)
"""What a slash that follows begins an expression with."""
_TAG = re.compile(r"/?[a-zA-Z][\w.-]*|//?")
_NAME = re.compile(r"[a-zA-Z_:@][\w:.-]*")
HOLE = "\0"
"""Stands in a template where ``${...}`` stood."""


class WrongError(ValueError):
    """Something is not closed; its line is 1-based."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@dataclass
class Template:
    """One template.

    Attributes:
        line: Where it begins, 1-based.
        tag: The word before it, ``html`` of those that are drawn.
        text: What it says, each ``${...}`` as `HOLE`.
        holes: The code of each ``${...}``.
    """

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
    reader = _Markup(template)
    try:
        reader.read()
    except WrongError as error:
        reader.told.append(str(error))
    yield from reader.told


class _Markup:
    """Reads what stands in a template, as htm does."""

    def __init__(self, template: Template) -> None:
        self.template, self.text, self.at = template, template.text, 0
        self.open: list[tuple[str, int]] = []
        self.holes = iter(template.holes)
        self.told: list[str] = []

    def line(self) -> int:
        before = self.text[: self.at]
        passed = self.template.holes[: before.count(HOLE)]
        return self.template.line + before.count("\n") + sum(hole.count("\n") for hole in passed)

    def say(self, what: str) -> None:
        self.told.append(f"line {self.line()}: {what}")

    def hole(self) -> str:
        self.at += 1
        return f"${{{next(self.holes).strip()}}}"

    def read(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == HOLE:
                self.hole()
            elif self.text.startswith("<!--", self.at):
                end = _after(self.text, "-->", self.at)
                while self.text.count(HOLE, self.at, end):
                    self.at = self.text.index(HOLE, self.at)
                    self.hole()
                self.at = end
            elif char == "<":
                self.tag()
            else:
                if char == ">":
                    self.say("> stands alone")
                if char == "&" and re.match(r"&(#?\w+);", self.text[self.at :]):
                    self.say("htm knows no entities: write the character itself")
                self.at += 1
        for name, line in self.open:
            self.told.append(f"line {line}: <{name}> is not closed")

    def tag(self) -> None:
        begun = self.line()
        self.at += 1
        closes = self.text.startswith("/", self.at)
        if closes:
            self.at += 1
        if self.text.startswith(HOLE, self.at):
            name = self.hole()
        elif closes and self.text.startswith("/", self.at):
            name, self.at = "/", self.at + 1
        elif closes and self.text.startswith(">", self.at):
            name = "/"
        elif word := _TAG.match(self.text, self.at):
            name, self.at = word[0], word.end()
        else:
            self.say("< begins no tag")
            return
        if closes:
            self.close(name)
            return
        if not self.attributes(name):
            self.open.append((name, begun))

    def close(self, name: str) -> None:
        self.space()
        if not self.text.startswith(">", self.at):
            self.say(f"</{name}> is not closed")
        self.at += 1
        if not self.open:
            self.say(f"</{name}> closes nothing")
            return
        opened, line = self.open.pop()
        if name not in ("/", opened):
            self.say(f"</{name}> closes <{opened}> of line {line}")

    def space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def attributes(self, tag: str) -> bool:
        """Read up to the end of the tag, and return whether that closes it."""
        seen: set[str] = set()
        while True:
            self.space()
            rest = self.text[self.at : self.at + 3]
            if not rest:
                raise WrongError(self.line(), f"<{tag} is not ended")
            if rest.startswith("/>"):
                self.at += 2
                return True
            if rest.startswith(">"):
                self.at += 1
                return False
            if rest == "..." and self.text[self.at + 3 : self.at + 4] == HOLE:
                self.at += 3
                self.hole()
            elif name := _NAME.match(self.text, self.at):
                self.at = name.end()
                if name[0] in seen:
                    self.say(f"<{tag}> has {name[0]} twice")
                seen.add(name[0])
                self.value(tag, name[0])
            else:
                raise WrongError(self.line(), f"{rest!r} in <{tag}>")

    def value(self, tag: str, name: str) -> None:
        if not self.text.startswith("=", self.at):
            return
        self.at += 1
        quote = self.text[self.at : self.at + 1]
        if quote in ("'", '"'):
            self.at += 1
            ends = quote
        else:
            ends = " \n\t>"
        begun = self.at
        while self.text[self.at : self.at + 1] not in ends or self.at >= len(self.text):
            if self.at >= len(self.text):
                raise WrongError(self.line(), f"{name} of <{tag}> is not ended")
            if ends != quote and self.text.startswith("/>", self.at):
                break
            if self.text[self.at] == HOLE:
                self.hole()
            else:
                self.at += 1
        if self.at == begun and ends != quote:
            self.say(f"{name} of <{tag}> has no value")
        if ends == quote:
            self.at += 1
        if name == "style" and self.text[begun : self.at].strip("'\"") != HOLE:
            self.say("a style as text is refused by the page's policy")
