"""The description of the API is one to make clients from, and nobody breaks the server."""

from __future__ import annotations

import hashlib
import json

import pytest
from journal_builder import JournalBuilder
from questions import of_many, of_run

from seamark.server import reads


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


ARRAYS = ("points", "curve", "drawing", "histograms", "series", "curves", "group_curves")
CLAIMANT = {"host": "here", "pid": 1, "key": "0" * 16, "t": 1}
CLAIM = {"project": "team/x", "name": "run0", "number": 1, "key": "0" * 16}
KEPT = hashlib.sha256(b"x").hexdigest()
EDITS = [
    # method, path below the API, and body; in this order
    ("post", "link", {"project": "team/x", "run": "run0", "sha256": KEPT}),
    ("post", "runs/{project}/{run}/contents", {"sha256": [KEPT, "0" * 64]}),
    ("post", "arrivals", {"project": "team/x", "run": "run9", "name": "new"}),
    ("post", "runs/claims", {"refs": [["team/x", "run0"]], "claimant": CLAIMANT}),
    ("post", "runs/claims/held", CLAIM),
    ("post", "runs/claims/release", CLAIM),
    ("post", "views", {"project": "team/x"}),
    ("patch", "runs", {"refs": [["team/x", "run0"]], "add_tags": ["x"]}),
    ("patch", "views", {"project": "team/x", "name": "v", "was": None, "address": "?v=1"}),
]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True, scope="module")
def test_questions_and_answers_are_as_the_openapi_document_says(here) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    run = {"project": "team/x", "run": "run0"}
    questions = {verb: run | more for verb, more in of_run(filled(here).file).items()}
    questions |= of_many("team/x", "run0")
    assert set(questions) == set(reads.verbs())
    here.server.blobs.put("team/x", "run0", KEPT, 1, 0, b"x")
    with here.client() as asks:
        document = asks.get("openapi.json").json()
        operations = [
            (path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if {"run", "runs"} & set(operation.get("tags", ()))
            and not (path.count("{") and method == "delete")
        ]
        names = [operation["operationId"] for _, operation in operations]
        assert len(names) == len(set(names)) > 40
        assert set(reads.verbs()) <= set(names)
        assert "hint" in json.dumps(document["components"]["schemas"]["Failure"])
        for path, operation in operations:
            if "journals" not in path and "blobs" not in path:
                schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
                assert schema, path
                assert "401" in operation["responses"], path

        def check(content, value):
            whole = {**content["application/json"]["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator.check_schema(whole)
            jsonschema.Draft202012Validator(whole).validate(value)

        def check_answer(path, method, answer):
            operation = document["paths"][f"/api/v1/{path}"][method]
            assert answer.status_code == 200, (path, answer.text)
            check(operation["responses"]["200"]["content"], answer.json())
            return operation

        for arrays, verbs in (("base64", questions), ("json", ARRAYS)):
            for verb in verbs:
                path, question = f"read/{verb}", questions[verb]
                answer = asks.post(path, json=question, params={"arrays": arrays})
                operation = check_answer(path, "post", answer)
                check(operation["requestBody"]["content"], question)
                told = answer.json()
                assert told["answer"] not in (None, {}) or verb == "changes", verb
                # What is several values has no class of its own.
                assert verb not in ("overview", "table", "curves") or "$" not in told["answer"]
                if seen := told.get("seen"):
                    again = asks.post(path, json={**question, "seen": seen})
                    assert again.json() == {"unchanged": True}
                    check_answer(path, "post", again)
        for method, path, body in EDITS:
            answer = asks.request(method, path.format(**run), json=body)
            check_answer(path, method, answer)
