"""What the routes for Neptune's client promise, whoever calls them."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asking import ask
from server_process import running_server
from server_waits import until


def assign(path: str, value: Any, kind: str = "Int") -> dict[str, Any]:
    return {"path": path, f"assign{kind}": {"value": value}}


def floats(path: str, *values: float, step: float | None = None) -> dict[str, Any]:
    entries = [{"value": each, "step": step, "timestampMilliseconds": 1000} for each in values]
    return {"path": path, "logFloats": {"entries": entries}}


def test_documents_describe_all_operations(admin: Any) -> None:
    """Anybody gets them; each operation stands in one, and every result has a definition."""
    from seamark.neptune.server.documents import BY_NAME, DOCUMENTS

    found: set[str] = set()
    for name in DOCUMENTS:
        answer = ask(admin.url, "GET", f"../{name}/swagger.json")
        document = answer.json()
        text = answer.body.decode()
        for each in document["definitions"]:
            assert f'"{each}"' in text
        for reference in text.split('"#/definitions/')[1:]:
            assert reference.partition('"')[0] in document["definitions"]
        for methods in document["paths"].values():
            found |= {each["operationId"] for each in methods.values()}
    assert found == set(BY_NAME)
    told = {name: admin.call(name)[1] for name in BY_NAME}
    assert [name for name in told if "NO_ADDRESS" in str(told[name])] == []
    assert [name for name in told if "no-address" in str(told[name])] == []


def test_numbers_of_runs_are_given_once(admin: Any) -> None:
    """Runs that many make at once have ids of their own; a custom id means one run."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: admin.new_run("many/runs")["shortId"], range(16)))
    assert sorted(found, key=lambda one: int(one[4:])) == [f"RUN-{n}" for n in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: admin.new_run("many/runs", customId="x")["id"], range(8)))
    assert len(set(same)) == 1


def test_steps_that_were_not_given_follow_the_last_one(admin: Any) -> None:
    """They count on across requests, from zero again once the series was emptied."""
    run = admin.new_run("steps/run")
    assert admin.do(run, floats("a", 1, 2), floats("a", 3, step=7.5), floats("a", 4)) == []
    assert admin.do(run, floats("a", 5)) == []
    values = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute="a")["values"]
    assert [each["step"] for each in values] == [0, 1, 7.5, 8.5, 9.5]
    assert admin.do(run, {"path": "a", "clearFloatSeries": {}}, floats("a", 6)) == []
    values = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute="a")["values"]
    assert [(each["step"], each["value"]) for each in values] == [(0, 6.0)]


def test_what_cannot_be_is_told_and_the_rest_is_done(admin: Any) -> None:
    """An operation that does not fit is an error of its own; nothing else is lost."""
    run = admin.new_run("wrong/run")
    errors = admin.do(
        run,
        assign("a", 1),
        assign("a", "text", "String"),
        floats("a", 1),
        assign("sys/id", "mine", "String"),
        assign("sys/state", "idle", "String"),
        {"path": "tags", "insertStrings": {"values": ["x"]}},
        {"path": "b", "unheardOf": {}},
        assign("x//y", 1),
        {"path": "s", "logFloats": {"entries": [{"value": "no", "timestampMilliseconds": 0}]}},
        {"path": "sys/tags", "insertStrings": {"values": ["t"]}},
        assign("z", 2),
        {"path": "missing", "deleteAttribute": {}},
        {"path": "sys/name", "deleteAttribute": {}},
    )
    assert len(errors) == 9
    shown = admin.shown(run)
    assert (shown["a"]["value"], shown["z"]["value"], shown["sys/tags"]["values"]) == (1, 2, ["t"])
    assert shown["sys/id"]["value"] == run["shortId"]
    assert admin.call("executeOperations", {"no": "list"}, experimentId=run["id"])[0] == 400


def test_who_may_not_is_refused(admin: Any, running: Any) -> None:
    """The roles of a project count here as everywhere; strangers do not learn what is there."""
    from neptune_client import Client

    run = admin.new_run("secret/project")
    admin.do(run, assign("a", 1))

    def client(role: str, project: str) -> Any:
        given = {"user": f"{role}-{project.replace('/', '-')}", "project": project, "role": role}
        made = ask(running.url, "POST", "accounts/tokens", running.token, given)
        return Client(running.url, made.json()["token"])

    viewer, stranger = client("viewer", "secret/project"), client("owner", "other/project")
    contributor = client("contributor", "secret/project")
    at = {"experimentId": run["id"]}
    assert viewer.shown(run)["a"]["value"] == 1
    for name, body, query in [
        ("executeOperations", [assign("a", 2)], at),
        ("ping", None, at),
        ("createExperiment", {"projectIdentifier": "secret/project", "type": "run"}, {}),
        ("fileAtomUpload", b"x", {"experimentIdentifier": run["id"], "attribute": "f"}),
        ("uploadFileSetAttributeTar", b"", {**at, "attribute": "f"}),
        ("deleteAllExperiments", None, {"projectIdentifier": "secret/project"}),
    ]:
        assert viewer.call(name, body, **query)[0] == 403, name
        assert stranger.call(name, body, **query)[0] == 404, name
    for name, query in [
        ("getExperiment", at),
        ("getExperimentAttributes", at),
        ("getProject", {"projectIdentifier": "secret/project"}),
        ("listArtifactFiles", {"projectIdentifier": "secret/project", "hash": "0" * 64}),
        ("getIntAttribute", {**at, "attribute": "a"}),
    ]:
        assert stranger.call(name, **query)[0] == 404, name
    told = contributor.ok("deleteExperiments", [run["id"]], projectIdentifier="secret/project")
    assert told["updatedExperimentIdentifiers"] == []
    assert len(told["errors"]) == 1
    assert stranger.ok("listProjects", limit=100)["entries"] == []
    nobody = Client(running.url, "")
    assert nobody.call("getExperimentAttributes", **at)[0] == 401
    nobody.headers = {"X-Neptune-Api-Token": "seamark_" + "x" * 43}
    assert nobody.call("exchangeApiToken")[0] == 401


def test_a_token_may_be_refreshed_while_it_counts(admin: Any, running: Any) -> None:
    """The next one is given for the last; one that was revoked is told so in OAuth's words."""
    import urllib3

    made = ask(running.url, "POST", "accounts/tokens", running.token, {"label": "short"}).json()
    from neptune_client import Client

    client = Client(running.url, made["token"])
    access = client.headers["Authorization"].partition(" ")[2]
    claims = json.loads(base64.urlsafe_b64decode(access.split(".")[1] + "=="))
    address = f"{claims['iss']}/protocol/openid-connect/token"
    form = {"grant_type": "refresh_token", "refresh_token": access, "client_id": claims["azp"]}

    def refresh() -> Any:
        with urllib3.PoolManager(retries=False) as pool:
            return pool.request("POST", address, fields=form, encode_multipart=False)

    assert refresh().json()["expires_in"] > 3600
    ask(running.url, "DELETE", f"accounts/tokens/{made['id']}", running.token)
    until(lambda: refresh().status != 200, 10)  # other workers take two seconds
    answer = refresh()
    assert (answer.status, answer.json()) == (400, {"error": "invalid_grant"})


def test_files_arrive_in_parts_and_stay_below_their_set(admin: Any) -> None:
    """Parts in any order and twice; what is missing is told; no name leads out of the set."""
    run = admin.new_run("parts/run")
    at = {"experimentIdentifier": run["id"], "attribute": "f"}
    begun = admin.ok("fileAtomMultipartUploadStart", **at, ext="bin", totalLength=10)
    upload = {**at, "uploadId": begun["uploadId"]}
    admin.headers["X-Range"] = "bytes=5-9/10"
    admin.ok("fileAtomMultipartUploadPart", b"fghij", **upload, uploadPartIdx=1)
    assert admin.call("fileAtomMultipartUploadFinish", **upload)[0] == 400
    admin.headers["X-Range"] = "bytes=0-4/10"
    for _ in range(2):
        admin.ok("fileAtomMultipartUploadPart", b"abcde", **upload, uploadPartIdx=0)
    assert admin.call("fileAtomMultipartUploadPart", b"abc", **upload, uploadPartIdx=0)[0] == 400
    del admin.headers["X-Range"]
    for _ in range(2):  # the answer to the first may have been lost
        assert admin.ok("fileAtomMultipartUploadFinish", **upload) == {"errors": []}
    at = {"experimentId": run["id"], "attribute": "f"}
    assert admin.ok("downloadAttribute", **at) == b"abcdefghij"
    assert admin.shown(run)["f"]["ext"] == "bin"
    other = {"experimentIdentifier": run["id"], "attribute": "s"}
    for name in ("../x", "/x", "a/../../x"):
        assert admin.call("fileSetFileUpload", b"x", **other, subPath=name)[0] == 400
    clash = admin.ok("fileSetFileUpload", b"x", **(other | {"attribute": "f"}), subPath="x")
    assert len(clash["errors"]) == 1


@pytest.mark.slow
def test_folding_again_keeps_ids_and_values(tmp_path: Path) -> None:
    """What is derived may be lost: runs keep their ids, and the next run gets the next one."""
    from neptune_client import Client

    with running_server(tmp_path / "server") as server:
        client, token = Client(server.url, server.token), server.token
        runs = [client.new_run("again/fold") for _ in range(2)]
        client.do(runs[1], floats("a", 1, 2), assign("b", 3))
        before = client.shown(runs[1])
    for path in (tmp_path / "server").glob("store_v*"):
        path.unlink()
    with running_server(tmp_path / "server") as server:
        client = Client(server.url, token)
        assert client.shown(runs[1]) == before
        found = client.ok("getExperiment", experimentId="again/fold/FOL-2")
        assert found == runs[1]
        assert client.new_run("again/fold")["shortId"] == "FOL-3"
        client.do(runs[1], floats("a", 3))
        last = client.ok("getFloatSeriesAttribute", experimentId=runs[1]["id"], attribute="a")
        assert (last["last"], last["lastStep"]) == (3.0, 2)


def test_queries_of_the_client_are_ours(admin: Any) -> None:
    """States and sets are asked for in its words."""
    from seamark.neptune.server.table import translated

    assert translated('`sys/state`:experimentState = "idle"') == "`sys/state` != running"
    assert translated("(sys/state:experimentState != 'idle')") == "(`sys/state` = running)"
    assert translated('`sys/tags`:stringSet = "x"') == '`sys/tags`:stringSet CONTAINS "x"'
    assert translated('`a`:string = "sys/state"') == '`a`:string = "sys/state"'


def test_members_of_a_project_are_managed(admin: Any, running: Any) -> None:
    """The client's words for roles; what exists already, or is not there, is told."""
    new = {"organizationId": "team", "name": "managed", "projectKey": "MAN", "visibility": "priv"}
    made = admin.ok("createProject", new)
    assert (made["projectKey"], made["organizationName"]) == ("MAN", "team")
    status, told = admin.call("createProject", new)
    assert (status, told["validationErrors"][0]["errors"][0]["errorCode"]["name"]) == (
        400,
        "ERR_NOT_UNIQUE",
    )
    status, told = admin.call("createProject", new | {"name": "b", "visibility": "all"})
    assert (status, told["errorType"]) == (422, "VISIBILITY_RESTRICTED")
    assert admin.new_run("team/managed")["shortId"] == "MAN-1"
    body = {"user": "mia", "project": "team/elsewhere", "role": "viewer"}
    ask(running.url, "POST", "accounts/tokens", running.token, body)
    at = {"projectIdentifier": "team/managed"}
    admin.ok("addProjectMember", {"userId": "mia", "role": "member"}, **at)
    assert admin.call("addProjectMember", {"userId": "mia", "role": "member"}, **at)[0] == 409
    assert admin.call("addProjectMember", {"userId": "none", "role": "member"}, **at)[0] == 404
    roles = {
        one["registeredMemberInfo"]["username"]: one["role"]
        for one in admin.ok("listProjectMembers", **at)
    }
    assert roles == {"admin": "manager", "mia": "member"}
    admin.ok("deleteProjectMember", **at, userId="mia")
    assert admin.call("deleteProjectMember", **at, userId="mia")[0] == 422
