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
"""Namespace of the transfers, each below a digest of its two places."""


def transfers_of(attributes: Iterable[Attribute]) -> list[dict[str, Any]]:
    """Return the transfers among attributes, the oldest first; anybody may have written them."""
    found = [one.value for one in attributes if isinstance(one.value, dict)]
    return sorted(found, key=lambda one: str(one.get("time")))


def transfer_to(
    folder: RunFolder, uri: str, name: str | None, t_ns: int, project: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the path and the value by which both places record that a run was moved or sent.

    Args:
        folder: Folder of the run.
        uri: URI of the remote, as `seamark.remote.places.canonical` writes it.
        name: Name of the run there; None if it has none.
        t_ns: Time of the transfer, nanoseconds since the Unix epoch.
        project: Project there, if that is not the one that the run has here.
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
