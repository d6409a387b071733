"""Tables of accounts and their migrations, and the format of tokens.

These tables hold the data that cannot be rebuilt from recorded runs. The migrations in
`seamark.server.accounts.migrations` create and change them; a test compares the result with the
tables here.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.server.access import Role
from seamark.server.database import RowNumber, Text
from seamark.server.databases import SchemaNewer
from seamark.server.views import View
from seamark.store.database import Upsert, retry

if TYPE_CHECKING:
    from alembic.config import Config

    from seamark.server.views import Work
    from seamark.store.database import Database


_PREFIX: Final = "seamark_"
"""Prefix of tokens, recognizable for users and secret scanners."""
PREFIX_CHARS: Final = len(_PREFIX) + 8
_TOKEN_FORMAT: Final = re.compile(r"seamark_[A-Za-z0-9_-]{43}")


class NewToken(NamedTuple):
    """New token; its secret is never shown again.

    `hash` is the SHA-256 (hex) of the whole token, whose 256 random bits need no slower hash.
    """

    secret: str
    prefix: str
    hash: str


@dataclass(frozen=True, slots=True)
class Token:
    """Public data of a token, without its secret; times are in nanoseconds since the Unix epoch.

    `id` is its public prefix. `role` is the highest role that it grants. It is limited to `project`
    and its sub-projects; None for no limit. `used_ns` is approximate. `made_with` is the limited
    token that created it; revoking that one revokes both.
    """

    id: str
    user: str
    label: str
    role: Role | None
    project: str | None
    created_ns: int
    created_by: str
    expires_ns: int | None
    revoked_ns: int | None
    used_ns: int | None
    made_with: str | None = None

    def shown(self) -> dict[str, Any]:
        """Return the token for JSON."""
        role = self.role.name.lower() if self.role else None
        return {**asdict(self), "role": role}

    @classmethod
    def of(cls, row: Any) -> Token:
        """Create a token from a row of its table."""
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        role = None if row.role is None else Role(row.role)
        return cls(**values | {"role": role})


def new_token() -> NewToken:
    """Create a token of 256 random bits."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return NewToken(secret, prefix_of(secret), hash_of(secret))


def is_token(text: str) -> bool:
    """Return whether a text has the format of a token."""
    return _TOKEN_FORMAT.fullmatch(text) is not None


def prefix_of(secret: str) -> str:
    """Return the public prefix of a token; 208 of its bits stay secret."""
    return secret[:PREFIX_CHARS]


def hash_of(secret: str) -> str:
    """Return the SHA-256 (hex) of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


metadata: Final = sa.MetaData()
fact: Final = sa.Table(
    "fact",
    metadata,
    sa.Column("key", Text, primary_key=True),
    sa.Column("value", Text, nullable=False),
)
"""Data of the server itself, such as its random name ``instance``."""
user: Final = sa.Table(
    "user",
    metadata,
    sa.Column("name", Text, primary_key=True),
    sa.Column("service", sa.Boolean, nullable=False),
    sa.Column("admin", sa.Boolean, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("disabled_ns", sa.BigInteger),
)
"""Users, including service accounts (``service``); an ``admin`` has all rights."""
token: Final = sa.Table(
    "token",
    metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("hash", Text, nullable=False, unique=True),
    sa.Column("user", Text, sa.ForeignKey("user.name"), nullable=False, index=True),
    sa.Column("label", Text, nullable=False),
    sa.Column("role", sa.SmallInteger),
    sa.Column("project", Text),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("created_by", Text, nullable=False),
    sa.Column("expires_ns", sa.BigInteger),
    sa.Column("revoked_ns", sa.BigInteger),
    sa.Column("used_ns", sa.BigInteger),
    sa.Column("made_with", Text),
)
"""Tokens: ``id`` is the public prefix, ``hash`` the SHA-256 (hex) of the whole token.

``role`` and ``project`` are its limits, if any. ``made_with`` is the ``id`` of the limited token
that created it; both end together.
"""
member: Final = sa.Table(
    "member",
    metadata,
    sa.Column("user", Text, sa.ForeignKey("user.name"), primary_key=True),
    sa.Column("project", Text, primary_key=True),
    sa.Column("role", sa.SmallInteger, nullable=False),
)
"""Role of a user in a project and everything below it.

The workspace is the first part of a project's path. Its owner administers it. Role 0 is a plain
member, who may read projects that are visible to the workspace.
"""
project: Final = sa.Table(
    "project",
    metadata,
    sa.Column("path", Text, primary_key=True),
    sa.Column("visibility", Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("created_by", Text, nullable=False),
)
"""Visibility of a project to users without a role: ``private``, ``workspace`` or ``public``.

A project without a row inherits from the nearest project above it; the default is private.
"""
audit: Final = sa.Table(
    "audit",
    metadata,
    sa.Column("id", RowNumber, primary_key=True, autoincrement=True),
    sa.Column("t_ns", sa.BigInteger, nullable=False, index=True),
    sa.Column("who", Text, nullable=False),
    sa.Column("token", Text, nullable=False),
    sa.Column("address", Text, nullable=False),
    sa.Column("action", Text, nullable=False),
    sa.Column("subject", Text, nullable=False),
    sa.Column("detail", Text, nullable=False),
)
"""Audit log: actions with user and address; ``detail`` is JSON and contains no secrets."""
tombstone: Final = sa.Table(
    "tombstone",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("run", Text, primary_key=True),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
    sa.Column("who", Text, nullable=False),
)
"""Purged runs, which stay removed until their data is restored explicitly."""
neptune_project: Final = sa.Table(
    "neptune_project",
    metadata,
    sa.Column("path", Text, primary_key=True),
    sa.Column("key", Text, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
)
"""Prefix (``key``, as in ``SAN-12``) of the run ids that Neptune's client makes in a project, and
the last number.

For a model, whose path is ``<project>/.models/<key>`` in lower case, it is the original key and the
number of its last version made by the client.
"""
reservation: Final = sa.Table(
    "reservation",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("kind", Text, primary_key=True),
    sa.Column("name", Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("holder", Text, nullable=False),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
)
"""Reservations, inserted once and never changed: claims of runs or groups (``kind``) by processes
(``holder``, JSON), and their releases; see `seamark.server.purging`."""
view: Final = sa.Table(
    "view",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("name", Text, primary_key=True),
    sa.Column("address", Text, nullable=False),
    sa.Column("default", sa.Boolean, nullable=False),
    sa.Column("by", Text, nullable=False),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
)
"""Saved views of projects; see `seamark.server.views`."""
_fact: Final = fact.c
READ_FACT: Final = sa.select(_fact.value).where(_fact.key == sa.bindparam("at"))
_INSERT_FACT: Final = Upsert(fact, ("key", "value"), ("key",))
WRITE_FACT: Final = Upsert(fact, ("key", "value"), ("key",), overwrite=True)


def instance_of(account: Database) -> str:
    """Return the random name of this server, created at the first call."""
    return _random_fact(account, "instance", 8)


def link_key_of(account: Database) -> bytes:
    """Return the key that signs addresses of contents, the same in all processes."""
    return bytes.fromhex(_random_fact(account, "link_key", 32))


def _random_fact(account: Database, key: str, size: int) -> str:
    rows = account.fetch(READ_FACT, at=key)
    if not rows:
        with account.writing() as connection:  # the first process decides
            account.run(connection, _INSERT_FACT, key=key, value=secrets.token_hex(size))
            rows = account.rows(connection, READ_FACT, at=key)
    return str(rows[0][0])


def lock_account(connection: sa.Connection) -> None:
    """Lock the ``account`` tables until the transaction ends."""
    if connection.dialect.name != "sqlite":  # transactions of SQLite are exclusive
        connection.execute(sa.text("LOCK TABLE fact IN EXCLUSIVE MODE"))


HEAD: Final = "0006"
"""Latest revision. A database at this revision needs no Alembic, whose import is slow."""
_MIGRATIONS: Final = "seamark.server.accounts:migrations"
_ALEMBIC_VERSION: Final = sa.table("alembic_version", sa.column("version_num"))
_LOCK_KEY: Final = 0x5EA3A12C
"""Key of the advisory lock of PostgreSQL, held until the transaction ends."""


def migrate(database: Database) -> None:
    """Apply missing migrations in one transaction; safe in several processes at once."""
    if is_current(database):
        return
    from alembic import command

    config = _config()
    with database.writing() as connection:
        if connection.dialect.name != "sqlite":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_KEY)))
        _refuse_unknown_revision(connection, config)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(database: Database) -> bool:
    """Return whether all migrations are applied; `SchemaNewer` for tables of another version."""
    with database.reading() as connection:
        if not sa.inspect(connection).has_table(_ALEMBIC_VERSION.name):
            return False
        if list(connection.scalars(sa.select(_ALEMBIC_VERSION.c.version_num))) == [HEAD]:
            return True
        _refuse_unknown_revision(connection, _config())
    return False


def _refuse_unknown_revision(connection: sa.Connection, config: Config) -> None:
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    current = MigrationContext.configure(connection).get_current_revision()
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        if current < HEAD:
            raise SchemaNewer(
                f"the database belongs to a development version of Seamark (revision {current!r} of"
                " its accounts), which is not supported: use another database"
            )
        raise SchemaNewer(
            f"the database was migrated by a newer Seamark (unknown revision {current!r} of its"
            " accounts): update Seamark"
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _MIGRATIONS)
    config.set_main_option("path_separator", "os")
    return config


_VIEW_COLUMNS: Final = ("name", "address", "default", "by", "t_ns")
_row: Final = view.c
_READ_VIEWS: Final = sa.select(*(_row[name] for name in _VIEW_COLUMNS)).where(
    _row.project == sa.bindparam("at")
)
_INSERT_VIEW: Final = Upsert(view, ("project", *_VIEW_COLUMNS), ("project", "name"))
_DELETE_VIEWS: Final = sa.delete(view).where(_row.project == sa.bindparam("at"))


class ServerViews:
    """The views of all projects of a server; see `seamark.server.views.Views`."""

    def __init__(self, account: Database) -> None:
        self._account = account

    def apart(self, project: str) -> str:
        """Return an empty text, as all readers of the project see its views."""
        del project
        return ""

    def read(self, project: str) -> Mapping[str, View]:
        """Return the views of a project by name."""
        with self._account.reading() as connection:
            return self._read(connection, project)

    def change(self, project: str, work: Work) -> Mapping[str, View]:
        """Change the views of a project in one transaction; return them."""

        def changed() -> Mapping[str, View]:
            with self._account.writing() as connection:
                lock_account(connection)
                after = work(self._read(connection, project))
                self._account.run(connection, _DELETE_VIEWS, at=project)
                rows = [(project, *one.model_dump().values()) for one in after.values()]
                self._account.run_many(connection, _INSERT_VIEW, rows)
            return after

        return retry(changed)

    def _read(self, connection: sa.Connection, project: str) -> dict[str, View]:
        rows = self._account.rows(connection, _READ_VIEWS, at=project)
        return {row[0]: View(**dict(zip(_VIEW_COLUMNS, row, strict=True))) for row in rows}
