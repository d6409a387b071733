"""What a run says of where it was moved, and from where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute

__all__ = ["TRANSFERS", "transfers_of"]

TRANSFERS: Final = "sys/transfers"
"""Below this, with a name of each place that it came to."""


def transfers_of(attributes: Iterable[Attribute]) -> list[dict[str, Any]]:
    """Return the transfers among attributes, the oldest first; anybody may have written them."""
    found = [one.value for one in attributes if isinstance(one.value, dict)]
    return sorted(found, key=lambda one: str(one.get("time")))
