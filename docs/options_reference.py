"""Write the references of the options: ``python docs/options_reference.py``.

It writes ``docs/reference/options.md`` from `RunOptions`, and the table of
``docs/reference/environment.md`` from `VARIABLES`. ``tests/test_docs.py`` fails when one is out of
date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from seamark.options.config import VARIABLES
from seamark.options.run_options import RunOptions

REFERENCE = Path(__file__).parent / "reference"
OPENING = """\
# Options of a run

`seamark.init_run()` and the loggers take these by name; None is the same as not given. A
[file](../howto/parameters.md#from-a-file) may say most of them, and some have an
[environment variable](environment.md).

| option | type | what it is |
|---|---|---|
"""
TABLE = re.compile(r"\| variable \|.*?\n(?=\n)", re.DOTALL)


def options() -> str:
    """Return the page of the options."""
    texts = inspect.cleandoc(RunOptions.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w|\Z)", texts, re.DOTALL | re.MULTILINE)
    types = RunOptions.__annotations__
    rows = []
    for name, text in entries:
        kind = types[name].__forward_arg__.removesuffix(" | None").replace("|", "\\|")
        words = re.sub(r"``(.*?)``", r"`\1`", " ".join(text.split())).replace("|", "\\|")
        rows.append(f"| `{name}` | `{kind}` | {words} |\n")
    return OPENING + "".join(rows)


def environment() -> str:
    """Return the page of the environment with the table as it should be."""
    rows = [f"| `SEAMARK_{name}` | {does} | {other} |" for name, (does, other) in VARIABLES.items()]
    table = "\n".join(("| variable | what it does | otherwise |", "|---|---|---|", *rows, ""))
    text = (REFERENCE / "environment.md").read_text("utf-8")
    return TABLE.sub(lambda _: table, text, count=1)


def pages() -> dict[str, str]:
    """Return both pages by the names of their files."""
    return {"options.md": options(), "environment.md": environment()}


if __name__ == "__main__":
    for file, page in pages().items():
        (REFERENCE / file).write_text(page, "utf-8")
