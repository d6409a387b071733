"""Texts for people are reviewed: ``tests/data/messages`` has those of each package.

Errors, warnings, help and lines of commands, as templates. If a text changes on purpose, run
``python tests/test_messages.py``, and read the difference as a user would.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seamark"
REVIEWED = ROOT / "tests" / "data" / "messages"
WORDS = re.compile(r"[A-Za-z]{2}.* .*[A-Za-z]{2}|[a-z]{3}.* \{\}", re.DOTALL)
CODE = re.compile(
    r"\s*(<|\{\} (IN|= ANY) |default-src|([A-Z]+ )?(SELECT|UPDATE|DELETE|CREATE|TABLE) )"
    r"|.*(\\[bdsw]|%ignore|\bsys/)",
    re.DOTALL,
)

pytestmark = pytest.mark.once


def template(node):
    """Return the text of a string or an f-string, with ``{}`` in place of values, or None."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            getattr(each, "value", "") if isinstance(each, ast.Constant) else "{}"
            for each in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts(tree):
    """Yield the texts of a module in the order of its lines, without docstrings."""
    nodes = list(ast.walk(tree))
    parts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts |= {id(one) for node in nodes if isinstance(node, ast.JoinedStr) for one in node.values}
    found = [(node, template(node)) for node in nodes if id(node) not in parts]
    found = [(node.lineno, node.col_offset, text) for node, text in found if text is not None]
    for _, _, text in sorted(found):
        if WORDS.search(text) and not CODE.match(text):
            yield text.replace("\n", "\\n")


def packages(source):
    """Return the lines of the file of each package, by its name."""
    files = {}
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        package = place.parts[0] if len(place.parts) > 1 else "top"
        found = dict.fromkeys(texts(ast.parse(path.read_text("utf-8"))))
        if found:
            files.setdefault(package, []).extend([f"# {place.as_posix()}", *found, ""])
    return {package: "\n".join(lines) for package, lines in files.items()}


def test_texts_are_those_that_were_reviewed():
    reviewed = {path.stem: path.read_text("utf-8") for path in REVIEWED.glob("*.txt")}
    assert packages(SOURCE) == reviewed, "run python tests/test_messages.py"


def test_texts_are_found(tmp_path):
    (tmp_path / "one.py").write_text(
        '"""Not this one."""\n'
        'X = re.compile("a \\\\d b")\n'
        'raise E(f"expected {x!r}, got " f"{y}")\n'
    )
    assert packages(tmp_path) == {"top": "# one.py\nexpected {}, got {}\n"}


if __name__ == "__main__":
    for name, content in packages(SOURCE).items():
        (REVIEWED / f"{name}.txt").write_text(content, "utf-8")
