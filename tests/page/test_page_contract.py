"""A page of a folder answers as a server does that has the same runs, and as Python reads them."""

from __future__ import annotations

import contextlib
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")

from databases import fresh_database
from page_process import until
from page_served import PROJECT, client_of, page, read, record
from served import folding, served

from seamark.journal.folder import RunFolder
from seamark.reading.codec import Curves
from seamark.server.settings import Limits


def size_of(root, run):
    """Return how many bytes the journals of a run have."""
    return sum(one.path.stat().st_size for one in RunFolder(root, PROJECT, run).journals())


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def both(request, postgresql, tmp_path_factory):
    """A page of a folder, and a server on either engine that was sent the same runs."""
    root, folder = tmp_path_factory.mktemp("both") / "root", tmp_path_factory.mktemp("server")
    with contextlib.ExitStack() as stack:
        store = None
        if request.param == "postgresql":
            store = stack.enter_context(fresh_database(postgresql()))
        there = stack.enter_context(served(folder, store=store))
        stack.enter_context(folding(there.server))
        ids = record(root, there.url, there.token)
        sent = {(PROJECT, run): size_of(root, run) for run in ids.values()}
        # What is sent whole is compared; a run that failed is sent after it has ended here.
        until(lambda: all(there.server.intake.known(*ref)[1] == sent[ref] for ref in sent))
        wanted = ", ".join(f"{project}/{run}={size}" for (project, run), size in sent.items())
        seen, api = {"Seamark-Position": wanted}, f"{there.url}/api/v1/"
        with page(root) as own, client_of(api, there.token, **seen) as client:
            while "seamark-behind" in client.post("read/projects").headers:
                pass
            yield SimpleNamespace(
                page=own, server=client, stranger=own.stranger, ids=ids, root=root, there=there
            )


LOSS, CURVES = {"path": "train/loss"}, {"paths": ["train/loss"]}
OF_RUN = [
    ("facts", {}),
    ("overview", {}),
    ("attributes", {}),
    ("attribute", {"path": "parameters/lr"}),
    ("some", {"paths": ["sys/name", "nothing"]}),
    ("has", {"path": "train"}),
    ("families", {}),
    ("points", {"paths": ["train/loss", "train/acc"]}),
    ("points", CURVES | {"limit": 5}),
    ("curve", LOSS | {"points": 20}),
    ("drawing", LOSS | {"look": {"points": 40, "x": "train/acc", "log_x": True}}),
    ("texts", {"path": "log"}),
    ("files", LOSS),
    ("last", {"path": "log"}),
    ("log", {"path": ["log"]}),
    ("ranks", {}),
]
SHOWN = ["sys/name", "parameters/*", "train/loss:min"]
OF_ALL = [
    ("projects", {}),
    ("table", {"columns": SHOWN, "sort_by": "train/loss:min"}),
    ("table", {"query": "no such grammar"}),
    ("table", {"sort_by": "never/was"}),
    ("table", {"project": "elsewhere"}),
    ("names", {}),
    ("paths", {}),
    ("select", {"tag": "t1"}),
    ("shared", {"contains": "train"}),
    ("fields", {"contains": "parameters"}),
    ("groups", {"by": ["parameters/optimizer"], "columns": ["train/loss:min"]}),
    ("losses", {"refs": "all"}),
    ("attempts", {"refs": "all", "paths": ["train/loss", "never/was", "log"]}),
    ("attempts", CURVES | {"refs": "all", "x": "order"}),
    ("attempts", CURVES | {"refs": [["../..", "etc"]]}),
    ("crash_reasons", {"refs": "all"}),
    ("series_paths", {"refs": "all"}),
    ("series", {"refs": "all", "paths": ["train/*"]}),
    ("curves", {"refs": "all", "paths": ["train/loss", "train/acc"], "px": 50, "window": 11}),
    ("group_curves", CURVES | {"groups": "all", "px": 50}),
    ("curves", CURVES | {"refs": [[PROJECT, "never-was"]]}),
    ("curves", CURVES | {"refs": [["../..", "etc"]]}),
]
_ITS_OWN = {"seen", "cursor", "looked_ns", "left", "last_record_ns", "last_t", "row_t", "end_t"}
"""Facts about the answering side; the last ones a server knows by its own clock."""


def _same(told):
    if isinstance(told, dict):
        return {key: _same(value) for key, value in told.items() if key not in _ITS_OWN}
    return [_same(one) for one in told] if isinstance(told, list) else told


def of_run(both):
    return {"project": PROJECT, "run": both.ids["run-1"]}


def test_a_folder_answers_as_a_server_does(both):
    refs = [[PROJECT, run] for run in both.ids.values()]
    given = {"refs": refs, "groups": [{"by": {"x": 1}, "refs": refs}]}
    for verb, question in [
        *((verb, of_run(both) | question) for verb, question in OF_RUN),
        *((verb, {k: given[k] if v == "all" else v for k, v in q.items()}) for verb, q in OF_ALL),
    ]:
        own = both.page.client.post(f"{both.page.base}read/{verb}", json=question)
        other = both.server.post(f"read/{verb}", json=question)
        assert own.status_code == other.status_code, (verb, question)
        assert own.status_code in {200, 404, 422}, (verb, question)
        assert _same(own.json()) == _same(other.json()), (verb, question)


def test_a_second_answer_with_curves_has_only_what_changed(both):
    ref = [PROJECT, both.ids["run-0"]]
    body = {"refs": [ref], "paths": ["train/loss"], "px": 50}
    asking = (both.page.client, both.page.base)
    (whole,) = read(*asking, "curves", of=Curves, **body).curves
    body["since"] = [[*ref, "train/loss", whole.cursor]]
    (rest,) = read(*asking, "curves", of=Curves, **body).curves
    assert rest.drawing.kept == len(whole.drawing.curve) > 10
    assert rest.cursor == whole.cursor


def test_an_answer_that_did_not_change_has_no_body(both):
    run = of_run(both)
    for verb, question in (("table", {}), ("projects", {}), ("overview", run), ("attributes", run)):
        at = f"{both.page.base}read/{verb}"
        seen = both.page.client.post(at, json=question).json()["seen"]
        again = both.page.client.post(at, json=question | {"seen": seen})
        assert again.json() == {"unchanged": True}
        assert again.headers["seamark-looked"] == "12345"


def test_a_server_serves_the_same_page(both):
    url, get = both.there.url, both.stranger.get
    html = {"Accept": "text/html,*/*"}
    page_of_server = get(f"{url}/", headers=html)
    version = page_of_server.headers["seamark-version"]
    assert f"static/{version}/js/main.js" in page_of_server.text
    assert get(f"{url}/static/{version}/js/main.js").status_code == 200
    assert get(f"{url}/").status_code == 404
    assert get(f"{url}/{PROJECT}/e/RUN-1").status_code == 404
    led = get(f"{url}/{PROJECT}/e/RUN-1", headers=html)
    assert (led.status_code, led.headers["location"]) == (
        303,
        "../../../?project=team%2Fvision&run=RUN-1",
    )
    assert get(f"{url}/{PROJECT}/e/..%5cx", headers=html).status_code == 404
    greeting = get(f"{url}/api/v1/").json()
    assert (greeting["login"], greeting["roots"][0]["api"]) == ("account", "api/v1/")


def test_refusals_before_routing_name_the_version(both):
    """A page that is older than the server can say so."""
    limits = Limits()
    for url in (both.page.url, f"{both.there.url}/"):
        version = both.stranger.get(url, headers={"Accept": "text/html"}).headers["seamark-version"]
        for status, path, name, value in (
            (413, "", "Content-Length", str(limits.json_bytes + 1)),
            (414, f"?query={'x' * limits.target_bytes}", "X-More", ""),
            (431, "", "X-More", "x" * limits.header_bytes),
        ):
            with contextlib.closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
                connection.putrequest("POST", f"/api/v1/read/table{path}")
                connection.putheader(name, value)
                connection.endheaders()
                answer = connection.getresponse()
                assert answer.status == status
                assert answer.headers["seamark-version"] == version
                assert int(answer.headers["seamark-now"])


def test_missing_contents_of_files_are_known_before_they_are_fetched(both):
    run, none = both.ids["run-0"], "0" * 64
    for client, base, url in (
        (both.page.client, both.page.base, both.page.url),
        (both.server, "", f"{both.there.url}/"),
    ):
        found = read(client, base, "attribute", project=PROJECT, run=run, path="film")
        digest = found["value"]["sha256"]
        at = f"{base}runs/{PROJECT}/{run}/contents"
        asked = {"sha256": [none, digest, none]}
        while (told := client.post(at, json=asked).json()["absent"]) != [none]:
            assert told == sorted({none, digest})  # it is still being sent
        assert client.post(at, json={"sha256": []}).json() == {"absent": []}
        for wrong in (["x"], [digest] * 1001, ["../" + digest]):
            assert client.post(at, json={"sha256": wrong}).status_code == 422
        whole = at if base else f"api/v1/{at}"
        assert both.stranger.post(url + whole, json=asked).status_code == 401
