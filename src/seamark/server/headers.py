"""Headers of every answer, and of those whose bytes somebody uploaded."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

__all__ = ["ALWAYS", "of_upload"]

ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""What an answer has unless its route said otherwise.

No other page may read an answer (there is no CORS), show it in a frame or guess its type; a cache
asks each time, and keeps nothing for others.
"""


def of_upload(name: str) -> dict[str, str]:
    """Return the headers of bytes that somebody uploaded: a browser saves them and runs nothing.

    Args:
        name: What the file is called where it is saved.
    """
    last = name.replace("\\", "/").rpartition("/")[2].encode("utf-8", "replace").decode()
    shown = "".join(letter if letter.isprintable() else "_" for letter in last)[:200]
    safe = shown.strip(". ") or "file"
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(safe, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Content-Type": "application/octet-stream",
        "X-Content-Type-Options": "nosniff",
    }
