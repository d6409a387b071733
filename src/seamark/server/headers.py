"""Headers of every answer."""

from __future__ import annotations

from typing import Final

__all__ = ["ALWAYS"]

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
