"""The runs of a root and of a server, as readers see them."""

from __future__ import annotations

from pathlib import Path

from seamark.index.index import Index
from seamark.remote.http.catalog import RemoteCatalog


def index_of(root: Path) -> Index:
    """Return the runs of a root."""
    return Index(root)


def catalog_of(url: str, token: str) -> RemoteCatalog:
    """Return the runs of a server."""
    return RemoteCatalog.open(url, token)
