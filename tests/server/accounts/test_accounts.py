"""Who may do what, decided on the tables of both engines."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("fastapi")

from seamark.errors import ArgumentError, PathError
from seamark.server.access import NOBODY, Identity, Role
from seamark.server.accounts.accounts import Accounts, NameInUse, NoSuch
from seamark.server.accounts.tables import migrate
from seamark.server.databases import open_databases

VIEWER, CONTRIBUTOR, OWNER = Role


@pytest.fixture
def accounts(account_url):
    databases = open_databases(account_url)
    migrate(databases.account)
    clock = itertools.count(1_000)
    yield Accounts(databases.account, lambda: next(clock), keep_s=0)
    databases.close()


def who(accounts, token):
    found = accounts.by_token(token.secret)
    assert found is not None
    return found[1]


def test_the_first_start_makes_one_admin_and_later_ones_none(accounts):
    """A token is made once; what is kept of it does not let anybody log in."""
    made = accounts.first_admin()
    assert made is not None
    assert accounts.first_admin() is None
    assert who(accounts, made) == Identity("admin", made.prefix, admin=True)
    assert accounts.by_token(made.hash) is None
    assert accounts.by_token(made.prefix) is None


@pytest.mark.parametrize(
    ("roles", "project", "expected"),
    [
        ({}, "team/x", None),
        ({"team": VIEWER}, "team", VIEWER),
        ({"team": VIEWER}, "team/x/y", VIEWER),
        ({"team": VIEWER}, "teams", None),
        ({"team/x": OWNER}, "team", None),
        ({"team": VIEWER, "team/x": OWNER}, "team/x/y", OWNER),
        ({"team": OWNER, "team/x": VIEWER}, "team/x", OWNER),
    ],
)
def test_a_role_counts_in_a_project_and_in_all_that_is_in_it(accounts, roles, project, expected):
    """The greatest role on the way up counts; a name that only begins alike does not."""
    accounts.add_user("alice")
    for path, role in roles.items():
        accounts.set_member("alice", path, role)
    identity = who(accounts, accounts.create_token("alice", by="admin"))
    assert accounts.role(identity, project) == expected


@pytest.mark.parametrize(
    ("limits", "project", "expected"),
    [
        ({}, "team/x", OWNER),
        ({"role": VIEWER}, "team/x", VIEWER),
        ({"project": "team/x"}, "team/x/y", OWNER),
        ({"project": "team/x"}, "team", None),
        ({"project": "team/x"}, "team/other", None),
        ({"project": "team/x", "role": CONTRIBUTOR}, "team/x", CONTRIBUTOR),
        ({"project": "elsewhere"}, "elsewhere", None),
        ({"project": "elsewhere"}, "team", None),
    ],
)
def test_a_token_allows_no_more_than_its_user_and_its_limits(accounts, limits, project, expected):
    """Limits take away and never give."""
    accounts.add_user("alice")
    accounts.set_member("alice", "team", OWNER)
    identity = who(accounts, accounts.create_token("alice", by="admin", **limits))
    assert accounts.role(identity, project) == expected


@pytest.mark.parametrize(
    ("limits", "roles"),
    [
        ({"role": VIEWER}, {"": VIEWER}),
        ({"project": "team"}, {"team": OWNER}),
        ({"project": "team", "role": VIEWER}, {"team": VIEWER}),
    ],
)
def test_a_limited_token_of_an_admin_is_no_admin(accounts, limits, roles):
    """What a leaked token of a job can do is bounded, whoever made it."""
    accounts.first_admin()
    identity = who(accounts, accounts.create_token("admin", by="admin", **limits))
    assert (identity.admin, identity.roles) == (False, roles)


@pytest.mark.parametrize(
    ("limit", "seen"), [(None, VIEWER), ("team", VIEWER), ("team/other", None), ("tea", None)]
)
def test_a_token_of_a_workspace_reads_what_the_workspace_reads(accounts, limit, seen):
    """What belonging to it opens is in the workspace, and not in a project of it."""
    accounts.add_user("alice")
    accounts.add_to_workspace("alice", "team")
    accounts.set_visibility("team/open", "workspace", by="admin")
    identity = who(accounts, accounts.create_token("alice", by="admin", project=limit))
    assert accounts.role(identity, "team/open") == seen


def test_visibility_opens_projects_to_a_workspace_or_to_all(accounts):
    """Public: everybody reads; workspace: who belongs to it; the nearest project decides."""
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
    inside, outside = (
        who(accounts, accounts.create_token(n, by="admin")) for n in ("inside", "outside")
    )
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
    assert readable.but == {"team/open/secret", "team/closed"}
    assert accounts.readable(NOBODY).projects == {"team/open"}


def test_a_role_reaches_into_what_is_private(accounts):
    """Private means "only with a role": one on a project above is one."""
    accounts.add_user("alice")
    accounts.set_member("alice", "team", VIEWER)
    accounts.set_visibility("team/closed", "private", by="admin")
    alice = who(accounts, accounts.create_token("alice", by="admin"))
    assert accounts.role(alice, "team/closed") == VIEWER
    assert accounts.readable(alice).but == frozenset()


def test_mistakes_are_named(accounts):
    """Names that are taken or nobody's, and values that cannot be."""
    accounts.first_admin()
    with pytest.raises(NameInUse, match="exists already"):
        accounts.add_user("admin")
    with pytest.raises(PathError, match="user: expected"):
        accounts.add_user("../x")
    for missing in ("nobody", "nu\0l", "\ud800"):
        with pytest.raises(NoSuch):
            accounts.create_token(missing, by="admin")
        with pytest.raises(NoSuch):
            accounts.revoke(missing)
    with pytest.raises(ArgumentError, match="last admin"):
        accounts.set_user("admin", admin=False)
    with pytest.raises(ArgumentError, match="last admin"):
        accounts.set_user("admin", disabled=True)
    with pytest.raises(ArgumentError, match="visibility"):
        accounts.set_visibility("team", "secret", by="admin")
    with pytest.raises(ArgumentError, match="label"):
        accounts.create_token("admin", by="admin", label="a\nb")
    with pytest.raises(ArgumentError, match="expires"):
        accounts.create_token("admin", by="admin", expires_ns=1)


def test_what_was_done_is_written_down(accounts):
    """Newest first, page by page."""
    for number in range(5):
        accounts.note(Identity("alice", "seamark_x"), "did", str(number), address="::1", n=number)
    first = accounts.audit(limit=3)
    assert [each["subject"] for each in first] == ["4", "3", "2"]
    rest = accounts.audit(before=first[-1]["id"])
    assert [each["detail"] for each in rest] == [{"n": 1}, {"n": 0}]
    assert rest[0]["who"] == "alice"
