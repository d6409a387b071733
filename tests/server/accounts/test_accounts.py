"""Who may do what, decided on the tables of both engines."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from seamark.errors import ArgumentError, PathError
from seamark.server.access import NOBODY, Identity, Role
from seamark.server.accounts.accounts import Accounts, NameInUse, NoSuch
from seamark.server.accounts.tables import migrate
from seamark.server.databases import open_databases

VIEWER, CONTRIBUTOR, OWNER = Role


@pytest.fixture
def accounts(account_url):
    clock = itertools.count(1_000)
    with contextlib.closing(open_databases(account_url)) as databases:
        migrate(databases.account)
        yield Accounts(databases.account, lambda: next(clock), keep_s=0)


def identity(accounts, user, **limits):
    """Return who a new token of a user belongs to."""
    found = accounts.by_token(accounts.create_token(user, by="admin", **limits).secret)
    assert found is not None
    return found[1]


def test_first_start_makes_one_admin_and_mistakes_are_named(accounts):
    made = accounts.first_admin()
    assert accounts.first_admin() is None
    assert accounts.by_token(made.secret)[1] == Identity("admin", made.prefix, admin=True)
    assert accounts.by_token(made.hash) is None
    assert accounts.by_token(made.prefix) is None
    for error, words, call in (
        (NameInUse, "already exists", lambda: accounts.add_user("admin")),
        (PathError, "user: expected", lambda: accounts.add_user("../x")),
        (ArgumentError, "last admin", lambda: accounts.set_user("admin", admin=False)),
        (ArgumentError, "last admin", lambda: accounts.set_user("admin", disabled=True)),
        (ArgumentError, "label", lambda: accounts.create_token("admin", by="a", label="a\nb")),
        (ArgumentError, "expires", lambda: accounts.create_token("admin", by="a", expires_ns=1)),
    ):
        with pytest.raises(error, match=words):
            call()
    for missing in ("nobody", "nu\0l", "\ud800"):
        with pytest.raises(NoSuch):
            accounts.create_token(missing, by="admin")
        with pytest.raises(NoSuch):
            accounts.revoke(missing)


ROLES = [
    ({}, "team/x", None),
    ({"team": VIEWER}, "team", VIEWER),
    ({"team": VIEWER}, "team/x/y", VIEWER),
    ({"team": VIEWER}, "teams", None),
    ({"team/x": OWNER}, "team", None),
    ({"team": VIEWER, "team/x": OWNER}, "team/x/y", OWNER),
    ({"team": OWNER, "team/x": VIEWER}, "team/x", OWNER),
]


def test_greatest_role_on_the_way_up_counts(accounts):
    for number, (roles, project, expected) in enumerate(ROLES):
        user = f"alice{number}"
        accounts.add_user(user)
        for path, role in roles.items():
            accounts.set_member(user, path, role)
        assert accounts.role(identity(accounts, user), project) == expected, (roles, project)


LIMITS = [
    ({}, "team/x", OWNER),
    ({"role": VIEWER}, "team/x", VIEWER),
    ({"project": "team/x"}, "team/x/y", OWNER),
    ({"project": "team/x"}, "team", None),
    ({"project": "team/x"}, "team/other", None),
    ({"project": "team/x", "role": CONTRIBUTOR}, "team/x", CONTRIBUTOR),
    ({"project": "elsewhere"}, "elsewhere", None),
    ({"project": "elsewhere"}, "team", None),
]
OF_ADMIN = [
    ({"role": VIEWER}, {"": VIEWER}),
    ({"project": "team"}, {"team": OWNER}),
    ({"project": "team", "role": VIEWER}, {"team": VIEWER}),
]
OF_WORKSPACE = [(None, VIEWER), ("team", VIEWER), ("team/other", None), ("tea", None)]


def test_token_allows_no_more_than_its_user_and_its_limits(accounts):
    accounts.first_admin()
    for limits, roles in OF_ADMIN:
        found = identity(accounts, "admin", **limits)
        assert (found.admin, found.roles) == (False, roles)
    accounts.add_user("alice")
    accounts.set_member("alice", "team", OWNER)
    for limits, project, expected in LIMITS:
        found = identity(accounts, "alice", **limits)
        assert accounts.role(found, project) == expected, (limits, project)
    # What belonging to a workspace opens is in the workspace, and not in a project of it.
    accounts.add_user("bob")
    accounts.add_to_workspace("bob", "team")
    accounts.set_visibility("team/open", "workspace", by="admin")
    for limit, seen in OF_WORKSPACE:
        bob = identity(accounts, "bob", project=limit)
        assert accounts.role(bob, "team/open") == seen, limit


def test_nearest_visibility_opens_a_project_to_a_workspace_or_to_all(accounts):
    for name in ("inside", "outside"):
        accounts.add_user(name)
    accounts.add_to_workspace("inside", "team")
    for project, kind in {
        "team": "workspace",
        "team/open": "public",
        "team/open/secret": "private",
        "team/closed": "private",
    }.items():
        accounts.set_visibility(project, kind, by="admin")
    inside, outside = (identity(accounts, name) for name in ("inside", "outside"))
    seen = {
        project: [accounts.role(each, project) for each in (inside, outside, NOBODY)]
        for project in ("team", "team/any", "team/open/x", "team/open/secret/x", "team/closed")
    }
    assert seen == {
        "team": [VIEWER, None, None],
        "team/any": [VIEWER, None, None],
        "team/open/x": [VIEWER, VIEWER, VIEWER],
        "team/open/secret/x": [None, None, None],
        "team/closed": [None, None, None],
    }
    readable = accounts.readable(inside)
    assert not readable.everything
    assert readable.projects == {"team", "team/open"}
    assert readable.excluded == {"team/open/secret", "team/closed"}
    assert accounts.readable(NOBODY).projects == {"team/open"}
    # Private means "only with a role": one on a project above is one.
    accounts.set_member("outside", "team", VIEWER)
    outside = identity(accounts, "outside")
    assert accounts.role(outside, "team/closed") == VIEWER
    assert accounts.readable(outside).excluded == frozenset()


def test_audit_is_read_backwards_in_pages(accounts):
    for number in range(5):
        accounts.note(Identity("alice", "seamark_x"), "did", str(number), address="::1", n=number)
    first = accounts.audit(limit=3)
    assert [each["subject"] for each in first] == ["4", "3", "2"]
    rest = accounts.audit(before=first[-1]["id"])
    assert [each["detail"] for each in rest] == [{"n": 1}, {"n": 0}]
    assert rest[0]["who"] == "alice"
