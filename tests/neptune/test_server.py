"""What the routes for Neptune's client promise."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")

import urllib3
from asking import ask
from neptune_client import Client
from served import whole_server
from server_waits import until

from seamark.journal.format import Kind, salt_of
from seamark.journal.frames import walk
from seamark.neptune.server import log, operations, projects
from seamark.neptune.server.answers import BY_NAME, DOCUMENTS
from seamark.neptune.server.containers import digest_of
from seamark.neptune.server.log import Batch, Log, RunState
from seamark.neptune.server.operations import Changes
from seamark.neptune.server.projects import Container, find_run, parse_container_id
from seamark.neptune.server.table import translate_query
from seamark.server.state import open_server


def assign(path, value, kind="Int"):
    return {"path": path, f"assign{kind}": {"value": value}}


def floats(path, *values, step=None):
    entries = [{"value": each, "step": step, "timestampMilliseconds": 1000} for each in values]
    return {"path": path, "logFloats": {"entries": entries}}


def points(client, run, path):
    """Return steps and values of a series of numbers."""
    found = client.ok("getFloatSeriesValues", experimentId=run["id"], attribute=path)
    return [(each["step"], each["value"]) for each in found["values"]]


def test_documents_describe_all_operations(admin):
    """Each operation is in one of them, and every result has a definition."""
    found: set[str] = set()
    for name in DOCUMENTS:
        answer = ask(admin.url, "GET", f"../{name}/swagger.json")
        document = answer.json()
        text = answer.body.decode()
        for reference in text.split('"#/definitions/')[1:]:
            assert reference.partition('"')[0] in document["definitions"]
        for methods in document["paths"].values():
            found |= {each["operationId"] for each in methods.values()}
            refused = [each["responses"]["default"]["schema"] for each in methods.values()]
            assert refused == [{"$ref": "#/definitions/Refused"}] * len(methods)
    assert found == set(BY_NAME)
    told = {name: admin.call(name)[1] for name in BY_NAME}
    assert [name for name in told if "NO_ADDRESS" in str(told[name])] == []


def test_numbers_of_runs_are_given_once(admin, here, monkeypatch):
    """Also to simultaneous requests, and after a purge; a custom id means one run."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: admin.new_run("many/runs")["shortId"], range(16)))
    assert sorted(found, key=lambda one: int(one[4:])) == [f"RUN-{n}" for n in range(1, 17)]
    told = admin.ok("getLeaderboard", projectIdentifier="many/runs")["entries"]
    assert {each["systemAttributes"]["shortId"]["value"] for each in told} == set(found)
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: admin.new_run("many/runs", customId="x")["id"], range(8)))
    assert len(set(same)) == 1
    # A counter that was lost continues after the greatest id of the remaining runs.
    monkeypatch.setattr(projects, "_largest_number", lambda *_: 5)
    assert [projects.next_id(here.server, "purged/runs") for _ in range(2)] == ["RUN-6", "RUN-7"]


def test_purged_run_does_not_exist_by_the_id_of_seamark_either(admin, here):
    gone = parse_container_id(admin.new_run("gone/run")["id"])
    identifier = f"{gone.project}/{gone.run}"
    assert admin.call("getExperiment", experimentId=identifier)[0] == 200
    here.server.kept.forget(*gone)
    until(lambda: find_run(here.server, *gone) is None)
    status, told = admin.call("getExperiment", experimentId=identifier)
    assert (status, "purged" in str(told)) == (404, False), told


def test_missing_steps_continue_after_the_last_one(admin):
    """Also in later requests, and from zero again after the series was cleared."""
    run = admin.new_run("steps/run")
    assert admin.do(run, floats("a", 1, 2), floats("a", 3, step=7.5), floats("a", 4)) == []
    assert admin.do(run, floats("a", 5)) == []
    assert [step for step, _ in points(admin, run, "a")] == [0, 1, 7.5, 8.5, 9.5]
    assert admin.do(run, {"path": "a", "clearFloatSeries": {}}, floats("a", 6)) == []
    assert points(admin, run, "a") == [(0, 6.0)]


def test_no_frame_is_longer_than_a_journal_takes(monkeypatch):
    """Points of one series become few frames, however many operations have them."""
    monkeypatch.setattr(log, "_MAX_FRAME_POINTS", 4)
    server: Any = None  # nothing of it is needed for numbers
    given = [floats("a", 1), floats("b", 2), floats("a", *range(10)), floats("a", 3)]
    changes = operations.Changes(server, Container("a/b", "run"), given)
    batch = Batch(RunState(uid=bytes(16)), 1)
    changes.fill(batch)
    assert changes.errors == []
    columns = walk(batch.data, salt_of(bytes(16)))[0].some(Kind.COLUMN, 0)
    counts = [struct.unpack_from("<I", batch.data, one[0] + 28)[0] for one in columns]
    assert counts == [4, 4, 4, 1]


def test_each_wrong_operation_is_an_error_and_the_others_are_done(admin):
    run = admin.new_run("wrong/run")
    errors = admin.do(
        run,
        assign("x", 1.5),
        {"path": "d", "assignDatetime": {"valueMilliseconds": "12"}},
        assign("a", 1),
        assign("a", "text", "String"),
        floats("a", 1),
        assign("sys/id", "mine", "String"),
        {"path": "tags", "insertStrings": {"values": ["x"]}},
        {"path": "b", "unheardOf": {}},
        assign("x//y", 1),
        {"path": "s", "logFloats": {"entries": [{"value": "no", "timestampMilliseconds": 0}]}},
        {"path": "sys/tags", "insertStrings": {"values": ["t"]}},
        assign("z", 2),
        {"path": "sys/name", "deleteAttribute": {}},
    )
    assert errors[:2] == [
        "x: assignInt: expected int, got 1.5",
        "d: assignDatetime: expected int, float, got '12'",
    ]
    assert len(errors) == 10
    shown = admin.shown(run)
    assert (shown["a"]["value"], shown["z"]["value"], shown["sys/tags"]["values"]) == (1, 2, ["t"])
    assert shown["sys/id"]["value"] == run["shortId"]
    assert admin.call("executeOperations", {"no": "list"}, experimentId=run["id"])[0] == 400
    listed = {"projectIdentifier": "wrong/run", "hash": ""}  # so Seamark's own artifacts may be
    assert admin.call("listArtifactFiles", **listed)[0] == 404


def test_a_token_may_be_refreshed_while_it_is_valid(admin, here):
    """The next one is given for the last; one that was revoked gets OAuth's error."""
    made = ask(here.url, "POST", "accounts/tokens", here.token, {"label": "short"}).json()
    access = Client(here.url, made["token"]).headers["Authorization"].partition(" ")[2]
    claims = json.loads(base64.urlsafe_b64decode(access.split(".")[1] + "=="))
    address = f"{claims['iss']}/protocol/openid-connect/token"
    form = {"grant_type": "refresh_token", "refresh_token": access, "client_id": claims["azp"]}

    def refresh():
        with urllib3.PoolManager(retries=False) as pool:
            return pool.request("POST", address, fields=form, encode_multipart=False)

    assert refresh().json()["expires_in"] > 3600
    ask(here.url, "DELETE", f"accounts/tokens/{made['id']}", here.token)
    until(lambda: refresh().status != 200)  # other workers take two seconds
    answer = refresh()
    assert (answer.status, answer.json()) == (400, {"error": "invalid_grant"})


def test_files_arrive_in_parts_and_stay_below_their_set(admin):
    """Parts in their order, and twice; a missing one is refused; no name leads out of the set."""
    run = admin.new_run("parts/run")
    into = {"experimentIdentifier": run["id"], "attribute": "f"}
    at = {"experimentId": run["id"], "attribute": "f"}
    begun = admin.ok("fileAtomMultipartUploadStart", **into, ext="bin", totalLength=10)
    upload = into | {"uploadId": begun["uploadId"]}

    def part(data, given, number):
        header = {"X-Range": f"bytes={given}/10"}
        more = {**upload, "uploadPartIdx": number}
        return admin.call("fileAtomMultipartUploadPart", data, header, **more)[0]

    assert part(b"fghij", "5-9", 1) == 400
    for data, status in ((b"abcde", 200), (b"abcde", 200), (b"abc", 400)):
        assert part(data, "0-4", 0) == status
    assert admin.call("fileAtomMultipartUploadFinish", **upload)[0] == 400
    assert (part(b"fghij", "5-9", 1), part(b"abcde", "0-4", 0)) == (200, 200)
    for _ in range(2):  # the answer to the first may have been lost
        assert admin.ok("fileAtomMultipartUploadFinish", **upload) == {"errors": []}
    assert admin.ok("downloadAttribute", **at) == b"abcdefghij"
    assert admin.shown(run)["f"]["ext"] == "bin"
    begun = admin.ok("fileAtomMultipartUploadStart", **upload, totalLength=0)
    admin.ok("fileAtomMultipartUploadFinish", **(upload | begun))
    assert admin.ok("downloadAttribute", **at) == b""
    members = {"experimentIdentifier": run["id"], "attribute": "s"}
    for name in ("../x", "/x", "a/../../x"):
        assert admin.call("fileSetFileUpload", b"x", **members, subPath=name)[0] == 400
    for name in ("a/b", "a/c/d", "e"):
        admin.ok("fileSetFileUpload", b"one", **members, subPath=name)
    shown = admin.ok("lsFileSetAttribute", experimentId=run["id"], attribute="s")
    found = [(one["name"], one["size"], one["fileType"]) for one in shown]
    assert found == [("a", 6, "directory"), ("e", 3, "file")]
    clash = admin.ok("fileSetFileUpload", b"x", **into, subPath="x")
    assert len(clash["errors"]) == 1


@pytest.mark.once
def test_folding_again_keeps_ids_and_values(tmp_path):
    """Derived data may be lost: runs and models keep their ids, and new ones continue."""
    with whole_server(tmp_path / "server") as server:
        client, token = Client(server.url, server.token), server.token
        runs = [client.new_run("again/fold") for _ in range(2)]
        client.do(runs[1], floats("a", 1, 2), assign("b", 3))
        model = client.new_model("again/fold", "M")
        versions = [client.new_version("again/fold", model) for _ in range(2)]
        staging = {"path": "sys/stage", "assignString": {"value": "staging"}}
        assert client.do(versions[1], staging) == []
        before = [client.shown(each) for each in (*runs, model, *versions)]
    for path in (tmp_path / "server").glob("store_v*"):
        path.unlink()
    with whole_server(tmp_path / "server") as server:
        client = Client(server.url, token)
        assert [client.shown(each) for each in (*runs, model, *versions)] == before
        assert client.ok("getExperiment", experimentId="again/fold/FOL-M-2") == versions[1]
        assert client.new_version("again/fold", model)["shortId"] == "FOL-M-3"
        found = client.ok("getExperiment", experimentId="again/fold/FOL-2")
        assert found == runs[1]
        assert client.new_run("again/fold")["shortId"] == "FOL-3"
        client.do(runs[1], floats("a", 3))
        last = client.ok("getFloatSeriesAttribute", experimentId=runs[1]["id"], attribute="a")
        assert (last["last"], last["lastStep"]) == (3.0, 2)


def test_queries_of_the_client_are_translated(admin):
    """States and sets have words of its own; a wrong query gets the error that it knows."""
    assert translate_query('`sys/state`:experimentState = "idle"') == "`sys/state` != running"
    assert translate_query("(sys/state:experimentState != 'idle')") == "(`sys/state` = running)"
    assert translate_query('`sys/tags`:stringSet = "x"') == '`sys/tags`:stringSet CONTAINS "x"'
    assert translate_query('`a`:string = "sys/state"') == '`a`:string = "sys/state"'
    project = admin.new_run("queries/run")["projectName"]
    at = {"projectIdentifier": f"queries/{project}", "type": "run"}
    status, told = admin.call("searchLeaderboardEntries", {"query": {"query": "(("}}, **at)
    assert (status, told["title"]) == (400, "Syntax error")


def test_a_refused_project_gets_an_error_that_the_client_knows(admin):
    """For the errors of Seamark's own client see `tests/test_management.py`."""
    new = {"organizationId": "team", "name": "managed", "projectKey": "MAN", "visibility": "priv"}
    made = admin.ok("createProject", new)
    assert (made["projectKey"], made["organizationName"]) == ("MAN", "team")
    status, told = admin.call("createProject", new)
    code = told["validationErrors"][0]["errors"][0]["errorCode"]["name"]
    assert (status, code) == (400, "ERR_NOT_UNIQUE")
    for wrong, error in [
        ({"name": "b", "visibility": "all"}, (422, "VISIBILITY_RESTRICTED")),
        ({"name": "b/c"}, (400, "ERR_INVALID_NAME")),
        ({"organizationId": "team/b"}, (400, "ERR_INVALID_NAME")),
    ]:
        status, told = admin.call("createProject", new | wrong)
        assert (status, told["errorType"]) == error
    assert admin.new_run("team/managed")["shortId"] == "MAN-1"


def test_members_of_a_workspace_create_projects_of_their_own(admin, here):
    """Not with a taken name, seen or not, nor with a limited token; empty ones may be deleted."""

    def known(user, by=here.token, **limits):
        body = {"user": user, **limits}
        token = ask(here.url, "POST", "accounts/tokens", by, body).json()["token"]
        return Client(here.url, token)

    def invite(user, workspace="guild"):
        entry = {"invitee": user, "invitationType": "user", "roleGrant": "member"}
        given = {"organizationIdentifier": workspace, "invitationsEntries": [entry]}
        return int(admin.call("createOrganizationInvitations", given)[0])

    def new(name, who=admin):
        given = {"organizationId": "guild", "name": name}
        return int(who.call("createProject", given)[0])

    stranger = known("stranger")
    assert new("hidden", stranger) == 404
    admin.new_run("guild/hidden")
    nora = known("nora")
    assert [invite("nora"), invite("nora")] == [200, 409]
    assert [invite("nobody"), invite("nora", "nowhere")] == [404, 404]
    assert "guild" in {each["name"] for each in nora.ok("listOrganizations")}
    members = nora.ok("listOrganizationMembers", organizationIdentifier="guild")
    assert members == [{"role": "member", "registeredMemberInfo": {"username": "nora"}}]
    assert nora.call("getProject", projectIdentifier="guild/hidden")[0] == 404
    assert new("hidden", nora) == 400
    assert new("hers", known("nora", role="contributor")) == 403
    own = ask(here.url, "POST", "accounts/tokens", here.token, {"user": "nora"}).json()
    for project in ("guild/hidden", "other"):
        assert new("hers", known("nora", own["token"], project=project)) != 200
    assert new("hers", known("nora", own["token"], project="guild")) == 200
    assert nora.new_run("guild/hers")["shortId"].endswith("-1")
    assert new("empty", nora) == 200
    assert nora.call("deleteProject", projectIdentifier="guild/hers")[0] == 400
    assert stranger.call("deleteProject", projectIdentifier="guild/empty")[0] == 404
    nora.ok("deleteProject", projectIdentifier="guild/empty")
    assert nora.call("getProject", projectIdentifier="guild/empty")[0] == 404
    status = nora.ok("workspaceStatus", organizationIdentifier="guild")
    assert status["storageBytesLimit"] >= status["storageBytesAvailable"] > 0
    assert admin.call("trashExperiments", ["X-1"], projectIdentifier="no/where")[0] == 404


# Which process takes a request (2 is the server); to whom it is sent again, twice, because the
# first one dies once it has kept it, and the second answer is lost, too; and whether a sign of life
# comes before that.
TURNS: list[tuple[int, list[int], bool]] = [
    *((0, [], False), (0, [], False), (1, [], False), (0, [0, 0], False), (0, [1, 1], False)),
    *((2, [], False), (1, [0, 0], True), (0, [], False), (1, [2, 2], False), (0, [1, 1], True)),
    *((1, [], False), (1, [1, 1], True)),
]


def request_of(number):
    """Return a request with a point, every other one with a step of its own."""
    point = floats("a", number) if number % 2 else floats("b", number, step=number)
    return json.dumps([point, assign("x", number)]).encode()


def test_points_are_kept_once_whichever_process_takes_them_and_dies(admin, here, monkeypatch):
    """Three take requests in turn, and at once; the client repeats what was not answered."""
    monkeypatch.setattr(log, "_REPEAT_NS", 0)  # the client waits for a second
    run = admin.new_run("three/processes")
    container = parse_container_id(run["id"])
    assert container is not None

    def give(worker, data):
        if worker == 2:
            assert admin.ok("executeOperations", data, experimentId=run["id"]) == []
            return
        digest = digest_of(data)
        changes = Changes(servers[worker], container, json.loads(data), digest)
        logs[worker].write(changes.fill, digest)
        assert changes.errors == []

    with contextlib.ExitStack() as stack:
        servers = [open_server(here.server.settings) for _ in range(2)]
        for server in servers:
            stack.callback(server.close)
        logs = [Log(server, container) for server in servers]
        for number, (first, again, beats) in enumerate(TURNS, 1):
            give(first, request_of(number))
            if again:
                logs[first] = Log(servers[first], container)
            for worker in again:
                if beats:
                    logs[worker].beat()
                give(worker, request_of(number))
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(give, [0, 1, 2] * 4, map(request_of, range(13, 25))))
    steps, values = zip(*points(admin, run, "a"), strict=True)
    assert list(steps) == list(range(len(values)))
    assert list(values[:6]) == [1, 3, 5, 7, 9, 11]
    assert sorted(values) == [*range(1, 25, 2)]
    assert points(admin, run, "b") == [(step, step) for step in range(2, 25, 2)]


def test_points_are_kept_once_if_the_client_was_gone_before_the_answer(here, monkeypatch):
    """It is cut off twice and repeats them; the same at once, or with another time, is more."""
    client = Client(here.url, here.token)
    run = client.new_run("cut/off")
    data = json.dumps([floats("a", 1), floats("b", 2, step=7), assign("x", 1)]).encode()
    kept, gone, write = threading.Semaphore(0), threading.Semaphore(0), Log.write

    def keep(*given):
        write(*given)
        kept.release()
        assert gone.acquire(timeout=60)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "write", keep)
        patched.setattr(log, "_REPEAT_NS", 0)
        for _ in range(2):
            operation = BY_NAME["executeOperations"]
            connection = http.client.HTTPConnection(here.url.removeprefix("http://"))
            query = urlencode({"experimentId": run["id"]})
            headers = {**client.headers, "Content-Type": "application/json"}
            connection.request(operation.method, f"{operation.path}?{query}", data, headers)
            assert kept.acquire(timeout=60)
            connection.close()
            client.ok("getClientConfig")  # it has seen that the connection is closed, too
            gone.release()

    def values(path):
        return [value for _, value in points(client, run, path)]

    client.ok("ping", experimentId=run["id"])
    monkeypatch.setattr(log, "_REPEAT_NS", 0)
    client.ok("executeOperations", data, experimentId=run["id"])
    assert (values("a"), values("b")) == ([1], [2])
    client.ok("executeOperations", data.replace(b": 1000}", b": 1001}"), experimentId=run["id"])
    assert (values("a"), values("b")) == ([1, 1], [2, 2])
    data = json.dumps([floats("soon", 1)]).encode()
    for soon_ns in (1 << 60, 1 << 60, 0):  # who had an answer goes on at once
        monkeypatch.setattr(log, "_REPEAT_NS", soon_ns)
        client.ok("executeOperations", data, experimentId=run["id"])
    assert values("soon") == [1, 1]


def test_texts_of_bodies_are_limited_and_may_have_nul(admin):
    """Queries may be long; paths are never left out."""
    project, long = "bodies/texts", "x" * 9000
    run = admin.new_run(project, customId="a\0b", gitInfo={"commit": "unknown"})
    assert "source_code/git" not in admin.shown(run)
    assert admin.new_run(project, customId="a\0b")["id"] == run["id"]
    assert (
        admin.call("createExperiment", {"projectIdentifier": project, "customId": long})[0] == 400
    )

    def table(**given):
        query = {"projectIdentifier": project, "type": "run"}
        status, told = admin.call("searchLeaderboardEntries", given, **query)
        return status, told.get("matchingItemCount", told.get("title"))

    for text in ("a\0b", long):
        assert table(query={"query": f'`sys/name`:string = "{text}"'}) == (200, 0)
    assert table(attributeFilters=[{"path": "a\0b"}]) == (200, 1)
    for filters in ([{}], [{"path": None}]):
        told = (400, "attributeFilters: expected a path in each")
        assert table(attributeFilters=filters) == told
    assert table(attributeFilters=[{"path": long}])[0] == 400
    assert table(sorting={"sortBy": {"name": "\ud800"}})[0] == 400
