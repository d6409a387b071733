"""Tokens, roles and visibility over HTTP: nobody gets more than they have."""

from __future__ import annotations

import time
import uuid
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from asking import ask


@pytest.fixture
def space():
    return f"w{uuid.uuid4().hex[:12]}"


@pytest.fixture
def token_of(team):
    def make(user, **more):
        answer = ask(team.url, "POST", "accounts/tokens", team.token, {"user": user, **more})
        assert answer.status == 201, answer.body
        return answer.json()["token"]

    return make


def error_of(answer):
    told = answer.json()
    assert told["hint"]
    return answer.status, told["error"]


ROUTES = [
    ("GET", "accounts/members?project={project}", None, "contributor"),
    ("PUT", "accounts/members", {"user": "admin", "project": "{project}", "role": None}, "owner"),
    ("PUT", "accounts/visibility", {"project": "{project}", "visibility": "private"}, "owner"),
    ("GET", "accounts/tokens?project={project}", None, "owner"),
    ("GET", "accounts/users", None, "admin"),
    ("PATCH", "accounts/users/nobody-is-called-so", {"admin": True}, "admin"),
    ("GET", "accounts/audit", None, "admin"),
]
RANKS = ["stranger", "viewer", "contributor", "owner", "admin"]


def test_every_role_gets_what_is_its_and_no_more(team, token_of, space):
    """Table of all roles over all routes; strangers do not learn that a project exists."""
    project = f"{space}/x"
    tokens = {
        role: token_of(f"{role}-{space}", project=project, role=role)
        for role in ("viewer", "contributor", "owner")
    }
    tokens["stranger"] = token_of(f"stranger-{space}")
    tokens["admin"] = team.token
    for method, path, body, least in ROUTES:
        for role in RANKS:
            given = (
                {key: project if value == "{project}" else value for key, value in body.items()}
                if body
                else None
            )
            answer = ask(team.url, method, path.format(project=project), tokens[role], given)
            case = (method, path, role, answer.body)
            if RANKS.index(role) >= RANKS.index(least):
                assert answer.status in {200, 404}, case
                assert answer.status == 200 or "nobody-is-called-so" in path, case
            elif least == "admin":
                assert error_of(answer) == (403, "admins-only"), case
            elif role == "stranger":
                assert error_of(answer) == (404, "no-project"), case
            else:
                assert error_of(answer) == (403, "role-too-small"), case
        answer = ask(team.url, method, path.format(project=project), "", given)
        assert error_of(answer) == (401, "token-needed"), (method, path)


def test_what_is_no_project_is_none(team):
    """Whatever an address names, there is no 500 and no way out of the grammar."""
    for project in ("..", "a/../b", "", "/a", "a//b", "journal", "a\0b", "\udcff", "é"):
        quoted = quote(project.encode("utf-8", "surrogateescape"), safe="")
        answer = ask(team.url, "GET", f"accounts/members?project={quoted}", team.token)
        assert answer.status in {404, 422}, (project, answer.body)


def test_a_token_hands_on_no_more_than_it_has(team, token_of, space):
    """A token that is limited to a project, a role and a time makes no wider one."""
    limited = token_of(f"alice-{space}", project=f"{space}/x", role="contributor", expires_s=3600)
    made = ask(team.url, "POST", "accounts/tokens", limited, {"role": "owner", "expires_s": 99999})
    assert made.status == 201
    me = ask(team.url, "GET", "accounts/me", made.json()["token"]).json()
    assert me["roles"] == {f"{space}/x": "contributor"}
    assert made.json()["expires_ns"] <= time.time_ns() + 3600 * 10**9
    wider = ask(team.url, "POST", "accounts/tokens", limited, {"project": space})
    assert error_of(wider) == (403, "role-too-small")
    for body in ({"admin": True}, {"service": True}):
        assert ask(team.url, "POST", "accounts/tokens", limited, body).status == 422


def test_an_admins_limited_token_makes_no_admin(team, space):
    limited = ask(team.url, "POST", "accounts/tokens", team.token, {"role": "viewer"}).json()[
        "token"
    ]
    for body in ({"user": f"x-{space}"}, {"user": f"x-{space}", "admin": True, "project": space}):
        answer = ask(team.url, "POST", "accounts/tokens", limited, body)
        assert answer.status == 403, answer.body
    own = ask(team.url, "POST", "accounts/tokens", limited, {}).json()["token"]
    assert ask(team.url, "GET", "accounts/users", own).status == 403
    me = ask(team.url, "GET", "accounts/me", own).json()
    assert (me["admin"], me["roles"]) == (False, {"": "viewer"})


def test_an_owner_makes_tokens_for_service_accounts_of_the_project_alone(team, token_of, space):
    """Not for people, not for other projects, and no admin."""
    owner = token_of(f"owner-{space}", project=f"{space}/x", role="owner")
    token_of(f"person-{space}", project=f"{space}/x", role="viewer")

    def make(user, **more):
        return ask(team.url, "POST", "accounts/tokens", owner, {"user": f"{user}-{space}", **more})

    made = make("job", project=f"{space}/x/y")
    assert made.status == 201
    me = ask(team.url, "GET", "accounts/me", made.json()["token"]).json()
    assert me["roles"] == {f"{space}/x/y": "contributor"}
    assert error_of(make("person", project=f"{space}/x")) == (403, "not-yours")
    assert error_of(make("job", project=f"{space}/z")) == (404, "no-project")
    assert error_of(make("job")) == (403, "admins-only")
    assert error_of(make("other", project=f"{space}/x", admin=True)) == (403, "admins-only")
    assert make("job", project=f"{space}/x", service=True).status == 409


def test_a_revoked_token_is_refused_and_only_its_people_revoke_it(team, token_of, space):
    """Its user, an admin and an owner of its project; a limited token ends itself only."""
    first, second = (token_of(f"alice-{space}") for _ in range(2))
    limited = token_of(f"alice-{space}", project=space, role="viewer")
    stranger = token_of(f"bob-{space}")
    assert error_of(ask(team.url, "DELETE", f"accounts/tokens/{first[:16]}", stranger)) == (
        404,
        "no-token",
    )
    assert ask(team.url, "DELETE", f"accounts/tokens/{first[:16]}", limited).status == 404
    assert ask(team.url, "DELETE", f"accounts/tokens/{first[:16]}", second).status == 200
    assert error_of(ask(team.url, "GET", "accounts/me", first)) == (401, "bad-token")
    assert ask(team.url, "DELETE", f"accounts/tokens/{limited[:16]}", limited).status == 200
    assert ask(team.url, "GET", "accounts/me", limited).status == 401
    listed = {
        each["id"]: each
        for each in ask(team.url, "GET", "accounts/tokens", second).json()["tokens"]
    }
    assert listed[first[:16]]["revoked_ns"] is not None
    # What a machine has tells nothing of other projects of its user.
    token_of(f"alice-{space}", project=f"{space}/secret", role="viewer")
    limited = token_of(f"alice-{space}", project=f"{space}/x", role="viewer")
    seen = ask(team.url, "GET", "accounts/tokens", limited).json()["tokens"]
    assert [each["id"] for each in seen] == [limited[:16]]
    assert not any(first in str(each) or "hash" in each for each in listed.values())


def test_what_a_limited_token_made_ends_with_it(team, token_of, space):
    """Who finds one of a machine can outlive its revocation by no token of their own making."""
    leaked = token_of(f"alice-{space}", project=space, role="owner")
    own = token_of(f"alice-{space}")

    def make(token, **body):
        return ask(team.url, "POST", "accounts/tokens", token, body).json()["token"]

    second = make(leaked)
    third = make(second, user=f"job-{space}", project=space)
    assert ask(team.url, "DELETE", f"accounts/tokens/{leaked[:16]}", own).status == 200
    for token in (leaked, second, third):
        assert error_of(ask(team.url, "GET", "accounts/me", token)) == (401, "bad-token")
    another = make(own)
    assert ask(team.url, "DELETE", f"accounts/tokens/{own[:16]}", own).status == 200
    assert ask(team.url, "GET", "accounts/me", another).status == 200


def test_the_audit_names_who_did_what_and_no_secret(team, token_of, space):
    made = token_of(f"alice-{space}", project=space, role="owner")
    ask(team.url, "PUT", "accounts/visibility", made, {"project": space, "visibility": "public"})
    answer = ask(team.url, "GET", "accounts/audit", team.token)
    done = [(row["who"], row["action"]) for row in answer.json()["audit"] if space in str(row)]
    assert done == [
        (f"alice-{space}", "visibility.set"),
        ("admin", "token.create"),
        ("admin", "member.set"),
        ("admin", "user.add"),
    ]
    assert made[16:].encode() not in answer.body


def test_only_owners_of_a_workspace_make_a_project_public(team, token_of, space):
    """Then strangers learn that it is there, but not who its members are."""
    project = f"{space}/one"
    members = f"accounts/members?project={project}"
    stranger = token_of(f"carol-{space}")
    for user, owned, expected in [("alice", space, 200), ("bob", project, 403)]:
        owner = token_of(f"{user}-{space}", project=owned, role="owner")
        for visibility, status in (("workspace", 200), ("public", expected), ("private", 200)):
            wanted = {"project": project, "visibility": visibility}
            assert ask(team.url, "PUT", "accounts/visibility", owner, wanted).status == status
            is_public = visibility == "public" and status == 200
            assert ask(team.url, "GET", members).status == 401
            assert ask(team.url, "GET", members, stranger).status == (403 if is_public else 404)
