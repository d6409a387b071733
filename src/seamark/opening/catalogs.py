"""The place that is read, and its catalog: the index of a root, or a client of a server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import ArgumentError

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog

__all__ = ["first_remote", "open_catalog", "place_to_read", "readable"]


def first_remote(given: str | Sequence[str] | None) -> str | None:
    """Return the remote that is read of those that were named; None if none was.

    What is sent on to Neptune's protocol is read where it was recorded.

    Args:
        given: One URI, several, or several in one text with commas between them.
    """
    if given is None:
        return None
    named = given.split(",") if isinstance(given, str) else list(given)
    uris = [one.strip() for one in named if one.strip()]
    return next((one for one in uris if not one.lower().startswith("neptune://")), None)


def readable(uri: str) -> Path | str:
    """Return what a remote is as a place to read: a root on this machine, or a server's address.

    Raises:
        ArgumentError: If it is neither.
    """
    from seamark.remote.places import canonical

    known = canonical(uri)
    scheme = known.partition("://")[0]
    if scheme == "file":
        from seamark.remote.file import root_of

        return root_of(known)
    if scheme == "neptune":
        msg = (
            f"remote: expected a server or file:// to read from, got {known!r:.200}: what is sent "
            "there is read on this disk, or with the package neptune"
        )
        raise ArgumentError(msg)
    if scheme not in ("http", "https"):
        msg = f"remote: expected a server or file:// to read from, got {known!r:.200}"
        raise ArgumentError(msg)
    return known


def place_to_read(
    root: str | os.PathLike[str] | None, remote: str | Sequence[str] | None
) -> Path | str | None:
    """Return the place that arguments or the environment name to be read; None for the root.

    Args:
        root: As it was given; then ``SEAMARK_REMOTE`` does not count.
        remote: As it was given.

    Raises:
        ArgumentError: If the remote cannot be read.
    """
    uri = first_remote(remote)
    if uri is None and remote is None and root is None:
        uri = first_remote(os.environ.get("SEAMARK_REMOTE"))
    return None if uri is None else readable(uri)


def open_catalog(place: Path | str, token: str | None = None) -> Catalog:
    """Open a place to read its runs; nothing is read yet.

    Args:
        place: A root folder, or the address of a server.
        token: To show to a server; None for ``SEAMARK_API_TOKEN`` or what ``seamark login`` kept.

    Raises:
        ArgumentError: If ``SEAMARK_INDEX`` points into the root.
        MissingExtraError: If what asks a server is not installed.
    """
    if isinstance(place, Path):
        from seamark.index.index import Index  # SQLAlchemy is for those who need it

        return Index.open(place)
    from seamark.remote.http.catalog import RemoteCatalog

    return RemoteCatalog.open(place, token)
