"""Accounts in the database: users, roles and tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, SeamarkError
from seamark.paths import check_name, check_project, is_inside
from seamark.server.access import NOBODY, Identity, Readable, Role
from seamark.server.accounts import tables
from seamark.server.accounts.tables import NewToken, Token, hash_of, lock_account, new_token
from seamark.store.database import Database, Upsert, can_hold

_CACHE_S: Final = 2.0
"""Lifetime of cached rows, in seconds; a revocation takes effect in all processes within it."""
_MAX_LABEL: Final = 200
_ADMIN: Final = "admin"
_ADD_PROJECT: Final = Upsert(
    tables.project, ("path", "visibility", "created_ns", "created_by"), ("path",)
)
_ADD_MEMBER: Final = Upsert(tables.member, ("user", "project", "role"), ("user", "project"))


class NoSuch(SeamarkError, LookupError):  # noqa: N818 - named after the state
    """There is no user, token or project of this name."""


class NameInUse(SeamarkError, ValueError):  # noqa: N818 - named after the state
    """The name belongs to another user."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """Visibility of projects to users without a role in them, by project path."""

    rows: Mapping[str, str]

    def of(self, project: str) -> str:
        """Return the visibility of a project, perhaps inherited from the nearest project above."""
        while project:
            if found := self.rows.get(project):
                return found
            project = project.rpartition("/")[0]
        return "private"

    def shows(self, project: str, who: Identity) -> bool:
        """Return whether a user without a role may read a project."""
        kind = self.of(project)
        return kind == "public" or (kind == "workspace" and _workspace(project) in who.workspaces)


class Accounts:
    """Users, tokens, roles and visibility in the tables of ``account``; thread-safe.

    `changes` counts changes in this process; rows cached before the last change are read again.
    """

    def __init__(
        self,
        database: Database,
        now_ns: Callable[[], int] = time.time_ns,
        keep_s: float = _CACHE_S,
    ) -> None:
        self._database, self.now_ns, self._keep_s = database, now_ns, keep_s
        self._visible: tuple[float, Visibility] | None = None
        self.changes = 0

    # ------------------------------------------------------------------ authorization

    def role(self, who: Identity, project: str) -> Role | None:
        """Return the role of a user in a project; None if its existence is hidden from the user."""
        if who.admin:
            return Role.OWNER
        found = role_of(who, project)
        if found is None and self.visibility().shows(project, who):
            return Role.VIEWER
        return found

    def may_publish(self, who: Identity, project: str) -> bool:
        """Return whether a user may make a project public; owners of its workspace may."""
        return self.role(who, _workspace(project)) == Role.OWNER

    def readable(self, who: Identity) -> Readable:
        """Return the projects that a user may read."""
        if who.admin or "" in who.roles:
            return Readable(everything=True)
        visible = self.visibility()
        shown = {path for path in visible.rows if visible.shows(path, who)}
        hidden = {path for path in visible.rows if path not in shown and role_of(who, path) is None}
        return Readable(projects=frozenset({*who.roles, *shown}), excluded=frozenset(hidden))

    def visibility(self) -> Visibility:
        """Return the visibility of all projects; it may be some seconds old."""
        known = self._visible
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        rows = self._rows(sa.select(tables.project.c.path, tables.project.c.visibility))
        found = Visibility(dict(map(tuple, rows)))
        self._visible = (time.monotonic() + self._keep_s, found)
        return found

    # ------------------------------------------------------------------ authentication

    def by_token(self, secret: str) -> tuple[Token, Identity] | None:
        """Return a token, even if it is not valid, and its identity; None for an unknown token."""
        return self._find_token(tables.token.c.hash == hash_of(secret))

    def by_prefix(self, token: str) -> tuple[Token, Identity] | None:
        """Return a token by its prefix, which is not secret; only for texts signed by Seamark."""
        return self._find_token(tables.token.c.id == token) if can_hold(token) else None

    def _find_token(self, wanted: sa.ColumnElement[bool]) -> tuple[Token, Identity] | None:
        columns = [*tables.token.c, tables.user.c.admin, tables.user.c.disabled_ns]
        statement = (
            sa.select(*columns)
            .join(tables.user, tables.user.c.name == tables.token.c.user)
            .where(wanted)
        )
        with self._database.reading() as connection:
            row = connection.execute(statement).one_or_none()
            if row is None:
                return None
            roles = self._roles(connection, row.user)
        token = Token.of(row)
        if row.disabled_ns is not None:
            return token, NOBODY
        return token, _restricted(Identity(row.user, token.id, bool(row.admin), *roles), token)

    def by_name(self, name: str) -> Identity | None:
        """Return the identity of a user with all rights; None for an unknown user."""
        columns = tables.user.c.admin, tables.user.c.disabled_ns
        statement = sa.select(*columns).where(tables.user.c.name == name)
        if not can_hold(name):
            return None
        with self._database.reading() as connection:
            row = connection.execute(statement).one_or_none()
            if row is None or row.disabled_ns is not None:
                return None
            return Identity(name, "", bool(row.admin), *self._roles(connection, name))

    def used(self, token: str) -> None:
        """Record the current time as the last use of a token."""
        table = tables.token
        with self._database.writing() as connection:
            connection.execute(
                sa.update(table).where(table.c.id == token).values(used_ns=self.now_ns())
            )

    def _roles(
        self, connection: sa.Connection, user: str
    ) -> tuple[dict[str, Role], frozenset[str]]:
        table = tables.member.c
        rows = connection.execute(sa.select(table.project, table.role).where(table.user == user))
        given = dict(map(tuple, rows))
        roles = {path: Role(role) for path, role in given.items() if role}
        return roles, frozenset(map(_workspace, given))

    # ------------------------------------------------------------------ changes

    def has_users(self) -> bool:
        """Return whether there are any users."""
        return bool(self._rows(sa.select(tables.user.c.name).limit(1)))

    def first_admin(self) -> NewToken | None:
        """Create the first admin and a token, in one process only; return None if a user exists."""
        with self._locked() as connection:
            if connection.execute(sa.select(tables.user.c.name).limit(1)).first():
                return None
            self._insert_user(connection, _ADMIN, service=False, admin=True)
            return self._insert_token(connection, _ADMIN, by=_ADMIN, label="first start")

    def add_user(self, name: str, *, service: bool = False, admin: bool = False) -> None:
        """Add a user or a service account; raise `NameInUse` if the name is taken."""
        check_name(name, "user")
        with self._locked() as connection:
            if self._has_user(connection, name):
                raise NameInUse(f"user {name!r} already exists")
            self._insert_user(connection, name, service=service, admin=admin)

    def set_user(
        self, name: str, *, admin: bool | None = None, disabled: bool | None = None
    ) -> None:
        """Change whether a user is an admin or disabled; one admin must remain."""
        values: dict[str, Any] = {}
        if admin is not None:
            values["admin"] = admin
        if disabled is not None:
            values["disabled_ns"] = self.now_ns() if disabled else None
        with self._locked() as connection:
            self._expect_user(connection, name)
            table = tables.user
            if values:
                connection.execute(sa.update(table).where(table.c.name == name).values(**values))
            left = sa.select(table.c.name).where(table.c.admin, table.c.disabled_ns.is_(None))
            if connection.execute(left.limit(1)).first() is None:
                raise ArgumentError(
                    f"user {name!r} is the last admin: make another user an admin first"
                )

    def has_user(self, name: str) -> bool:
        """Return whether a name is taken."""
        with self._database.reading() as connection:
            return self._has_user(connection, name)

    def is_service_of(self, name: str, project: str) -> bool:
        """Return whether a name is free, or belongs to a service account of only one project."""
        table = tables.user.c
        asked = sa.select(table.service, table.admin).where(table.name == name)
        if not can_hold(name):
            return False
        with self._database.reading() as connection:
            row = connection.execute(asked).one_or_none()
            if row is None:
                return True
            member = tables.member.c
            paths = connection.execute(sa.select(member.project).where(member.user == name))
            return (
                bool(row.service)
                and not row.admin
                and all(is_inside(path, project) for path in paths.scalars())
            )

    def raise_member(self, user: str, project: str, role: Role) -> bool:
        """Give a user at least a role in a project; return whether the role was lower before."""
        who = self.by_name(user)
        if who is not None and (who.admin or (role_of(who, project) or 0) >= role):
            return False
        self.set_member(user, project, role)
        return True

    def users(self) -> list[dict[str, Any]]:
        """Return all users by name."""
        rows = self._rows(sa.select(tables.user).order_by(tables.user.c.name))
        return [row._asdict() for row in rows]

    def create_token(
        self,
        user: str,
        *,
        by: str,
        label: str = "",
        role: Role | None = None,
        project: str | None = None,
        expires_ns: int | None = None,
        made_with: str | None = None,
    ) -> NewToken:
        """Create a token for a user.

        `role` is the highest role that it grants, by default that of its user. `project` limits it
        to that project and its sub-projects. `expires_ns` is in nanoseconds since the Unix epoch.
        `made_with` is the prefix of the limited token that created it; revoking that revokes both.
        """
        if project is not None:
            check_project(project)
        if len(label) > _MAX_LABEL or not label.isprintable() or not can_hold(label):
            raise ArgumentError(
                f"label: expected up to {_MAX_LABEL} printable characters, got {label!r:.80}"
            )
        if expires_ns is not None and not self.now_ns() < expires_ns < 1 << 63:
            raise ArgumentError("expires: expected a time in the future")
        with self._locked() as connection:
            self._expect_user(connection, user)
            return self._insert_token(
                connection,
                user,
                by=by,
                label=label,
                role=None if role is None else int(role),
                project=project,
                expires_ns=expires_ns,
                made_with=made_with,
            )

    def token(self, token: str) -> Token:
        """Return the public data of a token by its prefix; raise `NoSuch` if it is unknown."""
        statement = sa.select(tables.token).where(tables.token.c.id == token)
        found = self._rows(statement) if can_hold(token) else ()
        if not found:
            raise NoSuch(
                f"no token starts with {token[:80]!r}; list tokens with: seamark token list"
            )
        return Token.of(found[0])

    def tokens(self, user: str | None = None) -> list[Token]:
        """Return the tokens of a user, or all, oldest first."""
        statement = sa.select(tables.token).order_by(tables.token.c.created_ns, tables.token.c.id)
        if user is not None:
            statement = statement.where(tables.token.c.user == user)
        return list(map(Token.of, self._rows(statement)))

    def revoke(self, token: str) -> None:
        """Revoke a token, and those that it created; harmless when it has ended."""
        self.token(token)
        table = tables.token
        ended, made = set[str](), [token]
        with self._locked() as connection:
            while made:
                ended.update(made)
                connection.execute(
                    sa.update(table)
                    .where(table.c.id.in_(made), table.c.revoked_ns.is_(None))
                    .values(revoked_ns=self.now_ns())
                )
                of_these = sa.select(table.c.id).where(table.c.made_with.in_(made))
                made = [
                    each for each in connection.execute(of_these).scalars() if each not in ended
                ]

    def set_member(self, user: str, project: str, role: Role | None) -> None:
        """Set the role of a user in a project and its sub-projects; None removes it."""
        check_project(project)
        table = tables.member
        mine = (table.c.user == user, table.c.project == project)
        with self._locked() as connection:
            self._expect_user(connection, user)
            connection.execute(sa.delete(table).where(*mine))
            if role is not None:
                connection.execute(
                    sa.insert(table).values(user=user, project=project, role=int(role))
                )

    def add_to_workspace(self, user: str, workspace: str) -> None:
        """Make a user a member of a workspace, unless the user has a role there."""
        check_name(workspace, "workspace")
        with self._locked() as connection:
            self._expect_user(connection, user)
            self._database.run(connection, _ADD_MEMBER, user=user, project=workspace, role=0)

    def services_within(self, project: str) -> list[str]:
        """Return the service accounts with a role in a project or its sub-projects, by name."""
        member, user = tables.member.c, tables.user.c
        statement = (
            sa.select(member.user, member.project)
            .join(tables.user, user.name == member.user)
            .where(user.service)
        )
        return sorted({name for name, path in self._rows(statement) if is_inside(path, project)})

    def members(self, project: str) -> dict[str, Role | None]:
        """Return the users of a project itself with their roles; None for plain members."""
        table = tables.member.c
        statement = sa.select(table.user, table.role).where(table.project == project)
        rows = self._rows(statement.order_by(table.user))
        return {user: Role(role) if role else None for user, role in rows}

    def belonging(self, workspace: str) -> dict[str, Role | None]:
        """Return the users of a workspace by name, with their role in all of it or None."""
        table = tables.member.c
        rows = self._rows(
            sa.select(table.user)
            .where(within(table.project, workspace))
            .distinct()
            .order_by(table.user)
        )
        return {**dict.fromkeys(row.user for row in rows), **self.members(workspace)}

    def workspaces(self) -> set[str]:
        """Return the workspaces in which a user is a member, or has a role in a project."""
        rows = self._rows(sa.select(tables.member.c.project).distinct())
        return {_workspace(row.project) for row in rows}

    def has_settings(self, project: str) -> bool:
        """Return whether a project or one below it has roles or a visibility."""
        columns = (tables.member.c.project, tables.project.c.path)
        return any(
            self._rows(sa.select(column).where(within(column, project)).limit(1))
            for column in columns
        )

    def forget_project(self, project: str) -> None:
        """Remove the roles in a project itself, its visibility and its views."""
        with self._locked() as connection:
            for column in (tables.member.c.project, tables.project.c.path, tables.view.c.project):
                connection.execute(sa.delete(column.table).where(column == project))

    def set_visibility(self, project: str, visibility: str, *, by: str) -> None:
        """Set the visibility of a project: ``private``, ``workspace`` or ``public``."""
        check_project(project)
        table = tables.project
        with self._locked() as connection:
            self._database.run(
                connection,
                _ADD_PROJECT,
                path=project,
                visibility=visibility,
                created_ns=self.now_ns(),
                created_by=by,
            )
            mine = table.c.path == project
            connection.execute(sa.update(table).where(mine).values(visibility=visibility))

    # ------------------------------------------------------------------ audit log

    def note(
        self, who: Identity, action: str, subject: str, *, address: str = "", **detail: Any
    ) -> None:
        """Add an entry to the audit log; `detail` is JSON and must not contain secrets."""
        with self._database.writing() as connection:
            connection.execute(
                sa.insert(tables.audit).values(
                    t_ns=self.now_ns(),
                    who=who.name,
                    token=who.token,
                    address=address,
                    action=action,
                    subject=subject,
                    detail=json.dumps(detail, sort_keys=True),
                )
            )

    def audit(self, before: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Return the audit log, newest first; with `before`, only entries with a smaller ``id``."""
        table = tables.audit
        statement = sa.select(table).order_by(table.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(table.c.id < before)
        rows = self._rows(statement)
        return [{**row._asdict(), "detail": json.loads(row.detail)} for row in rows]

    # ------------------------------------------------------------------ database

    def _rows(self, statement: sa.Select[Any]) -> Sequence[Any]:
        with self._database.reading() as connection:
            return connection.execute(statement).all()

    @contextmanager
    def _locked(self) -> Iterator[sa.Connection]:
        with self._database.writing() as connection:
            lock_account(connection)
            yield connection
        self.changes += 1
        self._visible = None

    def _has_user(self, connection: sa.Connection, name: str) -> bool:
        if not can_hold(name):
            return False
        asked = sa.select(tables.user.c.name).where(tables.user.c.name == name)
        return connection.execute(asked).first() is not None

    def _expect_user(self, connection: sa.Connection, name: str) -> None:
        if not self._has_user(connection, name):
            raise NoSuch(f"there is no user {name[:80]!r}")

    def _insert_user(
        self, connection: sa.Connection, name: str, *, service: bool, admin: bool
    ) -> None:
        connection.execute(
            sa.insert(tables.user).values(
                name=name, service=service, admin=admin, created_ns=self.now_ns()
            )
        )

    def _insert_token(
        self, connection: sa.Connection, user: str, *, by: str, label: str, **rest: Any
    ) -> NewToken:
        made = new_token()
        connection.execute(
            sa.insert(tables.token).values(
                id=made.prefix,
                hash=made.hash,
                user=user,
                label=label,
                created_ns=self.now_ns(),
                created_by=by,
                **rest,
            )
        )
        return made


def role_of(who: Identity, project: str) -> Role | None:
    """Return the role of a user in a project or in one above it."""
    found = [role for path, role in who.roles.items() if is_inside(project, path)]
    return max(found, default=None)


def _restricted(who: Identity, token: Token) -> Identity:
    roles: dict[str, Role] = {"": Role.OWNER} if who.admin else dict(who.roles)
    if token.role is None and token.project is None:
        return who
    if token.project is not None:
        inside = {path: role for path, role in roles.items() if is_inside(path, token.project)}
        above = role_of(Identity(roles=roles), token.project)
        roles = inside if above is None else {**inside, token.project: above}
    if token.role is not None:
        roles = {path: min(role, token.role) for path, role in roles.items()}
    spaces = who.workspaces if token.project is None else who.workspaces & {token.project}
    return Identity(who.name, who.token, admin=False, roles=roles, workspaces=spaces)


def within(project: sa.Column[str], place: str) -> sa.ColumnElement[bool]:
    """Return the condition that a project is at or below a path; it can use an index."""
    return sa.or_(project == place, sa.and_(project > f"{place}/", project < f"{place}0"))


def _workspace(project: str) -> str:
    return project.partition("/")[0]
