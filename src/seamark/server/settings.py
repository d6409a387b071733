"""Settings of a server, which each of its processes receives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

API_VERSION: Final = 1
JOURNAL_VERSION: Final = (1, 0)
DEFAULT_FOLDER: Final = "seamark-server"
DEFAULT_PORT: Final = 8400


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request, reported to clients in the server's greeting.

    Attributes:
        frame_bytes: Maximum size of a body with a journal, as one frame may be larger than a batch.
        plain_bytes: Maximum size of a batch of a journal after decompression.
        inflated_bytes: Maximum total size of the frames of one batch after their decompression.
        at_once: Maximum number of requests that one process answers at the same time.
        idle_s: Maximum pause of a sender within a request.
        request_s: Maximum time until the body of one request has arrived.
        statement_s: Time limit of a reader's statement in the database.
    """

    batch_bytes: int = 8 << 20
    frame_bytes: int = 17 << 20
    plain_bytes: int = 64 << 20
    inflated_bytes: int = 256 << 20
    json_bytes: int = 1 << 20
    journals: int = 4096
    attributes: int = 100_000
    target_bytes: int = 32 << 10
    header_bytes: int = 32 << 10
    at_once: int = 512
    idle_s: float = 30.0
    request_s: float = 600.0
    statement_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a server.

    Attributes:
        store: URL of its databases: ``sqlite:///FOLDER`` or ``postgresql://...``.
        blobs: URL of its object storage, ``file:///...``.
        port: Port to listen on; 0 for any free port.
        threads: Number of requests that one process works on at the same time.
        tls_cert: Certificate chain, PEM; None for plain HTTP.
        proxies: Addresses or networks whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are
            trusted.
        auth: Entry point of the group ``seamark.auth`` for authentication; empty: tokens only.
        quota: Limit on the journals and files of each workspace, bytes; None for no limit.
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
        """Return settings whose default databases and objects are in a folder."""
        folder = folder.absolute()
        return cls(
            folder,
            store or f"sqlite:///{folder}",
            blobs or (folder / "objects").as_uri(),
            **rest,
        )

    @property
    def is_sqlite(self) -> bool:
        """Flag that the databases are files."""
        return self.store.startswith("sqlite:")

    @property
    def database_folder(self) -> Path:
        """Folder of the SQLite files."""
        return Path(self.store.removeprefix("sqlite:///"))

    def to_json(self) -> str:
        """Return the settings for another process."""
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return settings from the result of `to_json` in another process."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))
