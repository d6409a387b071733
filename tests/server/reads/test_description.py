"""The description of the API is one to make clients from, and nobody breaks the server."""

from __future__ import annotations

import hashlib
import json

import pytest

pytest.importorskip("fastapi")

from journal_builder import JournalBuilder
from questions import of_many, of_run

from seamark.server import reads


def document(here):
    with here.client() as asks:
        return asks.get("openapi.json").json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if {"run", "runs"} & set(operation.get("tags", ())):
                yield path, method, operation


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
def test_every_read_is_described(here) -> None:
    """A name of its own, an answer with a schema, and what a refusal looks like."""
    validator = pytest.importorskip("openapi_spec_validator")
    described = document(here)
    validator.validate(described)
    found = list(operations(described))
    names = [operation["operationId"] for _, _, operation in found]
    assert len(names) == len(set(names)) > 40
    assert set(reads.verbs()) <= set(names)
    for path, method, operation in found:
        if (path.count("{") and method == "delete") or "journals" in path or "blobs" in path:
            continue
        answers = operation["responses"]
        assert answers["200"]["content"]["application/json"]["schema"], (path, method)
        assert "hint" in json.dumps(described["components"]["schemas"]["Failure"])
        assert "401" in answers


def filled(here) -> JournalBuilder:
    made = JournalBuilder("one", rank=0)
    made.op("state", state="running").assign(lr=0.5, sys__name="x")
    made.op("add", path="sys/tags", values=["b"])
    made.op("file_point", path="f", file={"sha256": "a" * 64, "size": 1}, step=0.0)
    for step in range(20):
        made.row({"loss": float("nan") if step == 3 else 1.0, "profiling/own_time_s": 1.0}, step)
        made.row({"ranks/1/profiling/own_time_s": 2.0}, step)
    made.texts("text", [0.0, "hello\n"]).histograms("h", (0.0, [0, 1], [3]))
    here.put("run0", made)
    return made


def checked(described, path: str, method: str, answer) -> None:
    """Check an answer by the schema that the description has for it."""
    jsonschema = pytest.importorskip("jsonschema")
    operation = described["paths"][f"/api/v1/{path}"][method]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.status_code == 200, (path, answer.text)
    whole = {**schema, "components": described["components"]}
    jsonschema.Draft202012Validator(whole).validate(answer.json())


ARRAYS = ("points", "curve", "drawing", "histograms", "series", "curves", "group_curves")


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
@pytest.mark.parametrize("arrays", ["base64", "json"])
def test_answers_are_as_described(here, arrays) -> None:
    """What is sent is what the description says, field by field, and so is what was asked."""
    jsonschema = pytest.importorskip("jsonschema")
    run = {"project": "team/x", "run": "run0"}
    questions = {verb: run | more for verb, more in of_run(filled(here).file).items()}
    questions |= of_many("team/x", "run0")
    described = document(here)
    assert set(questions) == set(reads.verbs())
    with here.client() as asks:
        for verb in questions if arrays == "base64" else ARRAYS:
            question = questions[verb]
            answer = asks.post(f"read/{verb}", json=question, params={"arrays": arrays})
            checked(described, f"read/{verb}", "post", answer)
            assert answer.json()["answer"] not in (None, {}) or verb == "changes", verb
            # What is several values has no class of its own.
            assert verb not in ("overview", "table", "curves") or "$" not in answer.json()["answer"]
            if seen := answer.json().get("seen"):
                again = asks.post(f"read/{verb}", json={**question, "seen": seen})
                assert again.json() == {"unchanged": True}
                checked(described, f"read/{verb}", "post", again)
            body = described["paths"][f"/api/v1/read/{verb}"]["post"]["requestBody"]
            schema = body["content"]["application/json"]["schema"]
            whole = {**schema, "components": described["components"]}
            jsonschema.Draft202012Validator(whole).validate(question)


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
def test_what_is_said_of_writing_is_as_described(here) -> None:
    filled(here)
    described, at = document(here), "runs/{project}/{run}/contents"
    refs = [["team/x", "run0"]]
    kept = hashlib.sha256(b"x").hexdigest()
    here.server.blobs.put("team/x", "run0", kept, 1, 0, b"x")
    claimant = {"host": "here", "pid": 1, "key": "0" * 16, "t": 1}
    claim = {"project": "team/x", "name": "run0", "number": 1, "key": "0" * 16}
    posts = {
        "link": {"project": "team/x", "run": "run0", "sha256": kept},
        at: {"sha256": [kept, "0" * 64]},
        "arrivals": {"project": "team/x", "run": "run9", "name": "new"},
        "runs/claims": {"refs": refs, "claimant": claimant},
        "runs/claims/held": claim,
        "runs/claims/release": claim,
        "views": {"project": "team/x"},
    }
    with here.client() as asks:
        for path, body in posts.items():
            answer = asks.post(path.format(project="team/x", run="run0"), json=body)
            checked(described, path, "post", answer)
        body = {"refs": refs, "add_tags": ["x"]}
        checked(described, "runs", "patch", asks.patch("runs", json=body))
        body = {"project": "team/x", "name": "v", "was": None, "address": "?v=1"}
        checked(described, "views", "patch", asks.patch("views", json=body))


@pytest.mark.once
def test_no_request_breaks_the_server(here) -> None:
    """Whatever is sent to a read, there is an answer that the description knows, and no 500."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, settings

    filled(here)
    described = document(here)
    described["paths"] = {
        path: methods
        for path, methods in described["paths"].items()
        if any({"run", "runs"} & set(one.get("tags", ())) for one in methods.values())
        and "journals" not in path
        and "blobs" not in path
    }
    for methods in described["paths"].values():
        methods.pop("delete", None)
    schema = schemathesis.openapi.from_dict(described)
    headers = {"Authorization": f"Bearer {here.admin}"}
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=6,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case):
            if "project" in case.path_parameters:
                case.path_parameters |= {"project": "team/x", "run": "run0"}
            answer = case.call(base_url=here.url, headers=headers)
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            assert answer.content

        from hypothesis import given

        given(case=operation.as_strategy())(ask)()
