"""Docstrings start with a verb or a noun phrase, and names are made of words of this field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "seamark"
OPENERS = re.compile(
    r"(as|have|how|it|of|ones|so|that|them|these|they|this|those|what|where|which|who|whom|whose|why)\b",
    re.IGNORECASE,
)
RIDDLES = re.compile(
    r"(?<![a-z])(asked|asking|asks|begun|beside|came|comes|doubts?|elsewhere|gone|heard?|hears|hearing|house|lacks"
    r"|lacking|looking|meant|mine|ours|partly|rivals?|said|says?|saying|settled|stands|tells?|telling"
    r"|theirs|told|troubles?|twins?)(?![a-z])",
    re.IGNORECASE,
)


def docstrings(tree):
    """Yield the line and the text of each docstring, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, one in zip([node, *body], body, strict=False) if isinstance(body, list) else ():
            documented = isinstance(before, (ast.Assign, ast.AnnAssign)) or before is node
            text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            if documented and text and isinstance(one.value.value, str):
                yield one.lineno, one.value.value


def names(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id[0] == "_":
            yield node.lineno, node.id


def findings(source):
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for line, text in docstrings(tree):
            if OPENERS.match(text.strip()):
                yield f"{path.relative_to(source)}:{line}: {text.splitlines()[0]}"
        for line, name in names(tree):
            if RIDDLES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)):
                yield f"{path.relative_to(source)}:{line}: {name}"


def test_docstrings_and_names_are_plain():
    found = list(findings(SOURCE))
    assert not found, "\n".join(found)


def test_riddles_are_found(tmp_path):
    (tmp_path / "one.py").write_text(
        '"""What it is."""\n_TOLD = 1\n"""How many."""\ndef hear():\n    """Return it."""\n'
    )
    assert [found.split(":", 2)[1] for found in findings(tmp_path)] == ["1", "3", "4", "2"]
