"""What somebody with a token for one project, or with none, tries against all others."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import uuid
from urllib.parse import urlsplit

import pytest
from asking import ask
from folding import a_journal
from recording import QUIET
from served import served

import seamark
from seamark.server.folding.turns import fold_turn
from seamark.server.writer import own_journal

SECRET = b"<script>the bytes of somebody else</script>"
DIGEST = hashlib.sha256(SECRET).hexdigest()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A server whose folder lies in another one, in which nothing else is."""
    with served(tmp_path_factory.mktemp("attacked") / "server") as one:
        yield one


def token_for(here, user, project, role="contributor"):
    name = f"{user}-{uuid.uuid4().hex[:8]}"
    body = {"user": name, "project": project, "role": role, "service": True}
    return str(ask(here.url, "POST", "accounts/tokens", here.token, body).json()["token"])


def send(here, project, run, made, token=""):
    path = f"runs/{project}/{run}/journals/{made.file}?offset=0"
    return ask(here.url, "PUT", path, token or here.token, made.data)


def fold(here, project, run):
    server = here.server
    while fold_turn(server.store(), server.kept, project, run, server.now_ns).more:
        pass


def test_journals_of_edits_are_written_by_the_server_alone(here):
    project, run = "edits/a", "run1"
    mine = token_for(here, "editor", project)
    for number in (0, 15):
        uid, writer = own_journal(here.server.instance, project, run, number)
        path = f"runs/{project}/{run}/journals/{writer}.{uid.hex()}?offset="
        for query, body in (("0", a_journal("one", project, run).data), ("64&gap=64", b"")):
            answer = ask(here.url, "PUT", path + query, mine, body)
            assert (answer.status, answer.json()["error"]) == (422, "reserved")


def test_digest_opens_no_file_of_another_project(here, tmp_path, monkeypatch):
    """Neither asked for, nor named by a journal of one's own, nor begun to be sent."""
    query = f"?offset=0&size={len(SECRET)}"
    kept = ask(here.url, "PUT", f"runs/vault/x/run1/blobs/{DIGEST}{query}", here.token, SECRET)
    assert kept.status == 200
    mine = token_for(here, "thief", "thief/x")
    blobs = "runs/thief/x/run1/blobs"
    made = a_journal("one", "thief/x", "run1")
    record = {"name": "s", "ext": "html", "size": len(SECRET), "sha256": DIGEST}
    made.op("file", path="stolen", file=record)
    assert send(here, "thief/x", "run1", made, mine).status == 200
    fold(here, "thief/x", "run1")
    missing = ask(here.url, "POST", blobs, mine, {"digests": [DIGEST]})
    assert missing.json() == {"missing": [DIGEST]}
    begun = ask(here.url, "PUT", f"{blobs}/{DIGEST}{query}", mine, SECRET[:1])
    assert begun.json() == {"offset": 1, "complete": False}
    assert ask(here.url, "GET", f"{blobs}/{DIGEST}/upload", mine).json() == begun.json()
    # The server has the bytes, but this project sent one of them: no other comes of it.
    end = f"?offset={len(SECRET)}&size={len(SECRET)}"
    rest = ask(here.url, "PUT", f"{blobs}/{DIGEST}{end}", mine, b"")
    assert (rest.status, rest.json()["known"]) == (409, 1)
    for path in (f"{blobs}/{DIGEST}", f"runs/vault/x/run1/blobs/{DIGEST}"):
        answer = ask(here.url, "GET", path, mine)
        assert (answer.status, SECRET in answer.body) == (404, False)
    monkeypatch.setenv("SEAMARK_API_TOKEN", mine)
    given = {"with_id": "run1", "remote": here.url, "mode": "read-only", **QUIET}
    with pytest.raises(FileNotFoundError):
        seamark.init_run("thief/x", **given)["stolen"].download(str(tmp_path / "out"))


NAMES = [
    *("..", "%2e%2e", "..%2f..%2fetc", "..%5c..%5cetc", "%c0%ae%c0%ae%2f", "a%00b"),
    *("a%0d%0aSet-Cookie:%20x=y", "%ff%fe", "%e2%80%aex", ".purged", ".new", "x" * 3000),
]
NUMBERS = ["", "offset=-1", f"offset={'9' * 22}", "offset=nan", f"offset=32&gap={1 << 60}"]


def test_names_lead_nowhere_and_make_nothing(here):
    """Those of projects, runs, journals and contents, and numbers that cannot be."""
    made = a_journal("one", "names/x", "run1")
    above = here.server.settings.folder.parent
    before = {each for each in above.rglob("*") if each.is_dir()}
    of_blob = f"?offset=0&size={len(SECRET)}"
    targets = [f"names/x/run1/journals/{made.file}?{query}" for query in NUMBERS]
    targets.append(f"names/journal/run1/journals/{made.file}?offset=0")
    for name in NAMES:
        targets += [
            *(f"{name}/x/run1/journals/{made.file}?offset=0",),
            *(f"names/{at}/journals/{made.file}?offset=0" for at in (f"{name}/run1", f"x/{name}")),
            *(f"names/x/run1/journals/{name}{end}?offset=0" for end in ("", f".{made.uid.hex()}")),
            *(f"names/{at}/blobs/{DIGEST}{of_blob}" for at in (f"{name}/run1", f"x/{name}")),
            f"names/x/run1/blobs/{name}{of_blob}",
            f"names/x/{name}/blobs",
        ]
    parts = urlsplit(here.url)
    headers = {"Authorization": f"Bearer {here.token}", "Content-Type": "application/json"}
    for target in targets:
        data = SECRET if "/blobs/" in target else made.data
        asked = [("PUT", data), ("GET", b"")]
        if target.endswith("/blobs"):
            asked = [("POST", json.dumps({"digests": [DIGEST]}).encode())]
        for method, body in asked:
            # By a client that sends every target as it is.
            wire = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
            with contextlib.closing(wire):
                wire.request(method, f"/api/v1/runs/{target}", body, headers)
                answer = wire.getresponse()
                said = answer.read()
            assert answer.status in {400, 404, 405, 422}, (method, target[:80], said)
            assert b"Traceback" not in said
            assert b"root:" not in said
    assert {each for each in above.rglob("*") if each.is_dir()} == before
    assert not any(each.project.startswith("names") for each in here.server.kept.runs())


def test_endless_or_packed_json_is_refused(here):
    json_type = {"Content-Type": "application/json"}
    bodies: list[tuple[bytes, dict[str, str]]] = [
        (b"[" * 500_000, {}),
        (b'{"limit": ' + b"9" * 500_000 + b"}", {}),
        (b'{"limit": 1e999999}', {}),
        (b'{"limit": NaN}', {}),
        (b"\x1f\x8b\x08" + bytes(1000), {"Content-Encoding": "gzip"}),
        (json.dumps({"query": "(" * 16_000}).encode(), {}),
    ]
    for body, headers in bodies:
        for token, refused in ((here.token, {400, 413, 415, 422}), ("", {401, 413, 415})):
            answer = ask(here.url, "POST", "read/table", token, body, {**json_type, **headers})
            assert answer.status in refused, (body[:20], answer.body[:200])
            assert set(answer.json()) >= {"error", "hint"}
    assert ask(here.url, "GET", "").status == 200


def test_token_is_in_no_answer_and_no_log(here, caplog):
    mine = token_for(here, "careless", "careless/x")
    for path in (f"runs/{mine}/x/journals", f"read/table?query={mine}", f"accounts/tokens/{mine}x"):
        ask(here.url, "GET", path, mine)
        ask(here.url, "DELETE", path, mine)
    ask(here.url, "POST", "read/overview", mine, {"project": mine, "run": mine})
    ask(here.url, "POST", "read/table", mine, {"query": mine})
    answer = ask(here.url, "GET", "accounts/audit", here.token)
    assert mine.encode() not in answer.body
    assert mine not in caplog.text
