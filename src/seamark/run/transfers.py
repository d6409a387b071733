"""Records of the transfers of a run between places."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from seamark.process.liveness import user_name

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.reading.attributes import Attribute

__all__ = ["TRANSFERS", "transfer_to", "transfers_of"]

TRANSFERS: Final = "sys/transfers"
"""Below this, with a name of each place that it came to."""


def transfers_of(attributes: Iterable[Attribute]) -> list[dict[str, Any]]:
    """Return the transfers among attributes, the oldest first; anybody may have written them."""
    found = [one.value for one in attributes if isinstance(one.value, dict)]
    return sorted(found, key=lambda one: str(one.get("time")))


def transfer_to(
    folder: RunFolder, uri: str, name: str | None, t_ns: int, project: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the path at which both places record that a run was moved or sent, and what they do.

    Args:
        folder: Of the run.
        uri: Of the remote, as `seamark.remote.places.canonical` writes it.
        name: What the run is called there; None if it has no name.
        t_ns: When, in nanoseconds since the Unix epoch.
        project: Project in which it is there, if that is not the one that it has here.
    """
    source = f"file://{socket.gethostname()}{folder.root.as_posix()}"
    told = f"{source}\0{uri}" if project is None else f"{source}\0{uri}\0{project}"
    made = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{TRANSFERS}/{made}", {
        "time": datetime.fromtimestamp(t_ns / 1e9, timezone.utc).isoformat(),
        "from": source,
        "to": uri,
        "by": user_name(),
        "name": name,
        **({} if project is None else {"project": project}),
    }
