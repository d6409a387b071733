"""The description of the API is one to make clients from, and nobody breaks the server."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

pytest.importorskip("fastapi")

from journal_builder import JournalBuilder

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
    described = document(here)
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


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
def test_the_description_is_valid(here) -> None:
    """By the schema of OpenAPI 3.1 itself."""
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(document(here))


def filled(here) -> JournalBuilder:
    made = JournalBuilder("one", rank=0)
    made.op("state", state="running").assign(lr=0.5, sys__name="x")
    made.op("add", path="sys/tags", values=["b"])
    made.op("file_point", path="f", file={"sha256": "a" * 64, "size": 1}, step=0.0)
    for step in range(20):
        made.row({"loss": float("nan") if step == 3 else 1.0, "profiling/own_time_s": 1.0}, step)
        made.row({"ranks/1/profiling/own_time_s": 2.0}, step)
    made.texts("log", [0.0, "hello\n"]).histograms("h", (0.0, [0, 1], [3]))
    here.put("run0", made)
    return made


def asked_of(made: JournalBuilder) -> dict[str, dict[str, Any]]:
    """Return a good question for every verb."""
    run: dict[str, Any] = {"project": "team/x", "run": "run0"}
    refs = {"refs": [["team/x", "run0"]]}
    lines = {**run, "file": made.file, "paths": ["log"]}
    return {
        "overview": run,
        "ranks": run,
        "stragglers": run,
        "journals": run,
        "attributes": run,
        "attribute": {**run, "path": "loss"},
        "some": {**run, "paths": ["loss", "lr"]},
        "has": {**run, "path": "loss"},
        "families": run,
        "points": {**run, "paths": ["loss"]},
        "opening": run,
        "curve": {**run, "path": "loss", "points": 100},
        "facts": run,
        "drawing": {**run, "path": "loss", "look": {"window": 3}},
        "texts": {**run, "path": "log"},
        "files": {**run, "path": "f"},
        "histograms": {**run, "path": "h"},
        "last": {**run, "path": "h"},
        "log": {**run, "path": ["log"]},
        "text_page": lines,
        "text_begin": {**lines, "lines": 1},
        "projects": {},
        "table": {"columns": ["lr", "loss", "sys/tags"]},
        "names": {},
        "paths": {},
        "changes": {},
        "select": {},
        "shared": {},
        "fields": {},
        "groups": {"by": ["lr"], "columns": ["loss:mean"]},
        "losses": refs,
        "crash_reasons": refs,
        "attempts": {**refs, "paths": ["loss"]},
        "series": {**refs, "paths": ["*"]},
        "series_paths": refs,
        "curves": {**refs, "paths": ["loss"]},
        "group_curves": {"groups": [refs], "paths": ["loss"]},
    }


def checked(described, path: str, method: str, answer) -> None:
    """Check an answer by the schema that the description has for it."""
    jsonschema = pytest.importorskip("jsonschema")
    operation = described["paths"][f"/api/v1/{path}"][method]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.status_code == 200, (path, answer.text)
    whole = {**schema, "components": described["components"]}
    jsonschema.Draft202012Validator(whole).validate(answer.json())


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
@pytest.mark.parametrize("arrays", ["base64", "json"])
def test_answers_are_as_described(here, arrays) -> None:
    """What is sent is what the description says, field by field, and so is what was asked."""
    jsonschema = pytest.importorskip("jsonschema")
    questions, described = asked_of(filled(here)), document(here)
    assert set(questions) == set(reads.verbs())
    with here.client() as asks:
        for verb, question in questions.items():
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
    """The same of what changes something."""
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
