"""Permissions of Neptune's routes: every operation, with a valid request.

The operations come from the routes of a server: a new one fails here until `neptune_requests` has a
valid request and the sets below say who may use it.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("fastapi")

from asking import ask
from fastapi import APIRouter, FastAPI
from neptune_client import Client
from neptune_requests import call, good, make

from seamark.neptune.server import mount
from seamark.neptune.server.answers import BY_NAME, DOCUMENTS
from seamark.neptune.server.projects import Container, container_id, parse_container_id
from seamark.server.accounts.logins import Logins

PROJECT, GONE = "hushed/secret", "hushed/nowhere"
WORDS = ("secret", "sec-1", "hushed")
"""Words that no answer to a user without access to the project may contain."""
BESIDE = {
    ("GET", "/api/{name}/swagger.json"),
    ("POST", "/api/auth/protocol/openid-connect/token"),
    ("GET", "/api/leaderboard/v1/download/zip"),
}
"""Addresses that answers name, and that are no operations of the documents."""

OPEN = {"getClientConfig"}
"""For everybody without a wrong token."""
OWN = {"exchangeApiToken", "listProjects", "listOrganizations", "getDownloadPrepareRequest"}
"""For everybody with a token: about their own data, or the request itself."""
WORKSPACE = {"createProject", "createOrganizationInvitations", "listOrganizationMembers"}
WORKSPACE |= {"listServiceAccounts", "workspaceStatus"}
OWNERS = {"addProjectMember", "addProjectServiceAccount", "deleteAllExperiments", "deleteProject"}
OWNERS |= {"deleteProjectMember", "deleteProjectServiceAccount"}
CONTRIBUTORS = {"listProjectMembers", "listProjectServiceAccounts"}
READING = {"prepareForDownloadFileSetAttributeZip", "searchLeaderboardEntries"}
READING |= {"searchLeaderboardAttributes"}
EACH = {"trashExperiments", "deleteExperiments"}
"""Answered for each run, also with an error of each."""
NEVER = {"createEmptyCheckpoint": 404, "deleteProject": 400}
"""Refused to everybody: there are no notebooks, and a project that has runs is not deleted."""
BEFORE = {
    "fileAtomMultipartUploadFinish": "fileAtomMultipartUploadPart",
    "fileSetFileMultipartUploadFinish": "fileSetFileMultipartUploadPart",
    "deleteProjectMember": "addProjectMember",
    "deleteProjectServiceAccount": "addProjectServiceAccount",
    "deleteExperiments": "trashExperiments",
    "deleteAllExperiments": "trashExperiments",
}
"""Operations that have to come first."""
AFTER = {
    "addProjectMember": "deleteProjectMember",
    "addProjectServiceAccount": "deleteProjectServiceAccount",
}
"""Operations that restore what was there."""
DELETING = {*EACH, "deleteAllExperiments"}
STRANGERS = ("stranger", "sibling", "namesake", "elsewhere")
ROLES = ("viewer", "contributor", "owner")


@pytest.fixture(scope="module")
def there(admin):
    """A project with a run that has values of all kinds."""
    admin.ok("createProject", {"organizationId": "hushed", "name": "secret", "projectKey": "SEC"})
    return make(admin, PROJECT)


def token_of(here, user, project="", role="", **more):
    given = {"user": user, **more} | ({"project": project, "role": role} if project else {})
    made = ask(here.url, "POST", "accounts/tokens", here.token, given)
    assert made.status == 201, made.body
    return made.json()


@pytest.fixture(scope="module")
def others(admin, here, there):
    """Clients of users with no or few permissions."""
    del there
    given = {
        "stranger": ("other/project", "owner"),
        "sibling": ("hushed/sibling", "owner"),
        "namesake": (f"{PROJECT}-too", "owner"),  # another project, whose name begins the same
        "elsewhere": ("other/project", "owner"),  # a member, but not with this token
        **{role: (PROJECT, role) for role in ROLES},
    }
    clients = {
        user: Client(here.url, token_of(here, user, *limits)["token"])
        for user, limits in given.items()
    }
    token_of(here, "spare", "other/project", "viewer", service=True)
    token_of(here, "lonely")
    at = {"projectIdentifier": PROJECT}
    admin.ok("addProjectMember", {"userId": "elsewhere", "role": "manager"}, **at)
    nobody = clients["nobody"] = Client(here.url, "")
    nobody.headers = {}
    return clients


def state(admin, here, there):
    """Return everything that a request could have changed."""
    run = admin.ok("getExperiment", experimentId=there.run)
    at = {"projectIdentifier": PROJECT}
    # Also without a request: a run that has been silent for long counts as crashed.
    changing = {"ping_time", "running_time", "monitoring_time", "modification_time", "state"}
    changing |= {"end_time", "failed", "crash_reason"}
    uploads = here.server.settings.folder / "neptune-uploads"
    runs = sorted((one.project, one.run) for one in here.server.kept.runs())
    return {
        "run": run,
        "shown": {
            path: to
            for path, to in admin.shown(run).items()
            if path.removeprefix("sys/") not in changing
        },
        "runs": runs,
        "bytes": [here.server.intake.known(*one)[1] for one in runs],
        "members": admin.ok("listProjectMembers", **at),
        "accounts": admin.ok("listProjectServiceAccounts", **at),
        "belong": admin.ok("listOrganizationMembers", organizationIdentifier="hushed"),
        "projects": admin.ok("listProjects", limit=100),
        "uploads": {path: path.is_file() and path.read_bytes() for path in uploads.rglob("*")},
    }


def expected(who, name):
    """Return the status that a user of `ROLES` or `STRANGERS` gets."""
    if name in OPEN:
        return 200
    if who == "nobody":
        return 401
    if name in OWN:
        return 200
    if name == "createProject" and who not in ("stranger", "elsewhere"):
        return 403  # they know of the workspace
    if name == "createEmptyCheckpoint" or who in STRANGERS or name in WORKSPACE:
        return 404
    if name in EACH:
        return 200
    if (BY_NAME[name].method == "GET" and name not in CONTRIBUTORS) or name in READING:
        return 200
    least = "owner" if name in OWNERS else "contributor"
    if ROLES.index(who) < ROLES.index(least):
        return 403
    return NEVER.get(name, 200)


class _App(FastAPI):
    """An application that lists its routes, whatever FastAPI does with routers."""

    def include_router(self, router: APIRouter, **_: Any) -> None:
        self.router.routes.extend(router.routes)


def test_all_routes_are_tested_operations_or_exceptions(here):
    app = _App(openapi_url=None)
    app.state.server = here.server
    mount(app)
    found = {(method, route.path) for route in app.routes for method in route.methods}
    assert found == BESIDE | {(one.method, one.path) for one in BY_NAME.values()}


def test_every_operation_refuses_users_without_permission(admin, here, there, others):
    """With the right status, without information about the project, and without a change."""
    nowhere = there._replace(
        project=GONE, run=container_id(Container(GONE, "0123456789abcdef")), model="x"
    )
    before = state(admin, here, there)
    for who in (*STRANGERS, "nobody"):
        for name in BY_NAME:
            status, found = call(others[who], name, there)
            case = (who, name, status, found)
            assert status == expected(who, name), case
            _tells_nothing(who, found, good(name, there), case)
            if name not in OPEN | OWN:  # what is not there is answered in the same words
                again, other = call(others[who], name, nowhere)
                same = str(other).replace(GONE, PROJECT).replace(nowhere.run, there.run)
                assert (again, same) == (status, str(found)), (case, other)
    assert state(admin, here, there) == before
    for who in ("viewer", "contributor"):
        for name in BY_NAME:
            if who == "viewer" or expected(who, name) != 200:  # what is done is done below
                status, found = call(others[who], name, there)
                assert status == expected(who, name), (who, name, status, found)
                assert name not in EACH or found["updatedExperimentIdentifiers"] == []
    told = others["contributor"].ok("deleteExperiments", [there.run], projectIdentifier=PROJECT)
    assert told["updatedExperimentIdentifiers"] == []
    assert state(admin, here, there) == before


def _tells_nothing(who, found, asked, case):
    """Check that an answer has no secret word, except what the request itself has."""
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    knows = {"sibling": "hushed", "namesake": "hushed secret"}.get(who, "")
    for word in WORDS:
        assert word in knows or word not in text.lower() or word in str(asked), case


def test_invalid_and_revoked_tokens_are_refused(admin, here, there, monkeypatch):
    """In all places where the client sends them, also when they are refreshed."""
    # So many wrong tokens slow down logins: the clock moves by an hour at each look.
    clock = itertools.count(step=3600 * 10**9)
    logins = Logins(here.server.accounts, steady_ns=lambda: next(clock))
    monkeypatch.setattr(here.server, "logins", logins)
    made = token_of(here, "former", PROJECT, "owner")
    former = Client(here.url, made["token"])
    given = {"X-Neptune-Api-Token": former.api_token}
    assert former.call("getExperiment", experimentId=there.run)[0] == 200
    assert ask(here.url, "DELETE", f"accounts/tokens/{made['id']}", here.token).status in (200, 204)
    garbage = {"Authorization": "Bearer " + "x" * 40}
    before = state(admin, here, there)
    for headers in (former.headers, given, garbage, {"X-Neptune-Api-Token": "bm9uZQ=="}):
        client = Client(here.url, "")
        client.headers = headers
        for name in BY_NAME:
            status, found = call(client, name, there)
            assert status == 401, (headers, name, status, found)
            _tells_nothing("", found, good(name, there), (headers, name))
    refresh = former.headers["Authorization"].removeprefix("Bearer ")
    address = "../auth/protocol/openid-connect/token"
    for secret in (refresh, "", "x.y.z", "x"):
        form = f"grant_type=refresh_token&refresh_token={secret}".encode()
        told = ask(here.url, "POST", address, body=form)
        assert (told.status, told.json()) == (400, {"error": "invalid_grant"})
    assert state(admin, here, there) == before


def test_the_address_of_an_archive_gives_no_permission(there, others, here):
    address = others["viewer"].ok(
        "prepareForDownloadFileSetAttributeZip", experimentId=there.run, attribute="v/files"
    )["id"]
    for who, client in others.items():
        path = f"../leaderboard/v1/download/zip?id={address}"
        told = ask(here.url, "GET", path, headers=dict(client.headers))
        wanted = 401 if who == "nobody" else 404 if who in STRANGERS else 200
        assert told.status == wanted, (who, told.body)
        assert (b"PK" in told.body) == (wanted == 200)
    for name in DOCUMENTS:
        assert ask(here.url, "GET", f"../{name}/swagger.json").status == 200
    assert ask(here.url, "GET", "../nothing/swagger.json").status == 404


def test_an_own_project_gives_no_access_to_runs_of_others(admin, here, there, others):
    """The address names another project than the runs in the body or the path."""
    before = state(admin, here, there)
    inside = [
        f"{PROJECT}/SEC-1",
        f"{PROJECT}/{parse_container_id(there.run).run}",
        there.run,
        there.model,
    ]
    for who, project in [("stranger", "other/project"), ("sibling", "hushed/sibling")]:
        client, at = others[who], {"projectIdentifier": project}
        for name in EACH:
            told = client.ok(name, inside, **at)
            assert told["updatedExperimentIdentifiers"] == []
            assert len(told["errors"]) == len(inside)
        version = {"type": "modelVersion", "parentId": there.model, **at}
        assert client.call("createExperiment", version)[0] == 404
        run = client.new_run(project)
        assert client.do(run, {"path": "a", "assignArtifact": {"hash": there.artifact}}) != []
        assert client.call("listArtifactFiles", **at, hash=there.artifact)[0] == 404
        into = {"experimentIdentifier": run["id"], "attribute": "v/large"}
        for name in ("fileAtomMultipartUploadPart", "fileAtomMultipartUploadFinish"):
            further = {"X-Range": "bytes=0-4/5"}
            status, _ = client.call(name, b"abcde", further, uploadId=there.upload, **into)
            assert status == 404, name
        query = {"query": {"query": f'`sys/id`:string = "{PROJECT}/SEC-1" OR `v/int` > 0'}}
        assert client.ok("searchLeaderboardEntries", query, **at, type="run")["entries"] == []
        assert client.ok("getLeaderboard", **at, shortId="SEC-1")["entries"] == []
        told = client.ok("deleteExperiments", [run["id"]], **at)
        assert len(told["errors"]) == 1  # it is not in the trash
        client.ok("trashExperiments", [run["id"]], **at)
        client.ok("deleteAllExperiments", **at)
    after = state(admin, here, there)
    assert before["shown"] == after["shown"]
    assert [one for one in after["runs"] if one[0].startswith(PROJECT)] == [
        one for one in before["runs"] if one[0].startswith(PROJECT)
    ]


@pytest.mark.usefixtures("there")
def test_users_with_permission_are_answered(admin, others):
    """So the requests above were refused for their user, not for what they are."""
    at = make(admin, PROJECT)
    for name in BY_NAME:
        if name in BEFORE:
            call(admin, BEFORE[name], at)
        # The owner of a project does not own its workspace.
        status, found = call(admin if name in WORKSPACE else others["owner"], name, at)
        assert status == NEVER.get(name, 200), (name, status, found)
        if name in EACH:
            assert found["updatedExperimentIdentifiers"] == [at.run], (name, found)
        if name in AFTER:
            call(admin, AFTER[name], at)
        if name in DELETING:
            at = make(admin, PROJECT)
