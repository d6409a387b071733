"""What a server was told when it was started, as each of its processes gets it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

__all__ = [
    "API_VERSION",
    "DEFAULT_FOLDER",
    "DEFAULT_PORT",
    "FILE_SUFFIXES",
    "JOURNAL_VERSION",
    "Limits",
    "Settings",
]

API_VERSION: Final = 1
JOURNAL_VERSION: Final = (1, 0)
DEFAULT_FOLDER: Final = "seamark-server"
DEFAULT_PORT: Final = 8400
FILE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
"""What a URL of SQLite ends with that names files by how they begin, and not a folder."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost; the greeting of the server tells them to clients.

    Attributes:
        batch_bytes: Longest body of a request, as it is sent.
        frame_bytes: Longest body that sends a journal: one frame alone may be longer than a batch.
        plain_bytes: Longest batch of a journal after decompression.
        inflated_bytes: What the frames of one batch may come to, decompressed in turn.
        json_bytes: Longest body that is JSON.
        journals: Most journals of one run.
        attributes: Most attributes of one run.
        query_bytes: Longest query.
        target_bytes: Longest path and query string of an address.
        header_bytes: Longest headers of one request, together.
        at_once: Most requests that one process answers at the same time.
        idle_s: How long a sender may keep silent in the middle of a request, seconds.
        request_s: How long the body of one request may take to arrive, seconds.
        statement_s: How long one statement of a reader may take in the database, seconds.
    """

    batch_bytes: int = 8 << 20
    frame_bytes: int = 17 << 20
    plain_bytes: int = 64 << 20
    inflated_bytes: int = 256 << 20
    json_bytes: int = 1 << 20
    journals: int = 4096
    attributes: int = 100_000
    query_bytes: int = 16 << 10
    target_bytes: int = 32 << 10
    header_bytes: int = 32 << 10
    at_once: int = 512
    idle_s: float = 30.0
    request_s: float = 600.0
    statement_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs.

    Attributes:
        folder: Where it keeps what lies in files; absolute.
        store: URL of its databases: ``sqlite:///FOLDER`` for files in a folder, or
            ``postgresql://...``.
        blobs: URL of what it keeps as objects, ``file:///...``.
        host: Address that it listens at.
        port: Port that it listens at; 0 for any that is free.
        workers: How many processes answer requests.
        fold_workers: How many processes fold what arrived.
        threads: How many requests one process works on at the same time.
        tls_cert: Certificate chain, PEM; None for plain HTTP.
        tls_key: Its private key, PEM.
        proxies: Addresses or networks whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are
            believed.
        auth: Entry point of the group ``seamark.auth`` that says who asks; empty for tokens alone.
        quota: How much each workspace may keep, journals and files, bytes; None for no limit.
        limits: What one request may cost.
    """

    folder: Path
    store: str
    blobs: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    workers: int = 1
    fold_workers: int = 1
    threads: int = 64
    tls_cert: Path | None = None
    tls_key: Path | None = None
    proxies: tuple[str, ...] = ()
    auth: str = ""
    quota: int | None = None
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def at(
        cls, folder: Path, store: str | None = None, blobs: str | None = None, **rest: Any
    ) -> Settings:
        """Return settings with all that is not given in its default place.

        Args:
            folder: Where files lie by default.
            store: URL of the databases; by default SQLite in the folder.
            blobs: URL of the objects; by default the folder ``objects`` in it.
            **rest: Further attributes.
        """
        folder = folder.absolute()
        return cls(
            folder,
            store or f"sqlite:///{folder}",
            blobs or (folder / "objects").as_uri(),
            **rest,
        )

    @property
    def is_sqlite(self) -> bool:
        """Whether the databases are files."""
        return self.store.startswith("sqlite:")

    @property
    def database_folder(self) -> Path:
        """Where the files of SQLite lie."""
        path = Path(self.store.removeprefix("sqlite:///"))
        return path.parent if path.suffix in FILE_SUFFIXES else path

    def to_json(self) -> str:
        """Return the settings for another process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return settings that another process wrote with `to_json`."""
        given = json.loads(text)
        known = {each.name for each in fields(cls)}
        for name in ("folder", "tls_cert", "tls_key"):
            given[name] = Path(given[name]) if given[name] else None
        given["proxies"] = tuple(given["proxies"])
        given["limits"] = Limits(**given["limits"])
        return cls(**{name: value for name, value in given.items() if name in known})
