"""The description of the API is one to make clients from, and nobody breaks the server."""

from __future__ import annotations

import hashlib
import json

import pytest

pytest.importorskip("fastapi")

from journal_builder import JournalBuilder
from seamark.server.models import MODELS


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
    assert len(names) == len(set(names)) > 25
    for path, method, operation in found:
        if (path.count("{") and method == "delete") or "journals" in path or "blobs" in path:
            continue
        answers = operation["responses"]
        shown = answers["200"]["content"]["application/json"]["schema"]
        assert shown.get("$ref", "").startswith("#/components/schemas/"), (path, method)
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


@pytest.mark.parametrize("shared", ["sqlite"], indirect=True, scope="module")
@pytest.mark.parametrize("arrays", ["base64", "json"])
def test_answers_are_as_described(here, arrays) -> None:
    """What is sent is what the description says, field by field."""
    made = filled(here)
    at = "runs/team/x/run0"
    gets = {
        "overview": f"{at}/overview",
        "ranks": f"{at}/ranks",
        "stragglers": f"{at}/stragglers",
        "writers": f"{at}/writers",
        "attributes": f"{at}/attributes",
        "attribute": f"{at}/attribute?path=loss",
        "has": f"{at}/has?path=loss",
        "families": f"{at}/families",
        "points": f"{at}/points?path=loss",
        "points-part": f"{at}/points-part?path=loss",
        "opening": f"{at}/opening",
        "curve": f"{at}/curve?path=loss",
        "drawing": f"{at}/drawing?path=loss&window=3",
        "texts": f"{at}/texts?path=log",
        "files": f"{at}/files?path=f",
        "histograms": f"{at}/histograms?path=h",
        "last": f"{at}/last?path=h",
        "log": f"{at}/log?path=log",
        "projects": "projects",
        "runs": "runs?columns=lr",
        "names": "runs/names",
        "paths": "paths",
        "changes": "changes",
    }
    refs = [["team/x", "run0"]]
    posts = {
        "select": ("runs/select", {}),
        "fields": ("runs/fields", {}),
        "run-fields": ("runs/paths", {}),
        "groups": ("runs/groups", {"by": ["lr"], "columns": ["loss:mean"]}),
        "losses": ("runs/losses", {"refs": refs}),
        "reasons": ("runs/crash-reasons", {"refs": refs}),
        "attempts": ("runs/attempts", {"refs": refs, "paths": ["loss"]}),
        "series": ("runs/series", {"refs": refs, "paths": ["*"]}),
        "series-paths": ("runs/series-paths", {"refs": refs}),
        "curves": ("curves", {"refs": refs, "paths": ["loss"]}),
        "group-curves": ("curves/groups", {"groups": [{"refs": refs}], "paths": ["loss"]}),
        "text-page": (f"{at}/text-page", {"file": made.file, "paths": ["log"]}),
        "text-begin": (f"{at}/text-begin", {"file": made.file, "paths": ["log"], "lines": 1}),
    }
    kept = hashlib.sha256(b"x").hexdigest()
    here.server.blobs.put("team/x", "run0", kept, 1, 0, b"x")
    posts["link"] = ("link", {"project": "team/x", "run": "run0", "sha256": kept})
    posts["contents"] = (f"{at}/contents", {"sha256": [kept, "0" * 64]})
    claimant = {"host": "here", "pid": 1, "key": "0" * 16, "t": 1}
    posts["arrival"] = ("arrivals", {"project": "team/x", "run": "run9", "name": "new"})
    posts["claimed"] = ("runs/claims", {"refs": refs, "claimant": claimant})
    claim = {"project": "team/x", "name": "run0", "number": 1, "key": "0" * 16}
    posts["held"] = ("runs/claims/held", claim)
    with here.client() as asks:
        for name, address in gets.items():
            answer = asks.get(
                address,
                params=None
                if arrays == "base64"
                else {
                    **dict(
                        part.split("=") for part in address.partition("?")[2].split("&") if part
                    ),
                    "arrays": arrays,
                },
            )
            assert answer.status_code == 200, (address, answer.text)
            MODELS[name].model_validate(answer.json())
        for name, (address, body) in posts.items():
            answer = asks.post(address, json=body, params={"arrays": arrays})
            assert answer.status_code == 200, (address, answer.text)
            MODELS[name].model_validate(answer.json())
        edited = asks.patch("runs", json={"refs": refs, "add_tags": ["x"]})
        MODELS["edited"].model_validate(edited.json())
    assert {*gets, *posts, "edited"} == set(MODELS)


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
            assert answer.status_code == 304 or answer.content

        from hypothesis import given

        given(case=operation.as_strategy())(ask)()
