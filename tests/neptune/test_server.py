"""What the routes for Neptune's client promise, whoever calls them."""

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
from asking import ask
from server_waits import until


def assign(path, value, kind="Int"):
    return {"path": path, f"assign{kind}": {"value": value}}


def floats(path, *values, step=None):
    entries = [{"value": each, "step": step, "timestampMilliseconds": 1000} for each in values]
    return {"path": path, "logFloats": {"entries": entries}}


def test_documents_describe_all_operations(admin):
    """Anybody gets them; each operation stands in one, and every result has a definition."""
    from seamark.neptune.server.answers import BY_NAME, DOCUMENTS

    found: set[str] = set()
    for name in DOCUMENTS:
        answer = ask(admin.url, "GET", f"../{name}/swagger.json")
        document = answer.json()
        text = answer.body.decode()
        for each in document["definitions"]:
            assert f'"{each}"' in text
        for reference in text.split('"#/definitions/')[1:]:
            assert reference.partition('"')[0] in document["definitions"]
        members = [one.get("properties", {}) for one in document["definitions"].values()]
        assert all(kind for each in members for kind in each.values())
        for methods in document["paths"].values():
            found |= {each["operationId"] for each in methods.values()}
            refused = [each["responses"]["default"]["schema"] for each in methods.values()]
            assert refused == [{"$ref": "#/definitions/Refused"}] * len(methods)
    assert found == set(BY_NAME)
    told = {name: admin.call(name)[1] for name in BY_NAME}
    assert [name for name in told if "NO_ADDRESS" in str(told[name])] == []
    assert [name for name in told if "no-address" in str(told[name])] == []


def test_numbers_of_runs_are_given_once(admin):
    """Runs that many make at once have ids of their own; a custom id means one run."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: admin.new_run("many/runs")["shortId"], range(16)))
    assert sorted(found, key=lambda one: int(one[4:])) == [f"RUN-{n}" for n in range(1, 17)]
    told = admin.ok("getLeaderboard", projectIdentifier="many/runs")["entries"]
    assert {each["systemAttributes"]["shortId"]["value"] for each in told} == set(found)
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: admin.new_run("many/runs", customId="x")["id"], range(8)))
    assert len(set(same)) == 1


def test_ids_of_purged_runs_are_not_given_again(running, monkeypatch):
    """A counter that was lost begins behind the runs that are left."""
    from seamark.neptune.server import projects

    monkeypatch.setattr(projects, "_greatest", lambda *_: 5)
    found = [projects.next_id(running.server, "purged/runs") for _ in range(2)]
    assert found == ["RUN-6", "RUN-7"]


def test_steps_that_were_not_given_follow_the_last_one(admin):
    """They count on across requests, from zero again once the series was emptied."""
    run = admin.new_run("steps/run")
    assert admin.do(run, floats("a", 1, 2), floats("a", 3, step=7.5), floats("a", 4)) == []
    assert admin.do(run, floats("a", 5)) == []
    values = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute="a")["values"]
    assert [each["step"] for each in values] == [0, 1, 7.5, 8.5, 9.5]
    assert admin.do(run, {"path": "a", "clearFloatSeries": {}}, floats("a", 6)) == []
    values = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute="a")["values"]
    assert [(each["step"], each["value"]) for each in values] == [(0, 6.0)]


def test_a_series_may_be_announced_before_it_has_points(admin, running):
    """It is listed without a value, and begins at step zero; one that has points keeps them."""
    run = admin.new_run("announced/run")
    logs = {"f": "logFloats", "s": "logStrings", "i": "logImages"}
    announced = [{"path": path, kind: {"entries": []}} for path, kind in logs.items()]
    for _ in range(2):
        assert admin.do(run, *announced) == []
    assert len(admin.do(run, {"path": "f", "logStrings": {"entries": []}})) == 1
    shown = admin.shown(run)
    assert [shown[path]["attributeType"] for path in logs] == [
        "floatSeries",
        "stringSeries",
        "imageSeries",
    ]
    assert {shown[path].get("last") for path in logs} == {None}
    for name, path in [("Float", "f"), ("String", "s"), ("Image", "i")]:
        at = {"experimentId": run["id"], "attribute": path}
        assert admin.ok(f"get{name}SeriesValues", **at)["totalItemCount"] == 0
    assert admin.do(run, floats("f", 2), *announced, floats("f", 3)) == []
    values = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute="f")["values"]
    assert [(each["step"], each["value"]) for each in values] == [(0, 2.0), (1, 3.0)]


def test_no_frame_is_longer_than_a_journal_takes(monkeypatch):
    """Points of one series become few frames, however many operations have them."""
    pytest.importorskip("fastapi")
    from seamark.journal.format import Kind, salt_of
    from seamark.journal.walk import walk
    from seamark.neptune.server import log, operations
    from seamark.neptune.server.log import Batch, Opened
    from seamark.neptune.server.projects import Container

    monkeypatch.setattr(log, "_FRAME_POINTS", 4)
    server: Any = None  # nothing of it is needed for numbers
    given = [floats("a", 1), floats("b", 2), floats("a", *range(10)), floats("a", 3)]
    changes = operations.Changes(server, Container("a/b", "run"), given)
    batch = Batch(Opened(uid=bytes(16)), 1)
    changes.fill(batch)
    assert changes.errors == []
    columns = walk(batch.data, salt_of(bytes(16)))[0].some(Kind.COLUMN, 0)
    counts = [struct.unpack_from("<I", batch.data, one[0] + 28)[0] for one in columns]
    assert counts == [4, 4, 4, 1]


def test_what_cannot_be_is_told_and_the_rest_is_done(admin):
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
    listed = {"projectIdentifier": "wrong/run", "hash": ""}  # so Seamark's own artifacts may be
    assert admin.call("listArtifactFiles", **listed)[0] == 404


def test_a_token_may_be_refreshed_while_it_counts(admin, running):
    """The next one is given for the last; one that was revoked is told so in OAuth's words."""
    import urllib3

    made = ask(running.url, "POST", "accounts/tokens", running.token, {"label": "short"}).json()
    from neptune_client import Client

    client = Client(running.url, made["token"])
    access = client.headers["Authorization"].partition(" ")[2]
    claims = json.loads(base64.urlsafe_b64decode(access.split(".")[1] + "=="))
    address = f"{claims['iss']}/protocol/openid-connect/token"
    form = {"grant_type": "refresh_token", "refresh_token": access, "client_id": claims["azp"]}

    def refresh():
        with urllib3.PoolManager(retries=False) as pool:
            return pool.request("POST", address, fields=form, encode_multipart=False)

    assert refresh().json()["expires_in"] > 3600
    ask(running.url, "DELETE", f"accounts/tokens/{made['id']}", running.token)
    until(lambda: refresh().status != 200)  # other workers take two seconds
    answer = refresh()
    assert (answer.status, answer.json()) == (400, {"error": "invalid_grant"})


def test_files_arrive_in_parts_and_stay_below_their_set(admin):
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
    begun = admin.ok("fileAtomMultipartUploadStart", **upload, totalLength=0)
    admin.ok("fileAtomMultipartUploadFinish", **(upload | begun))
    assert admin.ok("downloadAttribute", **at) == b""
    other = {"experimentIdentifier": run["id"], "attribute": "s"}
    for name in ("../x", "/x", "a/../../x"):
        assert admin.call("fileSetFileUpload", b"x", **other, subPath=name)[0] == 400
    for name in ("a/b", "a/c/d", "e"):
        admin.ok("fileSetFileUpload", b"one", **other, subPath=name)
    shown = admin.ok("lsFileSetAttribute", experimentId=run["id"], attribute="s")
    assert [(one["name"], one["size"], one["fileType"]) for one in shown] == [
        ("a", 6, "directory"),
        ("e", 3, "file"),
    ]
    clash = admin.ok("fileSetFileUpload", b"x", **(other | {"attribute": "f"}), subPath="x")
    assert len(clash["errors"]) == 1


@pytest.mark.once
def test_folding_again_keeps_ids_and_values(tmp_path):
    """What is derived may be lost: runs and models keep their ids, and the next gets the next."""
    from neptune_client import Client
    from served import folding, served

    with served(tmp_path / "server") as server, folding(server.server):
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
    with served(tmp_path / "server") as server, folding(server.server):
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


def test_queries_of_the_client_are_ours(admin):
    """States and sets are asked for in its words."""
    from seamark.neptune.server.table import translated

    assert translated('`sys/state`:experimentState = "idle"') == "`sys/state` != running"
    assert translated("(sys/state:experimentState != 'idle')") == "(`sys/state` = running)"
    assert translated('`sys/tags`:stringSet = "x"') == '`sys/tags`:stringSet CONTAINS "x"'
    assert translated('`a`:string = "sys/state"') == '`a`:string = "sys/state"'


def test_a_project_that_cannot_be_made_is_refused_in_words_of_the_client(admin):
    """What Seamark's own client makes of each is in `tests/test_management.py`."""
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


def test_who_belongs_to_a_workspace_makes_projects_that_are_theirs(admin, running):
    """No name that is taken, seen or not; no token that is for less; empty ones may be deleted."""
    from neptune_client import Client

    def known(user, by=running.token, **limits):
        body = {"user": user, **limits}
        token = ask(running.url, "POST", "accounts/tokens", by, body).json()["token"]
        return Client(running.url, token)

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
    assert [invite("nora"), invite("nora"), invite("nobody"), invite("nora", "nowhere")] == [
        200,
        409,
        404,
        404,
    ]
    assert "guild" in {each["name"] for each in nora.ok("listOrganizations")}
    members = nora.ok("listOrganizationMembers", organizationIdentifier="guild")
    assert members == [{"role": "member", "registeredMemberInfo": {"username": "nora"}}]
    assert nora.call("getProject", projectIdentifier="guild/hidden")[0] == 404
    assert new("hidden", nora) == 400
    assert new("hers", known("nora", role="contributor")) == 403
    own = ask(running.url, "POST", "accounts/tokens", running.token, {"user": "nora"}).json()
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


# Who takes a request; to whom it is sent again, twice, because the first one dies once it has kept
# it, and the second answer is lost, too; and whether a sign of life comes before that.
TURNS: list[tuple[int, list[int], bool]] = [
    *((0, [], False), (0, [], False), (1, [], False), (0, [0, 0], False), (0, [1, 1], False)),
    *((2, [], False), (1, [0, 0], True), (0, [], False), (1, [2, 2], False), (0, [1, 1], True)),
    *((1, [], False), (1, [1, 1], True)),
]


def points(number):
    """Return a request with a point, every other one with a step of its own."""
    point = floats("a", number) if number % 2 else floats("b", number, step=number)
    return json.dumps([point, assign("x", number)]).encode()


def test_points_are_there_once_whoever_takes_them_and_dies(admin, running, monkeypatch):
    """Three that answer take requests in turn, and at once; some die after they kept one.

    The client sends again what was not answered, to anybody.
    """
    from seamark.neptune.server import log
    from seamark.neptune.server.containers import digest_of
    from seamark.neptune.server.log import Log
    from seamark.neptune.server.operations import Changes
    from seamark.neptune.server.projects import named
    from seamark.server.settings import Settings
    from seamark.server.state import open_server

    monkeypatch.setattr(log, "_SOON_NS", 0)  # the client waits for a second
    run = admin.new_run("three/processes")
    container = named(run["id"])
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
        servers = [open_server(Settings.at(running.server.settings.folder)) for _ in range(2)]
        for server in servers:
            stack.callback(server.close)
        logs = [Log(server, container) for server in servers]
        for number, (first, again, beats) in enumerate(TURNS, 1):
            give(first, points(number))
            if again:
                logs[first] = Log(servers[first], container)
            for worker in again:
                if beats:
                    logs[worker].beat()
                give(worker, points(number))
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(give, [0, 1, 2] * 4, map(points, range(13, 25))))
    found = {}
    for path in ("a", "b"):
        told = admin.ok("getFloatSeriesValues", experimentId=run["id"], attribute=path)
        found[path] = [(each["step"], each["value"]) for each in told["values"]]
    steps, values = zip(*found["a"], strict=True)
    assert list(steps) == list(range(len(values)))
    assert list(values[:6]) == [1, 3, 5, 7, 9, 11]
    assert sorted(values) == [*range(1, 25, 2)]
    assert found["b"] == [(step, step) for step in range(2, 25, 2)]


def test_points_are_there_once_if_the_client_was_gone_before_the_answer(here, monkeypatch):
    """It is cut off twice and sends them again; the same at once, or at another time, is more."""
    from neptune_client import Client

    from seamark.neptune.server import log
    from seamark.neptune.server.answers import BY_NAME
    from seamark.neptune.server.log import Log

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
        patched.setattr(log, "_SOON_NS", 0)
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
        found = client.ok("getFloatSeriesValues", experimentId=run["id"], attribute=path)
        return [each["value"] for each in found["values"]]

    client.ok("ping", experimentId=run["id"])
    monkeypatch.setattr(log, "_SOON_NS", 0)
    client.ok("executeOperations", data, experimentId=run["id"])
    assert (values("a"), values("b")) == ([1], [2])
    client.ok("executeOperations", data.replace(b": 1000}", b": 1001}"), experimentId=run["id"])
    assert (values("a"), values("b")) == ([1, 1], [2, 2])
    data = json.dumps([floats("soon", 1)]).encode()
    for soon_ns in (1 << 60, 1 << 60, 0):  # who had an answer goes on at once
        monkeypatch.setattr(log, "_SOON_NS", soon_ns)
        client.ok("executeOperations", data, experimentId=run["id"])
    assert values("soon") == [1, 1]


def test_what_another_process_wrote_is_seen_where_nothing_is_written(admin, running):
    """What a process remembers of a run is compared with what is kept, also to do nothing."""
    from seamark.neptune.server.log import Log
    from seamark.neptune.server.projects import named
    from seamark.server.settings import Settings
    from seamark.server.state import open_server

    run = admin.new_run("two/processes")
    container, seen = named(run["id"]), []
    assert container is not None

    def remove(batch):
        seen.append(batch.kind("x"))
        if seen[-1] is not None:
            batch.op({"op": "delete", "paths": ["x"]})
            batch.removed("x")

    def refuse(batch):
        seen.append(batch.kind("x"))
        if seen[-1] is None:
            raise KeyError(seen[-1])

    server = open_server(Settings.at(running.server.settings.folder))
    try:
        log = Log(server, container)
        log.write(remove)
        assert admin.do(run, assign("x", 1)) == []
        log.write(refuse)
        log.write(remove)
        with pytest.raises(KeyError):
            log.write(refuse)
        assert admin.do(run, assign("x", 2)) == []
        log.write(remove)
    finally:
        server.close()
    assert seen == [None, "atom:int", "atom:int", None, "atom:int"]
    assert "x" not in admin.shown(run)
