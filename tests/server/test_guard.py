"""No route answers anybody whom it did not ask."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from asking import ask
from folding import a_journal
from questions import of_many, of_run
from served import served

from seamark.server.app import routers
from seamark.server.folding.turns import fold_turn

SECRET = "team/kept-to-itself"


WORTH = "s3cret-worth"
"""What only they may see who may read the run: a value, and part of its paths and tags."""
RUN = "run1"

OF_A_RUN: dict[tuple[str, str], tuple[str, str, Any]] = {
    # method and what follows the run: the smallest role, the query, and the body
    ("DELETE", ""): ("owner", "", None),
    ("GET", "blobs/{digest}"): ("viewer", "", None),
    ("GET", "blobs/{digest}/upload"): ("contributor", "", None),
    ("GET", "journals"): ("contributor", "", None),
    ("GET", "journals/{journal}"): ("contributor", "?offset=0", None),
    ("POST", "blobs"): ("contributor", "", {"digests": ["0" * 64]}),
    ("POST", "contents"): ("viewer", "", {"sha256": ["0" * 64]}),
    ("PUT", "blobs/{digest}"): ("contributor", "?offset=0&size=9", b"x"),
    ("PUT", "journals/{journal}"): ("contributor", "?offset=0", b"{data}"),
}
READS_OF_A_RUN = of_run("", f"{WORTH}/")
_REFS = {"refs": [[SECRET, RUN]]}
_CLAIMED = {"project": SECRET, "name": RUN, "number": 1, "key": "0" * 16}
_CLAIMANT = {"host": "here", "pid": 1, "key": "0" * 16, "t": 1}
_SOME = {"project": SECRET}
_MORE: dict[str, list[Any]] = {
    **{key: [_SOME] for key in ("fields", "names", "paths", "projects", "shared")},
    "select": [{"query": f"`{WORTH}/lrr` > 0", "unknown": "tell"}],
    "table": [{"columns": ["*"]}, _SOME, {"id": RUN}, {"query": f"`{WORTH}/lr` > 0"}],
}
OF_MANY: dict[tuple[str, str], list[Any]] = {
    **{
        ("POST", f"/read/{verb}"): [body, *_MORE.get(verb, ())]
        for verb, body in of_many(SECRET, RUN, f"{WORTH}/").items()
    },
    ("PATCH", "/runs"): [{**_REFS, "add_tags": ["x"]}],
    ("PATCH", "/views"): [{"project": SECRET, "name": "v", "was": None, "address": ""}],
    ("POST", "/views"): [{"project": SECRET}],
    ("POST", "/arrivals"): [{"project": SECRET, "run": "another"}],
    ("POST", "/link"): [{"project": SECRET, "run": RUN, "sha256": "0" * 64}],
    ("POST", "/runs/claims"): [{**_REFS, "claimant": _CLAIMANT}],
    ("POST", "/runs/claims/held"): [_CLAIMED],
    ("POST", "/runs/claims/release"): [_CLAIMED],
}
WITHOUT = "/linked/{signed}/{name}"
"""Answers without a token what was signed for it; see `tests/page/test_page_edits.py`."""
CHANGING = {
    ("PATCH", "/runs"),
    ("PATCH", "/views"),
    ("POST", "/arrivals"),
    *(("POST", f"/runs/claims{what}") for what in ("", "/held", "/release")),
}
"""What a viewer may not do."""


USERS = [
    ("stranger", "elsewhere/x", "owner"),
    ("sibling", "team/another", "owner"),
    ("namesake", f"{SECRET}-too", "owner"),  # its name begins like the other's
    ("viewer", SECRET, "viewer"),
    ("contributor", SECRET, "contributor"),
]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """A server with one run of one project, and tokens of all kinds."""
    with served(tmp_path_factory.mktemp("server")) as here:
        tokens = {"nobody": ""}
        for user, project, role in USERS:
            body = {"user": user, "project": project, "role": role, "service": True}
            answer = ask(here.url, "POST", "accounts/tokens", here.token, body)
            tokens[user] = answer.json()["token"]
        made = a_journal("one", SECRET, RUN)
        made.assign(**{f"{WORTH}__lr": 0.5, f"{WORTH}__worth": WORTH})
        made.op("add", path="sys/tags", values=[WORTH])
        made.row({f"{WORTH}/loss": 1.0}, 0).row({f"{WORTH}/loss": 2.0}, 1)
        made.texts(f"{WORTH}/text", (0, WORTH))
        path = f"runs/{SECRET}/{RUN}/journals/{made.file}?offset=0"
        assert ask(here.url, "PUT", path, here.token, made.data).status == 200
        server = here.server
        while fold_turn(server.store(), server.kept, SECRET, RUN, server.now_ns).more:
            pass
        yield SimpleNamespace(url=here.url, made=made, **tokens)


def test_every_route_has_a_request_in_these_tables():
    of_run, many, reads = set(), set(), {f"/read/{verb}" for verb in READS_OF_A_RUN}
    routes = [
        (method, route.path)
        for router in routers()
        for route in router.routes
        for method in route.methods
    ]
    assert len(routes) > 30
    for method, path in routes:
        if "{project" in path:
            rest = path.removeprefix("/runs/{project:path}/{run}").lstrip("/")
            of_run.add((method, rest))
        elif path in reads:
            reads.remove(path)
        elif not path.startswith("/accounts") and path not in ("/", WITHOUT):
            many.add((method, path))  # those have tables of their own
    assert of_run == set(OF_A_RUN)
    assert many == set(OF_MANY)
    assert not reads


@pytest.mark.parametrize("case", OF_A_RUN, ids=" ".join)
def test_run_is_hidden_from_other_tokens(tenants, case):
    least, query, body = OF_A_RUN[case]
    method, rest = case
    rest = rest.replace("{digest}", "0" * 64).replace("{journal}", tenants.made.file)
    if body == b"{data}":
        body = tenants.made.data

    def asked(token, project):
        path = f"runs/{project}/{RUN}/{rest}".rstrip("/") + query
        return ask(tenants.url, method, path, token, body)

    check_hidden(tenants, asked)
    answer = asked(tenants.viewer, SECRET)
    # What this run does not have is said to those who may read it.
    has_not = rest == f"blobs/{'0' * 64}"
    expected = 403 if least != "viewer" else 404 if has_not else 200
    assert answer.status == expected, answer.body
    if least == "contributor":
        answer = asked(tenants.contributor, SECRET)
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("verb", READS_OF_A_RUN)
def test_reads_of_a_run_are_hidden_from_other_tokens(tenants, verb):
    arguments = of_run(tenants.made.file, f"{WORTH}/")[verb]
    for accept in ({}, {"Accept": "application/msgpack"}):

        def asked(token, project, accept=accept):
            question = {"project": project, "run": RUN, **arguments}
            return ask(tenants.url, "POST", f"read/{verb}", token, question, accept)

        check_hidden(tenants, asked)
        answer = asked(tenants.viewer, SECRET)
        # There are no ranks to compare, and that is said to those who may read the run.
        assert answer.status == (404 if verb == "stragglers" else 200), answer.body


def check_hidden(tenants, asked):
    """Check that a run answers to strangers as if it were not there."""
    assert asked(tenants.nobody, SECRET).status == 401
    for who in ("stranger", "sibling", "namesake"):
        token = getattr(tenants, who)
        answer, nowhere = asked(token, SECRET), asked(token, "no/such")
        assert (answer.status, nowhere.status) == (404, 404), (who, answer.body)
        assert WORTH.encode() not in answer.body
        assert nowhere.body.replace(b"no/such", SECRET.encode()) == answer.body


@pytest.mark.parametrize("case", OF_MANY, ids=" ".join)
def test_run_is_in_no_table_and_no_message_for_other_tokens(tenants, case):
    method, path = case
    told = b""
    for body in OF_MANY[case]:
        for who in ("stranger", "sibling", "namesake", "nobody"):
            answer = ask(tenants.url, method, path.lstrip("/"), getattr(tenants, who), body)
            assert answer.status in {200, 401, 403, 404, 422}, answer.body
            assert (answer.status == 401) == (who == "nobody")
            asked_for = json.dumps(body).encode() if body else b""
            if WORTH.encode() not in asked_for:
                assert WORTH.encode() not in answer.body, answer.body
            assert f'"{RUN}"'.encode() not in answer.body, answer.body
            assert b'"loss"' not in answer.body
            assert b"/lr'" not in answer.body  # no "there is ..." of a path of others
        answer = ask(tenants.url, method, path.lstrip("/"), tenants.viewer, body)
        # There is no such content to make an address of, and that is said to those who may read it.
        expected = 403 if case in CHANGING else 404 if path == "/link" else 200
        assert answer.status == expected, answer.body
        told += answer.body
    silent = {f"/read/{verb}" for verb in ("changes", "attempts", "crash_reasons", "losses")}
    if case not in CHANGING and path not in silent:
        assert SECRET.encode() in told or WORTH.encode() in told, told
