"""Tokens, roles and visibility over HTTP: nobody gets more than they have."""

from __future__ import annotations

import time
import uuid
from urllib.parse import quote

import pytest
from asking import ask


@pytest.fixture
def space():
    return f"w{uuid.uuid4().hex[:12]}"


@pytest.fixture
def token_of(team):
    def make(user, **more):
        answer = create(team, team.token, user=user, **more)
        assert answer.status == 201, answer.body
        return answer.json()["token"]

    return make


def create(team, by, **body):
    return ask(team.url, "POST", "accounts/tokens", by, body)


def me(team, token):
    return ask(team.url, "GET", "accounts/me", token)


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


def test_each_role_may_do_what_is_in_the_table_and_no_more(team, token_of, space):
    """Strangers do not learn that a project exists, and no name leads out of the grammar."""
    project = f"{space}/x"
    tokens = {
        role: token_of(f"{role}-{space}", project=project, role=role)
        for role in ("viewer", "contributor", "owner")
    }
    tokens |= {"stranger": token_of(f"stranger-{space}"), "admin": team.token}
    for method, path, body, least in ROUTES:
        place = path.format(project=project)
        given = body and {key: project if one == "{project}" else one for key, one in body.items()}
        for role in RANKS:
            answer = ask(team.url, method, place, tokens[role], given)
            case = (method, path, role, answer.body)
            if RANKS.index(role) >= RANKS.index(least):
                assert answer.status == (404 if "nobody-is-called-so" in path else 200), case
            elif least == "admin":
                assert error_of(answer) == (403, "admins-only"), case
            elif role == "stranger":
                assert error_of(answer) == (404, "no-project"), case
            else:
                assert error_of(answer) == (403, "role-too-small"), case
        answer = ask(team.url, method, place, "", given)
        assert error_of(answer) == (401, "token-needed"), (method, path)
    for name in ("..", "a/../b", "", "/a", "a//b", "journal", "a\0b", "\udcff", "é"):
        quoted = quote(name.encode("utf-8", "surrogateescape"), safe="")
        answer = ask(team.url, "GET", f"accounts/members?project={quoted}", team.token)
        assert answer.status in {404, 422}, (name, answer.body)


def test_limited_token_makes_no_wider_one(team, token_of, space):
    limited = token_of(f"alice-{space}", project=f"{space}/x", role="contributor", expires_s=3600)
    made = create(team, limited, role="owner", expires_s=99999)
    assert made.status == 201
    assert me(team, made.json()["token"]).json()["roles"] == {f"{space}/x": "contributor"}
    assert made.json()["expires_ns"] <= time.time_ns() + 3600 * 10**9
    assert error_of(create(team, limited, project=space)) == (403, "role-too-small")
    for body in ({"admin": True}, {"service": True}):
        assert create(team, limited, **body).status == 422
    limited = token_of("admin", role="viewer")
    for body in ({}, {"admin": True, "project": space}):
        assert create(team, limited, user=f"x-{space}", **body).status == 403, body
    own = create(team, limited).json()["token"]
    assert ask(team.url, "GET", "accounts/users", own).status == 403
    told = me(team, own).json()
    assert (told["admin"], told["roles"]) == (False, {"": "viewer"})


def test_owner_makes_tokens_for_service_accounts_of_the_project_alone(team, token_of, space):
    owner = token_of(f"owner-{space}", project=f"{space}/x", role="owner")
    token_of(f"person-{space}", project=f"{space}/x", role="viewer")
    made = create(team, owner, user=f"job-{space}", project=f"{space}/x/y")
    assert made.status == 201
    assert me(team, made.json()["token"]).json()["roles"] == {f"{space}/x/y": "contributor"}
    for user, project, more, error in (
        ("person", {"project": f"{space}/x"}, {}, (403, "not-yours")),
        ("job", {"project": f"{space}/z"}, {}, (404, "no-project")),
        ("job", {}, {}, (403, "admins-only")),
        ("other", {"project": f"{space}/x"}, {"admin": True}, (403, "admins-only")),
    ):
        answer = create(team, owner, user=f"{user}-{space}", **project, **more)
        assert error_of(answer) == error, (user, project)
    service = {"project": f"{space}/x", "service": True}
    assert create(team, owner, user=f"job-{space}", **service).status == 409


def test_token_is_revoked_by_its_user_and_a_limited_one_by_itself(team, token_of, space):
    first, second = (token_of(f"alice-{space}") for _ in range(2))
    limited = token_of(f"alice-{space}", project=space, role="viewer")
    stranger = token_of(f"bob-{space}")

    def revoke(token, by):
        return ask(team.url, "DELETE", f"accounts/tokens/{token[:16]}", by)

    assert error_of(revoke(first, stranger)) == (404, "no-token")
    assert revoke(first, limited).status == 404
    assert revoke(first, second).status == 200
    assert error_of(me(team, first)) == (401, "bad-token")
    assert revoke(limited, limited).status == 200
    assert me(team, limited).status == 401
    listed = ask(team.url, "GET", "accounts/tokens", second).json()["tokens"]
    (row,) = (each for each in listed if each["id"] == first[:16])
    assert row["revoked_ns"] is not None
    assert not any(first in str(each) or "hash" in each for each in listed)
    # What a machine has tells nothing of other projects of its user.
    token_of(f"alice-{space}", project=f"{space}/secret", role="viewer")
    limited = token_of(f"alice-{space}", project=f"{space}/x", role="viewer")
    seen = ask(team.url, "GET", "accounts/tokens", limited).json()["tokens"]
    assert [each["id"] for each in seen] == [limited[:16]]


def test_tokens_that_a_limited_token_made_end_with_it(team, token_of, space):
    leaked = token_of(f"alice-{space}", project=space, role="owner")
    own = token_of(f"alice-{space}")
    second = create(team, leaked).json()["token"]
    third = create(team, second, user=f"job-{space}", project=space).json()["token"]
    assert ask(team.url, "DELETE", f"accounts/tokens/{leaked[:16]}", own).status == 200
    for token in (leaked, second, third):
        assert error_of(me(team, token)) == (401, "bad-token")
    another = create(team, own).json()["token"]
    assert ask(team.url, "DELETE", f"accounts/tokens/{own[:16]}", own).status == 200
    assert me(team, another).status == 200


def test_audit_names_who_did_what_and_no_secret(team, token_of, space):
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
            invalid = {"project": project, "visibility": "secret"}
            assert ask(team.url, "PUT", "accounts/visibility", owner, invalid).status == 422
            wanted = {"project": project, "visibility": visibility}
            assert ask(team.url, "PUT", "accounts/visibility", owner, wanted).status == status
            is_public = visibility == "public" and status == 200
            assert ask(team.url, "GET", members).status == 401
            assert ask(team.url, "GET", members, stranger).status == (403 if is_public else 404)
