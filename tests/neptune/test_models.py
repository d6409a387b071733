"""Models and their versions through the routes for Neptune's client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from asking import ask
from neptune_client import Client

import seamark


def stage(word):
    return {"path": "sys/stage", "assignString": {"value": word}}


def table(client, project, kind, query=""):
    given = {"query": {"query": query}, "pagination": {"limit": 100, "offset": 0}}
    found = client.ok("searchLeaderboardEntries", given, projectIdentifier=project, type=kind)
    return [
        {one["name"]: one[f"{one['type']}Properties"].get("value") for one in each["attributes"]}
        for each in found["entries"]
    ]


def test_keys_and_numbers_are_given_once(admin):
    """One of several simultaneous requests gets a key, in whichever case; versions have numbers."""
    project = "models/once"

    def make(key):
        given = {"projectIdentifier": project, "type": "model", "key": key}
        return int(admin.call("createExperiment", given)[0])

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(make, ["NET", "net", "Net", "NET"] * 2))
    assert sorted(told) == [200] + [409] * 7
    (model,) = table(admin, project, "model")
    key = model["sys/id"]
    found = admin.ok("getExperiment", experimentId=f"{project}/{key}")
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda _: admin.new_version(project, found), range(12)))
    ids = {one["shortId"] for one in versions}
    assert ids == {f"{key}-{n}" for n in range(1, 13)}
    for each in versions:
        assert admin.ok("getExperiment", experimentId=f"{project}/{each['shortId']}") == each
    for wrong in ("", "a-b", "../x", "x/y", None, 3):
        assert make(wrong) == 400, wrong
    rows = table(admin, project, "modelVersion", f'`sys/model_id`:string = "{key}"')
    assert {row["sys/id"] for row in rows} == ids
    one = table(admin, project, "modelVersion", f'`sys/id`:string = "{key}-7"')
    assert [row["sys/version"] for row in one] == [7]
    assert table(admin, project, "run") == []


def test_a_stage_is_one_of_four_and_derived_fields_cannot_be_assigned(admin):
    version = admin.new_version("models/stages", admin.new_model("models/stages", "M"))
    assert admin.shown(version)["sys/stage"]["value"] == "none"
    assert admin.do(version, stage("production")) == []
    assert len(admin.do(version, stage("Production"))) == 1
    wrong = [{"path": f"sys/{name}", "assignInt": {"value": 1}} for name in ("version", "stage")]
    assert len(admin.do(version, *wrong)) == 2
    assert len(admin.do(version, {"path": "sys/model_id", "assignString": {"value": "X"}})) == 1
    shown = admin.shown(version)
    assert shown["sys/stage"]["value"] == "production"
    assert (shown["sys/version"]["value"], shown["sys/model_id"]["value"]) == (1, "STA-M")
    run = admin.new_run("models/stages")
    assert len(admin.do(run, stage("production"))) == 1
    admin.do(version, {"path": "of/version", "assignInt": {"value": 1}})
    admin.do(run, {"path": "of/run", "assignInt": {"value": 1}})
    at = {"projectIdentifier": "models/stages"}
    wanted = {"run": {"of/run"}, "modelVersion": {"of/version", "sys/stage"}}
    for kind, names in wanted.items():
        found = admin.ok("searchLeaderboardAttributes", {}, **at, type=kind)["entries"]
        among = {"of/run", "of/version", "sys/stage"}
        assert {each["name"] for each in found} & among == names


def test_a_model_is_trashed_and_purged_with_its_versions(admin):
    """A version that is not in the trash keeps its model."""
    project = "models/trash"
    model = admin.new_model(project, "M")
    first = admin.new_version(project, model)
    at = {"projectIdentifier": project}
    told = admin.ok("trashExperiments", [f"{project}/TRA-M"], **at)
    assert told == {"errors": [], "updatedExperimentIdentifiers": [f"{project}/TRA-M"]}
    for each in (model, first):
        assert admin.ok("getExperiment", experimentId=each["id"])["trashed"]
    assert [row["sys/trashed"] for row in table(admin, project, "modelVersion")] == [True]
    second = admin.new_version(project, model)
    told = admin.ok("deleteExperiments", [model["id"]], **at)
    assert len(told["errors"]) == 1
    assert admin.ok("getExperiment", experimentId=first["id"])["trashed"]
    told = admin.ok("trashExperiments", [second["id"]], **at)
    told = admin.ok("deleteAllExperiments", **at)
    assert len(told["updatedExperimentIdentifiers"]) == 3
    for each in (model, first, second):
        assert admin.call("getExperiment", experimentId=each["id"])[0] == 404
    given = {"projectIdentifier": project, "type": "model", "key": "M"}
    assert admin.call("createExperiment", given)[0] == 409


def test_a_model_is_reached_from_its_own_project_only(admin, here):
    project, mine = "hidden/models", "hidden/models2"
    model = admin.new_model(project, "M")
    version = admin.new_version(project, model)
    given = {"user": "sibling", "project": mine, "role": "owner"}
    made = ask(here.url, "POST", "accounts/tokens", here.token, given)
    sibling = Client(here.url, made.json()["token"])
    for identifier in (model["id"], version["id"], f"{project}/MOD-M", f"{project}/MOD-M-1"):
        assert sibling.call("getExperiment", experimentId=identifier)[0] == 404
    newer = {"projectIdentifier": mine, "type": "modelVersion", "parentId": model["id"]}
    new = {"projectIdentifier": model["id"], "type": "model", "key": "N"}
    for body in (newer, new):
        assert sibling.call("createExperiment", body)[0] == 404
    for name in ("trashExperiments", "deleteExperiments"):
        told = sibling.ok(name, [model["id"], f"{project}/MOD-M-1"], projectIdentifier=mine)
        assert len(told["errors"]) == 2, name
        assert sibling.call(name, [model["id"]], projectIdentifier=project)[0] == 404


def test_seamark_and_the_client_continue_each_others_models(admin, here):
    project = "models/both"
    to = {"project": project, "remote": here.url, "api_token": here.token}
    with seamark.init_model(key="OURS", name="made here", **to) as model:
        model["card"] = "text"
    with seamark.init_model_version(model="OURS", **to) as version:
        version["acc"] = 0.5
        version["weights"].upload(seamark.types.File.from_content("bytes"))
        version.change_stage("staging")
    ours = admin.ok("getExperiment", experimentId=f"{project}/BOT-OURS")
    assert (ours["type"], admin.shown(ours)["card"]["value"]) == ("model", "text")
    first = admin.ok("getExperiment", experimentId=f"{project}/BOT-OURS-1")
    shown = admin.shown(first)
    assert (shown["acc"]["value"], shown["sys/stage"]["value"]) == (0.5, "staging")
    at = {"experimentId": first["id"], "attribute": "weights"}
    assert admin.ok("downloadAttribute", **at) == b"bytes"
    assert admin.do(first, stage("production"), {"path": "n", "assignInt": {"value": 7}}) == []
    second = admin.new_version(project, ours)
    assert second["shortId"] == "BOT-OURS-2"
    theirs = admin.new_model(project, "THEIRS")
    admin.do(theirs, {"path": "note", "assignString": {"value": "hello"}})
    admin.new_version(project, theirs)

    reading = {**to, "mode": "read-only"}
    with seamark.init_model_version(with_id="OURS-1", **reading) as version:
        assert (version["n"].fetch(), version["sys/stage"].fetch()) == (7, "production")
    with seamark.init_model(with_id="THEIRS", **reading) as model:
        assert (model["note"].fetch(), model["sys/owner"].fetch()) == ("hello", "admin")
        assert len(model.fetch_model_versions_table().to_rows()) == 1
    with seamark.init_model_version(model="THEIRS", **to) as version:
        assert version["sys/version"].fetch() == 2
    with pytest.raises(seamark.errors.KeyTakenError):
        seamark.init_model(key="theirs", **to)
    with pytest.raises(seamark.errors.RunNotFoundError):
        seamark.init_model_version(model="OTHER", **to)
    for key, count in (("OURS", 2), ("THEIRS", 2)):
        rows = table(admin, project, "modelVersion", f'sys/model_id:string = "BOT-{key}"')
        assert sorted(row["sys/id"] for row in rows) == [f"BOT-{key}-{n + 1}" for n in range(count)]
