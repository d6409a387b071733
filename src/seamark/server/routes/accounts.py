"""Routes for tokens, users, roles and visibility, and the greeting of a server.

These routes never extend rights: a token can only create tokens within its own user, role, project
and expiry.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from seamark import __version__
from seamark.paths import is_inside
from seamark.server.access import Identity, Role
from seamark.server.accounts.accounts import Accounts, NoSuch
from seamark.server.accounts.tables import Token
from seamark.server.failures import Refusal
from seamark.server.guard import (
    Body,
    expect,
    expect_admin,
    expect_somebody,
    note,
    open_to_all,
    server_of,
)
from seamark.server.settings import API_VERSION, JOURNAL_VERSION

router: Final = APIRouter(prefix="/accounts", tags=["accounts"])
server_router: Final = APIRouter(tags=["server"])

_NS_PER_S: Final = 1_000_000_000
_MAX_EXPIRES_S: Final = 10 * 366 * 86400

RoleName = Literal["viewer", "contributor", "owner"]
Name = Annotated[str, Field(min_length=1, max_length=100)]
Project = Annotated[str, Field(min_length=1, max_length=1024)]
ProjectQuery = Annotated[str, Query(min_length=1, max_length=1024)]


class NewTokenBody(Body):
    """Request for a new token.

    `user` is by default the requester; an unknown user is created, as an admin or a service account
    if requested. `role` is the highest role that the token grants. `project` limits it to a project
    and its sub-projects.
    """

    user: Name | None = None
    service: bool = False
    admin: bool = False
    label: str = Field("", max_length=200)
    role: RoleName | None = None
    project: Project | None = None
    expires_s: int | None = Field(None, ge=1, le=_MAX_EXPIRES_S)


class MemberBody(Body):
    """Role for a user in a project; None removes it."""

    user: Name
    project: Project
    role: RoleName | None


class VisibilityBody(Body):
    """Visibility of a project to users without a role in it."""

    project: Project
    visibility: Literal["private", "workspace", "public"]


class UserBody(Body):
    """Changes to a user."""

    admin: bool | None = None
    disabled: bool | None = None


# ---------------------------------------------------------------------- requester


@router.get("/me")
def me(request: Request) -> dict[str, Any]:
    """Return the identity and the rights of the requester; without a token, those of nobody."""
    who = open_to_all(request)
    return {
        "name": who.name,
        "token": who.token,
        "admin": who.admin,
        "roles": {project: role.name.lower() for project, role in sorted(who.roles.items())},
        "workspaces": sorted(who.workspaces),
    }


# ---------------------------------------------------------------------- tokens


@router.get("/tokens")
def tokens(
    request: Request, project: Annotated[str | None, Query(max_length=1024)] = None
) -> dict[str, Any]:
    """Return the requester's tokens without secrets; all tokens for an admin.

    A token that is limited to a role or a project lists itself and the tokens that it created.

    With ``project``, owners get the tokens that are limited to it.
    """
    accounts = server_of(request).accounts
    if project is not None:
        expect(request, project, Role.OWNER)
        found = [
            each
            for each in accounts.tokens()
            if each.project is not None and is_inside(each.project, project)
        ]
    else:
        who = expect_somebody(request)
        found = accounts.tokens(None if who.admin else who.name)
        own = accounts.token(who.token) if who.token else None
        if own is not None and _is_limited(own):
            found = [each for each in found if own.id in (each.id, each.made_with)]
    return {"tokens": [each.shown() for each in found]}


@router.post("/tokens", status_code=201)
def create_token(request: Request, body: NewTokenBody) -> dict[str, Any]:
    """Create a token and return it; its secret is not shown again.

    Users create their own tokens. An admin creates tokens for any user, and an owner of a project
    creates tokens for its service accounts, limited to the project. A user with a lower role in the
    given project gets the given role.
    """
    who = expect_somebody(request)
    accounts = server_of(request).accounts
    user = body.user or who.name
    role = None if body.role is None else Role[body.role.upper()]
    expires = None if body.expires_s is None else accounts.now_ns() + body.expires_s * _NS_PER_S
    if user != who.name:
        role = _expect_may_create(request, accounts, user, body, role)
    elif body.admin or body.service:
        raise Refusal(422, "invalid", "admin and service are only valid for a new user")
    own = accounts.token(who.token) if who.token else None
    if user == who.name and own is not None:
        role, project, expires = _limited_token(own, role, body.project, expires)
    else:
        project = body.project
        expires = expires if own is None else _earlier_end(own.expires_ns, expires)
    made = accounts.create_token(
        user,
        by=who.name,
        label=body.label,
        role=role,
        project=project,
        expires_ns=expires,
        made_with=own.id if own is not None and _is_limited(own) else None,
    )
    note(request, who, "token.create", made.prefix, user=user, project=project)
    return {"token": made.secret, "id": made.prefix, "user": user, "expires_ns": expires}


@router.delete("/tokens/{token}")
def revoke_token(request: Request, token: str) -> dict[str, Any]:
    """Revoke a token, given by its prefix.

    If it is limited to a role or a project, the tokens that it created are revoked, too.
    """
    who = expect_somebody(request)
    server = server_of(request)
    try:
        found = server.accounts.token(token)
    except NoSuch:
        found = None
    if found is None or not _may_revoke(server.accounts, who, found):
        raise Refusal(
            404,
            "no-token",
            "unknown token, or you may not revoke it; list your tokens with: seamark token list",
        )
    server.accounts.revoke(token)
    note(request, who, "token.revoke", token, user=found.user)
    return {"revoked": token}


# ---------------------------------------------------------------------- users


@router.get("/users")
def users(request: Request) -> dict[str, Any]:
    """Return all users; for admins."""
    expect_admin(request)
    return {"users": server_of(request).accounts.users()}


@router.patch("/users/{name}")
def change_user(request: Request, name: str, body: UserBody) -> dict[str, Any]:
    """Change whether a user is an admin or disabled; for admins."""
    who = expect_admin(request)
    server = server_of(request)
    server.accounts.set_user(name, admin=body.admin, disabled=body.disabled)
    note(request, who, "user.change", name, **body.model_dump(exclude_none=True))
    return {"user": name}


# ---------------------------------------------------------------------- projects


@router.get("/members")
def members(request: Request, project: ProjectQuery) -> dict[str, Any]:
    """Return the users with a role in the project itself; the requester needs a role there."""
    expect(request, project, Role.CONTRIBUTOR)
    server = server_of(request)
    found = server.accounts.members(project)
    return {
        "members": {user: role.name.lower() if role else None for user, role in found.items()},
        "visibility": server.accounts.visibility().of(project),
    }


@router.put("/members")
def set_member(request: Request, body: MemberBody) -> dict[str, Any]:
    """Set or remove the role of a user in a project and its sub-projects; for its owners."""
    who = expect(request, body.project, Role.OWNER)
    server = server_of(request)
    role = None if body.role is None else Role[body.role.upper()]
    server.accounts.set_member(body.user, body.project, role)
    note(request, who, "member.set", body.project, user=body.user, role=body.role)
    return body.model_dump()


@router.put("/visibility")
def set_visibility(request: Request, body: VisibilityBody) -> dict[str, Any]:
    """Set the visibility of a project; for owners of the project or its workspace."""
    who = expect(request, body.project, Role.OWNER)
    accounts = server_of(request).accounts
    if body.visibility == "public" and not accounts.may_publish(who, body.project):
        raise Refusal(
            403,
            "role-too-small",
            "only owners of its workspace may make a project public, as everyone can read it then",
        )
    accounts.set_visibility(body.project, body.visibility, by=who.name)
    note(request, who, "visibility.set", body.project, visibility=body.visibility)
    return body.model_dump()


@router.get("/audit")
def audit(
    request: Request,
    before: Annotated[int | None, Query(ge=1, lt=1 << 62)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Return the audit log, newest entries first; for admins."""
    expect_admin(request)
    return {"audit": server_of(request).accounts.audit(before, limit)}


# ---------------------------------------------------------------------- helpers


def _expect_may_create(
    request: Request, accounts: Accounts, user: str, body: NewTokenBody, role: Role | None
) -> Role | None:
    who = expect_somebody(request)
    if not who.admin:
        if body.project is None:
            hint = (
                "tokens of other users require an admin, or --project with a project that you own"
            )
            raise Refusal(403, "admins-only", hint)
        expect(request, body.project, Role.OWNER)
        if body.admin:
            raise Refusal(403, "admins-only", "only an admin may create admins")
        if not accounts.is_service_of(user, body.project):
            hint = (
                f"{user!r} is not a service account of only {body.project}: owners may create"
                " tokens only for those; users create their own tokens"
            )
            raise Refusal(403, "not-yours", hint)
        role = role or Role.CONTRIBUTOR
    if not accounts.has_user(user):
        accounts.add_user(user, service=body.service or not who.admin, admin=body.admin)
        note(request, who, "user.add", user, service=body.service, admin=body.admin)
    elif body.admin or body.service:
        raise Refusal(409, "taken", f"user {user!r} already exists: omit admin and service")
    if body.project is not None:
        role = role or Role.CONTRIBUTOR
        if accounts.raise_member(user, body.project, role):
            note(request, who, "member.set", body.project, user=user, role=role.name.lower())
    return role


def _limited_token(
    own: Token, role: Role | None, project: str | None, expires: int | None
) -> tuple[Role | None, str | None, int | None]:
    if own.role is not None:
        role = own.role if role is None else min(role, own.role)
    if own.project is not None:
        if project is not None and not is_inside(project, own.project):
            raise Refusal(
                403,
                "role-too-small",
                f"this token is limited to {own.project}, and can only create tokens for it",
            )
        project = project or own.project
    return role, project, _earlier_end(own.expires_ns, expires)


def _earlier_end(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _may_revoke(accounts: Accounts, who: Identity, token: Token) -> bool:
    if who.admin or token.id == who.token:
        return True
    if token.project is not None and accounts.role(who, token.project) == Role.OWNER:
        return True
    if token.user != who.name:
        return False
    own = accounts.token(who.token) if who.token else None
    return own is None or not _is_limited(own)


def _is_limited(token: Token) -> bool:
    # Limited tokens are used on machines and are more likely to leak.
    return token.role is not None or token.project is not None


@server_router.get("/")
def greet(request: Request) -> dict[str, Any]:
    """Return versions, limits and the time of the server; needs no token.

    ``time_ns`` is in nanoseconds since the Unix epoch.
    """
    open_to_all(request)
    server = server_of(request)
    return {
        "seamark": __version__,
        "instance": server.instance,
        "api": API_VERSION,
        "journal": list(JOURNAL_VERSION),
        "time_ns": server.now_ns(),
        "limits": asdict(server.settings.limits),
        "login": "account",
        "product": "seamark",
        "version": __version__,
        "page": True,
        "features": ["attempts", "groups", "names"],
        "roots": [{"name": "", "path": "", "api": "api/v1/", "read_only": False, "why": ""}],
    }
