"""HTML fragments that show read values in a notebook.

They contain no scripts, no addresses and no colours, and so suit light and dark pages. Text from a
run is untrusted: it is truncated and escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from seamark.process.interrupts import let_pass
from seamark.reading.text import value_text

_MAX_ROWS: Final = 10
"""Maximum number of rows shown of a long table."""
_MAX_CHARACTERS: Final = 120
"""Maximum number of characters shown of a value."""
# JupyterLab would render text between dollar signs as a formula.
_BLOCK: Final = '<div class="seamark tex2jax_ignore mathjax_ignore" style="overflow:auto">'
_FAINT: Final = 'style="opacity:.7"'


def text(value: Any, most: int = _MAX_CHARACTERS) -> str:
    """Return a value as HTML, truncated, with unprintable characters escaped."""
    if isinstance(value, (list, tuple, set, frozenset)) and all(type(one) is str for one in value):
        value = ", ".join(value if isinstance(value, (list, tuple)) else sorted(value))
    if isinstance(value, datetime):  # the page may be read in another time zone
        value = f"{value:%Y-%m-%d %H:%M:%S} UTC"
    words = value if isinstance(value, str) else value_text(value, exact=False)
    cut = words if len(words) <= most else words[: most - 1] + "…"
    if not cut.isprintable():
        cut = "".join(
            one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut
        )
    return escape(cut)


def block(title: str, *parts: str) -> str:
    """Return a block with a title; title and parts are HTML, and empty parts are left out."""
    return "".join([_BLOCK, f"<div><b>{title}</b></div>", *filter(None, parts), "</div>"])


def table(header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table of HTML cells with a line of plain text below it."""
    left = 'style="text-align:left"'
    head = "".join(f"<th {left}>{text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    below = f"<div {_FAINT}>{text(note, 1000)}</div>" if note else ""
    if not body:
        return below
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}{body}</table>{below}"


def rows_of(
    title: str,
    header: Sequence[str],
    count: int,
    row: Callable[[int], Sequence[str]],
    *before: str,
) -> str:
    """Return a block with the first and last rows of a table; cells and ``before`` are HTML."""
    half = _MAX_ROWS // 2
    if count <= _MAX_ROWS:
        rows = [row(at) for at in range(count)]
    else:
        rows = [row(at) for at in (*range(half), *range(count - half, count))]
        rows.insert(half, ["…"] * len(header))
    return block(text(title), *before, table(header, rows))


def html_or_text(make: Callable[[], str], plain: Callable[[], str]) -> str:
    """Return HTML, or the plain text if creating it fails: display must not raise."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - as the docstring says
        let_pass(error)
        return f"<code>{text(plain(), 1000)}</code>"
